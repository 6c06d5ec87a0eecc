//! Products beside the collectives that their rows come from or go to: collective matmul, or asynchronous tensor parallelism.

mod cut;

use super::rebuild::{Item, Values, rebuild};
use crate::error::Result;
use crate::graph::{Builder, Graph, Node, NodeId, ValueId};
use crate::internal;
use crate::op::collective::{self, Kind};
use crate::op::{Attr, Class, FLOPS_PER_BYTE, Op, Ty};
use crate::shape::Dims;
use cut::{Chain, Cut, CutMove, Move, divided, moved, regrouped};
use smallvec::smallvec;
use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Number of parts beyond which products would be of too few rows.
const MOST_PARTS: usize = 16;

/// Large collectives are recorded in parts (`csrc/dist/communicator.cpp`). A product of rows that were gathered in parts becomes
/// a product for each part, which runs while the next part is gathered; one whose rows are reduced in parts likewise, so that a
/// part is reduced while the next one is computed. (Wang et al., "Overlap Communication with Dependent Computation via
/// Decomposition in Large Deep Learning Models", ASPLOS 2023.) Rows of a product do not depend on one another.
///
/// ```text
/// x = concat(gathered0, gathered1) {dim=0}           y0 = matmul(gathered0, w)
/// y = matmul(x, w)                             →     y1 = matmul(gathered1, w)
///                                                    y = concat(y0, y1) {dim=0}
/// y = matmul(x, w)                                   x0 = slice(x) {…}
/// y0 = slice(y) {…}                                  y0 = matmul(x0, w)
/// s0 = reduce_scatter(y0)                      →     s0 = reduce_scatter(y0)
/// y1 = slice(y) {…}                                  x1 = slice(x) {…}
/// s1 = reduce_scatter(y1)                            y1 = matmul(x1, w)
///                                                    s1 = reduce_scatter(y1)
/// ```
pub fn collective_matmul(graph: &Graph) -> Result<Cow<'_, Graph>> {
    if !graph.nodes.iter().any(|node| kind(node).is_some()) {
        return Ok(Cow::Borrowed(graph));
    }
    // By slice: what makes it, and the number of the part.
    let reduced = reduced(graph);
    let mut slices: HashMap<ValueId, (&Part, usize)> = HashMap::new();
    let mut cut_products: HashSet<ValueId> = HashSet::new();
    for (of, part) in &reduced {
        slices.extend(of.iter().enumerate().map(|(n, &slice)| (slice, (part, n))));
        part.add_products(&mut cut_products);
    }
    // By rows: the concatenation that they are made of.
    let mut gathered: HashMap<ValueId, Gathered> = HashMap::new();
    let mut products: HashSet<ValueId> = HashSet::new();
    for node in &graph.nodes {
        let Some([_, columns]) = matrix(graph, node) else { continue };
        let rows = node.inputs[0];
        if !pays(graph.ty(rows), columns) || cut_products.contains(&node.first) {
            continue;
        }
        if let Entry::Vacant(unknown) = gathered.entry(rows) {
            let Some(found) = Gathered::of(graph, rows) else { continue };
            unknown.insert(found);
        }
        products.insert(node.first);
    }
    if slices.is_empty() && gathered.is_empty() {
        return Ok(Cow::Borrowed(graph));
    }
    let mut new = New::default();
    let mut id = 0;
    rebuild(graph, |b, item: &Item| {
        let node = graph.node(NodeId(id));
        let value = node.first;
        id += 1;
        if node.n_outputs != 1 {
            // A send has no value: its first one is another node's.
            return Ok(None);
        }
        new.values.extend(node.inputs.iter().copied().zip(item.inputs.iter().copied()));
        let made = if let Some((part, n)) = slices.get(&value) {
            let y = part.build(b, graph, &new, *n)?;
            b.reshape(y, &graph.ty(value).sizes)?
        } else if let Some(rows) = gathered.get(&value) {
            // Its concatenation may be this very node.
            let parts = graph.maker(rows.concat).inputs.iter().map(|v| new.values[v]).collect();
            let parts = rows.moved(b, parts)?;
            let whole = rows.whole(b, &parts)?;
            new.parts.insert(value, parts);
            whole
        } else if products.contains(&value) {
            let rows = &gathered[&node.inputs[0]];
            let product = |(n, &part)| rows.rows.product(b, part, item.inputs[1], n);
            let parts = new.parts[&node.inputs[0]].iter().enumerate().map(product);
            let parts = parts.collect::<Result<Values>>()?;
            rows.whole(b, &parts)?
        } else {
            return Ok(None);
        };
        Ok(Some(smallvec![made]))
    })
}

