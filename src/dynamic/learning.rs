//! Learning beside the runs of programs: families of which every step brings special cases (experts that get one row, or none)
//! have plans enough to go on with, and to plan them at other points takes longer than to compile some traces more.
//!
//! **Invariant:** what was learnt is used from a certain trace of the family on, and waited for then: so no race decides which plan
//! a program has.

use super::symbol_map::SymbolMap;
use super::template::Template;
use super::{Families, Family, Planner, ShapeErasedTrace};
use crate::cache::key::Key;
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::record::Records;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

/// Templates, or attempts in vain, from which on nobody waits for another attempt.
const EAGER: usize = 2;
/// Traces that are compiled for their own sizes before what is learnt meanwhile is used: about what an attempt takes.
const TRACES: usize = 16;

/// What came of planning a family at other points.
pub struct Found {
    pub template: Option<(SymbolMap, Template)>,
    /// Whether plans were made for it: traces that say nothing of each other cost little.
    pub was_planned: bool,
}

/// A family that is learnt beside the runs of its programs.
pub struct Learning {
    ticket: Ticket,
    pub traces_left: usize,
    found: Option<Found>,
}

/// Names an attempt. Its family waits for [`Families::learn_beside`] or [`Families::give_up`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

/// Ends an attempt whatever happens.
struct End<'a>(&'a Families, Ticket);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.give_up(self.1);
    }
}

impl Families {
    /// A ticket to learn a trace's family beside later runs; `None` if the next trace had better wait for it.
    pub fn beside(&self, erased: &ShapeErasedTrace) -> Option<Ticket> {
        let mut families = self.list.lock();
        let family = families.iter_mut().find(|family| family.structure == erased.structure)?;
        if family.templates.len().max(family.failures) < EAGER {
            return None;
        }
        let ticket = Ticket(self.tickets.fetch_add(1, Relaxed));
        family.beside = Some(Learning { ticket, traces_left: TRACES, found: None });
        Some(ticket)
    }

    /// As [`Families::learn`], for later. Whether a template was made.
    pub fn learn_beside(
        &self,
        ticket: Ticket,
        erased: &ShapeErasedTrace,
        records: &Records,
        unplaced: &UnplacedPlan,
        decisions: &PlanDecisions,
        planner: Planner,
    ) -> bool {
        let _end = End(self, ticket);
        let Some(found) = self.attempt(erased, records, unplaced, decisions, planner) else {
            return false;
        };
        let is_template = found.template.is_some();
        self.end(ticket, found);
        is_template
    }

    /// Nothing comes of an attempt.
    pub fn give_up(&self, ticket: Ticket) {
        self.end(ticket, Found { template: None, was_planned: false });
    }

    /// What came of an attempt first holds, unless its family forgot it.
    fn end(&self, ticket: Ticket, found: Found) {
        let mut families = self.list.lock();
        let mut learnings = families.iter_mut().filter_map(|family| family.beside.as_mut());
        if let Some(learning) = learnings.find(|learning| learning.ticket == ticket) {
            learning.found.get_or_insert(found);
        }
        self.found.notify_all();
    }

    /// Takes what a family learnt beside its runs, if it is time.
    pub(super) fn use_in_time(&self, families: &mut MutexGuard<Vec<Family>>, structure: &Key) {
        loop {
            let family = families.iter_mut().find(|family| family.structure == *structure);
            let Some(family) = family else { return };
            match &mut family.beside {
                Some(Learning { traces_left: 0, found: Some(_), .. }) => {
                    let found = family.beside.take().and_then(|learning| learning.found);
                    found.map(|found| family.learnt(found));
                    return;
                }
                Some(Learning { traces_left: 0, found: None, .. }) => self.found.wait(families),
                _ => return,
            }
        }
    }
}
