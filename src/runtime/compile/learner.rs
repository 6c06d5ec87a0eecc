//! Plans programs for other sizes while later ones run.

use super::background::BackgroundThread;
use crate::dynamic::FAMILIES;
use crate::runtime::program::Unlearned;

/// One for each family, unless another has taken its place.
const WAITING: usize = FAMILIES;

pub fn learner() -> BackgroundThread<Unlearned> {
    BackgroundThread::new("other-sizes", WAITING, |shared, program| program.learn(shared))
}
