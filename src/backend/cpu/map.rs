//! Pointwise kernels: a loop body over the whole iteration space.

use super::access::Bound;
use super::element::TileType;
use super::jit;
use super::matmul::Lent;
use super::pool::{GRAIN, parallel};
use super::tile::code::{Code, ReadKind, StoreKind, TILE};
use super::tile::compile;
use super::tile::run::{Run, Stream, with_tiles};
use super::tile::space::{Space, Tiling, Walk, may_overlap, memory_order};
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::plan::{LoopBody, MemRef, Operand};
use crate::shape::{Dims, Layout, collapse, contiguous_strides};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A compiled `Kernel::Map`.
pub struct Map {
    space: Space,
    code: Arc<Code>,
    reads: Vec<Walk>,
    writes: Vec<Walk>,
    /// Elements of a full tile.
    length: usize,
    /// Tiles of one task.
    batch: usize,
    /// Memory traffic of one task, and its arithmetic as if it were traffic.
    cost: usize,
}

/// The operand with one more dimension, of two, along which 16-byte elements are pairs of i64.
pub fn as_pairs(operand: &Operand) -> Operand {
    let wide = operand.dtype.size() == 16;
    let mut layout = operand.layout.clone();
    layout.sizes.push(2);
    if wide {
        layout.strides.iter_mut().for_each(|s| *s *= 2);
        layout.offset *= 2;
    }
    layout.strides.push(wide as i64);
    let dtype = if wide { DType::I64 } else { operand.dtype };
    Operand { mem: operand.mem, dtype, layout }
}

/// [`as_pairs`] for a whole kernel.
fn split_pairs(body: &LoopBody, operands: &[Operand]) -> (LoopBody, Vec<Operand>) {
    let narrow = |d: &DType| if d.size() == 16 { DType::I64 } else { *d };
    let mut body = body.clone();
    body.sizes.push(2);
    body.reads = body.reads.iter().map(narrow).collect();
    body.instrs.iter_mut().for_each(|i| i.dtype = narrow(&i.dtype));
    (body, operands.iter().map(as_pairs).collect())
}

pub fn moves_pairs(operands: &[Operand]) -> bool {
    operands.iter().any(|o| o.dtype.size() == 16)
}

/// How each read relates to the tiles and to the writes.
pub fn read_kinds(
    reads: &[Operand],
    walks: &[Walk],
    writes: &[Operand],
    space: &Space,
    donors: &[Option<u32>],
) -> Vec<ReadKind> {
    let span = |o: &'_ Operand| (o.mem, o.dtype.size(), o.layout.clone());
    reads
        .iter()
        .zip(walks)
        .map(|(read, walk)| {
            let (mem, size, layout) = span(read);
            let overlaps = |w: &Operand| {
                let (w_mem, w_size, w_layout) = span(w);
                may_overlap((&mem, size, &layout), (&w_mem, w_size, &w_layout), donors)
            };
            let mut shared = (0..writes.len()).filter(|&w| overlaps(&writes[w]));
            let over = shared.next();
            let same = |w: usize| {
                let write = &writes[w];
                let there = read.mem == write.mem
                    || matches!((read.mem, write.mem), (MemRef::Input(i), MemRef::Output(o))
                        if donors.get(o as usize) == Some(&Some(i)));
                there && read.dtype == write.dtype && read.layout == write.layout
            };
            let exactly = over.filter(|&w| same(w) && shared.next().is_none());
            let memory = !matches!(read.mem, MemRef::Scalar(_) | MemRef::Index);
            let constant =
                walk.constant && read.mem != MemRef::Index || matches!(read.mem, MemRef::Scalar(_));
            let (rows, stays) =
                (matches!(space.tiling, Tiling::Rows(_)), walk.strides.last() == Some(&0));
            let by_rows = memory && is_by_rows(space, walk);
            let exactly = exactly.filter(|_| by_rows);
            let early = over.is_some() && exactly.is_none();
            ReadKind {
                constant,
                row: rows && stays && !constant,
                counts: rows && !stays && read.mem == MemRef::Index,
                direct: memory && walk.contiguous && space.tiling.is_linear() && !early,
                rows: by_rows && !early,
                early,
                over: exactly,
            }
        })
        .collect()
}

