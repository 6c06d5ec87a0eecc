//! One function for each family of primitives: picks operands that could fit and proposes a node.

use super::{DTYPES, Generator, any, indexing, is_any, loops, products, windows};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::array::Array;
use crate::op::nn::Cell;
use crate::op::table::TABLE;
use crate::op::{Arity, Attr, Attrs, Class, Op, Row, Ty};
use crate::shape::{Dims, Layout, numel};
use smallvec::smallvec;

type Family = fn(&mut Generator) -> Result<()>;

/// Each with its weight in the draw.
const FAMILIES: &[(usize, Family)] = &[
    (4, leaf),
    (12, pointwise),
    (8, algebra),
    (4, cast),
    (4, reshape),
    (4, transpose),
    (5, broadcast),
    (4, slice),
    (3, strided),
    (1, bitcast),
    (3, concat),
    (2, offload),
    (6, reduction),
    (5, products::matmul),
    (2, products::grouped),
    (1, products::fft),
    (2, products::float8),
    (2, indexing::take),
    (2, indexing::index_add),
    (2, indexing::gather),
    (2, indexing::scatter),
    (2, indexing::top_k),
    (1, indexing::expect),
    (3, softmax),
    (3, layer_norm),
    (2, rms_norm),
    (3, attention),
    (2, recurrent),
    (3, windows::convolution),
    (3, windows::pooling),
    (1, loops::while_loop),
];

/// Adds a node of a random family, or none.
pub fn propose(g: &mut Generator) -> Result<()> {
    let total: usize = FAMILIES.iter().map(|(weight, _)| weight).sum();
    let mut at = g.rng.below(total);
    for (weight, family) in FAMILIES {
        if at < *weight {
            return family(g);
        }
        at -= weight;
    }
    Ok(())
}

fn permutation(g: &mut Generator, rank: usize) -> Dims {
    let mut perm: Dims = (0..rank as i64).collect();
    for i in (1..rank).rev() {
        perm.swap(i, g.rng.below(i + 1));
    }
    perm
}

/// One of the numbers that simplifications look for, as every element.
fn splat(g: &mut Generator, ty: &Ty) -> Result<Option<ValueId>> {
    let value = *g.rng.pick(&[0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 4.0, 0.5, 0.1]);
    let constant = match ty.dtype.is_float() {
        true => g.node(Op::Const, &[], smallvec![Attr::Float(value), Attr::DType(ty.dtype)])?,
        false => {
            g.node(Op::ConstInt, &[], smallvec![Attr::Int(value as i64), Attr::DType(ty.dtype)])?
        }
    };
    let Some(constant) = constant else { return Ok(None) };
    let found = g.node(Op::Broadcast, &constant, smallvec![Attr::Ints(ty.sizes.clone())])?;
    Ok(found.map(|v| v[0]))
}

fn leaf(g: &mut Generator) -> Result<()> {
    let dtype = *g.rng.pick(&DTYPES);
    match g.rng.below(5) {
        0 => {
            let ty = Ty { dtype, sizes: g.sizes(0) };
            g.fresh(&ty)?;
        }
        1 => {
            let dtype = *g.rng.pick(&[DType::F64, DType::I64, DType::Bool]);
            g.scalar(dtype)?;
        }
        2 => {
            let ty = Ty { dtype, sizes: g.sizes(0) };
            splat(g, &ty)?;
        }
        3 => {
            let sizes = g.sizes(1);
            let dim = g.rng.below(sizes.len()) as i64;
            g.node(
                Op::Iota,
                &[],
                smallvec![Attr::Ints(sizes), Attr::Int(dim), Attr::DType(dtype)],
            )?;
        }
        _ => {
            let seed = [g.scalar(DType::I64)?, g.scalar(DType::I64)?];
            let sizes = g.sizes(0);
            let op = *g.rng.pick(&[Op::Random, Op::RandomBits]);
            g.node(op, &seed, smallvec![Attr::Ints(sizes)])?;
        }
    }
    Ok(())
}

