//! The region in which the plan of a family stays the same but for numbers: it is planned at chosen points, and its numbers are
//! fitted.

use super::Planner;
use super::possible::{LARGEST, at_point, last_possible, said};
use super::proved::Proved;
use super::sampling::{
    FARTHER, between, border, has_neighbours, inside, keep_apart, scattered, turned, with,
};
use super::symbol_map::SymbolMap;
use super::template::{Template, taken_apart};
use crate::number::{Number, Numbers};
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::record::Records;
use crate::symbolic::{Datum, Finder};
use crate::thread;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of sizes tried between one with the same plan and one with another.
const HALVES: usize = 6;
/// Where else to look when a point has a plan of its own.
const NEIGHBOURS: [i64; 3] = [0, 1, -1];
/// Number of points that must agree beyond those that determine a polynomial.
const SPARE: usize = 2;
/// Number of points close by that are tried at first where many sizes vary.
const NEARBY: usize = 3;
/// Up to this many symbols, the limits of each are determined.
const PROBED: usize = 32;
/// Number of parts into which the way to an impossible point is cut.
const PARTS: i64 = 1 << HALVES;
/// Number of times a region is made smaller that has other plans inside, or numbers that go by steps.
pub const SHRINKS: usize = 3;

/// Plans at chosen points, each once.
pub struct Probe<'a> {
    symbol_map: &'a SymbolMap,
    records: &'a Records,
    planner: Planner<'a>,
    unplaced: &'a UnplacedPlan,
    decisions: &'a PlanDecisions,
    structure: UnplacedPlan,
    /// The numbers of the plan at a point, if it has the structure.
    known: HashMap<Vec<i64>, Option<Vec<Datum>>>,
    /// The margins of the plan's guards at other points, as far as they are known.
    guards: Vec<Line>,
}

/// A guard's margin as a line in each symbol: exact where views begin at multiples of the symbols, and otherwise only a guess at
/// where planning is worthwhile.
struct Line {
    /// The margin at the base.
    margin: i64,
    slopes: Vec<i64>,
}

impl Line {
    fn at(&self, base: &[i64], point: &[i64]) -> i64 {
        let moved = |((to, from), slope): ((&i64, &i64), &i64)| (to - from).saturating_mul(*slope);
        let terms = point.iter().zip(base).zip(&self.slopes).map(moved);
        terms.fold(self.margin, i64::saturating_add)
    }
}

impl<'a> Probe<'a> {
    pub fn new(
        symbol_map: &'a SymbolMap,
        records: &'a Records,
        unplaced: &'a UnplacedPlan,
        decisions: &'a PlanDecisions,
        planner: Planner<'a>,
        base: &[i64],
    ) -> Probe<'a> {
        let (structure, numbers) = taken_apart(unplaced.clone());
        let known = HashMap::from([(base.to_vec(), numbers)]);
        Probe {
            symbol_map,
            records,
            planner,
            unplaced,
            decisions,
            structure,
            known,
            guards: Vec::new(),
        }
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
    /// own: a power of two divides differently, equal sizes may be one.
    fn agreeing(&mut self, point: &[i64], lowest: &[i64], highest: &[i64]) -> Option<Vec<i64>> {
        let moved = |by: &i64| self.moved(point, *by, lowest, highest);
        let moved: Vec<Vec<i64>> = NEIGHBOURS.iter().filter_map(moved).collect();
        moved.into_iter().find(|point| self.agrees(point))
    }

    /// A neighbour of the point within a box.
    fn moved(&self, point: &[i64], by: i64, lowest: &[i64], highest: &[i64]) -> Option<Vec<i64>> {
        let value = |s: usize| point[s] + by * (s as i64 + 1);
        let clamped = |s: usize| value(s).clamp(lowest[s], highest[s]);
        let mut moved: Vec<i64> = (0..point.len()).map(clamped).collect();
        self.symbol_map.settle(&mut moved).map(|()| moved)
    }

