//! One-hot selects, rows of `no` but for a single `yes`: `select(column == target, yes, no)`, as in gradients of operations
//! that pick one element per row. No column is compared.

use super::code::{Arg, ReadKind};
use super::run::{Run, TileElement, Tiles};
use super::space::{Position, first};
use crate::op::Op;
use crate::plan::{LoopBody, Reg};
use std::collections::HashMap;

/// A comparison of the index along a row with one number per row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneHotSelect {
    /// The read that counts along the row.
    pub index: usize,
    /// The read that holds the number.
    pub target: usize,
}

/// The comparisons in `body` that are used only as conditions of selects, by register.
pub fn one_hot_selects(body: &LoopBody, reads: &[ReadKind]) -> HashMap<Reg, OneHotSelect> {
    let kind = |reg: Reg| reads.get(reg as usize);
    let counts = |reg: Reg| kind(reg).is_some_and(|k| k.counts);
    let is_one = |reg: Reg| kind(reg).is_some_and(|k| k.row || k.constant);
    let decides = |reg: Reg| {
        let uses = body.instrs.iter().filter(|i| i.args.contains(&reg));
        let mut uses = uses.map(|i| i.op == Op::Select && !i.args[1..].contains(&reg));
        uses.all(|only| only) && !body.results.contains(&reg)
    };
    let one_hot_select = |(n, instr): (usize, &crate::plan::Instr)| {
        let reg = (body.reads.len() + n) as Reg;
        let (Op::Eq, &[a, b]) = (instr.op, &instr.args[..]) else { return None };
        let (index, target) = if counts(a) { (a, b) } else { (b, a) };
        let found = counts(index) && is_one(target) && decides(reg);
        found.then_some((reg, OneHotSelect { index: index as usize, target: target as usize }))
    };
    body.instrs.iter().enumerate().filter_map(one_hot_select).collect()
}

impl Run<'_> {
    /// `to` is `yes` where read `index` is `target`, and `no` elsewhere. The tile lies in one row.
    #[allow(clippy::too_many_arguments, reason = "the fields of an instruction")]
    pub fn one_hot_select<T: TileElement>(
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
