//! Arrays that are cut into parts along a dimension, and what changes of layout make of the parts.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Builder, Graph, Node, ValueId};
use crate::op::Op;
use crate::shape::Dims;

/// A change of layout or type.
#[derive(Clone)]
pub(super) enum Move {
    /// To these sizes.
    Reshape(Dims),
    Transpose(Dims),
    Cast(DType),
}

/// An array cut along a dimension into parts of these lengths.
#[derive(Clone)]
pub(super) struct Cut {
    pub(super) dim: usize,
    pub(super) lengths: Vec<i64>,
}

impl Cut {
    /// The same parts of the elements in other sizes, if these can be cut there.
    pub(super) fn reshaped(&self, from: &[i64], to: &[i64]) -> Option<Cut> {
        let count = |sizes: &[i64]| sizes.iter().product::<i64>();
        let outer = count(&from[..self.dim]);
        let dim = (0..to.len()).find(|&dim| count(&to[..dim]) == outer && to[dim] != 1)?;
        let (inner, new) = (count(&from[self.dim + 1..]), count(&to[dim + 1..]));
        let lengths: Vec<i64> = self.lengths.iter().map(|n| n * inner / new).collect();
        let is_whole = self.lengths.iter().zip(&lengths).all(|(n, m)| n * inner == m * new);
        is_whole.then_some(Cut { dim, lengths })
    }

    /// `sizes` of the array as those of part `n`.
    pub(super) fn of(&self, sizes: &[i64], n: usize) -> Dims {
        let mut sizes = Dims::from_slice(sizes);
        sizes[self.dim] = self.lengths[n];
        sizes
    }

    pub(super) fn start(&self, n: usize) -> i64 {
        self.lengths[..n].iter().sum()
    }
}

/// A move of an array that is cut, with the cut and the sizes of the result.
pub(super) type CutMove = (Move, Cut, Dims);

/// Moves part `n`.
pub(super) fn moved(
    b: &mut Builder,
    mut x: ValueId,
    moves: &[CutMove],
    n: usize,
) -> Result<ValueId> {
    for (one, cut, sizes) in moves {
        x = match one {
            Move::Reshape(_) => b.reshape(x, &cut.of(sizes, n))?,
            Move::Transpose(perm) => b.transpose(x, perm)?,
            Move::Cast(dtype) => b.cast(x, *dtype)?,
        };
    }
    Ok(x)
}

/// The moves that lead from one array to another, with the sizes before each and after the last one.
pub(super) struct Chain {
    pub(super) source: ValueId,
    /// Number of uses of the source that are in the chain.
    pub(super) uses: u32,
    pub(super) sizes: Vec<Dims>,
    pub(super) moves: Vec<Move>,
}

impl Chain {
    /// From a value that `is_source` to `v`, which is used `uses` times; `None` if something else than a move is between them.
    /// `is_source` is told how often the chain uses a value.
    pub(super) fn to(
        graph: &Graph,
        (v, uses): (ValueId, u32),
        is_source: impl Fn(ValueId, u32) -> bool,
    ) -> Option<Chain> {
        let (mut source, mut uses, mut moves) = (v, uses, Vec::new());
        while !is_source(source, uses) {
            let node = graph.maker(source);
            let sizes = || graph.ty(node.first).sizes.clone();
            source = node.inputs.first().copied()?;
            uses = 1;
            match node.op {
                Op::Reshape => moves.push(Move::Reshape(sizes())),
                Op::Transpose => moves.push(Move::Transpose(node.attrs[0].ints().into())),
                Op::Cast => moves.push(Move::Cast(node.attrs[0].dtype())),
                Op::Concat => {
                    let (whole, regrouped) = regrouped(graph, node)?;
                    (source, uses) = (whole, node.inputs.len() as u32);
                    moves.extend(regrouped.into_iter().rev());
                }
                _ => return None,
            }
        }
        // Of several reshapes in a row the last one says all; they may put together dimensions that are taken apart again.
        moves.dedup_by(|before, after| {
            matches!((before, after), (Move::Reshape(_), Move::Reshape(_)))
        });
        moves.reverse();
        let mut sizes = vec![graph.ty(source).sizes.clone()];
        for one in &moves {
            let before = sizes.last()?;
            let after = match one {
                Move::Reshape(after) => after.clone(),
                Move::Transpose(perm) => perm.iter().map(|&p| before[p as usize]).collect(),
                Move::Cast(_) => before.clone(),
            };
            sizes.push(after);
        }
        Some(Chain { source, uses, sizes, moves })
    }

