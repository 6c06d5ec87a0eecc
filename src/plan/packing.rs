//! Offsets in the arena for blocks that live at different times, and in the block of results before these are written.

/// A run of arena bytes for a span of steps, both ends included.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub bytes: u64,
    pub first: usize,
    pub last: usize,
    /// Whether it may lie in the block of results.
    pub roams: bool,
}

/// The block of results, which lies before the arena as far as offsets go, and its content.
#[derive(Clone, Debug, Default)]
pub(super) struct ResultsLayout {
    pub bytes: u64,
    /// In the order of their offsets.
    pub blocks: Vec<(u64, Block)>,
}

/// Offsets of blocks, where the arena follows the block of results, and the size of the arena.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    pub offsets: Vec<u64>,
    pub bytes: u64,
}

/// An arena that exceeds the live bytes by no more than this part of them is low enough.
const TOLERATED: u64 = 100;
/// So is one that exceeds them by this many bytes, and no more than this part: saving them is not worth the time, above all where
/// a program of new sizes is run once.
const TOLERATED_BYTES: u64 = 256 << 10;
const TOLERATED_BELOW: u64 = 8;
/// Maximum number of pairs of blocks that are compared to find a lower arena.
const COMPARED: usize = 1 << 20;

/// Offsets of the blocks beside those that are taken, and the size of the arena, which is at least `bound`: best fit in the order
/// of size, and of size times lifetime; the smaller arena wins. As long as it is much larger than `bound`, and than `room` if
/// there is a chance to stay within that (0: there is no such limit), the blocks that reach above that go first, and all are placed
/// again.
pub(super) fn pack(blocks: &[Block], taken: &ResultsLayout, bound: u64, room: u64) -> Packed {
    let span = |b: &Block| (b.last - b.first + 1) as u64;
    let sorted = |weight: &dyn Fn(&Block) -> u64| {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(weight(&blocks[i])), blocks[i].first, i));
        order
    };
    let enough = bound + (bound / TOLERATED).max(TOLERATED_BYTES.min(bound / TOLERATED_BELOW));
    let mut best = Packed { offsets: Vec::new(), bytes: u64::MAX };
    let orders = [sorted(&|b| b.bytes), sorted(&|b| b.bytes.saturating_mul(span(b)))];
    let compared = blocks.len() * (blocks.len() + taken.blocks.len());
    let rounds = if room > 0 && bound > room { 0 } else { COMPARED / compared.max(1) };
    for order in &orders {
        if best.bytes > room {
            let packed = best_fit(blocks, taken, order);
            if packed.bytes < best.bytes {
                best = packed;
            }
        }
    }
    for mut order in orders {
        for _ in 0..rounds {
            if best.bytes <= enough.max(room) {
                break;
            }
            let packed = best_fit(blocks, taken, &order);
            let reaches = |&i: &usize| packed.offsets[i] + blocks[i].bytes > taken.bytes + enough;
            // The same order would place them the same way.
            let is_settled = order.is_sorted_by_key(|i| !reaches(i));
            order.sort_by_key(|i| !reaches(i));
            if packed.bytes < best.bytes {
                best = packed;
            }
            if is_settled {
                break;
            }
        }
    }
    best
}

struct Placed {
    offset: u64,
    end: u64,
    first: usize,
    last: usize,
}

/// Puts each block in turn into the smallest gap that takes it between the blocks that live at the same time.
fn best_fit(blocks: &[Block], taken: &ResultsLayout, order: &[usize]) -> Packed {
    let mut offsets = vec![0u64; blocks.len()];
    let at = |offset: u64, block: &Block| Placed {
        offset,
        end: offset + block.bytes,
        first: block.first,
        last: block.last,
    };
    // Sorted by offset.
    let mut placed: Vec<Placed> = Vec::with_capacity(blocks.len() + taken.blocks.len() + 1);
    placed.extend(taken.blocks.iter().map(|(offset, block)| at(*offset, block)));
    // Nothing lies across the border of results and arena.
    placed.push(Placed { offset: taken.bytes, end: taken.bytes, first: 0, last: usize::MAX });
    let mut height = taken.bytes;
    for &i in order {
        let block = &blocks[i];
        let mut floor = if block.roams { 0 } else { taken.bytes };
        let mut best = None::<(u64, u64)>;
        for other in &placed {
            if other.last < block.first || block.last < other.first {
                continue;
            }
            let gap = other.offset.saturating_sub(floor);
            if gap >= block.bytes && gap > 0 && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, floor));
            }
            floor = floor.max(other.end);
        }
        offsets[i] = best.map_or(floor, |(_, offset)| offset);
        height = height.max(offsets[i] + block.bytes);
        let next = placed.partition_point(|other| other.offset <= offsets[i]);
        placed.insert(next, at(offsets[i], block));
    }
    Packed { offsets, bytes: height - taken.bytes }
}

/// Largest sum of the blocks that are live at one step, less the part of the block of results that is free then.
pub(super) fn lower_bound(blocks: &[Block], taken: &ResultsLayout, steps: usize) -> u64 {
    let mut change = vec![0i64; steps + 1];
    for block in blocks.iter().chain(taken.blocks.iter().map(|(_, block)| block)) {
        change[block.first] += block.bytes as i64;
        change[block.last + 1] -= block.bytes as i64;
    }
    let live = change.iter().scan(0i64, |live, c| {
        *live += c;
        Some(*live as u64)
    });
    live.max().unwrap_or(0).saturating_sub(taken.bytes)
}
