//! Collectives: `(x, …, communicator)`, where the communicator stands for three arguments: its number, how many ranks it
//! has, and its token, which is the last result.

use crate::aten::call::{Call, scalar_dtype};
use crate::aten::{Outs, Row, row};
use crate::error::Result;
use crate::invalid;
use crate::op::collective::{self, Kind, REDUCTIONS, TOKEN};
use crate::op::{Attr, Op, Ty};
use crate::record::Arg;
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("torchacc::all_reduce", &[""], |c| collective(c, Kind::AllReduce, reduction(c)?, 2)),
    row("torchacc::all_gather", &[""], |c| collective(c, Kind::AllGather, 0, 1)),
    row("torchacc::reduce_scatter", &[""], |c| {
        collective(c, Kind::ReduceScatter, reduction(c)?, 2)
    }),
    row("torchacc::broadcast", &[""], |c| collective(c, Kind::Broadcast, c.int(1, 0)?, 2)),
    row("torchacc::all_to_all", &[""], |c| collective(c, Kind::AllToAll, 0, 1)),
];

fn reduction(c: &Call) -> Result<i64> {
    let name = if c.has(1) { c.text(1)? } else { REDUCTIONS[0] };
    match REDUCTIONS.iter().position(|known| *known == name) {
        Some(number) => Ok(number as i64),
        None => invalid!("\"{name}\" is no reduction, but one of {REDUCTIONS:?} is"),
    }
}

/// A call of the host operator; the communicator begins at argument `at`.
fn collective<'a>(c: &Call<'a>, kind: Kind, how: i64, at: usize) -> Outs<'a> {
    let (communicator, Arg::Int(size), Arg::Tensor(token)) =
        (c.arg(at), c.arg(at + 1), c.arg(at + 2))
    else {
        return invalid!("argument {at} must be a communicator");
    };
    if kind == Kind::Broadcast && !(0..*size).contains(&how) {
        return invalid!("rank {how} of {size} is to broadcast");
    }
    let Arg::Scalar { kind: scalar, slot } = communicator else {
        return invalid!("argument {at} must be a communicator");
    };
    let result = collective::result(kind, &c.ty(0)?, *size)?;
    let number = c.math.build(|b| b.scalar(*slot, scalar_dtype(*scalar)));
    let operands = [c.tensor(0)?, number, c.read(token)?];
    let args = vec![c.arg(0).clone(), Arg::Int(how), communicator.clone(), c.arg(at + 2).clone()];
    let types = vec![result, Ty::new(TOKEN.0, &TOKEN.1)];
    let id = collective::operator(kind);
    let attrs = smallvec![Attr::Int(id as i64), Attr::Types(types), Attr::Args(args)];
    c.math.ops(Op::Host, &operands, attrs)
}
