//! Fourier transforms by `rustfft`: each line by one thread.

use super::access::{Bound, Plain};
use super::pool::parallel_chunks;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Attr;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use torchacc_fft::{Complex, Fft, Planned};

/// Transforms by length and whether they are inverse. Beyond [`MOST`] all are dropped.
type Transforms<T> = Mutex<BTreeMap<(usize, bool), Arc<dyn Fft<T>>>>;

const MOST: usize = 64;

static F32: Transforms<f32> = Mutex::new(BTreeMap::new());
static F64: Transforms<f64> = Mutex::new(BTreeMap::new());

/// Transforms lines of pairs; see `Op::Fft`.
pub fn fft(attrs: &[Attr], x: &Bound, write: &Bound) -> Result<()> {
    let inverse = attrs[0].bool();
    match write.dtype {
        DType::F32 => fft_as::<f32>(&F32, inverse, x, write),
        DType::F64 => fft_as::<f64>(&F64, inverse, x, write),
        other => return internal!("no transform of {other}"),
    }
    Ok(())
}

fn fft_as<T: Planned + Plain>(known: &Transforms<T>, inverse: bool, x: &Bound, write: &Bound) {
    let n = write.sizes()[write.sizes().len() - 2] as usize;
    let fft = of_length(known, n, inverse);
    let x = x.dense::<T>();
    let cost = 2 * n * size_of::<T>() * (2 + n.ilog2() as usize);
    parallel_chunks(write.result::<T>(), 2 * n, cost, |number, out| {
        let pairs = x[number * 2 * n..][..2 * n].chunks_exact(2);
        let mut line: Vec<Complex<T>> = pairs.map(|pair| Complex::new(pair[0], pair[1])).collect();
        fft.process(&mut line);
        for (out, number) in out.chunks_exact_mut(2).zip(line) {
            (out[0], out[1]) = (number.re, number.im);
        }
    });
}

fn of_length<T: Planned>(known: &Transforms<T>, n: usize, inverse: bool) -> Arc<dyn Fft<T>> {
    let mut known = known.lock();
    if known.len() >= MOST && !known.contains_key(&(n, inverse)) {
        known.clear();
    }
    known.entry((n, inverse)).or_insert_with(|| T::plan(n, inverse)).clone()
}
