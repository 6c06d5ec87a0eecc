//! Programs by the known trace that they come from: a repeated step finds its program without its key's bytes.

use crate::record::Output;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Beyond this many programs all are forgotten. The table of keys still has them: it alone keeps them alive.
const CAPACITY: usize = 1024;
/// One look-up in this many is also made by the key; in debug builds every one.
const SAMPLE: u64 = if cfg!(debug_assertions) { 1 } else { 1024 };

/// A trace's number stands for its records and leaves; its outputs differ from run to run.
pub struct Paths<P>(Mutex<Inner<P>>);

struct Inner<P> {
    /// By trace number.
    programs: HashMap<u64, Vec<Path<P>>>,
    count: usize,
    found: u64,
}

struct Path<P> {
    outputs: Vec<Output>,
    program: Weak<P>,
    /// Hash of the program's key.
    hash: u128,
}

/// A program found by its trace.
pub struct Found<P> {
    pub program: Arc<P>,
    pub hash: u128,
    /// Whether to compare with the program that the key leads to.
    pub check: bool,
}

impl<P> Default for Paths<P> {
    fn default() -> Paths<P> {
        Paths(Mutex::new(Inner { programs: HashMap::new(), count: 0, found: 0 }))
    }
}

impl<P> Paths<P> {
    /// The program of trace `trace_id` with these outputs and donors, if it is still there.
    pub fn find(&self, trace_id: u64, outputs: &[Output]) -> Option<Found<P>> {
        let mut inner = self.0.lock();
        let path = inner.programs.get(&trace_id)?.iter().find(|path| path.outputs == outputs)?;
        let (program, hash) = (path.program.upgrade()?, path.hash);
        inner.found += 1;
        Some(Found { program, hash, check: inner.found.is_multiple_of(SAMPLE) })
    }

    /// The program that the trace led to last, with its outputs and donors.
    pub fn latest(&self, trace_id: u64) -> Option<(Arc<P>, Vec<Output>)> {
        let inner = self.0.lock();
        let path = inner.programs.get(&trace_id)?.last()?;
        Some((path.program.upgrade()?, path.outputs.clone()))
    }

    /// Forgets all programs.
    pub fn clear(&self) {
        let mut inner = self.0.lock();
        inner.programs.clear();
        inner.count = 0;
    }

    /// From now on the trace leads to `program`, whose key has this hash, with these outputs.
    pub fn add(&self, trace_id: u64, outputs: &[Output], program: &Arc<P>, hash: u128) {
        let mut inner = self.0.lock();
        if inner.count >= CAPACITY {
            inner.programs.clear();
            inner.count = 0;
        }
        let list = inner.programs.entry(trace_id).or_default();
        let before = list.len();
        list.retain(|path| path.outputs != outputs);
        let replaced = before - list.len();
        list.push(Path { outputs: outputs.to_vec(), program: Arc::downgrade(program), hash });
        inner.count += 1 - replaced;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_leads_to_a_program_for_each_set_of_outputs() {
        let paths = Paths::default();
        let outputs = |donor| [Output { value: 3, donor }];
        let [a, b, c, d] = ['a', 'b', 'c', 'd'].map(Arc::new);
        paths.add(1, &outputs(None), &a, 0);
        paths.add(1, &outputs(Some(0)), &b, 0);
        paths.add(2, &outputs(None), &d, 0);
        paths.add(2, &outputs(None), &c, 0);
        let find = |trace_id, outputs: &[Output]| {
            paths.find(trace_id, outputs).map(|found| *found.program)
        };
        assert_eq!(find(1, &outputs(None)), Some('a'));
        assert_eq!(find(1, &outputs(Some(0))), Some('b'));
        assert_eq!(find(2, &outputs(None)), Some('c'));
        assert_eq!((find(2, &outputs(Some(0))), find(1, &[]), find(3, &[])), (None, None, None));
        assert_eq!(paths.latest(2).map(|(program, _)| *program), Some('c'));
        assert_eq!(paths.latest(1).map(|(_, last)| last), Some(outputs(Some(0)).to_vec()));
        drop(a);
        assert_eq!(find(1, &outputs(None)), None, "nobody keeps it");
    }

    #[test]
    fn the_number_of_programs_is_bounded() {
        let paths = Paths::default();
        for trace_id in 0..10 * CAPACITY as u64 {
            let program = Arc::new(trace_id);
            paths.add(trace_id, &[], &program, 0);
            assert_eq!(paths.find(trace_id, &[]).map(|found| *found.program), Some(trace_id));
        }
        assert!(paths.0.lock().programs.len() <= CAPACITY);
    }
}
