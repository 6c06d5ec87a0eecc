//! A program's regions in an order, as a simulation sees them: which values each reads and writes, when, and what that takes.

use crate::graph::Graph;
use crate::op::{Class, Op};
use crate::plan::cost::{region_time, transfer_time};
use crate::plan::decisions::Run;
use crate::plan::draft::{BufferId, Fused, Region, RegionId, Source};
use crate::plan::gathered::same_values;
use crate::plan::lanes;
use crate::plan::order::Liveness;
use crate::plan::{ALIGN, Instr, Kernel};

/// Next use of a value with no remaining reads.
pub const NEVER: usize = usize::MAX;

/// Regions in an order, and everything that is the same in every simulation of it.
pub struct Sequence<'a> {
    pub graph: &'a Graph,
    pub fused: &'a Fused,
    pub order: Vec<RegionId>,
    pub liveness: Liveness,
    /// The regions that read each value. From here on the first buffer with a value ([`same_values`]) stands for all of them.
    pub readers: Vec<Vec<RegionId>>,
    /// Buffers that each region reads, without repetition; and that it writes.
    pub reads: Vec<Vec<BufferId>>,
    pub writes: Vec<Vec<BufferId>>,
    /// Positions at which each buffer is read in the order, and at which it is written: several times if it is gathered again.
    pub read_at: Vec<Vec<usize>>,
    pub written_at: Vec<Vec<usize>>,
    /// Bytes of each buffer, in the arena or an output; 0 for those on the host.
    pub sizes: Vec<u64>,
    pub times: Vec<u64>,
    /// Time that it takes to copy each buffer to the host or back.
    pub transfers: Vec<u64>,
    /// Bytes in the arena that the largest region on a lane reads and writes.
    pub largest_on_lanes: u64,
    /// Time before each position of the order.
    pub begins: Vec<u64>,
    /// Whether each region may run again.
    pub repeats: Vec<bool>,
    /// The last position before which each region may run again: there an output takes the memory of an input that it reads.
    pub until: Vec<usize>,
}

