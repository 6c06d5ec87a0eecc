//! Rows that are one value but for a single place: `select(column == target, yes, no)`, as gradients of what picks one
//! element a row are. No column is compared.

use super::code::{Arg, ReadKind};
use super::run::{LaneType, Run, Tiles};
use super::space::{Position, first};
use crate::op::Op;
use crate::plan::{Program, Reg};
use std::collections::HashMap;

/// A comparison of the place in a row with a number of the row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// The read that counts the places.
    pub index: usize,
    /// The read that is one of them.
    pub target: usize,
}

/// The comparisons of `program` that only decide selections, by register.
pub fn spots(program: &Program, reads: &[ReadKind]) -> HashMap<Reg, Spot> {
    let kind = |reg: Reg| reads.get(reg as usize);
    let counts = |reg: Reg| kind(reg).is_some_and(|k| k.counts);
    let is_one = |reg: Reg| kind(reg).is_some_and(|k| k.row || k.constant);
    let decides = |reg: Reg| {
        let uses = program.instrs.iter().filter(|i| i.args.contains(&reg));
        let mut uses = uses.map(|i| i.op == Op::Select && !i.args[1..].contains(&reg));
        uses.all(|only| only) && !program.results.contains(&reg)
    };
    let spot = |(n, instr): (usize, &crate::plan::Instr)| {
        let reg = (program.reads.len() + n) as Reg;
        let (Op::Eq, &[a, b]) = (instr.op, &instr.args[..]) else { return None };
        let (index, target) = if counts(a) { (a, b) } else { (b, a) };
        let found = counts(index) && is_one(target) && decides(reg);
        found.then_some((reg, Spot { index: index as usize, target: target as usize }))
    };
    program.instrs.iter().enumerate().filter_map(spot).collect()
}

impl Run<'_> {
    /// `to` is `yes` where read `index` is `target`, and `no` elsewhere. The tile lies in one row.
    #[allow(clippy::too_many_arguments, reason = "the fields of an instruction")]
    pub fn spot<T: LaneType>(
        &self,
        index: usize,
        target: Arg,
        [yes, no]: [Arg; 2],
        to: Arg,
        at: &Position,
        tiles: &mut Tiles,
    ) {
        let walk = self.reads[index].walk;
        let (from, stride) = (first(at, walk), walk.strides[walk.strides.len() - 1]);
        self.into::<T>(to, at, tiles, |t, y| {
            match no {
                Arg::Constant(tile) => y.fill(T::shared(t)[tile][0]),
                _ => y.copy_from_slice(self.arg(no, at, t)),
            }
            let Arg::Constant(target) = target else { panic!("a target is one number a row") };
            let target = t.i64s[target][0];
            let place = target.checked_sub(from).filter(|d| d % stride == 0).map(|d| d / stride);
            if let Some(y) = place.and_then(|p| y.get_mut(usize::try_from(p).ok()?)) {
                *y = match yes {
                    Arg::Constant(tile) => T::shared(t)[tile][0],
                    _ => self.arg(yes, at, t)[place.unwrap_or(0) as usize],
                };
            }
        });
    }
}
