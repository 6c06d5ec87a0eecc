//! What a program runs. A large program starts with a plan that was made quickly, while the one that stays is searched for.

use crate::backend::Executable;
use crate::op::Op;
use crate::plan::{Kernel, Plan};
use parking_lot::RwLock;
use std::sync::Arc;

/// A plan that the backend has compiled.
pub struct Compiled {
    pub plan: Arc<Plan>,
    pub executable: Box<dyn Executable>,
    pub has_host_calls: bool,
}

/// The plan of a program, which may be replaced by a better one that computes the same bits. Who runs the old one goes on.
pub struct Code(RwLock<Arc<Compiled>>);

impl Code {
    pub fn new(compiled: Compiled) -> Code {
        Code(RwLock::new(Arc::new(compiled)))
    }

    pub fn get(&self) -> Arc<Compiled> {
        self.0.read().clone()
    }

    pub fn replace(&self, better: Compiled) {
        *self.0.write() = Arc::new(better);
    }
}

impl Compiled {
    pub fn new(plan: Arc<Plan>, executable: Box<dyn Executable>) -> Compiled {
        let is_host = |kernel: &Kernel| matches!(kernel, Kernel::Node { op: Op::Host, .. });
        let has_host_calls = plan.steps.iter().any(|step| is_host(&step.kernel));
        Compiled { plan, executable, has_host_calls }
    }
}
