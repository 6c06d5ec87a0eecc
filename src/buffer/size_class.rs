//! The sizes that blocks of memory have, so that those of one step serve the next: eight for each doubling, as long as they are no
//! farther apart than a huge page.

/// Bytes of the smallest block; all sizes and addresses are multiples of it.
pub const MIN_ALIGN: usize = 64;
/// The most bytes between neighbouring sizes of any pool: a huge page.
pub const COARSEST: usize = 2 << 20;

/// The distance between the sizes near `nbytes`.
fn step(nbytes: usize, coarsest: usize) -> usize {
    ((1usize << nbytes.max(MIN_ALIGN).ilog2()) / 8).clamp(MIN_ALIGN, coarsest)
}

/// The size of the block for so many bytes, with steps of at most `coarsest` bytes: at most an eighth is wasted. `None` if no
/// address space has so many.
pub fn size_class(nbytes: usize, coarsest: usize) -> Option<usize> {
    let class = nbytes.max(MIN_ALIGN).checked_next_multiple_of(step(nbytes, coarsest));
    class.filter(|&class| class <= isize::MAX as usize)
}

/// Bytes that memory of so many bytes takes in any pool, at most; 0 for none.
pub fn block_bytes(nbytes: u64) -> u64 {
    let class = size_class(nbytes as usize, COARSEST).map_or(nbytes, |class| class as u64);
    if nbytes == 0 { 0 } else { class }
}

/// The most bytes of which [`block_bytes`] is no more than `nbytes`.
pub fn largest_within(nbytes: u64) -> u64 {
    let nbytes = nbytes as usize;
    (nbytes - nbytes % step(nbytes, COARSEST)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_between_classes_are_limited() {
        assert_eq!(size_class((64 << 20) + 1, COARSEST), Some(66 << 20));
        assert_eq!(size_class((64 << 20) + 1, usize::MAX), Some(72 << 20));
        assert_eq!(size_class(1000, COARSEST), Some(1024));
        assert_eq!(size_class(usize::MAX - 100, COARSEST), None);
    }

    #[test]
    fn the_largest_block_within_a_size_is_one_of_the_classes() {
        let near = |n: u64| n.saturating_sub(99)..n + 99;
        for nbytes in (0..5000).chain(near(3 << 20)).chain(near(16 << 20)).chain(near(1 << 40)) {
            let largest = largest_within(nbytes);
            assert!(largest <= nbytes && block_bytes(largest) == largest, "{nbytes}");
            assert!(block_bytes(largest + 1) > nbytes, "{nbytes}");
        }
    }
}
