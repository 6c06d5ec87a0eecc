//! The decisions of planning, as data that holds for other sizes of the same program: which regions run again, for whom, and
//! when; and which values wait on the host meanwhile.

use super::draft::{Buffer, BufferId, Fused, Read, Region, RegionId, Source};
use super::gathered::same_values;
use super::lanes::Landings;
use super::order::Scheduled;
use super::partial::only;
use super::{Kernel, LoopBody};
use crate::graph::{Graph, NodeId};
use crate::shape::Layout;

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

    /// The same decisions with the order that was found for lanes, if one was.
    pub(super) fn scheduled(self, found: Option<Scheduled>) -> PlanDecisions {
        match found {
            Some(found) => {
                PlanDecisions { order: found.order, landings: Some(found.landings), ..self }
            }
            None => self,
        }
    }

    /// The cost of the memory limit, if it had one.
    pub fn cost(&self) -> Option<Cost> {
        self.limited.as_ref().map(|limited| limited.cost)
    }

    /// The regions with the additions of these decisions; `None` if the decisions are of other regions.
    pub(super) fn applied(&self, graph: &Graph, mut fused: Fused) -> Option<Fused> {
        if (fused.regions.len(), fused.buffers.len()) != (self.regions, self.buffers) {
            return None;
        }
        for choice in &self.copies {
            let writer = &fused.regions[fused.writers()[choice.of]];
            let region = only(&fused, writer, choice.of)?;
            fused = choice.applied(region, &fused);
        }
        match &self.limited {
            Some(limited) => limited.runs.applied(graph, &fused),
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Run {
    /// A region runs, the first time or again. `only` is the one of its results that is computed; `None` for all.
    Region { region: RegionId, only: Option<BufferId> },
    /// A value is copied to the host's memory, where it stays.
    Offload(BufferId),
    /// It is copied back.
    Reload(BufferId),
}

/// Runs of regions and copies to the host and back, in order. Each region reads the results that were written last, of equal
/// gathers ([`same_values`]) those of the last one.
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
    pub fn applied(&self, graph: &Graph, fused: &Fused) -> Option<Fused> {
        let applied = Fused { regions: Vec::new(), buffers: Vec::new(), ..*fused };
        let mut runs = Applied {
            graph,
            fused,
            applied,
            same: same_values(graph, fused),
            latest: vec![None; fused.buffers.len()],
            on_host: vec![None; fused.buffers.len()],
            first: vec![None; fused.regions.len()],
        };
        for (at, run) in self.0.iter().enumerate() {
            match *run {
                Run::Region { region, only } => runs.run(region, only)?,
                Run::Offload(b) => runs.offload(b)?,
                Run::Reload(b) => {
                    // For the sake of what runs next.
                    let region = self.0[at..].iter().find_map(|run| match run {
                        Run::Region { region, .. } => Some(*region),
                        Run::Offload(_) | Run::Reload(_) => None,
                    });
                    runs.reload(b, fused.regions.get(region?)?.anchor)?;
                }
            }
        }
        Some(runs.applied)
    }
}

/// The regions of [`Runs`] so far.
struct Applied<'a> {
    graph: &'a Graph,
    fused: &'a Fused,
    applied: Fused,
    /// See [`same_values`].
    same: Vec<BufferId>,
    /// The last copy of each value in the device's memory, by the first buffer that has it; and that in the host's.
    latest: Vec<Option<BufferId>>,
    on_host: Vec<Option<BufferId>>,
    /// The first run of each region.
    first: Vec<Option<RegionId>>,
}

impl Applied<'_> {
    fn run(&mut self, region: RegionId, one: Option<BufferId>) -> Option<()> {
        let fused = self.fused;
        let whole = fused.regions.get(region)?;
        let again = self.first[region].is_some();
        self.first[region].get_or_insert(self.applied.regions.len());
        let mut region = match one {
            Some(b) => only(fused, whole, b)?,
            None => whole.clone(),
        };
        for read in &mut region.reads {
            if let Source::Buffer(b) = &mut read.source {
                let old = fused.buffers[*b].value;
                *b = self.latest[self.same[*b]]?;
                let new = self.applied.buffers[*b].value;
                read.value = if new == old { read.value } else { new };
            }
        }
        region.after = region.after.iter().filter_map(|&a| self.first[a]).collect();
        for write in &mut region.writes {
            let old = &fused.buffers[*write];
            self.latest[self.same[*write]] = Some(self.applied.buffers.len());
            *write = self.applied.buffers.len();
            let output = old.output.filter(|_| !again);
            self.applied.buffers.push(Buffer { output, ..old.clone() });
        }
        self.applied.regions.push(region);
        Some(())
    }

    fn offload(&mut self, b: BufferId) -> Option<()> {
        let from = (*self.latest.get(b)?)?;
        let mut regions = self.applied.regions.iter().rev();
        let writer = regions.find(|region| region.writes.contains(&from))?;
        self.on_host[b] = Some(self.copied(from, writer.anchor, true));
        Some(())
    }

    fn reload(&mut self, b: BufferId, anchor: NodeId) -> Option<()> {
        let from = (*self.on_host.get(b)?)?;
        self.latest[b] = Some(self.copied(from, anchor, false));
        Some(())
    }

    /// A copy of a buffer in the other memory.
    fn copied(&mut self, from: BufferId, anchor: NodeId, on_host: bool) -> BufferId {
        let value = self.applied.buffers[from].value;
        let ty = self.graph.ty(value);
        let layout = Layout::contiguous(&ty.sizes);
        let body = LoopBody {
            sizes: layout.sizes.clone(),
            reads: vec![ty.dtype],
            instrs: Vec::new(),
            results: vec![0],
        };
        let read = Read { source: Source::Buffer(from), value, dtype: ty.dtype, layout };
        let to = self.applied.buffers.len();
        self.applied.buffers.push(Buffer { value, output: None, on_host });
        self.applied.regions.push(Region {
            kernel: Kernel::Map(body),
            reads: vec![read],
            writes: vec![to],
            after: Vec::new(),
            anchor,
            workspace: 0,
        });
        to
    }
}
