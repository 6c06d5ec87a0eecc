//! Which gradients a trace can compute: those of a loss that it computes itself from the values that the tensors hold now.
//!
//! A gradient sees no further than the last cut, and would take everything earlier for a constant. So it is refused
//! when the loss depends on a tensor through computations before the cut, or on an older value of it.

use super::{
    ArgRef, BufferId, BufferState, Call, RecordedTrace, TensorRef, Trace, takes_gradients,
};
use crate::aten;
use crate::error::Result;
use crate::invalid;
use crate::record::{Arg, Operator, Origin, Output, Read, Record, Records, Value, ValueIndex};
use smallvec::SmallVec;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Identity of a buffer's content outside of the trace: unique, and higher for later contents. 0 is none.
pub type ContentId = u64;

/// Number of past cuts that are remembered.
const CUTS: usize = 8;

/// The values that a buffer has held in this trace before the present one.
#[derive(Default)]
pub struct Older {
    /// Number of the trace.
    cuts: u64,
    values: SmallVec<[ValueIndex; 2]>,
}

/// A trace that was cut: the dependencies of its results are looked up on demand.
pub struct Cut {
    pub trace: Arc<RecordedTrace>,
    /// Those of [`Trace::contents`].
    pub contents: Vec<ContentId>,
    /// Output `n` became content `first + n`.
    pub outputs: Vec<Output>,
    pub first: ContentId,
}

/// How the last trace came to its end.
#[derive(Clone, Copy, Default, PartialEq)]
pub enum Ended {
    #[default]
    Never,
    Asked,
    Read,
    Long,
}

#[derive(Default)]
pub struct Past {
    cuts: VecDeque<Cut>,
    pub ended: Ended,
}

impl Past {
    pub fn push(&mut self, cut: Cut, ended: Ended) {
        if self.cuts.len() == CUTS {
            self.cuts.pop_front();
        }
        self.cuts.push_back(cut);
        self.ended = ended;
    }

    /// The cut that computed a content.
    fn made(&self, content: ContentId) -> Option<&Cut> {
        let holds =
            |cut: &&Cut| (cut.first..cut.first + cut.outputs.len() as u64).contains(&content);
        self.cuts.iter().find(holds)
    }

    /// Whether one of these contents was computed from `source`.
    fn depend(&self, mut open: Vec<ContentId>, source: ContentId) -> bool {
        // Results that depend on all results before have exponentially many paths.
        let mut seen: HashSet<ContentId> = open.iter().copied().collect();
        while let Some(content) = open.pop() {
            let Some(cut) = self.made(content).filter(|cut| cut.first > source) else { continue };
            let value = cut.outputs[(content - cut.first) as usize].value;
            let ancestors = ancestors(&cut.trace.records, &cut.trace.values, value);
            for before in contents(&cut.contents, &ancestors) {
                if before == source {
                    return true;
                }
                if seen.insert(before) {
                    open.push(before);
                }
            }
        }
        false
    }

    /// For messages: the cause of the last trace's end, and a remedy.
    fn advice(&self) -> &'static str {
        match self.ended {
            Ended::Never => "nothing has computed it",
            Ended::Asked => "a cut or sync ended the trace; take the gradient before it",
            Ended::Read => {
                "a read (or the limit on the bytes that a trace keeps, trace_bytes) ended the trace; take the gradient \
                 before it"
            }
            Ended::Long => {
                "the trace ended by itself because of its length; raise trace_limit, or cut at the end of every step"
            }
        }
    }
}

/// The contents of the marked values.
fn contents<'a>(
    contents: &'a [ContentId],
    values: &'a [bool],
) -> impl Iterator<Item = ContentId> + 'a {
    let kept = contents.iter().zip(values).filter(|(content, kept)| **kept && **content != 0);
    kept.map(|(content, _)| *content)
}

/// Marks the values that a gradient of `value` would flow through.
fn ancestors(records: &[Record], values: &[Value], value: ValueIndex) -> Vec<bool> {
    let mut found = vec![false; values.len().max(value as usize + 1)];
    found[value as usize] = true;
    for at in (0..=value as usize).rev().filter(|&at| at < values.len()) {
        let Origin::Written { record, out } = values[at].origin else { continue };
        let Some(record) = records.get(record as usize).filter(|_| found[at]) else { continue };
        record.outs[out as usize].old.into_iter().for_each(|old| found[old as usize] = true);
        let flows_by = match record.op {
            Operator::Native(row) if aten::stops_gradients(row) => 0,
            Operator::Native(row) => aten::flows_by(row),
            Operator::Host(_) => usize::MAX,
        };
        let mut read = |read: &Read| found[read.value as usize] = true;
        for arg in record.args.iter().take(flows_by) {
            match arg {
                Arg::Tensor(one) => read(one),
                Arg::Tensors(list) => list.iter().flatten().for_each(&mut read),
                _ => {}
            }
        }
    }
    found
}

/// The loss and the tensors of a call.
fn asked<'a>(call: &'a Call) -> Result<(TensorRef<'a>, Vec<TensorRef<'a>>)> {
    debug_assert!(takes_gradients(call.op));
    let [ArgRef::Tensor(loss), ArgRef::Tensors(params), ..] = call.args else {
        return invalid!("a gradient takes a loss and a list of tensors");
    };
    let one = loss.sizes.iter().all(|&size| size == 1);
    if !one || !loss.dtype.is_float() {
        let (dtype, sizes) = (loss.dtype, loss.sizes);
        return invalid!("the loss must be one float, but is {dtype} of sizes {sizes:?}");
    }
    let params: Vec<TensorRef> = params.iter().flatten().copied().collect();
    match params.iter().position(|param| !param.dtype.is_float()) {
        None => Ok((*loss, params)),
        Some(n) => invalid!("tensor {n} is {}: only floats have gradients", params[n].dtype),
    }
}

