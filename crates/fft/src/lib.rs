//! Fourier transforms by `rustfft`. Its algorithms are generic, so that the crate that calls its planner compiles all of
//! them: a seventh of what the library's builds would compile, each time, and twice for its tests.

pub use rustfft::num_complex::Complex;
pub use rustfft::{Fft, FftNum};

use rustfft::{FftDirection, FftPlanner};
use std::sync::Arc;

/// Types whose transforms are compiled here.
pub trait Planned: FftNum {
    /// How lines of `length` complex numbers are transformed, without a factor.
    fn plan(length: usize, inverse: bool) -> Arc<dyn Fft<Self>>;
}

impl Planned for f32 {
    fn plan(length: usize, inverse: bool) -> Arc<dyn Fft<f32>> {
        FftPlanner::new().plan_fft(length, direction(inverse))
    }
}

impl Planned for f64 {
    fn plan(length: usize, inverse: bool) -> Arc<dyn Fft<f64>> {
        FftPlanner::new().plan_fft(length, direction(inverse))
    }
}

fn direction(inverse: bool) -> FftDirection {
    if inverse { FftDirection::Inverse } else { FftDirection::Forward }
}
