//! A plan whose numbers are polynomials in the symbols of its family.

use super::proved::Proved;
use crate::graph::ValueId;
use crate::number::{Number, Numbers};
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::symbolic::{Datum, Expr};
use std::collections::HashMap;

/// The plan of a family between two points, both included.
pub struct Template {
    pub lowest: Vec<i64>,
    pub highest: Vec<i64>,
    pub proved: Proved,
    pub unplaced: UnplacedPlan,
    pub decisions: PlanDecisions,
    /// The plan's numbers that vary, by position.
    pub varying: Vec<(usize, Expr)>,
}

impl Template {
    /// Number of steps in its plan.
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

/// The plan with zeros for its numbers, and the numbers. Its values are numbered in order of appearance: a window of a tensor may
/// take another number of nodes at another place.
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
    /// The same kernels in the same order, with other numbers: one of the plans is wrong.
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
