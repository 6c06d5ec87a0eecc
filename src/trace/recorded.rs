//! Recorded traces, kept to be replayed.

use super::Sites;
use crate::aten::{has_only_results, may_be_refused};
use crate::cache::encode;
use crate::op::arg::ScalarKind;
use crate::record::{Operator, Origin, Output, Record, Records, Value};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Maximum number of traces that are kept.
const TRACES: usize = 256;
/// Maximum number of canonical bytes in all of them (but one trace is always kept): about 65,000 records. The records
/// themselves take several times that.
const BYTES: usize = 16 << 20;

/// Maximum number of records of a trace that the thread waiting for it may run itself, since it then has the results sooner than
/// another thread would be awake and done. Of longer traces some results are ready long before the last. At 96 instead of 16 a
/// step of NllbMoe, of 13 cuts, takes 0.9 of the time (Zen 5).
const SHORT: usize = 96;

/// A trace as data, without the parts that differ from run to run: the memory of its leaves, the values of its scalars,
/// and which of its values live on.
#[derive(Default)]
pub struct RecordedTrace {
    /// Never reused by one [`TraceHistory`]; 0 before it is in one.
    pub id: u64,
    pub values: Vec<Value>,
    pub records: Vec<Record>,
    /// Kind of each slot of the argument block.
    pub scalars: Vec<ScalarKind>,
    /// Canonical bytes of the records.
    pub bytes: Vec<u8>,
    /// The state after each record.
    pub marks: Vec<Mark>,
    pub outlook: Outlook,
}

/// Whether it pays to run a trace while it is being recorded again.
#[derive(Default)]
pub struct Outlook {
    /// Whether the host was idle last time until a result was ready, or an early run shortened its wait.
    awaited: AtomicBool,
    /// Number of early runs that were of use, less two for each that was not.
    credit: AtomicI32,
    /// The values of its scalars in its last run, and whether they were the same in the run before.
    scalars: Mutex<Vec<(u64, bool)>>,
    /// The trace that came after it last time.
    follower: Mutex<Weak<RecordedTrace>>,
    /// Number of the last trace that was equal to this one.
    number: AtomicU64,
}

/// Bounds of [`Outlook::credit`]: the least with which another early run is started, and the maximum.
const CREDIT: [i32; 2] = [-2, 4];

impl Outlook {
    pub fn is_good(&self) -> bool {
        self.awaited.load(Relaxed) && self.credit.load(Relaxed) >= CREDIT[0]
    }

    pub fn set_awaited(&self, awaited: bool) {
        self.awaited.store(awaited, Relaxed);
    }

    pub fn was_trace(&self, number: u64) {
        self.number.store(number, Relaxed);
    }

    /// Whether the buffers made in trace `number` existed when this one was recorded last time.
    pub fn had_seen(&self, number: u64) -> bool {
        number <= self.number.load(Relaxed)
    }

    /// Counts an early run. If it was of no use, none is started until the host waits again.
    pub fn was_begun(&self, of_use: bool) {
        let credit = self.credit.load(Relaxed) + if of_use { 1 } else { -2 };
        self.credit.store(credit.min(CREDIT[1]), Relaxed);
        self.set_awaited(of_use);
    }

    /// Notes the values of the scalars of a run.
    pub fn had(&self, scalars: &[u64]) {
        let mut last = self.scalars.lock();
        if last.len() != scalars.len() {
            *last = scalars.iter().map(|&bits| (bits, false)).collect();
            return;
        }
        last.iter_mut().zip(scalars).for_each(|(last, &bits)| *last = (bits, bits == last.0));
    }

    /// The values of the scalars that do not seem to change; `None` for the others.
    pub fn steady(&self) -> Vec<Option<u64>> {
        let steady = |&(bits, is_steady): &(u64, bool)| is_steady.then_some(bits);
        self.scalars.lock().iter().map(steady).collect()
    }

