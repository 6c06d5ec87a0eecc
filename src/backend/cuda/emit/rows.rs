//! Softmax and its variants, normalisation and their gradients: kernels of `cuda/rows.cuh`, over the rows of dense matrices.
//! An operand may be of a half type where the others are f32.

use super::map::Epilogue;
use super::write::{Writer, compute_type, stored};
use super::{BLOCK, BUSY, KernelArg, Task, Tasks};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::{Attr, Op};
use crate::plan::Operand;

const HEADER: &str = include_str!("../../../../cuda/rows.cuh");
const WARP: i64 = 32;

/// How rows are dealt to threads; `G`, `V` and `N` of the header. Rows too long to be kept in registers have no packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deal {
    rows: i64,
    n: i64,
    group: i64,
    width: i64,
    packs: i64,
}

/// The destination of a result's rows.
#[derive(Clone, Copy)]
pub enum To<'a> {
    Memory(&'a Operand),
    Epilogue(Epilogue<'a>),
}

/// `op` over the last axis of `reads[0]`; one of those that the header has kernels for. Its first result goes `to` a
/// destination, `others` are the other results.
pub fn rows(
    op: Op,
    attrs: &[Attr],
    reads: &[Operand],
    to: To,
    others: &[Operand],
) -> Result<Tasks> {
    match op {
        Op::LayerNorm => {
            let [has_weight, has_bias] = [attrs[1].bool(), attrs[2].bool()];
            let weight = reads.get(1).filter(|_| has_weight);
            let bias = reads.last().filter(|_| has_bias);
            norm(attrs[0].float(), &reads[0], [weight, bias], to, others)
        }
        Op::RmsNorm => norm(attrs[0].float(), &reads[0], [reads.get(1), None], to, others),
        Op::LayerNormGrad => norm_grad([&reads[2], &reads[3]], reads, reads.get(4), to, others),
        Op::RmsNormGrad => norm_grad([&reads[2], &reads[2]], reads, reads.get(3), to, others),
        Op::Softmax | Op::LogSoftmax | Op::SoftmaxGrad | Op::LogSoftmaxGrad => {
            softmax(op, reads, to)
        }
        other => internal!("{} by rows", other.name()),
    }
}

impl To<'_> {
    fn dtype(&self) -> DType {
        match self {
            To::Memory(result) => result.dtype,
            To::Epilogue(epilogue) => epilogue.body.reads[0],
        }
    }
}

impl Deal {
    /// For rows computed in `dtype`, regardless of the half type of some of the `matrices`: so the sums do not depend on that.
    /// `columns` are the operands of norms that are the same for all rows (`Some`, even if there are none).
    fn new(dtype: DType, matrices: &[&Operand], columns: Option<&[&Operand]>) -> Deal {
        let sizes = &matrices[0].layout.sizes;
        let n = sizes.last().copied().unwrap_or(1);
        let rows = sizes.iter().rev().skip(1).product();
        let whole = 16 / dtype.size() as i64;
        let operands = || matrices.iter().chain(columns.unwrap_or_default());
        let begin = |width: &i64| operands().all(|o| o.layout.offset % width == 0);
        let divides = |width: &i64| n % width == 0 && begin(width);
        let widths = || [8, 4, 2, 1].into_iter().filter(|&width| width <= whole);
        let width = widths().find(divides).unwrap_or(1);
        let count = (n as u64).div_ceil(width as u64) as i64;
        // Registers are 4 bytes wide; elements of f64 take two as stored and two more where they are summed.
        let most = if dtype == DType::F64 { 16 } else { 32 } / width;
        for group in [WARP, i64::from(BLOCK)] {
            let packs = few((count as u64).div_ceil(group as u64).max(1));
            if packs <= most {
                return Deal { rows, n, group, width, packs };
            }
        }
        let width = if columns.is_some() { width } else { widths().find(begin).unwrap_or(1) };
        Deal { rows, n, group: i64::from(BLOCK), width, packs: 0 }
    }

    fn blocks(&self) -> i64 {
        (self.rows as u64).div_ceil((i64::from(BLOCK) / self.group) as u64) as i64
    }

    /// Number of blocks that each leave their own sums of every column.
    fn parts(&self) -> i64 {
        self.blocks().clamp(1, BUSY)
    }

    fn sizes(&self) -> [KernelArg; 2] {
        [KernelArg::number(self.rows), KernelArg::number(self.n)]
    }

    /// Arguments of a template after the kernel's own.
    fn template(&self) -> String {
        let Deal { group, width, packs, .. } = self;
        format!("{group}, {width}, {packs}")
    }
}

/// The least number of packs from `count` on that kernels are instantiated for: 2^k or 3·2^k.
fn few(count: u64) -> i64 {
    let power = count.next_power_of_two();
    (if count <= power / 4 * 3 { power / 4 * 3 } else { power }) as i64
}

