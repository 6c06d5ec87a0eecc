//! Softmax and its kin, normalisation and their gradients: kernels of `cuda/rows.cuh`, over the rows of dense matrices.

use super::write::{Writer, held, stored};
use super::{BLOCK, BUSY, Task, Tasks, Word};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::{Attr, Op};
use crate::plan::Operand;

const HEADER: &str = include_str!("../../../../cuda/rows.cuh");
const WARP: i64 = 32;

/// How rows are dealt to threads; `G`, `V` and `N` of the header. No packs: rows too long to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deal {
    rows: i64,
    n: i64,
    team: i64,
    width: i64,
    packs: i64,
}

/// `op` over the last axis of `reads[0]`; one of those named in the header's words.
pub fn rows(op: Op, attrs: &[Attr], reads: &[Operand], writes: &[Operand]) -> Result<Tasks> {
    match op {
        Op::LayerNorm => {
            let [has_weight, has_bias] = [attrs[1].bool(), attrs[2].bool()];
            let weight = reads.get(1).filter(|_| has_weight);
            norm(attrs[0].float(), &reads[0], weight, reads.last().filter(|_| has_bias), writes)
        }
        Op::RmsNorm => norm(attrs[0].float(), &reads[0], reads.get(1), None, writes),
        Op::LayerNormGrad => norm_grad([&reads[2], &reads[3]], reads, reads.get(4), writes),
        Op::RmsNormGrad => norm_grad([&reads[2], &reads[2]], reads, reads.get(3), writes),
        Op::Softmax | Op::LogSoftmax | Op::LogSumExp | Op::SoftmaxGrad | Op::LogSoftmaxGrad => {
            softmax(op, reads, writes)
        }
        other => internal!("{} by rows", other.name()),
    }
}

impl Deal {
    /// `operands` are those that are read or written in packs; with `columns`, some of them have one row for all.
    fn new(x: &Operand, operands: &[&Operand], columns: bool) -> Deal {
        let n = x.layout.sizes.last().copied().unwrap_or(1);
        let rows = x.layout.sizes.iter().rev().skip(1).product();
        let whole = 16 / x.dtype.size() as i64;
        let begin = |width: &i64| operands.iter().all(|o| o.layout.offset % width == 0);
        let divides = |width: &i64| n % width == 0 && begin(width);
        let widths = || [8, 4, 2, 1].into_iter().filter(|&width| width <= whole);
        let width = widths().find(divides).unwrap_or(1);
        let count = (n as u64).div_ceil(width as u64) as i64;
        // Registers are 4 bytes wide; elements of f64 take two as they are and two more where they are summed.
        let most = if x.dtype == DType::F64 { 16 } else { 32 } / width;
        for team in [WARP, i64::from(BLOCK)] {
            let packs = few((count as u64).div_ceil(team as u64).max(1));
            if packs <= most {
                return Deal { rows, n, team, width, packs };
            }
        }
        let width = if columns { width } else { widths().find(begin).unwrap_or(1) };
        Deal { rows, n, team: i64::from(BLOCK), width, packs: 0 }
    }

    fn blocks(&self) -> i64 {
        (self.rows as u64).div_ceil((i64::from(BLOCK) / self.team) as u64) as i64
    }

    /// Arguments of a template after its own ones.
    fn template(&self) -> String {
        let Deal { team, width, packs, .. } = self;
        format!("{team}, {width}, {packs}")
    }
}

/// The least number of packs from `count` on that kernels are made for: 2^k or 3·2^k.
fn few(count: u64) -> i64 {
    let power = count.next_power_of_two();
    (if count <= power / 4 * 3 { power / 4 * 3 } else { power }) as i64
}

/// A kernel of one call.
fn call(label: &str, template: &str, words: &[Word], blocks: i64) -> Task {
    let mut writer = Writer::new();
    writer.head(HEADER);
    let arguments: Vec<String> = words.iter().map(|word| writer.word(*word)).collect();
    writer.line(format!("{label}<{template}>({});", arguments.join(", ")));
    writer.finish(label, blocks as u64)
}

fn softmax(op: Op, reads: &[Operand], writes: &[Operand]) -> Result<Tasks> {
    let packed = reads.iter().chain(writes.iter().filter(|_| op != Op::LogSumExp));
    let deal = Deal::new(&reads[0], &packed.collect::<Vec<_>>(), false);
    if deal.rows == 0 || deal.n == 0 {
        return Ok(Tasks::default());
    }
    let mut words: Vec<Word> = reads.iter().chain(writes).map(Word::of).collect();
    words.extend([Word::number(deal.rows), Word::number(deal.n)]);
    let template = format!("{}, {}", stored(reads[0].dtype), deal.template());
    Ok(Tasks { tasks: vec![call(op.name(), &template, &words, deal.blocks())], scratch: 0 })
}

