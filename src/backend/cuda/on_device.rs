//! Functions of custom operators that accept device memory.

use super::device::Device;
use crate::backend::Call;
use crate::buffer::Location;
use crate::error::{Code, Result};
use crate::internal;
use crate::op::fallback::{host_args, operator, scalar_operands};
use crate::op::host::HostTensor;
use crate::op::{Attr, Op};
use crate::plan::{Kernel, MemRef, Operand, Step};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A function that puts work on the queue of a location.
pub type Work<'a> = dyn FnMut(Location) -> Result<()> + 'a;

/// A call of a function that accepts device memory.
pub struct OnDevice {
    /// The operands, those of tensors dense.
    reads: Vec<Operand>,
    /// Whether the function has returned `Unsupported`.
    is_refused: AtomicBool,
}

impl OnDevice {
    pub fn new(reads: Vec<Operand>) -> OnDevice {
        OnDevice { reads, is_refused: AtomicBool::new(false) }
    }

    /// Calls the function; `address` is that of the first element of an operand. `false`: it does not support the call, and the
    /// results are still to be computed.
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

    /// Calls the function within `queue`, which passes it the location for its work.
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
