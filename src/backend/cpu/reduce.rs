//! Reductions with a fused prologue: the prologue is a loop body, its tiles are folded as they come.
//!
//! The space is ordered so that memory is read as it lies: *rows* when the innermost dimension is reduced (a tile holds
//! a part of a row or several rows), else *columns* (rows of kept elements are added up, in blocks of rows that are
//! combined in order). Short rows may lie within another reduced dimension, as those of a channel of images do: then
//! each row is folded where it is, and the rows of one result are combined at the end. Blocks depend on the shape only.

use super::access::{Bound, Source, zeroed};
use super::columns;
use super::dense;
use super::element::TileType;
use super::fold::Reducible;
use super::map::{Map, read_kinds, streams, tile_length};
use super::node;
use super::pool::{GRAIN, parallel_chunks};
use super::tile::code::{Code, TILE};
use super::tile::compile;
use super::tile::run::{Run, Stream, Tiles, with_tiles};
use super::tile::space::{Space, Tiling, Walk};
use crate::backend::memory::Pool;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Attr, Op};
use crate::plan::{LoopBody, MemRef, Operand, Step};
use crate::shape::{Dims, Layout, collapse, numel};
use crate::{internal, invalid};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A compiled `Kernel::Reduce`.
pub enum Reduce {
    Folded(Box<Folded>),
    /// An operation along an axis that is not a fold: the prologue's result is kept, then the primitive is run.
    Apart(Box<Apart>),
}

/// See the head of this file. Everything is measured in elements.
pub struct Folded {
    op: Op,
    code: Arc<Code>,
    space: Space,
    reads: Vec<Walk>,
    /// The kept dimensions in their order, and the layout of the result over them.
    kept: Space,
    write: Walk,
    /// Reduced elements outside of the kept dimensions; 1 except where rows are short.
    above: usize,
    outer: usize,
    reduced: usize,
    inner: usize,
    /// Longest tile.
    length: usize,
    /// Whether columns are added up as they lie in memory.
    as_it_lies: bool,
}

pub struct Apart {
    op: Op,
    axis: i64,
    map: Map,
    sizes: Dims,
    dtype: DType,
}

impl Reduce {
    pub fn new(
        body: &LoopBody,
        op: Op,
        axes: &[i64],
        step: &Step,
        donors: &[Option<u32>],
    ) -> Result<Reduce> {
        let Some(write) = step.writes.first() else {
            return internal!("a reduction that writes nothing");
        };
        if matches!(op, Op::Sum | Op::Prod | Op::ReduceMax | Op::ReduceMin | Op::Any | Op::All) {
            let folded = Folded::new(body, op, axes, &step.reads, write, donors)?;
            return Ok(Reduce::Folded(Box::new(folded)));
        }
        let result = body.results[0] as usize;
        let dtype = match result.checked_sub(body.reads.len()) {
            None => body.reads[result],
            Some(n) => body.instrs[n].dtype,
        };
        // Half types are held in f32.
        let dtype = if TileType::of(dtype) == TileType::F32 { DType::F32 } else { dtype };
        // A reference that is in no plan: the prologue's result shares memory with nothing.
        let layout = Layout::contiguous(&body.sizes);
        let scratch = Operand { mem: MemRef::Output(u32::MAX), dtype, layout };
        let map = Map::new(body, &step.reads, &[scratch], donors)?;
        Ok(Reduce::Apart(Box::new(Apart {
            op,
            axis: axes[0],
            map,
            sizes: body.sizes.clone(),
            dtype,
        })))
    }

    /// Error before anything is written: an integer division by zero.
    pub fn run(&self, reads: &[Bound], writes: &[Bound], pool: &Arc<Pool>) -> Result<()> {
        match self {
            Reduce::Folded(folded) => folded.run(reads, &writes[0]),
            Reduce::Apart(apart) => apart.run(reads, writes, pool),
        }
    }
}

impl Apart {
    fn run(&self, reads: &[Bound], writes: &[Bound], pool: &Arc<Pool>) -> Result<()> {
        let layout = Layout::contiguous(&self.sizes);
        let memory = pool.allocate(layout.numel() as usize * self.dtype.size())?;
        let scratch = [Bound::at(Source::Memory(memory.addr()), self.dtype, layout)?];
        self.map.run(reads, &scratch)?;
        let result = dense::to_write(&writes[0], pool)?;
        node::run(self.op, &smallvec![Attr::Int(self.axis)], &scratch, &[(*result).clone()], pool)?;
        result.copy_back(&writes[0])
    }
}

