//! Operators of the program's own that have a form for a GPU.

use super::device::Device;
use super::emit::{self, Source};
use super::lower::{Action, Actions};
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::host::HostOp;
use crate::op::host_call::operator;
use crate::op::{Attr, Op};
use crate::plan::{Kernel, Operand, Place, Plan, Step};
use crate::record::Arg;
use std::sync::Arc;

/// The program's operator that a kernel calls, if it has a form for a GPU.
pub fn operator_of(kernel: &Kernel) -> Option<Arc<HostOp>> {
    match kernel {
        Kernel::Node { op: Op::Host, attrs } => operator(attrs).ok().filter(|op| op.cuda.is_some()),
        _ => None,
    }
}

/// What a call asks of the device; `None` without a form. Operands that are not dense are copied first.
pub fn call(step: &Step, attrs: &[Attr]) -> Result<Option<Actions>> {
    let Some(op) = operator_of(&step.kernel) else { return Ok(None) };
    let Some(form) = &op.cuda else { return Ok(None) };
    let Attr::Args(args) = &attrs[2] else {
        return internal!("a host call without arguments");
    };
    let mut actions = Actions::default();
    if step.writes.iter().all(|write| write.layout.numel() == 0) {
        return Ok(Some(actions));
    }
    let is_scalar: Vec<bool> = args.iter().flat_map(operands).collect();
    let mut reads: Vec<Operand> = Vec::new();
    for (read, is_scalar) in step.reads.iter().zip(is_scalar) {
        let lies = match read.place {
            Place::Scalar(_) => is_scalar,
            Place::Index => false,
            _ => read.layout.is_contiguous(),
        };
        reads.push(if lies { read.clone() } else { actions.dense(read)? });
    }
    let task = emit::own(&op, form, args, &reads, &step.writes);
    actions.actions.push(Action::Launch(task));
    Ok(Some(actions))
}

/// The operands that an argument stands for: whether each is a scalar.
fn operands(arg: &Arg) -> Vec<bool> {
    match arg {
        Arg::Tensor(_) => vec![false],
        Arg::Tensors(list) => list.iter().flatten().map(|_| false).collect(),
        Arg::Scalar { .. } => vec![true],
        _ => Vec::new(),
    }
}

/// Says whose source does not compile, when one of these kernels is to blame for `error`.
pub fn explained(device: &dyn Device, plan: &Plan, lowered: &[Actions], error: Error) -> Error {
    for (step, actions) in plan.steps.iter().zip(lowered) {
        let Some(op) = operator_of(&step.kernel) else { continue };
        let sources: Vec<Source> = actions.sources().cloned().collect();
        if let Err(found) = device.load(&sources) {
            let code = if found.code == Code::Internal { Code::OperatorError } else { found.code };
            return Error::new(code, format!("{}: {}", op.name, found.message)).at(step.site);
        }
    }
    error
}
