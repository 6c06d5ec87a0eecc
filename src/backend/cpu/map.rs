//! Pointwise kernels: a tile program over the whole iteration space.

use super::access::Bound;
use super::pool::{GRAIN, parallel};
use super::tile::code::{Code, ReadKind, StoreKind, TILE, compile};
use super::tile::element::Lane;
use super::tile::run::{Run, Stream, with_tiles};
use super::tile::space::{Cut, Space, Walk, collapse, may_overlap, memory_order};
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::plan::{Operand, Place, Program};
use crate::shape::{Dims, Layout};
use std::sync::atomic::{AtomicBool, Ordering};

/// Some of a kernel's points: a run in the order of its sizes.
pub struct Part {
    /// Read 0, of which only these points may be touched.
    pub result: Bound,
    pub start: i64,
    pub len: usize,
}

/// A compiled `Kernel::Map`.
pub struct Map {
    space: Space,
    code: Code,
    reads: Vec<Walk>,
    writes: Vec<Walk>,
    /// Elements of a full tile.
    length: usize,
    /// Tiles of one task.
    batch: usize,
    /// Memory traffic of one task, and its arithmetic as if it were traffic.
    cost: usize,
}

/// The dtype whose elements are moved instead, and the operand seen so: 16-byte elements are pairs.
fn as_pairs(operand: &Operand) -> Operand {
    let wide = operand.dtype.size() == 16;
    let mut layout = operand.layout.clone();
    layout.sizes.push(2);
    if wide {
        layout.strides.iter_mut().for_each(|s| *s *= 2);
        layout.offset *= 2;
    }
    layout.strides.push(wide as i64);
    let dtype = if wide { DType::I64 } else { operand.dtype };
    Operand { place: operand.place, dtype, layout }
}

/// [`as_pairs`] for a whole kernel.
fn split_pairs(program: &Program, operands: &[Operand]) -> (Program, Vec<Operand>) {
    let narrow = |d: &DType| if d.size() == 16 { DType::I64 } else { *d };
    let mut program = program.clone();
    program.sizes.push(2);
    program.reads = program.reads.iter().map(narrow).collect();
    program.instrs.iter_mut().for_each(|i| i.dtype = narrow(&i.dtype));
    (program, operands.iter().map(as_pairs).collect())
}

/// The operands of a kernel that moves 16-byte elements, as the compiled kernel sees them.
pub fn narrowed(operand: &Operand, wide: bool) -> Operand {
    if wide { as_pairs(operand) } else { operand.clone() }
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
    let spot = |o: &'_ Operand| (o.place, o.dtype.size(), o.layout.clone());
    reads
        .iter()
        .zip(walks)
        .map(|(read, walk)| {
            let (place, size, layout) = spot(read);
            let overlaps = |w: &Operand| {
                let (w_place, w_size, w_layout) = spot(w);
                may_overlap((&place, size, &layout), (&w_place, w_size, &w_layout), donors)
            };
            let mut shared = (0..writes.len()).filter(|&w| overlaps(&writes[w]));
            let over = shared.next();
            let same = |w: usize| {
                let write = &writes[w];
                let there = read.place == write.place
                    || matches!((read.place, write.place), (Place::Input(i), Place::Output(o))
                        if donors.get(o as usize) == Some(&Some(i)));
                there && read.dtype == write.dtype && read.layout == write.layout
            };
            let exactly = over.filter(|&w| same(w) && shared.next().is_none());
            let memory = !matches!(read.place, Place::Scalar(_) | Place::Index);
            let constant = walk.constant && read.place != Place::Index
                || matches!(read.place, Place::Scalar(_));
            let (rows, stays) =
                (matches!(space.cut, Cut::Rows(_)), walk.strides.last() == Some(&0));
            let dense = memory && walk.contiguous && space.cut.is_linear() && !walk.constant;
            let exactly = exactly.filter(|_| dense);
            let early = over.is_some() && exactly.is_none();
            ReadKind {
                constant,
                row: rows && stays && !constant,
                counts: rows && !stays && read.place == Place::Index,
                direct: memory && walk.contiguous && space.cut.is_linear() && !early,
                early,
                over: exactly,
            }
        })
        .collect()
}

/// A cut that suits the operands: boxes when one is transposed against the order of the space.
fn cut(sizes: &[i64], strides: &[Dims], length: usize) -> Cut {
    let rank = sizes.len();
    // Worth the tiles that end with their row: what is one number along each.
    let stays = |s: &Dims| s[rank - 1] == 0 && s.iter().any(|&s| s != 0);
    if sizes[rank - 1] >= ROW && strides.iter().any(stays) {
        return Cut::Rows(length);
    }
    let crosswise = |s: &Dims| s[rank - 1].abs() > 1 && s[rank - 2] == 1;
    if rank < 2 || sizes[rank - 1] < 8 || sizes[rank - 2] < 8 || !strides.iter().any(crosswise) {
        return Cut::Runs(length);
    }
    // What is read crosswise is read in longer runs than it is written in: stores can wait, loads cannot.
    let columns = 32.min(sizes[rank - 1] as usize);
    Cut::Boxes { rows: (length / columns).min(sizes[rank - 2] as usize).min(64), columns }
}

/// Elements of a row that make a tile.
const ROW: i64 = 512;

impl Map {
    pub fn new(
        program: &Program,
        reads: &[Operand],
        writes: &[Operand],
        donors: &[Option<u32>],
    ) -> Result<Map> {
        let operands: Vec<Operand> = reads.iter().chain(writes).cloned().collect();
        if moves_pairs(&operands) {
            let (program, operands) = split_pairs(program, &operands);
            let (reads, writes) = operands.split_at(reads.len());
            return Map::compile(&program, reads, writes, donors);
        }
        Map::compile(program, reads, writes, donors)
    }

