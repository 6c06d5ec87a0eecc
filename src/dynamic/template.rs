//! A plan whose numbers are polynomials in the symbols of its family.

use super::Planner;
use super::expr::{Datum, Expr, Finder};
use super::possible::{LARGEST, at_point, last_possible, said};
use super::shares;
use super::symbol_map::SymbolMap;
use crate::graph::ValueId;
use crate::number::{Number, Numbers};
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::record::Records;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Sizes up to so many times that of the trace in hand are tried.
pub const FARTHER: i64 = 8;
/// Sizes below are programs of their own: they broadcast, or there is nothing to compute.
pub const SMALLEST: i64 = 2;
/// How many sizes are tried between one with the same plan and one with another.
const HALVES: usize = 6;
/// How often a region is made smaller that has other plans inside, or numbers that go by steps.
const SHRINKS: usize = 3;
/// Where else to look when a point has a plan of its own.
const NEIGHBOURS: [i64; 3] = [0, 1, -1];
/// Points that must agree beyond those that determine a polynomial.
const SPARE: usize = 2;
/// Points close by that many sizes are tried at first.
const NEARBY: usize = 3;
/// Of so many symbols at the most it is asked for each how far it can go.
const PROBED: usize = 32;

/// The plan of a family between two points, borders included.
pub struct Template {
    lowest: Vec<i64>,
    highest: Vec<i64>,
    unplaced: UnplacedPlan,
    pub decisions: PlanDecisions,
    /// Which of the plan's numbers vary.
    varying: Vec<(usize, Expr)>,
}

impl Template {
    /// Plans the family at points around `base`, whose plan is `unplaced`, by its decisions; as far away as that gives the
    /// same plan but for numbers, and these are polynomials. `None` if that is nowhere.
    pub fn new(
        symbol_map: &SymbolMap,
        base: &[i64],
        records: &Records,
        unplaced: &UnplacedPlan,
        decisions: &PlanDecisions,
        planner: Planner,
    ) -> Option<Template> {
        let mut probe = Probe::new(symbol_map, records, unplaced, decisions, planner, base);
        if symbol_map.remainders().next().is_some() {
            return (0..SHRINKS as u32).find_map(|shrunk| {
                let points = shares::points(symbol_map, base, shrunk)?;
                let (lowest, highest) = border(&points);
                probe.through(points, &lowest, &highest)
            });
        }
        let many = symbol_map.has_many();
        let (mut lowest, mut highest) =
            if many { probe.common_region(base) } else { probe.region(base) };
        for _ in 0..SHRINKS {
            if lowest == highest {
                return None;
            }
            let mut points = match many {
                true => scattered(base, &lowest, &highest),
                false => inside(base, &lowest, &highest),
            };
            points.iter_mut().try_for_each(|point| symbol_map.settle(point))?;
            let found = probe.through(points, &lowest, &highest);
            if found.is_some() {
                return found;
            }
            for s in 0..base.len() {
                lowest[s] = between(base[s], lowest[s]);
                highest[s] = between(base[s], highest[s]);
            }
            symbol_map.settle(&mut lowest)?;
            symbol_map.settle(&mut highest)?;
        }
        None
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

    /// The unplaced plan at a point; `None` outside the region.
    pub fn instance(&self, point: &[i64]) -> Option<UnplacedPlan> {
        if !self.covers(point) {
            return None;
        }
        let data: Option<Vec<(usize, Datum)>> =
            self.varying.iter().map(|(at, expr)| Some((*at, expr.at(point)?))).collect();
        let mut data = data?.into_iter().peekable();
        let (mut unplaced, mut index, mut sound) = (self.unplaced.clone(), 0, true);
        unplaced.numbers(&mut |number| {
            if let Some((_, datum)) = data.next_if(|(at, _)| *at == index) {
                sound &= datum.put(number).is_some();
            }
            index += 1;
        });
        sound.then_some(unplaced)
    }
}

/// Plans at chosen points, each once.
struct Probe<'a> {
    symbol_map: &'a SymbolMap,
    records: &'a Records,
    planner: Planner<'a>,
    unplaced: &'a UnplacedPlan,
    decisions: &'a PlanDecisions,
    structure: UnplacedPlan,
    /// The numbers of the plan at a point, if it has the structure.
    known: HashMap<Vec<i64>, Option<Vec<Datum>>>,
}