/// What values of the old graph are in the new one.
#[derive(Default)]
struct New {
    values: HashMap<ValueId, ValueId>,
    /// By rows: their parts.
    parts: HashMap<ValueId, Values>,
}

fn kind(node: &Node) -> Option<Kind> {
    (node.op == Op::Host).then(|| Some(collective::of(&node.attrs)?.0)).flatten()
}

/// The rows of a matrix, divided into these sizes, of which one is cut.
#[derive(Clone)]
struct Rows {
    sizes: Dims,
    cut: Cut,
}

impl Rows {
    /// `sizes`: those of the matrix, maybe with its `count` rows divided. `None` where the cut is not one of rows.
    fn of(sizes: &[i64], count: i64, cut: Cut) -> Option<Rows> {
        let (_, rows) = sizes.split_last()?;
        let is_sound = rows.iter().product::<i64>() == count && cut.dim < rows.len();
        is_sound.then(|| Rows { sizes: rows.into(), cut })
    }

    /// The product of part `n` of the rows, `part`, with rows divided as they are.
    fn product(&self, b: &mut Builder, part: ValueId, w: ValueId, n: usize) -> Result<ValueId> {
        let depth = *b.ty(part).sizes.last().unwrap_or(&1);
        let rows = b.reshape(part, &[-1, depth])?;
        let y = b.matmul(rows, w)?;
        let mut sizes = self.cut.of(&self.sizes, n);
        sizes.push(b.ty(y).sizes[1]);
        b.reshape(y, &sizes)
    }
}

/// Rows that are gathered in parts.
struct Gathered {
    concat: ValueId,
    /// From each part to its rows.
    moves: Vec<CutMove>,
    rows: Rows,
}

impl Gathered {
    /// `None` if `rows`, a matrix, are not made of gathered arrays by moves alone.
    fn of(graph: &Graph, rows: ValueId) -> Option<Gathered> {
        let is_concat_of_gathered = |v: ValueId, _| {
            let node = graph.maker(v);
            let is_gathered = |&v: &ValueId| kind(graph.maker(before_reshapes(graph, v))).is_some();
            let is_concat = node.op == Op::Concat && node.inputs.len() <= MOST_PARTS;
            is_concat && node.inputs.iter().all(is_gathered)
        };
        let chain = Chain::to(graph, (rows, 1), is_concat_of_gathered)?;
        let concat = graph.maker(chain.source);
        let dim = concat.attrs[0].int() as usize;
        let lengths = concat.inputs.iter().map(|&v| graph.ty(v).sizes[dim]).collect();
        let [count, columns] = graph.ty(rows).sizes[..] else { return None };
        let (mut cut, mut moves) = (Cut { dim, lengths }, Vec::new());
        let mut sizes = &chain.sizes[0];
        for n in 0..chain.moves.len() {
            let Some(next) = chain.forward(n, &cut) else {
                // The last one may put together rows that are cut at an inner dimension.
                if n + 1 < chain.moves.len() {
                    return None;
                }
                let (divided, cut) = divided(sizes, columns, &cut)?;
                let rows = Rows::of(&divided, count, cut.clone())?;
                moves.push((Move::Reshape(divided.clone()), cut, divided));
                return Some(Gathered { concat: chain.source, moves, rows });
            };
            cut = next;
            sizes = &chain.sizes[n + 1];
            moves.push(chain.cut_move(n, cut.clone()));
        }
        Some(Gathered { concat: chain.source, moves, rows: Rows::of(sizes, count, cut)? })
    }

    fn moved(&self, b: &mut Builder, parts: Values) -> Result<Values> {
        let parts = parts.into_iter().enumerate();
        parts.map(|(n, part)| moved(b, part, &self.moves, n)).collect()
    }

    /// The matrix of all parts.
    fn whole(&self, b: &mut Builder, parts: &[ValueId]) -> Result<ValueId> {
        let whole = b.op(Op::Concat, parts, smallvec![Attr::Int(self.rows.cut.dim as i64)])?;
        let columns = *b.ty(whole).sizes.last().unwrap_or(&1);
        b.reshape(whole, &[-1, columns])
    }
}

/// How the parts of an array are made, each by itself.
enum Part {
    /// From the whole array, seen as one of these sizes.
    Slice(ValueId, Dims, Cut),
    /// By a product, of the parts of its rows.
    Product(ValueId, Rows),
    /// From parts of the operands of this node.
    Pointwise(NodeId, Vec<Part>),
    Moved(Box<Part>, Vec<CutMove>),
}

/// Most pointwise operations between a product and a collective.
const DEEPEST: usize = 8;

