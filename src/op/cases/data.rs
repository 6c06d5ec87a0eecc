//! Numbers for operands, how they lie in memory, and what arithmetic on them may be off by.

use crate::dtype::DType;
use crate::op::Ty;
use crate::op::array::Array;
use crate::shape::{Dims, Layout, contiguous_strides};

pub const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
pub const INTS: [DType; 5] = [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64];

/// Floats and integers.
pub fn number_types() -> impl Iterator<Item = DType> {
    FLOATS.into_iter().chain(INTS)
}

/// Dtype of statistics over values of `dtype`.
pub fn statistic(dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { DType::F32 }
}

/// xorshift64*: small, and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 33) as usize % n
    }

    /// At least 1, of at most so many bits: small ones as likely as large ones.
    pub fn size(&mut self, bits: usize) -> usize {
        1 + (self.bits() >> (63 - self.below(bits))) as usize
    }

    /// In [-1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// `n` elements: small numbers, and with `special` now and then NaN, an infinity, a denormal or an extreme.
pub fn numbers(random: &mut Random, dtype: DType, n: usize, special: bool) -> Array {
    let mut a = Array::zeros(&Ty::new(dtype, &[n as i64]));
    for i in 0..n {
        let odd = special && random.below(8) == 0;
        if dtype.is_float() {
            let odds = [
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                0.0,
                -0.0,
                1e-41,
                3e38,
                -60000.0,
                100.5,
            ];
            let v = if odd { *random.pick(&odds) } else { random.unit() * 4.0 };
            a.set_f64(i, v);
        } else if dtype.has_arithmetic() {
            a.set_i64(i, if odd { random.bits() as i64 } else { random.below(200) as i64 - 100 });
        } else {
            let bytes: Vec<u8> = (0..dtype.size()).map(|_| random.bits() as u8).collect();
            a.set_raw(i, &bytes);
        }
    }
    a
}

/// How an operand may lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lay {
    Dense,
    Reversed,
    Spaced,
    /// Every other dimension is repeated.
    Repeated,
    Row,
    /// One number everywhere.
    One,
    /// Dense, so many elements behind the start of the memory.
    Shifted(i64),
}

pub const LAYS: [Lay; 5] = [Lay::Dense, Lay::Reversed, Lay::Spaced, Lay::Repeated, Lay::Row];

/// A layout of `sizes` and how many elements of memory it needs.
pub fn layout(lay: Lay, sizes: &[i64]) -> (Layout, usize) {
    let rank = sizes.len();
    let l = match lay {
        Lay::Dense => Layout::contiguous(sizes),
        Lay::Shifted(offset) => Layout { offset, ..Layout::contiguous(sizes) },
        Lay::Reversed => {
            let backwards: Dims = (0..rank as i64).rev().collect();
            let reversed: Dims = sizes.iter().rev().copied().collect();
            Layout::contiguous(&reversed).transpose(&backwards)
        }
        Lay::Spaced => {
            let wide: Dims = sizes.iter().map(|s| 2 * s + 1).collect();
            let (ones, twos) = (vec![1; rank], vec![2; rank]);
            Layout::contiguous(&wide).slice(&ones, sizes, &twos)
        }
        Lay::Repeated => {
            let some: Dims = (0..rank).map(|d| if d % 2 == 0 { sizes[d] } else { 1 }).collect();
            Layout::contiguous(&some).broadcast(sizes)
        }
        Lay::One => Layout::contiguous(&[]).broadcast(sizes),
        Lay::Row => Layout::contiguous(&sizes[rank.saturating_sub(1)..]).broadcast(sizes),
    };
    let n = l.end().max(0) as usize;
    (l, n)
}

/// Every coordinate of an array of `sizes`, in row-major order.
pub fn coordinates(sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        all = all
            .into_iter()
            .flat_map(|c: Vec<i64>| (0..size).map(move |i| [c.clone(), vec![i]].concat()))
            .collect();
    }
    all
}

/// The place of the element at a coordinate of a dense array.
pub fn flat(sizes: &[i64], at: &[i64]) -> usize {
    at.iter().zip(contiguous_strides(sizes)).map(|(i, s)| i * s).sum::<i64>() as usize
}

/// An array of `sizes` whose element at a coordinate is the element of `x` at `source(coordinate)`.
pub fn moved(x: &Array, sizes: &[i64], source: impl Fn(&[i64]) -> Vec<i64>) -> Array {
    let mut y = Array::zeros(&Ty::new(x.ty.dtype, sizes));
    for (i, at) in coordinates(sizes).iter().enumerate() {
        y.set_raw(i, x.raw(flat(&x.ty.sizes, &source(at))));
    }
    y
}

/// Half the distance between neighbouring numbers of a float dtype, relative.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 0.5f64.powi(11),
        DType::BF16 => 0.5f64.powi(8),
        DType::F32 => 0.5f64.powi(24),
        _ => 0.5f64.powi(53),
    }
}

/// Rounding error of the arithmetic: half types are computed in f32.
pub fn compute_epsilon(dtype: DType) -> f64 {
    epsilon(if dtype == DType::F64 { DType::F64 } else { DType::F32 })
}

/// Smallest positive number: what rounding near 0 may cost.
pub fn tiny(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 0.5f64.powi(24),
        DType::BF16 => 1e-40,
        DType::F32 => 2e-45,
        _ => 0.0,
    }
}

pub fn largest(a: &Array) -> f64 {
    a.to_f64s().iter().fold(0.0, |m, v| if v.is_finite() { m.max(v.abs()) } else { m })
}

/// The absolute values.
pub fn absolute(a: &Array) -> Array {
    let list: Vec<f64> = a.to_f64s().iter().map(|v| v.abs()).collect();
    Array::from_f64(a.ty.dtype, &a.ty.sizes, &list)
}
