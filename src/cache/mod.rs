//! Keys by named parts, and the table of compiled programs.
//!
//! **Invariant:** touches keys, entries, its own locks and the files of its folder; no device memory, no rewriting. The
//! 128-bit hash finds an entry, the canonical bytes decide.

pub mod disk;
pub mod encode;
pub mod key;
pub mod paths;

use crate::error::Result;
use key::Key;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    Hit,
    /// This call made the entry.
    Made,
}

/// Programs by key, least recently used dropped beyond the limits. One thread makes an entry, others wait for it.
pub struct Cache<P> {
    inner: Mutex<Inner<P>>,
    made: Condvar,
    capacity: Capacity,
    /// Approximate host memory of a program in bytes.
    size: fn(&P) -> usize,
}

/// One entry in this many is dropped at a time.
const AT_ONCE: usize = 32;

/// Limits of a cache, which always keeps its newest entry.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    pub entries: usize,
    pub bytes: usize,
}

struct Inner<P> {
    entries: HashMap<u128, Vec<Entry<P>>>,
    count: usize,
    bytes: usize,
    clock: u64,
    evicted: u64,
}

struct Entry<P> {
    key: Key,
    /// `None` while it is being made.
    program: Option<Arc<P>>,
    /// Bytes of the program and the key.
    bytes: usize,
    used: u64,
}

impl<P> Cache<P> {
    pub fn new(capacity: Capacity, size: fn(&P) -> usize) -> Cache<P> {
        let inner = Inner { entries: HashMap::new(), count: 0, bytes: 0, clock: 0, evicted: 0 };
        Cache { inner: Mutex::new(inner), made: Condvar::new(), capacity, size }
    }

    /// Approximate bytes of all programs and keys.
    pub fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    /// Number of programs that were dropped for others since the last [`Cache::forget_evicted`].
    pub fn evicted(&self) -> u64 {
        self.inner.lock().evicted
    }

    pub fn forget_evicted(&self) {
        self.inner.lock().evicted = 0;
    }

    /// Marks the program of a key with this hash as used, though it was not looked up here.
    pub fn touch(&self, hash: u128) {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let clock = inner.clock;
        if let Some([entry]) = inner.entries.get_mut(&hash).map(Vec::as_mut_slice) {
            entry.used = clock;
        }
    }

    /// Drops the programs that are `unwanted`; runs in progress go on.
    pub fn drop_where(&self, unwanted: impl Fn(&P) -> bool) {
        let mut inner = self.inner.lock();
        let hashes: Vec<u128> = inner.entries.keys().copied().collect();
        let keep = |entry: &Entry<P>| entry.program.as_ref().is_none_or(|p| !unwanted(p));
        hashes.into_iter().for_each(|hash| inner.remove(hash, keep));
    }

    pub fn len(&self) -> usize {
        self.inner.lock().count
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The program of `key` if it is there.
    pub fn get(&self, key: &Key) -> Option<Arc<P>> {
        match self.inner.lock().find(key) {
            Found::Ready(program) => Some(program),
            Found::InTheMaking | Found::Nothing => None,
        }
    }

    /// The program of `key`, made by `make` if there is none. A failure is not kept: the next call tries again.
    pub fn get_or_make(
        &self,
        key: Key,
        make: impl FnOnce(&Key) -> Result<P>,
    ) -> (Result<Arc<P>>, Lookup) {
        let mut inner = self.inner.lock();
        loop {
            match inner.find(&key) {
                Found::Ready(program) => return (Ok(program), Lookup::Hit),
                Found::InTheMaking => self.made.wait(&mut inner),
                Found::Nothing => break,
            }
        }
        inner.reserve(key.clone());
        drop(inner);
        // If `make` panics the reservation must go, or others would wait for ever.
        let mut reservation = Reservation { cache: self, key, open: true };
        let made = make(&reservation.key).map(Arc::new);
        reservation.settle(made.as_ref().ok().cloned());
        (made, Lookup::Made)
    }
}

enum Found<P> {
    Ready(Arc<P>),
    InTheMaking,
    Nothing,
}

impl<P> Inner<P> {
    fn find(&mut self, key: &Key) -> Found<P> {
        self.clock += 1;
        let clock = self.clock;
        let bucket = self.entries.get_mut(&key.hash());
        match bucket.and_then(|bucket| bucket.iter_mut().find(|entry| entry.key == *key)) {
            Some(entry) => {
                entry.used = clock;
                entry.program.clone().map_or(Found::InTheMaking, Found::Ready)
            }
            None => Found::Nothing,
        }
    }