    /// A reshape of the result.
    pub(super) fn reshape(&mut self, sizes: &Dims) {
        if self.sizes.last() == Some(sizes) {
            return;
        }
        if let Some(Move::Reshape(last)) = self.moves.last_mut() {
            last.clone_from(sizes);
            self.sizes.pop();
        } else {
            self.moves.push(Move::Reshape(sizes.clone()));
        }
        self.sizes.push(sizes.clone());
    }

    pub(super) fn cut_move(&self, n: usize, cut_after: Cut) -> CutMove {
        (self.moves[n].clone(), cut_after, self.sizes[n + 1].clone())
    }

    /// The cut after move `n` for one before it.
    pub(super) fn forward(&self, n: usize, cut: &Cut) -> Option<Cut> {
        match &self.moves[n] {
            Move::Reshape(to) => cut.reshaped(&self.sizes[n], to),
            Move::Transpose(perm) => {
                let dim = perm.iter().position(|&p| p as usize == cut.dim)?;
                Some(Cut { dim, ..cut.clone() })
            }
            Move::Cast(_) => Some(cut.clone()),
        }
    }

    /// The cut before move `n` for one after it.
    pub(super) fn backward(&self, n: usize, cut: &Cut) -> Option<Cut> {
        match &self.moves[n] {
            Move::Reshape(to) => cut.reshaped(to, &self.sizes[n]),
            Move::Transpose(perm) => Some(Cut { dim: perm[cut.dim] as usize, ..cut.clone() }),
            Move::Cast(_) => Some(cut.clone()),
        }
    }
}

/// Slices of equal length, in order, side by side along another dimension, as `torch.cat` puts those of `torch.chunk`: the
/// array that they are all of, and the moves that do the same.
pub(super) fn regrouped(graph: &Graph, concat: &Node) -> Option<(ValueId, [Move; 3])> {
    let to = concat.attrs[0].int() as usize;
    let count = concat.inputs.len();
    let first = graph.maker(concat.inputs[0]);
    let whole = first.inputs.first().copied().filter(|_| first.op == Op::Slice)?;
    let (full, part) = (&graph.ty(whole).sizes, &graph.ty(first.first).sizes);
    let from = (0..full.len()).find(|&d| full[d] != part[d])?;
    let is_chunk = |(n, &v): (usize, &ValueId)| {
        let slice = graph.maker(v);
        if slice.op != Op::Slice || slice.inputs[0] != whole || &graph.ty(v).sizes != part {
            return false;
        }
        let mut starts = slice.attrs[0].ints().iter().enumerate();
        let is_dense = slice.attrs[2].ints().iter().all(|&step| step == 1);
        is_dense && starts.all(|(d, &at)| at == if d == from { n as i64 * part[d] } else { 0 })
    };
    let is_all = full[from] == part[from] * count as i64;
    if from == to || !is_all || !concat.inputs.iter().enumerate().all(is_chunk) {
        return None;
    }
    let mut divided = full.clone();
    divided[from] = count as i64;
    divided.insert(from + 1, part[from]);
    // The number of the chunk goes before the dimension along which they are put together.
    let mut perm: Dims = (0..divided.len() as i64).filter(|&d| d as usize != from).collect();
    let at = perm.iter().position(|&d| d as usize == to + usize::from(to > from))?;
    perm.insert(at, from as i64);
    let result = graph.ty(concat.first).sizes.clone();
    Some((whole, [Move::Reshape(divided), Move::Transpose(perm), Move::Reshape(result)]))
}

/// Sizes with rows of so many columns as their last dimension, and the cut there, for an array in which rows may lie one after the
/// other in that dimension.
pub(super) fn divided(sizes: &Dims, columns: i64, cut: &Cut) -> Option<(Dims, Cut)> {
    let mut divided = sizes.clone();
    let last = divided.last_mut()?;
    if *last != columns {
        if *last % columns != 0 {
            return None;
        }
        *last /= columns;
        divided.push(columns);
    }
    let cut = cut.reshaped(sizes, &divided)?;
    Some((divided, cut))
}
