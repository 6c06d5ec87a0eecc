//! Makes small values when they are needed: an order that is good for memory has them first, since they take next to nothing,
//! but then the whole program waits for the last number of an optimizer.

use super::{Flow, peak};
use crate::plan::draft::{BufferId, Fused, RegionId};

/// Number of arena bytes written by one region that make no difference.
const SMALL: u64 = 64 << 10;

/// The order with regions that write little, and read only inputs and results of such regions, right before the first region that
/// needs them; unless that raises the peak. A new result that no region needs stays, since the program may wait for it, as for a
/// loss.
pub(super) fn late(
    fused: &Fused,
    flow: &Flow,
    donors: &[Option<u32>],
    order: Vec<RegionId>,
) -> Vec<RegionId> {
    let writers = fused.writers();
    let is_new = |&b: &BufferId| {
        fused.buffers[b].output.is_some_and(|output| donors[output as usize].is_none())
    };
    let mut is_late = vec![false; order.len()];
    for &r in &order {
        let is_small = flow.writes[r].iter().map(|&b| flow.bytes[b]).sum::<u64>() <= SMALL;
        let is_small = is_small && fused.regions[r].workspace == 0;
        is_late[r] = is_small && flow.reads[r].iter().all(|&b| is_late[writers[b]]);
    }
    // Sorted by the place of the first region that needs it and has to be where it is.
    let mut places = vec![(order.len(), 0); order.len()];
    for (at, &r) in order.iter().enumerate().rev() {
        places[r] = match is_late[r] {
            false => (at, 1),
            true => {
                let unneeded =
                    if fused.regions[r].writes.iter().any(is_new) { at } else { order.len() };
                (flow.users[r].iter().map(|&u| places[u].0).min().unwrap_or(unneeded), 0)
            }
        };
    }
    let mut changed = order.clone();
    // Stable: regions that come before one place stay in their order.
    changed.sort_by_key(|&r| places[r]);
    if peak(fused, flow, &changed) > peak(fused, flow, &order) { order } else { changed }
}