/// Whether the elements of an operand for a row of a tile are dense.
pub fn is_by_rows(space: &Space, walk: &Walk) -> bool {
    let along_rows = !matches!(space.tiling, Tiling::Runs(_)) && walk.strides.last() == Some(&1);
    !walk.constant && (along_rows || walk.contiguous && space.tiling.is_linear())
}

/// A cut that suits the operands: boxes when one is transposed against the order of the space.
fn tiling(sizes: &[i64], strides: &[Dims], length: usize) -> Tiling {
    let rank = sizes.len();
    // Tiles that end with their row pay for operands that are one number along each row, and for those that can then be
    // read or written in place instead of through a tile. An operand that comes from a cache again and again, such as a
    // bias, is quickly in a tile.
    let dense = contiguous_strides(sizes);
    let (row, outer) = (sizes[rank - 1], rank - 1);
    let ends = |s: &Dims| {
        let again = s[..outer].iter().all(|&s| s == 0);
        match s[outer] {
            0 => !again && row >= least_row(),
            1 => *s != dense && row >= if again { 1024 } else { least_row().max(256) },
            _ => false,
        }
    };
    if strides.iter().any(ends) {
        return Tiling::Rows(length);
    }
    let crosswise = |s: &Dims| s[rank - 1].abs() > 1 && s[rank - 2] == 1;
    if rank < 2 || sizes[rank - 1] < 8 || sizes[rank - 2] < 8 || !strides.iter().any(crosswise) {
        return Tiling::Runs(length);
    }
    // Crosswise reads are in longer runs than the writes: stores can wait, loads cannot.
    let columns = 32.min(sizes[rank - 1] as usize);
    Tiling::Boxes { rows: (length / columns).min(sizes[rank - 2] as usize).min(64), columns }
}

/// Elements of a row that are worth a tile. Machine code starts sooner.
fn least_row() -> i64 {
    if jit::target().is_some() { 128 } else { 512 }
}

impl Map {
    pub fn new(
        body: &LoopBody,
        reads: &[Operand],
        writes: &[Operand],
        donors: &[Option<u32>],
    ) -> Result<Map> {
        let operands: Vec<Operand> = reads.iter().chain(writes).cloned().collect();
        if moves_pairs(&operands) {
            let (body, operands) = split_pairs(body, &operands);
            let (reads, writes) = operands.split_at(reads.len());
            return Map::compile(&body, reads, writes, donors);
        }
        Map::compile(body, reads, writes, donors)
    }

    fn compile(
        body: &LoopBody,
        reads: &[Operand],
        writes: &[Operand],
        donors: &[Option<u32>],
    ) -> Result<Map> {
        let layouts: Vec<&Layout> = reads.iter().chain(writes).map(|o| &o.layout).collect();
        let Some(first) = writes.first() else {
            return crate::internal!("a kernel that writes nothing");
        };
        let order = crosswise_order(&memory_order(&first.layout), &layouts);
        let (mut sizes, mut strides, _) = collapse(&layouts, &order, &[]);
        if sizes.is_empty() {
            add_dimension(&mut sizes, &mut strides, 0);
        }
        let space = Space { tiling: tiling(&sizes, &strides, TILE), sizes };
        Map::over(body, reads, writes, donors, (space, strides), None)
    }

    /// A kernel for [`Map::run_block`], which sees the space as rows of `width` points; read 0 exists only in the block.
    pub fn in_blocks(
        body: &LoopBody,
        reads: &[Operand],
        writes: &[Operand],
        donors: &[Option<u32>],
        width: i64,
    ) -> Result<Map> {
        let layouts: Vec<&Layout> = reads.iter().chain(writes).map(|o| &o.layout).collect();
        let rank = body.sizes.len();
        let starts = |d: &usize| body.sizes[*d..].iter().product::<i64>() == width;
        let Some(start) = (0..=rank).rev().find(starts) else {
            return crate::internal!("rows of {width} in {:?}", body.sizes);
        };
        let order: Vec<usize> = (0..rank).collect();
        let (mut sizes, mut strides, before) = collapse(&layouts, &order, &[start]);
        let rows = before.first().copied().unwrap_or(0);
        if sizes.len() == rows {
            add_dimension(&mut sizes, &mut strides, rows);
        }
        if rows == 0 {
            add_dimension(&mut sizes, &mut strides, 0);
        }
        let tiling = match sizes.len() - rows.max(1) {
            1 => Tiling::Boxes { rows: 1, columns: TILE },
            _ => Tiling::Runs(TILE),
        };
        Map::over(body, reads, writes, donors, (Space { tiling, sizes }, strides), Some(0))
    }

