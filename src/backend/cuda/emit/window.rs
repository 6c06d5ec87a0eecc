//! Pooling and convolution of floats.

use super::index::{blocks, check};
use super::write::{Writer, stored};
use super::{IndexedStep, KernelArg, SCRATCH, Tasks, cast, zeros};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::nn::window::Windows;
use crate::op::nn::{Conv, windows_of_pool};
use crate::op::{Attr, Op};
use crate::plan::Operand;
use crate::shape::{Layout, numel};

/// Adds the numbers of windows as consecutive arguments; returns the text of the first one's address.
fn kernel_args(writer: &mut Writer, windows: &Windows) -> String {
    let Windows { input, output, kernel, stride, padding, dilation } = windows;
    let all = [input, output, kernel, stride, padding, dilation];
    let kernel_args: Vec<String> =
        all.into_iter().flatten().map(|&n| writer.number(n as i64)).collect();
    format!("&{}", kernel_args[0])
}

/// `Op::Conv`, `Op::ConvGradInput` or `Op::ConvGradWeight`.
pub fn conv(op: Op, attrs: &[Attr], reads: &[Operand], write: &Operand) -> Result<Tasks> {
    let [a, b] = reads else { return crate::internal!("{} of other than two", op.name()) };
    let sizes = |operand: &Operand| operand.layout.sizes.to_vec();
    let (y, x, w) = match op {
        Op::Conv => (write, a, b),
        Op::ConvGradInput => (a, write, b),
        _ => (a, b, write),
    };
    let conv = Conv::new(&sizes(y), &sizes(x), &sizes(w), attrs);
    let mut writer = Writer::new();
    let first = kernel_args(&mut writer, &conv.windows);
    for n in [conv.images, conv.groups, conv.channels, conv.filters] {
        writer.number(n as i64);
    }
    let [a, b, to] = [a, b, write].map(|operand| writer.kernel_arg(KernelArg::of(operand)));
    let (element, name) = (stored(write.dtype), op.name());
    writer.line(format!(
        "{name}(*(const Conv*){first}, (const {element}*){a}, (const {element}*){b}, ({element}*){to});"
    ));
    let elements = write.layout.numel();
    let blocks = if op == Op::ConvGradWeight { elements as u64 } else { blocks(elements) };
    Ok(Tasks { tasks: vec![writer.finish(name, blocks)], scratch: 0 })
}

/// `Op::SumPool`, `Op::SumPoolGrad` or `Op::MaxPool`.
pub fn pool(op: Op, attrs: &[Attr], read: &Operand, writes: &[Operand]) -> Result<Tasks> {
    let (x, y) = if op == Op::SumPoolGrad { (&writes[0], read) } else { (read, &writes[0]) };
    let mut writer = Writer::new();
    let windows = windows_of_pool(&x.layout.sizes, &y.layout.sizes, attrs);
    let first = kernel_args(&mut writer, &windows);
    let planes = writer.number(numel(&x.layout.sizes[..2]));
    let from = writer.kernel_arg(KernelArg::of(read));
    let to = writer.kernel_arg(KernelArg::of(&writes[0]));
    let index = match writes.get(1) {
        Some(index) => format!(", (i64*){}", writer.kernel_arg(KernelArg::of(index))),
        None => String::new(),
    };
    let (element, name) = (stored(read.dtype), op.name());
    writer.line(format!(
        "{name}(*(const Windows*){first}, (i64){planes}, (const {element}*){from}, ({element}*){to}{index});"
    ));
    let blocks = blocks(writes[0].layout.numel());
    Ok(Tasks { tasks: vec![writer.finish(name, blocks)], scratch: 0 })
}

/// `Op::MaxPoolGrad`: `(dy, index)`.
pub fn max_pool_grad(indexed: IndexedStep) -> Result<Tasks> {
    let [dy, index] = indexed.reads else {
        return crate::internal!("max_pool_grad of other than two");
    };
    let write = indexed.write;
    // Sums of half types are made in f32, in scratch memory.
    let apart = write.dtype.size() == 2;
    let layout = Layout::contiguous(&write.layout.sizes);
    let sums = match apart {
        true => Operand { mem: SCRATCH, dtype: DType::F32, layout },
        false => write.clone(),
    };
    let plane = numel(&write.layout.sizes[2..]);
    let mut tasks = Tasks { tasks: vec![check(&indexed, index, plane)], scratch: 0 };
    tasks.tasks.extend(zeros(&sums)?.tasks);
    let mut writer = Writer::new();
    let (planes, pixels) = (numel(&dy.layout.sizes[..2]), numel(&dy.layout.sizes[2..]));
    let [pixels, plane] = [pixels, plane].map(|n| writer.number(n));
    let [from, places, to] =
        [dy, index, &sums].map(|operand| writer.kernel_arg(KernelArg::of(operand)));
    let (element, sum) = (stored(dy.dtype), stored(sums.dtype));
    writer.line(format!(
        "max_pool_grad((i64){pixels}, (i64){plane}, (const {element}*){from}, (const i64*){places}, ({sum}*){to});"
    ));
    tasks.tasks.push(writer.finish("max_pool_grad", planes as u64));
    if apart {
        tasks.scratch = 4 * sums.layout.numel() as u64;
        tasks.tasks.extend(cast(&sums, write)?.tasks);
    }
    Ok(tasks)
}
