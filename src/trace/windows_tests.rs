//! What is read at changing places is a leaf of its own, and nobody is given its memory.

use super::tests::{Driver, arg, whole};
use super::*;
use crate::dtype::DType::F32;
use crate::record::View;
use crate::shape::Layout;

/// A row of a tensor.
fn row(n: i64) -> View {
    let layout = Layout { offset: 3 * n, ..Layout::contiguous(&[1, 3]) };
    View { dtype: F32, layout }
}

impl Driver {
    fn with_windows(alignment: usize) -> Driver {
        let mut driver = Driver::default();
        driver.trace.set_alignment(alignment);
        driver
    }

    /// Reads a row; whether it was recorded in full.
    fn read(&mut self, x: BufferId, n: i64, out: BufferId) -> bool {
        let view = row(n);
        self.write("read", &[arg(x, &view)], out, &whole(&[2, 3])).unwrap() != Recorded::Again
    }

    /// A step that reads a row; whether it was recorded in full, and how many bytes into the tensor its leaf begins.
    fn step(&mut self, x: BufferId, n: i64) -> (bool, usize) {
        let begin = |storage: &Storage| storage.address().unwrap();
        let out = self.empty();
        let is_new = self.read(x, n, out);
        let closed = self.cut();
        self.trace.drop_buffer(out);
        let Content::Stored(storage) = self.trace.content(x) else { panic!("it was only read") };
        (is_new, begin(&closed.leaves[0]) - begin(&storage))
    }
}

#[test]
fn a_place_is_no_part_of_what_is_recorded() {
    let mut d = Driver::with_windows(1);
    let x = d.stored();
    assert_eq!(
        [0, 1, 0, 1].map(|n| d.step(x, n)),
        [(true, 0), (true, 12), (false, 0), (false, 12)]
    );
    // Another tensor is read as a whole.
    let y = d.stored();
    assert_eq!([0, 0].map(|n| d.step(y, n)), [(false, 0), (false, 0)]);
    assert_eq!([1, 0].map(|n| d.step(y, n)), [(true, 12), (false, 0)]);
}

#[test]
fn windows_begin_where_a_backend_wants_them() {
    let mut d = Driver::with_windows(8);
    let x = d.stored();
    assert_eq!([0, 1, 0, 1].map(|n| d.step(x, n)), [(true, 0), (true, 8), (true, 0), (false, 8)]);
}

#[test]
fn without_an_alignment_there_are_none() {
    let mut d = Driver::default();
    let x = d.stored();
    assert_eq!([0, 1, 0, 1].map(|n| d.step(x, n)), [(true, 0), (true, 0), (false, 0), (false, 0)]);
}

/// A step that reads a row and then writes the tensor, all of it or a row; how many bytes its leaves have, and the donors.
fn updated(d: &mut Driver, x: BufferId, n: i64, view: &View) -> (Vec<usize>, Vec<Option<u32>>) {
    let (y, z) = (d.empty(), d.empty());
    d.read(x, n, y);
    d.run("all", &[x], z);
    d.write("write", &[], x, view).unwrap();
    let closed = d.cut();
    for (output, promised) in closed.promised.iter().enumerate() {
        let bytes = Box::new(super::tests::Plain(vec![output as u8; 24]));
        promised.fulfil(Ok(bytes));
    }
    for id in [y, z] {
        d.trace.drop_buffer(id);
    }
    let leaves = closed.leaves.iter().map(|leaf| leaf.nbytes()).collect();
    (leaves, closed.outputs.iter().map(|output| output.donor).collect())
}

#[test]
fn memory_that_windows_show_is_nobodys() {
    let mut d = Driver::with_windows(1);
    let x = d.stored();
    let all = whole(&[2, 3]);
    assert_eq!(updated(&mut d, x, 0, &all), (vec![24], vec![None, None, Some(0)]));
    for n in [1, 0] {
        assert_eq!(updated(&mut d, x, n, &all), (vec![12, 24], vec![None, None, None]));
    }
}