/// A weight or bias as the header has them, and its word.
fn column(operand: Option<&Operand>, x: DType, otherwise: i64) -> (String, Word) {
    match operand {
        Some(o) => (format!("Column<{}, {}>", held(x), stored(o.dtype)), Word::of(o)),
        None => (format!("Every<{}, {otherwise}>", held(x)), Word::number(0)),
    }
}

/// `writes`: y, with three of them the means, and the reciprocal deviations.
fn norm(
    eps: f64,
    x: &Operand,
    weight: Option<&Operand>,
    bias: Option<&Operand>,
    writes: &[Operand],
) -> Result<Tasks> {
    let packed: Vec<&Operand> = [x, &writes[0]].into_iter().chain(weight).chain(bias).collect();
    let deal = Deal::new(x, &packed, true);
    if deal.rows == 0 {
        return Ok(Tasks::default());
    }
    let (mean, rstd) = (writes.len() == 3, &writes[writes.len() - 1]);
    let ((scale, weight), (shift, bias)) = (column(weight, x.dtype, 1), column(bias, x.dtype, 0));
    let template = format!("{}, {scale}, {shift}, {mean}, {}", stored(x.dtype), deal.template());
    let mut words =
        vec![Word::of(x), weight, bias, Word::of(&writes[0]), Word::of(&writes[1]), Word::of(rstd)];
    words.extend([Word::number(deal.rows), Word::number(deal.n), Word::Number(eps.to_bits())]);
    let task = call("norm", &template, &words, deal.blocks());
    Ok(Tasks { tasks: vec![task], scratch: 0 })
}

/// `reads`: dy, x and what comes after them; `writes`: dx, dweight and, with three of them, dbias. The sums over rows are
/// left by each block in scratch memory, and joined by a second kernel.
fn norm_grad(
    [mean, rstd]: [&Operand; 2],
    reads: &[Operand],
    weight: Option<&Operand>,
    writes: &[Operand],
) -> Result<Tasks> {
    let (dy, x, dx) = (&reads[0], &reads[1], &writes[0]);
    let packed: Vec<&Operand> = [dy, x, dx].into_iter().chain(weight).collect();
    let deal = Deal::new(x, &packed, true);
    if deal.n == 0 {
        return Ok(Tasks::default());
    }
    let has_mean = writes.len() == 3;
    let (scale, weight) = column(weight, x.dtype, 1);
    let parts = deal.blocks().clamp(1, BUSY);
    let sizes = [Word::number(deal.rows), Word::number(deal.n)];
    let statistics = [Word::of(mean), Word::of(rstd)];
    let given = [[Word::of(dy), Word::of(x)], statistics].concat();
    let dtype = stored(x.dtype);
    let mut tasks = Vec::new();
    if deal.packs > 0 {
        let template = format!("{dtype}, {scale}, {has_mean}, {}", deal.template());
        let words = [&given[..], &[weight, Word::of(dx), Word::Scratch(0)], &sizes].concat();
        tasks.push(call("norm_grad", &template, &words, parts));
    } else {
        let Deal { team, width, .. } = deal;
        let template = format!("{dtype}, {scale}, {has_mean}, {team}, {width}");
        let words = [&given[..], &[weight, Word::of(dx)], &sizes].concat();
        if deal.rows > 0 {
            tasks.push(call("norm_dx", &template, &words, deal.blocks()));
        }
        let template = format!("{dtype}, {has_mean}, {width}");
        let words = [&given[..], &[Word::Scratch(0)], &sizes, &[Word::number(parts)]].concat();
        let across = (deal.n as u64).div_ceil((WARP * width) as u64) as i64;
        tasks.push(call("norm_columns", &template, &words, across * parts));
    }
    let columns = deal.n * (writes.len() as i64 - 1);
    let dbias = &writes[writes.len() - 1];
    let words = [
        Word::Scratch(0),
        Word::of(&writes[1]),
        Word::of(dbias),
        Word::number(parts),
        Word::number(deal.n),
    ];
    let template = format!("{}, {}", held(x.dtype), stored(writes[1].dtype));
    let blocks = (columns as u64).div_ceil(WARP as u64) as i64;
    tasks.push(call(
        "join_columns",
        &template,
        &[&words[..], &[Word::number(columns)]].concat(),
        blocks,
    ));
    Ok(Tasks { tasks, scratch: (parts * columns * 8) as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Place;
    use crate::shape::Layout;

    fn deal(dtype: DType, n: i64, offset: i64, columns: bool) -> (i64, i64, i64) {
        let layout = Layout { offset, ..Layout::contiguous(&[7, n]) };
        let x = Operand { place: Place::Input(0), dtype, layout };
        let Deal { team, width, packs, .. } = Deal::new(&x, &[&x], columns);
        (team, width, packs)
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
}
