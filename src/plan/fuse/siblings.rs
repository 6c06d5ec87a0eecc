//! Merges maps that read the same memory, and maps of one number each that can run first: an optimizer has some of
//! them for every parameter. Two at the same height do not depend on each other.

use super::super::draft::{Draft, Kind, RegionId, Slot, State};
use super::{Fuser, may_fail};
use smallvec::SmallVec;
use std::cmp::Reverse;

impl Fuser<'_> {
    /// Returns the draft into which each draft was merged.
    pub(super) fn merge(&mut self) -> Vec<RegionId> {
        let mut went: Vec<RegionId> = (0..self.drafts.len()).collect();
        self.merge_numbers(&mut went);
        self.merge_siblings(&mut went);
        went
    }

    /// Merges maps of one number at the same height that need only inputs: then none has to wait for another's
    /// operands.
    fn merge_numbers(&mut self, went: &mut [RegionId]) {
        let mut by_height: Vec<RegionId> = (0..self.drafts.len()).collect();
        by_height.sort_by_key(|&r| Reverse(self.drafts[r].height));
        let mut early = vec![false; self.drafts.len()];
        let mut into: Option<RegionId> = None;
        for r in by_height {
            let draft = &self.drafts[r];
            early[r] = is_number(draft) && draft.producers.iter().all(|&p| early[p]);
            if !early[r] {
                continue;
            }
            let draft = draft.clone();
            let beside = |to: &RegionId| {
                let to = &self.drafts[*to];
                to.height == draft.height && to.sizes == draft.sizes
            };
            match into.filter(beside) {
                Some(to) if self.drafts[to].merge(&draft) => went[r] = to,
                _ => into = Some(r),
            }
        }
    }

    /// Merges maps that iterate over the same sizes, read the same memory and have the same height.
    fn merge_siblings(&mut self, went: &mut [RegionId]) {
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
    }

    /// Whether region `r` reads value number `v` from memory.
    fn loads(&self, r: RegionId, v: usize) -> bool {
        let from = |s: &Slot| s.value.0 as usize == v && s.state == State::Memory;
        self.drafts[r].slots.iter().any(from)
    }
}

/// Whether a draft is a map of one number that cannot fail: others would fail with it.
fn is_number(draft: &Draft) -> bool {
    let fails = |s: &Slot| matches!(&s.state, State::Instr(i) if may_fail(i.op, i.dtype));
    draft.kind == Kind::Map
        && crate::shape::numel(&draft.sizes) == 1
        && !draft.slots.iter().any(fails)
}
