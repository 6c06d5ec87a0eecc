//! Which sizes of a trace vary, and how its other numbers depend on them: fitted to examples, verified at each use.

use super::basis::{Basis, ENOUGH, FEW};
use super::fitted::{FittedNumbers, PARTS};
use super::floor::Floor;
use super::relations::{Product, Relations, Role, Sum};
use crate::symbolic::{Fit, Fitter, LineFitter, Poly};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A trace's numbers as polynomials in its symbols.
#[derive(Clone, PartialEq)]
pub struct SymbolMap {
    /// For each symbol, its position among the numbers.
    symbols: Vec<usize>,
    /// For each symbol, the step of the number at its position: a slice of rows begins at a multiple of a row.
    steps: Vec<i64>,
    /// For each symbol, whether it is an offset, which is bounded by the memory.
    offsets: Vec<bool>,
    /// For each symbol, the value below which a trace is a special case.
    least: Vec<i64>,
    /// For each symbol that follows from others, how.
    follows: Vec<Option<Follows>>,
    /// The numbers that do not vary; 0 for the others.
    constants: Vec<i64>,
    /// The numbers that vary: positions and polynomials.
    varying: Vec<(usize, Poly)>,
}

/// How a symbol follows from others.
#[derive(Clone, PartialEq)]
enum Follows {
    Floor(usize, Floor),
    /// By a polynomial in symbols that are settled before it: a whole less its other parts.
    Remainder(Poly),
    /// From none: it is always this value.
    Fixed(i64),
}

impl SymbolMap {
    /// The maps that explain traces of one structure, the likeliest first: of a few sizes; of many, with those that are the same
    /// in all traces where other parts of the same whole, or siblings, are not; without these; without the traces in which a size
    /// is too small to show how others follow from it (a slice that begins at 0). Empty if too few traces are left, or no sizes
    /// explain them.
    pub fn candidates(examples: &[Vec<i64>], relations: &Relations) -> Vec<SymbolMap> {
        let mut found: Vec<SymbolMap> = Vec::new();
        for basis in [
            Basis::few(),
            Basis::many(true, true),
            Basis::many(true, false),
            Basis::many(false, false),
        ] {
            match SymbolMap::of_large(examples, relations, true, basis) {
                Some(symbol_map) if !found.contains(&symbol_map) => found.push(symbol_map),
                _ => {}
            }
        }
        let has_siblings = || !FittedNumbers::new(examples).siblings(relations).is_empty();
        if examples.len() < ENOUGH || has_siblings() {
            // That sizes follow from each other in two traces, or many in some more, may be chance: maps whose sizes vary
            // independently come first, for which no programs exist if the sizes do not.
            found.sort_by_key(|one| Reverse(one.independent().count()));
        }
        found
    }

    /// The likeliest map of a few sizes or of many, with symbols that all vary independently.
    pub fn without_floors(examples: &[Vec<i64>]) -> Option<SymbolMap> {
        let none = Relations::default();
        [Basis::few(), Basis::many(false, false)]
            .into_iter()
            .find_map(|basis| SymbolMap::of_large(examples, &none, false, basis))
    }

    fn of_large(
        examples: &[Vec<i64>],
        relations: &Relations,
        floors: bool,
        basis: Basis,
    ) -> Option<SymbolMap> {
        let mut examples = examples.to_vec();
        while examples.len() > 1 {
            match SymbolMap::fitted(&examples, relations, floors, basis.clone()) {
                Ok(symbol_map) => return symbol_map,
                Err((at, least)) => examples.retain(|numbers| numbers[at] >= least),
            }
        }
        None
    }

