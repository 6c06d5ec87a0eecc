//! Collectives of a program. Where the communicator does them on the device's memory, they go beside the steps between them and
//! those that need their results.
//!
//! **Invariant:** no step runs beside a collective whose memory it writes, or whose result it reads; a run ends with none
//! beside it.

use super::device::Device;
use super::gather::{Turn, Window};
use crate::backend::Call;
use crate::error::Result;
use crate::op::Op;
use crate::op::collective::{self, Kind};
use crate::plan::{Kernel, Place, Plan, Step};

/// The collectives of a plan.
pub struct Exchanges {
    /// Each one's kind, and where the number of its communicator is.
    calls: Vec<(Kind, Place)>,
    /// For every turn, the collectives that come before it.
    joins: Vec<Vec<usize>>,
}

impl Exchanges {
    pub fn new<T>(plan: &Plan, turns: &[Turn<T>]) -> Exchanges {
        let mut calls = Vec::new();
        let mut open: Vec<(usize, Window)> = Vec::new();
        let mut joins = Vec::new();
        for turn in turns {
            let mut joined = Vec::new();
            for &index in turn.steps() {
                let step = &plan.steps[index];
                if let Some(kind) = kind(step) {
                    calls.push((kind, step.reads[1].place));
                    let mut window = Window::default();
                    // The token is nobody's, and among themselves they are in order.
                    window.touch(plan, &step.reads[..1], &step.writes[..1]);
                    open.push((index, window));
                } else if let Some(last) = open.iter().rposition(|(_, w)| w.waits(plan, step)) {
                    joined.extend(open.drain(..=last).map(|(collective, _)| collective));
                }
            }
            joins.push(joined);
        }
        Exchanges { calls, joins }
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether the communicators of a call do all of them on the device's memory.
    pub fn are_on_device(&self, call: &Call) -> bool {
        self.calls.iter().all(|(kind, place)| match place {
            Place::Scalar(slot) => collective::is_on_device(*kind, call.scalars[*slot as usize]),
            _ => false,
        })
    }

    /// The steps whose collectives come before a turn.
    pub fn before(&self, turn: usize) -> &[usize] {
        &self.joins[turn]
    }
}

fn kind(step: &Step) -> Option<Kind> {
    match &step.kernel {
        Kernel::Node { op: Op::Host, attrs } => collective::of(attrs).map(|(kind, _)| kind),
        _ => None,
    }
}

/// A run under way.
pub struct Run<'a> {
    device: &'a dyn Device,
    /// What is beside it: the step, and the device's number.
    beside: Vec<(usize, usize)>,
    /// Whether everything that it queued is done: otherwise copies beside programs wait for it, before its memory is theirs.
    pub is_done: bool,
}

impl Run<'_> {
    pub fn new(device: &dyn Device) -> Run<'_> {
        Run { device, beside: Vec::new(), is_done: false }
    }

    pub fn put(&mut self, step: usize, number: usize) {
        self.beside.push((step, number));
    }

    /// What comes now needs what these steps put beside.
    pub fn join(&mut self, steps: &[usize]) -> Result<()> {
        let mut joined = Ok(());
        self.beside.retain(|(step, number)| {
            let stays = !steps.contains(step);
            if !stays {
                joined = joined.clone().and(self.device.join(*number));
            }
            stays
        });
        joined
    }

    pub fn join_all(&mut self) -> Result<()> {
        let all: Vec<usize> = self.beside.iter().map(|(step, _)| *step).collect();
        self.join(&all)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        debug_assert!(!self.is_done || self.beside.is_empty(), "a run ended beside a collective");
        // A device that cannot is lost.
        self.join_all().ok();
        if !self.is_done {
            self.device.queue(&mut || Ok(())).ok();
        }
    }
}
