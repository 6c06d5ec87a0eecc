//! The body of a reduction, a scatter or a sort, which combines two elements: one operation, or a region that is run on whole
//! arrays or on samples.

use super::attribute::Attribute;
use super::literal::Elements;
use super::lower::{Call, Scope};
use super::tree::{Operation, Region, is_return};
use super::types::carrier;
use super::value::{Value, Values};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::interpret::interpret;
use crate::graph::math::{Math, complex};
use crate::invalid;
use crate::op::Op;
use crate::op::array::Array;

#[derive(Clone, Copy)]
pub enum Body<'c, 'a> {
    /// Sum, product, extreme or logic of two elements.
    One(Op),
    Region(&'c Region<'a>),
    /// The second element.
    Second,
}

const ONES: [(&str, Op); 7] = [
    ("stablehlo.add", Op::Add),
    ("stablehlo.multiply", Op::Mul),
    ("stablehlo.maximum", Op::Max),
    ("stablehlo.minimum", Op::Min),
    ("stablehlo.and", Op::And),
    ("stablehlo.or", Op::Or),
    ("stablehlo.xor", Op::Xor),
];

fn one(name: &str) -> Option<Op> {
    ONES.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// The logical operation for bools, which have no sums.
pub fn logic(op: Op) -> Op {
    match op {
        Op::Add | Op::Max => Op::Or,
        Op::Mul | Op::Min => Op::And,
        other => other,
    }
}

impl<'c, 'a, 'm> Call<'c, 'a, 'm> {
    /// The body in region `n`, or the operation in the attribute `applies`.
    pub fn body(&self, n: usize) -> Result<Body<'c, 'a>> {
        if let Some(Attribute::Choice(name)) = self.find(&["applies"]) {
            return match one(name) {
                Some(op) => Ok(Body::One(op)),
                None => invalid!("reductions by `{name}` are not supported"),
            };
        }
        let region = self.region(n)?;
        let is = |op: &Operation, wanted: [&str; 2]| {
            let [a, b] = &op.operands[..] else { return false };
            a.index == 0 && b.index == 0 && [a.name, b.name] == wanted
        };
        match (&region.args[..], &region.body[..]) {
            ([a, b], [op, last]) if is_return(last.name) => {
                let returned = match (&last.operands[..], &op.results[..]) {
                    ([x], [(name, 1)]) => x.name == *name,
                    _ => false,
                };
                let of_both = is(op, [*a, *b]) || is(op, [*b, *a]);
                match one(op.name) {
                    Some(op) if returned && of_both => Ok(Body::One(op)),
                    _ => Ok(Body::Region(region)),
                }
            }
            ([_, b], [last]) if is_return(last.name) => match &last.operands[..] {
                [x] if x.name == *b => Ok(Body::Second),
                _ => Ok(Body::Region(region)),
            },
            _ => Ok(Body::Region(region)),
        }
    }

    /// Applies the body to the elements of arrays.
    pub fn merge(
        &self,
        body: Body<'c, 'a>,
        a: &[Value<'m>],
        b: &[Value<'m>],
    ) -> Result<Values<'m>> {
        let merged = match body {
            Body::Second => b.to_vec(),
            Body::One(op) => vec![merged(op, a[0], b[0])?],
            Body::Region(region) => {
                let args = [a, b].concat();
                let results = self.lowering.region(region, args, Some(self.scope), true)?;
                if results.len() != a.len() {
                    return invalid!("a region gives {} results for {}", results.len(), a.len());
                }
                // A result that depends on no argument is one number for all elements.
                let widened =
                    results.iter().zip(a).map(|(x, a)| x.map(|v| v.broadcast(&a.v.sizes())));
                widened.collect()
            }
        };
        self.lowering.math.check()?;
        match merged.iter().zip(a).all(|(x, a)| x.ty() == a.ty()) {
            true => Ok(merged),
            false => invalid!("a region gives results of other types than its arguments"),
        }
    }
}

fn merged<'m>(op: Op, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>> {
    if a.dtype != b.dtype {
        return invalid!("operands of different types, {} and {}", a.dtype, b.dtype);
    }
    if a.dtype.is_complex() {
        let ([ar, ai], [br, bi]) = (a.v.parts(), b.v.parts());
        return match op {
            Op::Add => Ok(Value::of(complex(ar + br, ai + bi))),
            _ => invalid!("only sums of complex numbers are supported"),
        };
    }
    match op {
        _ if a.dtype == DType::Bool => Ok(a.map(|v| v.binary(logic(op), b.v))),
        Op::Max | Op::Min => Ok(a.extreme(op, b)),
        _ => Ok(a.map(|v| v.binary(op, b.v))),
    }
}

// ---- samples

/// Whether samples distinguish a number from all others, as they do 0, NaN, true and false.
fn is_told(dtype: DType, number: &Array) -> bool {
    dtype == DType::Bool || !dtype.is_complex() && (number.f64(0) == 0.0 || number.f64(0).is_nan())
}

impl<'a, 'm> Call<'_, 'a, 'm> {
    /// Whether a region only compares its arguments with each other and with 0 and NaN, be they written in it or outside:
    /// then a few samples determine its results.
    pub fn compares(&self, region: &Region<'a>) -> bool {
        let simple = region.body.iter().all(|op| match op.name {
            "stablehlo.compare" | "stablehlo.select" | "stablehlo.and" | "stablehlo.or"
            | "stablehlo.not" | "stablehlo.xor" => true,
            "stablehlo.constant" => match op.attrs.iter().find(|(name, _)| *name == "value") {
                Some((_, Attribute::Dense(literal))) => match literal.elements() {
                    Ok(Elements::Splat(one)) => is_told(literal.ty.dtype, &one),
                    _ => false,
                },
                _ => false,
            },
            name => is_return(name),
        });
        let captured = self.captured(region);
        simple && captured.is_some_and(|all| all.iter().all(|(_, dtype, one)| is_told(*dtype, one)))
    }

    /// The numbers that a region captures. `None`: one of them is not known.
    fn captured(&self, region: &Region<'a>) -> Option<Vec<(&'a str, DType, Array)>> {
        let inside = |name: &str| {
            region.args.contains(&name)
                || region.body.iter().any(|op| op.results.iter().any(|(made, _)| *made == name))
        };
        let names = region.body.iter().flat_map(|op| &op.operands).filter(|x| !inside(x.name));
        names
            .map(|name| match self.scope.all_of(*name).ok()? {
                [value] => Some((name.name, value.dtype, self.lowering.splat(value.v)?)),
                _ => None,
            })
            .collect()
    }

    /// The results of a region for arrays of arguments, element by element. `None` where it needs more than its arguments and
    /// known numbers.
    pub fn run_region(
        &self,
        region: &Region<'a>,
        args: &[(DType, Vec<f64>)],
    ) -> Option<Vec<Array>> {
        let captured = self.captured(region)?;
        let math = Math::default();
        let mut arrays = Vec::new();
        let mut values = Values::new();
        for (index, (dtype, numbers)) in args.iter().enumerate() {
            let array = Array::from_f64(carrier(*dtype), &[numbers.len() as i64], numbers);
            let input = math.build(|b| b.input(index as u32, array.ty.clone()));
            values.push(Value::new(input, *dtype));
            arrays.push(array);
        }
        let n = args.first().map_or(0, |(_, numbers)| numbers.len() as i64);
        let inner = self.lowering.alone(&math, arrays.len());
        let outside = captured
            .into_iter()
            .map(|(name, dtype, one)| (name, vec![Value::new(inner.array(one), dtype)]));
        let outside = Scope::alone(outside.collect());
        let results = inner.region(region, values, Some(&outside), true).ok()?;
        let results: Vec<_> = results.iter().map(|x| x.v.broadcast(&[n]).id).collect();
        math.check().ok()?;
        drop(outside);
        drop(inner);
        let graph = math.into_builder().finish(results);
        interpret(&graph, &arrays, &[]).ok()
    }
}

/// Numbers that differ in every way that a comparison can tell.
pub fn samples(dtype: DType) -> Option<Vec<f64>> {
    match dtype {
        _ if dtype.is_float() => {
            let infinity = f64::INFINITY;
            Some(vec![-infinity, -2.0, -0.0, 0.0, 1.0, 3.0, infinity, f64::NAN])
        }
        DType::Bool => Some(vec![0.0, 1.0]),
        _ if carrier(dtype).is_int() => Some(vec![0.0, 1.0, 2.0, 100.0]),
        _ => None,
    }
}