    fn compile(
        program: &Program,
        reads: &[Operand],
        writes: &[Operand],
        donors: &[Option<u32>],
    ) -> Result<Map> {
        let layouts: Vec<&Layout> = reads.iter().chain(writes).map(|o| &o.layout).collect();
        let Some(first) = writes.first() else {
            return crate::internal!("a kernel that writes nothing");
        };
        let order = crosswise_order(&memory_order(&first.layout), &layouts);
        Map::ordered(program, reads, writes, donors, &order, cut)
    }

    /// A kernel whose tiles are runs in the order of the program's sizes: for [`Map::run_part`].
    pub fn in_order(
        program: &Program,
        reads: &[Operand],
        writes: &[Operand],
        donors: &[Option<u32>],
    ) -> Result<Map> {
        let order: Vec<usize> = (0..program.sizes.len()).collect();
        Map::ordered(program, reads, writes, donors, &order, |_, _, length| Cut::Runs(length))
    }

    fn ordered(
        program: &Program,
        reads: &[Operand],
        writes: &[Operand],
        donors: &[Option<u32>],
        order: &[usize],
        cut: impl Fn(&[i64], &[Dims], usize) -> Cut,
    ) -> Result<Map> {
        let layouts: Vec<&Layout> = reads.iter().chain(writes).map(|o| &o.layout).collect();
        let (mut sizes, mut strides, _) = collapse(&layouts, order, &[]);
        if sizes.is_empty() {
            sizes.push(1);
            strides.iter_mut().for_each(|s| s.push(0));
        }
        let mut space = Space { cut: cut(&sizes, &strides, TILE), sizes: sizes.clone() };
        let walks: Vec<Walk> =
            strides.into_iter().zip(&layouts).map(|(s, l)| Walk::new(&sizes, s, l)).collect();
        let kinds = read_kinds(reads, &walks, writes, &space, donors);
        let linear = space.cut.is_linear();
        let store = |(write, walk): (&Operand, &Walk)| StoreKind {
            dtype: write.dtype,
            direct: walk.contiguous && linear,
        };
        let stores: Vec<StoreKind> = writes.iter().zip(&walks[reads.len()..]).map(store).collect();
        let code = compile(program, &kinds, Some(&stores))?;
        let length = tile_length(&code);
        match &mut space.cut {
            Cut::Runs(len) => *len = length,
            Cut::Rows(len) => *len = even(sizes[sizes.len() - 1] as usize, length),
            Cut::Boxes { .. } => {}
        }
        let width: usize = reads.iter().chain(writes).map(|o| o.dtype.size()).sum();
        let per_tile = length * (width + 4 * code.insts.len());
        let batch = GRAIN.div_ceil(2 * per_tile).max(1);
        let (reads, writes) = (walks[..reads.len()].to_vec(), walks[reads.len()..].to_vec());
        Ok(Map { space, code, reads, writes, length, batch, cost: per_tile * batch })
    }

    /// Error before anything is written: an integer division by zero.
    pub fn run(&self, reads: &[Bound], writes: &[Bound]) -> Result<()> {
        let reads: Vec<Stream> = streams(reads, &self.reads);
        let writes: Vec<Stream> = streams(writes, &self.writes);
        let mut run = Run { code: &self.code, space: &self.space, reads: &reads, writes: &[] };
        if self.code.can_fail && !self.sweep(&run) {
            return invalid!("ZeroDivisionError: integer division by zero");
        }
        run.writes = &writes;
        self.sweep(&run);
        Ok(())
    }

    /// Runs over some of the space only, on this thread: for each part, read 0 is seen through a bound of its own.
    /// `reads` are the others. Only for a kernel made by [`Map::in_order`] that cannot fail.
    pub fn run_part(&self, parts: &[Part], reads: &[Bound], writes: &[Bound]) {
        let Some(first) = parts.first() else { return };
        let mut streams = streams(reads, &self.reads[1..]);
        streams.insert(0, Stream { bound: &first.result, walk: &self.reads[0] });
        let writes = self::streams(writes, &self.writes);
        let (code, space, length) = (&self.code, &self.space, self.length);
        with_tiles(code, |memory| {
            Run { code, space, reads: &streams, writes: &writes }.fill(memory);
            for part in parts {
                streams[0].bound = &part.result;
                let run = Run { code, space, reads: &streams, writes: &writes };
                for at in (0..part.len).step_by(length) {
                    let position = space.run(part.start + at as i64, length.min(part.len - at));
                    run.tile(&position, memory);
                }
            }
        });
    }

    /// Runs all tiles; whether every integer division was defined.
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

/// The length of tiles, at most `length`, that cut `row` elements into parts of about the same length.
fn even(row: usize, length: usize) -> usize {
    row.div_ceil(row.div_ceil(length)).next_multiple_of(64)
}

pub fn streams<'a>(bounds: &'a [Bound], walks: &'a [Walk]) -> Vec<Stream<'a>> {
    bounds.iter().zip(walks).map(|(bound, walk)| Stream { bound, walk }).collect()
}

/// Fewer elements a tile when there are many tiles, so that most of them stay in the first-level cache.
pub fn tile_length(code: &Code) -> usize {
    let changing = |(lane, n): (&Lane, &usize)| {
        let constant = code.fills.iter().filter(|(l, ..)| l == lane).count();
        let of_rows = code.row_fills.iter().filter(|(l, ..)| l == lane).count();
        lane.size() * (n - constant - of_rows)
    };
    let spread: usize = code.spread.iter().map(|(lane, _)| lane.size()).sum();
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
