//! The primitive that stands for a part of the program, which a backend hands to a second engine.

use super::array::Array;
use super::evaluate::evaluate;
use super::{Attr, Attrs, Eval, Op, Ty, Tys, check};
use crate::error::Result;
use crate::{internal, invalid};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

pub const MODULE: Eval = Eval::Whole(run);

/// Primitives in an order in which they can be computed. Values are numbered: the operands, then the results of each node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Body {
    pub operands: Vec<Ty>,
    pub nodes: Vec<BodyNode>,
    pub results: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BodyNode {
    pub op: Op,
    pub attrs: Attrs,
    pub inputs: SmallVec<[u32; 4]>,
    pub outputs: Tys,
}

impl Body {
    /// Arithmetic operations, as a row's `flops`.
    pub fn flops(&self) -> u64 {
        let made = self.nodes.iter().flat_map(|node| &node.outputs);
        let types: Vec<&Ty> = self.operands.iter().chain(made).collect();
        let flops = |node: &BodyNode| {
            let inputs: Vec<&Ty> = node.inputs.iter().map(|&v| types[v as usize]).collect();
            (node.op.row().flops)(&inputs, &node.outputs)
        };
        self.nodes.iter().map(flops).sum()
    }
}

/// The body in a node's attributes.
pub fn body(attrs: &[Attr]) -> Option<&std::sync::Arc<Body>> {
    match attrs {
        [Attr::Body(body)] => Some(body),
        _ => None,
    }
}

pub fn module_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let Some(body) = body(attrs) else { return check::wrong_attrs("body: module", attrs) };
    results_of(body, inputs)
}

/// The types of a body's results. Checks all of it: a body that has types may be run.
pub fn results_of(body: &Body, inputs: &[&Ty]) -> Result<Tys> {
    if !inputs.iter().copied().eq(&body.operands) {
        return check::wrong_operands("those of its body", inputs);
    }
    let mut known: Vec<&Ty> = body.operands.iter().collect();
    let of = |known: &[&Ty], v: u32| match known.get(v as usize) {
        Some(ty) => Ok((*ty).clone()),
        None => invalid!("its body reads value {v} before it is computed"),
    };
    for node in &body.nodes {
        if matches!(node.op, Op::Input | Op::Scalar | Op::Module) {
            return invalid!("there is {} in its body", node.op.name());
        }
        let given: Vec<Ty> = node.inputs.iter().map(|&v| of(&known, v)).collect::<Result<_>>()?;
        let outputs = node.op.infer(&given.iter().collect::<Vec<_>>(), &node.attrs)?;
        if outputs != node.outputs {
            return invalid!(
                "its body has other results of {} than these operands",
                node.op.name()
            );
        }
        known.extend(&node.outputs);
    }
    body.results.iter().map(|&v| of(&known, v)).collect()
}

fn run(inputs: &[&Array], attrs: &[Attr], _: &[Ty]) -> Result<Vec<Array>> {
    let Some(body) = body(attrs) else { return internal!("a module without a body") };
    computed(body, inputs.iter().map(|&array| array.clone()).collect())
}

/// The results of a body on these operands, computed slowly and obviously.
pub fn computed(body: &Body, mut values: Vec<Array>) -> Result<Vec<Array>> {
    for node in &body.nodes {
        let operands: Vec<&Array> = node.inputs.iter().map(|&v| &values[v as usize]).collect();
        let results = evaluate(node.op, &operands, &node.attrs, &node.outputs)
            .map_err(|error| error.within(node.op.name()))?;
        values.extend(results);
    }
    Ok(body.results.iter().map(|&v| values[v as usize].clone()).collect())
}