    fn plan(&self, point: &[i64]) -> Option<Vec<Datum>> {
        let records = at_point(self.symbol_map, self.records, point)?;
        // Sizes that the program did not ask for must not fail it once it is planned.
        let planned = catch_unwind(AssertUnwindSafe(|| (self.planner)(&records, self.decisions)));
        let (structure, numbers) = taken_apart(planned.ok()?.ok()?);
        numbers.filter(|_| structure == self.structure)
    }

    /// A box around the base: along each symbol alone, as far as the plan stays the same.
    pub fn region(&mut self, base: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let (mut lowest, mut highest, mut bounded) = (base.to_vec(), base.to_vec(), Vec::new());
        for s in self.symbol_map.independent() {
            let (least, most) = self.range(base, s);
            let top = self.last_possible(base, s, most);
            highest[s] = self.farthest(base, s, top);
            let bottom = self.last_possible(base, s, least);
            lowest[s] = self.farthest(base, s, bottom);
            let is_end = |end, limit, said| end == limit && limit != said;
            if is_end(highest[s], top, most) || is_end(lowest[s], bottom, least) {
                bounded.push(s);
            }
        }
        self.guards = self.lines(base, &lowest, &highest);
        if !self.guards.is_empty() {
            bounded = self.symbol_map.independent().collect();
        }
        self.widen(base, &bounded, &mut lowest, &mut highest);
        // The symbols that follow from these lie between their values at the ends.
        for end in [&mut lowest, &mut highest] {
            if self.symbol_map.settle(end).is_none() {
                return (base.to_vec(), base.to_vec());
            }
        }
        (lowest, highest)
    }

    /// The guards' margins, as far as they are lines in the symbols, by the ends of each symbol alone.
    fn lines(&self, base: &[i64], lowest: &[i64], highest: &[i64]) -> Vec<Line> {
        let count = self.unplaced.guards().len();
        let margins = |point: &[i64]| -> Option<Vec<i64>> {
            let numbers = self.known.get(point)?.as_ref()?;
            let ints = numbers[numbers.len() - count..].iter().map(|datum| match datum {
                Datum::Int(n) => *n,
                Datum::Float(_) => unreachable!("a guard is an integer"),
            });
            Some(ints.collect())
        };
        let Some(at_base) = margins(base) else { return Vec::new() };
        let mut lines: Vec<Line> =
            at_base.iter().map(|&margin| Line { margin, slopes: vec![0; base.len()] }).collect();
        for s in self.symbol_map.independent() {
            let ends = [lowest[s], highest[s]].into_iter().filter(|&end| end != base[s]);
            let mut far = ends.filter_map(|end| Some((end, margins(&self.with(base, s, end))?)));
            let Some((end, margins)) = far.next() else { continue };
            for (line, margin) in lines.iter_mut().zip(margins) {
                line.slopes[s] = (margin - line.margin) / (end - base[s]);
            }
        }
        lines
    }

    /// Whether no guard is known to fail.
    fn is_guarded(&self, base: &[i64], point: &[i64]) -> bool {
        self.guards.iter().all(|line| line.at(base, point) >= 0)
    }

    /// Widens a box along the symbols that others bound, by the values that are possible where these are at their ends: a slice
    /// of more memory can be longer, and go farther where the one after it has made room.
    fn widen(&mut self, base: &[i64], bounded: &[usize], lowest: &mut [i64], highest: &mut [i64]) {
        let ends = [lowest.to_vec(), highest.to_vec()];
        let independent: Vec<usize> = self.symbol_map.independent().collect();
        for &s in bounded {
            let (least, most) = self.range(base, s);
            let others = independent.iter().filter(|&&t| t != s);
            for (&t, end) in others.flat_map(|t| ends.iter().map(move |end| (t, end))) {
                let from = self.with(base, t, end[t]);
                for limit in [least, most] {
                    let is_possible = |value| {
                        let point = self.with(&from, s, value);
                        let has_trace =
                            || at_point(self.symbol_map, self.records, &point).is_some();
                        self.is_guarded(base, &point) && has_trace()
                    };
                    let limit = last_possible(&is_possible, base[s], limit);
                    if !(lowest[s]..=highest[s]).contains(&limit) {
                        let far = self.farthest(&from, s, limit);
                        lowest[s] = lowest[s].min(far);
                        highest[s] = highest[s].max(far);
                    }
                }
            }
        }
    }

