//! The discrete Fourier transform, of complex numbers as pairs of reals.

use super::array::Array;
use super::{Attr, Eval, Ty, Tys, check};
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use std::f64::consts::TAU;

pub const FFT: Eval = Eval::Whole(fft);

pub fn fft_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::Bool(_)] = attrs else {
        return check::wrong_attrs("inverse: bool", attrs);
    };
    if !matches!(x.dtype, DType::F32 | DType::F64) {
        return invalid!("not implemented for '{}': expected f32 or f64", x.dtype);
    }
    if x.rank() < 2 || x.sizes[x.rank() - 1] != 2 {
        return invalid!("expected pairs of numbers in lines, but got sizes {:?}", x.sizes);
    }
    check::one(x.dtype, &x.sizes)
}

/// Five operations for each element and step of a transform that halves its lines.
pub fn fft_flops(inputs: &[&Ty], _: &[Ty]) -> u64 {
    let n = inputs[0].sizes[inputs[0].rank() - 2].max(1) as u64;
    (inputs[0].numel() as u64 / 2).saturating_mul(5 * u64::from(n.ilog2() + 1))
}

/// By definition: every term of every sum.
fn fft(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (x, mut y) = (x[0], Array::zeros(&outs[0]));
    let n = outs[0].sizes[outs[0].rank() - 2] as usize;
    let turn = if attrs[0].bool() { TAU } else { -TAU };
    for line in (0..y.len()).step_by(2 * n.max(1)) {
        for k in 0..n {
            let (mut re, mut im) = (0.0, 0.0);
            for j in 0..n {
                let (a, b) = (x.f64(line + 2 * j), x.f64(line + 2 * j + 1));
                let (sin, cos) = (turn * (j * k % n) as f64 / n as f64).sin_cos();
                re += a * cos - b * sin;
                im += a * sin + b * cos;
            }
            y.set_f64(line + 2 * k, re);
            y.set_f64(line + 2 * k + 1, im);
        }
    }
    Ok(vec![y])
}
