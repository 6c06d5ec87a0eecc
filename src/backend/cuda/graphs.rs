//! Captured runs: from its third run at the same addresses on, a program is queued as a whole, which costs the host a few
//! microseconds instead of a few for each kernel.

use super::device::{Device, Replay};
use crate::error::Result;
use parking_lot::Mutex;
use std::sync::Arc;

/// The first run at the same addresses that is captured: addresses that occur once are not worth it.
const FIRST: u32 = 3;
/// The most sets of addresses that are remembered. Steps alternate between few.
const KEPT: usize = 8;

/// The runs of one program.
#[derive(Default)]
pub struct Graphs(Mutex<Vec<Run>>);

/// The runs at the same addresses. The most recently used are first.
struct Run {
    addresses: Vec<usize>,
    times: u32,
    /// The number of the run to capture.
    wanted: u32,
    graph: Option<Arc<dyn Replay>>,
}

impl Graphs {
    /// Queues a run at `addresses`, which determine all that `work` queues: by replaying a captured run, or by `work`.
    pub fn run(
        &self,
        device: &dyn Device,
        addresses: Vec<usize>,
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut runs = self.0.lock();
        let run = match runs.iter().position(|run| run.addresses == addresses) {
            Some(found) => runs.remove(found),
            None => Run { addresses, times: 0, wanted: FIRST, graph: None },
        };
        runs.insert(0, run);
        runs.truncate(KEPT);
        let run = &mut runs[0];
        run.times = run.times.saturating_add(1);
        if run.times == run.wanted && run.graph.is_none() {
            run.graph = device.capture(work)?.map(Arc::from);
            // A device that cannot capture is asked less and less often.
            run.wanted = run.wanted.saturating_mul(FIRST);
        }
        let graph = run.graph.clone();
        drop(runs);
        match graph {
            Some(graph) => graph.replay(),
            None => work(),
        }
    }
}