/// Any row without attributes: those added to the table later are drawn too.
fn pointwise(g: &mut Generator) -> Result<()> {
    let simple = |row: &&_| is_simple(row);
    let rows: Vec<_> = TABLE.iter().filter(simple).collect();
    let row = *g.rng.pick(&rows);
    let Arity::Exactly(count) = row.arity else { return Ok(()) };
    let x = any(g, 0, is_any)?;
    let ty = g.builder.ty(x).clone();
    let mut inputs = vec![x];
    while inputs.len() < count {
        let constant = if g.rng.chance(0.3) { splat(g, &ty)? } else { None };
        inputs.push(constant.map_or_else(|| g.of_type(&ty), Ok)?);
    }
    if row.op == Op::Select {
        inputs[0] = g.of_type(&Ty { dtype: DType::Bool, ..ty })?;
    } else if g.rng.chance(0.5) {
        inputs.reverse();
    }
    g.node(row.op, &inputs, smallvec![])?;
    Ok(())
}

/// Patterns that simplifications look for: an operation with a number that may be neutral, and operations in a row.
fn algebra(g: &mut Generator) -> Result<()> {
    let x = match g.values.len() {
        0 => any(g, 0, is_any)?,
        count => ValueId((count - 1 - g.rng.below(count.min(3))) as u32),
    };
    let ty = g.builder.ty(x).clone();
    if g.rng.chance(0.4) {
        let op = *g.rng.pick(&[Op::Neg, Op::Abs, Op::Not]);
        g.node(op, &[x], smallvec![])?;
        return Ok(());
    }
    let ops: &[Op] = match ty.dtype {
        DType::Bool => &[Op::And, Op::Or, Op::Xor, Op::Eq],
        d if d.is_int() => &[Op::Add, Op::Sub, Op::Mul, Op::And, Op::Or, Op::Xor, Op::Pow, Op::Eq],
        _ => &[Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Pow, Op::Lt],
    };
    let op = *g.rng.pick(ops);
    let other = if g.rng.chance(0.2) { Some(x) } else { splat(g, &ty)? };
    let Some(other) = other else { return Ok(()) };
    let inputs = if g.rng.chance(0.3) { [other, x] } else { [x, other] };
    g.node(op, &inputs, smallvec![])?;
    Ok(())
}

fn is_simple(row: &Row) -> bool {
    row.class == Class::Pointwise && row.attrs.is_empty()
}

fn cast(g: &mut Generator) -> Result<()> {
    let x = any(g, 0, is_any)?;
    let dtype = *g.rng.pick(&DTYPES);
    g.node(Op::Cast, &[x], smallvec![Attr::DType(dtype)])?;
    Ok(())
}

/// To a merged, a split or a flat shape, or one with an added 1.
fn reshape(g: &mut Generator) -> Result<()> {
    let x = any(g, 0, is_any)?;
    let mut sizes = g.builder.ty(x).sizes.clone();
    match g.rng.below(4) {
        0 => sizes = smallvec![numel(&sizes)],
        1 => {
            let at = g.rng.below(sizes.len() + 1);
            sizes.insert(at, 1);
        }
        2 if sizes.len() > 1 => {
            let at = g.rng.below(sizes.len() - 1);
            sizes[at] *= sizes.remove(at + 1);
        }
        _ => {
            if let Some(at) = sizes.iter().position(|&s| s > 2 && s % 2 == 0) {
                sizes[at] /= 2;
                sizes.insert(at, 2);
            }
        }
    }
    g.node(Op::Reshape, &[x], smallvec![Attr::Ints(sizes)])?;
    Ok(())
}

fn transpose(g: &mut Generator) -> Result<()> {
    let x = any(g, 1, is_any)?;
    let perm = permutation(g, g.builder.ty(x).rank());
    g.node(Op::Transpose, &[x], smallvec![Attr::Ints(perm)])?;
    Ok(())
}

