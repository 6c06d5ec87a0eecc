//! Attempts to find a template of a family around a point.

use super::Planner;
use super::probe::{Probe, SHRINKS};
use super::sampling::border;
use super::shares;
use super::symbol_map::SymbolMap;
use super::template::Template;
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::record::Records;

/// The outcome of planning a family around a point.
pub enum Attempt {
    Found(Box<Template>),
    /// The point has a plan of its own (sizes that differ in others are equal in it), which says nothing about others.
    Special,
    /// No other point has that plan, or its numbers are not polynomials.
    Nowhere,
}

impl Attempt {
    fn of(template: Option<Template>) -> Attempt {
        template.map_or(Attempt::Nowhere, |template| Attempt::Found(Box::new(template)))
    }
}

/// Plans the family at points around `base`, whose plan is `unplaced`, by its decisions: as far away as the plans differ in
/// numbers only, and these are polynomials.
pub fn around(
    symbol_map: &SymbolMap,
    base: &[i64],
    records: &Records,
    unplaced: &UnplacedPlan,
    decisions: &PlanDecisions,
    planner: Planner,
) -> Attempt {
    let mut probe = Probe::new(symbol_map, records, unplaced, decisions, planner, base);
    if symbol_map.remainders().next().is_some() {
        let of_shares = (0..SHRINKS as u32).find_map(|shrunk| {
            let points = shares::points(symbol_map, base, shrunk)?;
            let (lowest, highest) = border(&points);
            probe.through(points, &lowest, &highest)
        });
        return Attempt::of(of_shares);
    }
    let has_many = symbol_map.has_many();
    if has_many && probe.is_special(base) {
        return Attempt::Special;
    }
    let region = if has_many { probe.common_region(base) } else { probe.region(base) };
    let template = probe.within(region, base);
    Attempt::of(template)
}
