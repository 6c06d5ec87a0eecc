//! Primitives without array operands: program inputs, scalars, constants, iota, random numbers.

use super::array::Array;
use super::{Attr, Eval, Ty, Tys, check, philox};
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::shape::contiguous_strides;

pub const EXTERNAL: Eval = Eval::External;
pub const CONST: Eval = Eval::Whole(constant);
pub const CONST_INT: Eval = Eval::Whole(constant_int);
pub const IOTA: Eval = Eval::Whole(iota);
pub const RANDOM: Eval = Eval::Whole(random);

pub fn declared(_: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    match attrs {
        [Attr::Int(0..=0xffff_ffff), Attr::Types(types)] if types.len() == 1 => {
            check::one(types[0].dtype, &types[0].sizes)
        }
        _ => check::wrong_attrs("index: int, type: one type", attrs),
    }
}

pub fn scalar_type(_: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [Attr::Int(0..=0xffff_ffff), Attr::DType(dtype)] = attrs else {
        return check::wrong_attrs("slot: int, dtype: dtype", attrs);
    };
    if !matches!(dtype, DType::F64 | DType::I64 | DType::Bool) {
        return invalid!("a scalar is f64, i64 or bool, not {dtype}");
    }
    check::one(*dtype, &[])
}

pub fn const_type(_: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [Attr::Float(_), Attr::DType(dtype)] = attrs else {
        return check::wrong_attrs("value: float, dtype: dtype", attrs);
    };
    check::arithmetic(*dtype)?;
    check::one(*dtype, &[])
}

pub fn const_int_type(_: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [Attr::Int(_), Attr::DType(dtype)] = attrs else {
        return check::wrong_attrs("value: int, dtype: dtype", attrs);
    };
    check::bits(*dtype)?;
    check::one(*dtype, &[])
}

pub fn iota_type(_: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [Attr::Ints(sizes), Attr::Int(dim), Attr::DType(dtype)] = attrs else {
        return check::wrong_attrs("sizes: ints, dim: int, dtype: dtype", attrs);
    };
    check::number(*dtype)?;
    check::axis(*dim, sizes.len())?;
    check::one(*dtype, sizes)
}

pub fn random_type(inputs: &[&Ty], attrs: &[Attr], dtype: DType) -> Result<Tys> {
    let [seed, offset] = inputs else {
        return check::wrong_operands("seed, offset", inputs);
    };
    let [Attr::Ints(sizes)] = attrs else {
        return check::wrong_attrs("sizes: ints", attrs);
    };
    check_seed(seed, offset)?;
    check::one(dtype, sizes)
}

/// Seed and offset of a generator: i64, rank 0.
pub fn check_seed(seed: &Ty, offset: &Ty) -> Result<()> {
    for (ty, what) in [(seed, "seed"), (offset, "offset")] {
        check::dtype(ty, DType::I64, what)?;
        check::rank(ty, 0, what)?;
    }
    Ok(())
}

fn constant(_: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let mut y = Array::zeros(&outs[0]);
    y.set_f64(0, attrs[0].float());
    Ok(vec![y])
}

fn constant_int(_: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let mut y = Array::zeros(&outs[0]);
    y.set_i64(0, attrs[0].int());
    Ok(vec![y])
}

fn iota(_: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let dim = attrs[1].int() as usize;
    let sizes = &outs[0].sizes;
    let stride = contiguous_strides(sizes)[dim];
    let mut y = Array::zeros(&outs[0]);
    for i in 0..y.len() {
        y.set_i64(i, i as i64 / stride % sizes[dim]);
    }
    Ok(vec![y])
}

fn random(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (seed, offset) = (x[0].i64(0) as u64, x[1].i64(0) as u64);
    let mut y = Array::zeros(&outs[0]);
    for i in 0..y.len() {
        philox::set(&mut y, i, [seed, offset, i as u64]);
    }
    Ok(vec![y])
}