impl Part {
    /// The parts of `v`, seen as an array of these sizes, which what is known to use it uses `uses` times.
    fn of(
        graph: &Graph,
        counts: &[u32],
        (v, uses): (ValueId, u32),
        (sizes, cut): (&Dims, &Cut),
        depth: usize,
    ) -> Part {
        let slice = || Part::Slice(v, sizes.clone(), cut.clone());
        let used = |v: ValueId| counts[v.0 as usize];
        let is_source = |v: ValueId, uses: u32| {
            let node = graph.maker(v);
            let is_move = match node.op {
                Op::Reshape | Op::Transpose | Op::Cast => true,
                Op::Concat => {
                    let mut parts = node.inputs.iter();
                    parts.all(|&part| used(part) == 1) && regrouped(graph, node).is_some()
                }
                _ => false,
            };
            used(v) != uses || !is_move
        };
        let Some(mut chain) = Chain::to(graph, (v, uses), is_source) else { return slice() };
        chain.reshape(sizes);
        let source = graph.maker(chain.source);
        let is_lone = used(chain.source) == chain.uses;
        let product = matrix(graph, source).filter(|_| is_lone);
        let (mut at, mut moves) = (cut.clone(), Vec::new());
        for n in (0..chain.moves.len()).rev() {
            let before = chain.backward(n, &at);
            let Some(before) = before else {
                // The first one may divide rows that are cut at an inner dimension.
                let made = product.filter(|_| n == 0).and_then(|[count, columns]| {
                    let (divided, cut) = divided(&chain.sizes[1], columns, &at)?;
                    Rows::of(&divided, count, cut)
                });
                let Some(rows) = made else { return slice() };
                moves.push(chain.cut_move(n, at));
                return Part::Product(source.first, rows).moved(moves);
            };
            moves.push(chain.cut_move(n, at));
            at = before;
        }
        let sizes = &chain.sizes[0];
        let is_pointwise = source.op.class() == Class::Pointwise && source.n_outputs == 1;
        let rows = product.and_then(|[count, _]| Rows::of(sizes, count, at.clone()));
        let part = if let Some(rows) = rows {
            Part::Product(source.first, rows)
        } else if is_lone && is_pointwise && depth < DEEPEST {
            let operand = |&x: &ValueId| Part::of(graph, counts, (x, 1), (sizes, &at), depth + 1);
            Part::Pointwise(
                graph.value(chain.source).node,
                source.inputs.iter().map(operand).collect(),
            )
        } else {
            Part::Slice(chain.source, sizes.clone(), at)
        };
        part.moved(moves)
    }

    /// `moves` are from the last one to the first.
    fn moved(self, mut moves: Vec<CutMove>) -> Part {
        moves.reverse();
        if moves.is_empty() { self } else { Part::Moved(Box::new(self), moves) }
    }

    fn add_products(&self, products: &mut HashSet<ValueId>) {
        match self {
            Part::Slice(..) => {}
            Part::Product(product, _) => drop(products.insert(*product)),
            Part::Pointwise(_, parts) => parts.iter().for_each(|part| part.add_products(products)),
            Part::Moved(part, _) => part.add_products(products),
        }
    }

    /// Part `n`.
    fn build(&self, b: &mut Builder, graph: &Graph, new: &New, n: usize) -> Result<ValueId> {
        let sliced = |b: &mut Builder, v: ValueId, sizes: &Dims, cut: &Cut| {
            let whole = b.reshape(new.values[&v], sizes)?;
            let mut starts = Dims::from_elem(0, sizes.len());
            starts[cut.dim] = cut.start(n);
            b.slice(whole, &starts, &cut.of(sizes, n), &Dims::from_elem(1, sizes.len()))
        };
        match self {
            Part::Slice(v, sizes, cut) => sliced(b, *v, sizes, cut),
            Part::Product(product, rows) => {
                let [a, w] = graph.maker(*product).inputs[..] else {
                    return internal!("a product of other than two matrices");
                };
                let mut sizes = rows.sizes.clone();
                sizes.push(graph.ty(a).sizes[1]);
                let part = sliced(b, a, &sizes, &rows.cut)?;
                rows.product(b, part, new.values[&w], n)
            }
            Part::Pointwise(node, parts) => {
                let node = graph.node(*node);
                let parts = parts.iter().map(|part| part.build(b, graph, new, n));
                let parts = parts.collect::<Result<Values>>()?;
                b.op(node.op, &parts, node.attrs.clone())
            }
            Part::Moved(part, moves) => {
                let x = part.build(b, graph, new, n)?;
                moved(b, x, moves, n)
            }
        }
    }
}