#[test]
fn two_windows_may_be_one() {
    let mut d = Driver::with_windows(1);
    let x = d.stored();
    let step = |d: &mut Driver, n: [i64; 2]| {
        let out = d.empty();
        let views = n.map(row);
        let args = views.each_ref().map(|view| arg(x, view));
        let is_new = d.write("both", &args, out, &whole(&[2, 3])).unwrap() != Recorded::Again;
        (is_new, d.cut().leaves.len())
    };
    let steps = [[0, 1], [1, 0], [0, 0], [1, 1], [0, 1]].map(|n| step(&mut d, n));
    assert_eq!(steps, [(true, 1), (true, 2), (false, 2), (false, 2), (false, 2)]);
}

#[test]
fn a_write_to_what_has_windows_asks_for_a_cut() {
    let mut d = Driver::with_windows(1);
    let (x, view) = (d.stored(), whole(&[2, 3]));
    for n in [0, 1] {
        d.step(x, n);
    }
    let y = d.empty();
    d.read(x, 0, y);
    let outs = [TensorRef::new(x, &view)];
    let write = Call { op: super::tests::operator("write"), args: &[], outs: &outs };
    assert!(d.trace.end_windows(&write));
    d.cut();
    assert!(!d.trace.end_windows(&write));
    // For a while there are none.
    assert_eq!([0, 1].map(|n| d.step(x, n).1), [0, 0]);
}

#[test]
fn what_is_written_by_parts_has_no_windows() {
    let mut d = Driver::with_windows(1);
    let x = d.stored();
    for n in [0, 1, 0, 1] {
        assert_eq!(updated(&mut d, x, n, &row(n)), (vec![24], vec![None, None, Some(0)]));
    }
}

#[test]
fn a_buffer_that_comes_for_another_has_windows_of_its_own() {
    let mut d = Driver::with_windows(1);
    let x = d.stored();
    for n in [0, 1] {
        d.step(x, n);
    }
    let (y, z) = (d.empty(), d.empty());
    d.read(x, 1, y);
    d.trace.drop_buffer(x);
    let other = d.stored();
    assert_eq!(other, x);
    d.read(other, 1, z);
    let closed = d.cut();
    let [first, second] = &closed.leaves[..] else { panic!("two leaves") };
    assert!(!Arc::ptr_eq(first.whole(), second.whole()));
}

#[test]
fn gradients_see_whole_tensors() {
    let mut d = Driver::with_windows(1);
    let (x, view, one) = (d.stored(), whole(&[2, 3]), row(0));
    for n in [0, 1] {
        d.step(x, n);
    }
    let loss = |d: &mut Driver, n: i64| {
        let (y, part, first) = (d.empty(), row(n), row(0));
        let outs = [TensorRef::new(y, &first)];
        let operator = Operator::Native(aten::find("neg").unwrap());
        d.call(&Call { op: operator, args: &[arg(x, &part)], outs: &outs }).unwrap();
        y
    };
    let gradient = |d: &mut Driver, y: BufferId| {
        let scalar = View {
            layout: Layout { sizes: [1, 1][..].into(), ..one.layout.clone() },
            ..one.clone()
        };
        let out = d.empty();
        let params = ArgRef::Tensors(vec![Some(TensorRef::new(x, &view))]);
        let outs = [TensorRef::new(out, &view)];
        let operator = Operator::Native(aten::find("torchacc::grad").unwrap());
        d.call(&Call { op: operator, args: &[arg(y, &scalar), params], outs: &outs })
    };
    let y = loss(&mut d, 0);
    let error = gradient(&mut d, y).unwrap_err();
    assert!(error.message.contains("parts of tensor 0 were read"), "{error}");
    d.cut();
    let y = loss(&mut d, 1);
    let before = d.trace.len();
    gradient(&mut d, y).ok();
    assert!(d.trace.windows.is_empty(), "after {before} records");
}
