//! How a program becomes a list of vector operations. Where machine code can be written, all that is computed in f32 or
//! decided by it is one loop ([`loops`]). Elsewhere each operation is a loop over tiles, which are reused as soon as
//! their value is dead, so that few of them are live and they stay in the first-level cache; what is computed in f32
//! and asked for once is computed in the chain of what asks for it and has no tile ([`chains`]).

mod chains;
mod loops;

use super::super::isa::Isa;
use super::super::machine;
use super::code::{Arg, Code, Fill, Inst, ReadKind, StoreKind, wrap};
use super::element::Lane;
use super::spot::{Spot, spots};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::array::as_integer;
use crate::op::{Attr, Op};
use crate::plan::{Instr, Program, Reg};
use chains::{Chained, without_idle_casts};
use loops::Unit;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

/// A value in the making: a register of the program in one lane.
type Value = (Reg, Lane);

struct Compiler<'a> {
    program: &'a Program,
    reads: &'a [ReadKind],
    /// `None`: a reduction, whose result is kept.
    stores: Option<&'a [StoreKind]>,
    /// The instructions of machine code, if there is any.
    target: Option<Isa>,
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

/// What code depends on: layers of a model, and programs for other sizes, have theirs in common.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    target: Option<Isa>,
    dtypes: Vec<DType>,
    instrs: Vec<Instr>,
    results: Vec<Reg>,
    reads: Vec<ReadKind>,
    stores: Option<Vec<StoreKind>>,
}

/// The code that is in use.
type InUse = HashMap<Key, Weak<Code>>;

static IN_USE: LazyLock<Mutex<InUse>> = LazyLock::new(Mutex::default);

/// The code of `program`; `stores` are its writes, or `None` for a reduction, which keeps its result.
pub fn code(
    program: &Program,
    reads: &[ReadKind],
    stores: Option<&[StoreKind]>,
) -> Result<Arc<Code>> {
    let key = Key {
        target: machine::target(),
        dtypes: program.reads.clone(),
        instrs: program.instrs.clone(),
        results: program.results.clone(),
        reads: reads.to_vec(),
        stores: stores.map(<[StoreKind]>::to_vec),
    };
    if let Some(code) = IN_USE.lock().get(&key).and_then(Weak::upgrade) {
        return Ok(code);
    }
    let code = Arc::new(compile(program, reads, stores)?);
    let mut in_use = IN_USE.lock();
    // Now and then, so that it costs nothing to speak of.
    if in_use.len().is_power_of_two() {
        in_use.retain(|_, code| code.strong_count() > 0);
    }
    in_use.insert(key, Arc::downgrade(&code));
    Ok(code)
}

fn compile(program: &Program, reads: &[ReadKind], stores: Option<&[StoreKind]>) -> Result<Code> {
    let program = &without_idle_casts(program, stores);
    let attempt = |target| {
        let mut c = Compiler {
            program,
            reads,
            stores,
            target,
            code: Code::default(),
            places: HashMap::new(),
            uses: uses(program)?,
            free: HashMap::new(),
            pinned: Vec::new(),
            spots: spots(program, reads),
            chained: vec![Chained::default(); program.instrs.len()],
        };
        Ok(c.compile()?.then_some(c.code))
    };
    let target = machine::target();
    if target.is_some()
        && let Some(code) = attempt(target)?
    {
        return Ok(code);
    }
    match attempt(None)? {
        Some(code) => Ok(code),
        None => internal!("a loop in a program without loops"),
    }
}

impl<'a> Compiler<'a> {
    /// False when some loop cannot be written.
    fn compile(&mut self) -> Result<bool> {
        self.find_chains();
        self.code.can_fail = self.divides_integers();
        let early = |kind: &ReadKind| kind.early && !kind.constant && !kind.row;
        for read in (0..self.reads.len()).filter(|&read| early(&self.reads[read])) {
            for lane in self.lanes_needed(read as Reg) {
                self.load(read, lane);
            }
        }
        self.store_ready(None)?;
        for unit in self.units() {
            match unit {
                Unit::One(n) => self.one(n)?,
                Unit::Loop(all) => {
                    if !self.push_loop(&all)? {
                        return Ok(false);
                    }
                }
            }
        }
        if self.stores.is_none() {
            let reg = self.program.results[0];
            let lane = Lane::of(self.dtype(reg));
            let kept = self.value(reg, lane)?;
            self.spread(kept, lane);
            self.code.kept = Some((lane, kept));
        }
        Ok(true)
    }

    /// An instruction that is not computed in a loop of machine code.
    fn one(&mut self, n: usize) -> Result<()> {
        let reg = (self.program.reads.len() + n) as Reg;
        if self.uses[reg as usize] == 0 || self.chained[n].hidden {
            return Ok(());
        }
        let instr = &self.program.instrs[n];
        match instr.op {
            Op::Const | Op::ConstInt => {}
            _ if self.chained[n].len > 0 => self.chain(reg)?,
            _ => self.instr(reg, instr)?,
        }
        self.store_ready(Some(reg))
    }

    /// The registers that are stored, and where.
    fn results(&self) -> impl Iterator<Item = (&'a Reg, &'a StoreKind)> + use<'a> {
        self.program.results.iter().zip(self.stores.unwrap_or_default())
    }

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
        for (&result, to) in self.results() {
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
            return match self.written(reg) {
                Some(fill) => Ok(self.fill(reg, lane, fill)),
                None => {
                    internal!("register {reg} is used before it is computed, or as another type")
                }
            };
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

    /// The number that a register is by the program itself.
    fn written(&self, reg: Reg) -> Option<Fill> {
        let n = (reg as usize).checked_sub(self.program.reads.len())?;
        let instr = &self.program.instrs[n];
        match (instr.op, &instr.attrs[..]) {
            (Op::Const, [value, ..]) if instr.dtype.is_float() => {
                Some(Fill::Float(round_to(value.float(), instr.dtype)))
            }
            (Op::Const, [value, ..]) => Some(Fill::Int(as_integer(value.float(), instr.dtype))),
            (Op::ConstInt, &[Attr::Int(value), ..]) => Some(Fill::Int(wrap(value, instr.dtype))),
            _ => None,
        }
    }

    fn instr(&mut self, reg: Reg, instr: &Instr) -> Result<()> {
        let lane = Lane::of(instr.dtype);
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
            Op::Cast => Inst::Cast { from: self.dtype(instr.args[0]), dtype, arg: args[0], to },
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
        let mut results = self.results();
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
        let reads = self.program.reads.len();
        for (result, (&from, to)) in self.results().enumerate() {
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
