//! Primitives that read or write at indices. Where a result overwrites the only copy of a donor's value, a separate launch
//! checks the indices first.

use super::access::{Space, Walk};
use super::write::{Writer, raw, stored};
use super::{BLOCK, KernelArg, SCRATCH, Task, Tasks};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::index::Reduction;
use crate::plan::Operand;
use crate::shape::{Layout, collapse, contiguous_strides, numel};

/// The step of a primitive with indices.
#[derive(Clone, Copy)]
pub struct IndexedStep<'a> {
    pub axis: usize,
    pub reads: &'a [Operand],
    pub write: &'a Operand,
    pub step: usize,
    /// Whether the result overwrites the only copy of a donor's value.
    pub overwrites_donor: bool,
    /// Whether the memory of the first operand is donated to the result.
    pub in_place: bool,
}

/// Elements before, along and after an axis.
fn around(sizes: &[i64], axis: usize) -> [i64; 3] {
    [numel(&sizes[..axis]), sizes[axis], numel(&sizes[axis + 1..])]
}

/// Number of blocks for these threads; the last block may have some to spare.
pub fn blocks(threads: i64) -> u64 {
    (threads as u64).div_ceil(u64::from(BLOCK))
}

/// `(x, index)`, see `Op::Take`.
pub fn take(indexed: IndexedStep) -> Result<Tasks> {
    let [x, index] = indexed.reads else { return crate::internal!("take of other than two") };
    let [outer, size, inner] = around(&x.layout.sizes, indexed.axis);
    let count = index.layout.numel();
    let mut tasks = Tasks::default();
    if outer * count * inner == 0 {
        return Ok(tasks);
    }
    if indexed.overwrites_donor {
        tasks.tasks.push(check(&indexed, index, size));
    }
    // Moves as many bytes at once as divide a line and its beginning.
    let bytes = inner * x.dtype.size() as i64;
    let begins = x.layout.offset * x.dtype.size() as i64;
    let even = |n: &i64| bytes % n == 0 && begins % n == 0;
    let unit = [16, 8, 4, 2, 1].into_iter().find(even).unwrap_or(1);
    let inner = bytes / unit;
    let mut writer = Writer::new();
    let [step, outer_, size, count_, inner_] =
        [indexed.step as i64, outer, size, count, inner].map(|n| writer.number(n));
    let [x, places, out] = [x, index, indexed.write].map(|o| writer.kernel_arg(KernelArg::of(o)));
    let (element, number) = (raw(unit as usize), stored(index.dtype));
    writer.line(format!(
        "take(status, {step}, (const {element}*){x}, (const {number}*){places}, ({element}*){out}, {outer_}, {size}, {count_}, {inner_});"
    ));
    tasks.tasks.push(writer.finish("take", blocks(outer * count * inner)));
    Ok(tasks)
}

/// Stops the run if an index is out of range.
pub fn check(indexed: &IndexedStep, index: &Operand, size: i64) -> Task {
    let mut writer = Writer::new();
    let count = index.layout.numel();
    let [step, count_, size] = [indexed.step as i64, count, size].map(|n| writer.number(n));
    let places = writer.kernel_arg(KernelArg::of(index));
    let number = stored(index.dtype);
    writer.line(format!(
        "check_indices(status, {step}, (const {number}*){places}, {count_}, {size});"
    ));
    writer.finish("check_indices", blocks(count))
}

/// `(holds)`, see `Op::Expect`.
pub fn expect(holds: &Operand, write: &Operand, step: usize) -> Tasks {
    let mut writer = Writer::new();
    let step = writer.number(step as i64);
    let [holds, out] = [holds, write].map(|o| writer.kernel_arg(KernelArg::of(o)));
    writer.line("if (thread_number() != 0) return;");
    writer.line(format!(
        "if (!*(const u8*){holds}) return stop(status, STATUS_EXPECTATION, {step}, 0, 0);"
    ));
    writer.line(format!("*(i64*){out} = 0;"));
    Tasks { tasks: vec![writer.finish("expect", blocks(1))], ..Tasks::default() }
}

/// `(x, index)`, see `Op::Gather`.
pub fn gather(indexed: IndexedStep) -> Result<Tasks> {
    let [x, index] = indexed.reads else { return crate::internal!("gather of other than two") };
    let mut tasks = Tasks::default();
    if index.layout.numel() == 0 {
        return Ok(tasks);
    }
    let size = x.layout.sizes[indexed.axis];
    if indexed.overwrites_donor {
        tasks.tasks.push(check(&indexed, index, size));
    }
    let mut writer = Writer::new();
    let stride = writer.number(x.layout.strides[indexed.axis]);
    let [step, size] = [indexed.step as i64, size].map(|n| writer.number(n));
    let [from, places, out] =
        [x, index, indexed.write].map(|o| writer.kernel_arg(KernelArg::of(o)));
    let (element, number) = (raw(x.dtype.size()), stored(index.dtype));
    let (space, walk) = beside(&mut writer, &index.layout, x, indexed.axis);
    let text = space.coordinates(&mut writer, "c", "n");
    let at = space.index();
    let n = writer.number(space.numel());
    writer.line(format!("const {at} n = ({at})thread_number();"));
    writer.line(format!("if ((i64)n >= (i64){n}) return;"));
    writer.line(text.trim());
    writer.line(format!(
        "const i64 at = checked(status, {step}, (const {number}*){places}, n, {size});"
    ));
    let offset = walk.offset("n", "c", at);
    writer.line(format!(
        "if (at >= 0) (({element}*){out})[n] = ((const {element}*){from})[({offset}) + at * (i64){stride}];"
    ));
    tasks.tasks.push(writer.finish("gather", blocks(space.numel())));
    Ok(tasks)
}

