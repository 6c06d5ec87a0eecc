//! The open trace as a function: which tensors are its arguments, and which its results.

use super::{Buffer, BufferId, BufferState, TensorRef, Trace, operator_name};
use crate::buffer::Storage;
use crate::error::{Code, Error, Result};
use crate::invalid;
use crate::op::arg::ScalarKind;
use crate::record::{Origin, Read, Records, Value, ValueIndex, leaf_format};
use std::collections::HashMap;
use std::sync::Arc;

/// Records as a function. Everything else that they read is constant.
pub struct Captured {
    pub records: Records,
    /// Memory of the leaves, in their order.
    pub leaves: Vec<Arc<Storage>>,
    /// The argument block.
    pub numbers: Vec<(ScalarKind, u64)>,
    /// The tensors' contents before the records, viewed as the tensors view them: leaves, all different.
    pub inputs: Vec<Read>,
    /// Their contents now.
    pub outputs: Vec<Read>,
}

impl Trace {
    /// Number of this trace: each cut begins another one.
    pub fn number(&self) -> u64 {
        self.cuts
    }

    /// The records since the last cut, as a function; the trace is not changed.
    ///
    /// Errors: `InvalidArgument` for an input that is not the whole of its memory, was never written, or occurs twice, and for
    /// changed memory that is neither an input's nor an output's; `Unsupported` for an input that has another dtype here.
    pub fn captured(&self, inputs: &[TensorRef], outputs: &[TensorRef]) -> Result<Captured> {
        let trace = self.expected.as_deref().unwrap_or(&self.recording).prefix(self.position);
        let bits = self.scalar_bits.iter().copied();
        let mut function = Captured {
            numbers: trace.scalars.iter().copied().zip(bits).collect(),
            records: trace.records(&[]),
            leaves: self.leaves.clone(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let is_named = |id| inputs.iter().chain(outputs).any(|tensor| tensor.buffer == id);
        let changed = |id: &BufferId| match self.buffers[*id as usize].as_ref()? {
            Buffer { state: BufferState::Traced(value), before: Some(_), .. } => Some(*value),
            _ => None,
        };
        let foreign = self.touched.iter().filter(|&&id| !is_named(id)).find_map(changed);
        if let Some(value) = foreign
            && let Origin::Written { record, .. } = trace.values[value as usize].origin
        {
            let record = &trace.records[record as usize];
            let (nbytes, op) = (trace.values[value as usize].nbytes, operator_name(record.op));
            let message = format!(
                "{op} changes {nbytes} bytes that are neither an input nor an output: what is changed must be among them"
            );
            return Err(Error::new(Code::InvalidArgument, message).at(record.site));
        }
        let mut unread = HashMap::new();
        for (n, tensor) in inputs.iter().enumerate() {
            let view = tensor.view();
            if view.covers(self.nbytes(tensor.buffer)).is_none() {
                return invalid!("input {n} shares its memory with more than itself: clone it");
            }
            let value = self.value_before(tensor, &mut function, &mut unread);
            if let Some(first) = function.inputs.iter().position(|input| input.value == value) {
                return invalid!("inputs {first} and {n} are the same memory");
            }
            let found = &function.records.values[value as usize];
            if !matches!(found.origin, Origin::Leaf(_)) && found.nbytes > 0 {
                return invalid!("input {n} was never written: it is zeros, and not memory");
            }
            if found.format.dtype != tensor.dtype {
                let message =
                    format!("input {n} is {} and used as {}", tensor.dtype, found.format.dtype);
                return Err(Error::new(Code::Unsupported, message));
            }
            function.inputs.push(Read { value, view });
        }
        for tensor in outputs {
            let value = match self.value_of(tensor.buffer) {
                Some(value) => value,
                None => self.value_before(tensor, &mut function, &mut unread),
            };
            function.outputs.push(Read { value, view: tensor.view() });
        }
        Ok(function)
    }

    /// A buffer's content when the trace began, as a value of `function`; `unread` are those that no record reads.
    fn value_before(
        &self,
        tensor: &TensorRef,
        function: &mut Captured,
        unread: &mut HashMap<BufferId, ValueIndex>,
    ) -> ValueIndex {
        let (id, buffer) = (tensor.buffer, self.buffer(tensor.buffer));
        if let Some(known) = buffer.leaf.or(unread.get(&id).copied()) {
            return known;
        }
        let storage = match &buffer.state {
            BufferState::Stored(storage) => Some(storage),
            _ => buffer.before.as_ref(),
        };
        let origin = match storage {
            Some(storage) => {
                function.leaves.push(storage.clone());
                Origin::Leaf(function.leaves.len() as u32 - 1)
            }
            None => Origin::Zeros,
        };
        let format = leaf_format(&tensor.view(), buffer.nbytes);
        let value = function.records.values.len() as ValueIndex;
        function.records.values.push(Value { origin, format, nbytes: buffer.nbytes });
        unread.insert(id, value);
        value
    }
}