    /// `apart`: a read that is not in the memory that its layout describes.
    fn over(
        body: &LoopBody,
        reads: &[Operand],
        writes: &[Operand],
        donors: &[Option<u32>],
        (mut space, strides): (Space, Vec<Dims>),
        apart: Option<usize>,
    ) -> Result<Map> {
        let layouts: Vec<&Layout> = reads.iter().chain(writes).map(|o| &o.layout).collect();
        let sizes = space.sizes.clone();
        let walks: Vec<Walk> =
            strides.into_iter().zip(&layouts).map(|(s, l)| Walk::new(&sizes, s, l)).collect();
        let linear = space.tiling.is_linear();
        let mut kinds = read_kinds(reads, &walks, writes, &space, donors);
        if let Some(read) = apart {
            kinds[read].direct = false;
            kinds[read].rows &= !linear;
        }
        let store = |(write, walk): (&Operand, &Walk)| StoreKind {
            dtype: write.dtype,
            direct: walk.contiguous && linear,
            rows: is_by_rows(&space, walk),
        };
        let stores: Vec<StoreKind> = writes.iter().zip(&walks[reads.len()..]).map(store).collect();
        let code = compile::code(body, &kinds, Some(&stores))?;
        let length = tile_length(&code);
        match &mut space.tiling {
            Tiling::Runs(len) => *len = length,
            Tiling::Rows(len) => *len = even(sizes[sizes.len() - 1] as usize, length),
            Tiling::Boxes { .. } => {}
        }
        let width: usize = reads.iter().chain(writes).map(|o| o.dtype.size()).sum();
        let per_tile = length * (width + 4 * code.work());
        // Numbers are spread over tiles once per batch, which should be a small part of its time.
        let spread = code.spread.len().saturating_sub(code.row_fills.len());
        let spread = (4 * spread).div_ceil(code.work().max(1));
        let batch = GRAIN.div_ceil(2 * per_tile).max(spread).max(1);
        let (reads, writes) = (walks[..reads.len()].to_vec(), walks[reads.len()..].to_vec());
        Ok(Map { space, code, reads, writes, length, batch, cost: per_tile * batch })
    }

    /// Error before anything is written: an integer division by zero.
    pub fn run(&self, reads: &[Bound], writes: &[Bound]) -> Result<()> {
        let (reads, writes) = (streams(reads, &self.reads), streams(writes, &self.writes));
        let mut run = Run { code: &self.code, space: &self.space, reads: &reads, writes: &[] };
        if self.code.can_fail && !self.sweep(&run) {
            return invalid!("ZeroDivisionError: integer division by zero");
        }
        run.writes = &writes;
        self.sweep(&run);
        Ok(())
    }

    /// Runs over a block of the space only, on this thread: read 0 has only the elements of `block`; `reads` are the
    /// others. For a kernel made by [`Map::in_blocks`] that cannot fail.
    pub fn run_block(&self, block: &Lent, result: &Bound, reads: &[Bound], writes: &[Bound]) {
        let (rank, width) = (self.space.sizes.len(), block.columns as i64);
        let pitch = block.pitch as i64;
        let stride = |&s: &i64| if s >= pitch { s / pitch * width } else { s };
        let walk = Walk {
            strides: self.reads[0].strides.iter().map(stride).collect(),
            offset: -(block.row as i64 * width + block.column as i64),
            contiguous: false,
            constant: self.reads[0].constant,
        };
        let mut streams = streams(reads, &self.reads[1..]);
        streams.insert(0, Stream { bound: result, walk: &walk });
        let writes = self::streams(writes, &self.writes);
        let run = Run { code: &self.code, space: &self.space, reads: &streams, writes: &writes };
        let length = self.length.min(TILE);
        let boxes = !self.space.tiling.is_linear();
        let inner = if boxes { self.space.sizes[rank - 2] as usize } else { 1 };
        let most = if boxes { (length / block.columns).max(1) } else { 1 };
        with_tiles(&self.code, |memory| {
            run.fill(memory);
            let (mut row, end) = (block.row, block.row + block.rows);
            while row < end {
                let rows = most.min(end - row).min(inner - row % inner);
                for at in (0..block.columns).step_by(length) {
                    let (column, columns) = (block.column + at, length.min(block.columns - at));
                    let position = match boxes {
                        true => self.space.part((row, rows), (column, columns)),
                        false => self.space.run((row * block.pitch + column) as i64, columns),
                    };
                    run.tile(&position, memory);
                }
                row += rows;
            }
        });
    }