/// The points of an index, and an operand's offsets at them, except along the axis.
fn beside(writer: &mut Writer, index: &Layout, operand: &Operand, axis: usize) -> (Space, Walk) {
    let points = Layout::contiguous(&index.sizes);
    let mut strides = operand.layout.strides.clone();
    strides[axis] = 0;
    let still = Layout { sizes: index.sizes.clone(), strides, offset: 0 };
    let order: Vec<usize> = (0..index.rank()).collect();
    let (sizes, mut strides, _) = collapse(&[&still, &points], &order, &[]);
    let space = Space::new(sizes, &[operand]);
    strides[0].resize(space.sizes.len(), 0);
    let walk = Walk::new(writer, &space, &strides[0]);
    (space, walk)
}

/// `(base, index, x)`, see `Op::IndexAdd`. Copies the base to the result, unless it is there already.
pub fn index_add(indexed: IndexedStep) -> Result<Tasks> {
    let [base, index, x] = indexed.reads else {
        return crate::internal!("index_add of other than three");
    };
    let [outer, size, inner] = around(&base.layout.sizes, indexed.axis);
    let count = index.layout.numel();
    let base = if indexed.in_place { Tasks::default() } else { super::copy(base, indexed.write)? };
    if outer * count * inner == 0 {
        return Ok(base);
    }
    let mut tasks = Tasks::default();
    let number = stored(index.dtype);
    let launch = |label: &str, blocks: u64, call: &dyn Fn(&mut Writer, &str) -> String| {
        let mut writer = Writer::new();
        let starts = writer.kernel_arg(KernelArg::Scratch(0));
        let text = call(&mut writer, &format!("(i32*){starts}"));
        writer.line(text);
        writer.finish(label, blocks)
    };
    let clear = launch("lists_clear", blocks(size + 1), &|w, starts| {
        let size = w.number(size);
        format!("lists_clear({starts}, {size});")
    });
    let count_ = launch("lists_count", blocks(count), &|w, starts| {
        let [step, count, size] = [indexed.step as i64, count, size].map(|n| w.number(n));
        let places = w.kernel_arg(KernelArg::of(index));
        format!(
            "lists_count(status, {step}, (const {number}*){places}, {starts}, {count}, {size});"
        )
    });
    let begin = launch("lists_begin", 1, &|w, starts| {
        let size = w.number(size);
        format!("lists_begin({starts}, {size});")
    });
    let fill = launch("lists_fill", blocks(count), &|w, starts| {
        let [count, size] = [count, size].map(|n| w.number(n));
        let places = w.kernel_arg(KernelArg::of(index));
        format!("lists_fill((const {number}*){places}, {starts}, {count}, {size});")
    });
    let sort = launch("lists_sort", size as u64, &|w, starts| {
        let [count, size] = [count, size].map(|n| w.number(n));
        format!("lists_sort({starts}, {count}, {size});")
    });
    let element = stored(x.dtype);
    let add = launch("add_lists", blocks(outer * size * inner), &|w, starts| {
        let [outer, size, count, inner] = [outer, size, count, inner].map(|n| w.number(n));
        let [from, to] = [x, indexed.write].map(|o| w.kernel_arg(KernelArg::of(o)));
        format!(
            "add_lists({starts}, (const {element}*){from}, ({element}*){to}, {outer}, {size}, {count}, {inner});"
        )
    });
    // Nothing is overwritten before all indices are known to be right.
    tasks.tasks.extend([clear, count_, begin, fill, sort]);
    tasks.tasks.extend(base.tasks);
    tasks.tasks.push(add);
    tasks.scratch = 4 * (2 * size + 1 + 2 * count) as u64;
    Ok(tasks)
}

/// Number of lines that keep a device busy with a thread for each, and places of a line that are worth a block.
const MANY_LINES: i64 = 1 << 17;
const LONG_LINE: i64 = 64;

