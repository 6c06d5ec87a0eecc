//! Reductions with the loop body that computes the reduced values.
//!
//! A block's threads are lanes over the kept points times lanes over the reduced ones. *Rows*: contiguous points are
//! reduced, so neighbouring threads take neighbouring reduced points. *Columns*: contiguous points are kept, so they
//! take neighbouring kept points. Where that makes too few blocks the reduced points are split, and a second kernel
//! joins the parts. The order of joining depends on the shape alone, and so do the bits.

use super::access::{Access, Space, Walk, pack};
use super::body::statements;
use super::write::{Writer, compute_type, stored};
use super::{BLOCK, BUSY, KernelArg, Task, Tasks};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Op;
use crate::plan::{LoopBody, MemRef, Operand};
use crate::shape::{Dims, Layout, collapse};
use std::fmt::Write;

/// Bytes of the largest part: a number and its index.
const LARGEST_PART: u64 = 16;
/// Number of independent sums of a thread.
const ABREAST: i64 = 4;
/// Points that are worth a block.
const SHARE: i64 = 4096;
/// Number of such shares that are worth another kernel, which joins them.
const LEAST_SHARES: i64 = 4;
/// Most threads of a block along the kept points in columns: a warp, which then reads whole lines.
const BROAD: i64 = 32;

/// How a reduction is mapped to threads.
struct Lanes {
    kept: i64,
    reduced: i64,
    rows: bool,
    /// Number of parts of the reduced points.
    splits: i64,
    /// Reduced points of a part: a multiple of the number that a thread takes at once.
    part: i64,
    /// Neighbours that a thread takes at once: reduced ones in rows, kept ones in columns.
    width: i64,
}

/// `Kernel::Reduce` as step number `step`; not a running sum, whose result keeps its axis.
pub fn reduce(
    body: &LoopBody,
    op: Op,
    axes: &[i64],
    reads: &[Operand],
    write: &Operand,
    step: usize,
) -> Result<Tasks> {
    let rank = body.sizes.len();
    let is_reduced = |d: &usize| axes.contains(&(*d as i64));
    let kept: Vec<usize> = (0..rank).filter(|d| !is_reduced(d)).collect();
    let reduced: Vec<usize> = (0..rank).filter(is_reduced).collect();
    let operands: Vec<&Operand> = reads.iter().collect();
    let (outer, outer_strides) = part(&body.sizes, &kept, &operands);
    let (inner, inner_strides) = part(&body.sizes, &reduced, &operands);
    if outer.numel() == 0 {
        return Ok(Tasks::default());
    }
    let rows = is_by_rows(&operands, &outer, &outer_strides, &inner_strides);
    let (across, across_strides) =
        if rows { (&inner, &inner_strides) } else { (&outer, &outer_strides) };
    let mut width = pack(across, &operands, across_strides);
    while across.numel() % width != 0 {
        width /= 2;
    }
    let lanes = Lanes::new(outer.numel(), inner.numel(), rows, width);
    let fold =
        Fold { op, compute_type: compute_type(reduced_type(body)), write, splits: lanes.splits };
    let (along, along_strides) =
        if rows { (&outer, &outer_strides) } else { (&inner, &inner_strides) };
    let mut writer = Writer::new();
    let step = writer.number(step as i64);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for (n, read) in reads.iter().enumerate() {
        let strides = (&across_strides[n][..], &along_strides[n][..]);
        near.push(Access::new(&mut writer, read, across, strides, width, false));
        far.push(Walk::new(&mut writer, along, strides.1));
    }
    let value = Value { body, near: &near, far: &far, across, along };
    let text = value.text(rows, &step, &mut writer)?;
    writer.head(&text);
    let mut tasks = Tasks { tasks: vec![fold.kernel(writer, &lanes)], scratch: 0 };
    if lanes.splits > 1 {
        tasks.tasks.push(fold.join(&lanes));
        tasks.scratch = LARGEST_PART * (lanes.splits * lanes.kept) as u64;
    }
    Ok(tasks)
}