    fn reserve(&mut self, key: Key) {
        self.clock += 1;
        let entry = Entry { program: None, bytes: 0, used: self.clock, key };
        self.entries.entry(entry.key.hash()).or_default().push(entry);
        self.count += 1;
    }

    fn remove(&mut self, hash: u128, keep: impl Fn(&Entry<P>) -> bool) {
        if let Some(bucket) = self.entries.get_mut(&hash) {
            let before = bucket.len();
            let bytes = |bucket: &[Entry<P>]| bucket.iter().map(|e| e.bytes).sum::<usize>();
            self.bytes -= bytes(bucket);
            bucket.retain(keep);
            self.bytes += bytes(bucket);
            self.count -= before - bucket.len();
            if bucket.is_empty() {
                self.entries.remove(&hash);
            }
        }
    }

    /// Drops the least recently used entries, one in [`AT_ONCE`]: finding them takes time proportional to the number of entries.
    fn evict(&mut self) {
        let finished = self.entries.iter().flat_map(|(&hash, bucket)| {
            bucket.iter().filter(|e| e.program.is_some()).map(move |e| (e.used, hash))
        });
        let mut finished: Vec<(u64, u128)> = finished.collect();
        let oldest = (finished.len() / AT_ONCE).max(1).min(finished.len());
        if oldest < finished.len() {
            finished.select_nth_unstable(oldest);
        }
        for &(used, hash) in &finished[..oldest] {
            self.remove(hash, |entry| entry.used != used);
        }
    }
}

struct Reservation<'a, P> {
    cache: &'a Cache<P>,
    key: Key,
    open: bool,
}

impl<P> Reservation<'_, P> {
    fn settle(&mut self, program: Option<Arc<P>>) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        let key = &self.key;
        let mut inner = self.cache.inner.lock();
        match program {
            Some(program) => {
                let bucket = inner.entries.entry(key.hash()).or_default();
                if let Some(entry) = bucket.iter_mut().find(|entry| entry.key == *key) {
                    entry.bytes = entry.key.nbytes() + (self.cache.size)(&program);
                    entry.program = Some(program);
                    let bytes = entry.bytes;
                    inner.bytes += bytes;
                }
                let Capacity { entries, bytes } = self.cache.capacity;
                while inner.count > entries || inner.bytes > bytes && inner.count > 1 {
                    let before = inner.count;
                    inner.evict();
                    if inner.count == before {
                        break;
                    }
                    inner.evicted += (before - inner.count) as u64;
                }
            }
            None => inner.remove(key.hash(), |entry| entry.key != *key),
        }
        self.cache.made.notify_all();
    }
}

