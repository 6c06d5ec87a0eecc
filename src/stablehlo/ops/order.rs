//! Sorting by a region that compares two elements, and the largest elements.

use super::elementwise::total_order;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Op};
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::body::samples;
use crate::stablehlo::lower::Call;
use crate::stablehlo::types::is_carried;
use crate::stablehlo::value::{Value, Values};
use smallvec::smallvec;
use std::cmp::Ordering;

/// How one operand is sorted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key {
    operand: usize,
    descending: bool,
    /// Whether floats are ordered by their bits, so that -0 comes before 0.
    total: bool,
}

impl Key {
    /// The order of two numbers. `None`: any order of NaN and numbers will do.
    fn compare(self, dtype: DType, a: f64, b: f64) -> Option<Ordering> {
        let order = match dtype.is_float() && self.total {
            true => a.total_cmp(&b),
            false if a.is_nan() || b.is_nan() => a.is_nan().cmp(&b.is_nan()),
            false => a.partial_cmp(&b)?,
        };
        Some(if self.descending { order.reverse() } else { order })
    }

    /// An array that the primitive sorts in the order of this key.
    fn of<'m>(self, x: Value<'m>) -> V<'m> {
        match x.dtype {
            DType::Bool => x.v.cast(DType::U8),
            dtype if is_carried(dtype) => x.ordered(),
            dtype if self.total && dtype.is_float() => total_order(x.v),
            _ => x.v,
        }
    }
}

pub fn sort<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let sizes = c.x[0].v.sizes();
    if c.x.iter().any(|x| x.v.sizes() != sizes) {
        return invalid!("operands of different sizes");
    }
    let rank = sizes.len();
    let axis = match c.int_or(&["dimension"], -1)? {
        -1 if rank > 0 => rank - 1,
        d => crate::stablehlo::options::dim(d, rank)?,
    };
    let keys = keys(c)?;
    let attrs = || {
        smallvec![Attr::Int(axis as i64), Attr::Int(sizes[axis]), Attr::Bool(keys[0].descending)]
    };
    if let ([key], [x]) = (&keys[..], &c.x[..])
        && key.of(*x).id == x.v.id
    {
        let sorted = c.math().ops(Op::TopK, &[x.v], attrs())?[0];
        return Ok(vec![x.map(|_| sorted)]);
    }
    // Sorts by the last key first: equal elements keep their order.
    let mut order: Option<V<'m>> = None;
    let gather = |v: V<'m>, index: V<'m>| {
        c.math().op(Op::Gather, &[v, index], smallvec![Attr::Int(axis as i64)])
    };
    for key in keys.iter().rev() {
        let by = key.of(c.x[key.operand]);
        let by = order.map_or(by, |order| gather(by, order));
        let attrs =
            smallvec![Attr::Int(axis as i64), Attr::Int(sizes[axis]), Attr::Bool(key.descending)];
        let places = c.math().ops(Op::TopK, &[by], attrs)?[1];
        order = Some(order.map_or(places, |order| gather(order, places)));
    }
    match order {
        Some(order) => Ok(c.x.iter().map(|x| x.map(|v| gather(v, order))).collect()),
        None => Ok(c.x.clone()),
    }
}