/// Arrays that are reduced in parts and made of products, each with the slices that collectives take of it, in order.
fn reduced(graph: &Graph) -> Vec<(Vec<ValueId>, Part)> {
    // For each array, its slices that collectives take, in the order of the program.
    let mut slices: Vec<(ValueId, Vec<ValueId>)> = Vec::new();
    for node in &graph.nodes {
        let Some(Kind::AllReduce | Kind::ReduceScatter) = kind(node) else { continue };
        let slice = graph.maker(before_reshapes(graph, node.inputs[0]));
        if slice.op != Op::Slice {
            continue;
        }
        match slices.iter_mut().find(|(whole, _)| *whole == slice.inputs[0]) {
            Some((_, known)) if known.contains(&slice.first) => {}
            Some((_, known)) => known.push(slice.first),
            None => slices.push((slice.inputs[0], vec![slice.first])),
        }
    }
    let uses = if slices.is_empty() { Vec::new() } else { graph.use_counts() };
    let found = slices.into_iter().filter_map(|(whole, mut slices)| {
        slices.sort_by_key(|&v| Dims::from_slice(graph.maker(v).attrs[0].ints()));
        let (sizes, cut) = tiled(graph, whole, &slices)?;
        let part = Part::of(graph, &uses, (whole, slices.len() as u32), (&sizes, &cut), 0);
        let mut products = HashSet::new();
        part.add_products(&mut products);
        (!products.is_empty()).then_some((slices, part))
    });
    found.collect()
}

/// The numbers of rows and columns of a product of two matrices.
fn matrix(graph: &Graph, node: &Node) -> Option<[i64; 2]> {
    if node.op != Op::Matmul {
        return None;
    }
    let [rows, columns] = graph.ty(node.first).sizes[..] else { return None };
    (rows > 1 && columns > 0 && graph.ty(node.inputs[0]).numel() > 0).then_some([rows, columns])
}

fn before_reshapes(graph: &Graph, mut v: ValueId) -> ValueId {
    while graph.maker(v).op == Op::Reshape {
        v = graph.maker(v).inputs[0];
    }
    v
}

/// Whether what is hidden takes longer than it takes to put the results together. Both grow with the number of rows.
fn pays(rows: &Ty, columns: i64) -> bool {
    let (depth, columns) = (rows.sizes[1] as u64, columns as u64);
    let bytes = rows.dtype.size() as u64;
    let moved = depth.saturating_mul(bytes * collective::SLOWDOWN);
    let computed = depth.saturating_mul(2 * columns) / FLOPS_PER_BYTE;
    moved.min(computed) / 2 > columns.saturating_mul(2 * bytes)
}

/// The sizes of `whole`, maybe with a dimension divided, and the cut that makes these slices of it, in order; `None` if some of
/// it is in no slice, or in two.
fn tiled(graph: &Graph, whole: ValueId, slices: &[ValueId]) -> Option<(Dims, Cut)> {
    let full = &graph.ty(whole).sizes;
    let first = &graph.ty(slices[0]).sizes;
    if full.contains(&0) || slices.len() > MOST_PARTS {
        return None;
    }
    let dim = (0..full.len()).find(|&d| full[d] != first[d])?;
    let count = slices.len() as i64;
    if graph.maker(slices[0]).attrs[2].ints()[dim] == count && first[dim] * count == full[dim] {
        // Each takes one of as many rows as there are slices, in turn.
        let takes_its_own = |(n, &v): (usize, &ValueId)| {
            let attrs = &graph.maker(v).attrs;
            let [starts, sizes, steps] = [0, 1, 2].map(|at| attrs[at].ints());
            (0..full.len()).all(|d| match d == dim {
                true => starts[d] == n as i64 && steps[d] == count && sizes[d] == first[d],
                false => starts[d] == 0 && sizes[d] == full[d],
            })
        };
        let mut sizes = full.clone();
        sizes[dim] = first[dim];
        sizes.insert(dim + 1, count);
        let cut = Cut { dim: dim + 1, lengths: vec![1; slices.len()] };
        return slices.iter().enumerate().all(takes_its_own).then_some((sizes, cut));
    }
    let mut cut = Cut { dim, lengths: Vec::new() };
    for &v in slices {
        let attrs = &graph.maker(v).attrs;
        let (starts, sizes) = (attrs[0].ints(), attrs[1].ints());
        let is_dense = attrs[2].ints().iter().all(|&step| step == 1);
        let at = cut.lengths.iter().sum::<i64>();
        let is_next = |d: usize| match d == dim {
            true => starts[d] == at,
            false => starts[d] == 0 && sizes[d] == full[d],
        };
        if !is_dense || sizes[dim] == 0 || !(0..full.len()).all(is_next) {
            return None;
        }
        cut.lengths.push(sizes[dim]);
    }
    (cut.lengths.iter().sum::<i64>() == full[dim]).then_some((full.clone(), cut))
}
