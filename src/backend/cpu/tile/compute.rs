//! The vector loops: one pointwise primitive over whole tiles. Primitives without a loop of their own here are computed
//! by the function of their row, element by element.

use super::super::isa::kernel;
use super::super::pool::{Scratch, with_scratch};
use super::super::vector::Vector;
use super::super::vector::{math, math64};
use super::code::wrap;
use super::divide::divide;
use crate::dtype::{DType, Float8};
use crate::op::array::as_integer;
use crate::op::philox::{Drawn, drawn};
use crate::op::{Eval, Op};

/// The row's meaning on floats.
fn float_meaning(op: Op) -> fn(&[f64]) -> f64 {
    match op.row().eval {
        Eval::Pointwise { float: Some(f), .. } => f,
        _ => panic!("{} has no meaning on floats", op.name()),
    }
}

/// The row's meaning on integers and bools.
fn int_meaning(op: Op) -> fn(&[i64]) -> Option<i64> {
    match op.row().eval {
        Eval::Pointwise { int: Some(f), .. } => f,
        _ => panic!("{} has no meaning on integers", op.name()),
    }
}

/// `y[i] = expression of x[i]`, as a loop that the compiler can vectorise.
macro_rules! each {
    ($y:ident, |$a:ident in $x:ident| $e:expr) => {
        for (y, &$a) in $y.iter_mut().zip($x) {
            *y = $e;
        }
    };
    ($y:ident, |$a:ident in $x:ident, $b:ident in $z:ident| $e:expr) => {
        for ((y, &$a), &$b) in $y.iter_mut().zip($x).zip($z) {
            *y = $e;
        }
    };
}

/// Unary primitives that are not computed in chains.
pub fn unary_f32(op: Op, x: &[f32], y: &mut [f32]) {
    let f = float_meaning(op);
    each!(y, |a in x| f(&[a as f64]) as f32);
}

kernel! {
    fn unary_f64_loop(op: Op, x: &'a [f64], y: &'a mut [f64]) -> bool {
        let quarters = (op == Op::Cos) as i64;
        match op {
            Op::Neg => each!(y, |a in x| -a),
            Op::Abs => each!(y, |a in x| a.abs()),
            Op::Sqrt => each!(y, |a in x| a.sqrt()),
            Op::Exp => each!(y, |a in x| math64::exp::<FMA>(a)),
            Op::Expm1 => each!(y, |a in x| math64::expm1::<FMA>(a)),
            Op::Log => each!(y, |a in x| math64::log::<FMA>(a)),
            Op::Log1p => each!(y, |a in x| math64::log1p::<FMA>(a)),
            Op::Tanh => each!(y, |a in x| math64::tanh::<FMA>(a)),
            Op::Sigmoid => each!(y, |a in x| math64::sigmoid::<FMA>(a)),
            Op::Sin | Op::Cos if FMA => each!(y, |a in x| math64::sin_from(a, quarters)),
            _ => return false,
        }
        true
    }
}

pub fn unary_f64(op: Op, x: &[f64], y: &mut [f64]) {
    let f = float_meaning(op);
    if !unary_f64_loop(op, x, y) {
        each!(y, |a in x| f(&[a]));
    } else if matches!(op, Op::Sin | Op::Cos) {
        for (y, x) in y.iter_mut().zip(x).filter(|(_, x)| x.abs() > math64::TRIG_LIMIT) {
            *y = f(&[*x]);
        }
    }
}

pub fn unary_i64(op: Op, x: &[i64], y: &mut [i64], dtype: DType) {
    match op {
        Op::Neg => each!(y, |a in x| wrap(a.wrapping_neg(), dtype)),
        Op::Abs => each!(y, |a in x| wrap(a.wrapping_abs(), dtype)),
        Op::Not => each!(y, |a in x| wrap(!a, dtype)),
        _ => {
            let f = int_meaning(op);
            each!(y, |a in x| wrap(f(&[a]).unwrap_or(0), dtype))
        }
    }
}

pub fn unary_bool(op: Op, x: &[u8], y: &mut [u8]) {
    match op {
        Op::Not => each!(y, |a in x| (a == 0) as u8),
        _ => panic!("{} of bool", op.name()),
    }
}

