//! The operations of the user's program as plain data: they work on *values*, where a value is the content of a buffer
//! at one moment. Written by `trace`, hashed by `cache`, lowered to primitives by `aten`.
//!
//! **Invariant:** a record never points at memory or at a buffer; leaves are numbered by first use.

use crate::dtype::DType;
use crate::error::Site;
use crate::number::{Number, Numbers};
use crate::op::arg::ScalarKind;
use crate::op::host::HostOpId;
use crate::shape::{Dims, Layout};
use serde::{Deserialize, Serialize};

/// Index into [`Records::values`].
pub type ValueIndex = u32;

/// Interpretation of the bytes of a value: a dense row-major array of `dtype` with `sizes`. Strided views of it are
/// described by [`Read`] and [`Write`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    pub dtype: DType,
    pub sizes: Dims,
}

/// A strided view of a value's flat elements of type `dtype`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    pub dtype: DType,
    pub layout: Layout,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Read {
    pub value: ValueIndex,
    pub view: View,
}

/// A result is written into `view` of a buffer, which gives it a new value. `old` is the value whose bytes outside the
/// view are kept; `None` when the view covers the buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    pub old: Option<ValueIndex>,
    pub view: View,
    pub value: ValueIndex,
}

/// An argument. A number that may differ at every call is given by its slot in the argument block.
pub type Arg = crate::op::arg::Arg<Read, u32>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Index of a row of `aten`.
    Native(u32),
    Host(HostOpId),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub op: Operator,
    pub args: Vec<Arg>,
    pub outs: Vec<Write>,
    pub site: Site,
}

/// Where a value of a trace comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The `n`-th leaf: memory that exists before the trace runs.
    Leaf(u32),
    /// A buffer that was never written: zeros.
    Zeros,
    /// Written by out `out` of record `record`.
    Written { record: u32, out: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    pub origin: Origin,
    pub format: Format,
    /// Size of the buffer: exactly the bytes that `format` covers.
    pub nbytes: usize,
}

/// A tensor size in a trace that, according to the user's program, will be different next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Varying {
    pub size: i64,
    /// Smallest and largest value that it may take.
    pub least: i64,
    pub most: i64,
}

/// A closed trace: everything that compiling it needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    pub values: Vec<Value>,
    pub records: Vec<Record>,
    /// Kind of each slot of the argument block.
    pub scalars: Vec<ScalarKind>,
    pub n_leaves: u32,
    /// The values that outlive the trace: the program must leave them behind, in order.
    pub outputs: Vec<Output>,
    /// Advice for planning, not part of the computation.
    pub varying: Vec<Varying>,
}

/// A value that a live buffer holds when the trace is closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    pub value: ValueIndex,
    /// The leaf whose memory may be overwritten by this output: its buffer's old content, which nothing else holds.
    pub donor: Option<u32>,
}

impl Format {
    /// A one-dimensional format that covers `nbytes` exactly: of `dtype` if its size divides them, else of bytes.
    pub fn flat(dtype: DType, nbytes: usize) -> Format {
        let dtype = if nbytes.is_multiple_of(dtype.size()) { dtype } else { DType::U8 };
        Format { dtype, sizes: Dims::from_slice(&[(nbytes / dtype.size()) as i64]) }
    }

    pub fn numel(&self) -> i64 {
        crate::shape::numel(&self.sizes)
    }
}

impl View {
    /// If writing the view overwrites every byte of a buffer of `nbytes`: the sizes of the dense array in memory order
    /// and the permutation that brings the view's dimensions into that order.
    pub fn covers(&self, nbytes: usize) -> Option<(Dims, Dims)> {
        let l = &self.layout;
        if l.offset != 0 || l.numel() as usize * self.dtype.size() != nbytes {
            return None;
        }
        let mut perm: Dims = (0..l.rank() as i64).collect();
        // Stable, so that dimensions of size 1 stay where they are among equals.
        perm.sort_by_key(|&d| std::cmp::Reverse((l.strides[d as usize], l.sizes[d as usize])));
        let ordered = l.transpose(&perm);
        ordered.is_contiguous().then_some((ordered.sizes, perm))
    }
}

