//! Chains, transposes and conversions against what they mean, with every instruction set that this processor has.

use super::math::{SPECIAL, same, ulps};
use crate::backend::cpu::element::{
    Bf16, F16, Stored, Transposable, load_run, load_turned, store_run,
};
use crate::backend::cpu::isa::{Isa, on_each_isa};
use crate::backend::cpu::tile::chain::{self, Feed, Target};
use crate::backend::cpu::tile::link::{BinaryOp, Link, MAX_LINKS, UnaryOp};
use crate::dtype::DType;
use crate::op::table::TABLE;
use crate::op::{Eval, Op};
use half::{bf16, f16};

/// Around the lengths of vectors and blocks.
pub const LENGTHS: [usize; 9] = [1, 5, 16, 31, 64, 127, 128, 129, 777];

/// Of both signs, some of them special or beyond what reductions of arguments of sines take.
pub fn numbers(len: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| match (i + seed) % 5 {
        0 => SPECIAL[(i / 5 + seed) % SPECIAL.len()],
        1 => (i as f32 - 300.0) * 1234.5,
        k => ((i * 37 + seed * 11) % 401) as f32 * 0.04 * k as f32 - 9.7,
    };
    (0..len).map(number).collect()
}

fn unary<'a>(op: Op) -> Link<Feed<'a>> {
    Link::Unary(UnaryOp::Primitive(op))
}

fn bf16s(x: &[f32]) -> Vec<Bf16> {
    x.iter().map(|&x| Bf16(bf16::from_f32(x).to_bits())).collect()
}

fn widened(x: &[Bf16]) -> Vec<f32> {
    x.iter().map(|x| bf16::from_bits(x.0).to_f32()).collect()
}

/// The meaning of an operation, and how many units in the last place it may be off.
pub fn alone(op: UnaryOp, x: f32) -> (f64, f64) {
    match op {
        UnaryOp::Primitive(op) => {
            let Eval::Pointwise { float: Some(function), .. } = op.row().eval else {
                panic!("{op:?} is no function of a float")
            };
            let bound = if op.row().exact { 0.0 } else { op.row().ulps.max(0.5) };
            (function(&[x as f64]), bound)
        }
        UnaryOp::Square => ((x * x) as f64, 0.0),
        UnaryOp::Cube => ((x * x * x) as f64, 0.0),
        UnaryOp::ToF16 => (f16::from_f32(x).to_f64(), 0.0),
        UnaryOp::ToBF16 => (bf16::from_f32(x).to_f64(), 0.0),
    }
}

/// Functions whose error does not depend on fused multiply-add.
const NO_POLYNOMIAL: [UnaryOp; 4] = [
    UnaryOp::Primitive(Op::Sqrt),
    UnaryOp::Primitive(Op::Rsqrt),
    UnaryOp::Primitive(Op::Sin),
    UnaryOp::Primitive(Op::Cos),
];

/// All unary operations.
pub fn unary_ops() -> Vec<UnaryOp> {
    let primitives = TABLE.iter().filter(|row| row.op != Op::Cast);
    let primitives = primitives.filter_map(|row| UnaryOp::of(row.op, DType::F32));
    let others = [UnaryOp::Square, UnaryOp::Cube, UnaryOp::ToF16, UnaryOp::ToBF16];
    primitives.chain(others).collect()
}

/// The number in hand is `a`.
fn with(op: BinaryOp, a: f32, b: f32) -> f64 {
    let (x, y) = (a as f64, b as f64);
    let extreme = |v: f64| if x.is_nan() || y.is_nan() { f64::NAN } else { v };
    match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::RSub => y - x,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::RDiv => y / x,
        BinaryOp::Max | BinaryOp::RMax => extreme(x.max(y)),
        BinaryOp::Min | BinaryOp::RMin => extreme(x.min(y)),
        BinaryOp::Atan2 => x.atan2(y),
        BinaryOp::RAtan2 => y.atan2(x),
    }
}

/// Those that round once.
pub const WITH: [BinaryOp; 10] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::RSub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::RDiv,
    BinaryOp::Max,
    BinaryOp::RMax,
    BinaryOp::Min,
    BinaryOp::RMin,
];

pub const ANGLES: [BinaryOp; 2] = [BinaryOp::Atan2, BinaryOp::RAtan2];

/// Either zero is the larger and the smaller of both.
fn alike(a: f32, b: f32) -> bool {
    same(a, b) || a == b
}

