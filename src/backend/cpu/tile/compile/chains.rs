//! Which instructions are computed in one chain, and which casts need no instruction.

use super::super::link::{BinaryOp, Link, MAX_LINKS, UnaryOp};
use super::{Arg, Compiler, Inst, StoreKind};
use crate::backend::cpu::element::TileType;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::array::Array;
use crate::op::{Attr, Op};
use crate::plan::{Instr, LoopBody, Reg};

/// How an instruction belongs to a chain.
#[derive(Clone, Copy, Default)]
pub(super) struct Chained {
    /// Number of operations in the chain up to this one; 0: not in a chain.
    pub len: usize,
    /// The operand that is computed in the same chain.
    pub inner: Option<usize>,
    /// Computed in the chain of its only user.
    pub hidden: bool,
}

impl Compiler<'_> {
    /// Loads the reads that `result` is about to overwrite, if they are used after the next instruction, which uses `now`.
    pub(super) fn save(&mut self, result: usize, now: &[Reg]) {
        for read in 0..self.reads.len() {
            let reg = read as Reg;
            let asked = now.iter().filter(|&&n| n == reg).count();
            if self.reads[read].over != Some(result) || self.uses[read] <= asked {
                continue;
            }
            for tile_type in self.lanes_needed(reg) {
                if !self.places.contains_key(&(reg, tile_type)) {
                    self.load(read, tile_type);
                }
            }
        }
    }

    /// The chain operation for an instruction with operand number `hand` as the running value, if there is one.
    pub(super) fn link(&self, instr: &Instr, hand: usize) -> Option<Link<Reg>> {
        let in_f32 = |dtype| TileType::of(dtype) == TileType::F32;
        if !in_f32(instr.dtype) || !instr.args.iter().all(|&a| in_f32(self.dtype(a))) {
            return None;
        }
        match (instr.op, instr.args.as_slice()) {
            (op, &[_]) => UnaryOp::of(op, instr.dtype).map(Link::Unary),
            (Op::Pow, &[_, exponent]) => match self.constant(exponent)? {
                2.0 => Some(Link::Unary(UnaryOp::Square)),
                3.0 => Some(Link::Unary(UnaryOp::Cube)),
                _ => None,
            },
            (op, &[a, b]) => {
                let other = if hand == 0 { b } else { a };
                BinaryOp::of(op, hand).map(|op| Link::Binary(op, other))
            }
            _ => None,
        }
    }

    /// Finds the instructions of chains. Of two operands that could be computed in the same chain, the one with the
    /// longer chain is.
    pub(super) fn find_chains(&mut self) {
        let reads = self.body.reads.len();
        for (n, instr) in self.body.instrs.iter().enumerate() {
            let looped = self.in_loop(n);
            if self.uses[reads + n] == 0 || looped || self.link(instr, 0).is_none() {
                continue;
            }
            let takes = |(k, &arg): (usize, &Reg)| {
                let maker = (arg as usize).checked_sub(reads)?;
                let len = self.chained[maker].len;
                let fits = self.uses[arg as usize] == 1 && (1..MAX_LINKS).contains(&len);
                let handed = !matches!((instr.op, k), (Op::Pow, 1));
                (fits && handed).then_some((len, k, maker))
            };
            let found = instr.args.iter().enumerate().filter_map(takes).max();
            if let Some((len, k, maker)) = found {
                self.chained[maker].hidden = true;
                self.chained[n] = Chained { len: len + 1, inner: Some(k), hidden: false };
            } else {
                self.chained[n].len = 1;
            }
        }
    }

    /// [`Compiler::value`] for a chain, which converts bf16 itself. A bf16 read with many uses is better loaded once.
    pub(super) fn chain_value(&mut self, reg: Reg) -> Result<Arg> {
        if let Some(kind) = self.reads.get(reg as usize)
            && !self.places.contains_key(&(reg, TileType::F32))
            && kind.direct
            && !kind.constant
        {
            let often = self.uses[reg as usize] > 2;
            match self.body.reads[reg as usize] {
                DType::F32 => return Ok(Arg::Memory(reg as usize)),
                DType::BF16 if !often => return Ok(Arg::Memory(reg as usize)),
                _ => {}
            }
        }
        self.value(reg, TileType::F32)
    }

    /// Computes `reg` and the instructions hidden in its chain.
    pub(super) fn chain(&mut self, reg: Reg) -> Result<()> {
        let reads = self.body.reads.len();
        let (mut asked, mut links) = (Vec::new(), Vec::new());
        let mut at = reg;
        loop {
            let n = at as usize - reads;
            let instr = &self.body.instrs[n];
            let hand = self.chained[n].inner.unwrap_or(0);
            let Some(link) = self.link(instr, hand) else {
                return internal!("{} in a chain", instr.op.name());
            };
            links.push(match link {
                Link::Unary(op) => Link::Unary(op),
                Link::Binary(op, other) => {
                    asked.push(other);
                    Link::Binary(op, self.chain_value(other)?)
                }
            });
            at = instr.args[hand];
            if self.chained[n].inner.is_none() {
                break;
            }
        }
        links.reverse();
        asked.push(at);
        let start = self.chain_value(at)?;
        let to = self.chain_target(reg);
        self.push_chain(start, links, to, &asked);
        self.places.insert((reg, TileType::F32), to);
        asked.into_iter().for_each(|a| self.used(a));
        Ok(())
    }

    /// `asked`: the registers that the chain reads.
    pub(super) fn push_chain(
        &mut self,
        start: Arg,
        mut links: Vec<Link<Arg>>,
        to: Arg,
        asked: &[Reg],
    ) {
        let mut start = start;
        if let Arg::Result(result) = to {
            self.save(result, asked);
            let reads = self.reads;
            let own = |arg: &mut Arg| {
                if let Arg::Memory(read) = *arg
                    && reads[read].over == Some(result)
                {
                    *arg = Arg::Own(read);
                }
            };
            own(&mut start);
            for link in &mut links {
                if let Link::Binary(_, arg) = link {
                    own(arg);
                }
            }
        }
        self.code.insts.push(Inst::Chain { start, links, to });
    }

    /// The destination of a chain's result: where it is stored, if its other uses can read it there.
    fn chain_target(&mut self, reg: Reg) -> Arg {
        let alone = self.uses[reg as usize] == 1;
        let mut results = self.results();
        let fits = |(&r, to): (&Reg, &StoreKind)| {
            r == reg && to.chains() && (alone || to.dtype == DType::F32)
        };
        match results.position(fits) {
            // Code that may fail first runs without storing anything.
            Some(k) if !self.code.can_fail => Arg::Result(k),
            _ => Arg::Tile(self.tile(TileType::F32)),
        }
    }
}