/// The format of memory that is first read, or written in part, through `view`. The format that it was made with does
/// not matter, so that a copied parameter is read by the same program as an updated one.
pub fn leaf_format(view: &View, nbytes: usize) -> Format {
    match view.covers(nbytes) {
        Some((sizes, _)) => Format { dtype: view.dtype, sizes },
        None => Format::flat(view.dtype, nbytes),
    }
}

/// The format of a buffer after `view` of it was written; `old` is the format of the value whose other bytes are kept.
pub fn written_format(old: Option<&Format>, view: &View, nbytes: usize) -> Format {
    let stays = old.filter(|old| old.dtype == view.dtype && view.covers(nbytes).is_none());
    stays.cloned().unwrap_or_else(|| leaf_format(view, nbytes))
}

impl Records {
    /// Whether the formats of the values are those that recording gives them.
    pub fn is_recordable(&self) -> bool {
        let value = |index: ValueIndex| &self.values[index as usize];
        let mut is_known = vec![false; self.values.len()];
        let mut meets = |index: ValueIndex, view: &View| {
            let Value { origin, format, nbytes } = value(index);
            let was_known = std::mem::replace(&mut is_known[index as usize], true);
            let is_written = matches!(origin, Origin::Written { .. });
            was_known || is_written || *format == leaf_format(view, *nbytes)
        };
        self.records.iter().all(|record| {
            record.args.iter().flat_map(Arg::tensors).all(|read| meets(read.value, &read.view))
                && record.outs.iter().all(|Write { old, view, value: new }| {
                    let Value { format, nbytes, .. } = value(*new);
                    let before = old.map(|old| &value(old).format);
                    old.is_none() == view.covers(*nbytes).is_some()
                        && old.is_none_or(|old| meets(old, view))
                        && *format == written_format(before, view, *nbytes)
                })
        })
    }
}

impl Numbers for Records {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        for value in &mut self.values {
            value.format.sizes.numbers(f);
            let mut nbytes = value.nbytes as u64;
            f(Number::Bytes(&mut nbytes));
            value.nbytes = nbytes as usize;
        }
        for record in &mut self.records {
            record.args.iter_mut().for_each(|arg| arg.numbers(f));
            record.outs.iter_mut().for_each(|out| out.view.layout.numbers(f));
        }
    }
}

impl Numbers for Read {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        self.view.layout.numbers(f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType::F32;

    fn view(sizes: &[i64]) -> View {
        View { dtype: F32, layout: Layout::contiguous(sizes) }
    }

    /// The first four of six numbers are read, and negated into the first of two rows of four.
    fn records() -> Records {
        let value = |origin, sizes: &[i64]| {
            let nbytes = 4 * crate::shape::numel(sizes) as usize;
            Value { origin, format: Format { dtype: F32, sizes: sizes.into() }, nbytes }
        };
        let written = Origin::Written { record: 0, out: 0 };
        let read = Read { value: 0, view: view(&[4]) };
        let out = Write { old: Some(1), view: view(&[1, 4]), value: 2 };
        let args = vec![Arg::Tensor(read)];
        Records {
            values: vec![
                value(Origin::Leaf(0), &[6]),
                value(Origin::Leaf(1), &[8]),
                value(written, &[8]),
            ],
            records: vec![Record { op: Operator::Native(0), args, outs: vec![out], site: 0 }],
            n_leaves: 2,
            ..Records::default()
        }
    }

    #[test]
    fn formats_are_those_that_recording_gives() {
        assert!(records().is_recordable());
        let changes: [fn(&mut Records); 4] = [
            |r| r.values[0].format.sizes = Dims::from_slice(&[2, 3]),
            |r| r.values[1].format.sizes = Dims::from_slice(&[2, 4]),
            |r| r.values[2].format.sizes = Dims::from_slice(&[2, 4]),
            |r| r.records[0].outs[0].old = None,
        ];
        for change in changes {
            let mut changed = records();
            change(&mut changed);
            assert!(!changed.is_recordable(), "{changed:?}");
        }
    }
}