impl<P> Drop for Reservation<'_, P> {
    fn drop(&mut self) {
        self.settle(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internal;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn key(n: u8) -> Key {
        Key::new(vec![("records", vec![n])])
    }

    fn of<P>(entries: usize) -> Cache<P> {
        Cache::new(Capacity { entries, bytes: usize::MAX }, |_| 0)
    }

    #[test]
    fn makes_once_and_forgets_failures() {
        let cache = of(8);
        assert!(cache.get_or_make(key(1), |_| internal!("no")).0.is_err());
        assert_eq!(cache.len(), 0);
        assert_eq!(cache.get_or_make(key(1), |_| Ok(7)), (Ok(Arc::new(7)), Lookup::Made));
        assert_eq!(cache.get_or_make(key(1), |_| Ok(8)), (Ok(Arc::new(7)), Lookup::Hit));
    }

    #[test]
    fn drops_the_least_recently_used() {
        let cache = of(2);
        for n in [1, 2, 1, 3] {
            cache.get_or_make(key(n), |_| Ok(n)).0.unwrap();
        }
        assert_eq!(cache.len(), 2);
        assert_eq!(cache.get_or_make(key(1), |_| Ok(9)).1, Lookup::Hit);
        assert_eq!(cache.get_or_make(key(2), |_| Ok(9)).1, Lookup::Made);
    }

    #[test]
    fn of_many_the_oldest_are_dropped_together() {
        let cache = of(2 * AT_ONCE);
        let last = 2 * AT_ONCE as u8;
        for n in (0..last).chain([0, last]) {
            cache.get_or_make(key(n), |_| Ok(n)).0.unwrap();
        }
        assert_eq!((cache.len(), cache.evicted()), (2 * AT_ONCE - 1, 2));
        let found = [0, 1, 2, 3, last].map(|n| cache.get(&key(n)).is_some());
        assert_eq!(found, [true, false, false, true, true]);
    }

    #[test]
    fn drops_what_takes_too_much() {
        // The key takes one byte, the program what it is.
        let cache = Cache::new(Capacity { entries: 99, bytes: 100 }, |&n: &usize| n);
        let make = |n: u8, bytes: usize| cache.get_or_make(key(n), |_| Ok(bytes)).1;
        for n in [1, 2, 1] {
            make(n, 39);
        }
        assert_eq!((cache.len(), cache.bytes()), (2, 80));
        make(3, 19);
        assert_eq!((cache.len(), cache.bytes()), (3, 100));
        make(4, 1);
        assert_eq!((cache.get(&key(2)), cache.bytes()), (None, 62));
        make(5, 500);
        assert_eq!((cache.len(), cache.get(&key(5)).as_deref()), (1, Some(&500)), "it is in use");
        make(6, 2);
        assert_eq!((cache.len(), cache.bytes()), (1, 3));
        assert_eq!(cache.evicted(), 5);
        cache.forget_evicted();
        assert_eq!(cache.evicted(), 0);
    }

    #[test]
    fn what_is_found_elsewhere_counts_as_used() {
        let cache = of(2);
        for n in [1, 2] {
            cache.get_or_make(key(n), |_| Ok(n)).0.unwrap();
        }
        cache.touch(key(1).hash());
        cache.touch(key(7).hash());
        cache.get_or_make(key(3), |_| Ok(3)).0.unwrap();
        assert_eq!((cache.get(&key(1)).as_deref(), cache.get(&key(2))), (Some(&1), None));
    }

    #[test]
    fn keys_with_equal_hashes_have_programs_of_their_own() {
        let key = |n: u8| Key::with_hash(vec![("records", vec![n])], 42);
        let cache = of(2);
        assert_eq!(cache.get_or_make(key(1), |_| Ok(1)), (Ok(Arc::new(1)), Lookup::Made));
        assert!(cache.get_or_make(key(2), |_| internal!("no")).0.is_err());
        assert_eq!(cache.get_or_make(key(2), |_| Ok(2)), (Ok(Arc::new(2)), Lookup::Made));
        assert_eq!(cache.get_or_make(key(1), |_| Ok(9)), (Ok(Arc::new(1)), Lookup::Hit));
        assert_eq!((cache.get(&key(2)).as_deref(), cache.get(&key(3))), (Some(&2), None));
        // The one that was used last stays, though both are found at one place.
        cache.get_or_make(key(3), |_| Ok(3)).0.unwrap();
        assert_eq!(
            (cache.len(), cache.get(&key(1)), cache.get(&key(2)).as_deref()),
            (2, None, Some(&2))
        );
        let parts = [("records", vec![1]), ("donors", vec![])];
        let other = Key::with_hash(parts.to_vec(), 42);
        assert_eq!(cache.get(&other), None);
    }

    #[test]
    fn one_thread_makes_the_others_wait() {
        let cache = of(8);
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = |_: &Key| {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        made.fetch_add(1, Ordering::SeqCst);
                        Ok(5)
                    };
                    assert_eq!(*cache.get_or_make(key(1), make).0.unwrap(), 5);
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_is_unwanted_goes() {
        let cache = of(8);
        for n in 0..5 {
            cache.get_or_make(key(n), |_| Ok(n)).0.unwrap();
        }
        cache.drop_where(|n| n % 2 == 1);
        let left: Vec<u8> = (0..5).filter_map(|n| cache.get(&key(n)).map(|n| *n)).collect();
        assert_eq!((left, cache.len()), (vec![0, 2, 4], 3));
    }

    #[test]
    fn a_panicking_maker_leaves_nothing_behind() {
        let cache: Cache<u8> = of(8);
        let panics = || cache.get_or_make(key(1), |_| panic!("on purpose"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(cache.get_or_make(key(1), |_| Ok(1)).1, Lookup::Made);
    }
}