    /// A box around the base of many symbols, with all of them moved to their ends together: a multiple of the largest, or as
    /// far as memory allows, and the smallest there is; as far as the plan stays the same. (Each alone would take too many
    /// plans.)
    pub fn common_region(&mut self, base: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let count = base.len();
        let largest = base.iter().max().map_or(0, |n| n.saturating_mul(FARTHER));
        let least = |s: usize| self.symbol_map.least(s);
        let lowest: Vec<i64> = (0..count).map(least).collect();
        let [lowest, highest] = [(lowest, 1), (vec![largest; count], -1)].map(|(ends, inwards)| {
            let limit = |s: usize| match count <= PROBED {
                true => self.last_possible(base, s, ends[s]),
                false => ends[s],
            };
            let limits: Vec<i64> = (0..count).map(limit).collect();
            // At its own end a size may have a plan of its own, as a slice of the whole has.
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
                keep_apart(base, &mut point);
                if self.symbol_map.settle(&mut point).is_some() && self.agrees(&point) {
                    return point;
                }
            }
            base.to_vec()
        });
        // An end at which all sizes differ may lie beyond a small size of the base.
        let border = |of: fn(i64, i64) -> i64, end: Vec<i64>| {
            base.iter().zip(end).map(|(&n, end)| of(n, end)).collect()
        };
        (border(i64::min, lowest), border(i64::max, highest))
    }

    /// Whether points close by, which differ from the base in all of many sizes, have other plans: sizes of the base may be
    /// equal.
    pub fn is_special(&mut self, base: &[i64]) -> bool {
        let count = base.len();
        let differs = |turn: usize| {
            let near = |s: usize| {
                let next = base[s] + 1 + (turn as i64 + 1) * turned(s, turn, count);
                if count <= PROBED { self.last_possible(base, s, next) } else { next }
            };
            let mut point: Vec<i64> = (0..count).map(near).collect();
            // Each size may be possible, but not all of them together.
            let point = self.symbol_map.settle(&mut point).map(|()| self.reachable(base, &point));
            point.is_some_and(|point| point != base && !self.agrees(&point))
        };
        (0..NEARBY).all(differs)
    }

    /// The range of a symbol: as the program declares it, else any size that is not very much larger; a slice may begin
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

    /// The value of symbol `s` nearest to `limit` for which a trace is possible.
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

    /// The point with another value of a symbol, and of the symbols that follow from it; the point itself beyond 64 bits.
    fn with(&self, point: &[i64], s: usize, value: i64) -> Vec<i64> {
        let mut moved = with(point, s, value);
        self.symbol_map.settle(&mut moved).map_or_else(|| point.to_vec(), |()| moved)
    }

    /// The template of a region, or of a smaller one if it has other plans inside.
    pub fn within(
        &mut self,
        (mut lowest, mut highest): (Vec<i64>, Vec<i64>),
        base: &[i64],
    ) -> Option<Template> {
        for _ in 0..SHRINKS {
            if lowest == highest {
                return None;
            }
            let mut points = match self.symbol_map.has_many() {
                true => scattered(base, &lowest, &highest),
                false => inside(base, &lowest, &highest),
            };
            points.iter_mut().try_for_each(|point| self.symbol_map.settle(point))?;
            let found = self.through(points, &lowest, &highest);
            if found.is_some() {
                return found;
            }
            for s in 0..base.len() {
                lowest[s] = between(base[s], lowest[s]);
                highest[s] = between(base[s], highest[s]);
            }
            self.symbol_map.settle(&mut lowest)?;
            self.symbol_map.settle(&mut highest)?;
        }
        None
    }

    /// The template between these points, or neighbours of them that agree.
    pub fn through(
        &mut self,
        points: Vec<Vec<i64>>,
        lowest: &[i64],
        highest: &[i64],
    ) -> Option<Template> {
        let base = points[0].clone();
        let mut agreeing = Vec::with_capacity(points.len());
        for pair in points.chunks(2) {
            let pair: Vec<Vec<i64>> = pair.iter().map(|to| self.reachable(&base, to)).collect();
            self.plan_both(&pair, lowest, highest);
            for point in pair {
                agreeing.push(self.agreeing(&point, lowest, highest)?);
            }
        }
        let has_neighbours = has_neighbours(self.symbol_map, &base, &agreeing);
        if has_neighbours { self.template(agreeing) } else { None }
    }

    /// Plans two points at once, if neither is known: programs wait for the result.
    fn plan_both(&mut self, pair: &[Vec<i64>], lowest: &[i64], highest: &[i64]) {
        let is_new = |point: &Vec<i64>| !self.known.contains_key(point);
        let own = |point: &Vec<i64>| self.moved(point, 0, lowest, highest).filter(is_new);
        if let [Some(a), Some(b)] = &pair.iter().map(own).collect::<Vec<_>>()[..]
            && a != b
        {
            let (of_a, of_b) = thread::join(|| self.plan(a), || self.plan(b));
            self.known.extend([(a.clone(), of_a), (b.clone(), of_b.flatten())]);
        }
    }

    /// The point, or if no such trace is possible (a slice ends beyond its tensor), one on the way to the base; for a neighbour
    /// of the base, one on the base's other side.
    fn reachable(&self, base: &[i64], point: &[i64]) -> Vec<i64> {
        let away: Vec<i64> = point.iter().zip(base).map(|(to, from)| to - from).collect();
        let is_next = away.iter().all(|n| n.abs() <= 1);
        let at = |part: i64| -> Option<Vec<i64>> {
            let mut near: Vec<i64> =
                base.iter().zip(&away).map(|(n, far)| n + far * part / PARTS).collect();
            self.symbol_map.settle(&mut near)?;
            let is_large = (0..near.len()).all(|s| near[s] >= self.symbol_map.least(s));
            let is_one = near != base && (part > 0 || is_large);
            let is_one = is_one && self.is_guarded(base, &near);
            (is_one && at_point(self.symbol_map, self.records, &near).is_some()).then_some(near)
        };
        // As far as possible, so that changes on the way there are seen.
        let farthest = last_possible(&|part| part == 0 || at(part).is_some(), 0, PARTS);
        let other_side = || is_next.then(|| at(-PARTS)).flatten();
        at(farthest).or_else(other_side).unwrap_or_else(|| base.to_vec())
    }

    /// The template between these points, which agree.
    fn template(&self, mut points: Vec<Vec<i64>>) -> Option<Template> {
        points.sort();
        points.dedup();
        let (lowest, highest) = border(&points);
        let numbers = |point: &Vec<i64>| self.known[point].as_ref();
        let first = numbers(&points[0])?;
        let all: Vec<&Vec<Datum>> = points.iter().map(numbers).collect::<Option<_>>()?;
        let varies = |at: &usize| all.iter().any(|numbers| numbers[*at] != first[*at]);
        let varying: Vec<usize> = (0..first.len()).filter(varies).collect();
        let mut is_size = Vec::new();
        self.unplaced.clone().numbers(&mut |n| is_size.push(matches!(n, Number::Size(_))));
        // A part of one element has other strides than all larger ones.
        let is_special = |point: &Vec<i64>| {
            let is_small = |data: &Vec<Datum>, at: usize| is_size[at] && data[at].is_small();
            numbers(point).is_some_and(|data| varying.iter().any(|&at| is_small(data, at)))
        };
        points.sort_by_key(is_special);
        let general = points.partition_point(|point| !is_special(point));
        if general == 0 {
            return None;
        }
        let mut finder = Finder::new(self.symbol_map.fitter(&points, general, SPARE));
        let mut find = |at: usize| {
            let values: Option<Vec<Datum>> =
                points.iter().map(|point| Some(numbers(point)?[at])).collect();
            Some((at, finder.find(&values?)?))
        };
        let varying = varying.into_iter().map(&mut find).collect::<Option<_>>()?;
        let (unplaced, decisions) = (self.unplaced.clone(), self.decisions.clone());
        let proved = Proved::new(&points[..general]);
        Some(Template { lowest, highest, proved, unplaced, decisions, varying })
    }
}
