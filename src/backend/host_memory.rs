//! Operands of a step as arrays, for the slow paths of backends whose memory is the host's.
//!
//! **Invariant:** touches only elements that an operand's layout names; `plan::check` has proved that they are inside
//! the memory of the call.
#![expect(unsafe_code, reason = "the addresses of a call are plain numbers")]

use super::Call;
use crate::op::Ty;
use crate::op::array::Array;
use crate::plan::{MemRef, Operand};
use std::ptr;

/// Address of flat element 0 of an operand; `None` when it has no memory of its own (scalars, indices).
pub fn address(call: &Call, mem: MemRef) -> Option<usize> {
    match mem {
        MemRef::Input(n) => Some(call.inputs[n as usize]),
        MemRef::Output(n) => Some(call.outputs[n as usize]),
        MemRef::Arena(offset) => Some(call.arena + offset as usize),
        MemRef::Host(offset) => Some(call.host + offset as usize),
        MemRef::Results(offset) => Some(call.results + offset as usize),
        MemRef::Scalar(_) | MemRef::Index => None,
    }
}

/// Fills the first `nbytes` bytes of an output with zeros.
pub fn clear_output(call: &Call, output: usize, nbytes: usize) {
    // SAFETY: the caller of `run` lends us the memory of every output for writing, as large as the plan says.
    unsafe {
        ptr::write_bytes(ptr::with_exposed_provenance_mut::<u8>(call.outputs[output]), 0, nbytes)
    }
}

/// The elements of an operand in row-major order of its sizes.
pub fn read_operand(call: &Call, operand: &Operand) -> Array {
    let mut array = Array::zeros(&Ty::new(operand.dtype, &operand.layout.sizes));
    let size = operand.dtype.size();
    for (to, from) in operand.layout.indices().enumerate() {
        match operand.mem {
            MemRef::Index => array.set_i64(to, from),
            MemRef::Scalar(slot) => array.set_scalar(to, call.scalars[slot as usize]),
            mem => {
                let start =
                    address(call, mem).expect("other places have memory") + from as usize * size;
                // SAFETY: the plan's layouts stay inside the memory that the caller of `run` lends us for reading.
                unsafe {
                    let source = ptr::with_exposed_provenance::<u8>(start);
                    ptr::copy_nonoverlapping(source, array.bytes[to * size..].as_mut_ptr(), size);
                }
            }
        }
    }
    array
}

/// Writes the elements of `array`, in row-major order, where the operand's layout says. Dtypes and sizes must be equal.
pub fn write_operand(call: &Call, operand: &Operand, array: &Array) {
    assert_eq!(operand.dtype, array.ty.dtype, "an operand takes its own dtype");
    assert_eq!(operand.layout.sizes, array.ty.sizes, "an operand takes its own sizes");
    let base = address(call, operand.mem).expect("only memory is written");
    let size = operand.dtype.size();
    for (from, to) in operand.layout.indices().enumerate() {
        // SAFETY: the plan's layouts stay inside the memory that the caller of `run` lends us for writing.
        unsafe {
            let target = ptr::with_exposed_provenance_mut::<u8>(base + to as usize * size);
            ptr::copy_nonoverlapping(array.raw(from).as_ptr(), target, size);
        }
    }
}
