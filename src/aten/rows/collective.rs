//! Collectives: `(x, …, communicator)`, where the communicator stands for four arguments: its number, how many ranks it
//! has, its token, which is the last result, and which rank this is.

use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::error::Result;
use crate::invalid;
use crate::op::Op;
use crate::op::collective::{self, Kind, REDUCTIONS};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    row("torchacc::all_reduce", &[""], |c| collective(c, Kind::AllReduce, reduction(c)?, 2))
        .flows_by(1),
    row("torchacc::all_gather", &[""], |c| collective(c, Kind::AllGather, 0, 1)).flows_by(1),
    row("torchacc::reduce_scatter", &[""], |c| {
        collective(c, Kind::ReduceScatter, reduction(c)?, 2)
    })
    .flows_by(1),
    row("torchacc::broadcast", &[""], |c| collective(c, Kind::Broadcast, c.int(1, 0)?, 2))
        .flows_by(1),
    row("torchacc::all_to_all", &[""], |c| collective(c, Kind::AllToAll, 0, 1)).flows_by(1),
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
    let (communicator, Arg::Int(size), Arg::Tensor(token), rank) =
        (c.arg(at), c.arg(at + 1), c.arg(at + 2), c.arg(at + 3))
    else {
        return invalid!("argument {at} must be a communicator");
    };
    if kind == Kind::Broadcast && !(0..*size).contains(&how) {
        return invalid!("rank {how} of {size} is to broadcast");
    }
    let scalar = |arg: &Arg| match arg {
        Arg::Scalar { kind, slot } => Ok(c.math.build(|b| b.scalar(*slot, kind.dtype()))),
        _ => invalid!("argument {at} must be a communicator"),
    };
    let result = collective::result(kind, &c.ty(0)?, *size)?;
    let operands = [c.tensor(0)?, scalar(communicator)?, c.read(token)?, scalar(rank)?];
    let [x, token] = [0, at + 2].map(|n| c.arg(n).clone());
    let args = vec![x, Arg::Int(how), communicator.clone(), token, rank.clone()];
    c.math.ops(Op::Host, &operands, collective::attrs(kind, result, args))
}