    /// Runs all tiles; returns whether every integer division was defined.
    fn sweep(&self, run: &Run) -> bool {
        let tiles = self.space.tiles();
        let defined = AtomicBool::new(true);
        parallel(tiles.div_ceil(self.batch), self.cost, |task| {
            with_tiles(&self.code, |memory| {
                run.fill(memory);
                for tile in task * self.batch..tiles.min((task + 1) * self.batch) {
                    if !run.tile(&self.space.tile(tile), memory) {
                        defined.store(false, Ordering::Relaxed);
                    }
                }
            });
        });
        defined.into_inner()
    }
}

/// Inserts a dimension of one point at `at`.
fn add_dimension(sizes: &mut Dims, strides: &mut [Dims], at: usize) {
    sizes.insert(at, 1);
    strides.iter_mut().for_each(|s| s.insert(at, 0));
}

/// The length of tiles, at most `length`, that cut `row` elements into parts of about the same length.
fn even(row: usize, length: usize) -> usize {
    row.div_ceil(row.div_ceil(length).max(1)).next_multiple_of(64)
}

pub fn streams<'a>(bounds: &'a [Bound], walks: &'a [Walk]) -> SmallVec<[Stream<'a>; 8]> {
    bounds.iter().zip(walks).map(|(bound, walk)| Stream { bound, walk }).collect()
}

/// Elements of a tile: fewer when there are many tiles, so that most of them stay in the first-level cache.
pub fn tile_length(code: &Code) -> usize {
    let changing = |(tile_type, n): (&TileType, &usize)| {
        let constant = code.fills.iter().filter(|(l, ..)| l == tile_type).count();
        let of_rows = code.row_fills.iter().filter(|(l, ..)| l == tile_type).count();
        tile_type.size() * (n - constant - of_rows)
    };
    let spread: usize = code.spread.iter().map(|(tile_type, _)| tile_type.size()).sum();
    let bytes: usize = code.tiles.iter().map(changing).sum::<usize>() + spread;
    match bytes * TILE {
        // From memory to memory: only the cost of starting counts.
        0 => 4 * TILE,
        1..=32_768 => TILE,
        32_769..=131_072 => TILE / 2,
        _ => TILE / 4,
    }
}

/// Moves the dimension along which some operand is dense next to the innermost one, so that boxes span both.
fn crosswise_order(order: &[usize], layouts: &[&Layout]) -> Vec<usize> {
    let mut order: Vec<usize> =
        order.iter().copied().filter(|&d| layouts[0].sizes[d] != 1).collect();
    let Some(&inner) = order.last() else { return order };
    let crosses = |l: &&Layout| l.strides[inner].abs() > 1;
    let dense = |l: &Layout| (0..l.rank()).find(|&d| l.strides[d] == 1 && l.sizes[d] >= 8);
    if let Some(across) = layouts.iter().copied().filter(crosses).find_map(dense) {
        order.retain(|&d| d != across);
        order.insert(order.len() - 1, across);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_into_parts_that_fit_a_tile() {
        for length in [64, 128, 256, 1024, 4096] {
            for row in (0..10_000).chain([(1 << 20) + 1, 1 << 40]) {
                let part = even(row, length);
                assert!(part <= length && part * row.div_ceil(length) >= row, "{row} by {length}");
                assert!(part > 0 || row == 0);
            }
        }
    }
}
