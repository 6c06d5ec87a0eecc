//! How elements lie in memory and in tiles. Tiles hold few types ("lanes"): half floats are computed as f32, integers
//! as i64, bools as bytes 0 and 1; elements that are only moved are bytes of their size.

use super::access::{Bound, Plain, Source};
use super::vector::math;
use super::vector::{SIDE, Square, Vector, transpose8x8};
use crate::dtype::DType;

/// Element type of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TileType {
    U8,
    U16,
    U32,
    I64,
    F32,
    F64,
}

impl TileType {
    /// The lane that computes on `dtype`; for types without arithmetic, the one that moves it.
    pub fn of(dtype: DType) -> TileType {
        match dtype {
            DType::F16 | DType::BF16 | DType::F32 => TileType::F32,
            DType::F64 => TileType::F64,
            d if d.is_int() => TileType::I64,
            d => TileType::moving(d),
        }
    }

    /// The lane that moves the bytes of `dtype`. 16-byte types are moved as two elements of 8.
    pub fn moving(dtype: DType) -> TileType {
        match dtype.size() {
            1 => TileType::U8,
            2 => TileType::U16,
            4 => TileType::U32,
            _ => TileType::I64,
        }
    }

    pub fn size(self) -> usize {
        match self {
            TileType::U8 => 1,
            TileType::U16 => 2,
            TileType::U32 | TileType::F32 => 4,
            TileType::I64 | TileType::F64 => 8,
        }
    }

    /// Whether an element of `dtype` in memory is an element of this lane without a conversion.
    pub fn is_native(self, dtype: DType) -> bool {
        match self {
            TileType::F32 => dtype == DType::F32,
            TileType::F64 => dtype == DType::F64,
            TileType::I64 => dtype.size() == 8 && dtype != DType::F64,
            TileType::U8 => dtype.size() == 1 && !dtype.is_int(),
            TileType::U16 | TileType::U32 => dtype.size() == self.size(),
        }
    }
}

/// `f16` in memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct F16(pub u16);

/// `bf16` in memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Plain for F16 {}
impl Plain for Bf16 {}

/// Element types that can be transposed, as their bits.
pub trait Transposable: Plain {
    type Bits: Plain;
    fn of_bits(bits: Self::Bits) -> Self;
    /// See [`transpose8x8`].
    fn transpose8x8<V: Vector>(from: &[Self::Bits], stride: usize, to: &mut Square<Self::Bits>);
}

macro_rules! transposed {
    ($($t:ty as $bits:ty, $transpose8x8:expr, |$b:ident| $of:expr;)*) => {$(
        impl Transposable for $t {
            type Bits = $bits;
            #[inline(always)]
            fn of_bits($b: $bits) -> $t { $of }
            #[inline(always)]
            fn transpose8x8<V: Vector>(from: &[$bits], stride: usize, to: &mut Square<$bits>) {
                $transpose8x8(from, stride, to);
            }
        }
    )*};
}

transposed! {
    f32 as u32, V::transpose8x8_u32, |b| f32::from_bits(b);
    u32 as u32, V::transpose8x8_u32, |b| b;
    i32 as u32, V::transpose8x8_u32, |b| b as i32;
    F16 as u16, V::transpose8x8_u16, |b| F16(b);
    Bf16 as u16, V::transpose8x8_u16, |b| Bf16(b);
    u16 as u16, V::transpose8x8_u16, |b| b;
    i16 as u16, V::transpose8x8_u16, |b| b as i16;
    u8 as u8, transpose8x8, |b| b;
    i8 as u8, transpose8x8, |b| b as i8;
    i64 as u64, transpose8x8, |b| b as i64;
    f64 as u64, transpose8x8, |b| f64::from_bits(b);
}

/// A memory type that can be an element of tile type `L`.
pub trait Stored<L>: Transposable {
    fn load(self) -> L;
    /// Integers wrap, floats round to nearest even.
    fn store(value: L) -> Self;
}

macro_rules! stored {
    ($($memory:ty, $tile_type:ty, |$m:ident| $load:expr, |$l:ident| $store:expr;)*) => {$(
        impl Stored<$tile_type> for $memory {
            #[inline(always)]
            fn load(self) -> $tile_type { let $m = self; $load }
            #[inline(always)]
            fn store($l: $tile_type) -> Self { $store }
        }
    )*};
}

stored! {
    f32, f32, |m| m, |l| l;
    F16, f32, |m| math::f16_to_f32(m.0), |l| F16(math::f32_to_f16(l));
    Bf16, f32, |m| math::bf16_to_f32(m.0), |l| Bf16(math::f32_to_bf16(l));
    f64, f64, |m| m, |l| l;
    u8, u8, |m| m, |l| l;
    u16, u16, |m| m, |l| l;
    u32, u32, |m| m, |l| l;
    i64, i64, |m| m, |l| l;
    u8, i64, |m| m as i64, |l| l as u8;
    i8, i64, |m| m as i64, |l| l as i8;
    i16, i64, |m| m as i64, |l| l as i16;
    i32, i64, |m| m as i64, |l| l as i32;
}

