//! Pooled memory: freed blocks are kept by size class, so that a training step reuses the blocks of the step before it and asks
//! the system or the device for nothing (a first touch of a page costs more than the work on it, and a device may have to wait).
//!
//! **Invariant:** a block belongs either to one [`Memory`] or to the pool's free lists, never to both; the pool keeps at most as
//! many free bytes as were ever live at once.
#![expect(unsafe_code, reason = "raw allocation")]

use crate::buffer::size_class::{COARSEST, MIN_ALIGN, size_class};
use crate::error::{Code, Error, Result};
use parking_lot::Mutex;
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Size from which blocks are worth huge pages, and the alignment of those.
const HUGE_PAGE: usize = COARSEST;

/// The source of a pool's blocks.
pub trait Supply: Send + Sync {
    /// The address of `nbytes` bytes (a size class, so at least 64), contents undefined, aligned to at least 64 bytes.
    /// Error: `OutOfMemory`.
    fn allocate(&self, nbytes: usize) -> Result<usize>;

    /// Takes back the address that `allocate` gave for `nbytes` bytes.
    fn release(&self, address: usize, nbytes: usize);

    /// The largest distance between neighbouring size classes, in bytes; at most [`COARSEST`].
    fn coarsest(&self) -> usize;

    /// Whether it keeps free blocks itself: then the pool keeps none.
    fn keeps(&self) -> bool {
        false
    }
}

/// A block of memory, contents undefined, or a part of one. Dropping it returns it to its pool; a divided block goes
/// back with its last part.
pub struct Memory {
    address: usize,
    len: usize,
    owner: Owner,
}

enum Owner {
    Whole(Lease),
    Part(#[expect(dead_code, reason = "kept, not read")] Part),
}

/// Returns the block when dropped.
struct Lease {
    block: Block,
    pool: Arc<Pool>,
}

/// A divided block, alive as long as one of its parts.
pub struct Whole {
    lease: Lease,
    /// Bytes of parts that have been dropped.
    idle: AtomicU64,
}

struct Part {
    whole: Arc<Whole>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Block {
    address: usize,
    class: usize,
}

/// Bytes held by a pool. `live_bytes` and `pool_bytes` count size classes, not requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub live_bytes: u64,
    pub peak_bytes: u64,
    pub pool_bytes: u64,
    /// Of `live_bytes`, dropped parts of blocks that still have others.
    pub idle_bytes: u64,
    /// Peak of `live_bytes` and `pool_bytes` together.
    pub peak_reserved_bytes: u64,
    /// Blocks requested from the operating system or the device.
    pub fresh_blocks: u64,
}

pub struct Pool {
    supply: Box<dyn Supply>,
    /// The supply that replaced it before the first block.
    given: OnceLock<Box<dyn Supply>>,
    /// Free blocks by size class, the last freed one on top, each with the time it was freed.
    free: Mutex<BTreeMap<usize, Vec<(Block, u64)>>>,
    clock: AtomicU64,
    live: AtomicU64,
    peak: AtomicU64,
    peak_reserved: AtomicU64,
    pooled: AtomicU64,
    idle: AtomicU64,
    fresh: AtomicU64,
    /// Whether larger free blocks serve no request.
    is_exact: AtomicBool,
}

impl Pool {
    /// A pool of host memory.
    pub fn new() -> Arc<Pool> {
        Arc::default()
    }

    pub fn of(supply: Box<dyn Supply>) -> Arc<Pool> {
        let mut pool = Pool::default();
        pool.supply = supply;
        Arc::new(pool)
    }

    /// Takes blocks from `supply` from now on. Error: `InvalidArgument` if blocks were allocated, or the supply
    /// replaced, before.
    pub fn replace(&self, supply: Box<dyn Supply>) -> Result<()> {
        let refused = {
            let _free = self.free.lock();
            match self.fresh.load(Ordering::Relaxed) {
                0 => self.given.set(supply).err(),
                _ => Some(supply),
            }
        };
        match refused {
            None => Ok(()),
            Some(_) => {
                crate::invalid!("memory has been allocated already, or another allocator set")
            }
        }
    }

