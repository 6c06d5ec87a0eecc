//! The call sites in the user's program of the recorded operations, each learned once.
//!
//! Asking for a stack costs more than recording, and a training loop records the same operations in the same order
//! again and again. So a call site is identified by the chain of everything recorded before it since the last cut: a step
//! that repeats asks nothing.

use crate::error::Site;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Beyond this many call sites, all are forgotten and asked for again.
const CAPACITY: usize = 1 << 18;

#[derive(Default)]
pub struct Sites {
    /// Hash of all records since the cut.
    chain: u64,
    known: HashMap<u64, Site>,
}

impl Sites {
    /// Advances by one record, given its canonical bytes, and returns its call site if known.
    pub fn next(&mut self, record: &[u8]) -> Option<Site> {
        self.chain = xxh3_64_with_seed(record, self.chain);
        self.known.get(&self.chain).copied()
    }

    /// Hash of the records since the cut, including the last one.
    pub fn chain(&self) -> u64 {
        self.chain
    }

    /// Continues after a beginning that was not recorded here.
    pub fn resume(&mut self, chain: u64) {
        self.chain = chain;
    }

    /// Sets the call site of the last record of `chain`.
    pub fn learn(&mut self, chain: u64, site: Site) {
        if self.known.len() >= CAPACITY {
            self.known.clear();
        }
        self.known.insert(chain, site);
    }
}