/// `(base, index, x)`, see `Op::Scatter`: updates along the axis happen in order, so that the last of equal indices wins, and
/// reductions are deterministic. A thread or a block processes each line.
pub fn scatter(indexed: IndexedStep, how: Reduction) -> Result<Tasks> {
    let [base, index, x] = indexed.reads else {
        return crate::internal!("scatter of other than three");
    };
    let (axis, size) = (indexed.axis, base.layout.sizes[indexed.axis]);
    let mut tasks = Tasks::default();
    let count = index.layout.numel();
    if count > 0 {
        // Nothing is overwritten before all indices are known to be right.
        tasks.tasks.push(check(&indexed, index, size));
    }
    let joined = match how {
        Reduction::Last => None,
        Reduction::Sum => Some("op_add"),
        Reduction::Product => Some("op_mul"),
        Reduction::Max => Some("op_max"),
        Reduction::Min => Some("op_min"),
    };
    // Reductions of half types are made in f32, in scratch memory.
    let apart = joined.is_some() && base.dtype.is_float() && base.dtype.size() == 2 && count > 0;
    let layout = Layout::contiguous(&base.layout.sizes);
    let sums = match apart {
        true => Operand { mem: SCRATCH, dtype: DType::F32, layout },
        false => indexed.write.clone(),
    };
    if apart {
        tasks.scratch = 4 * sums.layout.numel() as u64;
    }
    if apart || !indexed.in_place {
        tasks.tasks.extend(super::cast(base, &sums)?.tasks);
    }
    if count == 0 {
        return Ok(tasks);
    }
    let mut writer = Writer::new();
    let dense = contiguous_strides(&index.layout.sizes);
    let lines = Layout {
        sizes: index
            .layout
            .sizes
            .iter()
            .enumerate()
            .map(|(d, &n)| if d == axis { 1 } else { n })
            .collect(),
        ..Layout::default()
    };
    let order: Vec<usize> = (0..lines.sizes.len()).collect();
    let beside = |strides: &[i64]| Layout { strides: strides.into(), ..lines.clone() };
    let points = Layout::contiguous(&lines.sizes);
    let (sizes, mut strides, _) = collapse(
        &[&beside(&dense), &beside(&contiguous_strides(&base.layout.sizes)), &points],
        &order,
        &[],
    );
    let space = Space::new(sizes, &[base, index, x]);
    strides.iter_mut().for_each(|s| s.resize(space.sizes.len(), 0));
    let [from, to] = [0, 1].map(|n| Walk::new(&mut writer, &space, &strides[n]));
    let text = space.coordinates(&mut writer, "c", "n");
    let at = space.index();
    let (lines, along) = (space.numel(), index.layout.sizes[axis]);
    let by_blocks = lines < MANY_LINES && along >= LONG_LINE;
    let [n, along] = [lines, along].map(|n| writer.number(n));
    let [step, out_step] =
        [dense[axis], contiguous_strides(&base.layout.sizes)[axis]].map(|n| writer.number(n));
    let [places, source, out] = [index, x, &sums].map(|o| writer.kernel_arg(KernelArg::of(o)));
    let number = stored(index.dtype);
    let is_number = joined.is_some();
    let bits = |dtype: DType| if is_number { stored(dtype) } else { raw(dtype.size()) };
    let (element, sum) = (bits(x.dtype), bits(sums.dtype));
    let line = if by_blocks { "blockIdx.x" } else { "thread_number()" };
    writer.line(format!("const {at} n = ({at}){line};"));
    writer.line(format!("if ((i64)n >= (i64){n}) return;"));
    writer.line(text.trim());
    writer.line(format!("const i64 from = {};", from.offset("n", "c", at)));
    writer.line(format!("const i64 to = {};", to.offset("n", "c", at)));
    writer.line("const auto at = [&](i64 i) {");
    writer.line(format!("    return (i64)((const {number}*){places})[from + i * (i64){step}];"));
    writer.line("};");
    writer.line("const auto change = [&](i64 i, i64 at) {");
    writer.line(format!(
        "    const {element}* value = (const {element}*){source} + from + i * (i64){step};"
    ));
    writer.line(format!("    {sum}* target = ({sum}*){out} + to + at * (i64){out_step};"));
    writer.line(match joined {
        Some(f) => format!("    put(target, {f}(get(target), get(value)));"),
        None => "    *target = *value;".into(),
    });
    writer.line("};");
    writer.line(match by_blocks {
        true => format!("in_order((i64){along}, at, change);"),
        false => format!("for (i64 i = 0; i < (i64){along}; i++) change(i, at(i));"),
    });
    let blocks = if by_blocks { lines as u64 } else { blocks(lines) };
    tasks.tasks.push(writer.finish("scatter", blocks));
    if apart {
        tasks.tasks.extend(super::cast(&sums, indexed.write)?.tasks);
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_all_threads_and_none_is_empty() {
        for threads in (0..100_000).chain([(1 << 31) - 1, 1 << 31, (1 << 40) + 1, i64::MAX]) {
            let room = u128::from(blocks(threads)) * u128::from(BLOCK);
            assert!(room >= threads as u128 && room < threads as u128 + u128::from(BLOCK));
        }
    }
}
