//! Loops: unrolled where their rounds are known and few, else a node whose condition and body are graphs of their own.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{Math, V};
use crate::graph::module::body_among;
use crate::graph::{Graph, Node};
use crate::invalid;
use crate::op::array::Array;
use crate::op::{Attr, Op, Ty};
use crate::stablehlo::lower::{Call, Scope};
use crate::stablehlo::tree::{Name, Region, is_return};
use crate::stablehlo::value::{Value, Values};
use smallvec::smallvec;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most operations that a loop is unrolled to. Unrolled rounds fuse with each other.
const MAX_UNROLLED: usize = 4096;

pub fn while_loop<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (condition, round) = (c.region(0)?, c.region(1)?);
    let begun = c.lowering.operations();
    let mut state = c.x.clone();
    for rounds in 0.. {
        let goes_on = c.lowering.region(condition, state.clone(), Some(c.scope), c.scope.lifted)?;
        let [goes_on] = goes_on[..] else { return invalid!("a condition is one value") };
        match c.lowering.known_int(goes_on.v) {
            Some(0) => return Ok(state),
            Some(_) if rounds + c.lowering.operations() - begun <= MAX_UNROLLED => {}
            _ => break,
        }
        let next = c.lowering.region(round, state.clone(), Some(c.scope), c.scope.lifted)?;
        check_round(&next, &state)?;
        state = next;
    }
    rolled(c)
}

fn check_round(next: &[Value], state: &[Value]) -> Result<()> {
    match next.len() == state.len() && next.iter().zip(state).all(|(a, b)| a.ty() == b.ty()) {
        true => Ok(()),
        false => invalid!("a round gives values of other types than it takes"),
    }
}

/// A value that a region captures from the program around it.
enum Captured {
    Operand(usize, DType),
    /// The number that all elements of a value of these sizes equal.
    Number(Array, Ty),
}

/// A value in the form that a loop carries: complex numbers as pairs.
fn carried<'m>(x: &Value<'m>) -> V<'m> {
    if x.dtype.is_complex() { x.v.pairs() } else { x.v }
}

/// The inverse of [`carried`].
fn value<'m>(v: V<'m>, dtype: DType) -> Value<'m> {
    Value::new(if dtype.is_complex() { v.paired() } else { v }, dtype)
}

/// The loop as a node. Its operands: the state that changes, the rest of it, the captured values, the regions' large constants.
fn rolled<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    if c.scope.lifted {
        return invalid!(
            "a loop whose number of rounds depends on the inputs is not supported in what is done to each element"
        );
    }
    let regions = [c.region(0)?, c.region(1)?];
    let mut free = Free::default();
    regions.iter().for_each(|region| free.look(region));
    let mut operands: Vec<V> = c.x.iter().map(carried).collect();
    // In the order of the text, so that the graph does not depend on the order of a map.
    let mut captured: Vec<(&str, Vec<Captured>)> = Vec::new();
    for &name in &free.found {
        let mut capture = |x: &Value<'m>| match c.lowering.splat(x.v) {
            Some(number) if !x.dtype.is_complex() => Captured::Number(number, x.ty()),
            _ => {
                operands.push(carried(x));
                Captured::Operand(operands.len() - 1, x.dtype)
            }
        };
        let all = c.scope.all_of(name)?.iter().map(&mut capture).collect();
        captured.push((name.name, all));
    }
    // In a branch that is not taken, the loop may never end.
    let taken = c.lowering.taken.get().map(|taken| {
        operands.push(taken);
        operands.len() - 1
    });
    let graph_type = |v: &V| c.math().graph(|graph| graph.ty(v.id).clone());
    let types: Vec<Ty> = operands.iter().map(graph_type).collect();
    let (condition, first) = part(c, 0, &types, &captured, taken)?;
    let (mut round, second) = part(c, 1, &types, &captured, None)?;
    let live = condition.live(&condition.outputs);
    let reads = |(node, live): (&Node, bool)| live && node.op == Op::Input;
    if !condition.nodes.iter().zip(live).any(reads) {
        return invalid!("a loop that never ends");
    }
    // State that a round returns unchanged is only read.
    let stays: Vec<bool> = (0..c.x.len()).map(|k| is_input(&round, k)).collect();
    let mut order: Vec<usize> = (0..operands.len()).collect();
    order.sort_by_key(|&i| i >= stays.len() || stays[i]);
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| place[from] = to);
    let mut kept = stays.iter();
    round.outputs.retain(|_| kept.next() == Some(&false));

    let constants = || first.iter().chain(&second);
    let mut all: Vec<V> = order.iter().map(|&i| operands[i]).collect();
    all.extend(constants().map(|array| c.lowering.array(array.clone())));
    let all_types: Vec<Ty> = all.iter().map(graph_type).collect();
    let body = |graph: &Graph, before: usize| {
        let place = |i: usize| place.get(i).copied().unwrap_or(i + before);
        Attr::Body(Arc::new(body_among(graph, &all_types, place)))
    };
    let attrs = smallvec![body(&condition, 0), body(&round, first.len())];
    let mut results = c.math().ops(Op::While, &all, attrs)?.into_iter();
    let result = |(x, stays): (&Value<'m>, &bool)| match stays {
        true => *x,
        false => value(results.next().expect("one of each that changes"), x.dtype),
    };
    Ok(c.x.iter().zip(&stays).map(result).collect())
}

