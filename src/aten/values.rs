//! The trace's values in the graph: the content of a buffer after each record.

use super::{read, takes_gradients};
use crate::error::{Code, Error, Result};
use crate::graph::ValueId;
use crate::graph::math::{Math, V};
use crate::internal;
use crate::op::{Attr, Op, Ty};
use crate::record::{Arg, Operator, Origin, Read, Records, Value, ValueIndex};
use smallvec::smallvec;
use std::cell::RefCell;
use std::collections::HashSet;

/// Values by their index in the trace, made on first use (leaves, zeros) or when a record writes them.
pub struct Values<'a> {
    records: &'a Records,
    known: RefCell<Vec<Option<ValueId>>>,
    /// Values that gradients are taken with respect to.
    marked: HashSet<ValueIndex>,
}

impl<'a> Values<'a> {
    pub fn new(records: &'a Records) -> Values<'a> {
        let known = RefCell::new(vec![None; records.values.len()]);
        Values { records, known, marked: marked(records) }
    }

    /// Whether the trace takes gradients.
    pub fn are_differentiated(&self) -> bool {
        !self.marked.is_empty()
    }

    /// The value as it was recorded.
    pub fn recorded(&self, index: ValueIndex) -> &'a Value {
        &self.records.values[index as usize]
    }

    /// Whether the value is in the graph.
    pub fn has(&self, index: ValueIndex) -> bool {
        self.known.borrow()[index as usize].is_some()
    }

    /// The value as a dense array in its format.
    pub fn get(&self, math: &'a Math, index: ValueIndex) -> Result<V<'a>> {
        let Some(value) = self.records.values.get(index as usize) else {
            return internal!("value {index} is not in the trace");
        };
        if let Some(id) = self.known.borrow()[index as usize] {
            return Ok(math.wrap(id));
        }
        let format = &value.format;
        let made = match value.origin {
            Origin::Leaf(leaf) => {
                math.build(|b| b.input(leaf, Ty::new(format.dtype, &format.sizes)))
            }
            Origin::Zeros => math.zeros(format.dtype, &format.sizes),
            Origin::Written { record, .. } => {
                return internal!("value {index} is read before record {record} writes it");
            }
        };
        let made = self.set(index, made);
        math.check()?;
        Ok(made)
    }

    /// Makes `v` the value. Equal values that gradients are taken with respect to would become one node, and their
    /// gradients one sum; so each gets a node of its own.
    pub fn set<'m>(&self, index: ValueIndex, v: V<'m>) -> V<'m> {
        let v = match self.marked.contains(&index) {
            true => v.math().op(Op::Mark, &[v], smallvec![Attr::Int(index as i64)]),
            false => v,
        };
        self.known.borrow_mut()[index as usize] = Some(v.id);
        v
    }

    /// The whole value that a tensor is a view of. Errors: `Unsupported` if its dtype differs from the tensor's.
    pub fn whole(&self, math: &'a Math, read: &Read) -> Result<V<'a>> {
        let v = self.get(math, read.value)?;
        let (dtype, current) = (read.view.dtype, v.dtype());
        if dtype != current {
            let message =
                format!("a tensor of {dtype} in a buffer that was used as {current} before");
            return Err(Error::new(Code::Unsupported, message));
        }
        Ok(v)
    }

    /// The elements that a read shows, dense.
    pub fn read(&self, math: &'a Math, read: &Read) -> Result<V<'a>> {
        let v = read::read(self.get(math, read.value)?, &read.view);
        math.check()?;
        Ok(v)
    }
}

/// The values that the trace takes gradients with respect to.
fn marked(records: &Records) -> HashSet<ValueIndex> {
    let mut marked = HashSet::new();
    for record in &records.records {
        if let (Operator::Native(row), [_, Arg::Tensors(reads), ..]) = (record.op, &record.args[..])
            && takes_gradients(row)
        {
            marked.extend(reads.iter().flatten().map(|read| read.value));
        }
    }
    marked
}
