//! Constant folding: computes nodes that depend only on constants at compile time.

use super::rebuild::{Item, Values, rebuild};
use crate::error::Result;
use crate::graph::{Builder, Graph, Guard, ValueId};
use crate::op::array::Array;
use crate::op::evaluate::evaluate;
use crate::op::{Class, Eval, Op, Ty, Tys};
use std::borrow::Cow;

/// Nodes that are not pointwise are computed up to this many elements, operands and results together.
const MAX_ELEMENTS: i64 = 1024;

/// Evaluates, through its row, every node whose operands are all *splats* (a constant, or a broadcast one) and whose
/// results are splats again. A node whose evaluation fails is left to fail when the program runs. Quotients are left, too:
/// templates cannot express a quotient of sizes in terms of sizes, but they can its parts.
///
/// ```text
/// %0: f32[] = const() {value=2.0, …}
/// %1: f32[8] = broadcast(%0) {…}      →     %0: f32[] = const() {value=1.4142135…, …}
/// %2: f32[8] = sqrt(%1)                     %1: f32[8] = broadcast(%0) {sizes=[8]}
/// return %2                                 return %1
/// ```
pub fn fold(graph: &Graph) -> Result<Cow<'_, Graph>> {
    rebuild(graph, rule)
}

pub(super) fn rule(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    match item.op.class() {
        Class::Pointwise if matches!(item.op, Op::Div | Op::Rem) => Ok(None),
        Class::Pointwise => fold_pointwise(b, item),
        // A loop may run for long, or forever.
        Class::Host | Class::Nested => Ok(None),
        _ if item.op == Op::Iota => fold_iota(b, item),
        _ => fold_small(b, item),
    }
}

/// The rank-0 constant that `v` repeats, if any.
pub fn splat(b: &Builder, v: ValueId) -> Option<ValueId> {
    let maker = b.graph().maker(v);
    match maker.op {
        Op::Const | Op::ConstInt => Some(v),
        Op::Broadcast => {
            let x = maker.inputs[0];
            matches!(b.graph().maker(x).op, Op::Const | Op::ConstInt).then_some(x)
        }
        _ => None,
    }
}

/// The number that `v` repeats, as an array of rank 0.
pub fn splat_value(b: &Builder, v: ValueId) -> Option<Array> {
    let constant = b.graph().maker(splat(b, v)?);
    let out = Ty::new(b.ty(v).dtype, &[]);
    evaluate(constant.op, &[], &constant.attrs, &[out]).ok()?.pop()
}

/// A value of `sizes` whose elements all equal `number`.
pub fn splat_of(b: &mut Builder, number: &Array, sizes: &[i64]) -> Result<ValueId> {
    let dtype = number.ty.dtype;
    let constant = match dtype.is_float() {
        true => b.constant(number.f64(0), dtype)?,
        false => b.constant_int(number.i64(0), dtype)?,
    };
    b.broadcast(constant, sizes)
}

/// One element is computed, whatever the size.
fn fold_pointwise(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    let Some(numbers) = item.inputs.iter().map(|&v| splat_value(b, v)).collect::<Option<Vec<_>>>()
    else {
        return Ok(None);
    };
    let types: Vec<&Ty> = numbers.iter().map(|a| &a.ty).collect();
    let outs = item.op.infer(&types, item.attrs)?;
    let Some(results) = compute(item, &numbers, &outs) else {
        return Ok(None);
    };
    match &numbers[..] {
        [x, y] if is_by_order(item.op) => b.guard(order(x, y)),
        [x] if matches!(item.op, Op::Abs | Op::Sign) => b.guard(order(x, &Array::zeros(&x.ty))),
        _ => {}
    }
    let sizes = b.ty(item.inputs[0]).sizes.clone();
    Ok(Some(Values::from_slice(&[splat_of(b, &results[0], &sizes)?])))
}

/// Along a dimension of one element all indices are 0, whatever the other sizes.
fn fold_iota(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    let [ty] = &item.op.infer(&[], item.attrs)?[..] else { return Ok(None) };
    if ty.sizes.get(item.attrs[1].int() as usize) != Some(&1) {
        return Ok(None);
    }
    let zero = Array::zeros(&Ty::new(ty.dtype, &[]));
    Ok(Some(Values::from_slice(&[splat_of(b, &zero, &ty.sizes)?])))
}

/// All elements are computed; the node is folded if they are equal.
fn fold_small(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    if matches!(item.op, Op::Const | Op::ConstInt | Op::Broadcast)
        || matches!(item.op.row().eval, Eval::External)
        || !item.inputs.iter().all(|&v| splat(b, v).is_some())
    {
        return Ok(None);
    }
    let types: Vec<&Ty> = item.inputs.iter().map(|&v| b.ty(v)).collect();
    let outs = item.op.infer(&types, item.attrs)?;
    let elements = types.iter().copied().chain(&outs).map(Ty::numel);
    if elements.fold(0, i64::saturating_add) > MAX_ELEMENTS {
        return Ok(None);
    }
    let operands: Option<Vec<Array>> = item.inputs.iter().map(|&v| spread(b, v)).collect();
    let Some(results) = operands.and_then(|operands| compute(item, &operands, &outs)) else {
        return Ok(None);
    };
    if !results.iter().all(is_uniform) {
        return Ok(None);
    }
    results.iter().map(|r| splat_of(b, r, &r.ty.sizes)).collect::<Result<_>>().map(Some)
}

fn compute(item: &Item, operands: &[Array], outs: &Tys) -> Option<Vec<Array>> {
    if !outs.iter().all(|ty| ty.dtype.has_arithmetic()) {
        return None;
    }
    let operands: Vec<&Array> = operands.iter().collect();
    evaluate(item.op, &operands, item.attrs, outs).ok()
}

/// Whether the result depends on which of two numbers is the greater one: if they are sizes, that may differ elsewhere.
fn is_by_order(op: Op) -> bool {
    matches!(op, Op::Max | Op::Min | Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge)
}

/// A guard that the first number is the smaller one, or the greater.
fn order(x: &Array, y: &Array) -> Option<Guard> {
    if !x.ty.dtype.is_float() {
        return Guard::order(x.i64(0), y.i64(0));
    }
    let (x, y) = (x.f64(0), y.f64(0));
    // Between a size and a fraction the size decides.
    let rounded = |n: f64, other: f64| if n < other { n.floor() } else { n.ceil() } as i64;
    (x != y && x.is_finite() && y.is_finite())
        .then(|| Guard::order(rounded(x, y), rounded(y, x)))?
}

/// The array that a splat stands for.
fn spread(b: &Builder, v: ValueId) -> Option<Array> {
    let number = splat_value(b, v)?;
    let bytes = number.bytes.repeat(b.ty(v).numel() as usize);
    Some(Array { ty: b.ty(v).clone(), bytes })
}

/// At least one element, and all bitwise equal.
fn is_uniform(array: &Array) -> bool {
    !array.is_empty() && (1..array.len()).all(|i| array.raw(i) == array.raw(0))
}
