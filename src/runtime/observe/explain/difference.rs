//! Why a program had to be compiled: the first difference between its trace and one that was compiled before.

use crate::cache::encode;
use crate::error::Site;
use crate::op::arg::ScalarKind;
use crate::record::{Arg, Format, Origin, Output, Read, Record, View, Write};
use crate::shape::Dims;
use crate::trace::{RecordedTrace, operator_name};
use std::sync::Arc;

/// A compiled trace: its records and its outputs.
#[derive(Clone)]
pub struct PriorCompile {
    pub trace: Arc<RecordedTrace>,
    pub outputs: Vec<Output>,
}

/// The part of an operation that a change concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Argument(usize),
    /// Element of a list of tensors.
    Element(usize, usize),
    Result(usize),
    /// The operation itself.
    Operation,
}

/// The first difference between two traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Index of the operation in the new trace.
    pub record: usize,
    pub operator: String,
    pub subject: Subject,
    /// One of operator, shape, dtype, layout, alias, scalar, attribute, arguments, results, format, length, outputs or donation.
    pub aspect: &'static str,
    pub old: String,
    pub new: String,
    pub site: Site,
    pub old_site: Site,
}

/// How a trace relates to the nearest known one.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Nothing was compiled before.
    First,
    /// No known trace begins with its first operator.
    New,
    /// Nothing differs: its program was dropped from the cache, or never finished.
    Again,
    Changed(Change),
}

/// Compares `new` with the nearest of `known` (the most recent one last): the one with the longest common prefix of operators,
/// then with the longest common prefix of records.
pub fn explain<'a>(known: impl Iterator<Item = &'a PriorCompile>, new: &PriorCompile) -> Why {
    let nearness = |old: &&PriorCompile| {
        let (a, b) = (&old.trace, &new.trace);
        let same_length = a.records.len() == b.records.len();
        (shared_operators(a, b), shared_records(a, b), same_length, old.outputs == new.outputs)
    };
    let mut known = known.peekable();
    if known.peek().is_none() {
        return Why::First;
    }
    match known.max_by_key(nearness) {
        Some(old) if shared_operators(&old.trace, &new.trace) > 0 => {
            first_change(old, new).map_or(Why::Again, Why::Changed)
        }
        _ => Why::New,
    }
}

fn shared_operators(a: &RecordedTrace, b: &RecordedTrace) -> usize {
    a.records.iter().zip(&b.records).take_while(|(a, b)| a.op == b.op).count()
}

fn shared_records(a: &RecordedTrace, b: &RecordedTrace) -> usize {
    a.marks.iter().zip(&b.marks).take_while(|(a, b)| a.chain == b.chain).count()
}

fn first_change(old: &PriorCompile, new: &PriorCompile) -> Option<Change> {
    let shared = shared_records(&old.trace, &new.trace);
    format_change(old, new, shared)
        .or_else(|| record_change(&old.trace, &new.trace, shared))
        .or_else(|| output_change(old, new))
}

/// A difference in the format of a leaf, before the records themselves differ.
fn format_change(old: &PriorCompile, new: &PriorCompile, shared: usize) -> Option<Change> {
    let limit = new.trace.mark(shared).values;
    let pairs = old.trace.values.iter().zip(&new.trace.values[..limit]);
    let (value, (a, b)) = pairs.enumerate().find(|(_, (a, b))| encode_leaf(a) != encode_leaf(b))?;
    let record = new.trace.marks.iter().position(|mark| mark.values > value)?;
    let reader = &new.trace.records[record];
    let reads = |arg: &Arg| matches!(arg, Arg::Tensor(read) if read.value as usize == value);
    let argument = reader.args.iter().position(reads);
    Some(Change {
        record,
        operator: operator_name(reader.op),
        subject: argument.map_or(Subject::Operation, Subject::Argument),
        aspect: "format",
        old: origin(&old.trace, value as u32, a.format.clone()),
        new: origin(&new.trace, value as u32, b.format.clone()),
        site: reader.site,
        old_site: old.trace.records[record].site,
    })
}

fn encode_leaf(value: &crate::record::Value) -> Vec<u8> {
    encode::leaves(std::slice::from_ref(value))
}

