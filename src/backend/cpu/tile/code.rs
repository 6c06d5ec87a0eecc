//! A fused pointwise region, compiled: a list of vector operations on numbered tiles. Tiles are reused as soon as
//! their value is dead, so that few of them are live and they stay in the first-level cache. What is computed in f32
//! and asked for once is computed in the chain of what asks for it and has no tile.

use super::chain::Link;
use super::element::Lane;
use super::spot::{Spot, spots};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::{Attr, Op};
use crate::plan::{Instr, Program, Reg};
use smallvec::SmallVec;
use std::collections::HashMap;

mod chains;

use chains::{Chained, without_idle_casts};

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
    /// In a chain: what its result overwrites.
    Own,
}

/// One vector operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Inst {
    /// From memory into a tile of the lane.
    Load {
        read: usize,
        lane: Lane,
        to: usize,
    },
    /// A pointwise primitive on arguments of lane `lane`; integers are wrapped to `dtype`, the type of the result.
    Compute {
        op: Op,
        lane: Lane,
        dtype: DType,
        args: SmallVec<[Arg; 3]>,
        to: Arg,
    },
    Cast {
        from: Lane,
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
    /// As `select(read index == target, yes, no)`: see [`Run::spot`](super::run::Run::spot).
    Spot {
        index: usize,
        target: Arg,
        lane: Lane,
        /// Yes and no.
        args: [Arg; 2],
        to: Arg,
    },
    Store {
        result: usize,
        lane: Lane,
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
#[derive(Clone, Copy, Debug)]
pub struct ReadKind {
    /// Every position is the same element.
    pub constant: bool,
    /// Every position of a row, in which each tile lies, is the same element.
    pub row: bool,
    /// A place that counts along the rows, in which each tile lies.
    pub counts: bool,
    /// In memory, dense in the order of the tiles and not written by this kernel, but for `over`.
    pub direct: bool,
    /// Shares memory with a write: has to be loaded before anything is stored.
    pub early: bool,
    /// Direct, and the write that takes the place of exactly these elements.
    pub over: Option<usize>,
}

/// What the compiler has to know of a write.
#[derive(Clone, Copy, Debug)]
pub struct StoreKind {
    pub dtype: DType,
    /// Dense in the order of the tiles.
    pub direct: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Code {
    /// Tiles of one number, filled before anything is computed.
    pub fills: Vec<(Lane, usize, Fill)>,
    /// Tiles of one number that are filled before each tile, with an element of a read.
    pub row_fills: Vec<(Lane, usize, usize)>,
    /// Those of either of which more than the first element is asked for.
    pub spread: Vec<(Lane, usize)>,
    pub insts: Vec<Inst>,
    /// Tiles of each lane.
    pub tiles: HashMap<Lane, usize>,
    /// Where the result is that is not stored (reductions).
    pub kept: Option<(Lane, Arg)>,
    /// Whether an integer division may meet a zero.
    pub can_fail: bool,
}

/// Elements in a full tile.
pub const TILE: usize = 2048;

/// A value in the making: a register of the program in one lane.
type Value = (Reg, Lane);

struct Compiler<'a> {
    program: &'a Program,
    reads: &'a [ReadKind],
    /// `None`: a reduction, whose result is kept.
    stores: Option<&'a [StoreKind]>,
    code: Code,
    places: HashMap<Value, Arg>,
    /// Uses of a register that are still to come.
    uses: Vec<usize>,
    free: HashMap<Lane, Vec<usize>>,
    pinned: Vec<Value>,
    spots: HashMap<Reg, Spot>,
    /// For each instruction.
    chained: Vec<Chained>,
}

/// Compiles `program`; `stores` are its writes, or `None` for a reduction, which keeps its result.
pub fn compile(
    program: &Program,
    reads: &[ReadKind],
    stores: Option<&[StoreKind]>,
) -> Result<Code> {
    let program = &without_idle_casts(program, stores);
    let uses = uses(program)?;
    let mut c = Compiler {
        program,
        reads,
        stores,
        code: Code::default(),
        places: HashMap::new(),
        uses,
        free: HashMap::new(),
        pinned: Vec::new(),
        spots: spots(program, reads),
        chained: vec![Chained::default(); program.instrs.len()],
    };
    c.find_chains();
    c.code.can_fail = c.divides_integers();
    let early = |kind: &ReadKind| kind.early && !kind.constant && !kind.row;
    for (read, _) in reads.iter().enumerate().filter(|(_, kind)| early(kind)) {
        for lane in c.lanes_needed(read as Reg) {
            c.load(read, lane);
        }
    }
    c.store_ready(None)?;
    for (n, instr) in program.instrs.iter().enumerate() {
        let reg = (program.reads.len() + n) as Reg;
        if c.uses[reg as usize] == 0 || c.chained[n].hidden {
            continue;
        }
        if c.chained[n].len > 0 {
            c.chain(reg)?;
        } else {
            c.instr(reg, instr)?;
        }
        c.store_ready(Some(reg))?;
    }
    if stores.is_none() {
        let reg = program.results[0];
        let lane = Lane::of(c.dtype(reg));
        let kept = c.value(reg, lane)?;
        c.spread(kept, lane);
        c.code.kept = Some((lane, kept));
    }
    Ok(c.code)
}

impl Compiler<'_> {
    fn dtype(&self, reg: Reg) -> DType {
        let reads = self.program.reads.len();
        match self.program.reads.get(reg as usize) {
            Some(&dtype) => dtype,
            None => self.program.instrs[reg as usize - reads].dtype,
        }
    }

    /// Lane in which result `k` is stored: untouched bytes for what is only moved.
    fn store_lane(&self, reg: Reg, to: DType) -> Lane {
        let moved = (reg as usize) < self.program.reads.len() && self.dtype(reg) == to;
        if moved && !self.reads[reg as usize].constant { Lane::moving(to) } else { Lane::of(to) }
    }

    /// The lanes in which a read will be asked for.
    fn lanes_needed(&self, reg: Reg) -> SmallVec<[Lane; 2]> {
        let mut lanes = SmallVec::new();
        if self.program.instrs.iter().any(|i| i.args.contains(&reg)) {
            lanes.push(Lane::of(self.dtype(reg)));
        }
        for (&result, to) in self.program.results.iter().zip(self.stores.unwrap_or_default()) {
            let lane = self.store_lane(reg, to.dtype);
            if result == reg && !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        lanes
    }

    fn tile(&mut self, lane: Lane) -> usize {
        match self.free.get_mut(&lane).and_then(Vec::pop) {
            Some(tile) => tile,
            None => self.new_tile(lane),
        }
    }

    fn new_tile(&mut self, lane: Lane) -> usize {
        let n = self.code.tiles.entry(lane).or_insert(0);
        *n += 1;
        *n - 1
    }

    /// A tile that is filled once, before anything is computed: so never one that held something else.
    fn fill(&mut self, reg: Reg, lane: Lane, fill: Fill) -> Arg {
        let to = self.new_tile(lane);
        self.code.fills.push((lane, to, fill));
        self.pinned.push((reg, lane));
        self.places.insert((reg, lane), Arg::Constant(to));
        Arg::Constant(to)
    }

    /// As [`Compiler::fill`], but for the read's element in each row.
    fn fill_row(&mut self, reg: Reg, lane: Lane) -> Arg {
        let to = self.new_tile(lane);
        self.code.row_fills.push((lane, to, reg as usize));
        self.pinned.push((reg, lane));
        self.places.insert((reg, lane), Arg::Constant(to));
        Arg::Constant(to)
    }

    /// Notes that all elements of an argument are asked for.
    fn spread(&mut self, arg: Arg, lane: Lane) {
        if let Arg::Constant(tile) = arg
            && !self.code.spread.contains(&(lane, tile))
        {
            self.code.spread.push((lane, tile));
        }
    }

    fn load(&mut self, read: usize, lane: Lane) -> Arg {
        let to = self.tile(lane);
        self.code.insts.push(Inst::Load { read, lane, to });
        self.places.insert((read as Reg, lane), Arg::Tile(to));
        Arg::Tile(to)
    }

    /// Where a register is, loading it if it is a read that has not been.
    fn value(&mut self, reg: Reg, lane: Lane) -> Result<Arg> {
        if let Some(&arg) = self.places.get(&(reg, lane)) {
            return Ok(arg);
        }
        let Some(&kind) = self.reads.get(reg as usize) else {
            return internal!("register {reg} is used before it is computed, or as another type");
        };
        if kind.constant {
            return Ok(self.fill(reg, lane, Fill::Read(reg as usize)));
        }
        // What is only moved keeps its bytes.
        if kind.row && lane == Lane::of(self.program.reads[reg as usize]) {
            return Ok(self.fill_row(reg, lane));
        }
        if kind.direct && kind.over.is_none() && lane.is_native(self.program.reads[reg as usize]) {
            return Ok(Arg::Memory(reg as usize));
        }
        Ok(self.load(reg as usize, lane))
    }

    /// Counts a use as done; after the last one the register's tiles are free.
    fn used(&mut self, reg: Reg) {
        self.uses[reg as usize] -= 1;
        if self.uses[reg as usize] > 0 {
            return;
        }
        for lane in [Lane::U8, Lane::U16, Lane::U32, Lane::I64, Lane::F32, Lane::F64] {
            let Some(Arg::Tile(tile)) = self.places.get(&(reg, lane)).copied() else { continue };
            if !self.pinned.contains(&(reg, lane)) {
                self.free.entry(lane).or_default().push(tile);
                self.places.remove(&(reg, lane));
            }
        }
    }

    fn constant(&self, reg: Reg) -> Option<f64> {
        let n = (reg as usize).checked_sub(self.program.reads.len())?;
        let instr = &self.program.instrs[n];
        (instr.op == Op::Const).then(|| instr.attrs[0].float())
    }

    fn instr(&mut self, reg: Reg, instr: &Instr) -> Result<()> {
        let lane = Lane::of(instr.dtype);
        match instr.op {
            Op::Const => {
                let value = round_to(instr.attrs[0].float(), instr.dtype);
                self.fill(reg, lane, Fill::Float(value));
                return Ok(());
            }
            Op::ConstInt => {
                let Attr::Int(value) = instr.attrs[0] else {
                    return internal!("{} without its value", instr.op.name());
                };
                self.fill(reg, lane, Fill::Int(wrap(value, instr.dtype)));
                return Ok(());
            }
            _ => {}
        }
        if self.spots.contains_key(&reg) {
            instr.args.iter().for_each(|&a| self.used(a));
            return Ok(());
        }
        if instr.op == Op::Select
            && let Some(&spot) = self.spots.get(&instr.args[0])
        {
            return self.spot(reg, instr, spot);
        }
        // `select` computes in the lane of what is selected, `cast` and comparisons in that of their operand.
        let from = match instr.op {
            Op::Select => Lane::of(self.dtype(instr.args[1])),
            Op::Random => Lane::I64,
            _ => Lane::of(self.dtype(instr.args[0])),
        };
        let mut args = SmallVec::new();
        for (k, &arg) in instr.args.iter().enumerate() {
            let lane = if instr.op == Op::Select && k == 0 { Lane::U8 } else { from };
            let arg = self.value(arg, lane)?;
            if !takes_numbers(instr, from) {
                self.spread(arg, lane);
            }
            args.push(arg);
        }
        let to = self.target(reg, lane);
        let (op, dtype) = (instr.op, instr.dtype);
        if let Arg::Result(result) = to {
            self.save(result, &instr.args);
        }
        self.code.insts.push(match op {
            Op::Cast => Inst::Cast { from, dtype, arg: args[0], to },
            _ => Inst::Compute { op, lane: from, dtype, args, to },
        });
        self.places.insert((reg, lane), to);
        instr.args.iter().for_each(|&a| self.used(a));
        Ok(())
    }

    /// A selection decided by `spot`.
    fn spot(&mut self, reg: Reg, instr: &Instr, spot: Spot) -> Result<()> {
        let lane = Lane::of(instr.dtype);
        let target = self.value(spot.target as Reg, Lane::I64)?;
        let args = [self.value(instr.args[1], lane)?, self.value(instr.args[2], lane)?];
        let to = self.target(reg, lane);
        if let Arg::Result(result) = to {
            self.save(result, &instr.args);
        }
        self.code.insts.push(Inst::Spot { index: spot.index, target, lane, args, to });
        self.places.insert((reg, lane), to);
        instr.args.iter().for_each(|&a| self.used(a));
        Ok(())
    }

    /// Where a computed register goes: where it is stored, if it is the same there and nothing else asks for it.
    fn target(&mut self, reg: Reg, lane: Lane) -> Arg {
        let mut results = self.program.results.iter().zip(self.stores.unwrap_or_default());
        let fits = |(&r, to): (&Reg, &StoreKind)| {
            r == reg && to.direct && lane == Lane::of(to.dtype) && lane.is_native(to.dtype)
        };
        match results.position(fits) {
            // What may fail is first run without storing anything.
            Some(k) if self.uses[reg as usize] == 1 && !self.code.can_fail => Arg::Result(k),
            _ => Arg::Tile(self.tile(lane)),
        }
    }

    fn divides_integers(&self) -> bool {
        let divides = |i: &Instr| {
            matches!(i.op, Op::Div | Op::Rem) && Lane::of(self.dtype(i.args[0])) == Lane::I64
        };
        self.program.instrs.iter().any(divides)
    }

    /// Stores the results that are ready once `reg` is computed (`None`: those that are reads).
    fn store_ready(&mut self, reg: Option<Reg>) -> Result<()> {
        let Some(stores) = self.stores else { return Ok(()) };
        let reads = self.program.reads.len();
        for (result, (&from, to)) in self.program.results.iter().zip(stores).enumerate() {
            let ready = reg.map_or((from as usize) < reads, |r| r == from);
            if ready {
                self.store(result, from, to)?;
                self.used(from);
            }
        }
        Ok(())
    }

    fn store(&mut self, result: usize, from: Reg, to: &StoreKind) -> Result<()> {
        let lane = self.store_lane(from, to.dtype);
        if lane == Lane::F32 && to.chains() {
            let start = self.chain_value(from)?;
            if start != Arg::Result(result) {
                self.push_chain(start, Vec::new(), Arg::Result(result), &[from]);
            }
            return Ok(());
        }
        let arg = self.value(from, lane)?;
        self.spread(arg, lane);
        if arg != Arg::Result(result) {
            self.save(result, &[from]);
            self.code.insts.push(Inst::Store { result, lane, arg });
        }
        Ok(())
    }
}

/// How often each register is asked for by what is needed.
fn uses(program: &Program) -> Result<Vec<usize>> {
    let reads = program.reads.len();
    let mut uses = vec![0; reads + program.instrs.len()];
    let ask = |uses: &mut Vec<usize>, reg: Reg| match uses.get_mut(reg as usize) {
        Some(n) => {
            *n += 1;
            Ok(())
        }
        None => internal!("register {reg} does not exist"),
    };
    program.results.iter().try_for_each(|&reg| ask(&mut uses, reg))?;
    for (n, instr) in program.instrs.iter().enumerate().rev() {
        if uses[reads + n] > 0 {
            instr.args.iter().try_for_each(|&reg| ask(&mut uses, reg))?;
        }
    }
    Ok(uses)
}

/// Whether the loop of an instruction on operands of `lane` takes single numbers for them.
fn takes_numbers(instr: &Instr, lane: Lane) -> bool {
    lane == Lane::F32 && instr.args.len() == 2 && instr.dtype != DType::Bool
}

/// A constant of a half type is the number that type can hold.
fn round_to(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f32(value as f32).to_f64(),
        DType::BF16 => half::bf16::from_f32(value as f32).to_f64(),
        DType::F32 => value as f32 as f64,
        _ => value,
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
