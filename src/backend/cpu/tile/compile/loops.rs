//! Loops of machine code: which instructions they compute, and how these are recorded.

use super::super::super::jit::JitLoop;
use super::super::super::jit::trace::{Compare, Element, JitMask, JitValue, Logic, record};
use super::super::super::vector::Vector;
use super::super::chain::{of_two, of_vector};
use super::super::link::{Link, UnaryOp};
use super::{Arg, Compiler, Inst, round_to};
use crate::backend::cpu::element::TileType;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Op;
use crate::plan::{Instr, Reg};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Instructions compiled together: a single one, or a loop of as many as possible.
pub(super) enum Unit {
    One(usize),
    Loop(Vec<usize>),
}

/// A register in a loop.
#[derive(Clone, Copy)]
enum Value {
    Number(JitValue),
    Truth(JitMask),
}

/// A loop being recorded.
#[derive(Default)]
struct Recording {
    values: HashMap<Reg, Value>,
    streams: Vec<(Arg, Element)>,
    numbers: Vec<(TileType, usize)>,
    /// The registers that it uses, one entry per use.
    asked: Vec<Reg>,
    /// The results that it stores.
    stored: Vec<usize>,
}

impl Recording {
    fn stream(&mut self, arg: Arg, element: Element) -> usize {
        let known = self.streams.iter().position(|&stream| stream == (arg, element));
        known.unwrap_or_else(|| {
            self.streams.push((arg, element));
            self.streams.len() - 1
        })
    }

    fn number(&mut self, tile_type: TileType, tile: usize) -> JitValue {
        let known = self.numbers.iter().position(|&number| number == (tile_type, tile));
        JitValue::number(known.unwrap_or_else(|| {
            self.numbers.push((tile_type, tile));
            self.numbers.len() - 1
        }))
    }

    fn store(&mut self, value: Value, arg: Arg, element: Element) {
        let stream = self.stream(arg, element);
        match value {
            Value::Number(x) => x.store_to(stream, element),
            Value::Truth(x) => x.store_to(stream),
        }
    }
}

/// The form in which a loop accesses memory of a type; `None`: it cannot.
fn element(dtype: DType) -> Option<Element> {
    match dtype {
        DType::F32 => Some(Element::F32),
        DType::F16 => Some(Element::F16),
        DType::BF16 => Some(Element::BF16),
        DType::Bool => Some(Element::Bool),
        _ => None,
    }
}

fn comparison(op: Op) -> Option<Compare> {
    Some(match op {
        Op::Eq => Compare::Eq,
        Op::Ne => Compare::Ne,
        Op::Lt => Compare::Lt,
        Op::Le => Compare::Le,
        Op::Gt => Compare::Gt,
        Op::Ge => Compare::Ge,
        _ => return None,
    })
}