    fn copied(&self) -> Outlook {
        let (awaited, credit) = (self.awaited.load(Relaxed), self.credit.load(Relaxed));
        Outlook {
            awaited: AtomicBool::new(awaited),
            credit: AtomicI32::new(credit),
            number: AtomicU64::new(self.number.load(Relaxed)),
            ..Outlook::default()
        }
    }
}

#[derive(Clone, Copy, Default)]
pub struct Mark {
    pub values: usize,
    pub scalars: usize,
    pub bytes: usize,
    /// Hash of all bytes up to here.
    pub chain: u64,
    /// Hash of the operations up to here ([`with_operation`](super::changing::with_operation)).
    pub operations: u64,
    /// Whether the results of the record have the types that follow from its arguments.
    pub inferred: bool,
    /// Whether the record computes gradients.
    pub gradient: bool,
}

impl RecordedTrace {
    /// Whether some records have to run though no result is wanted: CPU fallbacks may fail, or have effects, and other
    /// operators may refuse the numbers that they meet.
    pub fn has_effects(&self) -> bool {
        let has =
            |record: &Record| matches!(record.op, Operator::Host(_)) || may_be_refused(record);
        self.records.iter().any(has)
    }

    /// Whether it is short and calls no code of the program: then the thread that waits for it may run it.
    pub fn runs_on_any_thread(&self) -> bool {
        let is_ours = |record: &Record| match record.op {
            Operator::Native(row) => has_only_results(row),
            Operator::Host(_) => false,
        };
        self.records.len() <= SHORT && self.records.iter().all(is_ours)
    }

    /// The state before record `position`.
    pub fn mark(&self, position: usize) -> Mark {
        position.checked_sub(1).map_or_else(Mark::default, |last| self.marks[last])
    }

    /// Whether the first `length` records of both are the same. The hash refuses, the bytes decide.
    fn shares(&self, other: &RecordedTrace, length: usize) -> bool {
        if self.records.len() < length || other.records.len() < length {
            return false;
        }
        let (mark, its) = (self.mark(length), other.mark(length));
        mark.chain == its.chain
            && self.bytes[..mark.bytes] == other.bytes[..its.bytes]
            && self.values[..mark.values] == other.values[..its.values]
            && self.scalars[..mark.scalars] == other.scalars[..its.scalars]
    }

    /// The records to compile, with these outputs.
    pub fn records(&self, outputs: &[Output]) -> Records {
        let is_leaf = |value: &&Value| matches!(value.origin, Origin::Leaf(_));
        Records {
            values: self.values.clone(),
            records: self.records.clone(),
            scalars: self.scalars.clone(),
            n_leaves: self.values.iter().filter(is_leaf).count() as u32,
            outputs: outputs.to_vec(),
            varying: Vec::new(),
        }
    }

    /// The named parts of the key that the trace determines, with these outputs.
    pub fn key_parts(&self, outputs: &[Output]) -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("records", self.bytes.clone()),
            ("leaves", encode::leaves(&self.values)),
            ("outputs", encode::outputs(outputs)),
            ("donors", encode::donors(outputs)),
        ]
    }

    /// The trace with the sizes of `records`, which differ from its own in sizes only.
    pub fn resized(&self, records: Records) -> RecordedTrace {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut sites = Sites::default();
        let mark = |(record, mark): (&Record, &Mark)| {
            let start = bytes.len();
            encode::record(&mut bytes, record);
            sites.next(&bytes[start..]);
            Mark { bytes: bytes.len(), chain: sites.chain(), ..*mark }
        };
        let marks = records.records.iter().zip(&self.marks).map(mark).collect();
        let Records { values, records, scalars, .. } = records;
        let outlook = self.outlook.copied();
        RecordedTrace { id: 0, values, records, scalars, bytes, marks, outlook }
    }

    /// A copy of the first `length` records.
    pub fn prefix(&self, length: usize) -> RecordedTrace {
        let mark = self.mark(length);
        RecordedTrace {
            id: 0,
            values: self.values[..mark.values].to_vec(),
            records: self.records[..length].to_vec(),
            scalars: self.scalars[..mark.scalars].to_vec(),
            bytes: self.bytes[..mark.bytes].to_vec(),
            marks: self.marks[..length].to_vec(),
            outlook: Outlook::default(),
        }
    }
}

