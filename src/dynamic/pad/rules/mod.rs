//! One rule for every primitive that meets a size that varies: which operands must be clean, what the result's dimensions
//! are made of, what is in its padding. What has no rule is refused.

mod composite;
mod contraction;
mod index;
mod leaf;
mod movement;
mod pointwise;
mod reduce;
mod strided;

use super::axes::{Axis, unify};
use super::pass::{Pad, PaddedValue, Pass, dims};
use super::{Stop, refused};
use crate::graph::{Node, ValueId};
use crate::op::{Class, Op};

/// The results of node `n`, which is `node` in the trace in hand.
pub fn rule(pass: &mut Pass, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    let results = match node.op {
        Op::Input => leaf::input(pass, n, node),
        Op::Const | Op::ConstInt => leaf::constant(pass, n, node),
        Op::Iota => leaf::iota(pass, n, node),
        Op::Random => leaf::random(pass, n, node),
        op if op.class() == Class::Pointwise => pointwise::pointwise(pass, n, node),
        Op::Reshape => movement::reshape(pass, node),
        Op::Transpose => movement::transpose(pass, n, node),
        Op::Broadcast => movement::broadcast(pass, n, node),
        Op::Slice => movement::slice(pass, n, node),
        Op::Concat => movement::concat(pass, n, node),
        Op::Bitcast => movement::bitcast(pass, n, node),
        Op::Offload | Op::Reload => movement::same(pass, node),
        Op::AsStrided => strided::as_strided(pass, n, node),
        Op::AsStridedScatter => strided::scatter(pass, n, node),
        Op::Sum | Op::Prod | Op::ReduceMax | Op::ReduceMin | Op::Any | Op::All => {
            reduce::reduce(pass, n, node)
        }
        Op::ArgMax | Op::ArgMin => reduce::arg(pass, n, node),
        Op::CumSum => reduce::cumulative(pass, n, node),
        Op::Matmul => contraction::matmul(pass, node),
        Op::ScaledMatmul => contraction::scaled(pass, node),
        Op::GroupedMatmul => contraction::grouped(pass, node),
        Op::Conv
        | Op::ConvGradInput
        | Op::SumPool
        | Op::SumPoolGrad
        | Op::MaxPool
        | Op::MaxPoolGrad => return contraction::windows(pass, n, node),
        Op::ConvGradWeight => contraction::weight(pass, n, node),
        Op::Take => index::take(pass, n, node),
        Op::Gather => index::gather(pass, n, node),
        Op::IndexAdd => index::index_add(pass, n, node),
        Op::Scatter => index::scatter(pass, n, node),
        // What is of rank 0 has no padding.
        Op::Expect => Ok(anything(
            pass.op(node.op, &[pass.value(node.inputs[0]).id], node.attrs.clone())?,
            Vec::new(),
        )),
        Op::Check => {
            let checked = pass.value(node.inputs[0]).id;
            pass.b.ops(Op::Check, &[checked], node.attrs.clone())?;
            return Ok(Vec::new());
        }
        op if op.class() == Class::Composite => return composite::composite(pass, n, node),
        _ => refused("there is no rule for it"),
    };
    Ok(vec![results?])
}

/// The dimensions of operands of equal sizes.
fn shared(operands: &[&[Axis]]) -> Result<Vec<Axis>, Stop> {
    let Some((first, rest)) = operands.split_first() else { return refused("no operands") };
    let mut axes = first.to_vec();
    for other in rest {
        axes = axes.iter().zip(*other).map(|(a, b)| unify(a, b)).collect::<Result<_, _>>()?;
    }
    Ok(axes)
}

fn anything(id: ValueId, axes: Vec<Axis>) -> PaddedValue {
    PaddedValue { id, axes, pad: Pad::Any }
}

/// The node's attributes must not vary.
fn fixed_attrs(pass: &Pass, n: usize) -> Result<(), Stop> {
    match pass.points.has_fixed_attrs(n) {
        true => Ok(()),
        false => refused("an attribute varies"),
    }
}

/// No dimension may vary but these.
fn only(padded_value: &PaddedValue, may_vary: &[usize]) -> Result<(), Stop> {
    let other = |d: usize| !may_vary.contains(&d) && padded_value.axes[d].varies();
    match (0..padded_value.axes.len()).any(other) {
        true => refused("a dimension varies that must not"),
        false => Ok(()),
    }
}

/// Nothing varies in it.
fn fixed(padded_value: &PaddedValue) -> Result<(), Stop> {
    only(padded_value, &[])
}

fn sizes_of(padded_value: &PaddedValue) -> crate::shape::Dims {
    dims(&padded_value.axes)
}