fn record_change(old: &RecordedTrace, new: &RecordedTrace, at: usize) -> Option<Change> {
    let change = |subject, aspect, (old_text, new_text): (String, String)| {
        // If one of them has ended, its last operation gives the site.
        let near = |trace: &RecordedTrace| {
            trace.records.get(at).or(trace.records.last()).map(|r| (r.op, r.site))
        };
        let (op, site) = near(new)?;
        Some(Change {
            record: at,
            operator: operator_name(op),
            subject,
            aspect,
            old: old_text,
            new: new_text,
            site,
            old_site: near(old)?.1,
        })
    };
    let ended =
        |trace: &RecordedTrace| format!("the trace ends after {} operations", trace.records.len());
    match (old.records.get(at), new.records.get(at)) {
        (None, None) => None,
        (Some(a), None) => change(Subject::Operation, "length", (operator_name(a.op), ended(new))),
        (None, Some(b)) => change(Subject::Operation, "length", (ended(old), operator_name(b.op))),
        (Some(a), Some(b)) if a.op != b.op => {
            let names = (operator_name(a.op), operator_name(b.op));
            change(Subject::Operation, "operator", names)
        }
        (Some(a), Some(b)) => {
            let (subject, aspect, texts) = operand_change((old, a), (new, b))?;
            change(subject, aspect, texts)
        }
    }
}

