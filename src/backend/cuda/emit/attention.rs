//! Attention and its gradient, in tiles, so that no matrix of scores exists: kernels of `cuda/attention_mma.cuh` for half
//! types in rows that tensor cores can take, of `cuda/attention.cuh` for all others.

use super::write::{Writer, compute_type, grid, stored};
use super::{BLOCK, KernelArg, Task, Tasks};
use crate::backend::cuda::emit::Shape;
use crate::dtype::DType;
use crate::op::Attr;
use crate::plan::{MemRef, Operand};

const PLAIN: &str = include_str!("../../../../cuda/attention.cuh");
const FRAGMENTS: &str = concat!(
    include_str!("../../../../cuda/attention.cuh"),
    include_str!("../../../../cuda/mma.cuh"),
    include_str!("../../../../cuda/attention_mma.cuh")
);
/// The widest heads that fit in registers, and that fit with tensor cores.
const WIDEST: i64 = 256;
const WIDEST_FRAGMENTS: i64 = 128;
/// Rows of a block's tile with tensor cores.
const TILE: i64 = 64;

/// Parameters that forward and backward have in common: the attributes, and the sizes of q `[b, h, t, d]`, k `[b, g, s, d]`
/// and v `[b, g, s, e]`.
struct Problem<'a> {
    dtype: DType,
    batches: i64,
    heads: i64,
    groups: i64,
    queries: i64,
    keys: i64,
    d: i64,
    e: i64,
    scale: f64,
    causal: bool,
    dropout: f64,
    seed: &'a Operand,
    offset: &'a Operand,
    bias: Option<&'a Operand>,
}

/// `reads`: q, k, v, seed, offset and perhaps the bias; `writes`: out and lse. `None`: there is no kernel for this.
pub fn attention(attrs: &[Attr], reads: &[Operand], writes: &[Operand]) -> Option<Tasks> {
    let problem = Problem::new(&reads[..3], &reads[3..], attrs)?;
    let mut kernel_args = problem.kernel_args();
    reads[..3].iter().for_each(|operand| kernel_args.extend(heads(operand)));
    kernel_args.extend([KernelArg::of(&writes[0]), KernelArg::of(&writes[1])]);
    let mut tasks = Tasks::default();
    let kernel = if problem.suits_fragments(reads[..3].iter().chain(&writes[..1])) {
        // Masks and dropout need registers of their own.
        let is_bare = problem.bias.is_none() && problem.dropout == 0.0;
        let keys = if is_bare || problem.d.max(problem.e) <= 64 { 8 } else { 4 };
        problem.fragments("attention_mma", &format!("1, {keys}"), TILE, 2 * 8 * keys)
    } else {
        let (tile, width) = (problem.tile(), problem.d.max(problem.e));
        problem.plain("attention", tile * ((problem.d | 1) + (width | 1) + tile + 1))
    };
    problem.push(kernel, (problem.queries, problem.heads), &kernel_args, &mut tasks);
    Some(tasks)
}

/// `reads`: dout, q, k, v, out, lse, seed, offset and perhaps the bias; `writes`: dq, dk, dv.
pub fn attention_grad(attrs: &[Attr], reads: &[Operand], writes: &[Operand]) -> Option<Tasks> {
    let problem = Problem::new(&reads[1..4], &reads[6..], attrs)?;
    let mut kernel_args = problem.kernel_args();
    reads[..5].iter().for_each(|operand| kernel_args.extend(heads(operand)));
    kernel_args.extend([&reads[5], &writes[0], &writes[1], &writes[2]].map(KernelArg::of));
    let queries = problem.batches * problem.heads * problem.queries;
    kernel_args.extend([KernelArg::Scratch(0), KernelArg::number(queries)]);
    let mut tasks = Tasks { tasks: Vec::new(), scratch: 8 * queries as u64 };
    let [dq, dkdv] = if problem.suits_fragments(reads[..4].iter().chain(writes)) {
        [
            problem.fragments("attention_dq_mma", "8", 2 * TILE, 2 * TILE),
            problem.fragments("attention_dkdv_mma", "4", 2 * TILE, TILE),
        ]
    } else {
        let (tile, d, e) = (problem.tile(), problem.d | 1, problem.e | 1);
        let numbers = tile * (2 * d + 2 * e + tile + 1);
        [
            problem.plain("attention_dq", numbers),
            problem.plain("attention_dkdv", numbers + tile * (tile + 1)),
        ]
    };
    if queries > 0 {
        let delta = Kernel {
            label: "attention_delta",
            header: PLAIN,
            template: stored(problem.dtype).into(),
            tile: 1,
            threads: BLOCK,
            shared: 0,
        };
        tasks.tasks.push(delta.call(&kernel_args, (queries as u64).div_ceil(8)));
    }
    problem.push(dq, (problem.queries, problem.heads), &kernel_args, &mut tasks);
    problem.push(dkdv, (problem.keys, problem.groups), &kernel_args, &mut tasks);
    Some(tasks)
}

