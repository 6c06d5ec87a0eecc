//! Which sizes of a trace vary, and how its other numbers depend on them: fitted to examples, verified at each use.

use super::floor::Floor;
use super::poly::{Fit, Fitter, LineFitter, Poly};
use super::template::SMALLEST;

/// So many sizes may have anything to do with each other.
const FEW: usize = 3;
/// So many vary each for itself, as the numbers of tokens that each of many experts gets. More are taken for different programs.
const MANY: usize = 255;
/// Traces that tell many sizes apart.
const ENOUGH: usize = 3;

/// A trace's numbers as polynomials in its symbols.
#[derive(Clone)]
pub struct SymbolMap {
    /// For each symbol, where among the numbers it stands as it is.
    symbols: Vec<usize>,
    /// For each symbol that follows from another one, which one that is and how.
    floors: Vec<Option<(usize, Floor)>>,
    /// The numbers that do not vary; 0 for the others.
    constants: Vec<i64>,
    /// The numbers that do.
    varying: Vec<(usize, Poly)>,
}

impl SymbolMap {
    /// From the numbers of traces of one structure, but those whose sizes or offsets are too small to say how others follow
    /// from them (a slice that begins at 0). `None` when too few are left, or no sizes explain them.
    pub fn new(examples: &[Vec<i64>]) -> Option<SymbolMap> {
        SymbolMap::made(examples, true)
    }

    /// As [`SymbolMap::new`], with symbols that vary each for itself only.
    pub fn without_floors(examples: &[Vec<i64>]) -> Option<SymbolMap> {
        SymbolMap::made(examples, false)
    }

    fn made(examples: &[Vec<i64>], floors: bool) -> Option<SymbolMap> {
        let few = || SymbolMap::of_large(examples, 2, floors, || Basis::Few(None));
        few().or_else(|| {
            SymbolMap::of_large(examples, ENOUGH, floors, || Basis::Many(LineFitter::default()))
        })
    }

    /// From at least so many examples.
    fn of_large(
        examples: &[Vec<i64>],
        least: usize,
        floors: bool,
        basis: impl Fn() -> Basis,
    ) -> Option<SymbolMap> {
        let mut examples = examples.to_vec();
        while examples.len() >= least {
            match SymbolMap::fitted(&examples, floors, basis()) {
                Ok(symbol_map) => return symbol_map,
                Err(small) => examples.retain(|numbers| numbers[small] >= SMALLEST),
            }
        }
        None
    }

