//! Offsets in the arena for blocks that live at different times.

/// A run of arena bytes for a span of steps, both ends included.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub bytes: u64,
    pub first: usize,
    pub last: usize,
}

/// An arena that is higher than what is live at once by no more than this part of it is low enough.
const TOLERATED: u64 = 100;
/// Most pairs of blocks that are compared to find a lower arena.
const COMPARED: usize = 1 << 20;

/// Offsets of the blocks and the height of the arena, which is at least `bound`: best fit with the blocks by size, and by size
/// times lifetime; the lower arena wins. As long as it is much higher than `bound`, the blocks that reach above go first, and
/// all are placed again.
pub(super) fn pack(blocks: &[Block], bound: u64) -> (Vec<u64>, u64) {
    let span = |b: &Block| (b.last - b.first + 1) as u64;
    let sorted = |weight: &dyn Fn(&Block) -> u64| {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(weight(&blocks[i])), blocks[i].first, i));
        order
    };
    let enough = bound + bound / TOLERATED;
    let mut best = (Vec::new(), u64::MAX);
    let orders = [sorted(&|b| b.bytes), sorted(&|b| b.bytes.saturating_mul(span(b)))];
    let rounds = COMPARED / (blocks.len() * blocks.len()).max(1);
    for order in &orders {
        let packed = best_fit(blocks, order);
        if packed.1 < best.1 {
            best = packed;
        }
    }
    for mut order in orders {
        for _ in 0..rounds {
            if best.1 <= enough {
                break;
            }
            let (offsets, height) = best_fit(blocks, &order);
            let reaches = |&i: &usize| offsets[i] + blocks[i].bytes > enough;
            order.sort_by_key(|i| !reaches(i));
            if height < best.1 {
                best = (offsets, height);
            }
        }
    }
    best
}

/// Each block in turn goes into the smallest gap that takes it between the blocks that live at the same time.
fn best_fit(blocks: &[Block], order: &[usize]) -> (Vec<u64>, u64) {
    let mut offsets = vec![0u64; blocks.len()];
    // By offset.
    let mut placed: Vec<usize> = Vec::with_capacity(blocks.len());
    let mut height = 0;
    for &i in order {
        let block = &blocks[i];
        let (mut floor, mut best) = (0u64, None::<(u64, u64)>);
        for &p in &placed {
            let other = &blocks[p];
            if other.last < block.first || block.last < other.first {
                continue;
            }
            let gap = offsets[p].saturating_sub(floor);
            if gap >= block.bytes && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, floor));
            }
            floor = floor.max(offsets[p] + other.bytes);
        }
        offsets[i] = best.map_or(floor, |(_, offset)| offset);
        height = height.max(offsets[i] + block.bytes);
        let at = placed.partition_point(|&p| offsets[p] <= offsets[i]);
        placed.insert(at, i);
    }
    (offsets, height)
}

/// Largest sum of the blocks that are live at one step.
pub(super) fn lower_bound(blocks: &[Block], steps: usize) -> u64 {
    let mut change = vec![0i64; steps + 1];
    for block in blocks {
        change[block.first] += block.bytes as i64;
        change[block.last + 1] -= block.bytes as i64;
    }
    let live = change.iter().scan(0i64, |live, c| {
        *live += c;
        Some(*live as u64)
    });
    live.max().unwrap_or(0)
}
