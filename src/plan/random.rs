//! Random programs for tests: well formed by construction, small, and with movements as often as arithmetic.

use super::training::Make;
use crate::dtype::DType::{F32, F64, I32, I64, U8};
use crate::graph::{Graph, ValueId};
use crate::op::collective::{Kind, TOKEN, gathered, result};
use crate::op::{Attr, Op};
use smallvec::smallvec;

/// Numbers that are as good as random (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    /// A value, rather a late one, so that programs are deep.
    fn pick(&mut self, values: &[ValueId]) -> ValueId {
        let n = values.len();
        let (a, b) = (self.below(n), self.below(n));
        values[a.max(b)]
    }

    fn of(&mut self, ops: &[Op]) -> Op {
        ops[self.below(ops.len())]
    }
}

const SIZES: [&[i64]; 4] = [&[4, 6], &[6, 4], &[2, 3, 4], &[4]];

/// The communicators of [`random_ranks_program`]: their number, the input of the first one's token, and its scalar;
/// that of the rank comes after them.
pub const COMMUNICATORS: usize = 2;
pub const FIRST_TOKEN: u32 = SIZES.len() as u32;
pub const FIRST_COMMUNICATOR: u32 = 3;
/// Number of ranks of each.
pub const RANKS: i64 = 2;

/// A program over f32 inputs, one f64 and two i64 scalars, and offers of its inputs to its outputs.
pub fn random_program(seed: u64) -> (Graph, Vec<Option<u32>>) {
    random(seed, false, false)
}

/// The same with collectives of several communicators, whose tokens are the first outputs.
pub fn random_ranks_program(seed: u64) -> (Graph, Vec<Option<u32>>) {
    random(seed, true, false)
}

/// The same with values that are on the host for a while, too.
pub fn random_lanes_program(seed: u64) -> (Graph, Vec<Option<u32>>) {
    random(seed, true, true)
}

fn random(seed: u64, has_ranks: bool, has_copies: bool) -> (Graph, Vec<Option<u32>>) {
    let mut dice = Dice(seed);
    let mut m = Make::default();
    let mut tokens = Vec::new();
    let scalar = |m: &mut Make, n: usize| m.0.scalar(FIRST_COMMUNICATOR + n as u32, I64).unwrap();
    for n in 0..if has_ranks { COMMUNICATORS } else { 0 } {
        let token = m.input(FIRST_TOKEN + n as u32, TOKEN.0, &TOKEN.1);
        tokens.push([scalar(&mut m, n), token, scalar(&mut m, COMMUNICATORS)]);
    }
    let mut values: Vec<ValueId> =
        SIZES.iter().enumerate().map(|(i, sizes)| m.input(i as u32, F32, sizes)).collect();
    let scalar = m.0.scalar(0, F64).unwrap();
    values.push(m.cast(scalar, F32));
    let (mut on_host, mut shards) = (Vec::new(), Vec::new());
    for _ in 0..8 + dice.below(24) {
        let x = dice.pick(&values);
        let y = match dice.below(if has_copies { 5 } else { 4 }) {
            4 => on_host_for_a_while(&mut m, &mut dice, x, &mut on_host),
            0 if has_ranks => collective(&mut m, &mut dice, x, &mut tokens, &mut shards),
            0 | 1 => Some(arithmetic(&mut m, &mut dice, &values, x)),
            2 => movement(&mut m, &mut dice, &values, x),
            _ => whole(&mut m, &mut dice, x),
        };
        values.extend(y);
    }
    let picked = (0..1 + dice.below(5)).map(|_| dice.pick(&values));
    let outputs: Vec<ValueId> = tokens.iter().map(|of| of[1]).chain(picked).collect();
    let graph = m.0.finish(outputs.clone());
    let offer =
        |n: usize| (n >= tokens.len() && dice.below(2) == 0).then_some(dice.below(4) as u32);
    let donors = (0..outputs.len()).map(offer).collect();
    (graph, donors)
}

/// Offloads a value, or reloads one that was offloaded before.
fn on_host_for_a_while(
    m: &mut Make,
    dice: &mut Dice,
    x: ValueId,
    on_host: &mut Vec<ValueId>,
) -> Option<ValueId> {
    if on_host.is_empty() || dice.below(3) == 0 {
        on_host.push(m.ops(Op::Offload, &[x], smallvec![])[0]);
        return None;
    }
    let there = on_host[dice.below(on_host.len())];
    Some(m.ops(Op::Reload, &[there], smallvec![])[0])
}

fn collective(
    m: &mut Make,
    dice: &mut Dice,
    x: ValueId,
    tokens: &mut [[ValueId; 3]],
    shards: &mut Vec<ValueId>,
) -> Option<ValueId> {
    let of = &mut tokens[dice.below(COMMUNICATORS)];
    let kind = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter][dice.below(3)];
    // Often parameters that were gathered before.
    let again = shards.pop().filter(|_| kind == Kind::AllGather && dice.below(3) > 0);
    let (x, how) = match again {
        Some(last) => (last, gathered::PARAMETERS_AGAIN),
        None if kind == Kind::AllGather => (x, gathered::PARAMETERS),
        None => (x, 0),
    };
    result(kind, m.0.ty(x), RANKS).ok()?;
    shards.extend((how == gathered::PARAMETERS).then_some(x));
    let [y, token] = m.collective((kind, how), x, RANKS, *of);
    of[1] = token;
    Some(y)
}

