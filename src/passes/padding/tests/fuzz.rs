//! Random graphs, one size of which is stretched.

use super::*;
use crate::graph::Node;
use crate::graph::generate::{Case, Limits, case};
use crate::op::Attr;
use crate::shape::Dims;

/// The size that varies: every number that it divides is taken for a multiple of it.
const MARKER: i64 = 5;
const SEEDS: u64 = 1500;

fn stretched_size(n: i64, to: i64) -> i64 {
    if n % MARKER == 0 { n / MARKER * to } else { n }
}

fn stretched_attr(node: &Node, index: usize, to: i64) -> Attr {
    let sizes = |list: &[i64]| -> Dims { list.iter().map(|&n| stretched_size(n, to)).collect() };
    match &node.attrs[index] {
        Attr::Ints(list) => Attr::Ints(sizes(list)),
        Attr::Types(types) => {
            let of = |ty: &Ty| Ty::new(ty.dtype, &sizes(&ty.sizes));
            Attr::Types(types.iter().map(of).collect())
        }
        // The offset of a strided view; the others are no sizes.
        Attr::Int(n) if index == 2 => Attr::Int(stretched_size(*n, to)),
        other => other.clone(),
    }
}

/// The graph with another size in place of the marker, if there is such a one.
fn stretched(graph: &Graph, to: i64) -> Option<Graph> {
    let mut b = Builder::new();
    let mut new: Vec<ValueId> = Vec::new();
    for node in &graph.nodes {
        let inputs: Vec<ValueId> = node.inputs.iter().map(|v| new[v.0 as usize]).collect();
        let attrs = (0..node.attrs.len()).map(|i| stretched_attr(node, i, to)).collect();
        new.extend(b.ops(node.op, &inputs, attrs).ok()?);
    }
    Some(b.finish(graph.outputs.iter().map(|v| new[v.0 as usize]).collect()))
}

/// The same numbers again and again, for an array of another size: indices stay in range.
fn repeated(array: &Array, ty: &Ty) -> Array {
    let mut longer = Array::zeros(ty);
    if !array.is_empty() {
        (0..longer.len()).for_each(|i| longer.set_raw(i, array.raw(i % array.len())));
    }
    longer
}

/// What became of a case.
#[derive(PartialEq)]
enum Outcome {
    /// Its graphs of other sizes do not exist, or have other structures.
    Unusable,
    Refused,
    Padded,
}

fn run(case: &Case, here: i64, bucket: i64) -> Outcome {
    let graphs: Vec<(Vec<i64>, Graph)> = (POINTS.into_iter())
        .filter_map(|to| Some((vec![to], stretched(&case.graph, to)?)))
        .collect();
    let (Some(sampled), Some(graph)) = (Sampled::new(graphs), stretched(&case.graph, here)) else {
        return Outcome::Unusable;
    };
    let mut inputs = case.inputs.clone();
    for node in graph.nodes.iter().filter(|node| node.op == Op::Input) {
        let input = &mut inputs[node.attrs[0].int() as usize];
        *input = repeated(input, graph.ty(node.first));
    }
    let Some(want) = forms(&graph, &inputs, &case.scalars) else { return Outcome::Unusable };
    match Padded::new(&sampled, &graph, &[bucket], inputs.len(), case.scalars.len()) {
        Ok(padding) => {
            compare(&padding, &inputs, &case.scalars, &want);
            if padding.outputs.iter().all(Option::is_none) && padding.size_args.is_empty() {
                return Outcome::Unusable;
            }
            Outcome::Padded
        }
        Err(_) => Outcome::Refused,
    }
}

#[test]
fn random_programs_ignore_padding() {
    let mut outcomes = Vec::new();
    for seed in 0..SEEDS {
        let limits = Limits { nodes: 4 + (seed % 5) as usize * 6, size: MARKER };
        let case = case(seed, limits).unwrap();
        let here = [8, 13, 16][seed as usize % 3];
        let outcome = std::panic::catch_unwind(|| run(&case, here, 16));
        outcomes.push(outcome.unwrap_or_else(|_| panic!("seed {seed}:\n{}", case.graph)));
    }
    let count = |wanted: Outcome| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    let (padded, refused) = (count(Outcome::Padded), count(Outcome::Refused));
    println!("{padded} padded, {refused} refused");
    assert!(padded > SEEDS as usize / 10, "{padded} padded, {refused} refused");
}