    fn supply(&self) -> &dyn Supply {
        &**self.given.get().unwrap_or(&self.supply)
    }

    /// Memory for `nbytes`, aligned as the supply aligns. Error: `OutOfMemory`.
    pub fn allocate(self: &Arc<Pool>, nbytes: usize) -> Result<Memory> {
        let class = size_class(nbytes, self.supply().coarsest());
        let class = class.ok_or_else(|| out_of_memory(nbytes))?;
        let block = match self.take(class) {
            Some(block) => block,
            None => {
                let supply = self.supply();
                let address = supply.allocate(class).or_else(|_| {
                    self.trim(0);
                    supply.allocate(class)
                })?;
                Block { address, class }
            }
        };
        let class = block.class as u64;
        let live = self.live.fetch_add(class, Ordering::Relaxed) + class;
        self.peak.fetch_max(live, Ordering::Relaxed);
        let reserved = live + self.pooled.load(Ordering::Relaxed);
        self.peak_reserved.fetch_max(reserved, Ordering::Relaxed);
        let owner = Owner::Whole(Lease { block, pool: self.clone() });
        Ok(Memory { address: block.address, len: nbytes, owner })
    }

    pub fn stats(&self) -> Stats {
        Stats {
            live_bytes: self.live.load(Ordering::Relaxed),
            peak_bytes: self.peak.load(Ordering::Relaxed),
            pool_bytes: self.pooled.load(Ordering::Relaxed),
            idle_bytes: self.idle.load(Ordering::Relaxed),
            peak_reserved_bytes: self.peak_reserved.load(Ordering::Relaxed),
            fresh_blocks: self.fresh.load(Ordering::Relaxed),
        }
    }

