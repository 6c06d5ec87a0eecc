//! Reductions: padding that they read across is filled with the neutral element.

use super::super::padded::{Fill, Pad, PaddedValue, Pass};
use super::super::{Stop, refused};
use super::{anything, fixed_attrs};
use crate::graph::Node;
use crate::op::Op;

pub fn reduce(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let fill = match node.op {
        Op::Sum | Op::Any => Fill::Zero,
        Op::Prod | Op::All => Fill::One,
        Op::ReduceMax => Fill::Lowest,
        _ => Fill::Highest,
    };
    let x = pass.value(node.inputs[0]).clone();
    let reduced: Vec<usize> = node.attrs[0].ints().iter().map(|&d| d as usize).collect();
    let reads_padding = reduced.iter().any(|&d| x.axes[d].varies());
    let x = if reads_padding { pass.clean(&x, fill)? } else { x };
    let kept = (0..x.axes.len()).filter(|d| !reduced.contains(d));
    let axes = kept.map(|d| x.axes[d].clone()).collect();
    // Reducing neutral elements gives the neutral element.
    let pad = if reads_padding { x.pad } else { Pad::Any };
    let pad = if let Pad::Uniform(_) = pad { Pad::Any } else { pad };
    let id = pass.op(node.op, &[x.id], node.attrs.clone())?;
    Ok(PaddedValue { id, axes, pad })
}

/// Padding loses, and comes last among equals.
pub fn arg(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let fill = if node.op == Op::ArgMax { Fill::Lowest } else { Fill::Highest };
    let along = node.attrs[0].int() as usize;
    let x = pass.value(node.inputs[0]).clone();
    if !x.axes[along].is_prefix() {
        return refused("places along a merged dimension");
    }
    let x = pass.clean_along(&x, &[along], fill)?;
    let mut axes = x.axes.clone();
    axes.remove(along);
    Ok(anything(pass.op(node.op, &[x.id], node.attrs.clone())?, axes))
}

/// The running result passes over padding in the middle as if it were not there.
pub fn cumulative(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let fill = match node.op {
        Op::CumSum => Fill::Zero,
        Op::CumProd => Fill::One,
        _ => Fill::Lowest,
    };
    let x = pass.value(node.inputs[0]).clone();
    let x = pass.clean_along(&x, &[node.attrs[0].int() as usize], fill)?;
    let axes = x.axes.clone();
    Ok(anything(pass.op(node.op, &[x.id], node.attrs.clone())?, axes))
}
