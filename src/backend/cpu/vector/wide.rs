//! A vector of one f64, with the methods of [`super::Vector`] that the row kernels use.

use std::ops::{Add, Div, Mul, Sub};

#[derive(Clone, Copy, Debug)]
pub struct Wide(pub f64);

macro_rules! operator {
    ($($trait:ident $name:ident $op:tt),*) => {$(
        impl $trait for Wide {
            type Output = Wide;
            #[inline(always)]
            fn $name(self, other: Wide) -> Wide {
                Wide(self.0 $op other.0)
            }
        }
    )*};
}
operator!(Add add +, Sub sub -, Mul mul *, Div div /);

impl Wide {
    pub const LANES: usize = 1;

    #[inline(always)]
    pub fn splat(v: f64) -> Wide {
        Wide(v)
    }
    #[inline(always)]
    pub fn load(from: &[f64]) -> Wide {
        Wide(from[0])
    }
    #[inline(always)]
    pub fn load_part(_: &[f64]) -> Wide {
        Wide(0.0)
    }
    #[inline(always)]
    pub fn store(self, to: &mut [f64]) {
        to[0] = self.0;
    }
    #[inline(always)]
    pub fn store_part(self, _: &mut [f64]) {}
    #[inline(always)]
    pub fn exp(self) -> Wide {
        Wide(self.0.exp())
    }
    /// The larger one; NaN if either is.
    #[inline(always)]
    pub fn larger(self, other: Wide) -> Wide {
        Wide(if self.0 > other.0 || self.0.is_nan() { self.0 } else { other.0 })
    }
}
