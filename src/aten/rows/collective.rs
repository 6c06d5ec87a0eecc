//! Collectives: `(x, …, communicator)`, where the communicator is four arguments: its number, its number of ranks, its
//! token, which is the last result, and the rank of this process.

use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::error::Result;
use crate::invalid;
use crate::op::arg::{Arg, NodeArg};
use crate::op::collective::{self, Kind, REDUCTIONS, gathered};
use crate::op::{Op, Ty};
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("torchacc::all_reduce", &[""], |c| collective(c, Kind::AllReduce, reduction(c)?, 2))
        .flows_by(1),
    row("torchacc::all_gather", &[""], |c| collective(c, Kind::AllGather, gathered::ANYTHING, 1))
        .flows_by(1),
    row("torchacc::all_gather_parameters", &[""], |c| {
        let again = c.bool(1, false)?;
        let what = if again { gathered::PARAMETERS_AGAIN } else { gathered::PARAMETERS };
        collective(c, Kind::AllGather, what, 2)
    })
    .flows_by(1),
    row("torchacc::reduce_scatter", &[""], |c| {
        collective(c, Kind::ReduceScatter, reduction(c)?, 2)
    })
    .flows_by(1),
    row("torchacc::broadcast", &[""], |c| collective(c, Kind::Broadcast, c.int(1, 0)?, 2))
        .flows_by(1),
    row("torchacc::all_to_all", &[""], |c| collective(c, Kind::AllToAll, 0, 1)).flows_by(1),
    row("torchacc::reduce", &[""], reduce).flows_by(1),
    row("torchacc::all_to_all_v", &[""], all_to_all_v).flows_by(1),
    row("torchacc::send", &[""], send).flows_by(1),
    row("torchacc::receive", &[""], receive).flows_by(0),
];

fn reduction(c: &Call) -> Result<i64> {
    let name = if c.has(1) { c.text(1)? } else { REDUCTIONS[0] };
    match REDUCTIONS.iter().position(|known| *known == name) {
        Some(number) => Ok(number as i64),
        None => invalid!("\"{name}\" is no reduction, but one of {REDUCTIONS:?} is"),
    }
}

/// The rank in an argument. Error: the communicator does not have it.
fn checked_rank(c: &Call, argument: usize, size: i64) -> Result<i64> {
    match c.int(argument, 0)? {
        rank if (0..size).contains(&rank) => Ok(rank),
        rank => invalid!("argument {argument} is to be one of {size} ranks, not {rank}"),
    }
}

/// A collective of all ranks with one number as parameter; the communicator begins at argument `at`.
fn collective<'a>(c: &Call<'a>, kind: Kind, how: i64, at: usize) -> Outs<'a> {
    let size = ranks(c, at)?;
    if kind == Kind::Broadcast {
        checked_rank(c, 1, size)?;
    }
    let result = collective::result(kind, &c.ty(0)?, size)?;
    call(c, kind, Some(0), Arg::Int(how), Some(result), at)
}

/// `(x, reduction, root, communicator)`.
fn reduce<'a>(c: &Call<'a>) -> Outs<'a> {
    let root = checked_rank(c, 2, ranks(c, 3)?)?;
    let how = Arg::Ints(smallvec![reduction(c)?, root]);
    call(c, Kind::Reduce, Some(0), how, Some(c.ty(0)?), 3)
}

/// `(x, rows for each rank, rows from each rank, communicator)`.
fn all_to_all_v<'a>(c: &Call<'a>) -> Outs<'a> {
    let rows = |argument| c.ints(argument).map(Option::unwrap_or_default);
    let mut numbers = rows(1)?;
    numbers.extend(rows(2)?);
    let result = collective::all_to_all_v_result(&c.ty(0)?, &numbers, ranks(c, 3)?)?;
    call(c, Kind::AllToAllV, Some(0), Arg::Ints(numbers), Some(result), 3)
}

/// `(x, rank, tag, communicator)`, without a result.
fn send<'a>(c: &Call<'a>) -> Outs<'a> {
    let to = checked_rank(c, 1, ranks(c, 3)?)?;
    call(c, Kind::Send, Some(0), Arg::Ints(smallvec![to, c.int(2, 0)?]), None, 3)
}

/// `(sizes, dtype, rank, tag, communicator)`.
fn receive<'a>(c: &Call<'a>) -> Outs<'a> {
    let from = checked_rank(c, 2, ranks(c, 4)?)?;
    let (Some(sizes), Some(dtype)) = (c.ints(0)?, c.dtype(1)?) else {
        return invalid!("what comes has sizes and a dtype");
    };
    let how = Arg::Ints(smallvec![from, c.int(3, 0)?]);
    call(c, Kind::Receive, None, how, Some(Ty::new(dtype, &sizes)), 4)
}

/// Number of ranks of the communicator that begins at argument `at`.
fn ranks(c: &Call, at: usize) -> Result<i64> {
    match c.arg(at + 1) {
        Arg::Int(size) => Ok(*size),
        _ => invalid!("argument {at} must be a communicator"),
    }
}

/// A call of the host operator, with argument `x`, if any, as an operand.
fn call<'a>(
    c: &Call<'a>,
    kind: Kind,
    x: Option<usize>,
    how: NodeArg,
    result: Option<Ty>,
    at: usize,
) -> Outs<'a> {
    let (communicator, Arg::Tensor(token), rank) = (c.arg(at), c.arg(at + 2), c.arg(at + 3)) else {
        return invalid!("argument {at} must be a communicator");
    };
    let scalar = |arg: &Arg<_, u32>| match arg {
        Arg::Scalar { kind, number: slot } => Ok(c.math.build(|b| b.scalar(*slot, kind.dtype()))),
        _ => invalid!("argument {at} must be a communicator"),
    };
    let mut operands = Vec::new();
    if let Some(x) = x {
        operands.push(c.tensor(x)?);
    }
    operands.extend([scalar(communicator)?, c.read(token)?, scalar(rank)?]);
    let x = x.map_or(Arg::None, |x| c.arg(x).of_node());
    let args = vec![x, how, communicator.of_node(), c.arg(at + 2).of_node(), rank.of_node()];
    c.math.ops(Op::Host, &operands, collective::attrs(kind, result, args))
}