/// The numbers of a tile, or one number for all elements.
#[derive(Clone, Copy)]
pub enum Numbers<'a> {
    Run(&'a [f32]),
    One(f32),
}

impl Numbers<'_> {
    fn at(&self, i: usize) -> f32 {
        match self {
            Numbers::Run(x) => x[i],
            Numbers::One(x) => *x,
        }
    }
}

kernel! {
    fn pow_f32(x: Numbers<'a>, z: Numbers<'a>, y: &'a mut [f32]) {
        match (x, z) {
            (Numbers::Run(x), Numbers::Run(z)) => each!(y, |a in x, b in z| math::pow::<FMA>(a, b)),
            (Numbers::Run(x), Numbers::One(b)) => each!(y, |a in x| math::pow::<FMA>(a, b)),
            (Numbers::One(a), Numbers::Run(z)) => each!(y, |b in z| math::pow::<FMA>(a, b)),
            (Numbers::One(a), Numbers::One(b)) => y.fill(math::pow::<FMA>(a, b)),
        }
    }
}

/// Sets `y[i]`, and `$far` if some element has to be computed otherwise.
macro_rules! rem_by {
    ($y:ident, $far:ident, |$a:ident in $x:ident, $b:ident in $z:ident| $of:expr) => {
        for ((y, &$a), &$b) in $y.iter_mut().zip($x).zip($z) {
            let (left, is_far) = $of;
            *y = left;
            $far |= is_far;
        }
    };
    ($y:ident, $far:ident, |$a:ident in $x:ident| $of:expr) => {
        for (y, &$a) in $y.iter_mut().zip($x) {
            let (left, is_far) = $of;
            *y = left;
            $far |= is_far;
        }
    };
}

kernel! {
    /// Writes the remainders. False if `y` is not valid: some quotients are large, there is no FMA, or both are single numbers.
    fn rem_f32(x: Numbers<'a>, z: Numbers<'a>, y: &'a mut [f32]) -> bool {
        let mut far = !FMA;
        match (x, z) {
            _ if far => {}
            (Numbers::Run(x), Numbers::Run(z)) => {
                rem_by!(y, far, |a in x, b in z| math::rem_near(a, b));
            }
            (Numbers::Run(x), Numbers::One(b)) => rem_by!(y, far, |a in x| math::rem_near(a, b)),
            (Numbers::One(a), Numbers::Run(z)) => rem_by!(y, far, |b in z| math::rem_near(a, b)),
            (Numbers::One(_), Numbers::One(_)) => far = true,
        }
        !far
    }
}

/// Binary primitives that are not computed in chains.
pub fn binary_f32(op: Op, x: Numbers, z: Numbers, y: &mut [f32]) {
    match op {
        Op::Pow => return pow_f32(x, z, y),
        Op::Rem if rem_f32(x, z, y) => return,
        _ => {}
    }
    let f = float_meaning(op);
    for (i, y) in y.iter_mut().enumerate() {
        let (a, b) = (x.at(i), z.at(i));
        *y = if op == Op::Rem { a % b } else { f(&[a as f64, b as f64]) as f32 };
    }
}

kernel! {
    fn binary_f64_loop(op: Op, x: &'a [f64], z: &'a [f64], y: &'a mut [f64]) -> bool {
        match op {
            Op::Add => each!(y, |a in x, b in z| a + b),
            Op::Sub => each!(y, |a in x, b in z| a - b),
            Op::Mul => each!(y, |a in x, b in z| a * b),
            Op::Div => each!(y, |a in x, b in z| a / b),
            // As in `math::pow`.
            Op::Pow => each!(y, |a in x, b in z| match b {
                2.0 => a * a,
                3.0 => a * a * a,
                -1.0 => 1.0 / a,
                b => a.powf(b),
            }),
            _ => return false,
        }
        true
    }
}

pub fn binary_f64(op: Op, x: &[f64], z: &[f64], y: &mut [f64]) {
    if !binary_f64_loop(op, x, z, y) {
        let f = float_meaning(op);
        each!(y, |a in x, b in z| f(&[a, b]));
    }
}

