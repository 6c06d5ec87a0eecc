//! Which sizes of a trace vary, and how its other numbers depend on them: fitted to examples, verified at each use.

use super::poly::{Fitter, Poly};
use super::template::SMALLEST;

/// More sizes that vary at once are taken for different programs.
const MOST_SYMBOLS: usize = 3;

/// A trace's numbers as polynomials in its symbols.
#[derive(Clone)]
pub struct SymbolMap {
    /// For each symbol, where among the numbers it stands as it is.
    symbols: Vec<usize>,
    /// The numbers that do not vary; 0 for the others.
    constants: Vec<i64>,
    /// The numbers that do.
    varying: Vec<(usize, Poly)>,
}

impl SymbolMap {
    /// From the numbers of traces of one structure, but those whose sizes or offsets are too small to say how others follow
    /// from them (a slice that begins at 0). `None` when less than two are left, or no few sizes explain them.
    pub fn new(examples: &[Vec<i64>]) -> Option<SymbolMap> {
        let mut examples = examples.to_vec();
        while examples.len() > 1 {
            match SymbolMap::fitted(&examples) {
                Ok(symbol_map) => return symbol_map,
                Err(small) => examples.retain(|numbers| numbers[small] >= SMALLEST),
            }
        }
        None
    }

    /// From all of these. Errors: where a symbol would be too small in one of them.
    fn fitted(examples: &[Vec<i64>]) -> std::result::Result<Option<SymbolMap>, usize> {
        let values = |at: usize| examples.iter().map(|e| e[at]).collect::<Vec<i64>>();
        let count = examples[0].len();
        let mut varying: Vec<(usize, Vec<i64>)> = (0..count)
            .map(|at| (at, values(at)))
            .filter(|(_, list)| list.iter().any(|n| n != &list[0]))
            .collect();
        let mut constants = examples[0].clone();
        varying.iter().for_each(|&(at, _)| constants[at] = 0);
        varying.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.cmp(&b.0)));
        let mut symbol_map = SymbolMap { symbols: Vec::new(), constants, varying: Vec::new() };
        let mut fitter = None::<Fitter>;
        // Small numbers first: a size comes before its multiples.
        let mut before: Option<(Vec<i64>, Poly)> = None;
        for (at, list) in varying {
            let same = before.take().filter(|(values, _)| *values == list).map(|(_, poly)| poly);
            let known = same
                .or_else(|| fitter.as_ref().and_then(|f| f.fit(&list)).filter(Poly::is_natural));
            let poly = match known {
                Some(poly) => poly,
                None => {
                    if symbol_map.symbols.len() == MOST_SYMBOLS {
                        return Ok(None);
                    }
                    if list.iter().any(|&n| n < SMALLEST) {
                        return Err(at);
                    }
                    symbol_map.symbols.push(at);
                    let points: Vec<Vec<i64>> = (0..examples.len())
                        .map(|e| symbol_map.symbols.iter().map(|&s| examples[e][s]).collect())
                        .collect();
                    let new = Fitter::new(&points, symbol_map.symbols.len(), 0);
                    let Some(poly) = new.fit(&list) else { return Ok(None) };
                    fitter = Some(new);
                    poly
                }
            };
            symbol_map.varying.push((at, poly.clone()));
            before = Some((list, poly));
        }
        Ok((!symbol_map.symbols.is_empty()).then_some(symbol_map))
    }

    pub fn symbols(&self) -> usize {
        self.symbols.len()
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
        let expected = self.at(&point)?;
        (expected == numbers).then_some(point)
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

    #[test]
    fn a_size_below_two_is_not_varied() {
        assert!(SymbolMap::new(&[vec![1, 4], vec![5, 20]]).is_none());
    }
}
