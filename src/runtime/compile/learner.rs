//! Plans programs for other sizes while later ones run.

use super::background::BackgroundThread;
use crate::dynamic::FAMILIES;
use crate::runtime::program::Unlearned;

/// One of each family, if no others have taken their place.
const WAITING: usize = FAMILIES;

pub fn learner() -> BackgroundThread<Unlearned> {
    BackgroundThread::new("other-sizes", WAITING, |shared, program| program.learn(shared))
}