/// The keys that a comparator sorts by, found by running it on samples of all kinds of numbers.
fn keys(c: &Call<'_, '_, '_>) -> Result<Vec<Key>> {
    let region = c.region(0)?;
    if region.args.len() != 2 * c.x.len() || !c.compares(region) {
        return invalid!(
            "a comparator that does more than compare its arguments, with each other and with 0 and NaN, is not supported"
        );
    }
    let used = |operand: usize| {
        let names = [region.args[2 * operand], region.args[2 * operand + 1]];
        region.body.iter().any(|op| op.operands.iter().any(|x| names.contains(&x.name)))
    };
    let operands: Vec<usize> = (0..c.x.len()).filter(|&n| used(n)).collect();
    if operands.is_empty() || operands.len() > 3 {
        return invalid!("a comparator of {} operands is not supported", operands.len());
    }
    // Fewer samples of each where there are more keys.
    let numbers: Option<Vec<Vec<f64>>> = operands.iter().map(|&n| samples(c.x[n].dtype)).collect();
    let Some(numbers) = numbers else { return invalid!("this type is not sorted") };
    let keep = |list: &Vec<f64>| {
        if operands.len() > 2 { list[list.len() / 2 - 1..].to_vec() } else { list.clone() }
    };
    let numbers: Vec<Vec<f64>> = numbers.iter().map(keep).collect();
    let mut pairs: Vec<Vec<f64>> = vec![Vec::new()];
    for list in &numbers {
        let all = list.iter().flat_map(|&a| list.iter().map(move |&b| [a, b]));
        let all: Vec<[f64; 2]> = all.collect();
        pairs = pairs
            .iter()
            .flat_map(|row| all.iter().map(move |pair| [&row[..], pair].concat()))
            .collect();
    }
    let column = |n: usize| pairs.iter().map(|row| row[n]).collect::<Vec<f64>>();
    let args: Vec<(DType, Vec<f64>)> = (0..2 * c.x.len())
        .map(|n| match operands.iter().position(|&o| o == n / 2) {
            Some(at) => (c.x[n / 2].dtype, column(2 * at + n % 2)),
            None => (c.x[n / 2].dtype, vec![0.0; pairs.len()]),
        })
        .collect();
    let unknown = "what this comparator sorts by was not found out";
    let got = c.run_region(region, &args);
    let Some([is_less, ..]) = got.as_deref() else { return invalid!("{unknown}") };
    let fits = |keys: &[Key]| {
        (0..pairs.len()).all(|n| {
            let row = &pairs[n];
            let mut less = Some(false);
            for key in keys {
                let at = operands.iter().position(|&o| o == key.operand).unwrap_or(0);
                let (a, b) = (row[2 * at], row[2 * at + 1]);
                // A plain comparison with NaN is false: every position of it is correct.
                let plain_nan = !key.total && (a.is_nan() || b.is_nan()) && is_less.i64(n) == 0;
                match key.compare(c.x[key.operand].dtype, a, b) {
                    _ if plain_nan => less = None,
                    Some(Ordering::Equal) => continue,
                    Some(order) => less = Some(order == Ordering::Less),
                    None => less = None,
                }
                break;
            }
            less.is_none_or(|less| less == (is_less.i64(n) != 0))
        })
    };
    for order in orders(&operands) {
        for choice in 0..4u32.pow(order.len() as u32) {
            let key = |(i, &operand): (usize, &usize)| {
                let bits = choice >> (2 * i);
                Key { operand, descending: bits & 1 != 0, total: bits & 2 != 0 }
            };
            let keys: Vec<Key> = order.iter().enumerate().map(key).collect();
            if fits(&keys) {
                return Ok(keys);
            }
        }
    }
    invalid!("{unknown}")
}

/// All orders of up to three operands.
fn orders(operands: &[usize]) -> Vec<Vec<usize>> {
    if operands.len() < 2 {
        return vec![operands.to_vec()];
    }
    let mut all = Vec::new();
    for (i, &first) in operands.iter().enumerate() {
        let rest = [&operands[..i], &operands[i + 1..]].concat();
        all.extend(orders(&rest).into_iter().map(|rest| [&[first], &rest[..]].concat()));
    }
    all
}

/// The `k` largest elements of the last dimension, and their indices.
pub fn top_k<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = c.x[0];
    let Some(last) = x.v.rank().checked_sub(1) else { return invalid!("a number has no largest") };
    let k = c.int(&["k"])?;
    let by = x.ordered();
    // XLA's own operation may select the smallest.
    let largest = c.int_or(&["largest"], 1)? != 0;
    let attrs = smallvec![Attr::Int(last as i64), Attr::Int(k), Attr::Bool(largest)];
    let found = c.math().ops(Op::TopK, &[by], attrs)?;
    let values = x.with_ordered(found[0]);
    let places = match c.op.types.get(1) {
        Some(ty) if ty.dtype.is_int() => found[1].cast(ty.dtype),
        _ => return invalid!("places of another type"),
    };
    Ok(vec![values, Value::of(places)])
}

/// XLA's `ApproxTopK` of values and their indices, which may miss some of the largest; here it misses none.
pub fn approx_top_k<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [x, numbers, ..] = c.x[..] else {
        return invalid!("values and their numbers are expected");
    };
    let config = c.attr(&["mhlo.backend_config", "backend_config"])?;
    let [Some(Attribute::Int(k)), Some(Attribute::Int(axis))] =
        ["top_k", "reduction_dim"].map(|name| config.entry(name))
    else {
        return invalid!("`top_k` or `reduction_dim` is missing");
    };
    let axis = crate::stablehlo::options::dim(*axis, x.v.rank())? as i64;
    // The comparator is a function of that name, such as `top_k_gt_f32_comparator`.
    let largest = match c.attr(&["called_computations"])? {
        Attribute::List(names) => match &names[..] {
            [Attribute::Symbol(name)] if name.starts_with("top_k_gt_") => true,
            [Attribute::Symbol(name)] if name.starts_with("top_k_lt_") => false,
            _ => return invalid!("a comparator that is not known"),
        },
        _ => return invalid!("`called_computations` is no list"),
    };
    if !x.dtype.is_float() || numbers.v.sizes() != x.v.sizes() {
        return invalid!("floats and as many numbers are expected");
    }
    let attrs = smallvec![Attr::Int(axis), Attr::Int(*k), Attr::Bool(largest)];
    let found = c.math().ops(Op::TopK, &[x.v], attrs)?;
    let places = c.math().op(Op::Gather, &[numbers.v, found[1]], smallvec![Attr::Int(axis)]);
    Ok(vec![x.map(|_| found[0]), numbers.map(|_| places)])
}