/// Some dimensions of a space, merged, and the operands' strides over them.
pub fn part(sizes: &[i64], dims: &[usize], operands: &[&Operand]) -> (Space, Vec<Dims>) {
    let points = Layout::contiguous(sizes);
    let chosen: Dims = dims.iter().map(|&d| d as i64).collect();
    let part = Layout::contiguous(&points.transpose(&chosen).sizes);
    let layouts: Vec<Layout> = operands.iter().map(|o| o.layout.transpose(&chosen)).collect();
    let all: Vec<&Layout> = layouts.iter().chain([&part]).collect();
    let order: Vec<usize> = (0..dims.len()).collect();
    let (sizes, mut strides, _) = collapse(&all, &order, &[]);
    let space = Space::new(sizes, operands);
    strides.iter_mut().for_each(|s| s.resize(space.sizes.len(), 0));
    strides.truncate(operands.len());
    (space, strides)
}

/// Whether neighbours in the memory of the largest operand are reduced.
fn is_by_rows(operands: &[&Operand], kept: &Space, outer: &[Dims], inner: &[Dims]) -> bool {
    let memory = |n: &usize| !matches!(operands[*n].mem, MemRef::Scalar(_) | MemRef::Index);
    let extent = |n: &usize| operands[*n].layout.end();
    let Some(n) = (0..operands.len()).filter(memory).max_by_key(extent) else { return true };
    let least = |strides: &Dims| strides.iter().copied().filter(|&s| s > 0).min();
    match (least(&inner[n]), least(&outer[n])) {
        (Some(inner), Some(outer)) => inner < outer || kept.numel() == 1,
        (inner, _) => inner.is_some(),
    }
}

impl Lanes {
    fn new(kept: i64, reduced: i64, rows: bool, width: i64) -> Lanes {
        let mut lanes = Lanes { kept, reduced, rows, splits: 1, part: reduced, width };
        let blocks = lanes.blocks() as i64;
        // Reduced points of a share: a thread has some for each of its sums.
        let share = (SHARE / lanes.each()).max(2 * lanes.deep() * ABREAST);
        if blocks < BUSY && reduced >= LEAST_SHARES * share {
            lanes.splits = (BUSY / blocks).min(reduced / share).max(1);
        }
        lanes.part = (reduced as u64).div_ceil(lanes.splits as u64) as i64;
        if rows {
            lanes.part = (lanes.part as u64).next_multiple_of(width as u64) as i64;
        }
        lanes.splits = (reduced as u64).div_ceil(lanes.part.max(1) as u64).max(1) as i64;
        lanes
    }

    /// Threads of a block along the reduced points.
    fn deep(&self) -> i64 {
        if !self.rows {
            let pieces = (self.kept as u64).div_ceil(self.width as u64).next_power_of_two();
            return i64::from(BLOCK) / BROAD.min(pieces as i64);
        }
        let pieces = (self.reduced / self.width).clamp(1, i64::from(BLOCK)) as u64;
        pieces.next_power_of_two() as i64
    }

    /// Threads of a block along the kept points.
    fn broad(&self) -> i64 {
        i64::from(BLOCK) / self.deep()
    }

    /// Kept points of a block.
    fn each(&self) -> i64 {
        self.broad() * if self.rows { 1 } else { self.width }
    }

    fn blocks(&self) -> u64 {
        (self.kept as u64).div_ceil(self.each() as u64)
    }
}

/// The values to reduce.
pub struct Value<'a> {
    pub body: &'a LoopBody,
    /// The body's operands over the points that neighbouring threads take.
    pub near: &'a [Access],
    /// Their offsets over the other points.
    pub far: &'a [Walk],
    pub across: &'a Space,
    pub along: &'a Space,
}

