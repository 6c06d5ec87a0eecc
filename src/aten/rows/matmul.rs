//! Matrix products.

use super::PLAIN;
use crate::aten::call::{Call, wide};
use crate::aten::facts::{COUNTS_TERMS_LATE, ONE_FLOAT};
use crate::aten::{Outs, Row, complex, row};
use crate::dtype::{DType, Float8};
use crate::error::{Code, Error, Result};
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Op};
use crate::shape::Dims;
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("mm", PLAIN, |c| Ok(vec![product(matrix(c, 0, 2)?, matrix(c, 1, 2)?)]))
        .facts(ONE_FLOAT)
        .complex(),
    row("bmm", PLAIN, |c| Ok(vec![product(matrix(c, 0, 3)?, matrix(c, 1, 3)?)]))
        .facts(ONE_FLOAT)
        .complex(),
    row("mv", PLAIN, |c| Ok(vec![mv(matrix(c, 0, 2)?, matrix(c, 1, 1)?)]))
        .facts(ONE_FLOAT)
        .complex(),
    row("dot", PLAIN, |c| Ok(vec![dot(matrix(c, 0, 1)?, matrix(c, 1, 1)?)]))
        .facts(ONE_FLOAT)
        .complex(),
    row("vdot", PLAIN, |c| Ok(vec![dot(matrix(c, 0, 1)?, matrix(c, 1, 1)?)]))
        .facts(ONE_FLOAT)
        .complex_by(|c| Ok(vec![dot(complex::conj(matrix(c, 0, 1)?), matrix(c, 1, 1)?)])),
    row("addmm", PLAIN, |c| added(c, matrix(c, 1, 2)?, matrix(c, 2, 2)?, product))
        .special(is_trivial)
        .essential(leaves_out)
        .facts(ONE_FLOAT)
        .complex(),
    row("baddbmm", PLAIN, |c| added(c, matrix(c, 1, 3)?, matrix(c, 2, 3)?, product))
        .special(is_trivial)
        .essential(leaves_out)
        .facts(ONE_FLOAT)
        .complex(),
    row("addbmm", PLAIN, |c| added(c, matrix(c, 1, 3)?, matrix(c, 2, 3)?, summed))
        .special(is_trivial)
        .essential(leaves_out)
        .facts(ONE_FLOAT)
        .complex(),
    // `(self, mat2, offs?, bias?, out_dtype?)`
    row("_grouped_mm", PLAIN, grouped).facts(ONE_FLOAT),
    // `(self, mat2, scale_a, scale_b, bias?, scale_result?, out_dtype?, use_fast_accum)`
    row("_scaled_mm", PLAIN, |c| {
        scaled(c, [c.tensor(2)?, c.tensor(3)?], c.optional(4)?, c.dtype(6)?, c.optional(5)?)
    })
    .float8()
    .facts(COUNTS_TERMS_LATE),
    // `(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias?, out_dtype?, contraction_dim,
    // use_fast_accum)`
    row("_scaled_mm_v2", PLAIN, |c| {
        scaled(c, [recipe(c, 2)?, recipe(c, 5)?], c.optional(8)?, c.dtype(9)?, None)
    })
    .float8(),
    row("addmv", PLAIN, |c| {
        let (a, x) = (matrix(c, 1, 2)?, matrix(c, 2, 1)?);
        // PyTorch checks the dtype of a matrix only if it has elements; the result has the vector's.
        let a = if a.numel() == 0 { a.cast(x.dtype()) } else { a };
        added(c, a, x, mv)
    })
    .special(is_trivial)
    .essential(leaves_out)
    .facts(ONE_FLOAT)
    .complex(),
];

/// An operand of rank 2 holds its groups side by side, along the dimension whose group ends are in `offs`.
fn grouped<'a>(c: &Call<'a>) -> Outs<'a> {
    let (a, b, ends) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?);
    for (x, name) in [(a, "mat_a"), (b, "mat_b")] {
        if !matches!(x.rank(), 2 | 3) {
            return invalid!("{name} has to be 2 or 3d");
        }
    }
    if c.optional(3)?.is_some() {
        return invalid!("Bias not supported yet");
    }
    if c.dtype(4)?.is_some_and(|dtype| dtype != a.dtype()) {
        return invalid!("Grouped gemm output dtype must match `mat_a` dtype");
    }
    let turned = |v: V<'a>| v.swap(v.rank() - 2, v.rank() - 1);
    let Some(ends) = ends else {
        return match (a.rank(), b.rank()) {
            (3, 3) => Ok(vec![a.matmul(b)]),
            _ => invalid!("{GROUPS_WANT_OFFSETS}"),
        };
    };
    if ends.dtype() != DType::I32 {
        return invalid!("Offsets have to be int32");
    }
    if ends.rank() != 1 {
        return invalid!("offs has to be 1D");
    }
    let product = |a, b| c.math.op(Op::GroupedMatmul, &[a, b, ends], smallvec![]);
    Ok(vec![match (a.rank(), b.rank()) {
        (2, _) => product(a, b),
        // The columns of b are the rows of its transpose.
        (_, 2) => turned(product(turned(b), turned(a))),
        _ => return invalid!("{GROUPS_WANT_OFFSETS}"),
    }])
}

const GROUPS_WANT_OFFSETS: &str =
    "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d";

