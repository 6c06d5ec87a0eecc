//! Custom operators (the program's own) that have a form for a GPU, or a function that accepts its memory ([`OnDevice`]).

use super::actions::{Action, Actions};
use super::device::Device;
use super::emit::{self, Source};
use super::on_device::OnDevice;
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::collective;
use crate::op::fallback::{operator, scalar_operands};
use crate::op::host::HostOp;
use crate::op::{Attr, Op};
use crate::plan::{Kernel, MemRef, Operand, Plan, Step};
use std::sync::Arc;

/// The program's operator that a kernel calls, if it has a form for a GPU.
pub fn operator_of(kernel: &Kernel) -> Option<Arc<HostOp>> {
    match kernel {
        Kernel::Node { op: Op::Host, attrs } => operator(attrs).ok().filter(|op| op.cuda.is_some()),
        _ => None,
    }
}

/// Actions of a call; `None` for a function on the host. Operands that are not dense are copied first. With
/// `overwrites_donor`, some result overwrites the only copy of a donor's value.
pub fn call(step: &Step, attrs: &[Attr], overwrites_donor: bool) -> Result<Option<Actions>> {
    let op = operator(attrs)?;
    if op.cuda.is_none() && op.device_function.is_none() {
        return Ok(None);
    }
    let Attr::Args(args) = &attrs[2] else {
        return internal!("a CPU fallback without arguments");
    };
    let mut actions = Actions::default();
    let is_empty = step.writes.iter().all(|write| write.layout.numel() == 0);
    if op.cuda.is_some() && is_empty {
        return Ok(Some(actions));
    }
    let is_scalar: Vec<bool> = scalar_operands(args).collect();
    let mut reads: Vec<Operand> = Vec::new();
    for (read, is_scalar) in step.reads.iter().zip(is_scalar) {
        let lies = match read.mem {
            MemRef::Scalar(_) => is_scalar,
            MemRef::Index => false,
            _ => read.layout.is_contiguous(),
        };
        reads.push(if lies { read.clone() } else { actions.dense(read)? });
    }
    // Copies do not outlive the step, but a collective may.
    let is_collective = collective::of(attrs).is_some() && actions.actions.is_empty();
    actions.actions.push(match &op.cuda {
        Some(form) => Action::Launch(emit::custom_op(&op, form, args, &reads, &step.writes)),
        None if is_collective => {
            Action::Collective { call: OnDevice::new(reads), overwrites_donor }
        }
        None => Action::Host(Some(OnDevice::new(reads))),
    });
    Ok(Some(actions))
}

/// Names the operator whose source does not compile, if one of these kernels caused `error`; else returns `error`.
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
