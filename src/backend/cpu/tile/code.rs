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
    /// The memory of a read, used directly: dense and of the tile type itself.
    Memory(usize),
    /// The memory of a result, likewise; to be read only once it is written.
    Result(usize),
    /// In a chain: the memory of a read; if the run is in place, the memory that the chain's result overwrites.
    Own(usize),
}

/// One vector operation.
pub enum Inst {
    /// Loads from memory into a tile of type `tile_type`.
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
    /// A sequence of operations on f32. bf16 is converted as it is read from or written to memory.
    Chain {
        start: Arg,
        links: Vec<Link<Arg>>,
        to: Arg,
    },
    /// Machine code from streams to streams, whose elements are as they lie in tiles or memory.
    Loop {
        jit_loop: Arc<JitLoop>,
        streams: Vec<(Arg, Element)>,
        /// Tiles that hold one number.
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

/// The contents of a tile that never changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    Float(f64),
    Int(i64),
    /// The only element of a read.
    Read(usize),
}

/// Properties of a read that the compiler depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadKind {
    /// Every position is the same element.
    pub constant: bool,
    /// Every position of a row is the same element; each tile lies in one row.
    pub row: bool,
    /// An index operand that counts along the rows; each tile lies in one row.
    pub counts: bool,
    /// In memory, dense in the order of the tiles and not written by this kernel, but for `over`.
    pub direct: bool,
    /// The same, but dense only along each row of a tile.
    pub rows: bool,
    /// Shares memory with a write, so it has to be loaded before anything is stored.
    pub early: bool,
    /// The write that overwrites exactly these elements, if the read is dense along rows.
    pub over: Option<usize>,
}

/// Properties of a write that the compiler depends on.
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
    /// Tiles of one number that an element of a read fills before each tile is computed.
    pub row_fills: Vec<(TileType, usize, usize)>,
    /// Run before the first tile; operands and results are tiles of one number.
    pub uniform: Vec<Inst>,
    /// Tiles of one number of which more than the first element is read.
    pub spread: Vec<(TileType, usize)>,
    pub insts: Vec<Inst>,
    /// Number of tiles of each type.
    pub tiles: HashMap<TileType, usize>,
    /// The location of the result that is not stored (reductions).
    pub kept: Option<(TileType, Arg)>,
    /// Whether an integer division may meet a zero.
    pub can_fail: bool,
}

/// Elements in a full tile.
pub const TILE: usize = 2048;

impl Code {
    /// Estimated time per element, in plain operations.
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