/// A kernel of the headers: its template's arguments, rows of a block's tile, threads of a block, and bytes of shared
/// memory.
struct Kernel {
    label: &'static str,
    header: &'static str,
    template: String,
    tile: i64,
    threads: u32,
    shared: i64,
}

impl Kernel {
    fn call(&self, kernel_args: &[KernelArg], blocks: u64) -> Task {
        let mut writer = Writer::new();
        writer.head(self.header);
        kernel_args.iter().for_each(|kernel_arg| drop(writer.kernel_arg(*kernel_arg)));
        writer.line(format!("{}<{}>(a.at + 1);", self.label, self.template));
        let (grid, shared) = (grid(blocks), self.shared as u32);
        writer.finish_as(self.label, Shape { grid, block: self.threads, shared })
    }
}

impl<'a> Problem<'a> {
    fn new(qkv: &'a [Operand], rest: &'a [Operand], attrs: &[Attr]) -> Option<Problem<'a>> {
        let sizes = |n: usize| &qkv[n].layout.sizes;
        let (q, k, v) = (sizes(0), sizes(1), sizes(2));
        let problem = Problem {
            dtype: qkv[0].dtype,
            batches: q[0],
            heads: q[1],
            groups: k[1],
            queries: q[2],
            keys: k[2],
            d: q[3],
            e: v[3],
            scale: attrs[0].float(),
            causal: attrs[1].bool(),
            dropout: attrs[2].float(),
            seed: &rest[0],
            offset: &rest[1],
            bias: rest.get(2),
        };
        let memory = |o: &Operand| !matches!(o.mem, MemRef::Scalar(_) | MemRef::Index);
        let readable = qkv.iter().chain(problem.bias).all(memory);
        (readable && problem.d.max(problem.e) <= WIDEST).then_some(problem)
    }

    /// Rows of a tile, such that four tiles fit in shared memory on any device.
    fn tile(&self) -> i64 {
        let width = self.d.max(self.e) * if self.dtype == DType::F64 { 2 } else { 1 };
        match width {
            0..=128 => 32,
            129..=256 => 16,
            _ => 8,
        }
    }

    /// The leading arguments of all kernels.
    fn kernel_args(&self) -> Vec<KernelArg> {
        let mut kernel_args = [self.heads, self.groups, self.queries, self.keys, self.d, self.e]
            .map(KernelArg::number)
            .to_vec();
        let kept = 1.0 / (1.0 - self.dropout);
        kernel_args.extend([self.scale, kept].map(|value| KernelArg::Number(value.to_bits())));
        // Uniform random numbers are multiples of 2^-24.
        kernel_args.push(KernelArg::number((self.dropout * f64::from(1 << 24)).ceil() as i64));
        kernel_args.extend([KernelArg::of(self.seed), KernelArg::of(self.offset)]);
        let Some(bias) = self.bias else {
            kernel_args.extend([KernelArg::number(0); 5]);
            return kernel_args;
        };
        kernel_args.push(KernelArg::of(bias));
        let strides = bias.layout.sizes.iter().zip(&bias.layout.strides);
        kernel_args.extend(
            strides.map(|(&size, &stride)| KernelArg::number(if size == 1 { 0 } else { stride })),
        );
        kernel_args
    }

    /// Whether the kernels for tensor cores apply: half types in rows of 16-byte pieces, which their tiles are made of.
    fn suits_fragments<'o>(&self, operands: impl Iterator<Item = &'o Operand>) -> bool {
        let is_whole = |n: &i64| n % 8 == 0;
        let lies_well =
            |o: &Operand| is_whole(&o.layout.offset) && o.layout.strides[..3].iter().all(is_whole);
        matches!(self.dtype, DType::F16 | DType::BF16)
            && [self.d, self.e].iter().all(is_whole)
            && self.d.max(self.e) <= WIDEST_FRAGMENTS
            && self.queries.max(self.keys) < 1 << 30
            && { operands }.all(lies_well)
    }

    /// The leading arguments of all templates.
    fn template(&self) -> String {
        let bias = self.bias.map_or("void", |bias| stored(bias.dtype));
        format!("{}, {bias}, {}, {}", stored(self.dtype), self.causal, self.dropout > 0.0)
    }

    /// A kernel of `cuda/attention.cuh` with this many `numbers` in shared memory.
    fn plain(&self, label: &'static str, numbers: i64) -> Kernel {
        let (tile, columns) = (self.tile(), self.d.max(self.e).max(32) as u64);
        let columns = columns.next_power_of_two() / 8;
        let size = if compute_type(self.dtype) == "f64" { 8 } else { 4 };
        Kernel {
            label,
            header: PLAIN,
            template: format!("{}, {tile}, {columns}", self.template()),
            tile,
            threads: 8 * tile as u32,
            shared: size * numbers,
        }
    }

    /// A kernel for tensor cores. Shared memory has `own` rows of the block's tile and `others` of the tiles it goes through.
    fn fragments(&self, label: &'static str, sizes: &str, own: i64, others: i64) -> Kernel {
        let width = if self.d.max(self.e) <= 64 { 64 } else { WIDEST_FRAGMENTS };
        Kernel {
            label,
            header: FRAGMENTS,
            template: format!("{}, {width}, {sizes}", self.template()),
            tile: TILE,
            threads: 128,
            shared: 2 * width * (own + others),
        }
    }

    /// Appends a launch with a block for every tile of `rows` rows of every head.
    fn push(
        &self,
        kernel: Kernel,
        (rows, heads): (i64, i64),
        kernel_args: &[KernelArg],
        tasks: &mut Tasks,
    ) {
        let tiles = (rows as u64).div_ceil(kernel.tile as u64);
        let blocks = tiles * (heads * self.batches) as u64;
        if blocks > 0 {
            tasks.tasks.push(kernel.call(kernel_args, blocks));
        }
    }
}

