//! Walks the records of a trace and builds the graph: arguments in, row, results out.

use super::call::Call;
use super::values::Values;
use super::{Entry, checks, entry, name, primitive, write};
use crate::error::Result;
use crate::graph::Graph;
use crate::graph::math::{Math, V};
use crate::internal;
use crate::op::host::HostOpId;
use crate::op::{Attr, Op, Ty};
use crate::record::{Arg, Operator, Origin, Read, Record, Records, Value, ValueIndex, Write};
use smallvec::smallvec;

/// Lowers a trace to primitives. Input `n` of the graph is leaf `n`, scalar `n` slot `n` of the argument block; the graph's
/// outputs are the trace's, in order, each dense in the format of its value.
///
/// Errors: those of the operators' rows, with the site of the record; `Internal` if a result's sizes differ from the
/// recorded ones.
pub fn lower(records: &Records) -> Result<Graph> {
    let math = Math::default();
    let values = Values::new(records);
    lower_records(&math, &values, &records.records)?;
    let mut outputs = Vec::new();
    for output in &records.outputs {
        outputs.push(values.get(&math, output.value)?.id);
    }
    checks::add(&math, &records.records, &outputs)?;
    Ok(math.into_builder().finish(outputs))
}

/// Lowers a trace to a function of some of its leaves. Input `n` of the graph is `inputs[n]`; its outputs are `outputs`, each
/// as the dense elements of its view; scalars are as in [`lower`]. All other leaves become further inputs, in their own
/// formats; their values are returned.
///
/// Errors: those of the operators' rows, with the site of the record.
pub fn lower_function(
    records: &Records,
    inputs: &[Read],
    outputs: &[Read],
) -> Result<(Graph, Vec<ValueIndex>)> {
    let math = Math::default();
    let values = Values::new(records);
    for (n, Read { value, view }) in inputs.iter().enumerate() {
        let ty = Ty::new(view.dtype, &view.layout.sizes);
        let v = math.build(|b| b.input(n as u32, ty));
        let Value { format, nbytes, .. } = &records.values[*value as usize];
        let no_old = || math.build(|_| internal!("an input is not all of its memory"));
        let whole = write::write(v, no_old, view, format, *nbytes).reshape(&format.sizes);
        values.set(*value, whole);
    }
    let mut constants = Vec::new();
    for (index, value) in records.values.iter().enumerate() {
        if matches!(value.origin, Origin::Leaf(_)) && !values.has(index as ValueIndex) {
            let ty = Ty::new(value.format.dtype, &value.format.sizes);
            let number = inputs.len() + constants.len();
            values.set(index as ValueIndex, math.build(|b| b.input(number as u32, ty)));
            constants.push(index as ValueIndex);
        }
    }
    lower_records(&math, &values, &records.records)?;
    let outputs = outputs.iter().map(|output| Ok(values.read(&math, output)?.id));
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    Ok((math.into_builder().finish(outputs), constants))
}

/// Types of the results of the last record, whose `outs` are empty. Errors: those of [`lower`].
pub fn infer(records: &Records) -> Result<Vec<Ty>> {
    let Some((last, before)) = records.records.split_last() else {
        return internal!("no record to infer");
    };
    let math = Math::default();
    let values = Values::new(records);
    lower_records(&math, &values, before)?;
    let results = results(&math, &values, last)?;
    Ok(results.into_iter().map(|v| v.ty()).collect())
}

fn lower_records<'a>(math: &'a Math, values: &'a Values<'a>, records: &'a [Record]) -> Result<()> {
    for (number, record) in records.iter().enumerate() {
        math.set_origin(record.site, number as u32 + 1);
        step(math, values, record)
            .map_err(|e| e.within(operator_name(record.op)).at(record.site))?;
    }
    math.set_origin(0, 0);
    Ok(())
}

fn operator_name(op: Operator) -> String {
    match op {
        Operator::Native(row) => name(row).into(),
        Operator::Host(id) => crate::op::host::get(id).map_or("host".into(), |op| op.name.clone()),
    }
}

