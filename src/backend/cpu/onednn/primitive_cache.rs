//! What was made of the library once and is used again.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Problems that are remembered; then all are forgotten, so that changing shapes do not fill the memory.
const MOST: usize = 1024;

/// What solves a problem; `None` where there is nothing worth using.
pub struct PrimitiveCache<P, S>(Mutex<HashMap<P, Option<Arc<S>>>>);

impl<P, S> Default for PrimitiveCache<P, S> {
    fn default() -> PrimitiveCache<P, S> {
        PrimitiveCache(Mutex::default())
    }
}

impl<P: Hash + Eq + Copy, S> PrimitiveCache<P, S> {
    /// Two threads may both make the first one, which takes about a millisecond.
    pub fn find(&self, problem: P, make: impl FnOnce() -> Option<S>) -> Option<Arc<S>> {
        if let Some(known) = self.0.lock().get(&problem) {
            return known.clone();
        }
        let made = make().map(Arc::new);
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.entry(problem).or_insert(made).clone()
    }
}