/// To other sizes where they are 1, or with a new dimension in front.
fn broadcast(g: &mut Generator) -> Result<()> {
    let x = any(g, 0, is_any)?;
    let mut sizes = g.builder.ty(x).sizes.clone();
    for s in sizes.iter_mut().filter(|s| **s == 1) {
        *s = g.size();
    }
    if sizes.is_empty() || g.rng.chance(0.5) {
        let size = g.size();
        sizes.insert(0, size);
    }
    g.node(Op::Broadcast, &[x], smallvec![Attr::Ints(sizes)])?;
    Ok(())
}

fn slice(g: &mut Generator) -> Result<()> {
    let x = any(g, 1, is_any)?;
    let (mut starts, mut sizes, mut steps) = (Dims::new(), Dims::new(), Dims::new());
    for full in g.builder.ty(x).sizes.clone() {
        let start = g.rng.below(full as usize + 1) as i64;
        let start = if g.rng.chance(0.5) { 0 } else { start };
        let step = 1 + g.rng.below(3) as i64;
        let most = (full - start + step - 1) / step;
        let size = if g.rng.chance(0.5) { most } else { g.rng.below(most as usize + 1) as i64 };
        starts.push(start);
        sizes.push(size);
        steps.push(step);
    }
    g.node(Op::Slice, &[x], smallvec![Attr::Ints(starts), Attr::Ints(sizes), Attr::Ints(steps)])?;
    Ok(())
}

/// A view of the flat elements, sometimes of all of them: read, or written over, then without duplicates.
fn strided(g: &mut Generator) -> Result<()> {
    let base = any(g, 0, is_any)?;
    let ty = g.builder.ty(base).clone();
    let full = Layout::contiguous(&ty.sizes);
    let perm = permutation(g, ty.rank());
    let mut view = full.transpose(&perm);
    if g.rng.chance(0.6) {
        let starts: Dims =
            view.sizes.iter().map(|&s| g.rng.below(s.max(1) as usize) as i64).collect();
        let sizes: Dims = view.sizes.iter().zip(&starts).map(|(s, a)| s - a).collect();
        view = view.slice(&starts, &sizes, &Dims::from_elem(1, ty.rank()));
    }
    let attrs = |view: Layout| {
        smallvec![Attr::Ints(view.sizes), Attr::Ints(view.strides), Attr::Int(view.offset)]
    };
    if g.rng.chance(0.5) {
        let x = g.of_type(&Ty { dtype: ty.dtype, sizes: view.sizes.clone() })?;
        g.node(Op::AsStridedScatter, &[base, x], attrs(view))?;
    } else {
        // A view that is read may overlap itself.
        if g.rng.chance(0.3) && !view.strides.is_empty() {
            let d = g.rng.below(view.strides.len());
            view.strides[d] = 0;
        }
        g.node(Op::AsStrided, &[base], attrs(view))?;
    }
    Ok(())
}

fn bitcast(g: &mut Generator) -> Result<()> {
    let x = any(g, 0, |d| d != DType::Bool)?;
    let dtype = *g.rng.pick(&DTYPES);
    g.node(Op::Bitcast, &[x], smallvec![Attr::DType(dtype)])?;
    Ok(())
}

fn concat(g: &mut Generator) -> Result<()> {
    let x = any(g, 1, is_any)?;
    let ty = g.builder.ty(x).clone();
    let dim = g.rng.below(ty.rank());
    let mut parts = vec![x];
    for _ in 0..g.rng.below(3) {
        let mut part = ty.clone();
        part.sizes[dim] = g.size();
        parts.push(g.of_type(&part)?);
    }
    g.node(Op::Concat, &parts, smallvec![Attr::Int(dim as i64)])?;
    Ok(())
}

/// A value that is offloaded to the host and reloaded, or stays there.
fn offload(g: &mut Generator) -> Result<()> {
    let x = any(g, 0, is_any)?;
    let op = if g.builder.graph().maker(x).op == Op::Offload { Op::Reload } else { Op::Offload };
    if let Some(there) = g.node(op, &[x], smallvec![])?
        && op == Op::Offload
        && g.rng.chance(0.7)
    {
        g.node(Op::Reload, &there, smallvec![])?;
    }
    Ok(())
}

