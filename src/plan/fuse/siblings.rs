//! Maps that read the same memory become one.

use super::super::draft::{Kind, RegionId, Slot, State};
use super::Fuser;
use smallvec::SmallVec;

impl Fuser<'_> {
    /// Merges maps that go over the same sizes, read the same memory and stand at the same height (so neither
    /// depends on the other). Returns where each draft went.
    pub(super) fn merge_siblings(&mut self) -> Vec<RegionId> {
        let mut went: Vec<RegionId> = (0..self.drafts.len()).collect();
        for (v, demands) in std::mem::take(&mut self.demands).into_iter().enumerate() {
            let numel = self.graph.values[v].ty.numel();
            let mut readers: SmallVec<[RegionId; 4]> = SmallVec::new();
            for (r, _) in demands {
                let r = went[r];
                let draft = &self.drafts[r];
                let streams = self.loads(r, v) && draft.kind == Kind::Map;
                if !streams || readers.contains(&r) || crate::shape::numel(&draft.sizes) != numel {
                    continue;
                }
                let level = |&&other: &&RegionId| {
                    let o = &self.drafts[other];
                    o.height == draft.height && o.sizes == draft.sizes
                };
                let Some(&into) = readers.iter().find(level) else {
                    readers.push(r);
                    continue;
                };
                let draft = self.drafts[r].clone();
                if self.drafts[into].merge(&draft) {
                    went.iter_mut().filter(|w| **w == r).for_each(|w| *w = into);
                } else {
                    readers.push(r);
                }
            }
        }
        went
    }

    /// Whether region `r` reads value number `v` from memory.
    fn loads(&self, r: RegionId, v: usize) -> bool {
        let from = |s: &Slot| s.value.0 as usize == v && s.state == State::Memory;
        self.drafts[r].slots.iter().any(from)
    }
}