/// A kernel that is one call. Its rows, if it has any, go `to` a destination.
fn call(
    label: &str,
    template: &str,
    (to, deal): (Option<To>, &Deal),
    kernel_args: &[KernelArg],
    blocks: i64,
) -> Result<Task> {
    let mut writer = Writer::new();
    writer.head(HEADER);
    let to = match to {
        None => None,
        Some(To::Memory(o)) => {
            Some(format!("Stored<{}>({})", stored(o.dtype), writer.kernel_arg(KernelArg::of(o))))
        }
        Some(To::Epilogue(epilogue)) => Some(epilogue.write(&mut writer, deal.width, deal.n)?),
    };
    let kernel_args =
        kernel_args.iter().map(|kernel_arg| writer.kernel_arg(*kernel_arg)).collect::<Vec<_>>();
    let arguments: Vec<String> = to.into_iter().chain(kernel_args).collect();
    writer.line(format!("{label}<{template}>({});", arguments.join(", ")));
    Ok(writer.finish(label, blocks as u64))
}

/// The operands' types as the header names them.
fn types(operands: &[Operand]) -> String {
    operands.iter().map(|o| stored(o.dtype)).collect::<Vec<_>>().join(", ")
}

fn softmax(op: Op, reads: &[Operand], to: To) -> Result<Tasks> {
    let deal = Deal::new(to.dtype(), &reads.iter().collect::<Vec<_>>(), None);
    if deal.rows == 0 || deal.n == 0 {
        return Ok(Tasks::default());
    }
    let kernel_args: Vec<KernelArg> = reads.iter().map(KernelArg::of).chain(deal.sizes()).collect();
    let template = format!("{}, {}", types(reads), deal.template());
    let task = call(op.name(), &template, (Some(to), &deal), &kernel_args, deal.blocks())?;
    Ok(Tasks { tasks: vec![task], scratch: 0 })
}

/// `writes`: the maxima of x's rows and the logarithms of their sums.
pub fn log_sum_exp(x: &Operand, writes: &[Operand]) -> Result<Tasks> {
    let deal = Deal::new(x.dtype, &[x], None);
    if deal.rows == 0 || deal.n == 0 {
        return Ok(Tasks::default());
    }
    let kernel_args: Vec<KernelArg> =
        [x].into_iter().chain(writes).map(KernelArg::of).chain(deal.sizes()).collect();
    let template = format!("{}, {}", stored(x.dtype), deal.template());
    let task = call("log_sum_exp", &template, (None, &deal), &kernel_args, deal.blocks())?;
    Ok(Tasks { tasks: vec![task], scratch: 0 })
}

/// The header's type for a weight or bias, and its argument.
fn column(operand: Option<&Operand>, x: DType, otherwise: i64) -> (String, KernelArg) {
    match operand {
        Some(o) => (format!("Column<{}, {}>", compute_type(x), stored(o.dtype)), KernelArg::of(o)),
        None => (format!("Every<{}, {otherwise}>", compute_type(x)), KernelArg::number(0)),
    }
}

/// `others`: the means, if there are two, and the reciprocal deviations.
fn norm(
    eps: f64,
    x: &Operand,
    [weight, bias]: [Option<&Operand>; 2],
    to: To,
    others: &[Operand],
) -> Result<Tasks> {
    let columns: Vec<&Operand> = weight.into_iter().chain(bias).collect();
    let deal = Deal::new(to.dtype(), &[x], Some(&columns));
    if deal.rows == 0 {
        return Ok(Tasks::default());
    }
    let (mean, rstd) = (others.len() == 2, &others[others.len() - 1]);
    let ((scale, weight), (shift, bias)) = (column(weight, x.dtype, 1), column(bias, x.dtype, 0));
    let template = format!("{}, {scale}, {shift}, {mean}, {}", stored(x.dtype), deal.template());
    let mut kernel_args =
        vec![KernelArg::of(x), weight, bias, KernelArg::of(&others[0]), KernelArg::of(rstd)];
    kernel_args.extend(deal.sizes());
    kernel_args.push(KernelArg::Number(eps.to_bits()));
    let task = call("norm", &template, (Some(to), &deal), &kernel_args, deal.blocks())?;
    Ok(Tasks { tasks: vec![task], scratch: 0 })
}