impl Value<'_> {
    /// The function that computes the values to reduce into `x[V]`: in rows at kept point `k` and reduced points `r + e`, in
    /// columns at kept points `k + e` and reduced point `r`.
    pub fn text(&self, rows: bool, step: &str, writer: &mut Writer) -> Result<String> {
        let Value { body, near, far, across, along } = self;
        let at = if across.wide || along.wide { "i64" } else { "u32" };
        let (near_point, far_point) = if rows { ("r", "k") } else { ("k", "r") };
        let mut text = format!(
            "template <int V, class T, class A>\nDEVICE void NAME_at(const A& a, u64* status, T (&x)[V], const {at} k, const {at} r) {{\n"
        );
        if near.iter().any(|access| access.walk.needs_coordinates()) {
            text += &across.coordinates(writer, "n", near_point);
        }
        if far.iter().any(Walk::needs_coordinates) {
            text += &along.coordinates(writer, "f", far_point);
        }
        for (n, (near, far)) in near.iter().zip(far.iter()).enumerate() {
            let near_offset = near.walk.offset(near_point, "n", at);
            let offset = format!("{near_offset} + {}", far.offset(far_point, "f", at));
            text += &near.load(&format!("x{n}"), &offset, at);
        }
        let _ = writeln!(text, "    UNROLL for (int e = 0; e < V; e++) {{");
        let lanes: Vec<String> =
            near.iter().enumerate().map(|(n, access)| access.lane(&format!("x{n}"))).collect();
        text += &statements(body, &lanes, step)?;
        let _ = writeln!(text, "        x[e] = r{};\n    }}\n}}\n", body.results[0]);
        Ok(text)
    }
}

/// The dtype of the values that a loop body passes to a reduction.
pub fn reduced_type(body: &LoopBody) -> DType {
    let result = body.results[0] as usize;
    match result.checked_sub(body.reads.len()) {
        None => body.reads[result],
        Some(k) => body.instrs[k].dtype,
    }
}

/// A fold and its destination.
struct Fold<'a> {
    op: Op,
    /// The type of the reduced values.
    compute_type: &'static str,
    write: &'a Operand,
    splits: i64,
}