#[test]
fn functions_are_within_their_ulps_alone_and_in_chains() {
    for len in LENGTHS {
        let x = numbers(len, len);
        on_each_isa(|isa| {
            for op in unary_ops() {
                // Negated twice, which is not one operation any more.
                let link = Link::Unary(op);
                let negated = [unary(Op::Neg), unary(Op::Neg), link];
                for links in [&negated[2..], &negated[..]] {
                    for start in [Feed::Run(&x), Feed::Memory(&x)] {
                        let mut y = vec![0.0; len];
                        chain::run(start, links, Target::Run(&mut y), links.len() > 1);
                        for (&x, &y) in x.iter().zip(&y) {
                            let (exact, bound) = alone(op, x);
                            let off = ulps(y, exact);
                            // Polynomials without fused multiply-add.
                            let rounds_more = isa == Isa::Baseline && !NO_POLYNOMIAL.contains(&op);
                            let bound = if rounds_more { 1.5 * bound } else { bound };
                            assert!(off <= bound, "{op:?}({x:e}) = {y:e}: {off} ulp, {isa:?}");
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn every_operand_can_be_anywhere() {
    for len in LENGTHS {
        let (x, z) = (numbers(len, 1), numbers(len, 3));
        let (thin_x, thin_z) = (bf16s(&x), bf16s(&z));
        let (wide_x, wide_z) = (widened(&thin_x), widened(&thin_z));
        let (one_x, one_z) = (vec![0.75; len], vec![-1.25; len]);
        let starts = [
            (Feed::Run(&x), &x),
            (Feed::Memory(&x), &x),
            (Feed::Bf16(&thin_x), &wide_x),
            (Feed::One(0.75), &one_x),
            (Feed::Own, &x),
        ];
        let others = [
            (Feed::Run(&z), &z),
            (Feed::Memory(&z), &z),
            (Feed::Bf16(&thin_z), &wide_z),
            (Feed::One(-1.25), &one_z),
            (Feed::Own, &x),
        ];
        on_each_isa(|isa| {
            for ((op, (start, a)), (other, b)) in pairs(&pairs(&WITH, &starts), &others) {
                let mut y = x.clone();
                chain::run(start, &[Link::Binary(op, other)], Target::Run(&mut y), false);
                for i in 0..len {
                    let exact = with(op, a[i], b[i]) as f32;
                    assert!(alike(y[i], exact), "{op:?} {:e} {:e} {:e} {isa:?}", a[i], b[i], y[i]);
                }
            }
        });
    }
}

#[test]
fn angles_are_within_their_ulps_in_every_quadrant() {
    let mut sides: Vec<f32> = SPECIAL.to_vec();
    sides.extend((0..400).map(|i| f32::from_bits(0x3f00_0000 + i * 41_001)));
    sides.extend((0..300).map(|i| f32::from_bits(i * 14_000_003)));
    let all = pairs(&sides, &sides);
    let (x, z): (Vec<f32>, Vec<f32>) = all.iter().copied().unzip();
    on_each_isa(|isa| {
        let bound = Op::Atan2.row().ulps * if isa == Isa::Baseline { 1.5 } else { 1.0 };
        for op in ANGLES {
            let link = Link::Binary(op, Feed::Run(&z));
            for links in [&[link][..], &[unary(Op::Neg), unary(Op::Neg), link]] {
                let mut y = vec![0.0; x.len()];
                chain::run(Feed::Run(&x), links, Target::Run(&mut y), false);
                for (&(a, b), y) in all.iter().zip(y) {
                    let exact = with(op, a, b);
                    let same_side = y.is_nan() || y.is_sign_negative() == exact.is_sign_negative();
                    let off = ulps(y, exact);
                    assert!(same_side && off <= bound, "{op:?} {a:e} {b:e} {y:e}: {off}, {isa:?}");
                }
            }
        }
    });
}

fn pairs<A: Copy, B: Copy>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    a.iter().flat_map(|&a| b.iter().map(move |&b| (a, b))).collect()
}

#[test]
fn long_chains_to_either_type() {
    for len in LENGTHS {
        let (x, z) = (numbers(len, 2), numbers(len, 4));
        let (own, small_gemm) = (numbers(len, 6), bf16s(&z));
        let (thin_own, wide) = (bf16s(&own), widened(&small_gemm));
        let wide_own = widened(&thin_own);
        let feeds =
            [Feed::Run(&z), Feed::Memory(&z), Feed::Bf16(&small_gemm), Feed::One(0.5), Feed::Own];
        let short = [Op::Abs, Op::Neg, Op::Round, Op::Sqrt].map(UnaryOp::Primitive);
        let short = [&short[..], &[UnaryOp::ToBF16]].concat();
        let link = |i: usize| match i % 3 {
            2 => Link::Unary(short[i / 3 % short.len()]),
            _ => Link::Binary(WITH[i * 7 % WITH.len()], feeds[i % feeds.len()]),
        };
        let links: Vec<Link<Feed>> = (0..MAX_LINKS).map(link).collect();
        let expected = |i: usize, own: f32| {
            links.iter().fold(x[i], |a, link| match *link {
                Link::Unary(op) => alone(op, a).0 as f32,
                Link::Binary(op, Feed::Bf16(_)) => with(op, a, wide[i]) as f32,
                Link::Binary(op, Feed::One(b)) => with(op, a, b) as f32,
                Link::Binary(op, Feed::Own) => with(op, a, own) as f32,
                Link::Binary(op, _) => with(op, a, z[i]) as f32,
            })
        };
        on_each_isa(|isa| {
            for prefetch in [false, true] {
                let (mut y, mut thin_y) = (own.clone(), thin_own.clone());
                chain::run(Feed::Memory(&x), &links, Target::Run(&mut y), prefetch);
                chain::run(Feed::Memory(&x), &links, Target::Bf16(&mut thin_y), prefetch);
                for (i, thin_y) in widened(&thin_y).into_iter().enumerate() {
                    let exact = expected(i, own[i]);
                    assert!(alike(y[i], exact), "{len} [{i}]: {:e}, not {exact:e} {isa:?}", y[i]);
                    let exact = bf16::from_f32(expected(i, wide_own[i])).to_f32();
                    assert!(alike(thin_y, exact), "{len} [{i}]: {thin_y:e} {exact:e} {isa:?}");
                }
            }
        });
    }
}

/// Matrices of all sizes around squares, in rows with something between them.
fn check_turned<S: Stored<L>, L: Copy + Default + PartialEq>(bits: fn(usize) -> S::Bits) {
    for (rows, columns) in pairs(&[1, 7, 8, 9, 16, 29], &[1, 5, 8, 15, 24, 33]) {
        let stride = rows + 3;
        let from: Vec<S::Bits> = (0..(columns - 1) * stride + rows).map(bits).collect();
        on_each_isa(|isa| {
            let mut to = vec![L::default(); rows * columns];
            load_turned::<S, L>(&from, stride, rows, &mut to);
            for (r, c) in pairs(&Vec::from_iter(0..rows), &Vec::from_iter(0..columns)) {
                let exact: L = <S as Transposable>::of_bits(from[c * stride + r]).load();
                assert!(to[r * columns + c] == exact, "{rows} x {columns}: [{r}, {c}], {isa:?}");
            }
        });
    }
}

#[test]
fn transposes_of_every_size() {
    check_turned::<u32, u32>(|i| (i as u32).wrapping_mul(0x9e37_79b1));
    check_turned::<i32, i64>(|i| (i as u32).wrapping_mul(0x9e37_79b1));
    check_turned::<f32, f32>(|i| (i as f32 - 99.5).to_bits());
    check_turned::<u16, u16>(|i| (i as u16).wrapping_mul(0x9e37));
    check_turned::<i16, i64>(|i| (i as u16).wrapping_mul(0x9e37));
    check_turned::<Bf16, f32>(|i| bf16::from_f32(i as f32).to_bits());
    check_turned::<F16, f32>(|i| f16::from_f32(i as f32).to_bits());
    check_turned::<u8, u8>(|i| i as u8);
    check_turned::<f64, f64>(|i| (i as f64 - 99.5).to_bits());
}

#[test]
fn runs_of_half_types_convert_as_the_half_crate_does() {
    for len in LENGTHS {
        let x = numbers(len, 5);
        let (bf16, halves) = (bf16s(&x), x.iter().map(|&x| f16::from_f32(x)));
        let halves: Vec<F16> = halves.map(|x| F16(x.to_bits())).collect();
        on_each_isa(|isa| {
            let (mut b, mut h) = (vec![Bf16(0); len], vec![F16(0); len]);
            store_run(&x, &mut b);
            store_run(&x, &mut h);
            let (mut wide_b, mut wide_h) = (vec![0.0; len], vec![0.0; len]);
            load_run(&bf16, &mut wide_b);
            load_run(&halves, &mut wide_h);
            for (i, &x) in x.iter().enumerate() {
                let (exact_b, exact_h) = (bf16::from_f32(x).to_f32(), f16::from_f32(x).to_f32());
                assert!(same(bf16::from_bits(b[i].0).to_f32(), exact_b), "{x:e} {isa:?}");
                assert!(same(f16::from_bits(h[i].0).to_f32(), exact_h), "{x:e} {isa:?}");
                assert!(same(wide_b[i], exact_b) && same(wide_h[i], exact_h), "{x:e} {isa:?}");
            }
        });
    }
}
