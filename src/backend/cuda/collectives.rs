//! Collectives of a program. Where the communicator does them on the device's memory, they run on a side stream and overlap
//! the steps between them and those that need their results.
//!
//! **Invariant:** no step overlaps a collective whose memory it writes, or whose result it reads; a run ends with none
//! in flight.

use super::device::Device;
use super::horizontal_fusion::{LaunchGroup, Window};
use crate::backend::Call;
use crate::error::Result;
use crate::op::Op;
use crate::op::collective::{self, Kind};
use crate::plan::{Kernel, MemRef, Plan, Step};

/// The collectives of a plan.
pub struct Collectives {
    /// Kind of each collective, and the reference to its communicator's number.
    calls: Vec<(Kind, MemRef)>,
    /// For every launch group, the collectives that it waits for.
    joins: Vec<Vec<usize>>,
}

impl Collectives {
    pub fn new<T>(plan: &Plan, groups: &[LaunchGroup<T>]) -> Collectives {
        let mut calls = Vec::new();
        let mut open: Vec<(usize, Window)> = Vec::new();
        let mut joins = Vec::new();
        for group in groups {
            let mut joined = Vec::new();
            for &index in group.steps() {
                let step = &plan.steps[index];
                if let Some(kind) = kind(step) {
                    // Its data reads, if any, are followed by communicator, token and rank; its data writes by the token.
                    let (reads, writes) = (step.reads.len() - 3, step.writes.len() - 1);
                    calls.push((kind, step.reads[reads].mem));
                    let mut window = Window::default();
                    // Only collectives use tokens, and they are in order among themselves.
                    window.touch(plan, &step.reads[..reads], &step.writes[..writes]);
                    open.push((index, window));
                } else if let Some(last) = open.iter().rposition(|(_, w)| w.waits(plan, step)) {
                    joined.extend(open.drain(..=last).map(|(collective, _)| collective));
                }
            }
            joins.push(joined);
        }
        Collectives { calls, joins }
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether the call's communicators run all these collectives on device memory.
    pub fn are_on_device(&self, call: &Call) -> bool {
        self.calls.iter().all(|(kind, mem)| match mem {
            MemRef::Scalar(slot) => collective::is_on_device(*kind, call.scalars[*slot as usize]),
            _ => false,
        })
    }

    /// The steps whose collectives a launch group waits for.
    pub fn before(&self, group: usize) -> &[usize] {
        &self.joins[group]
    }
}

fn kind(step: &Step) -> Option<Kind> {
    match &step.kernel {
        Kernel::Node { op: Op::Host, attrs } => collective::of(attrs).map(|(kind, _)| kind),
        _ => None,
    }
}

/// A run in progress.
pub struct Run<'a> {
    device: &'a dyn Device,
    /// The collectives in flight: each one's step and the device's number for it.
    in_flight: Vec<(usize, usize)>,
    /// Whether all its queued work is done. Otherwise copies on other streams wait for it before they use its memory.
    pub is_done: bool,
}

impl Run<'_> {
    pub fn new(device: &dyn Device) -> Run<'_> {
        Run { device, in_flight: Vec::new(), is_done: false }
    }

    pub fn put(&mut self, step: usize, number: usize) {
        self.in_flight.push((step, number));
    }

    /// Makes later work wait for the side-stream work of these steps.
    pub fn join(&mut self, steps: &[usize]) -> Result<()> {
        let mut joined = Ok(());
        self.in_flight.retain(|(step, number)| {
            let stays = !steps.contains(step);
            if !stays {
                joined = joined.clone().and(self.device.join(*number));
            }
            stays
        });
        joined
    }

    pub fn join_all(&mut self) -> Result<()> {
        let all: Vec<usize> = self.in_flight.iter().map(|(step, _)| *step).collect();
        self.join(&all)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        debug_assert!(
            !self.is_done || self.in_flight.is_empty(),
            "a run ended with a collective in flight"
        );
        // If this fails, the device is lost.
        self.join_all().ok();
        if !self.is_done {
            self.device.queue(&mut || Ok(())).ok();
        }
    }
}
