//! A fused pointwise region, compiled: a list of vector operations on numbered tiles.

use super::super::element::TileType;
use super::super::jit::JitLoop;
use super::super::jit::trace::Element;
use super::link::Link;
use crate::dtype::DType;
use crate::op::Op;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Where a vector operation finds an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    Tile(usize),
    /// A tile that holds one number, for the whole run or for a row.
    Constant(usize),
    /// The memory of a read as it stands: dense and of the lane's own type.
    Memory(usize),
    /// The memory of a result, likewise; to be read only once it is written.
    Result(usize),
    /// In a chain: the memory of a read that its result takes, if the run is in place: then what it overwrites.
    Own(usize),
}

/// One vector operation.
pub enum Inst {
    /// From memory into a tile of the lane.
    Load {
        read: usize,
        tile_type: TileType,
        to: usize,
    },
    /// A pointwise primitive on arguments of tile type `tile_type`; integers are wrapped to `dtype`, the type of the result.
    Compute {
        op: Op,
        tile_type: TileType,
        dtype: DType,
        args: SmallVec<[Arg; 3]>,
        to: Arg,
    },
    Cast {
        from: DType,
        dtype: DType,
        arg: Arg,
        to: Arg,
    },
    /// Operations on f32 one after the other. bf16 is converted where it is read from memory or written there.
    Chain {
        start: Arg,
        links: Vec<Link<Arg>>,
        to: Arg,
    },
    /// Machine code from streams to streams, whose elements are as they lie in tiles or in memory.
    Loop {
        jit_loop: Arc<JitLoop>,
        streams: Vec<(Arg, Element)>,
        /// Tiles of one number.
        numbers: Vec<(TileType, usize)>,
    },
    /// As `select(read index == target, yes, no)`: see [`Run::one_hot_select`](super::run::Run::one_hot_select).
    OneHotSelect {
        index: usize,
        target: Arg,
        tile_type: TileType,
        /// Yes and no.
        args: [Arg; 2],
        to: Arg,
    },
    Store {
        result: usize,
        tile_type: TileType,
        arg: Arg,
    },
}

/// What a tile that never changes is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    Float(f64),
    Int(i64),
    /// The only element of a read.
    Read(usize),
}

/// What the compiler has to know of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadKind {
    /// Every position is the same element.
    pub constant: bool,
    /// Every position of a row, in which each tile lies, is the same element.
    pub row: bool,
    /// A place that counts along the rows, in which each tile lies.
    pub counts: bool,
    /// In memory, dense in the order of the tiles and not written by this kernel, but for `over`.
    pub direct: bool,
    /// The same, but dense only along each row of a tile.
    pub rows: bool,
    /// Shares memory with a write: has to be loaded before anything is stored.
    pub early: bool,
    /// Dense along rows, and the write that takes the place of exactly these elements.
    pub over: Option<usize>,
}

/// What the compiler has to know of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreKind {
    pub dtype: DType,
    /// Dense in the order of the tiles.
    pub direct: bool,
    /// Dense along each row of a tile.
    pub rows: bool,
}

#[derive(Default)]
pub struct Code {
    /// Tiles of one number, filled before anything is computed.
    pub fills: Vec<(TileType, usize, Fill)>,
    /// Tiles of one number that are filled before each tile, with an element of a read.
    pub row_fills: Vec<(TileType, usize, usize)>,
    /// Computed before the first tile, of tiles of one number; so are their results.
    pub uniform: Vec<Inst>,
    /// Tiles of one number of which more than the first element is asked for.
    pub spread: Vec<(TileType, usize)>,
    pub insts: Vec<Inst>,
    /// Tiles of each lane.
    pub tiles: HashMap<TileType, usize>,
    /// Where the result is that is not stored (reductions).
    pub kept: Option<(TileType, Arg)>,
    /// Whether an integer division may meet a zero.
    pub can_fail: bool,
}

/// Elements in a full tile.
pub const TILE: usize = 2048;

impl Code {
    /// How long it takes for an element, in plain operations.
    pub fn work(&self) -> usize {
        let work = |inst: &Inst| match inst {
            Inst::Loop { jit_loop, .. } => jit_loop.operations.div_ceil(4),
            _ => 1,
        };
        self.insts.iter().map(work).sum()
    }
}

/// The value of an integer dtype with the same low bits; bool: whether it is not 0.
#[inline(always)]
pub fn wrap(value: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Bool => (value != 0) as i64,
        DType::U8 => value as u8 as i64,
        DType::I8 => value as i8 as i64,
        DType::I16 => value as i16 as i64,
        DType::I32 => value as i32 as i64,
        _ => value,
    }
}