impl<'a> Probe<'a> {
    fn new(
        symbol_map: &'a SymbolMap,
        records: &'a Records,
        unplaced: &'a UnplacedPlan,
        decisions: &'a PlanDecisions,
        planner: Planner<'a>,
        base: &[i64],
    ) -> Probe<'a> {
        let (structure, numbers) = taken_apart(unplaced.clone());
        let known = HashMap::from([(base.to_vec(), numbers)]);
        Probe { symbol_map, records, planner, unplaced, decisions, structure, known }
    }

    /// Whether the plan at a point is that of the base but for numbers.
    fn agrees(&mut self, point: &[i64]) -> bool {
        if !self.known.contains_key(point) {
            let numbers = self.plan(point);
            self.known.insert(point.to_vec(), numbers);
        }
        self.known[point].is_some()
    }

    /// The point, or a neighbour that agrees, each symbol farther from it than the one before. Single sizes have plans of their
    /// own: a power of two divides otherwise, equal sizes may be one.
    fn agreeing(&mut self, point: &[i64], lowest: &[i64], highest: &[i64]) -> Option<Vec<i64>> {
        let moved = |by: &i64| -> Option<Vec<i64>> {
            let value = |s: usize| point[s] + by * (s as i64 + 1);
            let clamped = |s: usize| value(s).clamp(lowest[s], highest[s]);
            let mut moved: Vec<i64> = (0..point.len()).map(clamped).collect();
            self.symbol_map.settle(&mut moved).map(|()| moved)
        };
        let moved: Vec<Vec<i64>> = NEIGHBOURS.iter().filter_map(moved).collect();
        moved.into_iter().find(|point| self.agrees(point))
    }

    fn plan(&self, point: &[i64]) -> Option<Vec<Datum>> {
        let records = at_point(self.symbol_map, self.records, point)?;
        // Sizes that nobody asked for must not fail a program that is planned already.
        let planned = catch_unwind(AssertUnwindSafe(|| (self.planner)(&records, self.decisions)));
        let (structure, numbers) = taken_apart(planned.ok()?.ok()?);
        numbers.filter(|_| structure == self.structure)
    }

    /// A box around the base: along each symbol alone, as far as the plan stays the same.
    fn region(&mut self, base: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let (mut lowest, mut highest) = (base.to_vec(), base.to_vec());
        for s in self.symbol_map.independent() {
            let (least, most) = self.range(base, s);
            let top = self.last_possible(base, s, most);
            highest[s] = self.farthest(base, s, top);
            let bottom = self.last_possible(base, s, least);
            lowest[s] = self.farthest(base, s, bottom);
        }
        // What they make of others lies between what their ends do.
        for end in [&mut lowest, &mut highest] {
            if self.symbol_map.settle(end).is_none() {
                return (base.to_vec(), base.to_vec());
            }
        }
        (lowest, highest)
    }

    /// A box around the base of many symbols, with all of them on the way to their ends: a number of times the largest, or as
    /// far as memory allows, and the smallest there is; as far as the plan stays the same. (Each alone would take too many
    /// plans.)
    fn common_region(&mut self, base: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let count = base.len();
        if self.is_special(base) {
            return (base.to_vec(), base.to_vec());
        }
        let largest = base.iter().max().map_or(0, |n| n.saturating_mul(FARTHER));
        let least = |s: usize| self.symbol_map.least(s);
        let lowest: Vec<i64> = (0..count).map(least).collect();
        let [lowest, highest] = [(lowest, 1), (vec![largest; count], -1)].map(|(ends, inwards)| {
            let limit = |s: usize| match count <= PROBED {
                true => self.last_possible(base, s, ends[s]),
                false => ends[s],
            };
            let limits: Vec<i64> = (0..count).map(limit).collect();
            // At its own end a size may have a plan of its own, as a slice has that is all there is.
            for from_end in 0..=1 {
                let inside = |s: usize| limits[s] + inwards * (turned(s, 0, count) + from_end);
                let mut point: Vec<i64> = (0..count).map(inside).collect();
                if self.symbol_map.settle(&mut point).is_some() && self.agrees(&point) {
                    return if from_end == 0 { limits } else { point };
                }
            }
            let mut point = limits;
            for _ in 1..HALVES {
                point = base.iter().zip(&point).map(|(&n, &far)| between(n, far)).collect();
                if self.symbol_map.settle(&mut point).is_some() && self.agrees(&point) {
                    return point;
                }
            }
            base.to_vec()
        });
        // An end on which all sizes differ may lie beyond a small one.
        let border = |of: fn(i64, i64) -> i64, end: Vec<i64>| {
            base.iter().zip(end).map(|(&n, end)| of(n, end)).collect()
        };
        (border(i64::min, lowest), border(i64::max, highest))
    }

    /// Whether points close by, at which all of many sizes are others, have other plans: those of the base may be equal.
    fn is_special(&mut self, base: &[i64]) -> bool {
        let count = base.len();
        let differs = |turn: usize| {
            let near = |s: usize| {
                let next = base[s] + 1 + (turn as i64 + 1) * turned(s, turn, count);
                if count <= PROBED { self.last_possible(base, s, next) } else { next }
            };
            let mut point: Vec<i64> = (0..count).map(near).collect();
            // Each may be possible, but not all of them.
            let point = self.symbol_map.settle(&mut point).map(|()| self.reachable(base, &point));
            point.is_some_and(|point| point != base && !self.agrees(&point))
        };
        (0..NEARBY).all(differs)
    }

    /// Between which values a symbol will be: as the program says, else any size that is not very much larger; a slice may begin
    /// anywhere.
    fn range(&self, base: &[i64], s: usize) -> (i64, i64) {
        let said = said(self.symbol_map, self.records, base, s);
        let smallest = self.symbol_map.least(s);
        let farther = || match self.symbol_map.is_offset(s) {
            true => LARGEST,
            false => base[s].saturating_mul(FARTHER),
        };
        let (least, most) = said.unwrap_or_else(|| (smallest, farther()));
        (least.clamp(smallest, base[s]), most.max(base[s]))
    }

    /// The value of symbol `s` nearest to `limit` for which there can be such a trace.
    fn last_possible(&self, base: &[i64], s: usize, limit: i64) -> i64 {
        let possible = |value| {
            let point = self.with(base, s, value);
            at_point(self.symbol_map, self.records, &point).is_some()
        };
        last_possible(&possible, base[s], limit)
    }

    /// The value of symbol `s` nearest to `limit` that was found to have the same plan.
    fn farthest(&mut self, base: &[i64], s: usize, limit: i64) -> i64 {
        let (mut near, mut far) = (base[s], limit);
        let mut value = limit;
        for _ in 0..HALVES {
            let [point, least, most] =
                [value, near.min(far), near.max(far)].map(|value| self.with(base, s, value));
            match self.agreeing(&point, &least, &most) {
                Some(point) => near = point[s],
                None => far = value,
            }
            value = between(near, far);
            if near.abs_diff(limit) <= 2 || value == near || value == far {
                break;
            }
        }
        near
    }

    /// The point with another value of a symbol, and of those that follow from it; the point itself beyond 64 bits.
    fn with(&self, point: &[i64], s: usize, value: i64) -> Vec<i64> {
        let mut moved = with(point, s, value);
        self.symbol_map.settle(&mut moved).map_or_else(|| point.to_vec(), |()| moved)
    }

    /// The template between these points, or neighbours of them that agree.
    fn through(
        &mut self,
        points: Vec<Vec<i64>>,
        lowest: &[i64],
        highest: &[i64],
    ) -> Option<Template> {
        let base = points[0].clone();
        let agreeing: Option<Vec<Vec<i64>>> = (points.iter())
            .map(|point| self.agreeing(&self.reachable(&base, point), lowest, highest))
            .collect();
        agreeing
            .filter(|points| has_neighbours(self.symbol_map, &base, points))
            .and_then(|points| self.template(points))
    }

    /// The point, or where there can be no such trace (a slice ends beyond its tensor), one on the way to the base; on its other
    /// side for a neighbour.
    fn reachable(&self, base: &[i64], point: &[i64]) -> Vec<i64> {
        let away: Vec<i64> = point.iter().zip(base).map(|(to, from)| to - from).collect();
        let is_next = away.iter().all(|n| n.abs() <= 1);
        let halves = (0..=HALVES).map(|n| 1 << n).chain(is_next.then_some(-1));
        let at = |part: i64| -> Option<Vec<i64>> {
            let mut near: Vec<i64> =
                base.iter().zip(&away).map(|(n, far)| n + far / part).collect();
            self.symbol_map.settle(&mut near)?;
            let is_large = (0..near.len()).all(|s| near[s] >= self.symbol_map.least(s));
            let is_one = near != base && (part > 0 || is_large);
            (is_one && at_point(self.symbol_map, self.records, &near).is_some()).then_some(near)
        };
        halves.into_iter().find_map(at).unwrap_or_else(|| base.to_vec())
    }

    /// The template between these points, which agree.
    fn template(&self, mut points: Vec<Vec<i64>>) -> Option<Template> {
        points.sort();
        points.dedup();
        let (lowest, highest) = border(&points);
        let data: Vec<&Vec<Datum>> =
            points.iter().map(|point| self.known[point].as_ref()).collect::<Option<_>>()?;
        let mut finder = Finder::new(self.symbol_map.fitter(&points, SPARE));
        let mut varying = Vec::new();
        for at in 0..data[0].len() {
            let values: Vec<Datum> = data.iter().map(|numbers| numbers[at]).collect();
            if values.iter().any(|value| *value != values[0]) {
                varying.push((at, finder.find(&values)?));
            }
        }
        let (unplaced, decisions) = (self.unplaced.clone(), self.decisions.clone());
        Some(Template { lowest, highest, unplaced, decisions, varying })
    }
}

