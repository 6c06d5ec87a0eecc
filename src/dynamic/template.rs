//! A plan whose numbers are polynomials in the symbols of its family.

use super::Planner;
use super::expr::{Datum, Expr};
use super::probe::{Probe, SHRINKS};
use super::proved::Proved;
use super::sampling::border;
use super::shares;
use super::symbol_map::SymbolMap;
use crate::graph::ValueId;
use crate::number::{Number, Numbers};
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::record::Records;
use std::collections::HashMap;

/// Sizes below are programs of their own: they broadcast, or there is nothing to compute.
pub const SMALLEST: i64 = 2;

/// What came of planning a family around a point.
pub enum Attempt {
    Found(Box<Template>),
    /// The point has a plan of its own (sizes are equal in it that differ in others), which says nothing of others.
    Special,
    /// No other point has that plan, or its numbers are no polynomials.
    Nowhere,
}

impl Attempt {
    fn of(template: Option<Template>) -> Attempt {
        template.map_or(Attempt::Nowhere, |template| Attempt::Found(Box::new(template)))
    }
}

/// The plan of a family between two points, borders included.
pub struct Template {
    pub lowest: Vec<i64>,
    pub highest: Vec<i64>,
    pub proved: Proved,
    pub unplaced: UnplacedPlan,
    pub decisions: PlanDecisions,
    /// Which of the plan's numbers vary.
    pub varying: Vec<(usize, Expr)>,
}

impl Template {
    /// Plans the family at points around `base`, whose plan is `unplaced`, by its decisions; as far away as that gives the
    /// same plan but for numbers, and these are polynomials.
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

    /// How many its plan has.
    pub fn steps(&self) -> usize {
        self.unplaced.steps().len()
    }

    /// Whether a point is inside the region.
    pub fn covers(&self, point: &[i64]) -> bool {
        let within = |s: usize| (self.lowest[s]..=self.highest[s]).contains(&point[s]);
        (0..point.len()).all(within)
    }

    /// The unplaced plan at a point, and whether that is a special case; `None` outside the region.
    pub fn instance(&self, point: &[i64]) -> Option<(UnplacedPlan, bool)> {
        if !self.covers(point) {
            return None;
        }
        let data: Option<Vec<(usize, Datum)>> =
            self.varying.iter().map(|(at, expr)| Some((*at, expr.at(point)?))).collect();
        let mut data = data?.into_iter().peekable();
        let mut is_special = false;
        let (mut unplaced, mut index, mut sound) = (self.unplaced.clone(), 0, true);
        unplaced.numbers(&mut |number| {
            if let Some((_, datum)) = data.next_if(|(at, _)| *at == index) {
                is_special |= matches!(number, Number::Size(_)) && datum.is_small();
                sound &= datum.put(number).is_some();
            }
            index += 1;
        });
        (sound && unplaced.is_guarded()).then_some((unplaced, is_special))
    }
}
/// The plan with zeros for its numbers, and these. Its values are numbered as they come: a window of a tensor may be another number
/// of nodes from place to place.
pub fn taken_apart(mut unplaced: UnplacedPlan) -> (UnplacedPlan, Option<Vec<Datum>>) {
    let mut numbers = Some(Vec::new());
    unplaced.numbers(&mut |number| {
        match (Datum::of(&number), &mut numbers) {
            (Some(datum), Some(list)) => list.push(datum),
            _ => numbers = None,
        }
        match number {
            Number::Int(n) | Number::Size(n) => *n = 0,
            Number::Bytes(n) => *n = 0,
            Number::Float(x) => *x = 0.0,
        }
    });
    let mut values = HashMap::new();
    for step in unplaced.steps_mut() {
        step.site = 0;
        for value in step.reads_of.iter_mut().chain(&mut step.results_of) {
            let next = ValueId(values.len() as u32);
            *value = *values.entry(*value).or_insert(next);
        }
    }
    (unplaced, numbers)
}

/// How two unplaced plans for one trace differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    /// The same kernels in the same order: one of the plans is wrong.
    OtherNumbers,
    OtherKernels,
}

pub fn compare(a: &UnplacedPlan, b: &UnplacedPlan) -> Comparison {
    let ((a, its), (b, others)) = (taken_apart(a.clone()), taken_apart(b.clone()));
    match (a == b, its == others) {
        (true, true) => Comparison::Equal,
        (true, false) => Comparison::OtherNumbers,
        (false, _) => Comparison::OtherKernels,
    }
}