    /// From all of these. Errors: where a symbol would be too small in one of them.
    fn fitted(
        examples: &[Vec<i64>],
        floors: bool,
        mut basis: Basis,
    ) -> std::result::Result<Option<SymbolMap>, usize> {
        let values = |at: usize| examples.iter().map(|e| e[at]).collect::<Vec<i64>>();
        let count = examples[0].len();
        let mut varying: Vec<(usize, Vec<i64>)> = (0..count)
            .map(|at| (at, values(at)))
            .filter(|(_, list)| list.iter().any(|n| n != &list[0]))
            .collect();
        let mut constants = examples[0].clone();
        varying.iter().for_each(|&(at, _)| constants[at] = 0);
        varying.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.cmp(&b.0)));
        let (symbols, of_floors, fitted) = (Vec::new(), Vec::new(), Vec::new());
        let mut symbol_map = SymbolMap { symbols, floors: of_floors, constants, varying: fitted };
        // Small numbers first: a size comes before its multiples.
        let mut before: Option<(Vec<i64>, Poly)> = None;
        for (at, list) in varying {
            let same = before.take().filter(|(values, _)| *values == list).map(|(_, poly)| poly);
            let poly = match same.or_else(|| basis.fit(&list)) {
                Some(poly) => poly,
                None => {
                    if symbol_map.symbols.len() == basis.most() {
                        return Ok(None);
                    }
                    if list.iter().any(|&n| n < SMALLEST) {
                        return Err(at);
                    }
                    symbol_map.add(examples, at, floors);
                    let Some(poly) = basis.add(examples, &symbol_map.symbols, &list) else {
                        return Ok(None);
                    };
                    poly
                }
            };
            symbol_map.varying.push((at, poly.clone()));
            before = Some((list, poly));
        }
        Ok((!symbol_map.symbols.is_empty()).then_some(symbol_map))
    }

    /// Takes the number at `at` for a symbol, and notes which of the symbols follow from it, or it from one of them.
    fn add(&mut self, examples: &[Vec<i64>], at: usize, floors: bool) {
        let values = |at: usize| examples.iter().map(|e| e[at]).collect::<Vec<i64>>();
        let (new, list) = (self.symbols.len(), values(at));
        let mut of_new = None;
        for s in (0..new).filter(|_| floors) {
            let other = values(self.symbols[s]);
            if let Some(floor) = Floor::through(&other, &list) {
                of_new = Some((s, floor));
                break;
            }
            if self.floors[s].is_none()
                && let Some(floor) = Floor::through(&list, &other)
            {
                self.floors[s] = Some((new, floor));
            }
        }
        self.symbols.push(at);
        self.floors.push(of_new);
    }

    pub fn symbols(&self) -> usize {
        self.symbols.len()
    }

    /// The symbols that follow from no other one.
    pub fn independent(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.symbols.len()).filter(|&s| self.floors[s].is_none())
    }

    /// Gives the symbols that follow from others the values that do. `None` beyond 64 bits.
    pub fn settle(&self, point: &mut [i64]) -> Option<()> {
        for s in 0..point.len() {
            point[s] = self.value(s, point)?;
        }
        Some(())
    }

    fn value(&self, s: usize, point: &[i64]) -> Option<i64> {
        match self.floors[s] {
            Some((of, floor)) => floor.at(self.value(of, point)?),
            None => Some(point[s]),
        }
    }

    /// Whether its sizes vary each for itself.
    pub fn has_many(&self) -> bool {
        self.independent().count() > FEW
    }

    /// What finds numbers of plans at these points.
    pub fn fitter(&self, points: &[Vec<i64>], spare: usize) -> Box<dyn Fit> {
        if self.symbols.len() <= FEW {
            return Box::new(Fitter::new(points, self.symbols(), spare));
        }
        let mut lines = LineFitter::default();
        let mut known: Vec<&Poly> = Vec::new();
        let symbols: Vec<Poly> = (0..self.symbols()).map(Poly::symbol).collect();
        for poly in symbols.iter().chain(self.varying.iter().map(|(_, poly)| poly)) {
            if !known.contains(&poly)
                && let Some(values) = points.iter().map(|point| poly.at(point)).collect()
            {
                known.push(poly);
                lines.add(poly.clone(), values);
            }
        }
        Box::new(lines)
    }

    /// Which symbol a size in a trace is, or is but for a constant, and that constant: `T + 1` is `T` and 1.
    pub fn symbol_of(&self, numbers: &[i64], size: i64) -> Option<(usize, i64)> {
        let at =
            |(at, poly): &(usize, Poly)| (numbers[*at] == size).then(|| poly.as_symbol()).flatten();
        self.varying.iter().find_map(at)
    }

    /// The symbols' values in a trace; `None` if one of its numbers is not what follows from them.
    pub fn bind(&self, numbers: &[i64]) -> Option<Vec<i64>> {
        let point: Vec<i64> = self.symbols.iter().map(|&at| numbers[at]).collect();
        let mut settled = point.clone();
        self.settle(&mut settled)?;
        let expected = self.at(&point)?;
        (expected == numbers && settled == point).then_some(point)
    }

    /// As [`SymbolMap::bind`], but `None` where a symbol is so small that the trace is a special case.
    pub fn bind_general(&self, numbers: &[i64]) -> Option<Vec<i64>> {
        self.bind(numbers).filter(|point| point.iter().all(|&n| n >= SMALLEST))
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

/// What the numbers of examples are expressed in.
enum Basis {
    Few(Option<Fitter>),
    Many(LineFitter),
}

impl Basis {
    fn most(&self) -> usize {
        match self {
            Basis::Few(_) => FEW,
            Basis::Many(_) => MANY,
        }
    }

    fn fit(&mut self, list: &[i64]) -> Option<Poly> {
        match self {
            Basis::Few(fitter) => fitter.as_ref()?.fit(list).filter(Poly::is_natural),
            Basis::Many(lines) => {
                let poly = lines.fit(list)?;
                lines.add(poly.clone(), list.to_vec());
                Some(poly)
            }
        }
    }

    /// Takes the last of these symbols, whose values are `list`; what it is.
    fn add(&mut self, examples: &[Vec<i64>], symbols: &[usize], list: &[i64]) -> Option<Poly> {
        match self {
            Basis::Few(fitter) => {
                let points: Vec<Vec<i64>> = (examples.iter())
                    .map(|example| symbols.iter().map(|&s| example[s]).collect())
                    .collect();
                let new = Fitter::new(&points, symbols.len(), 0);
                let poly = new.fit(list)?;
                *fitter = Some(new);
                Some(poly)
            }
            Basis::Many(lines) => {
                let poly = Poly::symbol(symbols.len() - 1);
                lines.add(poly.clone(), list.to_vec());
                Some(poly)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_length_explains_a_trace() {
        let trace = |t: i64| vec![8, t + 1, 8 * (t + 1), 7, t, 384 * t, 6 * t * t];
        let symbol_map = SymbolMap::new(&[trace(50), trace(161)]).unwrap();
        assert_eq!(symbol_map.bind(&trace(300)), Some(vec![300]));
        let mut other = trace(300);
        other[5] += 1;
        assert_eq!(symbol_map.bind(&other), None);
    }

    #[test]
    fn two_sizes_are_distinguished_by_a_third_trace() {
        let trace = |b: i64, t: i64| vec![b, t + 1, b * t, b * t * 64, t];
        let symbol_map = SymbolMap::new(&[trace(8, 50), trace(6, 161), trace(7, 80)]).unwrap();
        assert_eq!(symbol_map.bind(&trace(3, 999)), Some(vec![3, 999]));
    }

    #[test]
    fn padded_images_are_products_of_sums() {
        let trace = |h: i64, w: i64| {
            let (tall, wide) = (h + 3, w + 3);
            vec![w, h * w, h, wide, tall * wide, 6 * tall * wide, tall]
        };
        let examples = [(8, 12), (9, 13), (10, 11), (12, 16), (14, 15)].map(|(h, w)| trace(h, w));
        let symbol_map = SymbolMap::new(&examples).unwrap();
        assert!(symbol_map.bind(&trace(21, 33)).is_some());
    }

    #[test]
    fn a_slice_from_the_start_is_left_out() {
        let trace = |at: i64| vec![35, 64 * at, 7, at];
        let symbol_map = SymbolMap::new(&[trace(0), trace(35), trace(1), trace(70)]).unwrap();
        assert_eq!(symbol_map.bind(&trace(105)), Some(vec![105]));
        assert!(SymbolMap::new(&[trace(0), trace(35)]).is_none());
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
        assert!(SymbolMap::new(&examples[..2]).is_none());
        let symbol_map = SymbolMap::new(&examples).unwrap();
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
        assert!(SymbolMap::new(&[vec![1, 4], vec![5, 20]]).is_none());
    }
}
