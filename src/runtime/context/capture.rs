//! Recorded operations as a program of its own, for other systems.

use super::Context;
use crate::error::Result;
use crate::op::Ty;
use crate::op::array::{Array, filled};
use crate::passes::{self, Draws};
use crate::record::{Origin, Value, ValueIndex};
use crate::stablehlo::Module;
use crate::trace::{Captured, TensorRef};
use crate::{aten, internal, invalid};

impl Context {
    /// Cuts, and returns the number of the trace that begins.
    pub fn begin_capture(&self) -> Result<u64> {
        self.cut()?;
        let mut trace = self.trace.lock()?;
        trace.begin_capture();
        Ok(trace.number())
    }

    /// The operations that trace `number` has recorded so far, as a function from the values that `inputs` held before it to
    /// those that `outputs` hold now. The states of generators, which gave `draws`, are its last inputs and results, `i64[2]`
    /// each: seed and offset. All else that it reads, numbers included, is constant. Nothing is computed, and the trace goes on.
    ///
    /// Errors: `InvalidArgument` if that trace has ended, and as [`Trace::captured`](crate::trace::Trace::captured); those of
    /// the operators' rows.
    pub fn capture(
        &self,
        number: u64,
        inputs: &[TensorRef],
        outputs: &[TensorRef],
        draws: &[Draws],
    ) -> Result<Module> {
        let captured = {
            let trace = self.trace.lock()?;
            if trace.number() != number {
                return invalid!(
                    "the trace was cut since the capture began: by a read, a sync or its length \
                     (torchacc.explain() tells where)"
                );
            }
            trace.captured(inputs, outputs)?
        };
        let (records, n) = (&captured.records, inputs.len());
        let (graph, constants) =
            aten::lower_function(records, &captured.inputs, &captured.outputs)?;
        let graph = match draws {
            [] => graph,
            _ => passes::draws(&graph, &captured.numbers, draws, n)?,
        };
        let graph = passes::settle(&graph, &captured.numbers)?.into_owned();
        let graph = passes::optimize(graph, &|op| self.shared.backend.supports(op))?;
        let types = inputs.iter().map(|tensor| Ty::new(tensor.dtype, tensor.sizes));
        let types: Vec<Ty> = types.chain(draws.iter().map(|_| Draws::state())).collect();
        let graph = passes::declare(&graph, &types)?.into_owned();
        let constants = constants.into_iter().map(|index| self.constant(&captured, index));
        Ok(Module { graph, inputs: types.len(), constants: constants.collect::<Result<_>>()? })
    }

    /// The value of a leaf.
    fn constant(&self, captured: &Captured, index: ValueIndex) -> Result<Array> {
        let Value { origin, format, nbytes } = &captured.records.values[index as usize];
        let &Origin::Leaf(leaf) = origin else { return internal!("a constant is a leaf") };
        let storage = &captured.leaves[leaf as usize];
        let mut bytes = filled(0, *nbytes);
        let outcome = storage.read(0, &mut bytes);
        match self.shared.observed.failures.of(storage, outcome)? {
            true => Ok(Array { ty: Ty::new(format.dtype, &format.sizes), bytes }),
            false => Err(crate::trace::lost()),
        }
    }
}
