//! A family's programs for buckets.

use super::learned::{Learned, Seen};
use super::policy::Policy;
use super::possible::{at_point, last_possible, said};
use super::symbol_map::SymbolMap;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::Op;
use crate::passes::padding::{OrWhy, Padded, Sampled};
use crate::record::Records;
use crate::symbolic::SMALLEST;
use crate::{aten, passes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Maximum number of padded programs of a family; further sizes are compiled for themselves.
const MOST_BUCKETS: usize = 32;
/// Number of points at which a family's trace is lowered to learn its numbers.
const SAMPLES: usize = 7;

/// A trace as a bucket's program runs it.
pub struct InBucket {
    pub padded: Padded,
    /// The trace at the bucket's sizes.
    pub records: Records,
    /// To be notified of every run at this point, where buckets are learned.
    pub seen: Option<(Arc<Seen>, Vec<i64>)>,
}

/// The outcome of padding a trace.
pub enum Padding {
    Done(Box<InBucket>),
    /// It is the first of its family: no size is known to vary.
    NotYet,
    /// It is compiled for its own sizes, for this reason.
    Refused(String),
}

pub(super) struct Buckets {
    pub symbol_map: SymbolMap,
    sampled: Sampled,
    /// The points that traces were padded to.
    known: Vec<Vec<i64>>,
    learned: Learned,
}

impl Buckets {
    /// Learns the expressions of the numbers in a family's graphs from points around that of a trace.
    pub fn new(symbol_map: SymbolMap, point: &[i64], records: &Records) -> Option<Buckets> {
        let mut graphs: Vec<(Vec<i64>, Graph)> = Vec::new();
        for point in around(point) {
            if graphs.len() == SAMPLES {
                break;
            }
            let Some(records) = at_point(&symbol_map, records, &point) else { continue };
            // Sizes that the program did not ask for must not fail a trace.
            let lowered = catch_unwind(AssertUnwindSafe(|| lowered(&records)));
            if let Ok(Ok(graph)) = lowered {
                graphs.push((point, graph));
            }
        }
        let sampled = Sampled::new(graphs)?;
        let learned = Learned::new(symbol_map.symbols());
        Some(Buckets { symbol_map, sampled, known: Vec::new(), learned })
    }

    /// Pads a trace at a point. Errors: why not.
    pub fn pad(&mut self, point: &[i64], records: &Records, policy: &Policy) -> OrWhy<InBucket> {
        let learns = matches!(policy, Policy::Learned(_));
        if let Policy::Learned(count) = policy
            && self.learned.fit(*count, &|size| policy.bucket(size))
        {
            self.known.clear();
        }
        let bucket = self.bucket(point, records, policy)?;
        if !self.known.contains(&bucket) && self.known.len() == MOST_BUCKETS {
            return Err(format!("there are programs for {MOST_BUCKETS} buckets"));
        }
        let Some(at_bucket) = at_point(&self.symbol_map, records, &bucket) else {
            return Err("there is no such trace of the bucket's sizes".into());
        };
        let here = lowered(records).map_err(|error| error.message)?;
        let (leaves, scalars) = (records.n_leaves as usize, records.scalars.len());
        let padded = Padded::new(&self.sampled, &here, &bucket, leaves, scalars)?;
        if !self.known.contains(&bucket) {
            self.known.push(bucket);
        }
        let seen = learns.then(|| (self.learned.seen.clone(), point.to_vec()));
        Ok(InBucket { padded, records: at_bucket, seen })
    }

    /// The sizes to which the point is padded: those of the policy, within the bounds that the program declares and the room in
    /// its memory.
    fn bucket(&self, point: &[i64], records: &Records, policy: &Policy) -> OrWhy<Vec<i64>> {
        let mut bucket = point.to_vec();
        for s in 0..point.len() {
            if point[s] < SMALLEST {
                return Err(format!("a size of {} broadcasts", point[s]));
            }
            let learned = self.learned.bucket(s, point[s]);
            let Some(mut edge) = learned.or_else(|| policy.bucket(point[s])) else {
                return Err(format!("there is no bucket for a size of {}", point[s]));
            };
            if let Some((_, most)) = said(&self.symbol_map, records, point, s) {
                edge = edge.min(most.max(point[s]));
            }
            let possible = |value: i64| {
                let mut tried = bucket.clone();
                tried[s] = value;
                at_point(&self.symbol_map, records, &tried).is_some()
            };
            bucket[s] = last_possible(&possible, point[s], edge);
        }
        Ok(bucket)
    }
}

/// The trace in primitives and in composites for which padding has rules.
fn lowered(records: &Records) -> Result<Graph> {
    let graph = aten::lower(records)?;
    let graph = passes::marks(&graph)?;
    let is_attention = |op: Op| matches!(op, Op::Attention | Op::AttentionGrad);
    // Dropout chooses elements by their positions, which padding moves.
    let drops = graph.nodes.iter().any(|n| is_attention(n.op) && n.attrs[2].float() > 0.0);
    let graph = if drops { passes::decompose(&graph, &|op| !is_attention(op))? } else { graph };
    Ok(graph.into_owned())
}

/// Points to learn from, the given one first: near and far, each size in its own way.
fn around(point: &[i64]) -> Vec<Vec<i64>> {
    const WAYS: [fn(i64) -> i64; 11] = [
        |n| n + 1,
        |n| n + 3,
        |n| 2 * n + 1,
        |n| n / 2,
        |n| n - 1,
        |n| 3 * n + 2,
        |n| n + 2,
        |n| n / 2 + 1,
        |n| 2 * n + 3,
        |n| n - 2,
        |n| n + 7,
    ];
    let mut points = vec![point.to_vec()];
    for k in 0..2 * WAYS.len() {
        let moved: Vec<i64> = (point.iter().enumerate())
            .map(|(s, &n)| WAYS[(k * (s + 1) + s) % WAYS.len()](n))
            .collect();
        if moved.iter().all(|&n| n >= SMALLEST) && !points.contains(&moved) {
            points.push(moved);
        }
    }
    points
}
