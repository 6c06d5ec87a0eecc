//! The primitive that calls a host operator: pairs the recorded arguments with the node's operands.

use super::arg::{Arg, NodeArg, ScalarKind};
use super::array::Array;
use super::host::{self, HostArg, HostTensor};
use super::{Attr, Eval, Ty, Tys, check};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::invalid;
use std::cell::Cell;

pub const HOST: Eval = Eval::Whole(call);
pub const CHECK: Eval = Eval::Whole(|_, _, _| Ok(Vec::new()));

/// The kind of each operand that the arguments stand for, in order: `None` for a tensor of any type, else that of a scalar.
fn operands(args: &[NodeArg]) -> impl Iterator<Item = Option<ScalarKind>> {
    args.iter().flat_map(|arg| {
        let scalar = match arg {
            Arg::Scalar { kind, .. } => Some(Some(*kind)),
            _ => None,
        };
        scalar.into_iter().chain(arg.tensors().map(|()| None))
    })
}

pub fn check_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    match (inputs, attrs) {
        ([_], []) => Ok(Tys::new()),
        ([_], _) => check::wrong_attrs("none", attrs),
        _ => check::wrong_operands("x", inputs),
    }
}

pub fn host_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [Attr::Int(0..=0xffff_ffff), Attr::Types(types), Attr::Args(args)] = attrs else {
        return check::wrong_attrs("op: int, types: types, args: args", attrs);
    };
    let wanted: Vec<_> = operands(args).collect();
    if wanted.len() != inputs.len() {
        return invalid!("the arguments stand for {} operands, got {}", wanted.len(), inputs.len());
    }
    for (kind, ty) in wanted.iter().zip(inputs) {
        if let Some(kind) = kind {
            check::dtype(ty, kind.dtype(), "a scalar argument")?;
            check::rank(ty, 0, "a scalar argument")?;
        }
    }
    types.iter().map(|t| check::ty(t.dtype, &t.sizes)).collect()
}

/// For every operand that the arguments stand for, whether it is a scalar.
pub fn scalar_operands(args: &[NodeArg]) -> impl Iterator<Item = bool> {
    operands(args).map(|kind| kind.is_some())
}

/// The arguments as a host function sees them. `tensor(n)` gives the memory of operand `n`, `scalar(n)` the eight
/// bytes of a scalar operand.
pub fn host_args(
    args: &[NodeArg],
    tensor: impl Fn(usize) -> HostTensor,
    scalar: impl Fn(usize) -> u64,
) -> Vec<HostArg> {
    let next = Cell::new(0);
    let take = || next.replace(next.get() + 1);
    args.iter().map(|arg| arg.map(|()| tensor(take()), |_, ()| scalar(take()))).collect()
}

fn tensor(array: &Array) -> HostTensor {
    HostTensor {
        data: array.bytes.as_ptr() as usize,
        dtype: array.ty.dtype,
        sizes: array.ty.sizes.clone(),
    }
}

/// The host operator of a node's attributes. Errors: `NotFound`.
pub fn operator(attrs: &[Attr]) -> Result<std::sync::Arc<host::HostOp>> {
    let id = attrs[0].int();
    host::get(id as u32)
        .ok_or_else(|| Error::new(Code::NotFound, format!("no host operator has number {id}")))
}

fn call(inputs: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let op = operator(attrs)?;
    let Attr::Args(args) = &attrs[2] else {
        return check::wrong_attrs("op: int, types: types, args: args", attrs);
    };
    let bits = |n: usize| match inputs[n].ty.dtype {
        DType::F64 => inputs[n].f64(0).to_bits(),
        _ => inputs[n].i64(0) as u64,
    };
    let args = host_args(args, |n| tensor(inputs[n]), bits);
    let mut results: Vec<Array> = outs.iter().map(Array::zeros).collect();
    let targets: Vec<HostTensor> = results
        .iter_mut()
        .map(|a| HostTensor { data: a.bytes.as_mut_ptr() as usize, ..tensor(a) })
        .collect();
    (op.function)(&args, &targets)?;
    Ok(results)
}
