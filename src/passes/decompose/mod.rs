//! Composites expressed in other primitives, for backends that do not compute them whole. Half types are computed in f32
//! throughout and rounded at the end, as in a kernel for the whole composite.

mod attention;
mod norm;
mod recurrent;

use super::rebuild::{Values, rebuild};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Builder, Graph, ValueId};
use crate::op::table::primitives;
use crate::op::{Attr, Class, Op};
use std::borrow::Cow;

/// ```text
/// %1: f32[2,3] = softmax(%0)     →     %1: f32[2] = reduce_max(%0) {axes=[1]}
///                                      %2: f32[2,1] = reshape(%1) {sizes=[2,1]}
///                                      %3: f32[2,3] = broadcast(%2) {sizes=[2,3]}
///                                      %4: f32[2,3] = sub(%0, %3)
///                                      %5: f32[2,3] = exp(%4)
///                                      %6: f32[2] = reduce_sum(%5) {axes=[1]}
///                                      %7: f32[2,1] = reshape(%6) {sizes=[2,1]}
///                                      %8: f32[2,3] = broadcast(%7) {sizes=[2,3]}
///                                      %9: f32[2,3] = div(%5, %8)
/// ```
pub fn decompose<'a>(graph: &'a Graph, supports: &dyn Fn(Op) -> bool) -> Result<Cow<'a, Graph>> {
    let stays = |op: Op| op.class() != Class::Composite || supports(op);
    if graph.nodes.iter().all(|node| stays(node.op)) {
        return Ok(Cow::Borrowed(graph));
    }
    rebuild(graph, |b, item| {
        if stays(item.op) {
            return Ok(None);
        }
        let Some(rule) = rule(item.op) else {
            return crate::internal!("{} is neither kept nor said in primitives", item.op.name());
        };
        rule(b, &item.inputs, item.attrs).map(Some)
    })
}

/// From operands and attributes of a composite to its outputs.
type Rule = fn(&mut Builder, &[ValueId], &[Attr]) -> Result<Values>;

/// The column `decomposed` of a row.
macro_rules! rule_of {
    (decomposed ($rule:expr) $($others:tt)*) => { Some($rule as Rule) };
    ($other:ident $of:tt $($others:tt)*) => { rule_of!($($others)*) };
    () => { None };
}

