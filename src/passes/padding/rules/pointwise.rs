//! Element by element: padding meets padding only.

use super::super::Stop;
use super::super::padded::{Fill, Pad, PaddedValue, Pass};
use super::{fixed_attrs, shared};
use crate::graph::Node;
use crate::op::array::Array;
use crate::op::evaluate::evaluate;
use crate::op::{Op, Ty};

pub fn pointwise(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let mut operands = pass.operands(node);
    let axes =
        shared(&operands.iter().map(|padded_value| &padded_value.axes[..]).collect::<Vec<_>>())?;
    let divides = matches!(node.op, Op::Div | Op::Rem);
    if divides && pass.b.ty(operands[1].id).dtype.is_int() {
        // A zero there would be an error.
        operands[1] = pass.clean(&operands[1], Fill::One)?;
    }
    let pad = folded(pass, node, &operands)?;
    let ids: Vec<_> = operands.iter().map(|padded_value| padded_value.id).collect();
    let id = pass.op(node.op, &ids, node.attrs.clone())?;
    Ok(PaddedValue { id, axes, pad })
}

/// The padding of the result, from that of the operands.
fn folded(pass: &Pass, node: &Node, operands: &[PaddedValue]) -> Result<Pad, Stop> {
    if node.op == Op::Select
        && let Pad::Uniform(n) | Pad::Const(n) = &operands[0].pad
    {
        let chosen = &operands[if n.i64(0) != 0 { 1 } else { 2 }].pad;
        return Ok(match chosen {
            Pad::Uniform(n) => Pad::Const(n.clone()),
            other => other.clone(),
        });
    }
    let mut uniform = true;
    let mut numbers: Vec<&Array> = Vec::new();
    for padded_value in operands {
        match &padded_value.pad {
            Pad::Uniform(n) => numbers.push(n),
            Pad::Const(n) => {
                numbers.push(n);
                uniform = false;
            }
            Pad::Any => return Ok(Pad::Any),
        }
    }
    let ty = Ty::new(pass.points.here().ty(node.first).dtype, &[]);
    let Ok(mut made) = evaluate(node.op, &numbers, &node.attrs, &[ty]) else {
        return Ok(Pad::Any);
    };
    let number = made.remove(0);
    Ok(if uniform { Pad::Uniform(number) } else { Pad::Const(number) })
}