    /// Fits all of these. Errors: the position of a symbol that would be too small in one of them, and its least value.
    fn fitted(
        examples: &[Vec<i64>],
        relations: &Relations,
        floors: bool,
        mut basis: Basis,
    ) -> std::result::Result<Option<SymbolMap>, (usize, i64)> {
        let sums: Vec<&Sum> = relations.sums(examples).collect();
        let products = relations.products(examples).filter(|_| basis.is_many());
        let products: HashMap<usize, &Product> = products.map(|p| (p.whole, p)).collect();
        let mut known = FittedNumbers::new(examples);
        let wholes = known.wholes(&sums);
        let mut parts = HashSet::new();
        if basis.is_many() {
            parts.extend(known.parts(&sums));
            parts.extend(known.siblings(relations));
        }
        let floors = floors && parts.is_empty();
        if basis.varies_parts() {
            known.vary(&parts, relations, &sums, &products);
        }
        let mut constants = examples[0].clone();
        let mut varying = known.varying();
        varying.iter().for_each(|&(at, _)| constants[at] = 0);
        let is_negative = |list: &[i64]| list.iter().any(|&n| n < 0);
        varying.sort_by_cached_key(|(at, list)| (is_negative(list), list.clone(), *at));
        let mut symbol_map = SymbolMap {
            symbols: Vec::new(),
            steps: Vec::new(),
            offsets: Vec::new(),
            least: Vec::new(),
            follows: Vec::new(),
            constants,
            varying: Vec::new(),
        };
        // Small numbers first: a size comes before its multiples. No size is negative.
        for (at, list) in varying {
            let role = relations.role(at);
            let product = products.get(&at).and_then(|product| known.by_product(product));
            let is_known = product.or_else(|| known.of(&list));
            let poly = match is_known.or_else(|| known.by_wholes(&wholes, &list)) {
                Some(poly) => poly,
                None => match known.by_sums(&sums, &list) {
                    Some((rest, parts)) if parts >= PARTS => {
                        if !basis.is_many() {
                            return Ok(None);
                        }
                        symbol_map.add(at, 1, Role::Size, Some(Follows::Remainder(rest)));
                        basis.know(Poly::symbol(symbol_map.symbols() - 1), &list)
                    }
                    Some((sum, _)) => basis.know(sum, &list),
                    // A part is on a line with another part by chance only.
                    None => match basis.fit(&list, role).filter(|_| !parts.contains(&list)) {
                        Some(poly) => basis.know(poly, &list),
                        None => {
                            if !basis.takes(role, &list, symbol_map.symbols()) {
                                return Ok(None);
                            }
                            let (least, step) = (role.least(), relations.step(at, examples));
                            let small = list.iter().any(|&n| n < least * step);
                            if small && !basis.shows_small(role) {
                                return Err((at, least * step));
                            }
                            let follows = symbol_map.floor(&known, at, floors && step == 1);
                            symbol_map.add(at, step, role, follows);
                            let point = |example: &Vec<i64>| symbol_map.point(example);
                            let points: Vec<Vec<i64>> = examples.iter().map(point).collect();
                            let new = basis.add(&points, step, &list);
                            let Some(poly) = new else { return Ok(None) };
                            poly
                        }
                    },
                },
            };
            symbol_map.varying.push((at, poly.clone()));
            known.add(list, poly);
        }
        Ok((!symbol_map.symbols.is_empty()).then_some(symbol_map))
    }

    fn add(&mut self, at: usize, step: i64, role: Role, follows: Option<Follows>) {
        self.symbols.push(at);
        self.steps.push(step);
        self.offsets.push(role == Role::Offset);
        self.least.push(role.least());
        self.follows.push(follows);
    }

    /// The symbol from which the number at `at` follows by a division; also notes which symbols follow from that number.
    fn floor(&mut self, known: &FittedNumbers, at: usize, floors: bool) -> Option<Follows> {
        let (new, list) = (self.symbols.len(), known.values(at));
        for s in (0..new).filter(|&s| floors && self.steps[s] == 1) {
            let other = known.values(self.symbols[s]);
            if let Some(floor) = Floor::through(&other, &list) {
                return Some(Follows::Floor(s, floor));
            }
            if self.follows[s].is_none()
                && let Some(floor) = Floor::through(&list, &other)
            {
                self.follows[s] = Some(Follows::Floor(new, floor));
            }
        }
        None
    }

    pub fn symbols(&self) -> usize {
        self.symbols.len()
    }

