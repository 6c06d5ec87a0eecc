//! Compiles a loop body to a list of vector operations. Where machine code can be written, f32 computations and the
//! decisions based on them are gathered in loops of it ([`loops`]). Elsewhere each operation is a loop over tiles, which
//! are reused as soon as their value is dead, so that few are live and they stay in the first-level cache; an f32 value
//! with a single use is computed in the chain of its user and has no tile ([`chains`]).

mod chains;
mod loops;
mod uniform;

use super::super::element::TileType;
use super::super::isa::Isa;
use super::super::jit;
use super::code::{Arg, Code, Fill, Inst, ReadKind, StoreKind, wrap};
use super::one_hot::{OneHotSelect, one_hot_selects};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::array::as_integer;
use crate::op::{Attr, Op};
use crate::plan::{Instr, LoopBody, Reg};
use chains::{Chained, with_reciprocals, without_idle_casts};
use loops::Unit;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

/// A register of the body in one tile type.
type Value = (Reg, TileType);

struct Compiler<'a> {
    body: &'a LoopBody,
    reads: &'a [ReadKind],
    /// `None`: a reduction, whose result is kept.
    stores: Option<&'a [StoreKind]>,
    /// The instruction set of the machine code; `None`: no machine code.
    target: Option<Isa>,
    code: Code,
    places: HashMap<Value, Arg>,
    /// Remaining uses of each register.
    uses: Vec<usize>,
    free: HashMap<TileType, Vec<usize>>,
    pinned: Vec<Value>,
    one_hot_selects: HashMap<Reg, OneHotSelect>,
    /// For each instruction.
    chained: Vec<Chained>,
    /// For each register, whether it is one number.
    uniform: Vec<bool>,
}

/// The inputs of compilation: layers of a model, and programs for other sizes, often share them.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    target: Option<Isa>,
    dtypes: Vec<DType>,
    instrs: Vec<Instr>,
    results: Vec<Reg>,
    reads: Vec<ReadKind>,
    stores: Option<Vec<StoreKind>>,
}

type InUse = HashMap<Key, Weak<Code>>;

static IN_USE: LazyLock<Mutex<InUse>> = LazyLock::new(Mutex::default);

/// The code of `body`; `stores` are its writes, or `None` for a reduction, which keeps its result.
pub fn code(
    body: &LoopBody,
    reads: &[ReadKind],
    stores: Option<&[StoreKind]>,
) -> Result<Arc<Code>> {
    let key = Key {
        target: jit::target(),
        dtypes: body.reads.clone(),
        instrs: body.instrs.clone(),
        results: body.results.clone(),
        reads: reads.to_vec(),
        stores: stores.map(<[StoreKind]>::to_vec),
    };
    if let Some(code) = IN_USE.lock().get(&key).and_then(Weak::upgrade) {
        return Ok(code);
    }
    let code = Arc::new(compile(body, reads, stores)?);
    let mut in_use = IN_USE.lock();
    // Only now and then, so that the cost is negligible.
    if in_use.len().is_power_of_two() {
        in_use.retain(|_, code| code.strong_count() > 0);
    }
    in_use.insert(key, Arc::downgrade(&code));
    Ok(code)
}

