//! Primitives called by name: operands first, then the attributes in the order of the row.

use super::call::{Call, Rule, described};
use crate::error::Result;
use crate::graph::math::{V, together};
use crate::graph::text::parse_body;
use crate::invalid;
use crate::op::{Arity, Attr, Attrs, Class, Op, choices};
use crate::record::Arg;
use std::iter::repeat;
use std::sync::Arc;

/// Whether a primitive can be called by name. Inputs, scalars and CPU fallbacks are recorded in other ways; marks and
/// checks are made by the lowering, modules by a pass.
pub fn callable(op: Op) -> bool {
    !matches!(op, Op::Input | Op::Scalar | Op::Mark | Op::Host | Op::Check | Op::Module)
}

fn most_operands(op: Op) -> usize {
    match op.row().arity {
        Arity::Exactly(n) | Arity::Between(_, n) => n,
        // One list of tensors holds all of them.
        Arity::AtLeast(_) => 1,
    }
}

/// Attributes that are programs, passed as text.
pub const BODIES: [&str; 2] = ["condition", "round"];

/// Whether argument `arg` is an attribute, not an operand.
pub fn is_attribute(op: Op, arg: usize) -> bool {
    arg >= most_operands(op)
}

pub fn lower<'a>(call: &Call<'a>, op: Op) -> Result<Vec<V<'a>>> {
    let args = &call.record.args;
    let operand = |arg: &Arg| match arg {
        Arg::Tensor(_) | Arg::Tensors(_) | Arg::Scalar { .. } | Arg::None => true,
        // Optional operands may simply be left out; the others may be plain numbers.
        Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) => matches!(op.row().arity, Arity::Exactly(_)),
        _ => false,
    };
    let n = args.iter().take(most_operands(op)).take_while(|a| operand(a)).count();
    let names = op.row().attrs;
    let named = args[n..].iter().zip(names.iter().copied().chain(repeat("")));
    let attrs = named.map(|(arg, name)| attribute(arg, name)).collect::<Result<Attrs>>()?;
    if attrs.len() != names.len() {
        return invalid!("expects the attributes {:?}, got {attrs:?}", op.row().attrs);
    }
    let operands = operands(call, op, n)?;
    if !op.row().arity.accepts(operands.len()) {
        return invalid!("takes {:?} operands, got {}", op.row().arity, operands.len());
    }
    call.math.ops(op, &operands, attrs)
}

fn operands<'a>(call: &Call<'a>, op: Op, n: usize) -> Result<Vec<V<'a>>> {
    match (op.class(), n) {
        (Class::Pointwise, 2) => {
            let (_, dtype) = call.plan(&[0, 1], Rule::Exact)?;
            Ok(together(call.numbers([0, 1], dtype)?).into())
        }
        (Class::Pointwise, 3) => {
            let (_, dtype) = call.plan(&[1, 2], Rule::Exact)?;
            let [a, b] = call.numbers([1, 2], dtype)?;
            Ok(together([call.tensor(0)?, a, b]).into())
        }
        _ => {
            let mut operands = Vec::new();
            for i in 0..n {
                match call.arg(i) {
                    Arg::Tensors(_) => operands.extend(call.list(i)?),
                    _ => operands.extend(call.optional(i)?),
                }
            }
            Ok(operands)
        }
    }
}

fn attribute(arg: &Arg, name: &str) -> Result<Attr> {
    if let Some(choices) = choices(name) {
        let chosen = match arg {
            Arg::Str(text) => choices.iter().position(|known| known == text),
            _ => None,
        };
        return match chosen {
            Some(chosen) => Ok(Attr::Int(chosen as i64)),
            None => invalid!("{name} is one of {choices:?}, but got {}", described(arg)),
        };
    }
    Ok(match arg {
        Arg::Str(text) if BODIES.contains(&name) => Attr::Body(Arc::new(parse_body(text)?)),
        Arg::Int(n) => Attr::Int(*n),
        Arg::Float(x) => Attr::Float(*x),
        Arg::Bool(b) => Attr::Bool(*b),
        Arg::Ints(v) => Attr::Ints(v.clone()),
        Arg::DType(d) => Attr::DType(*d),
        other => return invalid!("{} is not an attribute of a primitive", described(other)),
    })
}