struct LoadRun<'a, S, L> {
    from: &'a [S],
    to: &'a mut [L],
}

impl<S: Stored<L>, L> super::isa::Kernel for LoadRun<'_, S, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = from.load();
        }
    }
}

struct StoreRun<'a, S, L> {
    from: &'a [L],
    to: &'a mut [S],
}

impl<S: Stored<L>, L: Copy> super::isa::Kernel for StoreRun<'_, S, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = S::store(*from);
        }
    }
}

/// A matrix of `rows` rows in `to`, converted from columns that are `stride` apart.
struct LoadTransposed<'a, S: Transposable, L> {
    from: &'a [S::Bits],
    stride: usize,
    rows: usize,
    to: &'a mut [L],
}

impl<S: Stored<L>, L> super::isa::Kernel for LoadTransposed<'_, S, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let LoadTransposed { from, stride, rows, to } = self;
        let columns = to.len() / rows;
        let (whole_rows, whole_columns) = (rows - rows % SIDE, columns - columns % SIDE);
        let mut square = [S::Bits::default(); SIDE * SIDE];
        for c in (0..whole_columns).step_by(SIDE) {
            for r in (0..whole_rows).step_by(SIDE) {
                S::transpose8x8::<V>(&from[c * stride + r..], stride, &mut square);
                // The next tile continues there.
                V::prefetch(from.as_ptr().wrapping_add((c + r / SIDE % SIDE) * stride + rows + r));
                let mut i = 0;
                while i < SIDE {
                    let to = &mut to[(r + i) * columns + c..][..SIDE];
                    let mut j = 0;
                    while j < SIDE {
                        to[j] = S::of_bits(square[i * SIDE + j]).load();
                        j += 1;
                    }
                    i += 1;
                }
            }
        }
        for r in 0..rows {
            let first = if r < whole_rows { whole_columns } else { 0 };
            for c in first..columns {
                to[r * columns + c] = S::of_bits(from[c * stride + r]).load();
            }
        }
    }
}

/// `to[i] = from[i]`, converted.
pub fn load_run<S: Stored<L>, L>(from: &[S], to: &mut [L]) {
    super::isa::run(LoadRun { from, to });
}

/// `to[i] = from[i]`, converted.
pub fn store_run<S: Stored<L>, L: Copy>(from: &[L], to: &mut [S]) {
    super::isa::run(StoreRun { from, to });
}

/// Rows of `to` from columns that are `stride` apart, converted: `to[r, c] = from[c, r]`.
pub fn load_turned<S: Stored<L>, L>(from: &[S::Bits], stride: usize, rows: usize, to: &mut [L]) {
    super::isa::run(LoadTransposed::<S, L> { from, stride, rows, to });
}

/// The value of a slot of the argument block, as both a float and an integer.
fn slot_value(bits: u64, dtype: DType) -> (f64, i64) {
    if dtype.is_float() {
        let v = f64::from_bits(bits);
        (v, v as i64)
    } else {
        (bits as i64 as f64, bits as i64)
    }
}

/// The single element of an operand, as both a float and an integer.
pub fn single(operand: &Bound) -> (f64, i64) {
    element(operand, operand.layout.offset)
}

/// Flat element `at` of an operand, likewise.
pub fn element(operand: &Bound, at: i64) -> (f64, i64) {
    match (operand.source, operand.dtype) {
        (Source::Slot(bits), dtype) => slot_value(bits, dtype),
        (Source::Index, _) => (at as f64, at),
        (_, DType::F32) => float(operand.slice::<f32>(at, 1)[0] as f64),
        (_, DType::F16) => float(Stored::<f32>::load(operand.slice::<F16>(at, 1)[0]) as f64),
        (_, DType::BF16) => float(Stored::<f32>::load(operand.slice::<Bf16>(at, 1)[0]) as f64),
        (_, DType::F64) => float(operand.slice::<f64>(at, 1)[0]),
        (_, DType::I8) => int(operand.slice::<i8>(at, 1)[0] as i64),
        (_, DType::I16) => int(operand.slice::<i16>(at, 1)[0] as i64),
        (_, DType::I32) => int(operand.slice::<i32>(at, 1)[0] as i64),
        (_, d) => match d.size() {
            1 => int(operand.slice::<u8>(at, 1)[0] as i64),
            2 => int(operand.slice::<u16>(at, 1)[0] as i64),
            4 => int(operand.slice::<u32>(at, 1)[0] as i64),
            _ => int(operand.slice::<i64>(at, 1)[0]),
        },
    }
}

fn float(v: f64) -> (f64, i64) {
    (v, v as i64)
}

fn int(v: i64) -> (f64, i64) {
    (v as f64, v)
}
