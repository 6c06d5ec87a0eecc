//! Calls of the module's own functions, and branches.

use super::primitive;
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::lower::Call;
use crate::stablehlo::value::{Value, Values};

pub fn callee<'a>(c: &Call<'_, 'a, '_>, names: &[&str]) -> Result<&'a str> {
    match c.attr(names)? {
        Attribute::Symbol(name) | Attribute::Text(name) => Ok(name),
        _ => invalid!("`{}` is no name", names[0]),
    }
}

pub fn call<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    c.lowering.call(callee(c, &["callee"])?, c.x.clone())
}

/// An operation that the module decomposes into others, which replace it; ours are primitives.
pub fn composite<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let name = callee(c, &["name"])?;
    match name.strip_prefix(primitive::PREFIX) {
        Some(name) => primitive::call(c, name),
        None => c.lowering.call(callee(c, &["decomposition"])?, c.x.clone()),
    }
}

/// `if` has a bool and two branches, `case` a number and any number of branches; out of range it selects the last.
pub fn branches<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let index = c.x[0];
    let count = c.op.regions.len();
    if count == 0 || index.v.rank() != 0 {
        return invalid!("a number and branches are expected");
    }
    let is_bool = index.dtype == DType::Bool;
    if !is_bool && index.dtype != DType::I32 || is_bool && count != 2 {
        return invalid!("{count} branches by {}", index.dtype);
    }
    let run =
        |n: usize| c.lowering.region(c.region(n)?, Values::new(), Some(c.scope), c.scope.lifted);
    if let Some(known) = c.lowering.known_int(index.v) {
        let chosen = match is_bool {
            true => (known == 0) as usize,
            false => usize::try_from(known).ok().filter(|&n| n < count).unwrap_or(count - 1),
        };
        return run(chosen);
    }
    // No branch has effects: all are computed, and one is selected. In the others loops have no rounds.
    let number = |n: usize| c.math().constant_int(n as i64, DType::I32);
    let is_taken = |n: usize| match (is_bool, n + 1 == count) {
        (true, false) => index.v,
        (true, true) => index.v.not(),
        (false, false) => index.v.eq(number(n)),
        (false, true) => index.v.lt(0.0).or(index.v.ge(number(n))),
    };
    let run = |n: usize| {
        let outside = c.lowering.taken.get();
        let here = (!c.scope.lifted).then(|| is_taken(n));
        c.lowering.taken.set(match (outside, here) {
            (Some(outside), Some(here)) => Some(outside.and(here)),
            (one, other) => one.or(other),
        });
        let results = run(n);
        c.lowering.taken.set(outside);
        results
    };
    let mut results = run(count - 1)?;
    for n in (0..count - 1).rev() {
        let branch = run(n)?;
        if branch.len() != results.len()
            || branch.iter().zip(&results).any(|(a, b)| a.ty() != b.ty())
        {
            return invalid!("branches give values of different types");
        }
        let pick = |(yes, no): (&Value<'m>, &Value<'m>)| yes.map(|v| is_taken(n).select(v, no.v));
        results = branch.iter().zip(&results).map(pick).collect();
    }
    Ok(results)
}

pub fn refused<'m>(_: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    invalid!(
        "this operation is not supported: nobody says which random numbers these are (rng_bit_generator has some that are known)"
    )
}