impl Fold<'_> {
    fn types(&self, writer: &mut Writer) {
        writer.line(format!("typedef {}<{}> Fold;", self.op.name(), self.compute_type));
        writer.line("typedef typename Fold::type Part;");
    }

    fn kernel(&self, mut writer: Writer, lanes: &Lanes) -> Task {
        let (deep, broad, width) = (lanes.deep(), lanes.broad(), lanes.width);
        let (down, side) = if lanes.rows { (width, 1) } else { (1, width) };
        let [kept, reduced, part, splits] =
            [lanes.kept, lanes.reduced, lanes.part, lanes.splits].map(|n| writer.number(n));
        let to = match self.splits {
            1 => writer.kernel_arg(KernelArg::of(self.write)),
            _ => writer.kernel_arg(KernelArg::Scratch(0)),
        };
        let lane = if lanes.rows {
            format!("const int deep = threadIdx.x % {deep}, broad = threadIdx.x / {deep};")
        } else {
            format!("const int broad = threadIdx.x % {broad}, deep = threadIdx.x / {broad};")
        };
        self.types(&mut writer);
        writer.line(lane);
        writer.line(format!("const i64 split = block % (u64){splits};"));
        writer.line(format!(
            "const i64 k = ((i64)(block / (u64){splits}) * {broad} + broad) * {side};"
        ));
        writer.line(format!("const i64 begin = split * (i64){part};"));
        writer.line(format!("const i64 last = begin + (i64){part};"));
        writer.line(format!("const i64 end = last < (i64){reduced} ? last : (i64){reduced};"));
        // Independent sums: loads do not wait for each other, and chains of additions are shorter.
        writer.line(format!("Part sums[{ABREAST}][{side}];"));
        writer.line(format!(
            "UNROLL for (int e = 0; e < {ABREAST} * {side}; e++) sums[e / {side}][e % {side}] = Fold::neutral();"
        ));
        writer.line(format!(
            "if (k < (i64){kept}) for (i64 first = begin + (i64)deep * {down}; first < end; first += {}) {{",
            deep * down * ABREAST
        ));
        writer.line(format!("    UNROLL for (int j = 0; j < {ABREAST}; j++) {{"));
        writer.line(format!("        const i64 r = first + j * {};", deep * down));
        writer.line("        if (r >= end) break;");
        writer.line(format!("        {} x[{width}];", self.compute_type));
        writer.line(format!("        NAME_at<{width}>(a, status, x, k, r);"));
        let element = if lanes.rows { "r + e" } else { "r" };
        let sum = if lanes.rows { "sums[j][0]" } else { "sums[j][e]" };
        writer.line(format!(
            "        UNROLL for (int e = 0; e < {width}; e++) {sum} = Fold::join({sum}, Fold::of(x[e], {element}));"
        ));
        writer.line("    }");
        writer.line("}");
        writer.line(format!("__shared__ Part shared[{}];", i64::from(BLOCK) * side));
        writer.line(format!("Part* mine = shared + (deep * {broad} + broad) * {side};"));
        writer.line(format!(
            "UNROLL for (int e = 0; e < {side}; e++) mine[e] = Fold::join(Fold::join(sums[0][e], sums[1][e]), Fold::join(sums[2][e], sums[3][e]));"
        ));
        Fold::halves(&mut writer, deep, broad, side);
        writer.line(format!(
            "if (deep == 0 && k < (i64){kept}) UNROLL for (int e = 0; e < {side}; e++) {{"
        ));
        match self.splits {
            1 => writer.line(format!(
                "    put(({}*){to} + k + e, (Held<{}>)Fold::value(mine[e]));",
                stored(self.write.dtype),
                stored(self.write.dtype)
            )),
            _ => writer.line(format!("    ((Part*){to})[split * (i64){kept} + k + e] = mine[e];")),
        }
        writer.line("}");
        writer.finish_item(self.op.name(), lanes.blocks() * lanes.splits as u64)
    }

    /// Joins the parts `mine` of a block's threads, one half with the other half, until the threads with `deep == 0` have
    /// everything.
    fn halves(writer: &mut Writer, deep: i64, broad: i64, side: i64) {
        writer.line(format!("for (int half = {}; half > 0; half /= 2) {{", deep / 2));
        writer.line("    __syncthreads();");
        writer.line(format!(
            "    if (deep < half) UNROLL for (int e = 0; e < {side}; e++) mine[e] = Fold::join(mine[e], mine[half * {} + e]);",
            broad * side
        ));
        writer.line("}");
    }

    /// Joins the parts of every kept point.
    fn join(&self, lanes: &Lanes) -> Task {
        let mut writer = Writer::new();
        let [kept, splits] = [lanes.kept, lanes.splits].map(|n| writer.number(n));
        let from = writer.kernel_arg(KernelArg::Scratch(0));
        let to = writer.kernel_arg(KernelArg::of(self.write));
        let dtype = stored(self.write.dtype);
        self.types(&mut writer);
        let deep = i64::from(BLOCK) / BROAD;
        writer.line(format!(
            "const int broad = threadIdx.x % {BROAD}, deep = threadIdx.x / {BROAD};"
        ));
        writer.line(format!("const i64 k = (i64)block * {BROAD} + broad;"));
        writer.line("Part sum = Fold::neutral();");
        writer.line(format!(
            "if (k < (i64){kept}) for (i64 s = deep; s < (i64){splits}; s += {deep}) sum = Fold::join(sum, ((const Part*){from})[s * (i64){kept} + k]);"
        ));
        writer.line(format!("__shared__ Part shared[{BLOCK}];"));
        writer.line("Part* mine = shared + threadIdx.x;");
        writer.line("*mine = sum;");
        Fold::halves(&mut writer, deep, BROAD, 1);
        writer.line(format!("if (deep == 0 && k < (i64){kept}) put(({dtype}*){to} + k, (Held<{dtype}>)Fold::value(*mine));"));
        let blocks = (lanes.kept as u64).div_ceil(BROAD as u64);
        writer.finish_item(&format!("{}_join", self.op.name()), blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_cover_every_point_with_whole_blocks() {
        let sizes = || (1..70).chain([255, 256, 257, 8192, 100_003, (1 << 31) + 8, 1 << 40]);
        for (kept, reduced) in sizes().flat_map(|kept| sizes().map(move |reduced| (kept, reduced)))
        {
            for (rows, width) in [1, 2, 4, 8].into_iter().flat_map(|w| [(true, w), (false, w)]) {
                let lanes = Lanes::new(kept, reduced, rows, width);
                assert_eq!(lanes.deep() * lanes.broad(), i64::from(BLOCK));
                assert!(lanes.splits >= 1 && lanes.part >= 1);
                assert!(lanes.splits * lanes.part >= reduced, "{kept} {reduced} {rows} {width}");
                // None but the last part may be empty.
                assert!((lanes.splits - 1) * lanes.part <= reduced, "{kept} {reduced} {width}");
                let each = lanes.broad() * if rows { 1 } else { width };
                assert!(lanes.blocks() as i64 * each >= kept);
            }
        }
    }
}
