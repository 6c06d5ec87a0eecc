//! Executes compiled regions tile by tile.
#![expect(unsafe_code, reason = "tasks on several threads write disjoint elements of one operand")]

use super::super::access::{Bound, Plain, Source};
use super::super::element::{Bf16, F16, Stored, TileType, element, single, store_run};
use super::super::jit::JitLoop;
use super::super::jit::trace::Element;
use super::super::pool::Paged;
use super::chain::{self, Feed, Target};
use super::code::{Arg, Code, Fill, Inst, TILE};
use super::compute::Numbers;
use super::link::{Link, MAX_LINKS, UnaryOp};
use super::load::{load, load_index};
use super::space::{Position, Space, Walk, first, pieces, row_start};
use crate::dtype::DType;
use crate::shape::numel;
use smallvec::SmallVec;
use std::cell::RefCell;

/// An operand of a region at run time: memory, and how it lies over the space.
pub struct Stream<'a> {
    pub bound: &'a Bound,
    pub walk: &'a Walk,
}

/// The state shared by all tiles of a run.
pub struct Run<'a> {
    pub code: &'a Code,
    pub space: &'a Space,
    pub reads: &'a [Stream<'a>],
    /// Empty: nothing is stored.
    pub writes: &'a [Stream<'a>],
}

/// The tiles of one thread. Kept from run to run.
#[derive(Default)]
pub struct Tiles {
    u8s: Vec<Paged<u8>>,
    u16s: Vec<Paged<u16>>,
    u32s: Vec<Paged<u32>>,
    pub i64s: Vec<Paged<i64>>,
    f32s: Vec<Paged<f32>>,
    f64s: Vec<Paged<f64>>,
}

thread_local! {
    static FREE: RefCell<Vec<Tiles>> = const { RefCell::new(Vec::new()) };
}

/// An element type of tiles: where its tiles are, and how they are loaded from and stored to memory of the dtypes it stands for.
pub trait TileElement: Plain {
    fn tiles(tiles: &mut Tiles) -> &mut Vec<Paged<Self>>;
    fn shared(tiles: &Tiles) -> &Vec<Paged<Self>>;
    fn load_tile(from: &Stream, space: &Space, at: &Position, to: &mut [Self]);
    fn store_tile(from: &[Self], space: &Space, at: &Position, to: &Stream);
}

macro_rules! lane_type {
    ($($tile_type:ty: $tiles:ident, $($dtype:pat => $memory:ty),*;)*) => {$(
        impl TileElement for $tile_type {
            #[inline]
            fn tiles(tiles: &mut Tiles) -> &mut Vec<Paged<$tile_type>> { &mut tiles.$tiles }
            #[inline]
            fn shared(tiles: &Tiles) -> &Vec<Paged<$tile_type>> { &tiles.$tiles }
            fn load_tile(from: &Stream, space: &Space, at: &Position, to: &mut [$tile_type]) {
                match from.bound.dtype {
                    $($dtype => load::<$memory, $tile_type>(from.bound, space, at, from.walk, to),)*
                    #[allow(unreachable_patterns, reason = "some lanes take every dtype of their size")]
                    other => panic!("{other} loaded as {}", stringify!($tile_type)),
                }
            }
            fn store_tile(from: &[$tile_type], space: &Space, at: &Position, to: &Stream) {
                match to.bound.dtype {
                    $($dtype => store_as::<$memory, $tile_type>(from, space, at, to),)*
                    #[allow(unreachable_patterns, reason = "some lanes take every dtype of their size")]
                    other => panic!("{other} stored as {}", stringify!($tile_type)),
                }
            }
        }
    )*};
}

lane_type! {
    u8: u8s, _ => u8;
    u16: u16s, _ => u16;
    u32: u32s, _ => u32;
    i64: i64s, DType::U8 => u8, DType::I8 => i8, DType::I16 => i16, DType::I32 => i32, _ => i64;
    f32: f32s, DType::F32 => f32, DType::F16 => F16, DType::BF16 => Bf16;
    f64: f64s, DType::F64 => f64;
}

/// Evaluates an expression with the element type `T` of a tile type.
macro_rules! by_lane {
    ($tile_type:expr, $t:ident => $e:expr) => {
        match $tile_type {
            TileType::U8 => by_lane!($t = u8, $e),
            TileType::U16 => by_lane!($t = u16, $e),
            TileType::U32 => by_lane!($t = u32, $e),
            TileType::I64 => by_lane!($t = i64, $e),
            TileType::F32 => by_lane!($t = f32, $e),
            TileType::F64 => by_lane!($t = f64, $e),
        }
    };
    ($t:ident = $tile_type:ty, $e:expr) => {{
        type $t = $tile_type;
        $e
    }};
}

