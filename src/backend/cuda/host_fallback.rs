//! Host fallback: steps computed on the host, with operands copied there and results copied back.

use super::device::Device;
use crate::backend::Call;
use crate::backend::host_memory::address;
use crate::error::Result;
use crate::internal;
use crate::op::array::Array;
use crate::op::evaluate::evaluate;
use crate::op::fallback::{host_args, operator};
use crate::op::host::HostTensor;
use crate::op::{Attr, Op, Ty};
use crate::plan::{Kernel, MemRef, Operand, Step};

/// Computes a node by its row's meaning, or calls a host operator. Results are written when all are computed.
pub fn run(device: &dyn Device, step: &Step, call: &Call) -> Result<()> {
    let Kernel::Node { op, attrs } = &step.kernel else {
        return internal!("a fused kernel on the host");
    };
    let mut reads: Vec<Array> =
        step.reads.iter().map(|operand| fetch(device, operand, call)).collect::<Result<_>>()?;
    let types: Vec<Ty> =
        step.writes.iter().map(|write| Ty::new(write.dtype, &write.layout.sizes)).collect();
    let results = match op {
        Op::Host => call_host(attrs, &mut reads, &types)?,
        _ => evaluate(*op, &reads.iter().collect::<Vec<_>>(), attrs, &types)?,
    };
    for (write, result) in step.writes.iter().zip(&results) {
        let Some(start) = address(call, write.mem) else {
            return internal!("a result without memory");
        };
        if !result.bytes.is_empty() {
            let offset = write.layout.offset as usize * write.dtype.size();
            device.write(&result.bytes, start + offset)?;
        }
    }
    Ok(())
}

fn fetch(device: &dyn Device, operand: &Operand, call: &Call) -> Result<Array> {
    let mut array = Array::zeros(&Ty::new(operand.dtype, &operand.layout.sizes));
    let size = operand.dtype.size();
    let mut flat = vec![0; operand.layout.end() as usize * size];
    if let Some(start) = address(call, operand.mem)
        && !flat.is_empty()
    {
        device.read(start, &mut flat)?;
    }
    for (to, from) in operand.layout.indices().enumerate() {
        match operand.mem {
            MemRef::Index => array.set_i64(to, from),
            MemRef::Scalar(slot) => array.set_scalar(to, call.scalars[slot as usize]),
            _ => array.set_raw(to, &flat[from as usize * size..][..size]),
        }
    }
    Ok(array)
}

fn call_host(attrs: &[Attr], reads: &mut [Array], types: &[Ty]) -> Result<Vec<Array>> {
    let Attr::Args(args) = &attrs[2] else {
        return internal!("a CPU fallback without arguments");
    };
    let tensor = |array: &mut Array| HostTensor {
        data: array.bytes.as_mut_ptr().expose_provenance(),
        dtype: array.ty.dtype,
        sizes: array.ty.sizes.clone(),
    };
    let tensors: Vec<HostTensor> = reads.iter_mut().map(tensor).collect();
    let bits = |n: usize| {
        let mut word = [0u8; 8];
        let raw = reads[n].raw(0);
        word[..raw.len()].copy_from_slice(raw);
        u64::from_le_bytes(word)
    };
    let args = host_args(args, |n| tensors[n].clone(), bits);
    let mut results: Vec<Array> = types.iter().map(Array::zeros).collect();
    let targets: Vec<HostTensor> = results.iter_mut().map(tensor).collect();
    (operator(attrs)?.function)(&args, &targets)?;
    Ok(results)
}
