//! Plans programs for other sizes while later ones run.

use super::background::BackgroundThread;
use crate::dynamic::FAMILIES;
use crate::runtime::program::Unlearned;

/// Number of tasks that may wait: enough for one of each family, unless families were replaced meanwhile.
const WAITING: usize = FAMILIES;

pub fn learner() -> BackgroundThread<Unlearned> {
    BackgroundThread::new("other-sizes", WAITING, |shared, program| program.learn(shared))
}