/// A trace that may come again, with the hashes that are compared first, since most traces differ.
struct Entry {
    trace: Arc<RecordedTrace>,
    start: u64,
    chain: u64,
}

/// The traces that may come again, most recently used first.
#[derive(Default)]
pub struct TraceHistory {
    traces: Vec<Entry>,
    /// Canonical bytes in all of them.
    bytes: usize,
    last_id: u64,
    /// The trace that was finished last.
    last: Weak<RecordedTrace>,
}

impl TraceHistory {
    pub fn len(&self) -> usize {
        self.traces.len()
    }

    /// Number of the trace that was added last.
    pub fn newest(&self) -> u64 {
        self.last_id
    }

    /// The trace most likely to come now: the one that came next last time, else the most recently used one.
    pub fn likely(&self) -> Option<Arc<RecordedTrace>> {
        let follower = |last: Arc<RecordedTrace>| last.outlook.follower.lock().upgrade();
        self.last.upgrade().and_then(follower).or_else(|| Some(self.traces.first()?.trace.clone()))
    }

    /// Whether the `index`-th trace may begin with a call of this [`start`].
    pub fn may_start(&self, index: usize, start: u64) -> bool {
        self.traces[index].start == start
    }

    /// The `index`-th trace, if it begins with the first `length` records of `trace` and goes on.
    pub fn branch(
        &self,
        index: usize,
        trace: Option<&RecordedTrace>,
        length: usize,
    ) -> Option<Arc<RecordedTrace>> {
        let other = &self.traces[index].trace;
        let same = other.records.len() > length && trace.is_none_or(|t| other.shares(t, length));
        same.then(|| other.clone())
    }

    /// The trace of the first `length` records of `trace`, now the most recently used one.
    pub fn finished(&mut self, trace: Arc<RecordedTrace>, length: usize) -> Arc<RecordedTrace> {
        let finished = self.kept(trace, length);
        if let Some(before) = self.last.upgrade() {
            *before.outlook.follower.lock() = Arc::downgrade(&finished);
        }
        self.last = Arc::downgrade(&finished);
        finished
    }

    fn kept(&mut self, trace: Arc<RecordedTrace>, length: usize) -> Arc<RecordedTrace> {
        let itself = self.traces.iter().position(|known| Arc::ptr_eq(&known.trace, &trace));
        let known = itself.filter(|_| trace.records.len() == length);
        let known = known.or_else(|| self.position(&trace, length));
        if let Some(at) = known {
            self.traces[..=at].rotate_right(1);
            return self.traces[0].trace.clone();
        }
        self.last_id += 1;
        // A trace that was recorded in full has no other owner and is kept as it is.
        let owned = Arc::try_unwrap(trace).unwrap_or_else(|shared| shared.prefix(length));
        self.keep(Arc::new(RecordedTrace { id: self.last_id, ..owned }))
    }

    /// Index of the trace that consists of the first `length` records of `trace`.
    fn position(&self, trace: &RecordedTrace, length: usize) -> Option<usize> {
        let chain = trace.mark(length).chain;
        let same = |known: &Entry| {
            known.chain == chain
                && known.trace.records.len() == length
                && known.trace.shares(trace, length)
        };
        self.traces.iter().position(same)
    }

    /// Adds a trace that is likely to come. Returns its number.
    pub fn expect(&mut self, trace: RecordedTrace) -> u64 {
        match self.position(&trace, trace.records.len()) {
            Some(at) => self.traces[..=at].rotate_right(1),
            None => {
                self.last_id += 1;
                self.keep(Arc::new(RecordedTrace { id: self.last_id, ..trace }));
            }
        }
        self.traces[0].trace.id
    }

