//! From the steps of a plan to what is asked of a device.

use super::cudnn_graph;
use super::custom_op::{self, OnDevice};
use super::device::{Device, Prepared, Product};
use super::emit::{self, IndexedStep, KernelArg, Source, Task, Tasks};
use super::product::{multiply, multiply_scaled};
use crate::error::Result;
use crate::op::index::Reduction;
use crate::op::{Attr, Class, Op};
use crate::plan::{Kernel, LoopBody, MemRef, Operand, Plan, Step};
use crate::shape::{Dims, Layout};
use smallvec::smallvec;
use std::sync::Arc;

/// One thing that a step asks for.
pub enum Action {
    Launch(Task),
    Multiply {
        product: Product,
        /// Of a, b and c.
        at: [KernelArg; 3],
        scales: Option<[KernelArg; 2]>,
    },
    /// `kernel_args` are the addresses of the graph's tensors in memory.
    CudnnGraph {
        prepared: Arc<dyn Prepared>,
        kernel_args: Vec<KernelArg>,
        workspace: KernelArg,
    },
    /// The step is done by the host: a CPU fallback, on the device's own memory where its function takes that, or a primitive
    /// without a kernel by its row's meaning.
    Host(Option<OnDevice>),
    /// A collective: on the side stream where its communicator has a function for the device's memory, else as `Host`. With
    /// `overwrites_donor`, its result is the only copy of what it overwrites.
    Collective {
        call: OnDevice,
        overwrites_donor: bool,
    },
}

/// A step's actions, and the bytes of scratch memory that they want.
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

/// What step number `index` of a plan asks of a device.
pub fn step(plan: &Plan, index: usize, device: &dyn Device) -> Result<Actions> {
    let step = &plan.steps[index];
    let over_donor = |write: &Operand| match write.mem {
        MemRef::Output(k) => plan.donors[k as usize].is_some(),
        _ => false,
    };
    let overwrites_donor = step.writes.iter().any(over_donor);
    Ok(match &step.kernel {
        Kernel::Map(body) => {
            emit::map(body, &step.reads, &step.writes, index, overwrites_donor)?.into()
        }
        Kernel::Reduce { body, op, axes } => reduce(body, *op, axes, step, index)?,
        Kernel::Fused { op, attrs, body } => {
            let (operands, reads) = step.reads.split_at(step.kernel.operands(step.reads.len()));
            let (writes, others) = step.writes.split_at(body.results.len());
            let to = emit::To::Epilogue(emit::Epilogue { body, reads, writes });
            emit::rows(*op, attrs, operands, to, others)?.into()
        }
        Kernel::Node { op, attrs } => {
            // A library does not ask whether the run was stopped before it overwrites what an earlier one left.
            let request =
                if overwrites_donor { None } else { cudnn_graph::request(*op, attrs, step) };
            if let Some(actions) = request.map_or(Ok(None), |request| request.ask(device))? {
                return Ok(actions);
            }
            if *op == Op::ScaledMatmul {
                return multiply_scaled(&step.reads, &step.writes[0], overwrites_donor, device);
            }
            match node(plan, step, *op, attrs, (index, overwrites_donor))? {
                Some(actions) => actions,
                None => Actions { actions: vec![Action::Host(None)], scratch: 0 },
            }
        }
    })
}

fn reduce(body: &LoopBody, op: Op, axes: &[i64], step: &Step, index: usize) -> Result<Actions> {
    let (reads, write) = (&step.reads, &step.writes[0]);
    Ok(match op {
        Op::CumSum => emit::cumsum(body, axes[0] as usize, reads, write, index)?.into(),
        _ => emit::reduce(body, op, axes, reads, write, index)?.into(),
    })
}