fn arithmetic(m: &mut Make, dice: &mut Dice, values: &[ValueId], x: ValueId) -> ValueId {
    let sizes = m.0.ty(x).sizes.clone();
    match dice.below(6) {
        0 => m.unary(dice.of(&[Op::Neg, Op::Exp, Op::Tanh]), x),
        1..=3 => {
            let fits = |v: &&ValueId| {
                let other = &m.0.ty(**v).sizes;
                *other == sizes || other.is_empty()
            };
            let others: Vec<ValueId> = values.iter().filter(fits).copied().collect();
            let y = dice.pick(&others);
            m.binary(dice.of(&[Op::Add, Op::Mul, Op::Sub]), x, y)
        }
        4 => m.with(Op::Mul, x, 0.5),
        _ => {
            let keep = if dice.below(2) == 0 && !sizes.is_empty() {
                let attrs = smallvec![Attr::Ints(sizes), Attr::Int(0), Attr::DType(I64)];
                let index = m.ops(Op::Iota, &[], attrs)[0];
                m.with(Op::Lt, index, 2.0)
            } else {
                let seed = [1, 2].map(|slot| m.0.scalar(slot, I64).unwrap());
                let random = m.ops(Op::Random, &seed, smallvec![Attr::Ints(sizes)])[0];
                m.with(Op::Ge, random, 0.5)
            };
            let y = m.unary(Op::Neg, x);
            m.0.select(keep, x, y).unwrap()
        }
    }
}

fn movement(m: &mut Make, dice: &mut Dice, values: &[ValueId], x: ValueId) -> Option<ValueId> {
    let ty = m.0.ty(x).clone();
    let (rank, n) = (ty.rank(), ty.numel());
    Some(match dice.below(9) {
        8 => {
            let there = m.ops(Op::Offload, &[x], smallvec![])[0];
            if dice.below(3) == 0 { there } else { m.ops(Op::Reload, &[there], smallvec![])[0] }
        }
        0 | 1 if rank >= 2 => {
            let mut perm: Vec<i64> = (0..rank as i64).collect();
            perm.swap(dice.below(rank), dice.below(rank));
            m.transpose(x, &perm)
        }
        2 | 3 if n == 24 => {
            let sizes: [&[i64]; 4] = [&[4, 6], &[6, 4], &[2, 3, 4], &[24]];
            m.reshape(x, sizes[dice.below(4)])
        }
        4 if rank >= 1 && ty.sizes[0] > 1 => {
            let mut starts = vec![0; rank];
            starts[0] = 1;
            let mut sizes = ty.sizes.clone();
            sizes[0] = if dice.below(10) == 0 { 0 } else { sizes[0] - 1 };
            m.slice(x, &starts, &sizes)
        }
        5 if rank < 3 => {
            let mut sizes = ty.sizes.to_vec();
            sizes.insert(0, 3);
            m.0.broadcast(x, &sizes).unwrap()
        }
        6 if rank == 2 => {
            let small = if dice.below(2) == 0 { I32 } else { U8 };
            let bits = m.ops(Op::Bitcast, &[x], smallvec![Attr::DType(small)])[0];
            let sizes = m.0.ty(bits).sizes.clone();
            let rows = m.slice(bits, &[sizes[0].min(1), 0], &[(sizes[0] - 1).max(0), sizes[1]]);
            m.ops(Op::Bitcast, &[rows], smallvec![Attr::DType(F32)])[0]
        }
        7 if rank >= 1 => {
            let fits = |v: &&ValueId| m.0.ty(**v).sizes[..] == ty.sizes[..];
            let equal: Vec<ValueId> = values.iter().filter(fits).copied().collect();
            let y = dice.pick(&equal);
            let dim = dice.below(rank) as i64;
            m.ops(Op::Concat, &[x, y], smallvec![Attr::Int(dim)])[0]
        }
        _ => return None,
    })
}

fn whole(m: &mut Make, dice: &mut Dice, x: ValueId) -> Option<ValueId> {
    let ty = m.0.ty(x).clone();
    let (rank, n) = (ty.rank(), ty.numel());
    if rank == 0 || ty.sizes.contains(&0) {
        return None;
    }
    let ints = |v: &[i64]| Attr::Ints(v.into());
    Some(match dice.below(8) {
        0 | 1 => {
            let axis = dice.below(rank) as i64;
            let op = dice.of(&[Op::Sum, Op::ReduceMax]);
            m.0.reduce(op, x, &[axis], dice.below(2) == 0).unwrap()
        }
        2 => m.ops(Op::Softmax, &[x], smallvec![])[0],
        3 if rank == 2 => {
            let turned = m.transpose(x, &[1, 0]);
            m.matmul(x, turned)
        }
        4 if n >= 8 => {
            let view = || smallvec![ints(&[2, 3]), ints(&[1, 2]), Attr::Int(1)];
            let part = m.ops(Op::AsStrided, &[x], view())[0];
            let part = m.unary(Op::Neg, part);
            m.ops(Op::AsStridedScatter, &[x, part], view())[0]
        }
        5 if rank == 2 => {
            let attrs = smallvec![Attr::Float(1e-5), Attr::Bool(false), Attr::Bool(false)];
            m.ops(Op::LayerNorm, &[x], attrs)[dice.below(3)]
        }
        6 | 7 => {
            let attrs = smallvec![ints(&ty.sizes[..1]), Attr::Int(0), Attr::DType(I64)];
            let index = m.ops(Op::Iota, &[], attrs)[0];
            let taken = m.ops(Op::Take, &[x, index], smallvec![Attr::Int(0)])[0];
            if dice.below(2) == 0 {
                return Some(taken);
            }
            let zero = m.with(Op::Mul, x, 0.0);
            m.ops(Op::IndexAdd, &[zero, index, taken], smallvec![Attr::Int(0)])[0]
        }
        _ => return None,
    })
}
