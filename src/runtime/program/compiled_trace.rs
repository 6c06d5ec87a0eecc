//! The cache's entry for a trace.

use super::code::Code;
use super::padded_binding::PaddedBinding;
use crate::dynamic::SymbolBinding;
use crate::graph::Graph;
use crate::record::{Operator, Output};
use crate::runtime::observe::recomputed::Recomputed;
use crate::trace::RecordedTrace;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A compiled trace.
pub struct CompiledTrace {
    /// `None` if only a plan was found: on disk, or for other sizes.
    pub graph: Option<Arc<Graph>>,
    pub code: Arc<Code>,
    /// Operator of every record, for messages.
    pub operators: Arc<[Operator]>,
    /// If the plan was made for other sizes: the family, and the sizes of this trace.
    pub instance_of: Option<SymbolBinding>,
    /// Whether it was made before a trace asked for it, and has not run yet.
    pub is_unused: AtomicBool,
    /// How a trace of other sizes uses the program of its bucket.
    pub binding: Option<Box<PaddedBinding>>,
    /// Why it is not a bucket's program, if it was to be one.
    pub unpadded: Option<String>,
    /// The steps that run again to stay within the memory limit.
    pub recomputed: Option<Box<Recomputed>>,
}

impl CompiledTrace {
    /// The same code for a trace of other sizes.
    pub fn bound(&self, binding: PaddedBinding) -> CompiledTrace {
        CompiledTrace {
            graph: None,
            code: self.code.clone(),
            operators: self.operators.clone(),
            instance_of: None,
            is_unused: AtomicBool::default(),
            binding: Some(Box::new(binding)),
            unpadded: None,
            recomputed: None,
        }
    }

    /// Approximate bytes of host memory that it takes: for each step of its plan, with the nodes it comes from, the amount that
    /// was found in training steps.
    pub fn nbytes(&self) -> usize {
        const STEP: usize = 5 << 10;
        match self.binding {
            // The rest is the bucket's.
            Some(_) => STEP,
            None => (self.code.newest().plan.steps.len() + 1) * STEP,
        }
    }
}

impl fmt::Display for CompiledTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(binding) = &self.binding {
            writeln!(f, "# {binding}\n")?;
        }
        if let Some(why) = &self.unpadded {
            writeln!(f, "# not padded: {why}\n")?;
        }
        match &self.graph {
            Some(graph) => writeln!(f, "# graph\n{graph}")?,
            None => writeln!(f, "# of a plan found on disk or for other sizes, without a graph\n")?,
        }
        writeln!(f, "# plan\n{}", self.code.newest().plan)
    }
}

/// A trace that is likely to come, and its program.
pub struct Prefetched {
    pub trace: RecordedTrace,
    pub outputs: Vec<Output>,
    pub program: Arc<CompiledTrace>,
    /// Of the program's key.
    pub hash: u128,
}
