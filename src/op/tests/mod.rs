//! Row tests: every primitive against an independent, obvious computation of the same thing.

mod conv;
mod fft;
mod nn;
mod pointwise;
mod pool;
mod reduce;
mod types;

use super::array::Array;
use super::cases::data::{FLOATS, INTS, coordinates, number_types as numbers};
use super::evaluate::evaluate;
use super::{Attr, Op, Ty};
use crate::dtype::DType::{self, *};
use crate::error::Result;
use crate::shape::numel;

/// A stream of numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn bits(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `low..=high`.
    fn int(&mut self, low: i64, high: i64) -> i64 {
        low + (self.bits() % (high - low + 1) as u64) as i64
    }

    /// In [-2, 2).
    fn float(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 51) as f64 - 2.0
    }

    /// Random bytes, which as a number may be anything.
    fn bytes(&mut self, dtype: DType, sizes: &[i64]) -> Array {
        let mut a = Array::zeros(&Ty::new(dtype, sizes));
        a.bytes.iter_mut().for_each(|b| *b = self.bits() as u8);
        a
    }

    /// Integers in -4..=4 (0..=4 without a sign), so that sums and products are exact.
    fn small(&mut self, dtype: DType, sizes: &[i64]) -> Array {
        let low = if matches!(dtype, U8 | Bool) { 0 } else { -4 };
        let values: Vec<f64> = (0..numel(sizes)).map(|_| self.int(low, 4) as f64).collect();
        Array::from_f64(dtype, sizes, &values)
    }

    fn floats(&mut self, dtype: DType, sizes: &[i64]) -> Array {
        let values: Vec<f64> = (0..numel(sizes)).map(|_| self.float()).collect();
        Array::from_f64(dtype, sizes, &values)
    }

    fn indices(&mut self, dtype: DType, sizes: &[i64], bound: i64) -> Array {
        let values: Vec<f64> = (0..numel(sizes)).map(|_| self.int(0, bound - 1) as f64).collect();
        Array::from_f64(dtype, sizes, &values)
    }
}

fn run(op: Op, inputs: &[&Array], attrs: &[Attr]) -> Result<Vec<Array>> {
    let types: Vec<&Ty> = inputs.iter().map(|a| &a.ty).collect();
    let outs = op.infer(&types, attrs)?;
    let results = evaluate(op, inputs, attrs, &outs)?;
    for (result, ty) in results.iter().zip(&outs) {
        assert_eq!(result.ty, *ty, "{op:?} gives another type than it says");
        assert_eq!(result.bytes.len(), ty.nbytes());
    }
    assert_eq!(results.len(), outs.len());
    Ok(results)
}

fn one(op: Op, inputs: &[&Array], attrs: &[Attr]) -> Array {
    run(op, inputs, attrs).unwrap().remove(0)
}

/// Distance allowed between two floats, in units of the dtype's epsilon relative to the larger (or to 1).
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        F16 => 0.5f64.powi(10),
        BF16 => 0.5f64.powi(7),
        F32 => f32::EPSILON as f64,
        _ => f64::EPSILON,
    }
}

/// Equal types and equal elements: NaN equals NaN, -0 is not 0; within `tolerance` epsilons for floats.
fn assert_close(what: &str, got: &Array, want: &Array, tolerance: f64) {
    assert_eq!(got.ty, want.ty, "{what}");
    for i in 0..got.len() {
        if !got.ty.dtype.is_float() || tolerance == 0.0 {
            let both_nan = got.ty.dtype.is_float() && got.f64(i).is_nan() && want.f64(i).is_nan();
            assert!(
                both_nan || got.raw(i) == want.raw(i),
                "{what}: element {i} of {got:?}, want {want:?}"
            );
            continue;
        }
        let (g, w) = (got.f64(i), want.f64(i));
        let bound = tolerance * epsilon(got.ty.dtype) * w.abs().max(1.0);
        let same = g == w && g.is_sign_negative() == w.is_sign_negative();
        assert!(
            same || (g.is_nan() && w.is_nan()) || (g - w).abs() <= bound,
            "{what}: element {i} is {g}, want {w} (dtype {})",
            got.ty.dtype
        );
    }
}

/// The one check of most tests: `op` gives exactly `want`.
fn check(op: Op, inputs: &[&Array], attrs: &[Attr], want: &Array) {
    let what =
        format!("{op:?} {attrs:?} of {:?}", inputs.iter().map(|a| &a.ty).collect::<Vec<_>>());
    assert_close(&what, &one(op, inputs, attrs), want, 0.0);
}

fn ints(list: &[i64]) -> Attr {
    Attr::Ints(list.into())
}
