//! Canonical bytes of records: equal bytes if and only if the same program can be used. Values of scalars, sites and
//! addresses are not part of them. Stable across processes and machines.

use crate::op::host;
use crate::record::{
    Arg, Format, Operator, Origin, Output, Read, Record, Records, Value, View, Write,
};

fn int(out: &mut Vec<u8>, n: i64) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn ints(out: &mut Vec<u8>, list: &[i64]) {
    out.push(list.len() as u8);
    list.iter().for_each(|&n| int(out, n));
}

fn format(out: &mut Vec<u8>, f: &Format) {
    out.push(f.dtype as u8);
    ints(out, &f.sizes);
}

fn view(out: &mut Vec<u8>, v: &View) {
    out.push(v.dtype as u8);
    ints(out, &v.layout.sizes);
    ints(out, &v.layout.strides);
    int(out, v.layout.offset);
}

fn read(out: &mut Vec<u8>, r: &Read) {
    out.extend_from_slice(&r.value.to_le_bytes());
    view(out, &r.view);
}

fn write(out: &mut Vec<u8>, w: &Write) {
    // One more than the index, so that "covers the buffer" is 0.
    out.extend_from_slice(&w.old.map_or(0, |v| v + 1).to_le_bytes());
    view(out, &w.view);
}

fn long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn arg(out: &mut Vec<u8>, a: &Arg) {
    match a {
        Arg::None => out.push(0),
        Arg::Tensor(r) => {
            out.push(1);
            read(out, r);
        }
        Arg::Tensors(list) => {
            out.push(2);
            out.extend_from_slice(&(list.len() as u32).to_le_bytes());
            for r in list {
                out.push(r.is_some() as u8);
                r.iter().for_each(|r| read(out, r));
            }
        }
        Arg::Scalar { kind, .. } => out.extend_from_slice(&[3, *kind as u8]),
        Arg::Int(i) => {
            out.push(4);
            int(out, *i);
        }
        Arg::Float(f) => {
            out.push(5);
            out.extend_from_slice(&f.to_bits().to_le_bytes());
        }
        Arg::Bool(b) => out.extend_from_slice(&[6, *b as u8]),
        Arg::Ints(list) => {
            out.push(7);
            out.extend_from_slice(&(list.len() as u32).to_le_bytes());
            list.iter().for_each(|&n| int(out, n));
        }
        Arg::Floats(list) => {
            out.push(8);
            let bytes: Vec<u8> = list.iter().flat_map(|f| f.to_bits().to_le_bytes()).collect();
            long(out, &bytes);
        }
        Arg::Bools(list) => {
            out.push(9);
            let bytes: Vec<u8> = list.iter().map(|&b| b as u8).collect();
            long(out, &bytes);
        }
        Arg::DType(d) => out.extend_from_slice(&[10, *d as u8]),
        Arg::Str(s) => {
            out.push(11);
            long(out, s.as_bytes());
        }
    }
}

/// Appends a record. Slots of scalars are numbered in order of recording, so they are left out.
pub fn record(out: &mut Vec<u8>, r: &Record) {
    match r.op {
        Operator::Native(row) => {
            out.push(0);
            out.extend_from_slice(&row.to_le_bytes());
        }
        Operator::Host(id) => {
            out.push(1);
            // The number is this process's own; the key is not.
            long(out, host::get(id).map_or(String::new(), |op| op.key.clone()).as_bytes());
        }
    }
    out.extend_from_slice(&(r.args.len() as u32).to_le_bytes());
    r.args.iter().for_each(|a| arg(out, a));
    out.extend_from_slice(&(r.outs.len() as u32).to_le_bytes());
    r.outs.iter().for_each(|w| write(out, w));
}

/// The program's inputs: the formats of its leaves, and which values are zeros.
pub fn leaves(values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let tag = match value.origin {
            Origin::Leaf(_) => 0,
            Origin::Zeros => 1,
            Origin::Written { .. } => continue,
        };
        out.extend_from_slice(&(index as u32).to_le_bytes());
        out.push(tag);
        format(&mut out, &value.format);
    }
    out
}

/// The values that the program leaves behind.
pub fn outputs(list: &[Output]) -> Vec<u8> {
    list.iter().flat_map(|o| o.value.to_le_bytes()).collect()
}

/// The leaves that it may overwrite.
pub fn donors(list: &[Output]) -> Vec<u8> {
    list.iter().flat_map(|o| o.donor.map_or(0, |leaf| leaf + 1).to_le_bytes()).collect()
}

/// The named parts of a key that a trace decides.
pub fn parts(trace: &Records) -> Vec<(&'static str, Vec<u8>)> {
    let mut bytes = Vec::new();
    trace.records.iter().for_each(|r| record(&mut bytes, r));
    vec![
        ("records", bytes),
        ("leaves", leaves(&trace.values)),
        ("outputs", outputs(&trace.outputs)),
        ("donors", donors(&trace.outputs)),
    ]
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
