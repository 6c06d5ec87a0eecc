//! The reference backend: interprets plans through the rows of the table, slowly and obviously. Other backends are
//! compared with it.

use super::host_memory::{read_operand, write_operand};
use super::memory::Pool;
use super::run::run_steps;
use super::{Backend, Call, Executable, Outcome};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::array::Array;
use crate::op::evaluate::evaluate;
use crate::op::{Attr, Attrs, Op, Ty, philox};
use crate::plan::{Instr, Kernel, LoopBody, Operand, Plan, Step, Target, accepts_half_input};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

#[derive(Default)]
pub struct Reference {
    pool: Arc<Pool>,
    host_pool: Arc<Pool>,
}

impl Target for Reference {
    fn workspace(&self, _: Op, _: &Attrs, _: &[Ty], _: &[Ty]) -> u64 {
        0
    }
}

impl Backend for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn fingerprint(&self) -> String {
        "reference".into()
    }

    fn supports(&self, _: Op) -> bool {
        true
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn host_pool(&self) -> &Arc<Pool> {
        &self.host_pool
    }

    fn compile(&self, plan: Arc<Plan>) -> Result<Box<dyn Executable>> {
        Ok(Box::new(Interpreter { plan }))
    }
}

struct Interpreter {
    plan: Arc<Plan>,
}

impl Executable for Interpreter {
    fn run(&self, call: &Call) -> Outcome {
        run_steps(&self.plan, call, |index| run_step(&self.plan.steps[index], call))
    }
}

/// Reads everything, computes everything, and only then writes.
fn run_step(step: &Step, call: &Call) -> Result<()> {
    let reads: Vec<Array> = step.reads.iter().map(|operand| read_operand(call, operand)).collect();
    let results = match &step.kernel {
        Kernel::Map(body) => run_program(body, reads)?,
        Kernel::Reduce { body, op, axes } => {
            let attrs = match op.row().attrs {
                ["axis"] => smallvec![Attr::Int(axes[0])],
                _ => smallvec![Attr::Ints(axes.clone())],
            };
            run_node(*op, &attrs, &run_program(body, reads)?)?
        }
        Kernel::Fused { op, attrs, body } => {
            let mut operands = reads;
            let others = operands.split_off(step.kernel.operands(operands.len()));
            let operands = widened(*op, operands, body.reads[0])?;
            let mut results = run_node(*op, attrs, &operands)?;
            let mut first = results.remove(0);
            first.ty.sizes = body.sizes.clone();
            let reads = std::iter::once(first).chain(others).collect();
            [run_program(body, reads)?, results].concat()
        }
        Kernel::Node { op, attrs } => {
            let dtype = step.writes.first().map_or(DType::F32, |write| write.dtype);
            compute_node(*op, attrs, &widened(*op, reads, dtype)?, &step.writes)?
        }
    };
    for (operand, result) in step.writes.iter().zip(&results) {
        write_operand(call, operand, &to_dtype(result, operand.dtype)?);
    }
    Ok(())
}

fn run_node(op: Op, attrs: &Attrs, inputs: &[Array]) -> Result<Vec<Array>> {
    let types: SmallVec<[&Ty; 4]> = inputs.iter().map(|a| &a.ty).collect();
    let outs = op.infer(&types, attrs)?;
    evaluate(op, &inputs.iter().collect::<Vec<_>>(), attrs, &outs)
}

/// The operands of a node whose first result has type `dtype`, with half inputs that it accepts widened to `dtype`.
fn widened(op: Op, operands: Vec<Array>, dtype: DType) -> Result<Vec<Array>> {
    let widen = |(i, operand): (usize, Array)| {
        let half = accepts_half_input(op, i) && operand.ty.dtype.is_half_of(dtype);
        if half { to_dtype(&operand, dtype) } else { Ok(operand) }
    };
    operands.into_iter().enumerate().map(widen).collect()
}

/// Computes a node kernel, whose result types are the plan's.
fn compute_node(op: Op, attrs: &Attrs, reads: &[Array], writes: &[Operand]) -> Result<Vec<Array>> {
    let outs: Vec<Ty> = writes.iter().map(|w| Ty::new(w.dtype, &w.layout.sizes)).collect();
    evaluate(op, &reads.iter().collect::<Vec<_>>(), attrs, &outs)
}

fn to_dtype(array: &Array, dtype: DType) -> Result<Array> {
    if array.ty.dtype == dtype {
        return Ok(array.clone());
    }
    let mut cast = run_node(Op::Cast, &smallvec![Attr::DType(dtype)], std::slice::from_ref(array))?;
    Ok(cast.remove(0))
}

/// The dtype of a register: half types are held in f32.
fn compute_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

fn run_program(body: &LoopBody, reads: Vec<Array>) -> Result<Vec<Array>> {
    let mut registers = Vec::with_capacity(reads.len() + body.instrs.len());
    for read in reads {
        registers.push(to_dtype(&read, compute_dtype(read.ty.dtype))?);
    }
    for instr in &body.instrs {
        let args: Vec<&Array> = instr.args.iter().map(|&r| &registers[r as usize]).collect();
        let result = run_instr(instr, &args, body)?;
        registers.push(to_dtype(&result, compute_dtype(instr.dtype))?);
    }
    Ok(body.results.iter().map(|&r| registers[r as usize].clone()).collect())
}

fn run_instr(instr: &Instr, args: &[&Array], body: &LoopBody) -> Result<Array> {
    let mut result = match instr.op {
        Op::Const | Op::ConstInt => {
            let number = evaluate(instr.op, &[], &instr.attrs, &[Ty::new(instr.dtype, &[])])?;
            let everywhere = smallvec![Attr::Ints(body.sizes.clone())];
            run_node(Op::Broadcast, &everywhere, &number)?
        }
        op if op.draws() => vec![random(args, instr.dtype, body)],
        // `cast` to a half type rounds; every other operation of a half type stays in f32.
        Op::Cast => evaluate(Op::Cast, args, &instr.attrs, &[Ty::new(instr.dtype, &body.sizes)])?,
        op => {
            evaluate(op, args, &instr.attrs, &[Ty::new(compute_dtype(instr.dtype), &body.sizes)])?
        }
    };
    Ok(result.remove(0))
}

/// Random numbers of `(seed, offset, linear index)`, each given at every point.
fn random(args: &[&Array], dtype: DType, body: &LoopBody) -> Array {
    let mut y = Array::zeros(&Ty::new(dtype, &body.sizes));
    for i in 0..y.len() {
        philox::set(&mut y, i, [0, 1, 2].map(|n: usize| args[n].i64(i) as u64));
    }
    y
}
