//! Every rule against central differences in f64, through the interpreter; second derivatives likewise.

mod cases;
mod kinks;
mod random;
mod table;

use super::table::{Rule, rule};
use crate::dtype::DType;
use crate::error::{Code, Result};
use crate::graph::generate::Rng;
use crate::graph::interpret::interpret;
use crate::graph::math::{Math, V};
use crate::graph::{Graph, ValueId};
use crate::op::array::Array;
use crate::op::table::TABLE;
use crate::op::{Attr, Op, Ty};
use crate::shape::Dims;
use smallvec::smallvec;
use std::collections::BTreeSet;

type Formula = Box<dyn for<'m> Fn(&'m Math, &[V<'m>]) -> Vec<V<'m>>>;

/// Without collectives.
fn gradients<'m>(math: &'m Math, loss: V<'m>, wrt: &[V<'m>]) -> Result<Vec<V<'m>>> {
    super::gradients(math, loss, wrt, Vec::new()).map(|(found, _)| found)
}

/// A function of f64 arrays, where to look at it, and whether its gradient has one.
struct Case {
    name: &'static str,
    inputs: Vec<Array>,
    formula: Formula,
    twice: bool,
}

fn input<'m>(math: &'m Math, index: usize, array: &Array) -> V<'m> {
    math.build(|b| b.input(index as u32, array.ty.clone()))
}

/// The sum of all elements of all values, each with a weight of its own.
fn weighted<'m>(math: &'m Math, values: &[V<'m>]) -> V<'m> {
    let mut loss = math.constant(0.0, DType::F64);
    for (n, v) in values.iter().enumerate().filter(|(_, v)| v.dtype().is_float()) {
        let v = v.cast(DType::F64).reshape(&[v.numel()]);
        let place = math.iota(&v.sizes(), 0, DType::F64) + n as f64;
        loss = loss + (v * (place * 0.7 + 0.3).unary(Op::Sin)).reduce(Op::Sum, &[0], false);
    }
    loss
}

/// What can be differentiated by.
fn floats<'m>(x: &[V<'m>]) -> Vec<V<'m>> {
    x.iter().copied().filter(|v| v.dtype().is_float()).collect()
}

fn finish(math: &Math, outputs: &[ValueId]) -> Graph {
    math.graph(|graph| Graph { outputs: outputs.to_vec(), ..graph.clone() })
}