/// The order of the dimensions: reduced above the others, kept, reduced, kept; and where the last three parts begin.
fn order(layouts: &[&Layout], axes: &[i64]) -> (Vec<usize>, [usize; 3]) {
    let rank = layouts[0].rank();
    // The read that moves the most memory decides.
    let moved = |l: &&&Layout| {
        let sizes = l.sizes.iter().zip(&l.strides).map(|(&n, &s)| if s == 0 { 1 } else { n });
        numel(&sizes.collect::<Dims>())
    };
    let main = layouts.iter().max_by_key(moved).expect("there is at least the write");
    let weight = |d: usize| match main.strides[d].abs() {
        0 => i64::MAX,
        s => s,
    };
    let mut all: Vec<usize> = (0..rank).collect();
    all.sort_by_key(|&d| std::cmp::Reverse(weight(d)));
    let is_reduced = |d: &usize| axes.contains(&(*d as i64));
    let reduced: Vec<usize> = all.iter().copied().filter(is_reduced).collect();
    let (inner, outer): (Vec<usize>, Vec<usize>) =
        all.iter().copied().filter(|d| !is_reduced(d)).partition(|&d| {
            let within = |&r: &usize| main.sizes[r] == 1 || weight(r) > weight(d);
            main.sizes[d] > 1 && reduced.iter().all(within)
        });
    let size = |dims: &[usize]| dims.iter().map(|&d| main.sizes[d]).product::<i64>();
    let is_outer = |d: &usize| outer.contains(d) && main.sizes[*d] > 1;
    let (mut above, mut rest): (Vec<usize>, Vec<usize>) = match all.iter().position(is_outer) {
        Some(first) => reduced.iter().partition(|d| all[..first].contains(d)),
        None => (Vec::new(), reduced.clone()),
    };
    if !inner.is_empty() || size(&above) < 2 || !(2..TILE as i64).contains(&size(&rest)) {
        (above, rest) = (Vec::new(), reduced);
    }
    let a = above.len() + outer.len();
    let fences = [above.len(), a, a + rest.len()];
    (above.into_iter().chain(outer).chain(rest).chain(inner).collect(), fences)
}

/// The write's layout over the whole space: it does not move along the axes.
fn spread(write: &Layout, rank: usize, axes: &[i64], sizes: &[i64]) -> Layout {
    let mut kept = write.strides.iter();
    let stride = |d: usize| {
        if axes.contains(&(d as i64)) { 0 } else { kept.next().copied().unwrap_or(0) }
    };
    Layout { strides: (0..rank).map(stride).collect(), sizes: sizes.into(), offset: write.offset }
}

impl Folded {
    fn new(
        body: &LoopBody,
        op: Op,
        axes: &[i64],
        reads: &[Operand],
        write: &Operand,
        donors: &[Option<u32>],
    ) -> Result<Folded> {
        let rank = body.sizes.len();
        let target = spread(&write.layout, rank, axes, &body.sizes);
        let mut layouts: Vec<&Layout> = reads.iter().map(|r| &r.layout).collect();
        if layouts.is_empty() {
            layouts.push(&target);
        }
        let (order, [top, a, b]) = order(&layouts, axes);
        let mut layouts: Vec<&Layout> = reads.iter().map(|r| &r.layout).collect();
        layouts.push(&target);
        let (mut sizes, mut strides, fences) = collapse(&layouts, &order, &[top, a, b]);
        let size_of =
            |dims: &[usize]| dims.iter().map(|&d| body.sizes[d]).product::<i64>() as usize;
        let (above, outer, reduced, inner) = (
            size_of(&order[..top]),
            size_of(&order[top..a]),
            size_of(&order[a..b]),
            size_of(&order[b..]),
        );
        let kept_dims: SmallVec<[usize; 6]> =
            (fences[0]..fences[1]).chain(fences[2]..sizes.len()).collect();
        let mut kept = Space {
            sizes: kept_dims.iter().map(|&d| sizes[d]).collect(),
            tiling: Tiling::Runs(TILE),
        };
        let mut along: Dims = kept_dims.iter().map(|&d| strides[reads.len()][d]).collect();
        if kept.sizes.is_empty() {
            kept.sizes.push(1);
            along.push(0);
        }
        if sizes.is_empty() {
            sizes.push(1);
            strides.iter_mut().for_each(|s| s.push(0));
        }
        let walk = Walk::new(&kept.sizes, along, &write.layout);
        let mut space = Space { sizes: sizes.clone(), tiling: Tiling::Runs(TILE) };
        strides.pop();
        let walks: Vec<Walk> =
            strides.into_iter().zip(reads).map(|(s, r)| Walk::new(&sizes, s, &r.layout)).collect();
        // Everything is read before anything is written, so sharing memory with the write does not matter.
        let kinds = read_kinds(reads, &walks, &[], &space, donors);
        let code = compile::code(body, &kinds, None)?;
        let length = tile_length(&code);
        space.tiling = Tiling::Runs(length);
        let of_rows = space.sizes[..] == [reduced as i64, inner as i64];
        let as_it_lies = of_rows && columns::suits(op, body, reads, &walks);
        Ok(Folded {
            op,
            code,
            space,
            reads: walks,
            kept,
            write: walk,
            above,
            outer,
            reduced,
            inner,
            length,
            as_it_lies,
        })
    }