// After the macro that it uses.
mod plain;

/// Lends this thread's tiles, with enough of them for `code`.
pub fn with_tiles<R>(code: &Code, body: impl FnOnce(&mut Tiles) -> R) -> R {
    let mut tiles = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
    for (&tile_type, &n) in &code.tiles {
        match tile_type {
            TileType::U8 => grow(&mut tiles.u8s, n),
            TileType::U16 => grow(&mut tiles.u16s, n),
            TileType::U32 => grow(&mut tiles.u32s, n),
            TileType::I64 => grow(&mut tiles.i64s, n),
            TileType::F32 => grow(&mut tiles.f32s, n),
            TileType::F64 => grow(&mut tiles.f64s, n),
        }
    }
    let result = body(&mut tiles);
    FREE.with_borrow_mut(|free| free.push(tiles));
    result
}

fn grow<T: Plain>(tiles: &mut Vec<Paged<T>>, n: usize) {
    while tiles.len() < n {
        tiles.push(Paged::new(TILE));
    }
}

impl Run<'_> {
    /// Fills the tiles that do not change, as far as tiles of this space reach. To be called before the first tile on these
    /// `tiles`.
    pub fn fill(&self, tiles: &mut Tiles) {
        let len = numel(&self.space.sizes).clamp(1, TILE as i64) as usize;
        for &(tile_type, to, fill) in &self.code.fills {
            let (float, int) = match fill {
                Fill::Float(v) => (v, v as i64),
                Fill::Int(v) => (v as f64, v),
                Fill::Read(read) => single(self.reads[read].bound),
            };
            self.put(tile_type, to, (float, int), 1, tiles);
        }
        let number = Position::of_number();
        for inst in &self.code.uniform {
            self.instruction(inst, &number, tiles);
        }
        let of_rows = |tile| self.code.row_fills.iter().any(|&(of, to, _)| (of, to) == tile);
        for &(tile_type, tile) in self.code.spread.iter().filter(|&&tile| !of_rows(tile)) {
            by_lane!(tile_type, T => {
                let tile = &mut T::tiles(tiles)[tile][..len];
                let number = tile[0];
                tile.fill(number);
            });
        }
    }

    /// Fills a tile with a number: its first `len` elements if they are read, else the first.
    fn put(
        &self,
        tile_type: TileType,
        to: usize,
        number: (f64, i64),
        len: usize,
        tiles: &mut Tiles,
    ) {
        let len = if self.code.spread.contains(&(tile_type, to)) { len } else { 1 };
        let (float, int) = number;
        match tile_type {
            TileType::U8 => tiles.u8s[to][..len].fill(int as u8),
            TileType::U16 => tiles.u16s[to][..len].fill(int as u16),
            TileType::U32 => tiles.u32s[to][..len].fill(int as u32),
            TileType::I64 => tiles.i64s[to][..len].fill(int),
            TileType::F32 => tiles.f32s[to][..len].fill(float as f32),
            TileType::F64 => tiles.f64s[to][..len].fill(float),
        }
    }

    /// Computes (and stores) one tile. False when an integer was divided by zero; then results are arbitrary.
    pub fn tile(&self, position: &Position, tiles: &mut Tiles) -> bool {
        for &(tile_type, to, read) in &self.code.row_fills {
            let stream = &self.reads[read];
            let number = element(stream.bound, first(position, stream.walk));
            self.put(tile_type, to, number, position.len, tiles);
        }
        let mut defined = true;
        for inst in &self.code.insts {
            defined &= self.instruction(inst, position, tiles);
        }
        defined
    }

    /// Executes one instruction on a tile. The result is as in [`Run::tile`].
    fn instruction(&self, inst: &Inst, position: &Position, tiles: &mut Tiles) -> bool {
        match inst {
            Inst::Load { read, tile_type, to } => {
                self.load(*read, *tile_type, *to, position, tiles)
            }
            Inst::Store { result, tile_type, arg } => {
                if let Some(write) = self.writes.get(*result) {
                    self.store(write, *tile_type, *arg, position, tiles);
                }
            }
            Inst::Compute { op, tile_type, dtype, args, to } => {
                return self.compute(*op, *tile_type, *dtype, args, *to, position, tiles);
            }
            Inst::Cast { from, dtype, arg, to } => {
                self.cast(*from, *dtype, *arg, *to, position, tiles)
            }
            Inst::OneHotSelect { index, target, tile_type, args, to } => {
                by_lane!(*tile_type, T => self.one_hot_select::<T>(*index, *target, *args, *to, position, tiles));
            }
            Inst::Chain { start, links, to } => {
                self.chain(*start, links, *to, position, tiles);
            }
            Inst::Loop { jit_loop, streams, numbers } => {
                self.jit_loop(jit_loop, streams, numbers, position, tiles);
            }
        }
        true
    }

    fn jit_loop(
        &self,
        jit_loop: &JitLoop,
        streams: &[(Arg, Element)],
        numbers: &[(TileType, usize)],
        at: &Position,
        tiles: &mut Tiles,
    ) {
        let number = |&(tile_type, tile): &(TileType, usize)| match tile_type {
            TileType::F32 => tiles.f32s[tile][0],
            _ => tiles.u8s[tile][0] as f32,
        };
        let numbers: SmallVec<[f32; 16]> = numbers.iter().map(number).collect();
        for row in 0..at.rows {
            let address = |&(arg, element): &(Arg, Element)| match element {
                Element::F32 => self.address::<f32>(arg, at, row, |t| &mut t.f32s, tiles),
                Element::F16 | Element::BF16 => {
                    self.address::<u16>(arg, at, row, |_| &mut [], tiles)
                }
                Element::Bool => self.address::<u8>(arg, at, row, |t| &mut t.u8s, tiles),
            };
            let addresses: SmallVec<[usize; 16]> = streams.iter().map(address).collect();
            // SAFETY: the streams and numbers are those that were recorded. Every address is that of a row's elements, in a
            // tile of this thread or in memory. Elements that are written there belong to this tile alone (see `store_as`);
            // the same loop may read them before it overwrites them. Nobody writes the others meanwhile (see `ReadKind`).
            unsafe { jit_loop.run(&addresses, &numbers, at.columns()) }
        }
    }

    /// The address of an argument's elements for a row of the tile.
    fn address<T: Plain>(
        &self,
        arg: Arg,
        at: &Position,
        row: usize,
        own: impl Fn(&mut Tiles) -> &mut [Paged<T>],
        tiles: &mut Tiles,
    ) -> usize {
        let columns = at.columns();
        match arg {
            Arg::Tile(n) => own(tiles)[n][row * columns..][..columns].as_mut_ptr() as usize,
            Arg::Memory(read) => {
                let Stream { bound, walk } = &self.reads[read];
                bound.slice::<T>(row_start(at, walk, row), columns).as_ptr() as usize
            }
            Arg::Result(result) => {
                let Stream { bound, walk } = &self.writes[result];
                // SAFETY: the slice is not used.
                let to = unsafe { bound.slice_mut::<T>(row_start(at, walk, row), columns) };
                to.as_mut_ptr() as usize
            }
            Arg::Constant(_) | Arg::Own(_) => panic!("no elements of a loop"),
        }
    }

    /// An argument's elements: a tile, or memory used directly.
    #[inline]
    pub fn arg<'t, T: TileElement>(
        &'t self,
        arg: Arg,
        position: &Position,
        tiles: &'t Tiles,
    ) -> &'t [T] {
        match arg {
            Arg::Tile(n) | Arg::Constant(n) => &T::shared(tiles)[n][..position.len],
            Arg::Memory(read) => {
                let stream = &self.reads[read];
                stream.bound.slice(stream.walk.offset + position.start, position.len)
            }
            Arg::Result(result) => {
                let stream = &self.writes[result];
                stream.bound.slice(stream.walk.offset + position.start, position.len)
            }
            Arg::Own(_) => panic!("only chains read what they overwrite"),
        }
    }

    /// An argument of a chain whose results go to `to`.
    #[inline]
    fn feed<'t>(&'t self, arg: Arg, to: Arg, position: &Position, tiles: &'t Tiles) -> Feed<'t> {
        let (reads, writes) = (&self.reads, &self.writes);
        match arg {
            Arg::Constant(n) => Feed::One(tiles.f32s[n][0]),
            Arg::Own(read) => match to {
                Arg::Result(result) if reads[read].bound.source == writes[result].bound.source => {
                    Feed::Own
                }
                _ => self.feed(Arg::Memory(read), to, position, tiles),
            },
            Arg::Memory(read) if self.reads[read].bound.dtype == DType::BF16 => {
                let stream = &self.reads[read];
                let start = stream.walk.offset + position.start;
                Feed::Bf16(stream.bound.slice(start, position.len))
            }
            Arg::Memory(_) => Feed::Memory(self.arg(arg, position, tiles)),
            _ => Feed::Run(self.arg(arg, position, tiles)),
        }
    }

    fn chain(&self, start: Arg, links: &[Link<Arg>], to: Arg, at: &Position, tiles: &mut Tiles) {
        let prefetch = self.code.insts.len() > 1;
        let fed = |t: &Tiles, target: Target| {
            let link = |link: &Link<Arg>| match *link {
                Link::Unary(op) => Link::Unary(op),
                Link::Binary(op, arg) => Link::Binary(op, self.feed(arg, to, at, t)),
            };
            let mut fed = [Link::Unary(UnaryOp::Square); MAX_LINKS];
            fed.iter_mut().zip(links).for_each(|(to, from)| *to = link(from));
            chain::run(self.feed(start, to, at, t), &fed[..links.len()], target, prefetch);
        };
        let Arg::Result(result) = to else {
            return self.into::<f32>(to, at, tiles, |t, y| fed(t, Target::Run(y)));
        };
        let Some(write) = self.writes.get(result) else { return };
        let from = write.walk.offset + at.start;
        // SAFETY: as in `store_as`; elements that the chain reads there it reads by way of its target.
        match write.bound.dtype {
            DType::BF16 => fed(tiles, Target::Bf16(unsafe { write.bound.slice_mut(from, at.len) })),
            _ => fed(tiles, Target::Run(unsafe { write.bound.slice_mut(from, at.len) })),
        }
    }

    /// An argument of an instruction that accepts single numbers.
    #[inline]
    fn numbers<'t>(&'t self, arg: Arg, position: &Position, tiles: &'t Tiles) -> Numbers<'t> {
        match arg {
            Arg::Constant(n) => Numbers::One(tiles.f32s[n][0]),
            _ => Numbers::Run(self.arg(arg, position, tiles)),
        }
    }

    /// Lets `body` write tile or result `to` while it reads the other tiles.
    #[inline]
    pub fn into<T: TileElement>(
        &self,
        to: Arg,
        position: &Position,
        tiles: &mut Tiles,
        body: impl FnOnce(&Tiles, &mut [T]),
    ) {
        match to {
            Arg::Tile(to) => {
                let mut tile = std::mem::take(&mut T::tiles(tiles)[to]);
                body(tiles, &mut tile[..position.len]);
                T::tiles(tiles)[to] = tile;
            }
            Arg::Result(result) => {
                let stream = &self.writes[result];
                let start = stream.walk.offset + position.start;
                // SAFETY: as in `store_as`.
                body(tiles, unsafe { stream.bound.slice_mut(start, position.len) });
            }
            _ => panic!("only tiles and results are written"),
        }
    }

    fn load(&self, read: usize, tile_type: TileType, to: usize, at: &Position, tiles: &mut Tiles) {
        let (stream, tile) = (&self.reads[read], Arg::Tile(to));
        if stream.bound.source == Source::Index {
            let to = &mut tiles.i64s[to][..at.len];
            return load_index(self.space, at, stream.walk, to);
        }
        by_lane!(tile_type, T => self.into(tile, at, tiles, |_, y: &mut [T]| {
            T::load_tile(stream, self.space, at, y)
        }))
    }

    fn store(&self, write: &Stream, tile_type: TileType, arg: Arg, at: &Position, tiles: &Tiles) {
        by_lane!(tile_type, T => T::store_tile(self.arg(arg, at, tiles), self.space, at, write))
    }
}

fn store_as<S: Stored<L>, L: TileElement>(
    from: &[L],
    space: &Space,
    at: &Position,
    write: &Stream,
) {
    pieces(space, at, write.walk, |p| {
        for (r, row) in from[p.at..p.at + p.rows * p.columns].chunks_exact(p.columns).enumerate() {
            let start = p.from + r as i64 * p.row_stride;
            if p.column_stride == 1 {
                // SAFETY: positions of a space do not overlap, a write names no element twice, and its memory is not
                // that of a direct read: these elements are this tile's alone.
                store_run::<S, L>(row, unsafe { write.bound.slice_mut(start, p.columns) });
                continue;
            }
            for (c, &value) in row.iter().enumerate() {
                // SAFETY: as above.
                let to = unsafe { write.bound.slice_mut(start + c as i64 * p.column_stride, 1) };
                to[0] = S::store(value);
            }
        }
    });
}
