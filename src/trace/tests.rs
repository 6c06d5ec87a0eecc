//! What a trace records, what a cut leaves behind, and what must or must not change the key.

use super::*;
use crate::buffer::Bytes;
use crate::cache::key::Key;
use crate::dtype::DType::F32;
use crate::op::host::{HostOp, register};
use crate::record::{Output, View};
use crate::shape::Layout;

/// Memory of the test's own.
pub(super) struct Plain(pub Vec<u8>);

impl Bytes for Plain {
    fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn read(&self, offset: usize, destination: &mut [u8]) -> Result<()> {
        destination.copy_from_slice(&self.0[offset..offset + destination.len()]);
        Ok(())
    }
    fn write(&mut self, offset: usize, source: &[u8]) -> Result<()> {
        self.0[offset..offset + source.len()].copy_from_slice(source);
        Ok(())
    }
}

pub(super) fn operator(name: &str) -> Operator {
    let function = Box::new(|_: &[host::HostArg], _: &[host::HostTensor]| Ok(()));
    Operator::Host(register(HostOp {
        name: name.into(),
        key: name.into(),
        function,
        shape: None,
        cuda: None,
        device_function: None,
    }))
}

pub(super) fn arg(buffer: BufferId, view: &View) -> ArgRef<'_> {
    ArgRef::Tensor(TensorRef::new(buffer, view))
}

pub(super) fn whole(sizes: &[i64]) -> View {
    View { dtype: F32, layout: Layout::contiguous(sizes) }
}

/// A trace and a few words to drive it with: all tensors are f32[2, 3].
#[derive(Default)]
pub(super) struct Driver {
    pub trace: Trace,
    /// Operations recorded in full.
    pub in_full: usize,
}

pub(super) const SIZES: [i64; 2] = [2, 3];

impl Driver {
    pub fn empty(&mut self) -> BufferId {
        self.trace.new_buffer(24)
    }

    pub fn stored(&mut self) -> BufferId {
        let id = self.empty();
        self.fill(id);
        id
    }

    pub fn fill(&mut self, id: BufferId) {
        let storage = Arc::new(Storage::ready(Box::new(Plain(vec![0; 24]))));
        self.trace.store(id, storage);
    }

    /// Writes a view; whether the call site is new.
    pub fn write(
        &mut self,
        name: &str,
        args: &[ArgRef],
        out: BufferId,
        view: &View,
    ) -> Result<Recorded> {
        let outs = [TensorRef::new(out, view)];
        self.call(&Call { op: operator(name), args, outs: &outs })
    }

    pub fn call(&mut self, call: &Call) -> Result<Recorded> {
        let recorded = self.trace.record(call)?;
        self.in_full += (recorded != Recorded::Again) as usize;
        Ok(recorded)
    }

    pub fn run(&mut self, name: &str, inputs: &[BufferId], out: BufferId) -> Recorded {
        let view = whole(&SIZES);
        let args: Vec<ArgRef> = inputs.iter().map(|&buffer| arg(buffer, &view)).collect();
        self.write(name, &args, out, &view).unwrap()
    }

    pub fn scaled(&mut self, factor: f64, x: BufferId, out: BufferId) -> Recorded {
        let view = whole(&SIZES);
        let scalar = ArgRef::Scalar { kind: ScalarKind::Float, bits: factor.to_bits() };
        self.write("scale", &[arg(x, &view), scalar], out, &view).unwrap()
    }

    pub fn cut(&mut self) -> Closed {
        self.trace.cut(true).expect("something lives on")
    }
}

pub(super) fn key(closed: &Closed) -> Key {
    Key::new(closed.key_parts())
}

#[test]
fn where_memory_comes_from_does_not_change_the_key() {
    let step = |d: &mut Driver, x: BufferId| {
        let y = d.empty();
        d.run("f", &[x], y);
        let closed = d.cut();
        d.trace.drop_buffer(y);
        key(&closed)
    };
    let mut d = Driver::default();
    let (copied, computed, updated) = (d.stored(), d.empty(), d.stored());
    d.run("g", &[copied], computed);
    // Only its first row.
    let row = View { dtype: F32, layout: Layout::contiguous(&[1, 3]) };
    d.write("h", &[], updated, &row).unwrap();
    d.cut();
    let expected = step(&mut d, copied);
    assert_eq!([computed, updated].map(|x| step(&mut d, x)), [expected.clone(), expected]);
}

#[test]
fn only_what_a_buffer_holds_lives_on() {
    let mut d = Driver::default();
    let (x, y, z) = (d.stored(), d.empty(), d.empty());
    d.run("a", &[x], y);
    d.run("b", &[y], z);
    d.trace.drop_buffer(y);
    let closed = d.cut();
    assert_eq!(closed.outputs, [Output { value: 2, donor: None }]);
    assert_eq!(closed.leaves.len(), 1);
    assert!(matches!(d.trace.content(z), Content::Stored(_)));
    assert!(d.trace.cut(true).is_none());
}

#[test]
fn an_in_place_update_donates_what_it_replaces_but_only_at_a_full_cut() {
    for full in [true, false] {
        let mut d = Driver::default();
        let (x, g) = (d.stored(), d.stored());
        d.run("update", &[x, g], x);
        let closed = d.trace.cut(full).unwrap();
        assert_eq!(closed.outputs, [Output { value: 2, donor: full.then_some(0) }]);
        assert!(closed.before[0].is_some(), "comes back if the update fails");
    }
}

#[test]
fn two_updates_in_one_trace_donate_the_memory_the_buffer_started_with() {
    let mut d = Driver::default();
    let x = d.stored();
    d.run("update", &[x], x);
    d.run("update", &[x], x);
    let closed = d.cut();
    assert_eq!(closed.outputs, [Output { value: 2, donor: Some(0) }]);
    assert_eq!(closed.leaves.len(), 1);
}