/// `None`: there is no kernel.
fn node(
    plan: &Plan,
    step: &Step,
    op: Op,
    attrs: &[Attr],
    (index, overwrites_donor): (usize, bool),
) -> Result<Option<Actions>> {
    if op == Op::Check {
        return Ok(Some(Actions::default()));
    }
    let Some(write) = step.writes.first() else { return Ok(None) };
    let indexed = |axis: &Attr| IndexedStep {
        axis: axis.int() as usize,
        reads: &step.reads,
        write,
        step: index,
        overwrites_donor,
        in_place: plan.is_in_place(step),
    };
    match op {
        _ if op.class() == Class::Reduction => {
            let read = &step.reads[0];
            let sizes = read.layout.sizes.clone();
            let body =
                LoopBody { sizes, reads: vec![read.dtype], instrs: Vec::new(), results: vec![0] };
            let axes: Dims = match &attrs[0] {
                Attr::Int(axis) => smallvec![*axis],
                axes => axes.ints().into(),
            };
            reduce(&body, op, &axes, step, index).map(Some)
        }
        Op::Take => Ok(Some(emit::index::take(indexed(&attrs[0]))?.into())),
        Op::Gather => Ok(Some(emit::index::gather(indexed(&attrs[0]))?.into())),
        Op::Expect => Ok(Some(emit::index::expect(&step.reads[0], write, index).into())),
        // Lists of places are of i32.
        Op::IndexAdd if step.reads[1].layout.numel() > i64::from(i32::MAX) => Ok(None),
        Op::IndexAdd => Ok(Some(emit::index::index_add(indexed(&attrs[0]))?.into())),
        Op::Scatter => {
            Ok(Some(emit::index::scatter(indexed(&attrs[0]), Reduction::of(attrs))?.into()))
        }
        Op::Conv | Op::ConvGradInput | Op::ConvGradWeight if is_some_float(step) => {
            Ok(Some(emit::window::conv(op, attrs, &step.reads, write)?.into()))
        }
        Op::SumPool | Op::SumPoolGrad | Op::MaxPool if is_some_float(step) => {
            Ok(Some(emit::window::pool(op, attrs, &step.reads[0], &step.writes)?.into()))
        }
        Op::MaxPoolGrad if is_some_float(step) => {
            Ok(Some(emit::window::max_pool_grad(indexed(&Attr::Int(0)))?.into()))
        }
        Op::Matmul if write.dtype.is_float() => {
            multiply(&step.reads, write, overwrites_donor).map(Some)
        }
        Op::GroupedMatmul if is_some_float(step) => {
            Ok(Some(emit::grouped_matmul(&step.reads, write)?.into()))
        }
        Op::Concat => concat(attrs[0].int() as usize, &step.reads, write).map(Some),
        Op::AsStridedScatter => {
            let over = Layout {
                sizes: attrs[0].ints().into(),
                strides: attrs[1].ints().into(),
                offset: write.layout.offset + attrs[2].int(),
            };
            if !over.is_injective() {
                return Ok(None);
            }
            let part = Operand { layout: over, ..write.clone() };
            let mut actions = Actions::default();
            if !plan.is_in_place(step) {
                actions.copy(&step.reads[0], write)?;
            }
            actions.copy(&step.reads[1], &part)?;
            Ok(Some(actions))
        }
        Op::Host => custom_op::call(step, attrs, overwrites_donor),
        Op::Attention => Ok(emit::attention(attrs, &step.reads, &step.writes).map(Into::into)),
        Op::AttentionGrad => {
            Ok(emit::attention_grad(attrs, &step.reads, &step.writes).map(Into::into))
        }
        Op::LogSumExp => Ok(Some(emit::log_sum_exp(&step.reads[0], &step.writes)?.into())),
        op if op.row().by_rows > 0 => {
            let (to, others) = (emit::To::Memory(write), &step.writes[1..]);
            Ok(Some(emit::rows(op, attrs, &step.reads, to, others)?.into()))
        }
        _ => Ok(None),
    }
}

/// Whether a step makes floats, and some.
fn is_some_float(step: &Step) -> bool {
    step.writes[0].dtype.is_float() && step.writes[0].layout.numel() > 0
}

impl Actions {
    pub fn copy(&mut self, from: &Operand, to: &Operand) -> Result<()> {
        self.extend(emit::copy(from, to)?);
        Ok(())
    }

    /// The operand as it would be in memory of its own.
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

    /// The kernels that are launched.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.tasks().map(|task| &task.source)
    }

    /// Actions whose scratch memory is not wanted any more when these begin.
    pub fn extend(&mut self, tasks: Tasks) {
        self.scratch = self.scratch.max(tasks.scratch);
        self.actions.extend(tasks.tasks.into_iter().map(Action::Launch));
    }
}

fn concat(dim: usize, reads: &[Operand], write: &Operand) -> Result<Actions> {
    let mut actions = Actions::default();
    let mut starts = Dims::from_elem(0, write.layout.rank());
    let ones = Dims::from_elem(1, write.layout.rank());
    for read in reads {
        let layout = write.layout.slice(&starts, &read.layout.sizes, &ones);
        actions.copy(read, &Operand { layout, ..write.clone() })?;
        starts[dim] += read.layout.sizes[dim];
    }
    Ok(actions)
}
