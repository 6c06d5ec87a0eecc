//! A backend without kernels: every output of a program is zeros. It runs nothing, so measurements with it show the
//! time of everything else; and it plans for any machine.

use super::host_memory::clear_output;
use super::memory::Pool;
use super::run::run_steps;
use super::{Backend, Call, Executable, Outcome};
use crate::error::Result;
use crate::op::collective::KIND_COUNT;
use crate::op::{Attrs, GPU_HALF_FLOPS_PER_BYTE, GPU_HOST_LINK_SLOWDOWN, Op, Ty};
use crate::plan::{Plan, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[derive(Default)]
pub struct Null {
    pool: Arc<Pool>,
    host_pool: Arc<Pool>,
    /// Whether plans are those of a backend with lanes.
    lanes: AtomicBool,
}

impl Null {
    pub fn with_lanes(lanes: bool) -> Null {
        Null { lanes: lanes.into(), ..Null::default() }
    }
}

impl Target for Null {
    fn workspace(&self, _: Op, _: &Attrs, _: &[Ty], _: &[Ty]) -> u64 {
        0
    }

    /// Plans that nobody runs here are for clusters of GPUs (`torchacc.auto.simulate`).
    fn half_flops_per_byte(&self) -> u64 {
        GPU_HALF_FLOPS_PER_BYTE
    }

    fn kinds_on_lanes(&self) -> usize {
        if self.lanes.load(Relaxed) { KIND_COUNT } else { 0 }
    }

    fn host_link_slowdown(&self) -> Option<u64> {
        self.lanes.load(Relaxed).then_some(GPU_HOST_LINK_SLOWDOWN)
    }
}

impl Backend for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn keep_collectives_in_order(&self) {
        self.lanes.store(false, Relaxed);
    }

    fn fingerprint(&self) -> String {
        let name = if self.lanes.load(Relaxed) { "null" } else { "null without lanes" };
        name.into()
    }

    fn supports(&self, _: Op) -> bool {
        true
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn host_pool(&self) -> &Arc<Pool> {
        &self.host_pool
    }

    fn compile(&self, plan: Arc<Plan>) -> Result<Box<dyn Executable>> {
        Ok(Box::new(Zeros { plan }))
    }
}

struct Zeros {
    plan: Arc<Plan>,
}

impl Executable for Zeros {
    fn run(&self, call: &Call) -> Outcome {
        for (k, ty) in self.plan.outputs.iter().enumerate() {
            if call.outputs[k] != 0 {
                clear_output(call, k, ty.nbytes());
            }
        }
        // Steps are of interest only if there was no memory for their results.
        match call.outputs.contains(&0) {
            true => run_steps(&self.plan, call, |_| Ok(())),
            false => Outcome::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType::F32;
    use crate::graph::Builder;

    #[test]
    fn outputs_are_zeros() {
        let mut builder = Builder::new();
        let x = builder.input(0, Ty::new(F32, &[3])).unwrap();
        let y = builder.unary(Op::Exp, x).unwrap();
        let graph = builder.finish(vec![y]);
        let null = Null::default();
        let plan = crate::plan::plan(&graph, &[Ty::new(F32, &[3])], &[], &[None], &null).unwrap();
        let (input, mut output) = ([1f32; 3], [7f32; 3]);
        let call = Call {
            inputs: &[input.as_ptr().expose_provenance()],
            poisoned: &[],
            derived: &[],
            outputs: &[output.as_mut_ptr().expose_provenance()],
            arena: 0,
            host: 0,
            results: 0,
            scalars: &[],
            watch: None,
        };
        let outcome = null.compile(Arc::new(plan)).unwrap().run(&call);
        assert!(outcome.failed.is_empty());
        assert_eq!(output, [0f32; 3]);
    }
}