type Difference = (&'static str, (String, String));

/// The first argument or result in which two records of one operator differ.
fn operand_change(
    (old, a): (&RecordedTrace, &Record),
    (new, b): (&RecordedTrace, &Record),
) -> Option<(Subject, &'static str, (String, String))> {
    for (index, (x, y)) in a.args.iter().zip(&b.args).enumerate() {
        if let Some((element, (aspect, texts))) = argument_change((old, x), (new, y)) {
            let subject = match element {
                Some(element) => Subject::Element(index, element),
                None => Subject::Argument(index),
            };
            return Some((subject, aspect, texts));
        }
    }
    if a.args.len() != b.args.len() {
        let texts = (a.args.len().to_string(), b.args.len().to_string());
        return Some((Subject::Operation, "arguments", texts));
    }
    for (index, (x, y)) in a.outs.iter().zip(&b.outs).enumerate() {
        if let Some((aspect, texts)) = result_change(x, y) {
            return Some((Subject::Result(index), aspect, texts));
        }
    }
    let texts = (a.outs.len().to_string(), b.outs.len().to_string());
    Some((Subject::Operation, "results", texts))
}

/// How two arguments differ, and in which element if they are lists.
fn argument_change(
    (old, x): (&RecordedTrace, &Arg),
    (new, y): (&RecordedTrace, &Arg),
) -> Option<(Option<usize>, Difference)> {
    let texts = || (argument(old, x), argument(new, y));
    match (x, y) {
        (Arg::Tensor(a), Arg::Tensor(b)) => Some((None, read_change((old, a), (new, b))?)),
        (Arg::Tensors(a), Arg::Tensors(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.into_iter().find_map(|(index, pair)| match pair {
                (Some(a), Some(b)) => Some((Some(index), read_change((old, a), (new, b))?)),
                (None, None) => None,
                (a, b) => {
                    let text = |read: &Option<Read>| {
                        read.as_ref().map_or_else(|| "none".into(), |read| tensor(&read.view))
                    };
                    Some((Some(index), ("arguments", (text(a), text(b)))))
                }
            })
        }
        // Slots are numbered in order and so are no difference of their own.
        (Arg::Scalar { kind: a, .. }, Arg::Scalar { kind: b, .. }) => {
            (a != b).then(|| (None, ("scalar", texts())))
        }
        (Arg::Scalar { .. }, _) | (_, Arg::Scalar { .. }) => Some((None, ("scalar", texts()))),
        (x, y) if same_attribute(x, y) => None,
        (Arg::Tensor(_) | Arg::Tensors(_), _) | (_, Arg::Tensor(_) | Arg::Tensors(_)) => {
            Some((None, ("arguments", texts())))
        }
        _ => Some((None, ("attribute", texts()))),
    }
}

/// Compares bit by bit, as the key: a NaN equals itself.
fn same_attribute(x: &Arg, y: &Arg) -> bool {
    match (x, y) {
        (Arg::Float(a), Arg::Float(b)) => a.to_bits() == b.to_bits(),
        (Arg::Floats(a), Arg::Floats(b)) => {
            a.iter().map(|f| f.to_bits()).eq(b.iter().map(|f| f.to_bits()))
        }
        _ => x == y,
    }
}

fn read_change(
    (old, a): (&RecordedTrace, &Read),
    (new, b): (&RecordedTrace, &Read),
) -> Option<Difference> {
    view_change(&a.view, &b.view).or_else(|| {
        let of = |trace: &RecordedTrace, read: &Read| {
            origin(trace, read.value, trace.values[read.value as usize].format.clone())
        };
        (a.value != b.value).then(|| ("alias", (of(old, a), of(new, b))))
    })
}

fn view_change(a: &View, b: &View) -> Option<Difference> {
    let (x, y) = (&a.layout, &b.layout);
    let strides = |dims: &Dims, offset: i64| format!("strides {dims:?}, offset {offset}");
    if a.dtype != b.dtype {
        Some(("dtype", (a.dtype.to_string(), b.dtype.to_string())))
    } else if x.sizes != y.sizes {
        Some(("shape", (format!("{:?}", x.sizes), format!("{:?}", y.sizes))))
    } else if (&x.strides, x.offset) != (&y.strides, y.offset) {
        Some(("layout", (strides(&x.strides, x.offset), strides(&y.strides, y.offset))))
    } else {
        None
    }
}

fn result_change(a: &Write, b: &Write) -> Option<Difference> {
    let target = |write: &Write| match write.old {
        None => "a whole buffer".to_string(),
        Some(_) => "a part of a buffer".to_string(),
    };
    let other = || match a.old.is_some() == b.old.is_some() {
        true => ("alias", (format!("value {}", a.value), format!("value {}", b.value))),
        false => ("layout", (target(a), target(b))),
    };
    view_change(&a.view, &b.view).or_else(|| ((a.old, a.value) != (b.old, b.value)).then(other))
}

/// A difference in the outputs of equal records.
fn output_change(old: &PriorCompile, new: &PriorCompile) -> Option<Change> {
    let kept = |known: &PriorCompile, value: u32| known.outputs.iter().any(|o| o.value == value);
    let (a, b) = (&old.outputs, &new.outputs);
    let candidates = a.iter().chain(b).map(|output| output.value);
    let dropped = candidates.filter(|&value| kept(old, value) != kept(new, value)).min();
    let (value, aspect, old_text, new_text) = match dropped {
        Some(value) => {
            let text = |is_kept: bool| if is_kept { "kept" } else { "dropped before the cut" };
            (value, "outputs", text(kept(old, value)), text(kept(new, value)))
        }
        None => {
            let (x, _) = a.iter().zip(b).find(|(x, y)| x.donor != y.donor)?;
            let text = |donor: Option<u32>| match donor {
                Some(_) => "may overwrite what its buffer held",
                None => "may not overwrite what its buffer held",
            };
            let y = b.iter().find(|y| y.value == x.value)?;
            (x.value, "donation", text(x.donor), text(y.donor))
        }
    };
    let Origin::Written { record, out } = new.trace.values[value as usize].origin else {
        return None;
    };
    let writer = &new.trace.records[record as usize];
    Some(Change {
        record: record as usize,
        operator: operator_name(writer.op),
        subject: Subject::Result(out as usize),
        aspect,
        old: old_text.into(),
        new: new_text.into(),
        site: writer.site,
        old_site: old.trace.records[record as usize].site,
    })
}

// ---- texts

/// The origin of a value and its format: "input 2, f32[8, 3]".
pub fn origin(trace: &RecordedTrace, value: u32, format: Format) -> String {
    let ty = format!("{}{:?}", format.dtype, format.sizes);
    match trace.values[value as usize].origin {
        Origin::Leaf(leaf) => format!("input {leaf}, {ty}"),
        Origin::Zeros => format!("a buffer never written, {} bytes", format.numel()),
        Origin::Written { record, .. } => {
            let operator = operator_name(trace.records[record as usize].op);
            format!("the result of {operator} (operation {record}), {ty}")
        }
    }
}

fn tensor(view: &View) -> String {
    format!("{}{:?}", view.dtype, view.layout.sizes)
}

fn argument(trace: &RecordedTrace, arg: &Arg) -> String {
    match arg {
        Arg::None => "none".into(),
        Arg::Tensor(read) => origin(
            trace,
            read.value,
            Format { dtype: read.view.dtype, sizes: read.view.layout.sizes.clone() },
        ),
        Arg::Tensors(list) => format!("{} tensors", list.len()),
        Arg::Scalar { kind, .. } => match kind {
            ScalarKind::Bool => "any bool".into(),
            ScalarKind::Int => "any int".into(),
            ScalarKind::Float => "any float".into(),
        },
        Arg::Int(i) => i.to_string(),
        Arg::Float(f) => format!("{f:?}"),
        Arg::Bool(b) => b.to_string(),
        Arg::Ints(list) => format!("{list:?}"),
        Arg::Floats(list) => format!("{list:?}"),
        Arg::Bools(list) => format!("{list:?}"),
        Arg::DType(dtype) => dtype.to_string(),
        Arg::Str(text) => format!("{text:?}"),
    }
}