impl Case {
    /// The weighted sum of the results; of the gradients instead if asked for.
    fn loss<'m>(&self, math: &'m Math, x: &[V<'m>], twice: bool) -> V<'m> {
        let loss = weighted(math, &(self.formula)(math, x));
        if twice { weighted(math, &gradients(math, loss, &floats(x)).unwrap()) } else { loss }
    }

    fn graph(&self, twice: bool, with_gradients: bool) -> Graph {
        let math = Math::default();
        let x: Vec<V> = self.inputs.iter().enumerate().map(|(n, a)| input(&math, n, a)).collect();
        let loss = self.loss(&math, &x, twice);
        let mut outputs = vec![loss.id];
        if with_gradients {
            let found = gradients(&math, loss, &floats(&x))
                .unwrap_or_else(|e| panic!("{}: {e}", self.name));
            outputs.extend(found.iter().map(|v| v.id));
        }
        math.check().unwrap_or_else(|e| panic!("{}: {e}", self.name));
        finish(&math, &outputs)
    }

    fn check(&self, twice: bool) {
        let run = |graph: &Graph, inputs: &[Array]| {
            interpret(graph, inputs, &[]).unwrap_or_else(|e| panic!("{}: {e}", self.name))
        };
        let found = run(&self.graph(twice, true), &self.inputs);
        let loss = self.graph(twice, false);
        let floats = self.inputs.iter().enumerate().filter(|(_, a)| a.ty.dtype.is_float());
        for (found, (n, input)) in found[1..].iter().zip(floats) {
            assert_eq!(found.ty, input.ty, "{}", self.name);
            for i in 0..input.len() {
                let step = 1e-5 * input.f64(i).abs().max(0.1);
                let at = |away: f64| {
                    let mut inputs = self.inputs.clone();
                    inputs[n].set_f64(i, input.f64(i) + away);
                    run(&loss, &inputs)[0].f64(0)
                };
                let slope = (at(step) - at(-step)) / (2.0 * step);
                let got = found.f64(i);
                assert!(
                    (slope - got).abs() <= 1e-6 * (1.0 + slope.abs()),
                    "{}{}: input {n}, element {i}: {got}, but differences say {slope}",
                    self.name,
                    if twice { " twice" } else { "" }
                );
            }
        }
    }
}

fn all() -> impl Iterator<Item = Case> {
    cases::all().into_iter().chain(table::all())
}

#[test]
fn every_rule_agrees_with_differences() {
    for case in all() {
        case.check(false);
    }
}

#[test]
fn gradients_have_gradients() {
    for case in all().filter(|case| case.twice) {
        case.check(true);
    }
}

#[test]
fn no_rule_is_untested() {
    let mut seen = BTreeSet::new();
    for case in all() {
        seen.extend(case.graph(false, false).nodes.iter().map(|node| node.op));
        seen.extend(
            case.twice.then(|| case.graph(true, false).nodes).into_iter().flatten().map(|n| n.op),
        );
    }
    // Collectives need ranks: `ffi_tests/ranks.cpp`.
    let flows = |op: &Op| matches!(rule(*op), Rule::Flows(_)) && *op != Op::Host;
    let untested: Vec<Op> =
        TABLE.iter().map(|row| row.op).filter(flows).filter(|op| !seen.contains(op)).collect();
    assert!(untested.is_empty(), "{untested:?}");
}

/// Numbers between `low` and `high`, no two alike.
fn random(seed: u64, sizes: &[i64], low: f64, high: f64) -> Array {
    let mut rng = Rng::new(seed);
    let n = crate::shape::numel(sizes);
    let values: Vec<f64> = (0..n).map(|_| low + (high - low) * rng.unit()).collect();
    Array::from_f64(DType::F64, sizes, &values)
}

#[test]
fn what_the_loss_does_not_depend_on_has_gradient_zero() {
    let math = Math::default();
    let ty = Ty::new(DType::F64, &[2]);
    let [x, unused, late] = [0, 1, 2].map(|n| math.build(|b| b.input(n, ty.clone())));
    let loss = (x * x).reduce(Op::Sum, &[0], false);
    // Made after the loss.
    let late = late * 2.0;
    let found = gradients(&math, loss, &[x, unused, late, loss]).unwrap();
    let graph = finish(&math, &found.iter().map(|v| v.id).collect::<Vec<_>>());
    let inputs = [1, 2, 3].map(|seed| random(seed, &[2], 1.0, 2.0));
    let values = interpret(&graph, &inputs, &[]).unwrap();
    let twice: Vec<f64> = inputs[0].to_f64s().iter().map(|x| 2.0 * x).collect();
    assert_eq!(values[0].to_f64s(), twice);
    assert_eq!((values[1].to_f64s(), values[2].to_f64s()), (vec![0.0; 2], vec![0.0; 2]));
    assert_eq!(values[3].to_f64s(), [1.0]);
}

#[test]
fn marks_tell_equal_values_apart() {
    let math = Math::default();
    let x = math.full(3.0, DType::F32, &[2]);
    let mark = |n| math.op(Op::Mark, &[x], smallvec![Attr::Int(n)]);
    let (a, b) = (mark(0), mark(1));
    let loss = (a * 2.0 + b * a).reduce(Op::Sum, &[0], false);
    let found = gradients(&math, loss, &[a, b]).unwrap();
    let graph = finish(&math, &found.iter().map(|v| v.id).collect::<Vec<_>>());
    let values = interpret(&graph, &[], &[]).unwrap();
    assert_eq!((values[0].to_f64s(), values[1].to_f64s()), (vec![5.0; 2], vec![3.0; 2]));
}

#[test]
fn nothing_flows_through_what_is_detached_or_counted() {
    let math = Math::default();
    let x = math.build(|b| b.input(0, Ty::new(DType::F32, &[3])));
    let detached = math.op(Op::Detach, &[x], Default::default());
    let count = x.gt(0.0).cast(DType::I64).cast(DType::F32);
    let loss = (x * detached + count).reduce(Op::Sum, &[0], false);
    let found = gradients(&math, loss, &[x]).unwrap();
    let graph = finish(&math, &[found[0].id]);
    let x = Array::from_f64(DType::F32, &[3], &[1.0, -2.0, 0.5]);
    assert_eq!(interpret(&graph, std::slice::from_ref(&x), &[]).unwrap()[0].to_f64s(), x.to_f64s());
}

#[test]
fn what_cannot_be_differentiated_is_refused() {
    let math = Math::default();
    let x = math.build(|b| b.input(0, Ty::new(DType::F32, &[2])));
    let n = math.build(|b| b.input(1, Ty::new(DType::I64, &[2])));
    let fails = |loss: V, wrt: &[V], code: Code, message: &str| {
        let error = gradients(&math, loss, wrt).map(|_| ()).unwrap_err();
        assert!(error.code == code && error.message.contains(message), "{error}");
        error.site
    };
    let total = |v| math.op(Op::Sum, &[v], smallvec![Attr::Ints([0][..].into())]);
    fails(x, &[x], Code::InvalidArgument, "one float, but is f32[2]");
    fails(n.reduce(Op::Sum, &[0], false), &[x], Code::InvalidArgument, "one float");
    fails(x.reduce(Op::Sum, &[0], false), &[n], Code::InvalidArgument, "floats only");
    math.set_origin(42, 1);
    let bits = x.bitcast(DType::I32).bitcast(DType::F32);
    math.set_origin(43, 2);
    let site = fails(total(bits), &[x], Code::Unsupported, "bitcast has no gradient");
    assert_eq!(site, 42);
    // Nothing depends on it that is asked for.
    let other = math.build(|b| b.input(2, Ty::new(DType::F32, &[2])));
    gradients(&math, total(bits * other), &[other]).unwrap();
}

#[test]
fn half_types_keep_their_dtype() {
    let math = Math::default();
    let x = math.build(|b| b.input(0, Ty::new(DType::BF16, &[2, 3])));
    let w = math.build(|b| b.input(1, Ty::new(DType::F32, &[3])));
    let product = x.cast(DType::F32).tanh() * w;
    let axes = Dims::from_slice(&[0, 1]);
    let loss = product.cast(DType::BF16).reduce(Op::Sum, &axes, false);
    let found = gradients(&math, loss, &[x, w]).unwrap();
    assert_eq!((found[0].ty(), found[1].ty()), (x.ty(), w.ty()));
}