impl Compiler<'_> {
    fn is_number(&self, reg: Reg) -> bool {
        TileType::of(self.dtype(reg)) == TileType::F32
    }

    fn is_truth(&self, reg: Reg) -> bool {
        self.dtype(reg) == DType::Bool
    }

    /// Whether an instruction is computed in a loop.
    pub(super) fn in_loop(&self, n: usize) -> bool {
        let (reg, instr) = (self.body.reads.len() + n, &self.body.instrs[n]);
        let is_spot = |reg: &Reg| self.one_hot_selects.contains_key(reg);
        if self.target.is_none()
            || is_spot(&(reg as Reg))
            || instr.args.first().is_some_and(is_spot)
        {
            return false;
        }
        let makes_number = TileType::of(instr.dtype) == TileType::F32;
        match (instr.op, instr.args.as_slice()) {
            // Large arguments need more precision than vectors of f32 have.
            (Op::Sin | Op::Cos, _) => false,
            (Op::Select, &[c, a, b]) => self.is_truth(c) && self.is_number(a) && self.is_number(b),
            (Op::Cast, &[a]) => {
                (self.is_number(a) || self.is_truth(a))
                    && (makes_number || instr.dtype == DType::Bool)
            }
            (Op::Not, &[a]) => self.is_truth(a),
            (Op::And | Op::Or | Op::Xor | Op::Max | Op::Min, &[a, b]) if self.is_truth(a) => {
                self.is_truth(b)
            }
            (op, &[a, b]) if comparison(op).is_some() => self.is_number(a) && self.is_number(b),
            _ => self.link(instr, 0).is_some(),
        }
    }

    /// The body in parts: loops are as large as possible, and follow each other only where instructions that they
    /// cannot compute come between.
    pub(super) fn units(&self) -> Vec<Unit> {
        let reads = self.body.reads.len();
        // Even: single instructions; odd: loops.
        let mut levels: Vec<usize> = Vec::new();
        for (n, instr) in self.body.instrs.iter().enumerate() {
            let makers = instr.args.iter().filter_map(|&a| (a as usize).checked_sub(reads));
            let computed = makers.filter(|&m| self.written((reads + m) as Reg).is_none());
            let after = computed.map(|m| levels[m]).max().unwrap_or(0);
            levels.push(after + (after % 2 != self.in_loop(n) as usize) as usize);
        }
        let mut order: Vec<usize> = (0..levels.len()).collect();
        order.sort_by_key(|&n| levels[n]);
        let mut units = Vec::new();
        for same in order.chunk_by(|&a, &b| levels[a] == levels[b]) {
            let needed = same.iter().copied().filter(|n| self.uses[reads + n] > 0);
            if levels[same[0]].is_multiple_of(2) {
                units.extend(needed.map(Unit::One));
            } else {
                units.push(Unit::Loop(needed.collect()));
            }
        }
        units
    }

    /// Computes instructions in one loop. False if it cannot be assembled.
    pub(super) fn push_loop(&mut self, all: &[usize]) -> Result<bool> {
        if all.is_empty() {
            return Ok(true);
        }
        let Some(target) = self.target else { return Ok(false) };
        let (recording, nodes) = record(|| self.record(all));
        let Recording { streams, numbers, asked, stored, .. } = recording?;
        let Some(jit_loop) = JitLoop::of(&nodes, target)? else { return Ok(false) };
        for &result in &stored {
            self.save(result, &asked);
        }
        self.code.insts.push(Inst::Loop { jit_loop, streams, numbers });
        asked.into_iter().for_each(|reg| self.used(reg));
        for (result, (&from, to)) in self.results().enumerate() {
            let computed = (from as usize).checked_sub(self.body.reads.len());
            if computed.is_some_and(|n| all.contains(&n)) && !stored.contains(&result) {
                self.store(result, from, to)?;
                self.used(from);
            }
        }
        Ok(true)
    }

    fn record(&mut self, all: &[usize]) -> Result<Recording> {
        let body = self.body;
        let mut recording = Recording::default();
        let inner = all.iter().flat_map(|&n| &body.instrs[n].args);
        let inner: HashMap<Reg, usize> = inner.fold(HashMap::new(), |mut uses, &reg| {
            *uses.entry(reg).or_default() += 1;
            uses
        });
        for &n in all {
            let instr = &body.instrs[n];
            let value = self.computed(instr, &mut recording)?;
            recording.asked.extend(&instr.args);
            let reg = (body.reads.len() + n) as Reg;
            recording.values.insert(reg, value);
            self.keep(reg, value, &inner, &mut recording)?;
        }
        Ok(recording)
    }

    /// Stores a register of the loop where later code finds it; `inner` counts the uses of each register within the loop.
    fn keep(
        &mut self,
        reg: Reg,
        value: Value,
        inner: &HashMap<Reg, usize>,
        recording: &mut Recording,
    ) -> Result<()> {
        let mut inside = inner.get(&reg).copied().unwrap_or(0);
        let mut found = false;
        for (result, (&from, to)) in self.results().enumerate() {
            // Code that may fail first runs without storing anything.
            let Some(element) = element(to.dtype).filter(|_| to.rows) else { continue };
            if from != reg || self.code.can_fail || !value.is(element) {
                continue;
            }
            // Reads that the store overwrites are loaded before.
            for read in 0..self.reads.len() {
                if self.reads[read].over == Some(result) && inner.contains_key(&(read as Reg)) {
                    self.feed(read as Reg, recording)?;
                }
            }
            recording.store(value, Arg::Result(result), element);
            recording.stored.push(result);
            recording.asked.push(reg);
            inside += 1;
            if element == Element::F32 && to.direct {
                self.places.insert((reg, TileType::F32), Arg::Result(result));
                found = true;
            }
        }
        if self.uses[reg as usize] > inside && !found {
            let (tile_type, element) = match value {
                Value::Number(_) => (TileType::F32, Element::F32),
                Value::Truth(_) => (TileType::U8, Element::Bool),
            };
            let tile = Arg::Tile(self.tile(tile_type));
            self.places.insert((reg, tile_type), tile);
            recording.store(value, tile, element);
        }
        Ok(())
    }

    /// The value of a register that a loop uses.
    fn feed(&mut self, reg: Reg, recording: &mut Recording) -> Result<Value> {
        if let Some(&value) = recording.values.get(&reg) {
            return Ok(value);
        }
        let dtype = self.dtype(reg);
        let tile_type = TileType::of(dtype);
        if let Some(number) = self.constant(reg).filter(|_| tile_type == TileType::F32) {
            return Ok(Value::Number(JitValue::splat(round_to(number, dtype) as f32)));
        }
        let is_direct = self.reads.get(reg as usize).is_some_and(|r| r.rows);
        let arg = match self.places.get(&(reg, tile_type)) {
            None if is_direct => Arg::Memory(reg as usize),
            _ => self.value(reg, tile_type)?,
        };
        let value = match arg {
            Arg::Constant(tile) => {
                let number = recording.number(tile_type, tile);
                match tile_type {
                    TileType::F32 => Value::Number(number),
                    _ => Value::Truth(number.compare(Compare::Ne, JitValue::splat(0.0))),
                }
            }
            _ => {
                let element = match arg {
                    Arg::Memory(_) => element(dtype),
                    _ if tile_type == TileType::F32 => Some(Element::F32),
                    _ => Some(Element::Bool),
                };
                let Some(element) = element else {
                    return internal!("a loop over elements of {dtype}");
                };
                let stream = recording.stream(arg, element);
                match element {
                    Element::Bool => Value::Truth(JitMask::of_stream(stream)),
                    _ => Value::Number(JitValue::of_stream(stream, element)),
                }
            }
        };
        recording.values.insert(reg, value);
        Ok(value)
    }

    /// The result of an instruction.
    fn computed(&mut self, instr: &Instr, recording: &mut Recording) -> Result<Value> {
        use Value::{Number, Truth};
        let link = self.link(instr, 0);
        let asks = match link {
            Some(Link::Unary(_)) => &instr.args[..1],
            _ => &instr.args[..],
        };
        let args: SmallVec<[Value; 3]> =
            asks.iter().map(|&reg| self.feed(reg, recording)).collect::<Result<_>>()?;
        Ok(match (instr.op, &args[..]) {
            (Op::Select, &[Truth(mask), Number(yes), Number(no)]) => {
                Number(JitValue::select(mask, yes, no))
            }
            (Op::Not, &[Truth(a)]) => Truth(a.inverted()),
            (Op::And | Op::Min, &[Truth(a), Truth(b)]) => Truth(a.logic(Logic::And, b)),
            (Op::Or | Op::Max, &[Truth(a), Truth(b)]) => Truth(a.logic(Logic::Or, b)),
            (Op::Xor, &[Truth(a), Truth(b)]) => Truth(a.logic(Logic::Xor, b)),
            (Op::Cast, &[Truth(a)]) if instr.dtype == DType::Bool => Truth(a),
            (Op::Cast, &[Truth(a)]) => Number(a.as_number()),
            (Op::Cast, &[Number(a)]) if instr.dtype == DType::Bool => {
                Truth(a.compare(Compare::Ne, JitValue::splat(0.0)))
            }
            (op, &[Number(a), Number(b)]) if comparison(op).is_some() => {
                Truth(a.compare(comparison(op).unwrap_or(Compare::Eq), b))
            }
            (_, &[Number(a)]) => match link {
                Some(Link::Unary(UnaryOp::ToF16)) => Number(a.to_f16()),
                Some(Link::Unary(UnaryOp::ToBF16)) => Number(a.to_bf16()),
                Some(Link::Unary(op)) => match of_vector(op, a) {
                    Some(value) => Number(value),
                    None => return internal!("{op:?} in a loop"),
                },
                _ => return internal!("{} in a loop", instr.op.name()),
            },
            (_, &[Number(a), Number(b)]) => match link {
                Some(Link::Binary(op, _)) => Number(of_two(op, a, b)),
                _ => return internal!("{} in a loop", instr.op.name()),
            },
            _ => return internal!("{} in a loop", instr.op.name()),
        })
    }
}

impl Value {
    /// Whether it can be stored as `element`.
    fn is(self, element: Element) -> bool {
        matches!(self, Value::Truth(_)) == (element == Element::Bool)
    }
}
