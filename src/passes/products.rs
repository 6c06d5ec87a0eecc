//! Sums of matrix products as one product.

use super::rebuild::rebuild;
use crate::error::Result;
use crate::graph::{Builder, Graph, NodeId, ValueId};
use crate::op::{Attr, Op};
use smallvec::smallvec;
use std::borrow::Cow;
use std::collections::HashMap;

/// Many thin products with one sum, such as the gradient of a weight that every step of a recurrent network uses, become one
/// product of their concatenated factors, where that moves less memory than the terms do.
///
/// ```text
/// x = matmul(a, b)                  left = concat(a, c, …) {dim=1}
/// y = matmul(c, d)              →   right = concat(b, d, …) {dim=0}
/// s = add(add(x, y), …)             s = matmul(left, right)
/// ```
pub fn products(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let sums = Sums::of(graph);
    if !graph.nodes.iter().any(|node| node.op == Op::Add && sums.pays(graph, node.first)) {
        return Ok(Cow::Borrowed(graph));
    }
    let mut factors: HashMap<ValueId, [ValueId; 2]> = HashMap::new();
    let mut id = 0;
    rebuild(graph, |b, item| {
        let value = graph.node(NodeId(id)).first;
        id += 1;
        match item.op {
            Op::Matmul if sums.terms[value.0 as usize] == 1 => {
                factors.insert(value, [item.inputs[0], item.inputs[1]]);
                Ok(None)
            }
            Op::Add if sums.pays(graph, value) => {
                let terms = sums.products(graph, value);
                let side = |n: usize| terms.iter().map(|term| factors[term][n]).collect::<Vec<_>>();
                let (left, right) = (joined(b, &side(0), 1)?, joined(b, &side(1), 0)?);
                Ok(Some(smallvec![b.matmul(left, right)?]))
            }
            _ => Ok(None),
        }
    })
}

/// The matrices side by side along `dim`. Transposes, as half of them are in gradients, are joined before they are
/// transposed: then the parts lie in memory in runs, and another sum may join the same.
fn joined(b: &mut Builder, matrices: &[ValueId], dim: usize) -> Result<ValueId> {
    let turned = |&v: &ValueId| {
        let maker = b.graph().maker(v);
        (maker.op == Op::Transpose).then(|| maker.inputs[0])
    };
    match matrices.iter().map(turned).collect::<Option<Vec<ValueId>>>() {
        Some(inner) => {
            let whole = b.op(Op::Concat, &inner, smallvec![Attr::Int(1 - dim as i64)])?;
            b.transpose(whole, &[1, 0])
        }
        None => b.op(Op::Concat, matrices, smallvec![Attr::Int(dim as i64)]),
    }
}

/// The values that are sums of products of float matrices; the terms have no other uses.
struct Sums {
    /// Number of products that are the terms of each value; 0 for other values.
    terms: Vec<u32>,
    /// The total length of the sums in these products.
    depth: Vec<i64>,
    /// Whether the value is itself a term of a larger sum.
    inner: Vec<bool>,
}

impl Sums {
    fn of(graph: &Graph) -> Sums {
        let n = graph.values.len();
        let mut sums = Sums { terms: vec![0; n], depth: vec![0; n], inner: vec![false; n] };
        let uses = graph.use_counts();
        for node in &graph.nodes {
            let v = node.first.0 as usize;
            let operands = || node.inputs.iter().map(|x| x.0 as usize);
            match node.op {
                Op::Matmul => {
                    let ty = graph.ty(node.first);
                    if ty.rank() == 2 && ty.dtype.is_float() {
                        sums.terms[v] = 1;
                        sums.depth[v] = graph.ty(node.inputs[0]).sizes[1];
                    }
                }
                Op::Add if operands().all(|x| sums.terms[x] > 0 && uses[x] == 1) => {
                    sums.terms[v] = operands().map(|x| sums.terms[x]).sum();
                    sums.depth[v] = operands().map(|x| sums.depth[x]).sum();
                    operands().for_each(|x| sums.inner[x] = true);
                }
                _ => {}
            }
        }
        sums
    }

    /// Whether copying the factors moves less than writing and adding up the products.
    fn pays(&self, graph: &Graph, sum: ValueId) -> bool {
        let v = sum.0 as usize;
        let [m, n] = graph.ty(sum).sizes[..] else { return false };
        let copied = self.depth[v].saturating_mul(m + n);
        let added = (self.terms[v].saturating_sub(1) as i64).saturating_mul(m * n);
        self.terms[v] > 1 && !self.inner[v] && copied < added
    }

    /// The terms of a sum, from left to right.
    fn products(&self, graph: &Graph, sum: ValueId) -> Vec<ValueId> {
        let (mut found, mut open) = (Vec::new(), vec![sum]);
        while let Some(v) = open.pop() {
            let node = graph.maker(v);
            match node.op {
                Op::Add => open.extend(node.inputs.iter().rev()),
                _ => found.push(v),
            }
        }
        found
    }
}
