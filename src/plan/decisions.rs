//! The decisions of planning, as data that holds for other sizes of the same program: which regions run again, for whom, and
//! when.

use super::draft::{Buffer, BufferId, Fused, Region, RegionId, Source};
use super::lanes::Landings;
use super::partial::only;

/// The decisions of memory and time: where values are computed, which are recomputed and for whom, and the order of all regions.
/// Holds for other sizes of the same program, as long as they give the same regions.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanDecisions {
    /// The decisions of [`super::fuse`].
    pub(super) absorbed: Vec<bool>,
    /// Number of regions and of buffers before any were added.
    pub(super) regions: usize,
    pub(super) buffers: usize,
    pub(super) copies: Vec<Choice>,
    pub(super) limited: Option<Limited>,
    pub(super) order: Vec<RegionId>,
    /// With lanes, when the collectives on them are done.
    pub(super) landings: Option<Landings>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub of: BufferId,
    pub readers: Vec<RegionId>,
    /// The earliest reader in execution order.
    pub first: RegionId,
}

impl PlanDecisions {
    /// The same decisions with the runs of a limit instead of copies, and their order.
    pub(super) fn limited(self, limited: Limited, order: Vec<RegionId>) -> PlanDecisions {
        PlanDecisions { copies: Vec::new(), limited: Some(limited), order, ..self }
    }

    /// The cost of the memory limit, if it had one.
    pub fn cost(&self) -> Option<Cost> {
        self.limited.as_ref().map(|limited| limited.cost)
    }

    /// The regions with the additions of these decisions; `None` if the decisions are of other regions.
    pub(super) fn applied(&self, mut fused: Fused) -> Option<Fused> {
        if (fused.regions.len(), fused.buffers.len()) != (self.regions, self.buffers) {
            return None;
        }
        for choice in &self.copies {
            let writer = &fused.regions[fused.writers()[choice.of]];
            let region = only(&fused, writer, choice.of)?;
            fused = choice.applied(region, &fused);
        }
        match &self.limited {
            Some(limited) => limited.runs.applied(&fused),
            None => Some(fused),
        }
    }
}

impl Choice {
    /// `fused` with the region, which writes buffers of its own that are read instead.
    pub fn applied(&self, mut region: Region, fused: &Fused) -> Fused {
        let mut fused = fused.clone();
        region.anchor = fused.regions[self.first].anchor;
        for write in &mut region.writes {
            let old = &fused.buffers[*write];
            fused.buffers.push(Buffer { output: None, ..old.clone() });
            let new = fused.buffers.len() - 1;
            if *write == self.of {
                for &reader in &self.readers {
                    let reads = &mut fused.regions[reader].reads;
                    let old = Source::Buffer(self.of);
                    reads
                        .iter_mut()
                        .filter(|r| r.source == old)
                        .for_each(|r| r.source = Source::Buffer(new));
                }
            }
            *write = new;
        }
        fused.regions.push(region);
        fused
    }
}

/// A region that runs, the first time or again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub region: RegionId,
    /// The only one of its results that is computed; `None` for all.
    pub only: Option<BufferId>,
}

/// Runs of regions, in order. Each region reads the results that were written last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Runs(pub Vec<Run>);

/// The cost of a memory limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Bytes that the program takes without the limit.
    pub before: u64,
    /// Estimated time relative to the unlimited program (1.0 = no slowdown).
    pub time: f64,
}

/// The decisions for a limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limited {
    pub runs: Runs,
    pub cost: Cost,
}

impl Runs {
    /// The regions that run, numbered in their order; `None` if they are not those of `fused`.
    pub fn applied(&self, fused: &Fused) -> Option<Fused> {
        let mut applied = Fused { regions: Vec::new(), buffers: Vec::new(), ..*fused };
        let mut latest: Vec<Option<BufferId>> = vec![None; fused.buffers.len()];
        let mut first: Vec<Option<RegionId>> = vec![None; fused.regions.len()];
        for run in &self.0 {
            let whole = fused.regions.get(run.region)?;
            let mut region = match run.only {
                Some(b) => only(fused, whole, b)?,
                None => whole.clone(),
            };
            for read in &mut region.reads {
                if let Source::Buffer(b) = &mut read.source {
                    *b = latest[*b]?;
                }
            }
            region.after = region.after.iter().filter_map(|&a| first[a]).collect();
            let again = first[run.region].is_some();
            for write in &mut region.writes {
                let old = &fused.buffers[*write];
                latest[*write] = Some(applied.buffers.len());
                *write = applied.buffers.len();
                let output = old.output.filter(|_| !again);
                applied.buffers.push(Buffer { output, ..old.clone() });
            }
            first[run.region].get_or_insert(applied.regions.len());
            applied.regions.push(region);
        }
        Some(applied)
    }
}