impl StoreKind {
    /// Whether a chain can write it.
    pub(super) fn chains(&self) -> bool {
        self.direct && matches!(self.dtype, DType::F32 | DType::BF16)
    }
}

/// The body without redundant casts: half types are computed as f32, and rounded when they are stored.
pub(super) fn without_idle_casts(body: &LoopBody, stores: Option<&[StoreKind]>) -> LoopBody {
    let mut body = body.clone();
    let reads = body.reads.len();
    let mut same: Vec<Reg> = (0..(reads + body.instrs.len()) as Reg).collect();
    let mut dtypes: Vec<DType> = body.reads.clone();
    // The operands of casts between types computed in f32.
    let mut operands: Vec<Option<Reg>> = vec![None; reads];
    for (n, instr) in body.instrs.iter_mut().enumerate() {
        instr.args.iter_mut().for_each(|a| *a = same.get(*a as usize).copied().unwrap_or(*a));
        let from = instr.args.first().and_then(|&a| dtypes.get(a as usize));
        let idle = instr.op == Op::Cast
            && TileType::of(instr.dtype) == TileType::F32
            && from.is_some_and(|&d| TileType::of(d) == TileType::F32);
        operands.push(instr.args.first().copied().filter(|_| idle));
        if idle && instr.dtype == DType::F32 {
            same[reads + n] = instr.args[0];
        }
        dtypes.push(instr.dtype);
    }
    for (k, result) in body.results.iter_mut().enumerate() {
        *result = same.get(*result as usize).copied().unwrap_or(*result);
        let to = stores.map(|stores| stores[k].dtype);
        if let Some(&Some(operand)) = operands.get(*result as usize)
            && to == Some(dtypes[*result as usize])
        {
            *result = operand;
        }
    }
    body
}