    fn keep(&mut self, trace: Arc<RecordedTrace>) -> Arc<RecordedTrace> {
        let first = trace.records.first();
        let start = first.map_or(0, |record| {
            start(record.op, record.outs.iter().map(|out| &out.view.layout.sizes[..]))
        });
        let chain = trace.mark(trace.records.len()).chain;
        self.bytes += trace.bytes.len();
        self.traces.insert(0, Entry { trace: trace.clone(), start, chain });
        while self.traces.len() > 1 && (self.traces.len() > TRACES || self.bytes > BYTES) {
            let oldest = self.traces.pop();
            self.bytes -= oldest.map_or(0, |oldest| oldest.trace.bytes.len());
        }
        trace
    }
}

/// Hash of a call's operator and its results' sizes: the same for equal calls.
pub fn start<'a>(op: Operator, outs: impl Iterator<Item = &'a [i64]>) -> u64 {
    let (kind, number) = match op {
        Operator::Native(row) => (0, row as u64),
        Operator::Host(number) => (1, number as u64),
    };
    let step = |hash: u64, n: u64| (hash ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    outs.fold(step(kind, number), |hash, sizes| {
        sizes.iter().fold(step(hash, sizes.len() as u64), |hash, &size| step(hash, size as u64))
    })
}

#[cfg(test)]
impl RecordedTrace {
    /// What recording these would have made; `id` is one of its own.
    pub fn of(id: u64, values: Vec<Value>, records: Vec<Record>) -> RecordedTrace {
        let mut trace = RecordedTrace { id, values, records, ..RecordedTrace::default() };
        let (mut known, mut sites) = (0, crate::trace::Sites::default());
        for record in &trace.records {
            let start = trace.bytes.len();
            crate::cache::encode::record(&mut trace.bytes, record);
            sites.next(&trace.bytes[start..]);
            known = record.outs.iter().map(|out| out.value as usize + 1).fold(known, usize::max);
            let (bytes, chain) = (trace.bytes.len(), sites.chain());
            trace.marks.push(Mark { values: known, bytes, chain, ..Mark::default() });
        }
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operator;

    fn trace(byte: u8) -> RecordedTrace {
        let record = Record { op: Operator::Native(0), args: vec![], outs: vec![], site: 0 };
        let mark = Mark { bytes: 1, chain: 42, ..Mark::default() };
        RecordedTrace {
            records: vec![record],
            bytes: vec![byte],
            marks: vec![mark],
            ..RecordedTrace::default()
        }
    }

    #[test]
    fn large_traces_are_fewer() {
        let mut history = TraceHistory::default();
        for n in 0..20 {
            history.finished(Arc::new(RecordedTrace { bytes: vec![n; BYTES / 4], ..trace(0) }), 1);
            assert!(history.len() <= 4);
        }
        history.finished(Arc::new(RecordedTrace { bytes: vec![0; 2 * BYTES], ..trace(0) }), 1);
        assert_eq!(history.len(), 1);
    }

    #[test]
    fn a_trace_that_is_likely_to_come_is_kept_once() {
        let mut history = TraceHistory::default();
        let first = history.finished(Arc::new(trace(1)), 1);
        let expected = history.expect(trace(2));
        assert_ne!(expected, first.id);
        assert_eq!((history.expect(trace(1)), history.len()), (first.id, 2));
        assert_eq!(history.finished(Arc::new(trace(2)), 1).id, expected);
    }

    #[test]
    fn equal_hashes_of_different_traces_do_not_make_them_one() {
        let mut history = TraceHistory::default();
        let first = history.finished(Arc::new(trace(1)), 1);
        let second = history.finished(Arc::new(trace(2)), 1);
        assert_ne!(first.id, second.id);
        assert_eq!(history.finished(Arc::new(trace(1)), 1).id, first.id);
        assert_eq!(history.len(), 2);
    }
}
