//! What a trace records, what a cut leaves behind, and what must or must not change the key.

use super::*;
use crate::buffer::Bytes;
use crate::cache::key::Key;
use crate::dtype::DType::F32;
use crate::op::host::{HostOp, register};
use crate::record::Output;
use crate::shape::Layout;

/// Memory of the test's own.
struct Plain(Vec<u8>);

impl Bytes for Plain {
    fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn read(&self, offset: usize, destination: &mut [u8]) {
        destination.copy_from_slice(&self.0[offset..offset + destination.len()]);
    }
    fn write(&mut self, offset: usize, source: &[u8]) {
        self.0[offset..offset + source.len()].copy_from_slice(source);
    }
}

fn operator(name: &str) -> Operator {
    let function = Box::new(|_: &[host::HostArg], _: &[host::HostTensor]| Ok(()));
    Operator::Host(register(HostOp { name: name.into(), key: name.into(), function }))
}

fn whole(sizes: &[i64]) -> View {
    View { dtype: F32, layout: Layout::contiguous(sizes) }
}

/// A trace and a few words to drive it with: all tensors are f32[2, 3].
#[derive(Default)]
struct Driver(Trace);

const SIZES: [i64; 2] = [2, 3];

impl Driver {
    fn empty(&mut self) -> BufferId {
        self.0.new_buffer(24)
    }

    fn stored(&mut self) -> BufferId {
        let id = self.empty();
        let storage = Arc::new(Storage::ready(Box::new(Plain(vec![0; 24]))));
        self.0.store(id, storage, Format::flat(F32, 24));
        id
    }

    fn run(&mut self, name: &str, inputs: &[BufferId], out: BufferId) -> bool {
        let given = |&buffer| Given::Tensor { buffer, view: whole(&SIZES) };
        let args = inputs.iter().map(given).collect();
        self.0.record(operator(name), args, &[(out, whole(&SIZES))]).unwrap()
    }

    fn scaled(&mut self, factor: f64, x: BufferId, out: BufferId) {
        let scalar = Given::Scalar { kind: ScalarKind::Float, bits: factor.to_bits() };
        let tensor = Given::Tensor { buffer: x, view: whole(&SIZES) };
        self.0.record(operator("scale"), vec![tensor, scalar], &[(out, whole(&SIZES))]).unwrap();
    }

    fn cut(&mut self) -> Closed {
        self.0.cut(true).expect("something lives on")
    }
}

fn key(closed: &Closed) -> Key {
    Key::new(closed.key_parts())
}

#[test]
fn only_what_a_buffer_holds_lives_on() {
    let mut d = Driver::default();
    let (x, y, z) = (d.stored(), d.empty(), d.empty());
    d.run("a", &[x], y);
    d.run("b", &[y], z);
    d.0.drop_buffer(y);
    let closed = d.cut();
    assert_eq!(closed.records.outputs, [Output { value: 2, donor: None }]);
    assert_eq!(closed.leaves.len(), 1);
    assert!(matches!(d.0.content(z), Content::Stored(_)));
    assert!(d.0.cut(true).is_none());
}

#[test]
fn an_in_place_update_donates_what_it_replaces_but_only_at_a_full_cut() {
    for full in [true, false] {
        let mut d = Driver::default();
        let (x, g) = (d.stored(), d.stored());
        d.run("update", &[x, g], x);
        let closed = d.0.cut(full).unwrap();
        assert_eq!(closed.records.outputs, [Output { value: 2, donor: full.then_some(0) }]);
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
    assert_eq!(closed.records.outputs, [Output { value: 2, donor: Some(0) }]);
    assert_eq!(closed.leaves.len(), 1);
}

#[test]
fn a_partial_write_reads_the_rest() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.stored());
    let column =
        View { dtype: F32, layout: Layout::contiguous(&SIZES).slice(&[0, 1], &[2, 1], &[1, 1]) };
    let args = vec![Given::Tensor { buffer: x, view: column.clone() }];
    d.0.record(operator("column"), args, &[(y, column)]).unwrap();
    let closed = d.cut();
    let write = &closed.records.records[0].outs[0];
    assert_eq!(write.old, Some(1));
    assert_eq!(closed.records.values[1].origin, Origin::Leaf(1));
}

#[test]
fn a_view_that_leaves_its_buffer_is_refused_and_nothing_is_recorded() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.empty());
    for bad in [
        whole(&[7]),
        View { dtype: F32, layout: Layout { offset: 1, ..Layout::contiguous(&SIZES) } },
    ] {
        let args = vec![Given::Tensor { buffer: x, view: bad.clone() }];
        let error = d.0.record(operator("a"), args, &[(y, whole(&SIZES))]).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(d.0.record(operator("a"), vec![], &[(y, bad)]).is_err());
    }
    assert!(d.0.is_empty());
}

#[test]
fn a_place_is_asked_for_once() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.empty());
    for step in 0..3 {
        for name in ["a", "b", "a"] {
            let new = d.run(name, &[x], y);
            assert_eq!(new, step == 0, "{name} in step {step}");
            if new {
                d.0.locate(7);
            }
        }
        let closed = d.cut();
        assert!(closed.records.records.iter().all(|record| record.site == 7));
    }
    assert!(d.run("c", &[x], y), "another operation at the same position is another place");
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
            kept.into_iter().for_each(|id| d.0.drop_buffer(id));
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
        key(&d.0.cut(full).unwrap())
    };
    assert_eq!(cut(true).difference(&cut(false)), ["donors"]);
}
