//! Checks for numbers that primitives refuse and XLA does not: a zero as divisor of integers, an index out of range. The module
//! returns the numbers that decide them beside its results.

use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::graph::math::V;
use crate::graph::{Graph, Node, ValueId};
use crate::op::array::Array;
use crate::op::{Op, expect, index};

/// A node that may refuse its numbers. It adds one i64 to the results.
pub struct Check {
    node: Node,
    what: What,
}

enum What {
    /// 1 if a divisor is zero.
    Divisor,
    /// The least index if it is negative, else the greatest.
    Index { axis: usize, size: i64 },
    /// 1 if the expectation does not hold.
    Expected,
}

impl Check {
    /// Errors: that of the node, if its number signals one.
    pub fn result(&self, number: &Array) -> Result<()> {
        let number = number.i64(0);
        let error = match self.what {
            What::Divisor if number != 0 => {
                Error::new(Code::InvalidArgument, "ZeroDivisionError: integer division by zero")
            }
            What::Expected if number != 0 => expect::unmet(&self.node.attrs),
            What::Index { axis, size } => match index::in_range(self.node.op, axis, size)(number) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            },
            _ => return Ok(()),
        };
        Err(error.within(self.node.op.name()).at(self.node.site))
    }
}

impl Check {
    /// Whether a number signals a refusal. Error: `Unsupported` where every number does.
    pub fn refuses<'m>(&self, number: V<'m>) -> Result<V<'m>> {
        match self.what {
            What::Index { size: 0, .. } => {
                let text = "an index into nothing, in a loop, is not checked on OpenXLA";
                Err(Error::new(Code::Unsupported, text))
            }
            What::Index { size, .. } => {
                Ok(number.lt(0.0).or(number.ge(number.math().constant_int(size, DType::I64))))
            }
            What::Divisor | What::Expected => Ok(number.ne(0.0)),
        }
    }
}

/// Whether a node may refuse its numbers: a quotient by a constant does not.
pub fn may_refuse(graph: &Graph, node: &Node) -> bool {
    let is_quotient = || {
        let divisor = matches!(node.op, Op::Div | Op::Rem).then(|| constant(graph, node.inputs[1]));
        divisor.flatten().is_some_and(|divisor| divisor != 0)
    };
    node.outputs().any(|v| node.op.refuses(graph.ty(v).dtype)) && !is_quotient()
}

/// The integer that every element of a value equals, if it is known.
fn constant(graph: &Graph, v: ValueId) -> Option<i64> {
    let node = graph.maker(v);
    match node.op {
        Op::ConstInt => Some(node.attrs[0].int()),
        Op::Broadcast | Op::Reshape => constant(graph, node.inputs[0]),
        _ => None,
    }
}

/// The check of a node of the new graph, if it needs one, and its number. Errors: `Unsupported` for a primitive that refuses
/// numbers but has no check here.
pub fn check<'m>(graph: &Graph, node: &Node, x: &[V<'m>]) -> Result<Option<(Check, V<'m>)>> {
    if !may_refuse(graph, node) {
        return Ok(None);
    }
    let found = number(node, x)?;
    Ok(found.map(|(what, number)| (Check { node: node.clone(), what }, number)))
}

/// The kind of a node's check, and the number that decides it. `None`: there is nothing to check.
fn number<'m>(node: &Node, x: &[V<'m>]) -> Result<Option<(What, V<'m>)>> {
    let any = |v: V<'m>, op: Op| {
        let axes: Vec<i64> = (0..v.rank() as i64).collect();
        v.reduce(op, &axes, false)
    };
    let (what, number) = match node.op {
        Op::Div | Op::Rem => (What::Divisor, any(x[1].eq(0.0), Op::Any).cast(DType::I64)),
        Op::Take | Op::IndexAdd | Op::Gather | Op::Scatter => {
            if x[1].numel() == 0 {
                return Ok(None);
            }
            let axis = node.attrs[0].int() as usize;
            let size = x[0].sizes()[axis];
            let index = x[1].cast(DType::I64);
            let (least, greatest) = (any(index, Op::ReduceMin), any(index, Op::ReduceMax));
            (What::Index { axis, size }, least.lt(0.0).select(least, greatest))
        }
        Op::Expect => (What::Expected, x[0].not().cast(DType::I64)),
        op => {
            let text = format!("{} refuses numbers, which is not checked on OpenXLA", op.name());
            return Err(Error::new(Code::Unsupported, text));
        }
    };
    Ok(Some((what, number)))
}
