//! Finished traces, kept to be expected again.

use crate::aten::may_be_refused;
use crate::record::{Operator, Record, ScalarKind, Value};
use std::sync::Arc;

/// At most so many traces are expected, ...
const TAPES: usize = 32;
/// ... and at most so many canonical bytes in all of them (but always one trace): about 65,000 records. The records
/// themselves take several times that.
const BYTES: usize = 16 << 20;

/// A trace as data, without what differs from run to run: which memory its leaves are, the values of its scalars, what
/// of it lives on.
#[derive(Default)]
pub struct Tape {
    /// Never given twice by one [`Known`]; 0 before it has one.
    pub id: u64,
    pub values: Vec<Value>,
    pub records: Vec<Record>,
    /// Kind of each slot of the argument block.
    pub scalars: Vec<ScalarKind>,
    /// Canonical bytes of the records.
    pub bytes: Vec<u8>,
    /// What there was after each record.
    pub marks: Vec<Mark>,
}

#[derive(Clone, Copy, Default)]
pub struct Mark {
    pub values: usize,
    pub scalars: usize,
    pub bytes: usize,
    /// Hash of all bytes up to here.
    pub chain: u64,
    /// Whether the results of the record have the types that follow from its arguments.
    pub inferred: bool,
    /// Whether the record gives gradients.
    pub gradient: bool,
}

impl Tape {
    /// Whether some of it has to run though nobody wants a result: host calls may fail, or do more than they return, and
    /// other operators may refuse the numbers that they meet.
    pub fn has_effects(&self) -> bool {
        let has =
            |record: &Record| matches!(record.op, Operator::Host(_)) || may_be_refused(record);
        self.records.iter().any(has)
    }

    /// What there was before record `position`.
    pub fn mark(&self, position: usize) -> Mark {
        position.checked_sub(1).map_or_else(Mark::default, |last| self.marks[last])
    }

    /// Whether the first `length` records of both are the same. The hash refuses, the bytes decide.
    fn shares(&self, other: &Tape, length: usize) -> bool {
        if self.records.len() < length || other.records.len() < length {
            return false;
        }
        let (mark, its) = (self.mark(length), other.mark(length));
        mark.chain == its.chain
            && self.bytes[..mark.bytes] == other.bytes[..its.bytes]
            && self.values[..mark.values] == other.values[..its.values]
            && self.scalars[..mark.scalars] == other.scalars[..its.scalars]
    }

    /// A copy of the first `length` records.
    pub fn prefix(&self, length: usize) -> Tape {
        let mark = self.mark(length);
        Tape {
            id: 0,
            values: self.values[..mark.values].to_vec(),
            records: self.records[..length].to_vec(),
            scalars: self.scalars[..mark.scalars].to_vec(),
            bytes: self.bytes[..mark.bytes].to_vec(),
            marks: self.marks[..length].to_vec(),
        }
    }
}

/// The traces that may come again, most recently used first.
#[derive(Default)]
pub struct Known {
    tapes: Vec<Arc<Tape>>,
    last_id: u64,
}

impl Known {
    pub fn len(&self) -> usize {
        self.tapes.len()
    }

    /// Number of the trace that was added last.
    pub fn newest(&self) -> u64 {
        self.last_id
    }

    pub fn first(&self) -> Option<Arc<Tape>> {
        self.tapes.first().cloned()
    }

    /// The `index`-th, if it begins like the first `length` records of `tape` and goes on.
    pub fn branch(&self, index: usize, tape: Option<&Tape>, length: usize) -> Option<Arc<Tape>> {
        let other = &self.tapes[index];
        let same = other.records.len() > length && tape.is_none_or(|t| other.shares(t, length));
        same.then(|| other.clone())
    }

    /// The trace that is the first `length` records of `tape`, now the most recently used one.
    pub fn finished(&mut self, tape: Arc<Tape>, length: usize) -> Arc<Tape> {
        let itself = self.tapes.iter().position(|known| Arc::ptr_eq(known, &tape));
        let known = itself.filter(|_| tape.records.len() == length).or_else(|| {
            let same =
                |known: &Arc<Tape>| known.records.len() == length && known.shares(&tape, length);
            self.tapes.iter().position(same)
        });
        if let Some(at) = known {
            self.tapes[..=at].rotate_right(1);
            return self.tapes[0].clone();
        }
        self.last_id += 1;
        // One that was recorded in full has no other owner and is kept as it is.
        let owned = Arc::try_unwrap(tape).unwrap_or_else(|shared| shared.prefix(length));
        self.keep(Arc::new(Tape { id: self.last_id, ..owned }))
    }

    fn keep(&mut self, tape: Arc<Tape>) -> Arc<Tape> {
        self.tapes.insert(0, tape.clone());
        let total = |tapes: &[Arc<Tape>]| tapes.iter().map(|t| t.bytes.len()).sum::<usize>();
        while self.tapes.len() > 1 && (self.tapes.len() > TAPES || total(&self.tapes) > BYTES) {
            self.tapes.pop();
        }
        tape
    }
}

#[cfg(test)]
impl Tape {
    /// The tape that recording these would have made; `id` is one of its own.
    pub fn of(id: u64, values: Vec<Value>, records: Vec<Record>) -> Tape {
        let mut tape = Tape { id, values, records, ..Tape::default() };
        let (mut known, mut sites) = (0, crate::trace::Sites::default());
        for record in &tape.records {
            let start = tape.bytes.len();
            crate::cache::encode::record(&mut tape.bytes, record);
            sites.next(&tape.bytes[start..]);
            known = record.outs.iter().map(|out| out.value as usize + 1).fold(known, usize::max);
            let (bytes, chain) = (tape.bytes.len(), sites.chain());
            tape.marks.push(Mark { values: known, bytes, chain, ..Mark::default() });
        }
        tape
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operator;

    fn tape(byte: u8) -> Tape {
        let record = Record { op: Operator::Native(0), args: vec![], outs: vec![], site: 0 };
        let mark = Mark { bytes: 1, chain: 42, ..Mark::default() };
        Tape { records: vec![record], bytes: vec![byte], marks: vec![mark], ..Tape::default() }
    }

    #[test]
    fn large_traces_are_fewer() {
        let mut known = Known::default();
        for n in 0..20 {
            known.finished(Arc::new(Tape { bytes: vec![n; BYTES / 4], ..tape(0) }), 1);
            assert!(known.len() <= 4);
        }
        known.finished(Arc::new(Tape { bytes: vec![0; 2 * BYTES], ..tape(0) }), 1);
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn equal_hashes_of_different_traces_do_not_make_them_one() {
        let mut known = Known::default();
        let first = known.finished(Arc::new(tape(1)), 1);
        let second = known.finished(Arc::new(tape(2)), 1);
        assert_ne!(first.id, second.id);
        assert_eq!(known.finished(Arc::new(tape(1)), 1).id, first.id);
        assert_eq!(known.len(), 2);
    }
}