/// Any row of the class `Reduction`.
fn reduction(g: &mut Generator) -> Result<()> {
    let rows: Vec<_> = TABLE.iter().filter(|row| row.class == Class::Reduction).collect();
    let row = *g.rng.pick(&rows);
    let x =
        any(g, 1, if matches!(row.op, Op::Any | Op::All) { |d| d == DType::Bool } else { is_any })?;
    let rank = g.builder.ty(x).rank();
    let attr = match row.attrs {
        ["axis"] => Attr::Int(g.rng.below(rank) as i64),
        _ => Attr::Ints((0..rank as i64).filter(|_| g.rng.chance(0.5)).collect()),
    };
    g.node(row.op, &[x], smallvec![attr])?;
    Ok(())
}

fn softmax(g: &mut Generator) -> Result<()> {
    let x = any(g, 1, |d| d.is_float())?;
    let ty = g.builder.ty(x).clone();
    if g.rng.chance(0.25) && ty.sizes.last() != Some(&0) {
        g.node(Op::LogSumExp, &[x], smallvec![])?;
        return Ok(());
    }
    let (forward, backward) =
        *g.rng.pick(&[(Op::Softmax, Op::SoftmaxGrad), (Op::LogSoftmax, Op::LogSoftmaxGrad)]);
    if let Some(y) = g.node(forward, &[x], smallvec![])?
        && g.rng.chance(0.5)
    {
        let dy = g.of_type(&ty)?;
        g.node(backward, &[dy, y[0]], smallvec![])?;
    }
    Ok(())
}

/// A matrix of floats to normalise; makes one for later if there is none.
fn matrix(g: &mut Generator) -> Result<Option<ValueId>> {
    let found = g.pick(|ty| ty.dtype.is_float() && ty.rank() == 2);
    if found.is_none() {
        let sizes = [g.size(), g.size()];
        let dtype = *g.rng.pick(&[DType::F32, DType::F64, DType::BF16]);
        g.fresh(&Ty::new(dtype, &sizes))?;
    }
    Ok(found)
}

/// A weight or bias of a normalisation of `x`.
fn of_column(g: &mut Generator, x: &Ty) -> Result<ValueId> {
    let dtype = if g.rng.chance(0.7) { x.dtype } else { DType::F32 };
    g.of_type(&Ty::new(dtype, &x.sizes[1..]))
}

fn layer_norm(g: &mut Generator) -> Result<()> {
    let Some(x) = matrix(g)? else { return Ok(()) };
    let ty = g.builder.ty(x).clone();
    let (weight, bias) = (g.rng.chance(0.6), g.rng.chance(0.5));
    let mut inputs = vec![x];
    for _ in 0..weight as usize + bias as usize {
        inputs.push(of_column(g, &ty)?);
    }
    let attrs = smallvec![Attr::Float(1e-3), Attr::Bool(weight), Attr::Bool(bias)];
    let Some(results) = g.node(Op::LayerNorm, &inputs, attrs)? else { return Ok(()) };
    if g.rng.chance(0.5) {
        let dy = g.of_type(&ty)?;
        let mut inputs_of_grad = vec![dy, x, results[1], results[2]];
        inputs_of_grad.extend(weight.then(|| inputs[1]));
        g.node(Op::LayerNormGrad, &inputs_of_grad, smallvec![])?;
    }
    Ok(())
}

fn rms_norm(g: &mut Generator) -> Result<()> {
    let Some(x) = matrix(g)? else { return Ok(()) };
    let ty = g.builder.ty(x).clone();
    let mut inputs = vec![x];
    if g.rng.chance(0.6) {
        inputs.push(of_column(g, &ty)?);
    }
    let Some(results) = g.node(Op::RmsNorm, &inputs, smallvec![Attr::Float(1e-3)])? else {
        return Ok(());
    };
    if g.rng.chance(0.5) {
        let mut inputs_of_grad = vec![g.of_type(&ty)?, x, results[1]];
        inputs_of_grad.extend(inputs.get(1));
        g.node(Op::RmsNormGrad, &inputs_of_grad, smallvec![])?;
    }
    Ok(())
}