fn compile(body: &LoopBody, reads: &[ReadKind], stores: Option<&[StoreKind]>) -> Result<Code> {
    let body = &with_reciprocals(without_idle_casts(body, stores));
    let attempt = |target| {
        let mut c = Compiler {
            body,
            reads,
            stores,
            target,
            code: Code::default(),
            places: HashMap::new(),
            uses: uses(body)?,
            free: HashMap::new(),
            pinned: Vec::new(),
            one_hot_selects: one_hot_selects(body, reads),
            chained: vec![Chained::default(); body.instrs.len()],
            uniform: Vec::new(),
        };
        Ok(c.compile()?.then_some(c.code))
    };
    let target = jit::target();
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
    /// False if some loop cannot be assembled.
    fn compile(&mut self) -> Result<bool> {
        self.find_chains();
        self.code.can_fail = self.divides_integers();
        self.uniform = self.uniform_registers();
        let early = |kind: &ReadKind| kind.early && !kind.constant && !kind.row;
        for read in (0..self.reads.len()).filter(|&read| early(&self.reads[read])) {
            for tile_type in self.lanes_needed(read as Reg) {
                self.load(read, tile_type);
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
            let reg = self.body.results[0];
            let tile_type = TileType::of(self.dtype(reg));
            let kept = self.value(reg, tile_type)?;
            self.spread(kept, tile_type);
            self.code.kept = Some((tile_type, kept));
        }
        Ok(true)
    }

    /// Compiles an instruction outside loops of machine code.
    fn one(&mut self, n: usize) -> Result<()> {
        let reg = (self.body.reads.len() + n) as Reg;
        if self.uses[reg as usize] == 0 || self.chained[n].hidden {
            return Ok(());
        }
        let instr = &self.body.instrs[n];
        match instr.op {
            Op::Const | Op::ConstInt => {}
            _ if self.chained[n].len > 0 => self.chain(reg)?,
            _ => self.instr(reg, instr)?,
        }
        self.store_ready(Some(reg))
    }

    /// The registers that are stored, and their destinations.
    fn results(&self) -> impl Iterator<Item = (&'a Reg, &'a StoreKind)> + use<'a> {
        self.body.results.iter().zip(self.stores.unwrap_or_default())
    }

    fn dtype(&self, reg: Reg) -> DType {
        let reads = self.body.reads.len();
        match self.body.reads.get(reg as usize) {
            Some(&dtype) => dtype,
            None => self.body.instrs[reg as usize - reads].dtype,
        }
    }

    /// The tile type in which `reg` is stored as `to`: plain bytes if it is only moved.
    fn store_lane(&self, reg: Reg, to: DType) -> TileType {
        let moved = (reg as usize) < self.body.reads.len() && self.dtype(reg) == to;
        if moved && !self.reads[reg as usize].constant {
            TileType::moving(to)
        } else {
            TileType::of(to)
        }
    }

    /// The tile types in which a read is needed.
    fn lanes_needed(&self, reg: Reg) -> SmallVec<[TileType; 2]> {
        let mut lanes = SmallVec::new();
        if self.body.instrs.iter().any(|i| i.args.contains(&reg)) {
            lanes.push(TileType::of(self.dtype(reg)));
        }
        for (&result, to) in self.results() {
            let tile_type = self.store_lane(reg, to.dtype);
            if result == reg && !lanes.contains(&tile_type) {
                lanes.push(tile_type);
            }
        }
        lanes
    }

    fn tile(&mut self, tile_type: TileType) -> usize {
        match self.free.get_mut(&tile_type).and_then(Vec::pop) {
            Some(tile) => tile,
            None => self.new_tile(tile_type),
        }
    }

    fn new_tile(&mut self, tile_type: TileType) -> usize {
        let n = self.code.tiles.entry(tile_type).or_insert(0);
        *n += 1;
        *n - 1
    }

    /// Takes a tile that is filled once, before anything is computed, and so is always a new one.
    fn fill(&mut self, reg: Reg, tile_type: TileType, fill: Fill) -> Arg {
        let to = self.new_tile(tile_type);
        self.code.fills.push((tile_type, to, fill));
        self.pinned.push((reg, tile_type));
        self.places.insert((reg, tile_type), Arg::Constant(to));
        Arg::Constant(to)
    }

    /// As [`Compiler::fill`], but with the read's element for each row.
    fn fill_row(&mut self, reg: Reg, tile_type: TileType) -> Arg {
        let to = self.new_tile(tile_type);
        self.code.row_fills.push((tile_type, to, reg as usize));
        self.pinned.push((reg, tile_type));
        self.places.insert((reg, tile_type), Arg::Constant(to));
        Arg::Constant(to)
    }

    /// Records that all elements of an argument are read.
    fn spread(&mut self, arg: Arg, tile_type: TileType) {
        if let Arg::Constant(tile) = arg
            && !self.code.spread.contains(&(tile_type, tile))
        {
            self.code.spread.push((tile_type, tile));
        }
    }

    fn load(&mut self, read: usize, tile_type: TileType) -> Arg {
        let to = self.tile(tile_type);
        self.code.insts.push(Inst::Load { read, tile_type, to });
        self.places.insert((read as Reg, tile_type), Arg::Tile(to));
        Arg::Tile(to)
    }

    /// The location of a register; loads a read that has not been loaded.
    fn value(&mut self, reg: Reg, tile_type: TileType) -> Result<Arg> {
        if let Some(&arg) = self.places.get(&(reg, tile_type)) {
            return Ok(arg);
        }
        let Some(&kind) = self.reads.get(reg as usize) else {
            return match self.written(reg) {
                Some(fill) => Ok(self.fill(reg, tile_type, fill)),
                None => {
                    internal!("register {reg} is used before it is computed, or as another type")
                }
            };
        };
        if kind.constant {
            return Ok(self.fill(reg, tile_type, Fill::Read(reg as usize)));
        }
        // Values that are only moved keep their bytes.
        if kind.row && tile_type == TileType::of(self.body.reads[reg as usize]) {
            return Ok(self.fill_row(reg, tile_type));
        }
        if kind.direct && kind.over.is_none() && tile_type.is_native(self.body.reads[reg as usize])
        {
            return Ok(Arg::Memory(reg as usize));
        }
        Ok(self.load(reg as usize, tile_type))
    }

    /// Records a use; after the last one the register's tiles are free.
    fn used(&mut self, reg: Reg) {
        self.uses[reg as usize] -= 1;
        if self.uses[reg as usize] > 0 {
            return;
        }
        for tile_type in [
            TileType::U8,
            TileType::U16,
            TileType::U32,
            TileType::I64,
            TileType::F32,
            TileType::F64,
        ] {
            let Some(Arg::Tile(tile)) = self.places.get(&(reg, tile_type)).copied() else {
                continue;
            };
            if !self.pinned.contains(&(reg, tile_type)) {
                self.free.entry(tile_type).or_default().push(tile);
                self.places.remove(&(reg, tile_type));
            }
        }
    }

    fn constant(&self, reg: Reg) -> Option<f64> {
        let n = (reg as usize).checked_sub(self.body.reads.len())?;
        let instr = &self.body.instrs[n];
        (instr.op == Op::Const).then(|| instr.attrs[0].float())
    }

    /// The number in a register that is a constant of the body.
    fn written(&self, reg: Reg) -> Option<Fill> {
        let n = (reg as usize).checked_sub(self.body.reads.len())?;
        let instr = &self.body.instrs[n];
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
        let tile_type = TileType::of(instr.dtype);
        if self.one_hot_selects.contains_key(&reg) {
            instr.args.iter().for_each(|&a| self.used(a));
            return Ok(());
        }
        if instr.op == Op::Select
            && let Some(&one_hot_select) = self.one_hot_selects.get(&instr.args[0])
        {
            return self.one_hot_select(reg, instr, one_hot_select);
        }
        // `select` computes in the tile type of the selected values, `cast` and comparisons in that of their operand.
        let from = match instr.op {
            Op::Select => TileType::of(self.dtype(instr.args[1])),
            op if op.draws() => TileType::I64,
            _ => TileType::of(self.dtype(instr.args[0])),
        };
        let mut args = SmallVec::new();
        let is_uniform = self.uniform[reg as usize];
        for (k, &arg) in instr.args.iter().enumerate() {
            let tile_type = if instr.op == Op::Select && k == 0 { TileType::U8 } else { from };
            let arg = self.value(arg, tile_type)?;
            if !takes_numbers(instr, from) && !is_uniform {
                self.spread(arg, tile_type);
            }
            args.push(arg);
        }
        let to = match is_uniform {
            true => self.uniform_tile(reg, tile_type),
            false => self.target(reg, tile_type),
        };
        let (op, dtype) = (instr.op, instr.dtype);
        if let Arg::Result(result) = to {
            self.save(result, &instr.args);
        }
        let inst = match op {
            Op::Cast => Inst::Cast { from: self.dtype(instr.args[0]), dtype, arg: args[0], to },
            _ => Inst::Compute { op, tile_type: from, dtype, args, to },
        };
        if is_uniform {
            self.code.uniform.push(inst);
        } else {
            self.code.insts.push(inst);
            self.places.insert((reg, tile_type), to);
        }
        instr.args.iter().for_each(|&a| self.used(a));
        Ok(())
    }

    /// Compiles a select whose condition is `one_hot_select`.
    fn one_hot_select(
        &mut self,
        reg: Reg,
        instr: &Instr,
        one_hot_select: OneHotSelect,
    ) -> Result<()> {
        let tile_type = TileType::of(instr.dtype);
        let target = self.value(one_hot_select.target as Reg, TileType::I64)?;
        let args = [self.value(instr.args[1], tile_type)?, self.value(instr.args[2], tile_type)?];
        let to = self.target(reg, tile_type);
        if let Arg::Result(result) = to {
            self.save(result, &instr.args);
        }
        self.code.insts.push(Inst::OneHotSelect {
            index: one_hot_select.index,
            target,
            tile_type,
            args,
            to,
        });
        self.places.insert((reg, tile_type), to);
        instr.args.iter().for_each(|&a| self.used(a));
        Ok(())
    }

    /// The destination of a computed register: where it is stored, if it has the same form there and no other use.
    fn target(&mut self, reg: Reg, tile_type: TileType) -> Arg {
        let mut results = self.results();
        let fits = |(&r, to): (&Reg, &StoreKind)| {
            r == reg
                && to.direct
                && tile_type == TileType::of(to.dtype)
                && tile_type.is_native(to.dtype)
        };
        match results.position(fits) {
            // Code that may fail first runs without storing anything.
            Some(k) if self.uses[reg as usize] == 1 && !self.code.can_fail => Arg::Result(k),
            _ => Arg::Tile(self.tile(tile_type)),
        }
    }

    fn divides_integers(&self) -> bool {
        let divides = |i: &Instr| {
            matches!(i.op, Op::Div | Op::Rem)
                && TileType::of(self.dtype(i.args[0])) == TileType::I64
        };
        self.body.instrs.iter().any(divides)
    }

    /// Stores the results that are ready once `reg` is computed (`None`: those that are reads).
    fn store_ready(&mut self, reg: Option<Reg>) -> Result<()> {
        let reads = self.body.reads.len();
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
        let tile_type = self.store_lane(from, to.dtype);
        if tile_type == TileType::F32 && to.chains() {
            let start = self.chain_value(from)?;
            if start != Arg::Result(result) {
                self.push_chain(start, Vec::new(), Arg::Result(result), &[from]);
            }
            return Ok(());
        }
        let arg = self.value(from, tile_type)?;
        self.spread(arg, tile_type);
        if arg != Arg::Result(result) {
            self.save(result, &[from]);
            self.code.insts.push(Inst::Store { result, tile_type, arg });
        }
        Ok(())
    }
}

