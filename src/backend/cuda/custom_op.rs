//! Custom operators (the program's own) that have a form for a GPU, or a function that takes its memory.

use super::device::Device;
use super::emit::{self, Source};
use super::lower::{Action, Actions};
use crate::backend::Call;
use crate::buffer::Location;
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::collective;
use crate::op::fallback::{host_args, operator, scalar_operands};
use crate::op::host::{HostOp, HostTensor};
use crate::op::{Attr, Op};
use crate::plan::{Kernel, MemRef, Operand, Plan, Step};
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
/// With `overwrites_donor`, some result is the only copy of what it overwrites.
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
    // Copies are gone when the step is done.
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

/// What puts something on the queue of a location.
type Work<'a> = dyn FnMut(Location) -> Result<()> + 'a;

/// A call of a function that takes the device's memory.
pub struct OnDevice {
    /// The operands, those of tensors dense.
    reads: Vec<Operand>,
    /// Whether the function said that it cannot.
    is_refused: AtomicBool,
}

impl OnDevice {
    fn new(reads: Vec<Operand>) -> OnDevice {
        OnDevice { reads, is_refused: AtomicBool::new(false) }
    }

    /// Calls the function; `address` is that of the first element of an operand. `false`: it cannot, and the results
    /// are still to be made.
    pub fn run(
        &self,
        device: &dyn Device,
        step: &Step,
        call: &Call,
        address: impl Fn(&Operand) -> usize,
    ) -> Result<bool> {
        if self.is_refused.load(Relaxed) {
            return Ok(false);
        }
        let queue = |work: &mut Work| device.queue(&mut || work(device.location())).map(|()| true);
        match self.call(device, step, call, address, queue) {
            Err(error) if error.code == Code::Unsupported => {
                self.is_refused.store(true, Relaxed);
                Ok(false)
            }
            done => done,
        }
    }

    /// Calls the function where `queue` lets it put what it does.
    pub fn call<T>(
        &self,
        device: &dyn Device,
        step: &Step,
        call: &Call,
        address: impl Fn(&Operand) -> usize,
        queue: impl FnOnce(&mut Work) -> Result<T>,
    ) -> Result<T> {
        let Kernel::Node { op: Op::Host, attrs } = &step.kernel else {
            return internal!("a call without an operator");
        };
        let op = operator(attrs)?;
        let (Attr::Args(args), Some(function)) = (&attrs[2], &op.device_function) else {
            return internal!("a call without a function");
        };
        let tensor = |operand: &Operand| HostTensor {
            data: address(operand),
            dtype: operand.dtype,
            sizes: operand.layout.sizes.clone(),
        };
        let numbers: Vec<u64> = (self.reads.iter().zip(scalar_operands(args)))
            .map(|(read, is_scalar)| match read.mem {
                MemRef::Scalar(slot) => Ok(call.scalars[slot as usize]),
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
        queue(&mut |location| function(location, &args, &outs))
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
