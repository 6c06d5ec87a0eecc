//! Operators of the program's own that have a form for a GPU, or a function that takes its memory.

use super::device::Device;
use super::emit::{self, Source};
use super::lower::{Action, Actions};
use crate::backend::Call;
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::host::{HostOp, HostTensor};
use crate::op::host_call::{host_args, operator};
use crate::op::{Attr, Op};
use crate::plan::{Kernel, Operand, Place, Plan, Step};
use crate::record::Arg;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The program's operator that a kernel calls, if it has a form for a GPU.
pub fn operator_of(kernel: &Kernel) -> Option<Arc<HostOp>> {
    match kernel {
        Kernel::Node { op: Op::Host, attrs } => operator(attrs).ok().filter(|op| op.cuda.is_some()),
        _ => None,
    }
}

/// What a call asks of the device; `None` for one of a function on the host. Operands that are not dense are copied first.
pub fn call(step: &Step, attrs: &[Attr]) -> Result<Option<Actions>> {
    let op = operator(attrs)?;
    if op.cuda.is_none() && op.device_function.is_none() {
        return Ok(None);
    }
    let Attr::Args(args) = &attrs[2] else {
        return internal!("a host call without arguments");
    };
    let mut actions = Actions::default();
    let is_empty = step.writes.iter().all(|write| write.layout.numel() == 0);
    if op.cuda.is_some() && is_empty {
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
    actions.actions.push(match &op.cuda {
        Some(form) => Action::Launch(emit::own(&op, form, args, &reads, &step.writes)),
        None => Action::Host(Some(OnDevice { reads, is_refused: AtomicBool::new(false) })),
    });
    Ok(Some(actions))
}

/// A call of a function that takes the device's memory.
pub struct OnDevice {
    /// The operands, those of tensors dense.
    reads: Vec<Operand>,
    /// Whether the function said that it cannot.
    is_refused: AtomicBool,
}

impl OnDevice {
    /// Calls the function; `address` is that of the first element of an operand. `false`: it cannot, and the results
    /// are still to be made.
    pub fn run(
        &self,
        device: &dyn Device,
        step: &Step,
        call: &Call,
        address: impl Fn(&Operand) -> usize,
    ) -> Result<bool> {
        let Kernel::Node { op: Op::Host, attrs } = &step.kernel else {
            return internal!("a call without an operator");
        };
        let op = operator(attrs)?;
        let (Attr::Args(args), Some(function)) = (&attrs[2], &op.device_function) else {
            return internal!("a call without a function");
        };
        if self.is_refused.load(Relaxed) {
            return Ok(false);
        }
        let tensor = |operand: &Operand| HostTensor {
            data: address(operand),
            dtype: operand.dtype,
            sizes: operand.layout.sizes.clone(),
        };
        let numbers: Vec<u64> = (self.reads.iter().zip(args.iter().flat_map(operands)))
            .map(|(read, is_scalar)| match read.place {
                Place::Scalar(slot) => Ok(call.scalars[slot as usize]),
                _ if is_scalar => {
                    let mut word = [0; 8];
                    device.read(address(read), &mut word[..read.dtype.size()])?;
                    Ok(u64::from_le_bytes(word))
                }
                _ => Ok(0),
            })
            .collect::<Result<_>>()?;
        let args = host_args(args, |n| tensor(&self.reads[n]), |n| numbers[n]);
        let outs: Vec<HostTensor> = step.writes.iter().map(tensor).collect();
        match device.queue(&mut || function(device.location(), &args, &outs)) {
            Err(error) if error.code == Code::Unsupported => {
                self.is_refused.store(true, Relaxed);
                Ok(false)
            }
            done => done.map(|()| true),
        }
    }
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