/// The plan with zeros for its numbers, and these. Its values are numbered as they come: a window of a tensor may be another number
/// of nodes from place to place.
fn taken_apart(mut unplaced: UnplacedPlan) -> (UnplacedPlan, Option<Vec<Datum>>) {
    let mut numbers = Some(Vec::new());
    unplaced.numbers(&mut |number| {
        match (Datum::of(&number), &mut numbers) {
            (Some(datum), Some(list)) => list.push(datum),
            _ => numbers = None,
        }
        match number {
            Number::Int(n) => *n = 0,
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

/// The smallest and the largest values of each symbol.
fn border(points: &[Vec<i64>]) -> (Vec<i64>, Vec<i64>) {
    let of = |of: fn(i64, i64) -> i64| -> Vec<i64> {
        (0..points[0].len()).map(|s| points.iter().map(|p| p[s]).reduce(of).unwrap_or(0)).collect()
    };
    (of(i64::min), of(i64::max))
}

/// Whether two sizes that follow each other agree, for every symbol that varies: else it may be every other one only.
fn has_neighbours(symbol_map: &SymbolMap, base: &[i64], points: &[Vec<i64>]) -> bool {
    symbol_map.independent().all(|s| {
        let all_one = points.iter().all(|p| p[s] == base[s]);
        all_one || points.iter().any(|p| points.iter().any(|q| p[s] + 1 == q[s]))
    })
}

fn with(point: &[i64], s: usize, value: i64) -> Vec<i64> {
    let mut moved = point.to_vec();
    moved[s] = value;
    moved
}

/// Half of the way from `near` to `far`, by ratio.
fn between(near: i64, far: i64) -> i64 {
    ((near as f64 * far as f64).sqrt().round() as i64).clamp(near.min(far), near.max(far))
}

/// Points that show what a number does in a box: its corners, neighbours (for what goes by steps), and the middle.
fn inside(base: &[i64], lowest: &[i64], highest: &[i64]) -> Vec<Vec<i64>> {
    let middle = |s: usize| between(lowest[s], highest[s]);
    let of = |f: &dyn Fn(usize) -> i64| (0..base.len()).map(f).collect::<Vec<i64>>();
    let clamp = |s: usize, value: i64| value.clamp(lowest[s], highest[s]);
    let mut points = vec![
        base.to_vec(),
        of(&|s| clamp(s, base[s] + 1)),
        lowest.to_vec(),
        highest.to_vec(),
        of(&|s| clamp(s, lowest[s] + 1)),
        of(&|s| clamp(s, highest[s] - 1)),
        of(&middle),
    ];
    for s in 0..base.len() {
        // Apart from one another: corners, and different ways in.
        points.push(with(highest, s, lowest[s]));
        points.push(with(lowest, s, highest[s]));
        points.push(with(base, s, middle(s)));
        points.push(with(&of(&middle), s, clamp(s, base[s] + 2)));
    }
    points
}

/// How many points there are at each end of a box of many symbols, and within it.
pub const AT_ENDS: usize = 4;
const WITHIN: u64 = 8;

/// A number below `count` for each of so many symbols, another one in each turn: sizes that are equal may have a plan of their own.
pub fn turned(s: usize, turn: usize, count: usize) -> i64 {
    ((s + turn * count.div_ceil(AT_ENDS)) % count) as i64
}

/// Points of a box of many symbols: its ends, and some in which each symbol is somewhere else.
fn scattered(base: &[i64], lowest: &[i64], highest: &[i64]) -> Vec<Vec<i64>> {
    let count = base.len();
    let of = |f: &dyn Fn(usize) -> i64| -> Vec<i64> {
        (0..count).map(|s| f(s).clamp(lowest[s], highest[s])).collect()
    };
    let mut points = vec![base.to_vec(), of(&|s| base[s] + 1)];
    for turn in 0..AT_ENDS {
        points.push(of(&|s| lowest[s] + turned(s, turn, count)));
        points.push(of(&|s| highest[s] - turned(s, turn, count)));
    }
    points.extend((0..WITHIN).map(|n| {
        of(&|s| {
            let drawn = xxh3_64_with_seed(&s.to_le_bytes(), n);
            lowest[s] + (drawn % (highest[s] - lowest[s] + 1) as u64) as i64
        })
    }));
    points
}
