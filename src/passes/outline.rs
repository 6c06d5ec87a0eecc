//! Parts of a program that a second engine computes, each as one node.

use crate::error::Result;
use crate::graph::module::body_of;
use crate::graph::{Builder, Graph, Node, ValueId};
use crate::op::module::Body;
use crate::op::{Attr, Attrs, Class, Op, Ty};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Whether a node can be a part of a module.
pub type Says = fn(&Graph, &Node) -> bool;

/// Makes modules of the nodes for which `says` is true: those that must be computed between one node outside and the next are one
/// module, connected or not. This is the last pass: no other one looks into modules.
///
/// ```text
/// %1: f32[2] = exp(%0)              %1: f32[2] = module(%0) {body=(f32[2]) {
/// %2: f32[2] = neg(%1)                  %1: f32[2] = exp(%0)
/// %3: f32[2] = host(%2) {…}     →       %2: f32[2] = neg(%1)
/// %4: f32[2] = exp(%3)                  return %2}}
/// return %4                         %2: f32[2] = host(%1) {…}
///                                   %3: f32[2] = module(%2) {body=(f32[2]) {…}}
///                                   return %3
/// ```
pub fn outline<'g>(graph: &'g Graph, says: Says) -> Result<Cow<'g, Graph>> {
    let roles = roles(graph, says);
    let mut rounds = Rounds::new(graph, &roles);
    rounds.sink(graph, &roles);
    let count = 1 + rounds.of.iter().copied().max().unwrap_or(0) as usize;
    let mut modules: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut outside = modules.clone();
    for (id, role) in roles.iter().enumerate() {
        match role {
            Role::Inside => modules[rounds.of[id] as usize].push(id),
            Role::Outside => outside[rounds.of[id] as usize].push(id),
            Role::Anywhere => {}
        }
    }
    let pays = |nodes: &Vec<usize>| nodes.iter().any(|&id| computes(&graph.nodes[id]));
    if !modules.iter().any(pays) {
        return Ok(Cow::Borrowed(graph));
    }
    let builder = Builder::rewriting(graph);
    let new = vec![None; graph.values.len()];
    let mut outliner = Outliner { graph, roles: &roles, builder, new };
    let crossing = crossing(graph, &roles, &rounds);
    for (outside, nodes) in outside.iter().zip(&modules) {
        outside.iter().try_for_each(|&id| outliner.copy(id))?;
        match pays(nodes) {
            true => outliner.module(nodes, &crossing)?,
            false => nodes.iter().try_for_each(|&id| outliner.copy(id))?,
        }
    }
    let outputs = graph.outputs.iter().map(|&v| outliner.value(v)).collect::<Result<_>>()?;
    Ok(Cow::Owned(outliner.builder.finish(outputs)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// In the program, between modules.
    Outside,
    /// In a module.
    Inside,
    /// Copied to every place of use: it computes nothing, and takes no less memory than its operands.
    Anywhere,
}

fn roles(graph: &Graph, says: Says) -> Vec<Role> {
    // Equal layers have equal nodes.
    let mut known: HashMap<(Op, &Attrs, SmallVec<[&Ty; 4]>), bool> = HashMap::new();
    let mut role = |node| {
        let node: &Node = node;
        if matches!(node.op, Op::Input | Op::Scalar | Op::Module) || node.op.class() == Class::Host
        {
            return Role::Outside;
        }
        let types = node.inputs.iter().map(|&v| graph.ty(v)).collect();
        let key = (node.op, &node.attrs, types);
        let says = || says(graph, node);
        let is_said = match node.op {
            // Whether they may refuse values depends on the divisor.
            Op::Div | Op::Rem => says(),
            _ => *known.entry(key).or_insert_with(says),
        };
        match (is_said, node.op) {
            (false, _) => Role::Outside,
            (true, Op::Const | Op::ConstInt | Op::Iota) => Role::Anywhere,
            (true, Op::Reshape | Op::Transpose | Op::Broadcast) => Role::Anywhere,
            (true, _) => Role::Inside,
        }
    };
    graph.nodes.iter().map(&mut role).collect()
}

/// Whether a node is worth a module.
fn computes(node: &Node) -> bool {
    node.op.draws() || !matches!(node.op.class(), Class::Leaf | Class::Movement)
}

/// The rounds in which nodes are computed: in each round those outside, then one module.
struct Rounds {
    /// The round of every node; for one that is anywhere, the first in which a module may use it.
    of: Vec<u32>,
}

impl Rounds {
    /// Rounds as early as possible. Nodes with effects keep their order.
    fn new(graph: &Graph, roles: &[Role]) -> Rounds {
        let mut of = vec![0; graph.nodes.len()];
        // The first round in which a value can be used outside.
        let mut outside = vec![0; graph.nodes.len()];
        let mut effects = 0;
        for (id, node) in graph.nodes.iter().enumerate() {
            let makers = || node.inputs.iter().map(|&v| graph.value(v).node.0 as usize);
            let inner = makers().map(|maker| of[maker]).max().unwrap_or(0);
            let outer = makers().map(|maker| outside[maker]).max().unwrap_or(0);
            (of[id], outside[id]) = match roles[id] {
                Role::Anywhere => (inner, outer),
                Role::Inside => (inner, inner + 1),
                Role::Outside if node.op.class() == Class::Host => {
                    effects = outer.max(effects);
                    (effects, effects)
                }
                Role::Outside => (outer, outer),
            };
        }
        Rounds { of }
    }

    /// Moves nodes into later rounds if they are not needed earlier and their results take no less memory than their operands.
    fn sink(&mut self, graph: &Graph, roles: &[Role]) {
        // The last round in which a module may compute a value.
        let mut limit = vec![u32::MAX; graph.values.len()];
        graph.outputs.iter().for_each(|&v| limit[v.0 as usize] = 0);
        let bytes = |v: ValueId| graph.ty(v).nbytes();
        for (id, node) in graph.nodes.iter().enumerate().rev() {
            let last = node.outputs().map(|v| limit[v.0 as usize]).min().unwrap_or(0);
            let made: usize = node.outputs().map(bytes).sum();
            let of: usize = node
                .inputs
                .iter()
                .map(|&v| root(graph, roles, v))
                .filter(|&v| !matches!(graph.maker(v).op.class(), Class::Leaf))
                .map(bytes)
                .sum();
            let role = roles[id];
            if role == Role::Inside && last != u32::MAX && last > self.of[id] && made >= of {
                self.of[id] = last;
            }
            let before = match role {
                Role::Anywhere => last,
                Role::Inside => self.of[id],
                Role::Outside => self.of[id].saturating_sub(1),
            };
            for v in &node.inputs {
                limit[v.0 as usize] = limit[v.0 as usize].min(before);
            }
        }
    }
}

/// The value behind nodes that are anywhere.
fn root(graph: &Graph, roles: &[Role], v: ValueId) -> ValueId {
    let value = graph.value(v);
    match graph.node(value.node).inputs[..] {
        [x] if roles[value.node.0 as usize] == Role::Anywhere => root(graph, roles, x),
        _ => v,
    }
}

/// Which values leave the module that computes them.
fn crossing(graph: &Graph, roles: &[Role], rounds: &Rounds) -> Vec<bool> {
    let mut crosses = vec![false; graph.values.len()];
    let users = graph.nodes.iter().enumerate().filter(|(id, _)| roles[*id] != Role::Anywhere);
    for (id, node) in users {
        for &v in &node.inputs {
            let v = root(graph, roles, v);
            let maker = graph.value(v).node.0 as usize;
            let together = roles[id] == roles[maker] && rounds.of[id] == rounds.of[maker];
            crosses[v.0 as usize] |= !together;
        }
    }
    graph.outputs.iter().for_each(|&v| crosses[root(graph, roles, v).0 as usize] = true);
    crosses
}

struct Outliner<'g> {
    graph: &'g Graph,
    roles: &'g [Role],
    builder: Builder,
    /// The new value of every old one that has been made.
    new: Vec<Option<ValueId>>,
}