/// The scale of an operand of `_scaled_mm_v2`: arguments `at` (a list), its recipe and its order in memory.
fn recipe<'a>(c: &Call<'a>, at: usize) -> Result<V<'a>> {
    let recipe = c.ints(at + 1)?.unwrap_or_default();
    match (&c.list(at)?[..], &recipe[..]) {
        // A scale for the tensor, or for each row of mat1 and column of mat2.
        (&[scale], [0 | 1]) => Ok(scale),
        _ => Err(Error::new(
            Code::Unsupported,
            format!("_scaled_mm_v2 scales tensors and rows (recipes 0 and 1) only, got {recipe:?}"),
        )),
    }
}

/// `mat1 · mat2 · scale_a · scale_b + bias`, rounded once. An 8-bit result is multiplied by `scale_result` first.
fn scaled<'a>(
    c: &Call<'a>,
    scales: [V<'a>; 2],
    bias: Option<V<'a>>,
    dtype: Option<DType>,
    scale_result: Option<V<'a>>,
) -> Outs<'a> {
    let (a, b) = (matrix(c, 0, 2)?, matrix(c, 1, 2)?);
    let dtype = dtype.unwrap_or(a.dtype());
    let is_last = bias.is_none() && dtype.is_float();
    let made = if is_last { dtype } else { DType::F32 };
    let [scale_a, scale_b] = scales.map(|scale| {
        let sizes = if scale.numel() == 1 { Dims::from_slice(&[1, 1]) } else { scale.sizes() };
        scale.cast(DType::F32).reshape(&sizes)
    });
    let attrs = smallvec![Attr::DType(made)];
    let mut y = c.math.op(Op::ScaledMatmul, &[a, b, scale_a, scale_b], attrs);
    c.math.check()?;
    if let Some(bias) = bias {
        if bias.numel() != y.sizes()[1] {
            return invalid!("Bias must be size {} but got {}", y.sizes()[1], bias.numel());
        }
        y = y + bias.cast(DType::F32);
    }
    if let Some(scale) = scale_result.filter(|_| Float8::of(dtype).is_some()) {
        y = y * scale.cast(DType::F32).reshape(&[1, 1]);
    }
    Ok(vec![y.cast(dtype)])
}

/// Whether a value of beta (argument 3) or alpha (argument 4) makes an operation unnecessary.
fn is_trivial(arg: usize, value: f64) -> bool {
    (arg == 3 && (value == 0.0 || value == 1.0)) || (arg == 4 && value == 1.0)
}

/// With beta 0 a NaN in self does not count.
fn leaves_out(arg: usize, value: f64) -> bool {
    arg == 3 && value == 0.0
}

fn matrix<'a>(c: &Call<'a>, i: usize, rank: usize) -> Result<V<'a>> {
    let x = c.tensor(i)?;
    if x.rank() != rank {
        return invalid!(
            "argument {i} must be a {rank}-D tensor, but it has sizes {:?}",
            x.sizes()
        );
    }
    Ok(x)
}

/// For bools it is whether any pair is true, although PyTorch refuses bools if there is a pair.
fn product<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    match a.dtype() {
        DType::Bool => a.cast(DType::I32).matmul(b.cast(DType::I32)).ne(0.0),
        dtype if dtype.is_complex() && fit(a, b) => complex::matmul(a, b),
        // Its error says how the operands do not fit.
        _ => a.matmul(b),
    }
}

/// Whether matrices of one rank can be multiplied.
fn fit<'a>(a: V<'a>, b: V<'a>) -> bool {
    let (x, y) = (a.sizes(), b.sizes());
    let rank = x.len();
    a.dtype() == b.dtype() && x[..rank - 2] == y[..rank - 2] && x[rank - 1] == y[rank - 2]
}

fn mv<'a>(a: V<'a>, x: V<'a>) -> V<'a> {
    let rows = a.sizes()[0];
    product(a, x.unsqueeze(1)).reshape(&[rows])
}

/// The sum of the batch's products: one product, so that it is rounded once.
fn summed<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let rows = a.swap(0, 1).reshape(&[a.sizes()[1], a.sizes()[0] * a.sizes()[2]]);
    product(rows, b.reshape(&[b.sizes()[0] * b.sizes()[1], b.sizes()[2]]))
}

fn dot<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    product(a.unsqueeze(0), b.unsqueeze(1)).reshape(&[])
}

fn times<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    if a.dtype().is_complex() { complex::mul(a, b) } else { a * b }
}

/// `beta * self + alpha * multiply(a, b)`; self is argument 0. With beta 0 self is not read, not even for NaN.
/// Alpha scales a product in f32: one in halves might leave their range first.
fn added<'a>(c: &Call<'a>, a: V<'a>, b: V<'a>, multiply: fn(V<'a>, V<'a>) -> V<'a>) -> Outs<'a> {
    let dtype = a.dtype();
    if b.dtype() != dtype {
        return invalid!(
            "mat1 and mat2 must have the same dtype, but got {dtype} and {}",
            b.dtype()
        );
    }
    let compute = if dtype == DType::Bool { DType::I32 } else { wide(dtype) };
    let scaled = if c.is(4, 1.0, 1.0) {
        multiply(a, b).cast(compute)
    } else {
        times(multiply(a.cast(compute), b.cast(compute)), c.number(4, 1.0, compute)?)
    };
    // The sizes of self are checked whatever beta is.
    let base = c.tensor(0)?.cast(compute).broadcast(&scaled.sizes());
    if c.is(3, 0.0, 1.0) {
        return Ok(vec![scaled.cast(dtype)]);
    }
    let base = if c.is(3, 1.0, 1.0) { base } else { times(base, c.number(3, 1.0, compute)?) };
    if dtype.is_complex() {
        return Ok(vec![complex::add(scaled, base)]);
    }
    Ok(vec![(scaled + base).cast(dtype)])
}
