//! A plan that can be run.

use crate::backend::memory::Whole;
use crate::backend::{Backend, Executable};
use crate::error::Result;
use crate::plan::Plan;
use crate::plan::early::Touched;
use crate::plan::final_use::FinalUses;
use crate::runtime::observe::memory_report;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// A plan that the backend has compiled.
pub struct Compiled {
    pub plan: Arc<Plan>,
    pub executable: Box<dyn Executable>,
    pub has_fallbacks: bool,
    /// Bytes of memory that it takes, its inputs included.
    pub bytes: u64,
    pub final_uses: FinalUses,
    /// The last two blocks that its results were given ([`Plan::results`]).
    pub last_blocks: Mutex<[Weak<Whole>; 2]>,
    touched: OnceLock<Touched>,
}

impl Compiled {
    /// Errors: the backend's.
    pub fn new(plan: Arc<Plan>, backend: &dyn Backend) -> Result<Compiled> {
        let executable = backend.compile(plan.clone())?;
        let has_fallbacks = plan.steps.iter().any(|step| backend.calls_host(&step.kernel));
        let bytes = memory_report::bytes(&plan);
        let final_uses = FinalUses::of(&plan, |kernel| backend.calls_host(kernel));
        let (last_blocks, touched) = (Mutex::default(), OnceLock::new());
        Ok(Compiled { plan, executable, has_fallbacks, bytes, final_uses, last_blocks, touched })
    }

    pub fn touched(&self) -> &Touched {
        self.touched.get_or_init(|| Touched::by(&self.plan))
    }
}