    fn run(&self, reads: &[Bound], write: &Bound) -> Result<()> {
        match self.code.kept.map(|(tile_type, _)| tile_type) {
            Some(TileType::F32) => self.run_as::<f32>(reads, write),
            Some(TileType::F64) => self.run_as::<f64>(reads, write),
            Some(TileType::I64) => self.run_as::<i64>(reads, write),
            Some(TileType::U8) => self.run_as::<u8>(reads, write),
            other => internal!("reduction of tile type {other:?}"),
        }
    }

    fn run_as<T: Reducible>(&self, reads: &[Bound], write: &Bound) -> Result<()> {
        let reads = streams(reads, &self.reads);
        let run = Run { code: &self.code, space: &self.space, reads: &reads, writes: &[] };
        let kept = self.outer * self.inner;
        if kept == 0 {
            return Ok(());
        }
        let rows = self.above * kept;
        // Blocks of the reduced elements of one result; their partial results are combined in order.
        let block = if self.inner == 1 { 64 * self.length } else { self.rows_in_block() };
        let blocks = self.reduced.div_ceil(block).max(1);
        let mut partial = zeroed::<T::Acc>(rows * blocks);
        let defined = AtomicBool::new(true);
        let failed = || defined.store(false, Ordering::Relaxed);
        if self.inner == 1 && self.reduced > 0 {
            self.fold_rows::<T>(&run, block, blocks, &mut partial, &failed);
        } else if self.reduced > 0 {
            self.fold_columns::<T>(&run, block, blocks, &mut partial, &failed);
        } else {
            partial.fill(T::neutral(self.op));
        }
        if !defined.into_inner() {
            return invalid!("ZeroDivisionError: integer division by zero");
        }
        // Short rows are one block each.
        let (blocks, inner) =
            if self.above > 1 { (self.above, self.outer) } else { (blocks, self.inner) };
        self.store::<T>(&mut partial, (blocks, inner), write);
        Ok(())
    }

    /// Rows of a column reduction that one task adds up.
    fn rows_in_block(&self) -> usize {
        rows_for(self.inner.min(self.length), self.reduced)
    }

    /// Traffic of `n` elements, with arithmetic counted in.
    fn cost(&self, n: usize) -> usize {
        n * (4 + 4 * self.code.work())
    }

    /// `partial[row * blocks + block]`.
    fn fold_rows<T: Reducible>(
        &self,
        run: &Run,
        block: usize,
        blocks: usize,
        partial: &mut [T::Acc],
        failed: &(dyn Fn() + Sync),
    ) {
        let per_tile = if blocks > 1 { 1 } else { rows_of_tile(self.length, self.reduced) };
        let cost = self.cost(per_tile * block.min(self.reduced));
        // Tiles of a task are whole: only the last one of all may have fewer rows.
        let batch = GRAIN.div_ceil(2 * cost.max(1)) * per_tile;
        parallel_chunks(partial, batch, cost * batch / per_tile, |task, out| {
            with_tiles(&self.code, |tiles| {
                run.fill(tiles);
                for (n, out) in out.chunks_mut(per_tile).enumerate() {
                    let first = task * batch + n * per_tile;
                    let (row, at) = (first / blocks, first % blocks * block);
                    let start = row * self.reduced + at;
                    if per_tile > 1 {
                        let len = out.len() * self.reduced;
                        self.rows_of_tile::<T>(run, start, len, tiles, out, failed);
                    } else {
                        let len = block.min(self.reduced - at);
                        out[0] = self.long_run::<T>(run, start, len, tiles, failed);
                    }
                }
            });
        });
    }

