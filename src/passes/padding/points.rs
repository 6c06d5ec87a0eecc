//! The graph of a trace at several points, which determine its numbers elsewhere.

use super::axes::Size;
use crate::graph::{Graph, ValueId};
use crate::number::{Number, Numbers};
use crate::symbolic::{Datum, Expr, Finder, Fitter};

/// Number of points that must agree beyond those that determine a polynomial.
const SPARE: usize = 2;

/// Graphs of one structure at several points, and their numbers at any point.
pub struct Sampled {
    graphs: Vec<Graph>,
    structure: Graph,
    numbers: Vec<Datum>,
    /// The integers that vary, with their expressions.
    varying: Vec<(usize, Expr)>,
}

impl Sampled {
    /// From the graphs at these points, without those of another structure than most. `None` if too few are left, or
    /// if an integer is not a polynomial.
    pub fn new(graphs: Vec<(Vec<i64>, Graph)>) -> Option<Sampled> {
        let apart: Vec<(Graph, Vec<Datum>)> =
            graphs.iter().map(|(_, graph)| taken_apart(graph.clone())).collect();
        let alike = |at: usize| apart.iter().filter(|other| other.0 == apart[at].0).count();
        // Single sizes make graphs of their own: a size that equals another one.
        let most = (0..apart.len()).rev().max_by_key(|&at| alike(at))?;
        let structure = apart[most].0.clone();
        let (mut kept, mut points) = (Vec::new(), Vec::new());
        let mut numbers: Vec<Vec<Datum>> = Vec::new();
        for ((point, graph), (bare, data)) in graphs.into_iter().zip(apart) {
            if bare == structure {
                points.push(point);
                kept.push(graph);
                numbers.push(data);
            }
        }
        if points.len() < SPARE + 2 {
            return None;
        }
        let mut finder = Finder::new(Box::new(Fitter::new(&points, points.len(), SPARE)));
        let mut varying = Vec::new();
        for at in 0..numbers[0].len() {
            let values: Vec<Datum> = numbers.iter().map(|list| list[at]).collect();
            let is_int = matches!(values[0], Datum::Int(_));
            if is_int && values.iter().any(|value| *value != values[0]) {
                varying.push((at, finder.find(&values)?));
            }
        }
        Some(Sampled { graphs: kept, structure, numbers: numbers.swap_remove(0), varying })
    }

    /// Whether a graph differs from the sampled ones in numbers only.
    pub fn is_of(&self, graph: &Graph) -> bool {
        taken_apart(graph.clone()).0 == self.structure
    }

    /// The graph at a point, but for the floats.
    pub fn at(&self, point: &[i64]) -> Option<Graph> {
        let mut numbers = self.numbers.clone();
        for (at, expr) in &self.varying {
            numbers[*at] = expr.at(point)?;
        }
        let (mut graph, mut index, mut sound) = (self.structure.clone(), 0, true);
        each_number(&mut graph, &mut |number| {
            sound &= numbers[index].put(number).is_some();
            index += 1;
        });
        (sound && graph.guards.iter().all(|guard| guard.margin >= 0)).then_some(graph)
    }
}

/// The graph with zeros for its numbers, and the numbers. Call sites are left out.
fn taken_apart(mut graph: Graph) -> (Graph, Vec<Datum>) {
    let mut numbers = Vec::new();
    each_number(&mut graph, &mut |number| {
        numbers.extend(Datum::of(&number));
        match number {
            Number::Int(n) | Number::Size(n) => *n = 0,
            Number::Bytes(n) => *n = 0,
            Number::Float(x) => *x = 0.0,
        }
    });
    graph.nodes.iter_mut().for_each(|node| node.site = 0);
    (graph, numbers)
}

fn each_number(graph: &mut Graph, f: &mut dyn FnMut(Number)) {
    graph.nodes.iter_mut().for_each(|node| node.attrs.numbers(f));
    graph.values.iter_mut().for_each(|value| value.ty.numbers(f));
    graph.guards.iter_mut().for_each(|guard| f(Number::Int(&mut guard.margin)));
}

/// The input of the pass: graphs of one structure, the last two of which are the trace in hand and the bucket.
pub struct Points<'a>(Vec<&'a Graph>);

impl<'a> Points<'a> {
    pub fn new(sampled: &'a Sampled, here: &'a Graph, bucket: &'a Graph) -> Points<'a> {
        Points(sampled.graphs.iter().chain([here, bucket]).collect())
    }

    /// The graph of the trace in hand.
    pub fn here(&self) -> &'a Graph {
        self.0[self.0.len() - 2]
    }

    pub fn one(&self) -> Size {
        Size::new(self.0.iter().map(|_| 1))
    }

    /// The sizes of a value.
    pub fn sizes(&self, v: ValueId) -> Vec<Size> {
        let size = |d| Size::new(self.0.iter().map(|graph| graph.ty(v).sizes[d]));
        (0..self.here().ty(v).rank()).map(size).collect()
    }

    /// Attribute `i` of node `n`, an integer.
    pub fn int(&self, n: usize, i: usize) -> Size {
        Size::new(self.0.iter().map(|graph| graph.nodes[n].attrs[i].int()))
    }

    /// Attribute `i` of node `n`, a list of integers.
    pub fn ints(&self, n: usize, i: usize) -> Vec<Size> {
        let count = self.here().nodes[n].attrs[i].ints().len();
        let size = |k| Size::new(self.0.iter().map(|graph| graph.nodes[n].attrs[i].ints()[k]));
        (0..count).map(size).collect()
    }

    /// The bits of attribute `i` of node `n`, a float, at every point but the bucket.
    pub fn floats(&self, n: usize, i: usize) -> Vec<u64> {
        let known = &self.0[..self.0.len() - 1];
        known.iter().map(|graph| graph.nodes[n].attrs[i].float().to_bits()).collect()
    }

    /// Whether a node has the same attributes at every point.
    pub fn has_fixed_attrs(&self, n: usize) -> bool {
        let attrs = &self.here().nodes[n].attrs;
        self.0.iter().all(|graph| graph.nodes[n].attrs == *attrs)
    }

    pub fn has_fixed_sizes(&self, v: ValueId) -> bool {
        self.0.iter().all(|graph| graph.ty(v) == self.here().ty(v))
    }
}