impl Trace {
    pub(super) fn next_content(&mut self) -> ContentId {
        self.last_content += 1;
        self.last_content
    }

    /// Notes that a buffer is about to get another value.
    pub(super) fn outlived(&mut self, id: BufferId) {
        if let Some(value) = self.value_of(id) {
            self.was_outlived(id, value);
        }
    }

    pub(super) fn was_outlived(&mut self, id: BufferId, value: ValueIndex) {
        let cuts = self.cuts;
        let older = &mut self.buffer_mut(id).older;
        if older.cuts != cuts {
            *older = Older { cuts, ..Older::default() };
        }
        older.values.push(value);
    }

    /// The values that a buffer has held before in this trace.
    fn older(&self, id: BufferId) -> &[ValueIndex] {
        let older = &self.buffer(id).older;
        if older.cuts == self.cuts { &older.values } else { &[] }
    }

    /// Refuses a gradient that the records so far cannot give. Errors: `InvalidArgument`.
    pub(super) fn check_gradient(&self, call: &Call) -> Result<()> {
        match &self.expected {
            Some(trace) => self.check_gradient_in(trace, call),
            None => self.check_gradient_in(&self.recording, call),
        }
    }

    /// [`Trace::check_gradient`] for the next record of `trace`. In a step like the last it inspects leaves and tensors only.
    pub(super) fn gives_gradient(&self, trace: &RecordedTrace, call: &Call) -> bool {
        self.check_gradient_in(trace, call).is_ok()
    }

    fn check_gradient_in(&self, trace: &RecordedTrace, call: &Call) -> Result<()> {
        let (loss, params) = asked(call)?;
        let BufferState::Traced(loss) = self.buffer(loss.buffer).state else {
            let advice = self.past.advice();
            return invalid!(
                "the loss is not among what was recorded since the last cut: {advice}"
            );
        };
        let rewritten = params.iter().any(|param| !self.older(param.buffer).is_empty());
        let has_parts = params.iter().any(|param| self.has_windows(param.buffer));
        if !rewritten && !has_parts && !self.may_reach_back(&params) {
            return Ok(());
        }
        let known = trace.mark(self.position);
        let ancestors = ancestors(
            &trace.records[..self.position],
            &trace.values[..known.values.min(trace.values.len())],
            loss,
        );
        let is_ancestor = |value: ValueIndex| ancestors.get(value as usize) == Some(&true);
        for (n, param) in params.iter().enumerate() {
            if self.windows_of(param.buffer).any(is_ancestor) {
                return invalid!(
                    "parts of tensor {n} were read at changing places since the last cut, where a gradient does not see them; cut, and compute the loss again"
                );
            }
            let depends = self.value_of(param.buffer).is_some_and(is_ancestor);
            if !depends && self.older(param.buffer).iter().any(|&value| is_ancestor(value)) {
                return invalid!(
                    "tensor {n} was written since the loss was computed from it; take the gradient before that"
                );
            }
            let source = self.content_of(param.buffer);
            let before = || contents(&self.contents, &ancestors).collect();
            if source.is_some_and(|source| self.past.depend(before(), source)) {
                let advice = self.past.advice();
                return invalid!(
                    "the loss depends on tensor {n} by way of what was computed before the last cut: {advice}; or use it through \"detach\" where it is meant to be a constant"
                );
            }
        }
        Ok(())
    }

    /// Takes the gradient, so that it is refused now and not together with the whole trace: an operation on the way may
    /// have none. All records so far are in the trace's own recording. Errors: `Unsupported`, those of the records.
    pub(super) fn check_rules(&self, call: &Call) -> Result<()> {
        let read = |tensor: &TensorRef| {
            Some(Read { value: self.value_of(tensor.buffer)?, view: tensor.view() })
        };
        // A tensor that the trace has not met does not affect the loss.
        let known = |arg_ref: &ArgRef| match arg_ref {
            ArgRef::Tensor(tensor) => read(tensor).map_or(Arg::None, Arg::Tensor),
            ArgRef::Tensors(list) => {
                let reads = list.iter().flatten().filter_map(&read);
                Arg::Tensors(reads.map(Some).collect())
            }
            _ => Arg::None,
        };
        let args = call.args.iter().map(known).collect();
        let last = Record { op: call.op, args, outs: Vec::new(), site: 0 };
        let records = Records {
            values: self.recording.values.clone(),
            records: self.recording.records.iter().cloned().chain([last]).collect(),
            scalars: self.recording.scalars.clone(),
            n_leaves: self.leaves.len() as u32,
            ..Records::default()
        };
        aten::infer(&records).map(drop)
    }

    /// Identity of a buffer's content, unless this trace has computed it.
    fn content_of(&self, id: BufferId) -> Option<ContentId> {
        let buffer = self.buffer(id);
        (!matches!(buffer.state, BufferState::Traced(_))).then_some(buffer.content)
    }

    /// Whether the trace has read a result that an earlier one computed after one of the tensors got its content.
    fn may_reach_back(&self, params: &[TensorRef]) -> bool {
        let oldest = params.iter().filter_map(|param| self.content_of(param.buffer)).min();
        let Some(oldest) = oldest else { return false };
        let newer = |&content: &ContentId| {
            content > oldest && self.past.made(content).is_some_and(|cut| cut.first > oldest)
        };
        self.contents.iter().any(newer)
    }
}
