//! The rows, by family. Argument positions are those of PyTorch's schemas (`native_functions.yaml`) without `out=`.

mod activation;
mod adjoint;
mod advanced;
mod antialias;
mod attention;
mod channel;
mod collective;
mod convolution;
mod distance;
mod elementary;
mod embedding_bag;
mod factory;
mod fft;
mod gradient;
mod grid;
mod index;
mod loss;
mod margin;
mod matmul;
mod nn;
mod norm;
mod optim;
mod order;
mod pointwise;
mod pool;
mod random;
mod reduce;
mod reduce_by_index;
mod resample;
mod search;
mod special;
mod triangular;
mod unfold;

use super::Row;
use super::call::Call;
use crate::graph::math::V;

pub const FAMILIES: &[&[Row]] = &[
    pointwise::ROWS,
    elementary::ROWS,
    special::ROWS,
    triangular::ROWS,
    activation::ROWS,
    reduce::ROWS,
    reduce_by_index::ROWS,
    embedding_bag::ROWS,
    matmul::ROWS,
    fft::ROWS,
    nn::ROWS,
    norm::ROWS,
    convolution::ROWS,
    pool::ROWS,
    resample::ROWS,
    antialias::ROWS,
    grid::ROWS,
    unfold::ROWS,
    loss::ROWS,
    margin::ROWS,
    distance::ROWS,
    attention::ROWS,
    index::ROWS,
    order::ROWS,
    search::ROWS,
    advanced::ROWS,
    factory::ROWS,
    random::ROWS,
    optim::ROWS,
    gradient::ROWS,
    collective::ROWS,
];

/// Overloads of an operator that has one form and its `out=` variant.
const PLAIN: &[&str] = &["", "out"];
/// Overloads of a backward operator.
const BACKWARD: &[&str] = &["", "grad_input"];

/// `x`, which in a trace that takes gradients has a slope only where a condition holds.
fn moving<'a>(c: &Call<'a>, x: V<'a>, holds: impl FnOnce(V<'a>) -> V<'a>) -> V<'a> {
    if c.is_differentiated() { x.moving_where(holds(x)) } else { x }
}

/// For rows that refuse some values whatever their dtypes.
fn always(_: crate::dtype::DType) -> bool {
    true
}