kernel! {
    fn binary_i64_loop(op: Op, x: &'a [i64], z: &'a [i64], y: &'a mut [i64], dtype: DType) -> bool {
        match op {
            Op::Add => each!(y, |a in x, b in z| wrap(a.wrapping_add(b), dtype)),
            Op::Sub => each!(y, |a in x, b in z| wrap(a.wrapping_sub(b), dtype)),
            Op::Mul => each!(y, |a in x, b in z| wrap(a.wrapping_mul(b), dtype)),
            Op::And => each!(y, |a in x, b in z| a & b),
            Op::Or => each!(y, |a in x, b in z| a | b),
            Op::Xor => each!(y, |a in x, b in z| a ^ b),
            Op::Max => each!(y, |a in x, b in z| a.max(b)),
            Op::Min => each!(y, |a in x, b in z| a.min(b)),
            _ => return false,
        }
        true
    }
}

/// False when a divisor is 0.
pub fn binary_i64(op: Op, x: &[i64], z: &[i64], y: &mut [i64], dtype: DType) -> bool {
    if matches!(op, Op::Div | Op::Rem) {
        return divide(op, x, z, y, dtype);
    }
    if binary_i64_loop(op, x, z, y, dtype) {
        return true;
    }
    let f = int_meaning(op);
    let mut defined = true;
    each!(y, |a in x, b in z| match f(&[a, b]) {
        Some(v) => wrap(v, dtype),
        None => {
            defined = false;
            0
        }
    });
    defined
}

pub fn binary_bool(op: Op, x: &[u8], z: &[u8], y: &mut [u8]) {
    match op {
        Op::And | Op::Min => each!(y, |a in x, b in z| (a & b != 0) as u8),
        Op::Or | Op::Max => each!(y, |a in x, b in z| (a | b != 0) as u8),
        Op::Xor => each!(y, |a in x, b in z| a ^ b),
        _ => panic!("{} of bool", op.name()),
    }
}

/// Declares a comparison of tiles of one type.
macro_rules! comparison {
    ($name:ident, $t:ty) => {
        kernel! {
            pub fn $name(op: Op, x: &'a [$t], z: &'a [$t], y: &'a mut [u8]) {
                match op {
                    Op::Eq => each!(y, |a in x, b in z| (a == b) as u8),
                    Op::Ne => each!(y, |a in x, b in z| (a != b) as u8),
                    Op::Lt => each!(y, |a in x, b in z| (a < b) as u8),
                    Op::Le => each!(y, |a in x, b in z| (a <= b) as u8),
                    Op::Gt => each!(y, |a in x, b in z| (a > b) as u8),
                    _ => each!(y, |a in x, b in z| (a >= b) as u8),
                }
            }
        }
    };
}

comparison!(compare_f32, f32);
comparison!(compare_f64, f64);
comparison!(compare_i64, i64);
comparison!(compare_u8, u8);

struct Select<'a, T> {
    condition: &'a [u8],
    x: &'a [T],
    z: &'a [T],
    y: &'a mut [T],
}

impl<T: Copy> super::super::isa::Kernel for Select<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        for (((y, &c), &a), &b) in self.y.iter_mut().zip(self.condition).zip(self.x).zip(self.z) {
            *y = if c != 0 { a } else { b };
        }
    }
}

pub fn select<T: Copy>(condition: &[u8], x: &[T], z: &[T], y: &mut [T]) {
    super::super::isa::run(Select { condition, x, z, y });
}

kernel! {
    /// Rounds to the values of a half type.
    pub fn round_f32(dtype: DType, x: &'a [f32], y: &'a mut [f32]) {
        match dtype {
            DType::BF16 => each!(y, |a in x| math::bf16_to_f32(math::f32_to_bf16(a))),
            DType::F16 => each!(y, |a in x| math::f16_to_f32(math::f32_to_f16(a))),
            _ => each!(y, |a in x| a),
        }
    }
}

kernel! {
    /// Converts numbers to the codes of a format.
    pub fn encode(format: Float8, x: &'a [f32], y: &'a mut [u8]) {
        each!(y, |a in x| format.encode(a));
    }
}

