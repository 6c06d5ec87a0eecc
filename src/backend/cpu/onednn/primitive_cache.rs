//! A cache of objects made by the library.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Maximum number of problems; when it is reached, all are forgotten, so that changing shapes do not fill the memory.
const MOST: usize = 1024;

/// The solutions of problems; `None` where none is worth using.
pub struct PrimitiveCache<P, S>(Mutex<HashMap<P, Option<Arc<S>>>>);

impl<P, S> Default for PrimitiveCache<P, S> {
    fn default() -> PrimitiveCache<P, S> {
        PrimitiveCache(Mutex::default())
    }
}

impl<P: Hash + Eq + Copy, S> PrimitiveCache<P, S> {
    /// Two threads may both make the first solution, which takes about a millisecond.
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
