//! Learning beside the runs of programs: families in which every step brings special cases (experts that get one row, or none)
//! have enough plans to go on with, and planning them at other points takes longer than compiling some more traces.
//!
//! **Invariant:** the result is used from a certain trace of the family on, which waits for it: so no race decides which plan
//! a program has.

use super::attempt::{Attempt, around};
use super::relations::Relations;
use super::symbol_map::SymbolMap;
use super::template::Template;
use super::{ATTEMPTS, EXAMPLES, Families, Family, Planner, ShapeErasedTrace, alike, nearest};
use crate::cache::key::Key;
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::record::Records;
use parking_lot::MutexGuard;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Number of operations from which on a trace takes long to plan at other points: shorter ones are always waited for.
const LONG: usize = 256;
/// Number of templates, or of failed attempts, from which on nobody waits for another attempt.
const EAGER: usize = 2;
/// Number of traces that are compiled for their own sizes before the result of an attempt is used: about as long as it takes.
const TRACES: usize = 8;
/// Number of new traces that such an attempt waits for, and for as many in all as are kept: where ten sizes vary, three traces
/// say little.
const NEWS: usize = 4;

/// Maximum number of symbol maps by which a trace is planned at other points.
const TRIED: usize = 8;

/// The outcome of planning a family at other points.
pub struct Found {
    pub template: Option<(SymbolMap, Template)>,
    /// Whether plans were made for it: traces that say nothing about each other, or special cases, cost little.
    pub was_planned: bool,
}

/// A family's evidence of how its sizes vary.
pub struct Evidence {
    pub maps: Vec<Arc<SymbolMap>>,
    pub examples: Vec<Vec<i64>>,
}

/// A family that is learnt beside the runs of its programs.
pub struct Learning {
    number: u64,
    pub traces_left: usize,
    found: Option<Found>,
}

/// An attempt, with the evidence that its family had when it was decided on. The family waits for [`Families::learn_beside`] or
/// [`Families::give_up`].
pub struct Ticket {
    pub number: u64,
    evidence: Evidence,
}

/// Ends an attempt when dropped, whatever happens.
struct End<'a>(&'a Families, u64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.give_up(self.1);
    }
}

impl Evidence {
    /// Plans the family of a trace at other points, by the trace's own plan.
    pub fn attempt(
        &self,
        erased: &ShapeErasedTrace,
        records: &Records,
        unplaced: &UnplacedPlan,
        decisions: &PlanDecisions,
        planner: Planner,
    ) -> Found {
        let Evidence { maps, examples } = self;
        let relations = Relations::of(records);
        let mut tried: Vec<SymbolMap> = Vec::new();
        let mut was_planned = false;
        let mut by = |symbol_map: &SymbolMap| -> ControlFlow<Option<(SymbolMap, Template)>> {
            let case = symbol_map.of_case(&erased.numbers);
            let Some((symbol_map, point)) = case.filter(|(one, _)| !tried.contains(one)) else {
                return Continue(());
            };
            if tried.len() == TRIED {
                return Break(None);
            }
            tried.push(symbol_map.clone());
            match around(&symbol_map, &point, records, unplaced, decisions, planner) {
                Attempt::Found(template) => Break(Some((symbol_map, *template))),
                // With this many traces a map with fewer sizes may be the right one; with fewer it would fit by chance.
                Attempt::Special if examples.len() < EXAMPLES => Break(None),
                Attempt::Special | Attempt::Nowhere => {
                    was_planned = true;
                    Continue(())
                }
            }
        };
        let mut of_examples = |examples: &[Vec<i64>]| {
            let candidates = SymbolMap::candidates(examples, &relations);
            candidates.iter().try_for_each(&mut by).break_value().flatten()
        };
        // A map of more traces says more about how sizes follow from each other than one that was found before them.
        let near = nearest(examples, &erased.numbers).unwrap_or_default();
        let template = of_examples(examples)
            .or_else(|| of_examples(&near))
            .or_else(|| of_examples(&alike(examples, &erased.numbers, &relations)));
        let of_maps = || maps.iter().try_for_each(|one| by(one)).break_value().flatten();
        let template = template.or_else(of_maps);
        let was_planned = was_planned || template.is_some();
        Found { template, was_planned }
    }
}

impl Family {
    /// Whether nobody waits for the next attempt.
    pub(super) fn is_learnt_beside(&self, operations: usize) -> bool {
        operations >= LONG && self.templates.len().max(self.failures) >= EAGER
    }

    /// Whether that attempt would know more than the last one, and is due.
    pub(super) fn has_news(&self) -> bool {
        let most = ATTEMPTS * (EXAMPLES + TRACES);
        let is_open = self.failures < ATTEMPTS && self.since <= most;
        let knows_more = self.examples.len() == EXAMPLES && self.unlearned >= NEWS;
        knows_more && (is_open || self.since.is_power_of_two())
    }
}

impl Families {
    /// A ticket to learn the family of a trace beside later runs; `None` if the next trace should wait for it instead.
    pub fn beside(&self, erased: &ShapeErasedTrace) -> Option<Ticket> {
        let mut families = self.list.lock();
        let family = families.iter_mut().find(|family| family.structure == erased.structure)?;
        if !family.is_learnt_beside(erased.operations) {
            return None;
        }
        family.unlearned = 0;
        let (number, evidence) = (self.tickets.fetch_add(1, Relaxed), family.evidence());
        family.beside = Some(Learning { number, traces_left: TRACES, found: None });
        Some(Ticket { number, evidence })
    }

    /// Does the work of [`Families::learn`] for a ticket. Returns whether a template was made.
    pub fn learn_beside(
        &self,
        ticket: Ticket,
        erased: &ShapeErasedTrace,
        records: &Records,
        unplaced: &UnplacedPlan,
        decisions: &PlanDecisions,
        planner: Planner,
    ) -> bool {
        let Ticket { number, evidence } = ticket;
        let _end = End(self, number);
        let found = evidence.attempt(erased, records, unplaced, decisions, planner);
        let is_template = found.template.is_some();
        self.end(number, found);
        is_template
    }

    /// Ends the attempt of that number without a result.
    pub fn give_up(&self, number: u64) {
        self.end(number, Found { template: None, was_planned: false });
    }

    /// Notes the outcome of an attempt. The first one counts, unless its family has forgotten the attempt.
    fn end(&self, number: u64, found: Found) {
        let mut families = self.list.lock();
        let mut learnings = families.iter_mut().filter_map(|family| family.beside.as_mut());
        if let Some(learning) = learnings.find(|learning| learning.number == number) {
            learning.found.get_or_insert(found);
        }
        self.found.notify_all();
    }

    /// Takes the outcome of a family's attempt beside its runs, if it is due.
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