impl Outliner<'_> {
    /// A value in the new graph, after the round that computes it.
    fn value(&mut self, v: ValueId) -> Result<ValueId> {
        if self.new[v.0 as usize].is_none() {
            self.copy(self.graph.value(v).node.0 as usize)?;
        }
        match self.new[v.0 as usize] {
            Some(v) => Ok(v),
            None => crate::internal!("a value is used before the round that computes it"),
        }
    }

    fn copy(&mut self, id: usize) -> Result<()> {
        let node = &self.graph.nodes[id];
        let inputs = node.inputs.iter().map(|&v| self.value(v)).collect::<Result<Vec<_>>>()?;
        (self.builder.site, self.builder.record) = (node.site, node.record);
        let values = self.builder.ops(node.op, &inputs, node.attrs.clone())?;
        node.outputs().zip(values).for_each(|(v, new)| self.new[v.0 as usize] = Some(new));
        Ok(())
    }

    /// Adds these nodes as one.
    fn module(&mut self, nodes: &[usize], crossing: &[bool]) -> Result<()> {
        let mut inner = Inner::new(self.graph, self.roles, nodes)?;
        nodes.iter().try_for_each(|&id| inner.node(id))?;
        let results: Vec<ValueId> = nodes
            .iter()
            .flat_map(|&id| self.graph.nodes[id].outputs())
            .filter(|v| crossing[v.0 as usize])
            .collect();
        let (operands, body) = inner.finish(&results);
        let operands = operands.into_iter().map(|v| self.value(v)).collect::<Result<Vec<_>>>()?;
        let first = &self.graph.nodes[nodes[0]];
        (self.builder.site, self.builder.record) = (first.site, first.record);
        let attrs = smallvec![Attr::Body(Arc::new(body))];
        let values = self.builder.ops(Op::Module, &operands, attrs)?;
        results.iter().zip(values).for_each(|(v, new)| self.new[v.0 as usize] = Some(new));
        Ok(())
    }
}