fn recurrent(g: &mut Generator) -> Result<()> {
    let mut small = |n: usize| 1 + g.rng.below(n) as i64;
    let (time, batch, units) = (small(4), small(4), small(5));
    let (cell, dtype) = (*g.rng.pick(&Cell::ALL), *g.rng.pick(&[DType::F32, DType::F64]));
    let of_gates = cell.gates() as i64 * units;
    let state = Ty::new(dtype, &[batch, units]);
    let gates = g.of_type(&Ty::new(dtype, &[time, batch, of_gates]))?;
    let mut inputs =
        vec![gates, g.of_type(&Ty::new(dtype, &[of_gates, units]))?, g.of_type(&state)?];
    match cell {
        Cell::Tanh | Cell::Relu => {}
        Cell::Lstm => inputs.push(g.of_type(&state)?),
        Cell::Gru => inputs.push(g.of_type(&Ty::new(dtype, &[units]))?),
    }
    let attrs: Attrs = smallvec![cell.attr(), Attr::Bool(g.rng.chance(0.5))];
    let Some(results) = g.node(Op::Recurrent, &inputs, attrs.clone())? else { return Ok(()) };
    if g.rng.chance(0.5) {
        let dy = g.of_type(&Ty::new(dtype, &[time, batch, units]))?;
        let mut inputs =
            [&[dy, inputs[1], inputs[2], results[0], results[2]], &inputs[3..]].concat();
        match cell {
            Cell::Lstm => inputs.push(g.of_type(&state)?),
            _ => inputs.truncate(5),
        }
        g.node(Op::RecurrentGrad, &inputs, attrs)?;
    }
    Ok(())
}

fn attention(g: &mut Generator) -> Result<()> {
    let mut small = |n: usize| 1 + g.rng.below(n) as i64;
    let (batch, groups, share) = (small(2), small(2), small(2));
    let (queries, keys, width, value_width) = (small(5), small(5), small(4), small(4));
    let keys = if g.rng.chance(0.05) { 0 } else { keys };
    let heads = groups * share;
    let dtype = *g.rng.pick(&[DType::F32, DType::F64, DType::BF16]);
    let q = g.of_type(&Ty::new(dtype, &[batch, heads, queries, width]))?;
    let k = g.of_type(&Ty::new(dtype, &[batch, groups, keys, width]))?;
    let v = g.of_type(&Ty::new(dtype, &[batch, groups, keys, value_width]))?;
    let seed = [g.scalar(DType::I64)?, g.scalar(DType::I64)?];
    let mut inputs = vec![q, k, v, seed[0], seed[1]];
    if g.rng.chance(0.5) {
        let of_bias = *g.rng.pick(&[DType::Bool, DType::I32, dtype]);
        let full = match of_bias {
            DType::I32 => [batch, 1, 1, 1],
            _ => [batch, heads, queries, keys],
        };
        let sizes = full.map(|s| if g.rng.chance(0.3) { 1 } else { s });
        inputs.push(match of_bias {
            DType::I32 => {
                let mut ends = Array::zeros(&Ty::new(of_bias, &sizes));
                (0..ends.len()).for_each(|i| ends.set_i64(i, 1 + g.rng.below(5) as i64));
                g.input(ends)?
            }
            _ => g.of_type(&Ty::new(of_bias, &sizes))?,
        });
    }
    let dropout = if g.rng.chance(0.3) { 0.3 } else { 0.0 };
    let attrs: Attrs =
        smallvec![Attr::Float(0.5), Attr::Bool(g.rng.chance(0.5)), Attr::Float(dropout)];
    let Some(results) = g.node(Op::Attention, &inputs, attrs.clone())? else { return Ok(()) };
    if g.rng.chance(0.5) {
        let out = g.builder.ty(results[0]).clone();
        let dout = g.of_type(&out)?;
        let mut inputs_of_grad = vec![dout, q, k, v, results[0], results[1]];
        inputs_of_grad.extend(&inputs[3..]);
        g.node(Op::AttentionGrad, &inputs_of_grad, attrs)?;
    }
    Ok(())
}