kernel! {
    /// Converts the codes of a format to numbers.
    pub fn decode(format: Float8, x: &'a [u8], y: &'a mut [f32]) {
        each!(y, |a in x| format.decode(a));
    }
}

/// Declares a conversion between tile types.
macro_rules! conversion {
    ($($name:ident: $from:ty => $to:ty, |$a:ident| $e:expr;)*) => {$(
        kernel! {
            pub fn $name(x: &'a [$from], y: &'a mut [$to]) {
                each!(y, |$a in x| $e);
            }
        }
    )*};
}

conversion! {
    f32_to_f64: f32 => f64, |a| a as f64;
    f64_to_f32: f64 => f32, |a| a as f32;
    i64_to_f32: i64 => f32, |a| a as f32;
    i64_to_f64: i64 => f64, |a| a as f64;
    u8_to_f32: u8 => f32, |a| a as f32;
    u8_to_f64: u8 => f64, |a| a as f64;
    u8_to_i64: u8 => i64, |a| a as i64;
    f32_to_u8: f32 => u8, |a| (a != 0.0) as u8;
    f64_to_u8: f64 => u8, |a| (a != 0.0) as u8;
    i64_to_u8: i64 => u8, |a| (a != 0) as u8;
}

/// See [`as_integer`].
pub fn f32_to_i64(x: &[f32], y: &mut [i64], dtype: DType) {
    each!(y, |a in x| wrap(as_integer(a as f64, dtype), dtype));
}

/// See [`as_integer`].
pub fn f64_to_i64(x: &[f64], y: &mut [i64], dtype: DType) {
    each!(y, |a in x| wrap(as_integer(a, dtype), dtype));
}

pub fn i64_to_i64(x: &[i64], y: &mut [i64], dtype: DType) {
    each!(y, |a in x| wrap(a, dtype));
}

/// Numbers drawn by the Philox counters `first..`: element `j` of counter `first + i` goes to `drawn[4 * i + j]`.
struct Blocks<'a, T> {
    seed: u64,
    first: u64,
    drawn: &'a mut [T],
}

impl<T: Drawn> super::super::isa::Kernel for Blocks<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        for (i, block) in self.drawn.chunks_exact_mut(4).enumerate() {
            let four = T::four(self.seed, self.first.wrapping_add(i as u64));
            for (to, one) in block.iter_mut().zip(four) {
                *to = one;
            }
        }
    }
}

/// Sets `y[i]` to element `first + i` of the numbers drawn by (seed, offset); `room` is for `y.len() + 8` numbers.
pub fn random_run<T: Drawn>(seed: u64, offset: u64, first: u64, room: &mut [T], y: &mut [T]) {
    let skip = (first % 4) as usize;
    let blocks = (skip + y.len()).div_ceil(4);
    let drawn = &mut room[..4 * blocks];
    let first = offset.wrapping_add(first / 4);
    super::super::isa::run(Blocks { seed, first, drawn: &mut *drawn });
    y.copy_from_slice(&drawn[skip..skip + y.len()]);
}

kernel! {
    /// Whether consecutive elements of one array are drawn.
    fn is_run(seed: &'a [i64], offset: &'a [i64], index: &'a [i64], first: [i64; 3]) -> bool {
        let [s, o, mut next] = first;
        let mut other = 0;
        for ((&seed, &offset), &index) in seed.iter().zip(offset).zip(index) {
            other |= (seed ^ s) | (offset ^ o) | (index ^ next);
            next = next.wrapping_add(1);
        }
        other == 0
    }
}

/// Sets `y[i]` to element `index[i]` of the numbers drawn by (seed[i], offset[i]).
pub fn random<T: Scratch + Drawn>(seed: &[i64], offset: &[i64], index: &[i64], y: &mut [T]) {
    let (Some(&s), Some(&o), Some(&first)) = (seed.first(), offset.first(), index.first()) else {
        return;
    };
    if is_run(seed, offset, index, [s, o, first]) {
        with_scratch(y.len() + 8, |room| {
            random_run(s as u64, o as u64, first as u64, room, y);
        });
        return;
    }
    for (((y, &s), &o), &i) in y.iter_mut().zip(seed).zip(offset).zip(index) {
        *y = drawn(s as u64, o as u64, i as u64);
    }
}
