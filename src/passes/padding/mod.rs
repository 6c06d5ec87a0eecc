//! One program for every size of a bucket: padding, made invisible by masks.
//!
//! The graph of a trace is lowered at several points ([`points`]), which gives every one of its numbers at any size.
//! The pass ([`pass`]) rewrites it for the bucket's sizes. It knows for every value which elements are padding ([`axes`]),
//! and before an operation reads across padding, fills that with neutral elements ([`rules`]). Numbers that depend on
//! the sizes in hand are passed as scalars, so that one program serves the bucket.
//!
//! **Invariant:** an element of a result that is not padding depends on no padding. A rule's decision holds for the trace in
//! hand and for the bucket, as these are among the points by which it decides; undecidable cases are refused.

mod axes;
mod frame;
mod padded;
mod pass;
mod points;
mod rules;
#[cfg(test)]
mod tests;

use crate::dtype::DType;
use crate::error::Error;
use crate::graph::Graph;
use crate::op::{Op, Ty};
use axes::{Origin, Size};
pub use frame::Frame;
use padded::Splits;
use pass::Made;
use points::Points;
pub use points::Sampled;

/// Maximum number of restarts for a trace because some memory has to be cut into rows.
const MOST_CUTS: usize = 64;

/// A result, or the reason why there is none.
pub type OrWhy<T> = Result<T, String>;

/// Why there is no padded graph yet.
#[derive(Debug)]
enum Stop {
    /// A part must be made as `outer` times the remainder.
    Cut {
        origin: Origin,
        outer: Size,
    },
    Refused(String),
}

impl Stop {
    fn new(why: impl Into<String>) -> Stop {
        Stop::Refused(why.into())
    }

    fn within(self, op: Op) -> Stop {
        match self {
            Stop::Refused(why) => Stop::Refused(format!("{}: {why}", op.name())),
            cut => cut,
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Refused(error.message)
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::new(why))
}

/// A graph for a bucket, and how a trace of other sizes uses it.
pub struct Padded {
    pub graph: Graph,
    /// The layouts in padded memory of every leaf of the trace and of every output; `None` without padding.
    pub inputs: Vec<Option<Frame>>,
    pub outputs: Vec<Option<Frame>>,
    /// The program's size arguments, after the trace's scalars: dtypes, and the numbers of the trace in hand.
    pub size_args: Vec<(DType, u64)>,
}

impl Padded {
    /// Pads the graph of the trace in hand, which must have the sampled structure, to the sizes of a point. The trace has
    /// `leaves` and `scalars`. Errors: why it is refused.
    pub fn new(
        sampled: &Sampled,
        here: &Graph,
        bucket: &[i64],
        leaves: usize,
        scalars: usize,
    ) -> OrWhy<Padded> {
        if !sampled.is_of(here) {
            return Err("the sizes in hand make another graph".into());
        }
        let Some(bucket) = sampled.at(bucket) else { return Err("the bucket is too large".into()) };
        let points = Points::new(sampled, here, &bucket);
        let mut splits = Splits::new();
        for _ in 0..MOST_CUTS {
            match pass::pad(&points, &splits, scalars as u32) {
                Ok(made) => return Ok(Padded::of(made, leaves)),
                Err(Stop::Refused(why)) => return Err(why),
                Err(Stop::Cut { origin, outer }) => cut(&mut splits, &points, origin, outer)?,
            }
        }
        Err("memory would have to be cut into rows too often".into())
    }

    fn of(made: Made, leaves: usize) -> Padded {
        let mut inputs = vec![None; leaves];
        for (leaf, axes) in &made.inputs {
            inputs[*leaf as usize] = Frame::of(axes);
        }
        Padded {
            outputs: made.outputs.iter().map(|axes| Frame::of(axes)).collect(),
            inputs,
            size_args: made.size_args.iter().map(|arg| (arg.dtype, arg.bits)).collect(),
            graph: made.graph,
        }
    }

    /// The types of the program's inputs, when those of the trace in hand are `exact`.
    pub fn input_types(&self, exact: Vec<Ty>) -> Vec<Ty> {
        let mut types = exact;
        let read = self.graph.nodes.iter().filter(|node| node.op == Op::Input);
        read.for_each(|node| {
            types[node.attrs[0].int() as usize] = self.graph.ty(node.first).clone()
        });
        types
    }
}

/// Notes that a part of a dimension is to be made as `outer` times the remainder.
fn cut(splits: &mut Splits, points: &Points, origin: Origin, outer: Size) -> OrWhy<()> {
    let Origin { node, dim, part } = origin;
    let first = points.here().nodes[node as usize].first;
    let whole = || vec![points.sizes(first).swap_remove(dim as usize)];
    let parts = splits.entry((node, dim)).or_insert_with(whole);
    let Some(inner) = parts.get(part as usize).and_then(|size| size.over(&outer)) else {
        return Err("a dimension cannot be cut into rows".into());
    };
    parts.splice(part as usize..=part as usize, [outer, inner]);
    Ok(())
}