    fn compute<'t, T: Reducible>(
        &self,
        run: &'t Run,
        start: usize,
        len: usize,
        tiles: &'t mut Tiles,
        failed: &(dyn Fn() + Sync),
    ) -> &'t [T] {
        let position = self.space.run(start as i64, len);
        if !run.tile(&position, tiles) {
            failed();
        }
        let (_, arg) = self.code.kept.expect("a reduction keeps its result");
        run.arg::<T>(arg, &position, tiles)
    }

    fn rows_of_tile<T: Reducible>(
        &self,
        run: &Run,
        start: usize,
        len: usize,
        tiles: &mut Tiles,
        out: &mut [T::Acc],
        failed: &(dyn Fn() + Sync),
    ) {
        let values = self.compute::<T>(run, start, len, tiles, failed);
        for (out, row) in out.iter_mut().zip(values.chunks_exact(self.reduced)) {
            *out = T::fold(self.op, row);
        }
    }

    fn long_run<T: Reducible>(
        &self,
        run: &Run,
        start: usize,
        len: usize,
        tiles: &mut Tiles,
        failed: &(dyn Fn() + Sync),
    ) -> T::Acc {
        let mut total = T::neutral(self.op);
        for at in (0..len).step_by(self.length) {
            let values =
                self.compute::<T>(run, start + at, self.length.min(len - at), tiles, failed);
            total = T::combine(self.op, total, T::fold(self.op, values));
        }
        total
    }

    /// `partial[(outer * blocks + block) * inner + column]`.
    fn fold_columns<T: Reducible>(
        &self,
        run: &Run,
        block: usize,
        blocks: usize,
        partial: &mut [T::Acc],
        failed: &(dyn Fn() + Sync),
    ) {
        let (rows, width) = match self.as_it_lies {
            true => (1, self.inner.min(columns::WIDEST)),
            false => tile_of_columns(self.length, self.inner),
        };
        let cost = self.cost(block.min(self.reduced) * self.inner);
        parallel_chunks(partial, self.inner, cost, |task, sums| {
            sums.fill(T::neutral(self.op));
            let (outer, first) = (task / blocks, task % blocks * block);
            let last = self.reduced.min(first + block);
            parallel_chunks(sums, width, cost * width / self.inner, |piece, sums| {
                if self.as_it_lies {
                    let (read, start) = (&run.reads[0], (first, piece * width));
                    return columns::sum(read, start, last - first, T::in_f64(sums));
                }
                with_tiles(&self.code, |tiles| {
                    run.fill(tiles);
                    for row in (first..last).step_by(rows) {
                        let start = (outer * self.reduced + row) * self.inner + piece * width;
                        let len = rows.min(last - row) * sums.len();
                        let values = self.compute::<T>(run, start, len, tiles, failed);
                        T::fold_rows(self.op, values, sums);
                    }
                });
            });
        });
    }

    /// Combines the blocks of every result in order and writes it.
    fn store<T: Reducible>(
        &self,
        partial: &mut [T::Acc],
        (blocks, inner): (usize, usize),
        write: &Bound,
    ) {
        for partial in partial.chunks_exact_mut(blocks * inner) {
            let (total, others) = partial.split_at_mut(inner);
            for block in others.chunks_exact(inner) {
                let pairs = total.iter_mut().zip(block);
                pairs.for_each(|(sum, &more)| *sum = T::combine(self.op, *sum, more));
            }
        }
        let total = |i: usize| partial[i / inner * blocks * inner + i % inner];
        let stream = Stream { bound: write, walk: &self.write };
        for n in 0..self.kept.tiles() {
            let position = self.kept.tile(n);
            let first = position.start as usize;
            let values: Vec<T> =
                (first..first + position.len).map(|i| T::finish(total(i))).collect();
            T::store_tile(&values, &self.kept, &position, &stream);
        }
    }
}

/// Rows of `width` elements that a tile of `length` holds, or 1 where not even one fits.
fn rows_of_tile(length: usize, width: usize) -> usize {
    (length / width).max(1)
}

/// Rows and columns of a tile of a column reduction: whole rows when several fit, else pieces of one.
fn tile_of_columns(length: usize, width: usize) -> (usize, usize) {
    if width <= length { (length / width, width) } else { (1, length) }
}

/// Rows of `width` elements, out of `rows`, that one task adds up.
fn rows_for(width: usize, rows: usize) -> usize {
    let enough = GRAIN.div_ceil(width);
    enough.clamp(16, 1 << 16).max(rows.div_ceil(64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_hold_whole_rows_or_pieces_of_one() {
        for length in [1, 256, 1024, 4096] {
            for width in (1..10_000).chain([65_537, 1 << 31, (1 << 40) + 1]) {
                let rows = rows_of_tile(length, width);
                assert!(rows == 1 || rows * width <= length, "{width} in {length}");
                let (rows, columns) = tile_of_columns(length, width);
                assert!(rows > 0 && columns > 0 && rows * columns <= length, "{width} in {length}");
                assert!(columns == width || rows == 1 && columns < width, "{width} in {length}");
            }
        }
    }

    #[test]
    fn rows_are_added_up_in_few_blocks() {
        for width in [1, 2, 3, 63, 64, 1000, 4096, 1 << 20] {
            for rows in (1..3000).chain([65_537, 1 << 30, (1 << 40) + 1]) {
                let block = rows_for(width, rows);
                assert!(block > 0 && rows.div_ceil(block) <= 64, "{rows} rows of {width}");
            }
        }
    }
}
