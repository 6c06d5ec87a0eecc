//! A loop body as statements: one for each instruction, one function of `cuda/math.cuh` for each primitive.

use super::write::{compute_type, stored};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::array::as_integer;
use crate::op::{Attr, Class, Op};
use crate::plan::{Instr, LoopBody};
use std::fmt::Write;

/// The statements of a loop body whose reads are the expressions `reads`; they define register `n` as `r{n}`. `step` is the
/// argument with the number of the step, for failures.
pub fn statements(body: &LoopBody, reads: &[String], step: &str) -> Result<String> {
    let mut text = String::new();
    for (n, (read, dtype)) in reads.iter().zip(&body.reads).enumerate() {
        let _ = writeln!(text, "        const {} r{n} = {read};", compute_type(*dtype));
    }
    for (k, instr) in body.instrs.iter().enumerate() {
        if fails(instr) {
            let divisor = instr.args[1];
            let stop = format!("stop(status, STATUS_DIVISION, {step}, 0, 0)");
            let _ = writeln!(text, "        if (r{divisor} == 0) {stop};");
        }
        let register = reads.len() + k;
        let value = expression(instr)?;
        let _ =
            writeln!(text, "        const {} r{register} = {value};", compute_type(instr.dtype));
    }
    Ok(text)
}

/// Whether a loop body may fail.
pub fn may_fail(body: &LoopBody) -> bool {
    body.instrs.iter().any(fails)
}

fn fails(instr: &Instr) -> bool {
    instr.op.refuses(instr.dtype)
}

fn expression(instr: &Instr) -> Result<String> {
    let args: Vec<String> = instr.args.iter().map(|r| format!("r{r}")).collect();
    let args = args.join(", ");
    Ok(match (instr.op, instr.attrs.as_slice()) {
        (Op::Const, [Attr::Float(value), ..]) => literal(*value, instr.dtype),
        (Op::ConstInt, [Attr::Int(value), ..]) => integer(*value, instr.dtype),
        (Op::Cast, _) => format!("op_cast<{}>({args})", stored(instr.dtype)),
        (op, _) if op.class() == Class::Pointwise || op.draws() => {
            format!("op_{}({args})", op.name())
        }
        (op, _) => return internal!("{} in a pointwise program", op.name()),
    })
}

/// The expression for a number in a dtype's compute type, bit for bit.
fn literal(value: f64, dtype: DType) -> String {
    match dtype {
        DType::F64 => format!("bits_as<f64>({:#x}ull)", value.to_bits()),
        DType::F32 => format!("bits_as<f32>({:#x}u)", (value as f32).to_bits()),
        DType::F16 | DType::BF16 => {
            let f32 = format!("bits_as<f32>({:#x}u)", (value as f32).to_bits());
            format!("op_cast<{}>({f32})", stored(dtype))
        }
        _ => integer(as_integer(value, dtype), dtype),
    }
}

fn integer(value: i64, dtype: DType) -> String {
    match dtype {
        DType::Bool => (value != 0).to_string(),
        other => format!("({})(i64){:#x}ull", compute_type(other), value as u64),
    }
}