macro_rules! rules {
    ([$op:expr] $($(#[$doc:meta])* $row:ident $facts:tt $($column:ident $of:tt)*;)*) => {
        match $op { $(Op::$row => rule_of!($($column $of)*),)* }
    };
}

fn rule(op: Op) -> Option<Rule> {
    primitives!(rules[op])
}

/// `v` in its dtype of computation.
fn wide(b: &mut Builder, v: ValueId) -> Result<ValueId> {
    let dtype = if b.ty(v).dtype == DType::F64 { DType::F64 } else { DType::F32 };
    b.cast(v, dtype)
}

/// One number, in the dtype and sizes of `like`.
fn number(b: &mut Builder, value: f64, like: ValueId) -> Result<ValueId> {
    let ty = b.ty(like).clone();
    let constant = b.constant(value, ty.dtype)?;
    b.broadcast(constant, &ty.sizes)
}

/// `op` (a reduction) along the last axis, which stays with size 1.
fn along_row(b: &mut Builder, op: Op, x: ValueId) -> Result<ValueId> {
    let axis = b.ty(x).rank() as i64 - 1;
    b.reduce(op, x, &[axis], true)
}

/// `op(x, y)`, where y has one column, which is repeated.
fn with_column(b: &mut Builder, op: Op, x: ValueId, y: ValueId) -> Result<ValueId> {
    let sizes = b.ty(x).sizes.clone();
    let y = b.broadcast(y, &sizes)?;
    b.binary(op, x, y)
}

fn softmax(b: &mut Builder, inputs: &[ValueId], _: &[Attr]) -> Result<Values> {
    let ty = b.ty(inputs[0]).clone();
    if ty.numel() == 0 {
        return Ok(Values::from_slice(inputs));
    }
    let x = wide(b, inputs[0])?;
    let top = along_row(b, Op::ReduceMax, x)?;
    let below = with_column(b, Op::Sub, x, top)?;
    let exps = b.unary(Op::Exp, below)?;
    let sum = along_row(b, Op::Sum, exps)?;
    let y = with_column(b, Op::Div, exps, sum)?;
    Ok(Values::from_slice(&[b.cast(y, ty.dtype)?]))
}

/// The maximum of every row, and log(sum(exp(x - maximum))).
fn log_sum_exp(b: &mut Builder, inputs: &[ValueId], _: &[Attr]) -> Result<Values> {
    let x = wide(b, inputs[0])?;
    let top = along_row(b, Op::ReduceMax, x)?;
    let below = with_column(b, Op::Sub, x, top)?;
    let exps = b.unary(Op::Exp, below)?;
    let sum = along_row(b, Op::Sum, exps)?;
    let log = b.unary(Op::Log, sum)?;
    Ok(Values::from_slice(&[top, log]))
}

fn log_softmax(b: &mut Builder, inputs: &[ValueId], attrs: &[Attr]) -> Result<Values> {
    let ty = b.ty(inputs[0]).clone();
    if ty.numel() == 0 {
        return Ok(Values::from_slice(inputs));
    }
    let parts = log_sum_exp(b, inputs, attrs)?;
    let x = wide(b, inputs[0])?;
    let below = with_column(b, Op::Sub, x, parts[0])?;
    let y = with_column(b, Op::Sub, below, parts[1])?;
    Ok(Values::from_slice(&[b.cast(y, ty.dtype)?]))
}

/// (dy - sum(dy·y)) · y
fn softmax_grad(b: &mut Builder, inputs: &[ValueId], _: &[Attr]) -> Result<Values> {
    let dtype = b.ty(inputs[0]).dtype;
    let (dy, y) = (wide(b, inputs[0])?, wide(b, inputs[1])?);
    let product = b.binary(Op::Mul, dy, y)?;
    let sum = along_row(b, Op::Sum, product)?;
    let rest = with_column(b, Op::Sub, dy, sum)?;
    let dx = b.binary(Op::Mul, rest, y)?;
    Ok(Values::from_slice(&[b.cast(dx, dtype)?]))
}

/// dy - exp(y) · sum(dy)
fn log_softmax_grad(b: &mut Builder, inputs: &[ValueId], _: &[Attr]) -> Result<Values> {
    let dtype = b.ty(inputs[0]).dtype;
    let (dy, y) = (wide(b, inputs[0])?, wide(b, inputs[1])?);
    let sum = along_row(b, Op::Sum, dy)?;
    let probability = b.unary(Op::Exp, y)?;
    let share = with_column(b, Op::Mul, probability, sum)?;
    let dx = b.binary(Op::Sub, dy, share)?;
    Ok(Values::from_slice(&[b.cast(dx, dtype)?]))
}

/// cast(a · b · (scale_a · scale_b)); a and b are exact in f32.
fn scaled_matmul(b: &mut Builder, inputs: &[ValueId], attrs: &[Attr]) -> Result<Values> {
    let &[Attr::DType(dtype)] = attrs else {
        return crate::internal!("scaled_matmul with {attrs:?}");
    };
    let (left, right) = (wide(b, inputs[0])?, wide(b, inputs[1])?);
    let product = b.binary(Op::Matmul, left, right)?;
    let sizes = b.ty(product).sizes.clone();
    let (rows, columns) = (b.broadcast(inputs[2], &sizes)?, b.broadcast(inputs[3], &sizes)?);
    let scale = b.binary(Op::Mul, rows, columns)?;
    let scaled = b.binary(Op::Mul, product, scale)?;
    Ok(Values::from_slice(&[b.cast(scaled, dtype)?]))
}
