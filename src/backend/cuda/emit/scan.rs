//! Running folds along an axis, with the loop body that computes the values: several threads for each line, each with a piece.

use super::access::{Access, Walk};
use super::reduce::{Value, part, reduced_type};
use super::write::{Writer, compute_type, stored};
use super::{BLOCK, KernelArg, Tasks};
use crate::error::Result;
use crate::op::Op;
use crate::plan::{LoopBody, Operand};
use crate::shape::numel;

/// `Kernel::Reduce` of `cumsum`, `cumprod` or `cummax` as step number `step`. Every line is traversed twice; the order of sums
/// does not depend on the device.
pub fn running(
    body: &LoopBody,
    op: Op,
    axis: usize,
    reads: &[Operand],
    write: &Operand,
    step: usize,
) -> Result<Tasks> {
    let sizes = &body.sizes;
    if numel(sizes) == 0 {
        return Ok(Tasks::default());
    }
    let kept: Vec<usize> = (0..sizes.len()).filter(|&d| d != axis).collect();
    let operands: Vec<&Operand> = reads.iter().collect();
    let (along, along_strides) = part(sizes, &kept, &operands);
    let (across, across_strides) = part(sizes, &[axis], &operands);
    let mut writer = Writer::new();
    let step = writer.number(step as i64);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for (n, read) in reads.iter().enumerate() {
        let strides = (&across_strides[n][..], &along_strides[n][..]);
        near.push(Access::new(&mut writer, read, &across, strides, 1, false));
        far.push(Walk::new(&mut writer, &along, strides.1));
    }
    let value = Value { body, near: &near, far: &far, across: &across, along: &along };
    let text = value.text(true, &step, &mut writer)?;
    writer.head(&text);
    let (lines, line, inner) = (along.numel(), sizes[axis], numel(&sizes[axis + 1..]));
    let [threads, share] = deal(line as u64);
    let side = u64::from(BLOCK) / threads;
    let [lines_, line, inner, share] = [lines, line, inner, share as i64].map(|n| writer.number(n));
    let out = writer.kernel_arg(KernelArg::of(write));
    let (input, output) = (compute_type(reduced_type(body)), stored(write.dtype));
    let fold = match op {
        Op::CumSum => Op::Sum,
        Op::CumProd => Op::Prod,
        _ => Op::ReduceMax,
    };
    writer.line(format!("typedef {}<{input}> Fold;", fold.name()));
    writer.line("typedef typename Fold::type Part;");
    writer.line("__shared__ Part sums[256];");
    writer.line(format!("const int t = threadIdx.x % {threads};"));
    writer.line(format!("const i64 k = (i64)blockIdx.x * {side} + threadIdx.x / {threads};"));
    writer.line(format!("const bool is_line = k < (i64){lines_};"));
    writer.line(format!("const i64 from = t * (i64){share}, size = {line}, inner = {inner};"));
    writer.line(format!(
        "const i64 to = !is_line ? 0 : from + (i64){share} < size ? from + (i64){share} : size;"
    ));
    writer.line(format!("{input} x[1];"));
    writer.line("Part sum = Fold::neutral();");
    let next = "NAME_at<1>(a, status, x, k, r);\n        sum = Fold::join(sum, Fold::of(x[0], r));";
    writer.line(format!("for (i64 r = from; r < to; r++) {{\n        {next}\n    }}"));
    writer.line("sums[threadIdx.x] = sum;");
    writer.line("__syncthreads();");
    writer.line("if (t == 0) {");
    writer.line("    Part before = Fold::neutral();");
    writer.line(format!("    for (int n = 0; n < {threads}; n++) {{"));
    writer.line("        const Part here = sums[threadIdx.x + n];");
    writer.line("        sums[threadIdx.x + n] = before;");
    writer.line("        before = Fold::join(before, here);");
    writer.line("    }");
    writer.line("}");
    writer.line("__syncthreads();");
    writer.line("sum = sums[threadIdx.x];");
    writer
        .line(format!("{output}* line = ({output}*){out} + k / inner * size * inner + k % inner;"));
    let store = format!("put(line + r * inner, (Held<{output}>)Fold::value(sum));");
    writer.line(format!(
        "for (i64 r = from; r < to; r++) {{\n        {next}\n        {store}\n    }}"
    ));
    let blocks = (lines as u64).div_ceil(side);
    Ok(Tasks { tasks: vec![writer.finish(op.name(), blocks)], scratch: 0 })
}

/// Number of threads for a line, and of elements for each of them.
fn deal(line: u64) -> [u64; 2] {
    let threads = (line / 8).clamp(1, u64::from(BLOCK)).next_power_of_two();
    [threads, line.div_ceil(threads)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_cover_a_line_of_any_length() {
        for line in (1..20_000).chain([(1 << 31) - 1, (1 << 40) + 1]) {
            let [threads, share] = deal(line);
            assert!(u64::from(BLOCK).is_multiple_of(threads), "{line}");
            // The last ones may have nothing to do, but no more than that.
            assert!(threads * share >= line && threads * (share - 1) < line, "{line}");
        }
    }
}
