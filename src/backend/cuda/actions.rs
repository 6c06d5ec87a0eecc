//! The actions that a plan's steps request of a device.

use super::device::{Prepared, Product};
use super::emit::{self, KernelArg, SCRATCH, Source, Task, Tasks};
use super::on_device::OnDevice;
use crate::error::Result;
use crate::plan::{LaneId, Operand};
use crate::shape::Layout;
use std::sync::Arc;

/// One device action of a step.
pub enum Action {
    Launch(Task),
    Multiply {
        product: Product,
        /// Addresses of a, b and c.
        at: [KernelArg; 3],
        scales: Option<[KernelArg; 2]>,
    },
    /// `kernel_args` are the addresses of the graph's tensors in memory.
    CudnnGraph {
        prepared: Arc<dyn Prepared>,
        kernel_args: Vec<KernelArg>,
        workspace: KernelArg,
    },
    /// The host runs the step: a CPU fallback (on device memory if its function accepts that), or a primitive without a kernel,
    /// by its row's meaning.
    Host(Option<OnDevice>),
    /// A copy of all of a tensor on the side stream of its direction.
    HostCopy {
        lane: LaneId<u64>,
        from: KernelArg,
        to: KernelArg,
        nbytes: usize,
    },
    /// A collective: on the side stream if its communicator has a function for device memory, else as `Host`. With
    /// `overwrites_donor`, its result overwrites the only copy of a donor's value.
    Collective {
        call: OnDevice,
        overwrites_donor: bool,
    },
}

/// A step's actions, and the bytes of scratch memory that they need.
#[derive(Default)]
pub struct Actions {
    pub actions: Vec<Action>,
    pub scratch: u64,
}

impl From<Tasks> for Actions {
    fn from(tasks: Tasks) -> Actions {
        Actions {
            actions: tasks.tasks.into_iter().map(Action::Launch).collect(),
            scratch: tasks.scratch,
        }
    }
}

impl Actions {
    pub fn copy(&mut self, from: &Operand, to: &Operand) -> Result<()> {
        self.extend(emit::copy(from, to)?);
        Ok(())
    }

    /// Copies the operand to scratch memory; returns the dense copy.
    pub fn dense(&mut self, operand: &Operand) -> Result<Operand> {
        let (_, dense) = self.scratch_for(operand);
        self.copy(operand, &dense)?;
        Ok(dense)
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.actions.iter().filter_map(|action| match action {
            Action::Launch(task) => Some(task),
            _ => None,
        })
    }

    pub fn tasks_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.actions.iter_mut().filter_map(|action| match action {
            Action::Launch(task) => Some(task),
            _ => None,
        })
    }

    /// Sources of the launched kernels.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.tasks().map(|task| &task.source)
    }

    /// Appends tasks. Scratch memory of their own overlaps that of the actions so far, which must not be needed any more when
    /// the tasks run.
    pub fn extend(&mut self, tasks: Tasks) {
        self.scratch = self.scratch.max(tasks.scratch);
        self.actions.extend(tasks.tasks.into_iter().map(Action::Launch));
    }

    /// Reserves scratch memory for a dense copy of an operand: the byte where it begins, and the copy.
    pub fn scratch_for(&mut self, operand: &Operand) -> (u64, Operand) {
        let size = operand.dtype.size() as u64;
        let base = self.scratch.next_multiple_of(256);
        let mut layout = Layout::contiguous(&operand.layout.sizes);
        self.scratch = base + layout.numel() as u64 * size;
        layout.offset = (base / size) as i64;
        (base, Operand { mem: SCRATCH, layout, ..operand.clone() })
    }
}