/// The body with divisions by powers of two replaced by products: the same real numbers, rounded once. Not done before
/// planning, since sizes that are powers of two would then have other plans than the rest.
pub(super) fn with_reciprocals(mut body: LoopBody) -> LoopBody {
    let reads = body.reads.len() as Reg;
    let is_quotient = |instr: &Instr| instr.op == Op::Div && instr.dtype.is_float();
    for n in 0..body.instrs.len() {
        let reg = reads + n as Reg;
        let asks = |instr: &&mut Instr| instr.args.contains(&reg);
        let divides = |instr: &Instr| is_quotient(instr) && instr.args[0] != reg;
        let Some(reciprocal) = exact_reciprocal(&body.instrs[n]) else { continue };
        let only_divides = body.instrs.iter().filter(|i| i.args.contains(&reg)).all(divides);
        if only_divides && !body.results.contains(&reg) {
            body.instrs[n].attrs[0] = Attr::Float(reciprocal);
            body.instrs.iter_mut().filter(asks).for_each(|quotient| quotient.op = Op::Mul);
        }
    }
    body
}

/// 1/y for a constant y that is a power of two, if the dtype represents it.
fn exact_reciprocal(y: &Instr) -> Option<f64> {
    let number = |value: f64| Array::from_f64(y.dtype, &[], &[value]).f64(0);
    let value = match (y.op, &y.attrs[..]) {
        (Op::Const, &[Attr::Float(value), ..]) if y.dtype.is_float() => number(value),
        _ => return None,
    };
    let is_power =
        value.is_normal() && value.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1;
    let stored = number(1.0 / value);
    (is_power && stored == 1.0 / value && stored.is_normal()).then_some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    /// A quotient by a number, and what else there is of it.
    fn of_quotient(dtype: DType, number: f64, others: &[Instr], results: &[Reg]) -> Vec<Instr> {
        let instr = |op, attrs, args: &[Reg]| Instr { op, attrs, dtype, args: args.into() };
        let mut instrs = vec![
            instr(Op::Const, smallvec![Attr::Float(number)], &[]),
            instr(Op::Div, smallvec![], &[0, 1]),
        ];
        instrs.extend_from_slice(others);
        let body =
            LoopBody { sizes: smallvec![4], reads: vec![dtype], instrs, results: results.to_vec() };
        with_reciprocals(body).instrs
    }

    fn is_product(dtype: DType, number: f64) -> bool {
        let instrs = of_quotient(dtype, number, &[], &[2]);
        let factor = instrs[0].attrs[0].float();
        assert_eq!(factor, if instrs[1].op == Op::Mul { 1.0 / number } else { number });
        instrs[1].op == Op::Mul
    }

    #[test]
    fn powers_of_two_divide_by_products() {
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            assert!([8.0, -0.5, 2.0].iter().all(|&number| is_product(dtype, number)), "{dtype}");
            assert!(![3.0, 0.0, f64::INFINITY].iter().any(|&n| is_product(dtype, n)), "{dtype}");
        }
        // The type has no such reciprocal.
        assert!(is_product(DType::F64, 2f64.powi(-140)));
        assert!(!is_product(DType::F32, 2f64.powi(-140)));
        assert!(!is_product(DType::F16, 2f64.powi(-20)));
    }

    #[test]
    fn a_divisor_that_is_wanted_itself_stays() {
        let dtype = DType::F32;
        let sum = Instr { op: Op::Add, attrs: smallvec![], dtype, args: smallvec![2, 1] };
        assert_eq!(of_quotient(dtype, 8.0, &[sum], &[3])[1].op, Op::Div);
        assert_eq!(of_quotient(dtype, 8.0, &[], &[2, 1])[1].op, Op::Div);
        let inverse = Instr { op: Op::Div, attrs: smallvec![], dtype, args: smallvec![1, 0] };
        assert_eq!(of_quotient(dtype, 8.0, &[inverse], &[3])[1].op, Op::Div);
    }
}