/// `reads`: dy, x and the rest; `others`: dweight and, with two of them, dbias. Each block leaves its sums over rows in
/// scratch memory, and another kernel joins them.
fn norm_grad(
    [mean, rstd]: [&Operand; 2],
    reads: &[Operand],
    weight: Option<&Operand>,
    to: To,
    others: &[Operand],
) -> Result<Tasks> {
    let (dy, x) = (&reads[0], &reads[1]);
    let deal = Deal::new(to.dtype(), &[x, dy], Some(weight.as_slice()));
    if deal.n == 0 {
        return Ok(Tasks::default());
    }
    let has_mean = others.len() == 2;
    let (scale, weight) = column(weight, x.dtype, 1);
    let parts = deal.parts();
    let operands = [dy, x, mean, rstd].map(KernelArg::of);
    let dtypes = types(&reads[..2]);
    let mut tasks = Vec::new();
    if deal.packs > 0 {
        let template = format!("{dtypes}, {scale}, {has_mean}, {}", deal.template());
        let kernel_args = [&operands[..], &[weight, KernelArg::Scratch(0)], &deal.sizes()].concat();
        tasks.push(call("norm_grad", &template, (Some(to), &deal), &kernel_args, parts)?);
    } else {
        let Deal { group, width, .. } = deal;
        let template = format!("{dtypes}, {scale}, {has_mean}, {group}, {width}");
        let kernel_args = [&operands[..], &[weight], &deal.sizes()].concat();
        if deal.rows > 0 {
            tasks.push(call("norm_dx", &template, (Some(to), &deal), &kernel_args, deal.blocks())?);
        }
        let template = format!("{dtypes}, {has_mean}, {width}");
        let kernel_args =
            [&operands[..], &[KernelArg::Scratch(0)], &deal.sizes(), &[KernelArg::number(parts)]]
                .concat();
        let across = (deal.n as u64).div_ceil((WARP * width) as u64) as i64;
        tasks.push(call("norm_columns", &template, (None, &deal), &kernel_args, across * parts)?);
    }
    let columns = deal.n * others.len() as i64;
    let (dweight, dbias) = (&others[0], &others[others.len() - 1]);
    let numbers = [parts, deal.n, columns].map(KernelArg::number);
    let kernel_args =
        [&[KernelArg::Scratch(0), KernelArg::of(dweight), KernelArg::of(dbias)], &numbers[..]]
            .concat();
    let template = format!("{}, {}", compute_type(x.dtype), stored(dweight.dtype));
    let blocks = (columns as u64).div_ceil(WARP as u64) as i64;
    tasks.push(call("join_columns", &template, (None, &deal), &kernel_args, blocks)?);
    Ok(Tasks { tasks, scratch: (parts * columns * 8) as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::MemRef;
    use crate::shape::Layout;

    fn deal(dtype: DType, n: i64, offset: i64, columns: bool) -> (i64, i64, i64) {
        let layout = Layout { offset, ..Layout::contiguous(&[7, n]) };
        let x = Operand { mem: MemRef::Input(0), dtype, layout };
        let Deal { group, width, packs, .. } = Deal::new(dtype, &[&x], columns.then_some(&[]));
        (group, width, packs)
    }

    #[test]
    fn packs_hold_a_row_of_any_length() {
        for n in (0..20_000).chain([1 << 20, (1 << 31) - 1]) {
            for dtype in [DType::F64, DType::F32, DType::BF16] {
                for (offset, columns) in [(0, true), (1, false)] {
                    let (group, width, packs) = deal(dtype, n, offset, columns);
                    assert!(group > 0 && width > 0 && i64::from(BLOCK) % group == 0);
                    assert!(packs == 0 || packs * group * width >= n, "{n} of {dtype}");
                    assert!(packs == 0 || n % width == 0, "{n} of {dtype}");
                }
            }
        }
    }

    #[test]
    fn rows_are_dealt_by_their_length() {
        assert_eq!(deal(DType::BF16, 768, 0, true), (32, 8, 3));
        assert_eq!(deal(DType::BF16, 768, 4, true), (32, 4, 6));
        assert_eq!(deal(DType::BF16, 1600, 0, true), (256, 8, 1));
        assert_eq!(deal(DType::F32, 1024, 0, true), (32, 4, 8));
        assert_eq!(deal(DType::F64, 0, 0, true), (32, 2, 1));
        assert_eq!(deal(DType::F32, 37, 0, true), (32, 1, 2));
        assert_eq!(deal(DType::BF16, 50_257, 0, false), (256, 8, 0));
        assert_eq!(deal(DType::BF16, 50_257, 2, false), (256, 2, 0));
        assert_eq!(deal(DType::BF16, 50_257, 0, true), (256, 1, 0));
    }

    #[test]
    fn blocks_have_all_rows_and_parts_of_sums_are_few() {
        for rows in (0..3000).chain([(1 << 31) + 1, 1 << 40]) {
            for group in [WARP, i64::from(BLOCK)] {
                let deal = Deal { rows, n: 1, group, width: 1, packs: 1 };
                let each = i64::from(BLOCK) / group;
                let blocks = deal.blocks();
                assert!(blocks * each >= rows && (blocks - 1) * each < rows.max(1), "{rows}");
                assert!((1..=BUSY.max(1)).contains(&deal.parts()), "{rows}");
                assert!(rows == 0 || deal.parts() <= blocks, "{rows}");
            }
        }
    }
}