fn results<'a>(math: &'a Math, values: &'a Values<'a>, record: &'a Record) -> Result<Vec<V<'a>>> {
    let call = Call { math, values, record };
    let results = match record.op {
        Operator::Host(id) => host(&call, id)?,
        Operator::Native(row) => match entry(row) {
            // For empty results PyTorch's kernels check neither the operands' types nor indices.
            Entry::Aten(row) if row.has_only_results() && writes_nothing(record) => {
                let empty = |out: &Write| math.zeros(out.view.dtype, &out.view.layout.sizes);
                record.outs.iter().map(empty).collect()
            }
            Entry::Aten(row) if row.updates && values.are_differentiated() => {
                let detached = |v: V<'a>| math.op(Op::Detach, &[v], smallvec![]);
                (row.lower)(&call)?.into_iter().map(detached).collect()
            }
            Entry::Aten(row) => match row.complex.filter(|_| is_complex(record)) {
                Some(lower) => lower(&call)?,
                None => (row.lower)(&call)?,
            },
            Entry::Primitive(op) => primitive::lower(&call, op)?,
        },
    };
    math.check()?;
    Ok(results)
}

/// Whether an operand is complex or a complex dtype is asked for. A complex `out=` alone does not count: real results are
/// cast when they are written.
fn is_complex(record: &Record) -> bool {
    let is_written = record.outs.iter().any(|out| out.view.dtype.is_complex());
    let of_read = |read: &Read| read.view.dtype.is_complex();
    let of_arg = |arg: &Arg| match arg {
        Arg::Tensor(read) => of_read(read),
        Arg::Tensors(reads) => reads.iter().flatten().any(of_read),
        Arg::DType(dtype) => dtype.is_complex(),
        // The two parts of a complex number.
        Arg::Floats(_) => is_written,
        _ => false,
    };
    record.args.iter().any(of_arg)
}

/// Whether no result has an element.
fn writes_nothing(record: &Record) -> bool {
    !record.outs.is_empty() && record.outs.iter().all(|out| out.view.layout.numel() == 0)
}

fn step<'a>(math: &'a Math, values: &'a Values<'a>, record: &'a Record) -> Result<()> {
    let results = results(math, values, record)?;
    if results.len() != record.outs.len() {
        return internal!("{} results, but {} were recorded", results.len(), record.outs.len());
    }
    for (result, out) in results.into_iter().zip(&record.outs) {
        let new = put(math, values, result, out)?;
        math.check()?;
        values.set(out.value, new);
    }
    Ok(())
}

/// Writes `result` where `out` says and returns the buffer's new value.
fn put<'a>(math: &'a Math, values: &Values<'a>, result: V<'a>, out: &Write) -> Result<V<'a>> {
    let ty = result.ty();
    if ty.sizes != out.view.layout.sizes {
        let recorded = &out.view.layout.sizes;
        return internal!("result has sizes {:?}, but {recorded:?} were recorded", ty.sizes);
    }
    let result = result.cast(out.view.dtype);
    let target = values.recorded(out.value);
    let covered = out.view.covers(target.nbytes).is_some();
    let old = match out.old {
        Some(index) if !covered => Some(values.get(math, index)?),
        _ => None,
    };
    let missing = || math.build(|_| internal!("a partial write needs the old value"));
    let old = || old.unwrap_or_else(missing);
    let new = write::write(result, old, &out.view, &target.format, target.nbytes);
    math.check()?;
    let made = new.ty();
    if made.dtype != target.format.dtype || made.sizes != target.format.sizes {
        return internal!("{made:?} was written where {:?} was recorded", target.format);
    }
    Ok(new)
}

/// A call of a host operator: its tensors and scalars as operands, its results as dense arrays.
fn host<'a>(call: &Call<'a>, id: HostOpId) -> Result<Vec<V<'a>>> {
    let mut operands = Vec::new();
    for arg in &call.record.args {
        for read in arg.tensors() {
            operands.push(call.read(read)?);
        }
        if let Arg::Scalar { kind, number: slot } = arg {
            operands.push(call.math.build(|b| b.scalar(*slot, kind.dtype())));
        }
    }
    let types = (0..call.record.outs.len()).filter_map(|i| call.out(i)).collect();
    let args = call.record.args.iter().map(Arg::of_node).collect();
    let attrs = smallvec![Attr::Int(id as i64), Attr::Types(types), Attr::Args(args)];
    call.math.ops(Op::Host, &operands, attrs)
}
