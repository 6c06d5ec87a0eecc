//! Makes a failing case smaller for as long as it keeps failing.

use torchacc::graph::generate::Case;
use torchacc::graph::interpret::interpret;
use torchacc::graph::{Builder, Graph, NodeId, ValueId};
use torchacc::op::array::Array;
use torchacc::op::{Attr, Op};
use torchacc::passes::dce;

/// The smallest case found for which `fails` still holds.
pub fn shrink(mut case: Case, fails: &dyn Fn(&Case) -> bool) -> Case {
    loop {
        let smaller = candidates(&case).into_iter().find(|smaller| fails(smaller));
        match smaller {
            Some(smaller) => case = smaller,
            None => return case,
        }
    }
}

/// The program as text, with its inputs.
pub fn describe(case: &Case) -> String {
    let mut text = case.graph.to_string();
    for (n, input) in case.inputs.iter().enumerate() {
        text += &format!("# input {n}: {:?}\n", input.to_f64s());
    }
    text + &format!("# scalars: {:?}\n", case.scalars)
}

/// Every case is strictly smaller: fewer outputs, or fewer nodes that compute something.
fn candidates(case: &Case) -> Vec<Case> {
    let mut found = Vec::new();
    if case.graph.outputs.len() > 1 {
        for &v in &case.graph.outputs {
            found.push(with_outputs(case, vec![v]));
        }
        for drop in 0..case.graph.outputs.len() {
            let mut outputs = case.graph.outputs.clone();
            outputs.remove(drop);
            found.push(with_outputs(case, outputs));
        }
    }
    let Ok(values) = all_values(case) else {
        return found;
    };
    for id in case.graph.node_ids() {
        let node = case.graph.node(id);
        if node.op == Op::Input {
            continue;
        }
        found.push(without(case, id, &values, None));
        let ty = case.graph.ty(node.first);
        let stands_in = node.inputs.iter().find(|&&v| case.graph.ty(v) == ty);
        if let (Some(&operand), 1) = (stands_in, node.n_outputs) {
            found.push(without(case, id, &values, Some(operand)));
        }
    }
    found
}

fn with_outputs(case: &Case, outputs: Vec<ValueId>) -> Case {
    let graph = Graph { outputs, ..case.graph.clone() };
    compact(Case { graph, ..case.clone() })
}

fn all_values(case: &Case) -> torchacc::error::Result<Vec<Array>> {
    let outputs = (0..case.graph.values.len() as u32).map(ValueId).collect();
    interpret(&Graph { outputs, ..case.graph.clone() }, &case.inputs, &case.scalars)
}

/// The case without one node: its results are one of its operands, or become inputs.
fn without(case: &Case, gone: NodeId, values: &[Array], stands_in: Option<ValueId>) -> Case {
    let mut inputs = case.inputs.clone();
    let mut b = Builder::new();
    let mut new: Vec<ValueId> = Vec::new();
    for id in case.graph.node_ids() {
        let node = case.graph.node(id);
        if id != gone {
            let operands: Vec<ValueId> = node.inputs.iter().map(|v| new[v.0 as usize]).collect();
            new.extend(b.ops(node.op, &operands, node.attrs.clone()).expect("it was built before"));
        } else if let Some(operand) = stands_in {
            new.push(new[operand.0 as usize]);
        } else {
            for v in node.outputs() {
                let value = values[v.0 as usize].clone();
                let index = inputs.len() as u32;
                new.push(b.input(index, value.ty.clone()).expect("a type of a value"));
                inputs.push(value);
            }
        }
    }
    let outputs = case.graph.outputs.iter().map(|v| new[v.0 as usize]).collect();
    compact(Case { graph: b.finish(outputs), inputs, scalars: case.scalars.clone() })
}

/// Drops nodes and inputs that nobody uses.
fn compact(case: Case) -> Case {
    let graph = dce(&case.graph).expect("every graph can be rebuilt");
    let (mut inputs, mut scalars) = (Vec::new(), Vec::new());
    let mut b = Builder::new();
    let mut new: Vec<ValueId> = Vec::new();
    for node in &graph.nodes {
        let mut attrs = node.attrs.clone();
        match node.op {
            Op::Input => {
                let old = std::mem::replace(&mut attrs[0], Attr::Int(inputs.len() as i64));
                inputs.push(case.inputs[old.int() as usize].clone());
            }
            Op::Scalar => {
                let old = std::mem::replace(&mut attrs[0], Attr::Int(scalars.len() as i64));
                scalars.push(case.scalars[old.int() as usize]);
            }
            _ => {}
        }
        let operands: Vec<ValueId> = node.inputs.iter().map(|v| new[v.0 as usize]).collect();
        new.extend(b.ops(node.op, &operands, attrs).expect("it was built before"));
    }
    let outputs = graph.outputs.iter().map(|v| new[v.0 as usize]).collect();
    Case { graph: b.finish(outputs), inputs, scalars }
}