impl<'a> Sequence<'a> {
    pub fn new(
        graph: &'a Graph,
        fused: &'a Fused,
        donors: &[Option<u32>],
        order: Vec<RegionId>,
    ) -> Sequence<'a> {
        let liveness = Liveness::new(graph, fused, &order);
        let same = same_values(graph, fused);
        let (n, buffers) = (fused.regions.len(), fused.buffers.len());
        let (mut reads, mut writes) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        let (mut read_at, mut written_at) = (vec![Vec::new(); buffers], vec![Vec::new(); buffers]);
        for (at, &r) in order.iter().enumerate() {
            for read in &fused.regions[r].reads {
                if let Source::Buffer(b) = read.source
                    && !reads[r].contains(&same[b])
                {
                    reads[r].push(same[b]);
                    read_at[same[b]].push(at);
                }
            }
            writes[r] = fused.regions[r].writes.iter().map(|&b| same[b]).collect();
            writes[r].iter().for_each(|&b| written_at[b].push(at));
        }
        let mut readers = vec![Vec::new(); buffers];
        for (b, regions) in liveness.readers.iter().enumerate() {
            readers[same[b]].extend_from_slice(regions);
        }
        // A recomputed value is not an output.
        let size = |b: BufferId| match fused.buffers[b].on_host {
            true => 0,
            false => (fused.ty(graph, b).nbytes() as u64).next_multiple_of(ALIGN),
        };
        let sizes: Vec<u64> = (0..fused.buffers.len()).map(size).collect();
        let time = |region| region_time(graph, fused, region);
        let times: Vec<u64> = fused.regions.iter().map(time).collect();
        let mut now = 0;
        let mut begins = |&r: &RegionId| {
            now += times[r];
            now - times[r]
        };
        let regions: Vec<&Region> = order.iter().map(|&r| &fused.regions[r]).collect();
        let on_lanes = lanes::lanes(graph, fused, &regions).into_iter().zip(&order);
        let touched = on_lanes.filter(|(lane, _)| lane.is_some()).map(|(_, &r)| {
            let touched = reads[r].iter().chain(&fused.regions[r].writes);
            touched.map(|&b| liveness.bytes[b]).sum()
        });
        Sequence {
            graph,
            fused,
            largest_on_lanes: touched.max().unwrap_or(0),
            readers,
            reads,
            writes,
            read_at,
            written_at,
            begins: order.iter().map(&mut begins).collect(),
            transfers: sizes.iter().map(|&bytes| transfer_time(fused, bytes)).collect(),
            sizes,
            times,
            repeats: fused.regions.iter().map(|r| repeats(graph, fused, r)).collect(),
            until: until(fused, donors, &liveness),
            liveness,
            order,
        }
    }

    /// The same runs; values that are to wait on the host are copied there when they were made.
    pub fn with_offloads(&self, runs: &[Run], is_on_host: &[bool]) -> Vec<Run> {
        let mut is_first = vec![true; self.order.len()];
        let mut all = Vec::with_capacity(runs.len());
        for &run in runs {
            all.push(run);
            if let Run::Region { region, .. } = run
                && std::mem::take(&mut is_first[region])
            {
                let writes = self.writes[region].iter();
                all.extend(writes.filter(|&&b| is_on_host[b]).map(|&b| Run::Offload(b)));
            }
        }
        all
    }

    /// Leaves out runs whose results are not read before they are recomputed.
    pub fn wanted(&self, runs: Vec<Run>) -> Vec<Run> {
        let mut latest = vec![usize::MAX; self.fused.buffers.len()];
        let mut on_host = vec![usize::MAX; self.fused.buffers.len()];
        let mut is_first = vec![true; self.order.len()];
        let (mut sources, mut wanted) = (Vec::new(), Vec::new());
        for (at, run) in runs.iter().enumerate() {
            let (run, only) = match *run {
                Run::Region { region, only } => (region, only),
                Run::Offload(b) => {
                    sources.push(vec![latest[b]]);
                    wanted.push(false);
                    on_host[b] = at;
                    continue;
                }
                Run::Reload(b) => {
                    sources.push(vec![on_host[b]]);
                    wanted.push(false);
                    latest[b] = at;
                    continue;
                }
            };
            let region = &self.fused.regions[run];
            sources.push(self.reads[run].iter().map(|&b| latest[b]).collect::<Vec<_>>());
            let first = std::mem::take(&mut is_first[run]);
            let gives = region.writes.iter().any(|&b| self.fused.buffers[b].output.is_some());
            wanted.push(first && (gives || !self.repeats[run]));
            let made = self.writes[run].iter().filter(|&&b| only.is_none_or(|only| only == b));
            made.for_each(|&b| latest[b] = at);
        }
        for at in (0..runs.len()).rev() {
            if wanted[at] {
                sources[at].iter().for_each(|&source| wanted[source] = true);
            }
        }
        runs.into_iter().zip(wanted).filter_map(|(run, wanted)| wanted.then_some(run)).collect()
    }
}

/// Whether a region gives the same results each time it runs, and has no other effects.
fn repeats(graph: &Graph, fused: &Fused, region: &Region) -> bool {
    let fails = |instr: &Instr| instr.op.refuses(instr.dtype);
    let dtypes = || region.writes.iter().map(|&b| fused.ty(graph, b).dtype);
    let node = match &region.kernel {
        Kernel::Node { op, .. } | Kernel::Fused { op, .. } => Some(*op),
        Kernel::Reduce { op, .. } => Some(*op),
        Kernel::Map(_) => None,
    };
    // The time of a loop is unknown.
    let runs_once = |op: Op| {
        op.class() == Class::Host || op == Op::While || dtypes().any(|dtype| op.refuses(dtype))
    };
    !node.is_some_and(runs_once)
        && !region.kernel.body().is_some_and(|body| body.instrs.iter().any(fails))
}

/// [`Sequence::until`].
fn until(fused: &Fused, donors: &[Option<u32>], liveness: &Liveness) -> Vec<usize> {
    let mut taken: Vec<(u32, usize)> = Vec::new();
    for (b, buffer) in fused.buffers.iter().enumerate() {
        if let Some(donor) = buffer.output.and_then(|k| donors[k as usize]) {
            taken.push((donor, liveness.at[liveness.writer[b]]));
        }
    }
    let of = |(r, region): (RegionId, &Region)| {
        let inputs = region.reads.iter().filter_map(|read| match read.source {
            Source::Input(i) => Some(i),
            _ => None,
        });
        let ends = inputs.flat_map(|i| taken.iter().filter(move |(donor, _)| *donor == i));
        ends.map(|&(_, at)| at).filter(|&at| at >= liveness.at[r]).min().unwrap_or(NEVER)
    };
    fused.regions.iter().enumerate().map(of).collect()
}