/// Arguments of an operand `[b, h, rows, width]`, in the header's order.
fn heads(operand: &Operand) -> [KernelArg; 4] {
    let stride = |d: usize| KernelArg::number(operand.layout.strides[d]);
    [KernelArg::of(operand), stride(0), stride(1), stride(2)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Layout;

    fn operand(dtype: DType, sizes: &[i64]) -> Operand {
        Operand { mem: MemRef::Input(0), dtype, layout: Layout::contiguous(sizes) }
    }

    fn launches(dtype: DType, [b, h, t, s, d]: [i64; 5], grad: bool) -> Vec<Task> {
        let (q, k) = (operand(dtype, &[b, h, t, d]), operand(dtype, &[b, h, s, d]));
        let (lse, one) = (operand(DType::F32, &[b, h, t]), operand(DType::I64, &[]));
        let attrs = [Attr::Float(1.0), Attr::Bool(true), Attr::Float(0.0)];
        let of = |list: &[&Operand]| list.iter().map(|&o| o.clone()).collect::<Vec<_>>();
        let tasks = match grad {
            false => attention(&attrs, &of(&[&q, &k, &k, &one, &one]), &of(&[&q, &lse])),
            true => {
                let reads = of(&[&q, &q, &k, &k, &q, &lse, &one, &one]);
                attention_grad(&attrs, &reads, &of(&[&q, &k, &k]))
            }
        };
        tasks.unwrap().tasks
    }

    #[test]
    fn tiles_cover_all_rows_and_fit_shared_memory() {
        let widths = || (1..=WIDEST).step_by(3).chain([8, 64, 128, WIDEST]);
        let lengths = [1, 7, 8, 9, 63, 64, 65, 1000, (1 << 20) + 1];
        for (dtype, grad) in [DType::F32, DType::F64, DType::BF16]
            .into_iter()
            .flat_map(|dtype| [(dtype, false), (dtype, true)])
        {
            for (d, n) in widths().flat_map(|d| lengths.map(|n| (d, n))) {
                for task in launches(dtype, [2, 3, n, n, d], grad) {
                    let Shape { grid, block, shared } = task.shape;
                    let named = &task.source.name;
                    // With tensor cores a warp has 16 rows, else each row has 8 threads.
                    let rows = match named.contains("mma") {
                        true => i64::from(block) / 2,
                        false => i64::from(block) / 8,
                    };
                    let (heads, rows) = match named.contains("delta") {
                        true => (1, [6 * n, 8]),
                        false => (6, [n, rows]),
                    };
                    let tiles = i64::from(grid[0]) / heads;
                    assert_eq!(tiles * heads, i64::from(grid[0]), "{named}");
                    let [n, each] = rows;
                    assert!(tiles * each >= n && (tiles - 1) * each < n, "{named}: {n} by {d}");
                    // All devices but those of Turing (64 KiB) grant this much; there the launch is refused.
                    assert!(shared <= 96 << 10, "{named}: {n} by {d}: {shared}");
                }
            }
        }
    }

    #[test]
    fn more_blocks_than_there_can_be_are_refused_and_not_left_out() {
        let [task] = &launches(DType::F32, [1 << 33, 1, 1, 1, 1], false)[..] else { panic!() };
        assert_eq!(task.shape.grid, [u32::MAX, 1, 1]);
    }
}