    /// Restarts the peaks from the current values.
    pub fn reset_peak(&self) {
        let live = self.live.load(Ordering::Relaxed);
        self.peak.store(live, Ordering::Relaxed);
        self.peak_reserved.store(live + self.pooled.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns free blocks to the supply, the least recently used first, until at most `keep` bytes are left.
    pub fn trim(&self, keep: u64) {
        // Without the lock, which others want: a device may have to wait before it takes a block back.
        while let Some(Block { address, class }) = self.oldest_beyond(keep) {
            self.supply().release(address, class);
        }
    }

    /// Called before allocating a new block that will be needed again and again: if no free block fits, returns as many
    /// bytes of the least recently used ones to the supply.
    pub fn make_way(&self, nbytes: usize) {
        let Some(class) = size_class(nbytes, self.supply().coarsest()) else { return };
        if self.free.lock().range(self.fitting(class)).next().is_none() {
            self.trim(self.pooled.load(Ordering::Relaxed).saturating_sub(class as u64));
        }
    }

    /// Takes out the least recently used free block if more than `keep` bytes are free.
    fn oldest_beyond(&self, keep: u64) -> Option<Block> {
        let mut free = self.free.lock();
        if self.pooled.load(Ordering::Relaxed) <= keep {
            return None;
        }
        // The bottom of each stack is the oldest of its class.
        let oldest = free.iter().min_by_key(|(_, blocks)| blocks[0].1).map(|(&class, _)| class);
        let class = oldest?;
        let blocks = free.get_mut(&class).expect("the class was just found");
        let (block, _) = blocks.remove(0);
        if blocks.is_empty() {
            free.remove(&class);
        }
        self.pooled.fetch_sub(class as u64, Ordering::Relaxed);
        Some(block)
    }

    /// From now on a block has the size class of its request. Otherwise one that is free and up to an eighth larger serves.
    pub fn set_exact(&self, is_exact: bool) {
        self.is_exact.store(is_exact, Ordering::Relaxed);
    }

    /// Classes of free blocks that serve a request of this class.
    fn fitting(&self, class: usize) -> RangeInclusive<usize> {
        let more = if self.is_exact.load(Ordering::Relaxed) { 0 } else { class / 8 };
        class..=class + more
    }

    /// The smallest free block that fits; if there is none, counts one to come from the supply.
    fn take(&self, class: usize) -> Option<Block> {
        let mut free = self.free.lock();
        let Some((&found, blocks)) = free.range_mut(self.fitting(class)).next() else {
            self.fresh.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let (block, _) = blocks.pop()?;
        if blocks.is_empty() {
            free.remove(&found);
        }
        self.pooled.fetch_sub(found as u64, Ordering::Relaxed);
        Some(block)
    }

    fn put(&self, block: Block) {
        self.live.fetch_sub(block.class as u64, Ordering::Relaxed);
        if self.supply().keeps() {
            return self.supply().release(block.address, block.class);
        }
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let pooled = {
            let mut free = self.free.lock();
            free.entry(block.class).or_default().push((block, now));
            self.pooled.fetch_add(block.class as u64, Ordering::Relaxed) + block.class as u64
        };
        let peak = self.peak.load(Ordering::Relaxed);
        if pooled > peak {
            self.trim(peak);
        }
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool {
            supply: Box::new(Host),
            given: OnceLock::new(),
            free: Mutex::default(),
            clock: AtomicU64::default(),
            live: AtomicU64::default(),
            peak: AtomicU64::default(),
            peak_reserved: AtomicU64::default(),
            pooled: AtomicU64::default(),
            idle: AtomicU64::default(),
            fresh: AtomicU64::default(),
            is_exact: AtomicBool::default(),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.trim(0);
    }
}

impl Memory {
    /// Address of the first byte.
    pub fn addr(&self) -> usize {
        self.address
    }

    /// Bytes requested.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Divides a block into parts, given as byte ranges within it; also returns the block, which lives as long as one
    /// of them. Panics for a part, which cannot be divided again.
    pub fn parts(self, parts: &[Range<usize>]) -> (Vec<Memory>, Weak<Whole>) {
        let Memory { address, len, owner } = self;
        let Owner::Whole(lease) = owner else { panic!("a part is not divided again") };
        let whole = Arc::new(Whole { lease, idle: AtomicU64::new(0) });
        let part = |bytes: &Range<usize>| {
            assert!(bytes.start <= bytes.end && bytes.end <= len, "a part is within its whole");
            let part = Part { whole: whole.clone(), len: bytes.len() };
            Memory { address: address + bytes.start, len: bytes.len(), owner: Owner::Part(part) }
        };
        (parts.iter().map(part).collect(), Arc::downgrade(&whole))
    }
}

impl Whole {
    /// Bytes of parts that have been dropped.
    pub fn idle_bytes(&self) -> u64 {
        self.idle.load(Ordering::Relaxed)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.put(self.block);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let (whole, len) = (&self.whole, self.len as u64);
        whole.idle.fetch_add(len, Ordering::Relaxed);
        whole.lease.pool.idle.fetch_add(len, Ordering::Relaxed);
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.lease.pool.idle.fetch_sub(*self.idle.get_mut(), Ordering::Relaxed);
    }
}

/// Host memory, aligned to 64 bytes, or to 2 MiB for blocks of that size.
struct Host;

impl Host {
    fn layout(class: usize) -> Option<Layout> {
        let align = if class >= HUGE_PAGE { HUGE_PAGE } else { MIN_ALIGN };
        Layout::from_size_align(class, align).ok()
    }
}

impl Supply for Host {
    fn allocate(&self, nbytes: usize) -> Result<usize> {
        let layout = Host::layout(nbytes).ok_or_else(|| out_of_memory(nbytes))?;
        // SAFETY: the layout's size is not 0: a class is at least MIN_ALIGN.
        let start = unsafe { std::alloc::alloc(layout) };
        if start.is_null() {
            return Err(out_of_memory(nbytes));
        }
        advise_huge_pages(start, nbytes);
        Ok(start.expose_provenance())
    }

    fn release(&self, address: usize, nbytes: usize) {
        let layout = Host::layout(nbytes).expect("the class had a layout when it was allocated");
        // SAFETY: the address came from `alloc` with this layout, and the free list gave up its only copy.
        unsafe { std::alloc::dealloc(ptr::with_exposed_provenance_mut(address), layout) }
    }

    fn coarsest(&self) -> usize {
        HUGE_PAGE
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(start: *mut u8, class: usize) {
    if class >= HUGE_PAGE {
        // SAFETY: the whole range is ours and the advice changes no contents. It is only advice: failure is fine.
        unsafe { libc::madvise(start.cast(), class, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: *mut u8, _: usize) {}

fn out_of_memory(nbytes: usize) -> Error {
    Error::new(Code::OutOfMemory, format!("cannot allocate {nbytes} bytes of host memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_classes_waste_little() {
        let pool = Pool::new();
        for nbytes in
            [0, 1, 63, 64, 65, 1000, 4097, 100_000, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 1]
        {
            let m = pool.allocate(nbytes).unwrap();
            let align = if nbytes >= HUGE_PAGE { HUGE_PAGE } else { MIN_ALIGN };
            assert_eq!(m.addr() % align, 0, "{nbytes}");
            assert_eq!(m.len(), nbytes);
            let class = size_class(nbytes, usize::MAX).unwrap();
            assert!(
                class >= nbytes && class <= nbytes + nbytes / 8 + MIN_ALIGN,
                "{nbytes} → {class}"
            );
        }
    }

    #[test]
    fn a_free_block_up_to_an_eighth_larger_serves() {
        let pool = Pool::new();
        drop([64 << 20, 80 << 20].map(|nbytes| pool.allocate(nbytes).unwrap()));
        let larger = pool.allocate(72 << 20).unwrap();
        assert_eq!((pool.stats().fresh_blocks, pool.stats().live_bytes), (2, 80 << 20));
        drop(larger);
        drop(pool.allocate(70 << 20).unwrap());
        assert_eq!((pool.stats().fresh_blocks, pool.stats().live_bytes), (3, 0));
        pool.set_exact(true);
        let own = pool.allocate(62 << 20).unwrap();
        assert_eq!((pool.stats().fresh_blocks, pool.stats().live_bytes), (4, 62 << 20));
        drop(own);
    }

    #[test]
    fn a_steady_step_asks_the_system_for_nothing() {
        let pool = Pool::new();
        let step = || {
            let sizes = [10, 5000, 3 << 20, 5000];
            sizes.map(|n| pool.allocate(n).unwrap())
        };
        drop(step());
        let first = pool.stats();
        assert_eq!((first.live_bytes, first.pool_bytes), (0, first.peak_bytes));
        for _ in 0..3 {
            drop(step());
        }
        assert_eq!(pool.stats(), first);
        pool.trim(0);
        assert_eq!(pool.stats().pool_bytes, 0);
    }

    #[test]
    fn the_pool_keeps_no_more_than_was_live() {
        let pool = Pool::new();
        for i in 1..20 {
            drop(pool.allocate(i << 16).unwrap());
            let s = pool.stats();
            assert!(s.pool_bytes <= s.peak_bytes, "{s:?}");
        }
        let before = pool.stats();
        assert!(before.peak_reserved_bytes >= before.peak_bytes.max(before.pool_bytes));
        pool.reset_peak();
        let after = pool.stats();
        assert_eq!((after.peak_bytes, after.peak_reserved_bytes), (0, before.pool_bytes));
    }

    #[test]
    fn blocks_make_way_for_one_that_none_of_them_can_be() {
        let pool = Pool::new();
        let sizes = [1000, 5000, 9000, 100_000];
        drop(sizes.map(|n| pool.allocate(n).unwrap()));
        let all = pool.stats().pool_bytes;
        pool.make_way(5000);
        assert_eq!(pool.stats().pool_bytes, all, "one serves");
        pool.make_way(2000);
        let left = pool.stats().pool_bytes;
        assert!(left <= all - 2000 && left > all - 10_000, "the oldest go: {left} of {all}");
        pool.make_way(usize::MAX);
        pool.make_way(1 << 40);
        assert_eq!(pool.stats().pool_bytes, 0);
    }

    #[test]
    fn a_block_goes_back_after_its_last_part() {
        let pool = Pool::new();
        let whole = pool.allocate(4096).unwrap();
        let start = whole.addr();
        let (mut parts, left) = whole.parts(&[0..64, 512..4096, 64..64]);
        let lie: Vec<_> = parts.iter().map(|part| (part.addr() - start, part.len())).collect();
        assert_eq!(lie, [(0, 64), (512, 3584), (64, 0)]);
        while parts.pop().is_some() {
            let stats = pool.stats();
            let is_there = !parts.is_empty();
            assert_eq!((stats.live_bytes > 0, left.strong_count() > 0), (is_there, is_there));
            let there: usize = parts.iter().map(Memory::len).sum();
            assert_eq!(stats.idle_bytes, if is_there { 64 + 3584 - there as u64 } else { 0 });
        }
    }

    #[test]
    fn absurd_sizes_are_errors() {
        let pool = Pool::new();
        for nbytes in [usize::MAX, usize::MAX / 2, isize::MAX as usize, 1 << 62] {
            assert_eq!(pool.allocate(nbytes).err().map(|e| e.code), Some(Code::OutOfMemory));
        }
        assert_eq!(pool.stats().live_bytes, 0);
    }

    /// Tracks the blocks that it gave, and has limited memory.
    #[derive(Default)]
    struct Counted {
        given: Arc<Mutex<BTreeMap<usize, usize>>>,
    }

    impl Supply for Counted {
        fn allocate(&self, nbytes: usize) -> Result<usize> {
            let mut given = self.given.lock();
            if given.values().sum::<usize>() + nbytes > 100 << 20 {
                return Err(Error::new(Code::OutOfMemory, "the device is full"));
            }
            let address = given.last_key_value().map_or(256, |(start, len)| start + len);
            given.insert(address, nbytes);
            Ok(address)
        }

        fn release(&self, address: usize, nbytes: usize) {
            assert_eq!(self.given.lock().remove(&address), Some(nbytes));
        }

        fn coarsest(&self) -> usize {
            2 << 20
        }
    }

    #[test]
    fn a_full_supply_gets_back_what_is_free_before_it_is_asked_again() {
        let supply = Counted::default();
        let given = supply.given.clone();
        let pool = Pool::of(Box::new(supply));
        drop(pool.allocate(60 << 20).unwrap());
        let large = pool.allocate(70 << 20).unwrap();
        assert_eq!(given.lock().len(), 1);
        let error = pool.allocate(60 << 20).err().unwrap();
        assert_eq!((error.code, &error.message[..]), (Code::OutOfMemory, "the device is full"));
        drop((large, pool));
        assert!(given.lock().is_empty());
    }

    /// Allocates from a [`Counted`], and wants every free block back.
    struct Keeping(Counted);

    impl Supply for Keeping {
        fn allocate(&self, nbytes: usize) -> Result<usize> {
            self.0.allocate(nbytes)
        }

        fn release(&self, address: usize, nbytes: usize) {
            self.0.release(address, nbytes);
        }

        fn coarsest(&self) -> usize {
            512
        }

        fn keeps(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_supply_that_keeps_free_blocks_takes_the_place_of_another_before_the_first() {
        let supply = Counted::default();
        let given = supply.given.clone();
        let pool = Pool::new();
        pool.replace(Box::new(Keeping(supply))).unwrap();
        let (small, large) = (pool.allocate(1).unwrap(), pool.allocate(9000).unwrap());
        assert_eq!(given.lock().values().copied().collect::<Vec<_>>(), [64, 9216]);
        assert!(pool.replace(Box::new(Counted::default())).is_err());
        drop((small, large));
        let stats = pool.stats();
        assert_eq!((stats.live_bytes, stats.pool_bytes, given.lock().len()), (0, 0, 0));
        let used = Pool::new();
        drop(used.allocate(1).unwrap());
        assert!(used.replace(Box::new(Counted::default())).is_err());
    }

    #[test]
    fn memory_crosses_threads() {
        let pool = Pool::new();
        let m = pool.allocate(100).unwrap();
        std::thread::spawn(move || drop(m)).join().unwrap();
        assert_eq!(pool.stats().live_bytes, 0);
    }
}