/// Whether result `k` is input `k`.
fn is_input(graph: &Graph, k: usize) -> bool {
    let maker = graph.maker(graph.outputs[k]);
    maker.op == Op::Input && maker.attrs[0].int() == k as i64
}

/// Region `n` as a graph whose inputs are the operands, then constants; with `and`, the result holds only if that operand does.
fn part(
    c: &Call,
    n: usize,
    operands: &[Ty],
    captured: &[(&str, Vec<Captured>)],
    and: Option<usize>,
) -> Result<(Graph, Vec<Array>)> {
    let math = Math::default();
    let lowering = c.lowering.alone(&math, operands.len());
    let inputs: Vec<V> = (operands.iter().enumerate())
        .map(|(i, ty)| math.build(|b| b.input(i as u32, ty.clone())))
        .collect();
    let known = |captured: &Captured| match captured {
        Captured::Operand(index, dtype) => value(inputs[*index], *dtype),
        Captured::Number(number, ty) => {
            Value::new(lowering.array(number.clone()).broadcast(&ty.sizes), ty.dtype)
        }
    };
    let values = captured.iter().map(|(name, all)| (*name, all.iter().map(known).collect()));
    let scope = Scope::alone(values.collect());
    let state: Values = c.x.iter().zip(&inputs).map(|(x, &v)| value(v, x.dtype)).collect();
    let results = lowering.region(c.region(n)?, state.clone(), Some(&scope), false)?;
    if n == 1 {
        check_round(&results, &state)?;
    }
    let both = |x: V| and.map_or(x.id, |and| x.and(inputs[and]).id);
    let results = results.iter().map(|x| both(carried(x))).collect();
    math.check()?;
    c.lowering.includes(&lowering);
    let constants = lowering.constants.take();
    drop((scope, lowering));
    Ok((math.into_builder().finish(results), constants))
}

/// Names that regions use and do not define, in order.
#[derive(Default)]
struct Free<'a> {
    /// Number of definitions of each name that are visible at the walk's position.
    defined: HashMap<&'a str, usize>,
    seen: HashSet<&'a str>,
    found: Vec<Name<'a>>,
}

impl<'a> Free<'a> {
    fn look(&mut self, region: &Region<'a>) {
        let mut own = region.args.clone();
        own.iter().for_each(|&name| *self.defined.entry(name).or_default() += 1);
        for op in &region.body {
            for &operand in &op.operands {
                let is_defined = self.defined.get(operand.name).is_some_and(|&times| times > 0);
                if !is_defined && self.seen.insert(operand.name) {
                    self.found.push(operand);
                }
            }
            if is_return(op.name) {
                break;
            }
            op.regions.iter().for_each(|region| self.look(region));
            for &(name, _) in &op.results {
                *self.defined.entry(name).or_default() += 1;
                own.push(name);
            }
        }
        own.iter().for_each(|name| *self.defined.entry(name).or_default() -= 1);
    }
}