#[test]
fn a_partial_write_reads_the_rest() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.stored());
    let column =
        View { dtype: F32, layout: Layout::contiguous(&SIZES).slice(&[0, 1], &[2, 1], &[1, 1]) };
    d.write("column", &[arg(x, &column)], y, &column).unwrap();
    let records = d.cut().records();
    assert_eq!(records.records[0].outs[0].old, Some(1));
    assert_eq!(records.values[1].origin, Origin::Leaf(1));
}

#[test]
fn a_view_that_leaves_its_buffer_is_refused_and_nothing_is_recorded() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.empty());
    for bad in [
        whole(&[7]),
        View { dtype: F32, layout: Layout { offset: 1, ..Layout::contiguous(&SIZES) } },
    ] {
        let error = d.write("a", &[arg(x, &bad)], y, &whole(&SIZES)).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(d.write("a", &[], y, &bad).is_err());
    }
    assert!(d.trace.is_empty());
}

#[test]
fn a_call_site_is_looked_up_once() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.empty());
    let mut step = |last: &str| {
        let mut asked = 0;
        for name in ["a", "b", "a", last] {
            if let Recorded::At(pending) = d.run(name, &[x], y) {
                d.trace.locate(pending, 7);
                asked += 1;
            }
        }
        let records = d.cut().records().records;
        assert!(records.iter().all(|record| record.site == 7));
        asked
    };
    assert_eq!(step("b"), 4);
    assert_eq!(step("b"), 0);
    assert_eq!(step("c"), 1, "another operation at the same position is another place");
    assert_eq!(step("c"), 0);
}

#[test]
fn a_call_site_that_is_located_late_belongs_to_its_record() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.empty());
    let Recorded::At(pending) = d.run("a", &[x], y) else { panic!("never recorded before") };
    d.run("b", &[x], y);
    d.trace.locate(pending, 7);
    let sites: Vec<Site> = d.cut().records().records.iter().map(|record| record.site).collect();
    assert_eq!(sites, [7, 0]);
    d.run("c", &[x], y);
    d.trace.locate(pending, 8);
    assert_eq!(d.cut().records().records[0].site, 0, "that trace is closed");
}

/// Keys of two traces that differ in one thing.
fn check(same: bool, what: &str, first: impl Fn(&mut Driver), second: impl Fn(&mut Driver)) {
    let record = |f: &dyn Fn(&mut Driver)| {
        let mut d = Driver::default();
        f(&mut d);
        key(&d.cut())
    };
    let (a, b) = (record(&first), record(&second));
    assert_eq!(a == b, same, "{what}: parts that differ: {:?}", a.difference(&b));
}

#[test]
fn what_must_not_change_the_key() {
    let step = |factor: f64, others: usize| {
        move |d: &mut Driver| {
            // Other buffers come and go: numbers and addresses differ.
            let kept: Vec<BufferId> = (0..others).map(|_| d.stored()).collect();
            let (x, y) = (d.stored(), d.empty());
            d.scaled(factor, x, y);
            kept.into_iter().for_each(|id| d.trace.drop_buffer(id));
        }
    };
    check(true, "the value of a scalar", step(0.1, 0), step(0.2, 0));
    check(true, "NaN as a scalar", step(f64::NAN, 0), step(0.0, 0));
    check(true, "other buffers", step(0.1, 0), step(0.1, 5));
}

#[test]
fn what_must_change_the_key() {
    let plain = |d: &mut Driver| {
        let (x, w, y) = (d.stored(), d.stored(), d.empty());
        d.run("a", &[x, w], y);
    };
    check(true, "nothing", plain, plain);
    check(false, "the operator", plain, |d| {
        let (x, w, y) = (d.stored(), d.stored(), d.empty());
        d.run("b", &[x, w], y);
    });
    check(false, "two arguments in one buffer", plain, |d| {
        let (x, y) = (d.stored(), d.empty());
        d.run("a", &[x, x], y);
    });
    check(false, "the order of the arguments", plain, |d| {
        let (x, w, y) = (d.stored(), d.stored(), d.empty());
        d.run("b", &[w], x);
        d.run("a", &[x, w], y);
    });
    check(false, "a second result that lives", plain, |d| {
        let (x, w, y, z) = (d.stored(), d.stored(), d.empty(), d.empty());
        d.run("a", &[x, w], y);
        d.run("a", &[x, w], z);
    });
    check(false, "a dead result", plain, |d| {
        let (x, w, y) = (d.stored(), d.stored(), d.empty());
        d.run("a", &[x, w], y);
        d.run("a", &[x, w], y);
    });
    check(false, "in place instead of out of place", plain, |d| {
        let (x, w) = (d.stored(), d.stored());
        d.run("a", &[x, w], x);
    });
    check(false, "zeros instead of memory", plain, |d| {
        let (x, w, y) = (d.empty(), d.stored(), d.empty());
        d.run("a", &[x, w], y);
    });
}

#[test]
fn whether_an_input_may_be_overwritten_changes_the_key() {
    let cut = |full: bool| {
        let mut d = Driver::default();
        let x = d.stored();
        d.run("a", &[x], x);
        key(&d.trace.cut(full).unwrap())
    };
    assert_eq!(cut(true).difference(&cut(false)), ["donors"]);
}

#[test]
fn what_was_promised_fails_where_nobody_runs_the_program() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.empty());
    d.run("f", &[x], y);
    let closed = d.cut();
    let promised = closed.promised[0].clone();
    drop(closed);
    assert!(promised.is_settled());
    assert_eq!(promised.address().unwrap_err().code, crate::error::Code::Internal);
}
