//! Collectives of a program, and copies between the device's memory and the host's. Copies, and collectives that the communicator
//! does on the device's memory, run on side streams and overlap the steps between them and those that need their results, or
//! their memory.
//!
//! **Invariant:** no step overlaps another one on a side stream whose memory it writes, or whose result it reads; a run ends with
//! none in flight.

use super::device::Device;
use super::horizontal_fusion::{LaunchGroup, Window};
use crate::backend::Call;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::collective::{self, Kind};
use crate::op::lane::{CollectiveLane, Ticket};
use crate::plan::{LaneId, MemRef, Plan};
use std::collections::HashMap;
use std::sync::Arc;

/// The steps of a plan that may run beside others.
pub struct Lanes {
    /// Kind of each collective, and the reference to its communicator's number.
    collectives: Vec<(Kind, MemRef)>,
    /// For every launch group, the steps on side streams that it waits for.
    joins: Vec<Vec<usize>>,
    /// Whether each communicator has a stream: in plans with lanes.
    are_apart: bool,
}

/// A step that may be in flight.
struct Open {
    step: usize,
    /// The lane whose stream it is on; `None` for that of all.
    lane: Option<LaneId<ValueId>>,
    window: Window,
}

impl Lanes {
    pub fn new<T>(plan: &Plan, groups: &[LaunchGroup<T>]) -> Lanes {
        let (mut collectives, mut joins, lanes) = (Vec::new(), Vec::new(), plan.lanes());
        let are_apart = plan.steps.iter().any(|step| step.done.is_some());
        let mut open: Vec<Open> = Vec::new();
        for group in groups {
            let mut joined = Vec::new();
            for &index in group.steps() {
                let step = &plan.steps[index];
                let lane = lanes[index].map(|lane| Some(lane).filter(|_| are_apart));
                // What comes before on its stream is done by then.
                let waits = |one: &Open| Some(one.lane) != lane && one.window.waits(plan, step);
                while let Some(last) = open.iter().rposition(waits) {
                    let (of, mut at) = (open[last].lane, 0);
                    open.retain(|one| {
                        at += 1;
                        let stays = at > last + 1 || one.lane != of;
                        joined.extend((!stays).then_some(one.step));
                        stays
                    });
                }
                let Some(lane) = lane else { continue };
                let (mut reads, mut writes) = (&step.reads[..], &step.writes[..]);
                if let Some(kind) = step.kernel.collective() {
                    // Its data reads, if any, are followed by communicator, token and rank; its data writes by the token. Only
                    // collectives of its lane use its tokens, and they are in order.
                    (reads, writes) = (&reads[..reads.len() - 3], &writes[..writes.len() - 1]);
                    collectives.push((kind, step.reads[reads.len()].mem));
                }
                let mut window = Window::default();
                window.touch(plan, reads, writes);
                open.push(Open { step: index, lane, window });
            }
            joins.push(joined);
        }
        Lanes { collectives, joins, are_apart }
    }

    /// Whether all steps run one after the other, on one stream.
    pub fn are_empty(&self) -> bool {
        self.collectives.is_empty() && !self.are_apart
    }

    /// Whether there are no collectives that the host has to do: the call's communicators run all of them on device memory.
    pub fn are_on_device(&self, call: &Call) -> bool {
        self.collectives.iter().all(|(kind, mem)| match mem {
            MemRef::Scalar(slot) => collective::is_on_device(*kind, call.scalars[*slot as usize]),
            _ => false,
        })
    }

    /// The lane whose side stream a step on it uses; `None` for that of all.
    pub fn stream_of(&self, lane: LaneId<u64>) -> Option<LaneId<u64>> {
        Some(lane).filter(|_| self.are_apart)
    }

    /// The steps on side streams that a launch group waits for.
    pub fn before(&self, group: usize) -> &[usize] {
        &self.joins[group]
    }
}

/// A run in progress.
pub struct Run<'a> {
    device: &'a dyn Device,
    /// What is in flight: each one's step and the device's number for it.
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

    /// The device's number for a step in flight, which is waited for elsewhere.
    pub fn take(&mut self, step: usize) -> Option<usize> {
        let at = self.in_flight.iter().position(|(other, _)| *other == step)?;
        Some(self.in_flight.swap_remove(at).1)
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
            "a run ended with a step in flight"
        );
        // If this fails, the device is lost.
        self.join_all().ok();
        if !self.is_done {
            self.device.queue(&mut || Ok(())).ok();
        }
    }
}

/// Threads that wait for steps on side streams while the host runs those beside them one by one: one for each lane, since ranks may
/// start collectives of several communicators in other orders.
#[derive(Default)]
pub struct Waiters(HashMap<LaneId<u64>, CollectiveLane<Awaited>>);

struct Awaited {
    device: Arc<dyn Device>,
    number: usize,
}

impl Waiters {
    /// A ticket for the step with this number of the device. Error: `OutOfMemory` when the system starts no thread.
    pub fn put(
        &mut self,
        lane: LaneId<u64>,
        (device, number): (&Arc<dyn Device>, usize),
    ) -> Result<Ticket> {
        let wait = |waiting: &[&Awaited]| (1, waiting[0].device.wait_for(waiting[0].number));
        let lane = self.0.entry(lane).or_insert_with(|| CollectiveLane::new(wait));
        lane.put(None, Awaited { device: device.clone(), number })
    }
}