/// A module under construction.
struct Inner<'g> {
    graph: &'g Graph,
    builder: Builder,
    operands: Vec<ValueId>,
    new: HashMap<ValueId, ValueId>,
}

impl<'g> Inner<'g> {
    /// A module with the operands of these nodes: values that none of them makes, and that are not anywhere.
    fn new(graph: &'g Graph, roles: &[Role], nodes: &[usize]) -> Result<Inner<'g>> {
        let (builder, operands, new) = (Builder::new(), Vec::new(), HashMap::new());
        let mut inner = Inner { graph, builder, operands, new };
        let mut seen: Vec<bool> = vec![false; graph.values.len()];
        nodes
            .iter()
            .flat_map(|&id| graph.nodes[id].outputs())
            .for_each(|v| seen[v.0 as usize] = true);
        for &v in nodes.iter().flat_map(|&id| &graph.nodes[id].inputs) {
            let v = root(graph, roles, v);
            let is_anywhere = roles[graph.value(v).node.0 as usize] == Role::Anywhere;
            if !is_anywhere && !std::mem::replace(&mut seen[v.0 as usize], true) {
                let index = inner.operands.len() as u32;
                inner.new.insert(v, inner.builder.input(index, graph.ty(v).clone())?);
                inner.operands.push(v);
            }
        }
        Ok(inner)
    }

    fn node(&mut self, id: usize) -> Result<()> {
        let node = &self.graph.nodes[id];
        for v in &node.inputs {
            if !self.new.contains_key(v) {
                self.node(self.graph.value(*v).node.0 as usize)?;
            }
        }
        let inputs: Vec<ValueId> = node.inputs.iter().map(|v| self.new[v]).collect();
        let values = self.builder.ops(node.op, &inputs, node.attrs.clone())?;
        self.new.extend(node.outputs().zip(values));
        Ok(())
    }

    /// The operands and the body.
    fn finish(self, results: &[ValueId]) -> (Vec<ValueId>, Body) {
        let count = self.operands.len();
        let outputs = results.iter().map(|v| self.new[v]).collect();
        let body = body_of(&self.builder.finish(outputs), count);
        (self.operands, body)
    }
}