    /// The symbols that follow from no other one.
    pub fn independent(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.symbols.len()).filter(|&s| self.follows[s].is_none())
    }

    /// The value of a symbol below which a trace is a special case.
    pub fn least(&self, s: usize) -> i64 {
        self.least[s]
    }

    pub fn is_offset(&self, s: usize) -> bool {
        self.offsets[s]
    }

    /// The symbols that are the remainder of a whole, each with the independent other parts.
    pub fn remainders(&self) -> impl Iterator<Item = (usize, Vec<usize>)> + '_ {
        self.follows.iter().enumerate().filter_map(|(s, follows)| match follows {
            Some(Follows::Remainder(poly)) => {
                let is_free = |&part: &usize| self.follows[part].is_none();
                Some((s, poly.subtracted().filter(is_free).collect()))
            }
            _ => None,
        })
    }

    /// Sets the symbols that follow from others. `None` beyond 64 bits.
    pub fn settle(&self, point: &mut [i64]) -> Option<()> {
        let is_fixed = |&s: &usize| matches!(self.follows[s], Some(Follows::Fixed(_)));
        let (fixed, others): (Vec<usize>, Vec<usize>) = (0..point.len()).partition(is_fixed);
        for s in fixed.into_iter().chain(others) {
            point[s] = self.value(s, point)?;
        }
        Some(())
    }

    fn value(&self, s: usize, point: &[i64]) -> Option<i64> {
        match &self.follows[s] {
            Some(Follows::Floor(of, floor)) => floor.at(self.value(*of, point)?),
            Some(Follows::Remainder(poly)) => poly.at(point),
            Some(Follows::Fixed(value)) => Some(*value),
            None => Some(point[s]),
        }
    }

    /// Whether more of its sizes vary than may be related in any way.
    pub fn has_many(&self) -> bool {
        self.independent().count() > FEW
    }

    /// The fitter for numbers of plans at these points, of which the first `general` are not special cases.
    pub fn fitter(&self, points: &[Vec<i64>], general: usize, spare: usize) -> Box<dyn Fit> {
        if self.symbols.len() <= FEW {
            return Box::new(Fitter::new(points, general, spare));
        }
        let mut lines = LineFitter::default();
        let mut known: Vec<&Poly> = Vec::new();
        let symbols: Vec<Poly> = (0..self.symbols()).map(Poly::symbol).collect();
        let polys = self.varying.iter().map(|(_, poly)| poly);
        let primitives: Vec<Poly> = polys.clone().map(Poly::primitive).collect();
        for poly in symbols.iter().chain(polys).chain(&primitives) {
            if !known.contains(&poly)
                && let Some(values) = points.iter().map(|point| poly.at(point)).collect()
            {
                known.push(poly);
                lines.add(poly.clone(), values);
            }
        }
        Box::new(lines)
    }

    /// The symbol that a size in a trace equals up to a constant, and that constant: `T + 1` is `T` and 1.
    pub fn symbol_of(&self, numbers: &[i64], size: i64) -> Option<(usize, i64)> {
        let at =
            |(at, poly): &(usize, Poly)| (numbers[*at] == size).then(|| poly.as_symbol()).flatten();
        self.varying.iter().find_map(at)
    }

    /// The symbols' values in a trace; `None` if one of its numbers does not follow from them.
    pub fn bind(&self, numbers: &[i64]) -> Option<Vec<i64>> {
        let point = self.point(numbers);
        let mut settled = point.clone();
        self.settle(&mut settled)?;
        (settled == point && self.at(&point)? == numbers).then_some(point)
    }

    fn point(&self, numbers: &[i64]) -> Vec<i64> {
        self.symbols
            .iter()
            .zip(&self.steps)
            .map(|(&at, step)| numbers[at].div_euclid(*step))
            .collect()
    }

    /// The map for a trace, and its point, if its numbers follow from its symbols: where some of these are so small that it is a
    /// special case, the map of the traces in which they are just as small.
    pub fn of_case(&self, numbers: &[i64]) -> Option<(SymbolMap, Vec<i64>)> {
        let point = self.bind(numbers)?;
        let mut case = self.clone();
        for s in (0..point.len()).filter(|&s| point[s] < self.least[s]) {
            if let Some(Follows::Remainder(rest)) = &case.follows[s] {
                // Then another part is the remainder.
                let part = rest.subtracted().find(|&p| case.varies_alone(p, &point))?;
                let left = rest.plus(&Poly::symbol(part))?.line(1, -point[s])?;
                let is_settled =
                    |p: usize| matches!(case.follows[p], None | Some(Follows::Fixed(_)));
                if !left.subtracted().all(is_settled) {
                    return None;
                }
                case.follows[part] = Some(Follows::Remainder(left));
            }
            (case.follows[s], case.least[s]) = (Some(Follows::Fixed(point[s])), point[s]);
        }
        let varies = case.independent().next().is_some();
        (varies && case.bind(numbers).is_some()).then_some((case, point))
    }

    fn varies_alone(&self, s: usize, point: &[i64]) -> bool {
        self.follows[s].is_none() && point[s] >= self.least[s]
    }

    /// [`SymbolMap::bind`], but `None` if a symbol is so small that the trace is a special case.
    pub fn bind_general(&self, numbers: &[i64]) -> Option<Vec<i64>> {
        let is_large =
            |point: &Vec<i64>| point.iter().zip(&self.least).all(|(n, least)| n >= least);
        self.bind(numbers).filter(is_large)
    }

    /// The numbers of the trace at a point.
    pub fn at(&self, point: &[i64]) -> Option<Vec<i64>> {
        let mut numbers = self.constants.clone();
        for (at, poly) in &self.varying {
            numbers[*at] = poly.at(point)?;
        }
        Some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(examples: &[Vec<i64>]) -> Option<SymbolMap> {
        SymbolMap::candidates(examples, &Relations::default()).into_iter().next()
    }

    #[test]
    fn one_length_explains_a_trace() {
        let trace = |t: i64| vec![8, t + 1, 8 * (t + 1), 7, t, 384 * t, 6 * t * t];
        let symbol_map = of(&[trace(50), trace(161)]).unwrap();
        assert_eq!(symbol_map.bind(&trace(300)), Some(vec![300]));
        let mut other = trace(300);
        other[5] += 1;
        assert_eq!(symbol_map.bind(&other), None);
    }

    #[test]
    fn two_sizes_are_distinguished_by_a_third_trace() {
        let trace = |b: i64, t: i64| vec![b, t + 1, b * t, b * t * 64, t];
        let symbol_map = of(&[trace(8, 50), trace(6, 161), trace(7, 80)]).unwrap();
        assert_eq!(symbol_map.bind(&trace(3, 999)), Some(vec![3, 999]));
    }

    #[test]
    fn padded_images_are_products_of_sums() {
        let trace = |h: i64, w: i64| {
            let (tall, wide) = (h + 3, w + 3);
            vec![w, h * w, h, wide, tall * wide, 6 * tall * wide, tall]
        };
        let examples = [(8, 12), (9, 13), (10, 11), (12, 16), (14, 15)].map(|(h, w)| trace(h, w));
        let symbol_map = of(&examples).unwrap();
        assert!(symbol_map.bind(&trace(21, 33)).is_some());
    }

    #[test]
    fn a_slice_from_the_start_is_left_out() {
        let trace = |at: i64| vec![35, 64 * at, 7, at];
        let symbol_map = of(&[trace(0), trace(35), trace(1), trace(70)]).unwrap();
        assert_eq!(symbol_map.bind(&trace(105)), Some(vec![105]));
        assert!(of(&[trace(0), trace(35)]).is_none());
    }

    /// As of a layer of experts: each has some tokens, each part begins where the one before it ends.
    #[test]
    fn many_sizes_are_each_for_itself() {
        let trace = |seed: i64| -> Vec<i64> {
            let sizes: Vec<i64> = (1..9).map(|i| 2 + seed * (7 * i + seed) % 31).collect();
            let mut numbers = vec![64];
            let mut start = 0;
            for size in sizes {
                numbers.extend([size, 128 * size, 256 * (size + 1), start, 4 * start]);
                start += size;
            }
            numbers.push(start);
            numbers
        };
        let examples: Vec<Vec<i64>> = [3, 5, 11, 17].map(trace).into();
        assert!(of(&examples[..2]).is_none());
        let symbol_map = of(&examples).unwrap();
        assert_eq!((symbol_map.symbols(), symbol_map.has_many()), (8, true));
        let other = trace(23);
        let point = symbol_map.bind(&other).unwrap();
        assert_eq!(symbol_map.at(&point), Some(other.clone()));
        let mut wrong = other;
        wrong[7] += 1;
        assert_eq!(symbol_map.bind(&wrong), None);
    }

    #[test]
    fn a_size_below_two_is_not_varied() {
        assert!(of(&[vec![1, 4], vec![5, 20]]).is_none());
    }
}