/// Number of uses of each register by results and live instructions.
fn uses(body: &LoopBody) -> Result<Vec<usize>> {
    let reads = body.reads.len();
    let mut uses = vec![0; reads + body.instrs.len()];
    let ask = |uses: &mut Vec<usize>, reg: Reg| match uses.get_mut(reg as usize) {
        Some(n) => {
            *n += 1;
            Ok(())
        }
        None => internal!("register {reg} does not exist"),
    };
    body.results.iter().try_for_each(|&reg| ask(&mut uses, reg))?;
    for (n, instr) in body.instrs.iter().enumerate().rev() {
        if uses[reads + n] > 0 {
            instr.args.iter().try_for_each(|&reg| ask(&mut uses, reg))?;
        }
    }
    Ok(uses)
}

/// Whether the loop of an instruction accepts single numbers as operands of `tile_type`.
fn takes_numbers(instr: &Instr, tile_type: TileType) -> bool {
    tile_type == TileType::F32 && instr.args.len() == 2 && instr.dtype != DType::Bool
}

/// Rounds a constant to its dtype.
fn round_to(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f32(value as f32).to_f64(),
        DType::BF16 => half::bf16::from_f32(value as f32).to_f64(),
        DType::F32 => value as f32 as f64,
        _ => value,
    }
}
