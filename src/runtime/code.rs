//! What a program runs. A large program starts with a plan that was made quickly, while the one that stays is searched for.

use super::engine_choice::EngineChoice;
use super::memory_report;
use super::results_block::LastBlocks;
use crate::backend::{Backend, Executable};
use crate::error::Result;
use crate::plan::Plan;
use crate::plan::early::Touched;
use crate::plan::final_use::FinalUses;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// A plan that the backend has compiled.
pub struct Compiled {
    pub plan: Arc<Plan>,
    pub executable: Box<dyn Executable>,
    pub has_fallbacks: bool,
    /// Of memory that it takes, its inputs included.
    pub bytes: u64,
    pub final_uses: FinalUses,
    pub last_blocks: LastBlocks,
    touched: OnceLock<Touched>,
}

/// The plan of a program, and perhaps a better one that computes the same bits, or the same on another engine.
pub struct Code {
    versions: Mutex<Versions>,
    pub choice: EngineChoice,
}

struct Versions {
    newest: Arc<Compiled>,
    before: Option<Arc<Compiled>>,
}

impl Code {
    pub fn new(compiled: Compiled) -> Code {
        let versions = Versions { newest: Arc::new(compiled), before: None };
        Code { versions: versions.into(), choice: EngineChoice::default() }
    }

    pub fn newest(&self) -> Arc<Compiled> {
        self.versions.lock().newest.clone()
    }

    /// What is to be run. The run that the program is made for begins while a better plan is looked for, and must not depend
    /// on when that is found; the runs after it come when it is.
    pub fn to_run(&self, is_first: bool) -> Arc<Compiled> {
        let mut versions = self.versions.lock();
        match &versions.before {
            Some(before) if is_first => before.clone(),
            _ => {
                versions.before = None;
                versions.newest.clone()
            }
        }
    }

    pub fn replace(&self, better: impl Into<Arc<Compiled>>) {
        let mut versions = self.versions.lock();
        versions.before = Some(std::mem::replace(&mut versions.newest, better.into()));
    }
}

impl Compiled {
    /// Errors: the backend's.
    pub fn new(plan: Arc<Plan>, backend: &dyn Backend) -> Result<Compiled> {
        let executable = backend.compile(plan.clone())?;
        let has_fallbacks = plan.steps.iter().any(|step| backend.calls_host(&step.kernel));
        let bytes = memory_report::bytes(&plan);
        let final_uses = FinalUses::of(&plan, |kernel| backend.calls_host(kernel));
        let (last_blocks, touched) = (LastBlocks::default(), OnceLock::new());
        Ok(Compiled { plan, executable, has_fallbacks, bytes, final_uses, last_blocks, touched })
    }

    pub fn touched(&self) -> &Touched {
        self.touched.get_or_init(|| Touched::by(&self.plan))
    }
}
