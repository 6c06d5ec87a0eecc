//! Random graphs: cotangents that meet, operands used twice, rules in any order.

use super::*;
use crate::graph::generate::{Limits, case};
use crate::op::Attrs;

/// The attributes with every float dtype as f64, in which differences are exact enough.
fn in_f64(attrs: &Attrs) -> Attrs {
    let widened = |dtype: DType| if dtype.is_float() { DType::F64 } else { dtype };
    let each = |attr: &Attr| match attr {
        Attr::DType(dtype) => Attr::DType(widened(*dtype)),
        Attr::Types(types) => {
            Attr::Types(types.iter().map(|ty| Ty::new(widened(ty.dtype), &ty.sizes)).collect())
        }
        other => other.clone(),
    };
    attrs.iter().map(each).collect()
}

/// Whether differences say nothing: a jump or a kink may be near, or there is no gradient.
fn is_rough(op: Op) -> bool {
    let kinks = [Op::Abs, Op::Max, Op::Min, Op::ReduceMax, Op::ReduceMin, Op::MaxPool, Op::TopK];
    let jumps = [Op::Floor, Op::Ceil, Op::Round, Op::Trunc, Op::Sign, Op::Rem, Op::Bitcast];
    let none = [Op::LayerNormGrad, Op::RmsNormGrad, Op::AttentionGrad, Op::Attention];
    // Not of what they save.
    let in_part = [Op::Recurrent, Op::RecurrentGrad];
    [&kinks[..], &jumps, &none, &in_part].concat().contains(&op)
}

/// The graph of a random program, in f64, its float outputs summed with weights; `None` where that is not possible.
fn smooth(graph: &Graph) -> Option<(Math, ValueId, Vec<ValueId>)> {
    let math = Math::default();
    let mut new: Vec<ValueId> = Vec::new();
    let mut inputs = Vec::new();
    for node in &graph.nodes {
        let operands: Vec<V> = node.inputs.iter().map(|v| math.wrap(new[v.0 as usize])).collect();
        let from_floats = operands.iter().any(|v| v.dtype().is_float());
        let jumps = from_floats && node.outputs().any(|v| !graph.ty(v).dtype.is_float());
        if is_rough(node.op) || jumps {
            return None;
        }
        let made = math.ops(node.op, &operands, in_f64(&node.attrs)).ok()?;
        if node.op == Op::Input && made[0].dtype().is_float() {
            inputs.push(made[0].id);
        }
        new.extend(made.iter().map(|v| v.id));
    }
    let outputs: Vec<V> = graph.outputs.iter().map(|v| math.wrap(new[v.0 as usize])).collect();
    let loss = weighted(&math, &outputs).id;
    Some((math, loss, inputs))
}

fn any_infinite(arrays: &[Array]) -> bool {
    arrays.iter().any(|array| array.to_f64s().iter().any(|x| x.is_infinite()))
}

#[test]
fn random_graphs_agree_with_differences() {
    let mut checked = 0;
    for seed in 0..600 {
        let random = case(seed, Limits { nodes: 12, size: 3 }).unwrap();
        let Some((math, loss, wrt)) = smooth(&random.graph) else { continue };
        let values = |outputs: &[ValueId], inputs: &[Array]| {
            interpret(&finish(&math, outputs), inputs, &random.scalars).ok()
        };
        let widened = |array: &Array| match array.ty.dtype.is_float() {
            true => Array::from_f64(DType::F64, &array.ty.sizes, &array.to_f64s()),
            false => array.clone(),
        };
        let inputs: Vec<Array> = random.inputs.iter().map(widened).collect();
        let params: Vec<V> = wrt.iter().map(|&v| math.wrap(v)).collect();
        let found = gradients(&math, math.wrap(loss), &params).unwrap();
        let ids: Vec<ValueId> = found.iter().map(|v| v.id).collect();
        let floats = math.graph(|graph| {
            let all = (0..graph.values.len() as u32).map(ValueId);
            all.filter(|v| graph.ty(*v).dtype.is_float()).collect::<Vec<_>>()
        });
        let Some(found) = values(&ids, &inputs) else { continue };
        for (param, gradient) in wrt.iter().zip(&found) {
            let index = math.graph(|graph| graph.maker(*param).attrs[0].int()) as usize;
            for i in 0..gradient.len() {
                let at = |away: f64| {
                    let mut inputs = inputs.clone();
                    let moved = inputs[index].f64(i) + away;
                    inputs[index].set_f64(i, moved);
                    values(&[loss], &inputs).map_or(f64::NAN, |values| values[0].f64(0))
                };
                let slope = |step: f64| (at(step) - at(-step)) / (2.0 * step);
                let (near, far, got) = (slope(1e-5), slope(1e-4), gradient.f64(i));
                // An infinite slope, as of the root of 0, times a slope of 0.
                if got.is_nan() && values(&floats, &inputs).is_some_and(|all| any_infinite(&all)) {
                    continue;
                }
                // Where differences disagree, the function bends too much (or is not defined around the point).
                let settled = (near - far).abs() <= 1e-6 * (1.0 + near.abs());
                if settled && near.abs() < 1e6 {
                    let close = (near - got).abs() <= 1e-5 * (1.0 + near.abs());
                    assert!(
                        close,
                        "seed {seed}, {param:?}[{i}]: {got}, not {near}\n{}",
                        random.graph
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 500, "{checked}");
}
