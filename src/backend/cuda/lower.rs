//! Lowers the steps of a plan to actions of a device.

use super::actions::{Action, Actions};
use super::cudnn_graph::{self, Request};
use super::custom_op;
use super::device::Device;
use super::emit::{self, IndexedStep, KernelArg};
use super::product::{multiply, multiply_scaled};
use crate::error::Result;
use crate::op::index::Reduction;
use crate::op::{Attr, Class, Op};
use crate::plan::{Kernel, LaneId, LoopBody, MemRef, Operand, Plan, Step};
use crate::shape::{Dims, Layout};
use smallvec::smallvec;

/// The actions of step number `index` of a plan.
pub fn step(plan: &Plan, index: usize, device: &dyn Device) -> Result<Actions> {
    let step = &plan.steps[index];
    if let Some(lane @ (LaneId::ToHost | LaneId::FromHost)) = plan.lane(step, &[]) {
        let (from, to) = (KernelArg::of(&step.reads[0]), KernelArg::of(&step.writes[0]));
        let nbytes = step.writes[0].layout.numel() as usize * step.writes[0].dtype.size();
        let copies = (nbytes > 0).then_some(Action::HostCopy { lane, from, to, nbytes });
        return Ok(Actions { actions: copies.into_iter().collect(), scratch: 0 });
    }
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
            // A library does not check whether the run was stopped before it overwrites a value of an earlier run.
            let request =
                if overwrites_donor { None } else { cudnn_graph::request(*op, attrs, step) };
            if let Some(actions) = request.map_or(Ok(None), |request| ask(request, device))? {
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

/// The action for a request, if the device's library supports it.
fn ask(request: Request, device: &dyn Device) -> Result<Option<Actions>> {
    let Request { cudnn_graph, kernel_args, scratch } = request;
    let Some(prepared) = device.prepare(&cudnn_graph)? else { return Ok(None) };
    let base = scratch.next_multiple_of(256);
    let scratch = base + prepared.workspace();
    let workspace = KernelArg::Scratch(base);
    let action = Action::CudnnGraph { prepared, kernel_args, workspace };
    Ok(Some(Actions { actions: vec![action], scratch }))
}

fn reduce(body: &LoopBody, op: Op, axes: &[i64], step: &Step, index: usize) -> Result<Actions> {
    let (reads, write) = (&step.reads, &step.writes[0]);
    Ok(match op {
        Op::CumSum | Op::CumProd | Op::CumMax => {
            emit::running(body, op, axes[0] as usize, reads, write, index)?.into()
        }
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
        // Lists of places hold i32.
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

/// Whether a step's first result is of floats, and not empty.
fn is_some_float(step: &Step) -> bool {
    step.writes[0].dtype.is_float() && step.writes[0].layout.numel() > 0
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
