//! Integer polynomials in the sizes that vary, found from examples: in few sizes, any with few terms; in many, mostly lines in
//! numbers that are known already.

use smallvec::{SmallVec, smallvec};

/// The numbers of its symbols, one for each factor; empty for 1.
type Monomial = SmallVec<[u8; 3]>;

/// A sum of at most [`MOST_TERMS`] monomials of degree 3 at most, with integer coefficients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poly(SmallVec<[(i64, Monomial); 2]>);

/// `(s + a)·(t + b)` has four terms, which few points fit by chance.
const MOST_TERMS: usize = 4;
const TERMS_BY_CHANCE: usize = 3;
const MOST_DEGREE: usize = 3;

impl Poly {
    /// The value at a point; `None` beyond 64 bits.
    pub fn at(&self, point: &[i64]) -> Option<i64> {
        let term = |(c, m): &(i64, Monomial)| product(m, point)?.checked_mul(*c as i128);
        let sum = self.0.iter().try_fold(0i128, |sum, t| sum.checked_add(term(t)?))?;
        i64::try_from(sum).ok()
    }

    /// Whether a program that has a size `s` may well compute it: `b·s + a` such as `s`, `384·(s + 1)`, `2·s + 3`, `1024 - s`.
    /// With a large `b` that does not divide `a` it may be chance: two unrelated sizes.
    pub fn is_natural(&self) -> bool {
        match &self.0[..] {
            [(a, one), (b, s)] if one.is_empty() && s.len() == 1 => {
                matches!(b / gcd(*a, *b), -1 | 1..=4)
            }
            _ => true,
        }
    }

    /// The symbol and the constant of `s` or `s + a`.
    pub fn as_symbol(&self) -> Option<(usize, i64)> {
        match &self.0[..] {
            [(1, s)] if s.len() == 1 => Some((s[0] as usize, 0)),
            [(a, one), (1, s)] if one.is_empty() && s.len() == 1 => Some((s[0] as usize, *a)),
            _ => None,
        }
    }

    /// The symbol `s` itself.
    pub fn symbol(s: usize) -> Poly {
        Poly(smallvec![(1, smallvec![s as u8])])
    }

    pub fn constant(value: i64) -> Poly {
        let terms = [(value, smallvec![])].into_iter().filter(|(c, _)| *c != 0);
        Poly(terms.collect())
    }

    /// `scale · self + constant`.
    pub fn line(&self, scale: i64, constant: i64) -> Option<Poly> {
        let scaled = |(c, m): &(i64, Monomial)| Some((c.checked_mul(scale)?, m.clone()));
        let line = Poly(self.0.iter().map(scaled).collect::<Option<_>>()?);
        line.plus(&Poly::constant(constant))
    }

    pub fn plus(&self, other: &Poly) -> Option<Poly> {
        let mut sum = self.0.clone();
        for (c, m) in &other.0 {
            match sum.iter_mut().find(|(_, known)| known == m) {
                Some((known, _)) => *known = known.checked_add(*c)?,
                None => sum.push((*c, m.clone())),
            }
        }
        sum.retain(|(c, _)| *c != 0);
        sum.sort_by(|a, b| (a.1.len(), &a.1).cmp(&(b.1.len(), &b.1)));
        Some(Poly(sum))
    }

    /// `self · other`; `None` beyond 64 bits.
    pub fn by(&self, other: &Poly) -> Option<Poly> {
        let mut product = Poly::constant(0);
        for (a, left) in &self.0 {
            for (b, right) in &other.0 {
                let mut symbols: Monomial = left.iter().chain(right).copied().collect();
                symbols.sort();
                product = product.plus(&Poly(smallvec![(a.checked_mul(*b)?, symbols)]))?;
            }
        }
        Some(product)
    }

    /// `scale · self · other`, of two symbols.
    fn times(&self, other: &Poly, scale: i64) -> Option<Poly> {
        let ((a, 0), (b, 0)) = (self.as_symbol()?, other.as_symbol()?) else { return None };
        Some(Poly(smallvec![(scale, smallvec![a.min(b) as u8, a.max(b) as u8])]))
    }

    /// The polynomial without the common factor of its coefficients: the row at which an offset begins.
    pub fn primitive(&self) -> Poly {
        let factor = self.0.iter().fold(0, |factor, (c, _)| gcd(*c, factor));
        let divided = |(c, m): &(i64, Monomial)| (c / factor, m.clone());
        Poly(self.0.iter().map(divided).collect())
    }

    pub fn is_constant(&self) -> bool {
        self.0.iter().all(|(_, m)| m.is_empty())
    }

    /// The symbols of its terms `-s`.
    pub fn subtracted(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().filter(|(c, m)| *c == -1 && m.len() == 1).map(|(_, m)| m[0] as usize)
    }

    fn weight(&self) -> u128 {
        self.0.iter().map(|(c, _)| c.unsigned_abs() as u128).sum()
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs().max(1) } else { gcd(b, a % b) }
}

fn product(monomial: &[u8], point: &[i64]) -> Option<i128> {
    monomial.iter().try_fold(1i128, |p, &s| p.checked_mul(point[s as usize] as i128))
}

/// Finds polynomials through values at the points that it knows.
pub trait Fit {
    fn fit(&self, values: &[i64]) -> Option<Poly>;
}

/// Finds polynomials with few terms.
#[derive(Clone)]
pub struct Fitter {
    /// Each monomial with its values at the points, lower degrees first.
    columns: Vec<(Monomial, Vec<i128>)>,
    most_terms: usize,
    /// This many points determine the coefficients; the others only have to agree.
    general: usize,
    /// Whether each coefficient has to be determined without any one of these points, too.
    is_spared: bool,
}

impl Fitter {
    /// For points of which the first `general` determine polynomials: those after them are special cases, which say nothing about
    /// others. Every polynomial found has at least `spare` terms fewer than there are general points: that many points prove it,
    /// the others determine it; if `spare` is not 0, also without any one of them: where all but one lie on a line, that one
    /// alone would decide the polynomial beside the line.
    pub fn new(points: &[Vec<i64>], general: usize, spare: usize) -> Fitter {
        let symbols = points[0].len();
        let mut monomials: Vec<Monomial> = vec![smallvec![]];
        let mut from = 0;
        for _ in 0..MOST_DEGREE {
            let until = monomials.len();
            for at in from..until {
                let first = monomials[at].last().copied().unwrap_or(0);
                for s in first..symbols as u8 {
                    let mut longer = monomials[at].clone();
                    longer.push(s);
                    monomials.push(longer);
                }
            }
            from = until;
        }
        let column = |m: Monomial| {
            let values: Option<Vec<i128>> = points.iter().map(|p| product(&m, p)).collect();
            values.map(|values| (m, values))
        };
        let columns = monomials.into_iter().filter_map(column).collect();
        let determined = general.saturating_sub(spare);
        let most_terms = determined.min(TERMS_BY_CHANCE);
        let most_terms = if determined > MOST_TERMS { MOST_TERMS } else { most_terms };
        Fitter { columns, most_terms, general, is_spared: spare > 0 }
    }

    fn each_choice(
        &self,
        terms: usize,
        from: usize,
        chosen: &mut SmallVec<[usize; MOST_TERMS]>,
        f: &mut dyn FnMut(&[usize]),
    ) {
        if terms == 0 {
            return f(chosen);
        }
        // Programs do not make so many terms of the third degree of sizes, and there would be thousands to try.
        let degree = if chosen.len() + terms == MOST_TERMS { MOST_DEGREE - 1 } else { MOST_DEGREE };
        let until = self.columns.partition_point(|(monomial, _)| monomial.len() <= degree);
        for at in from..until {
            chosen.push(at);
            self.each_choice(terms - 1, at + 1, chosen, f);
            chosen.pop();
        }
    }

    /// The combination of the chosen monomials with these values, if its coefficients are integers other than 0.
    fn through(&self, values: &[i64], chosen: &[usize]) -> Option<Poly> {
        let entry = |row: usize, column: usize| self.columns[chosen[column]].1[row];
        let (coefficients, rows) = solve(chosen.len(), &entry, &values[..self.general])?;
        let right = |row: usize| {
            let term = |c: usize| entry(row, c).checked_mul(coefficients[c] as i128);
            let sum = (0..chosen.len()).try_fold(0i128, |sum, c| sum.checked_add(term(c)?));
            sum == Some(values[row] as i128)
        };
        let exact = (0..values.len()).all(right);
        if self.is_spared && exact && !is_spared(&rows, &entry, self.general) {
            return None;
        }
        let term = |(&c, &at): (&i64, &usize)| (c, self.columns[at].0.clone());
        exact.then(|| Poly(coefficients.iter().zip(chosen).map(term).collect()))
    }
}

impl Fit for Fitter {
    /// A polynomial with the fewest terms; among these the one with the smallest coefficients.
    fn fit(&self, values: &[i64]) -> Option<Poly> {
        (1..=self.most_terms).find_map(|terms| {
            let mut found: Option<Poly> = None;
            self.each_choice(terms, 0, &mut SmallVec::new(), &mut |chosen| {
                if let Some(poly) = self.through(values, chosen)
                    && found.as_ref().is_none_or(|best| poly.weight() < best.weight())
                {
                    found = Some(poly);
                }
            });
            found
        })
    }
}

type Rows = SmallVec<[usize; MOST_TERMS]>;

/// Solves the first `n` independent rows by Cramer's rule, and returns which these are. `None` for coefficients that are 0 or
/// not integers.
fn solve(
    n: usize,
    entry: &dyn Fn(usize, usize) -> i128,
    values: &[i64],
) -> Option<(SmallVec<[i64; MOST_TERMS]>, Rows)> {
    if n == 1 && values.iter().all(|&v| v == 0) {
        return Some((smallvec![0], Rows::new()));
    }
    let mut rows = Rows::new();
    for row in 0..values.len() {
        rows.push(row);
        if rows.len() == n && determinant(n, &|r, c| Some(entry(rows[r], c)))? == 0 {
            rows.pop();
        }
        if rows.len() == n {
            break;
        }
    }
    if rows.len() < n {
        return None;
    }
    let whole = determinant(n, &|r, c| Some(entry(rows[r], c)))?;
    let coefficient = |column: usize| {
        let replaced = |r: usize, c: usize| {
            Some(if c == column { values[rows[r]] as i128 } else { entry(rows[r], c) })
        };
        let part = determinant(n, &replaced)?;
        let whole_number = part != 0 && part % whole == 0;
        whole_number.then(|| i64::try_from(part / whole).ok()).flatten()
    };
    let coefficients = (0..n).map(coefficient).collect::<Option<_>>()?;
    Some((coefficients, rows))
}

/// Whether each of these independent rows could be replaced by another one, of `count`, that is independent of the rest of them.
fn is_spared(rows: &Rows, entry: &dyn Fn(usize, usize) -> i128, count: usize) -> bool {
    let replaces = |at: usize, row: usize| {
        let of = |r: usize| if r == at { row } else { rows[r] };
        let matrix = |r: usize, c: usize| Some(entry(of(r), c));
        !rows.contains(&row) && determinant(rows.len(), &matrix).is_some_and(|d| d != 0)
    };
    (0..rows.len()).all(|at| (0..count).any(|row| replaces(at, row)))
}

/// The determinant of a matrix of few rows; `None` beyond 128 bits.
fn determinant(n: usize, at: &dyn Fn(usize, usize) -> Option<i128>) -> Option<i128> {
    if n == 1 {
        return at(0, 0);
    }
    let mut sum = 0i128;
    for column in 0..n {
        let minor = |r: usize, c: usize| at(r + 1, if c < column { c } else { c + 1 });
        let term = at(0, column)?.checked_mul(determinant(n - 1, &minor)?)?;
        sum = if column % 2 == 0 { sum.checked_add(term)? } else { sum.checked_sub(term)? };
    }
    Some(sum)
}

/// Finds numbers of programs in which many sizes vary independently: `b·x + a` of a known number `x`, the sum of two known
/// numbers (where the parts of a whole begin), `b·s·t` of two symbols. All must hold at every point.
#[derive(Clone, Default)]
pub struct LineFitter {
    /// The symbols come first.
    known: Vec<Candidate>,
}

/// A known number, with its values at the points.
type Candidate = (Poly, Vec<i64>);

/// Sums and products are searched for among this many known numbers, the first ones.
const MOST_PAIRED: usize = 256;

impl LineFitter {
    pub fn add(&mut self, poly: Poly, values: Vec<i64>) {
        self.known.push((poly, values));
    }

    /// A multiple of a known number.
    pub fn multiple(&self, values: &[i64]) -> Option<Poly> {
        let multiples = self.known.iter().filter_map(|(poly, known)| {
            let (scale, 0) = line_through(known, values)? else { return None };
            poly.line(scale, 0)
        });
        multiples.min_by_key(Poly::weight)
    }

    /// A sum or a product of two known numbers.
    pub fn pair(&self, values: &[i64]) -> Option<Poly> {
        self.sum(values).or_else(|| self.product(values))
    }

    /// Each number with itself and with those before it.
    fn pairs(&self) -> impl Iterator<Item = (&Candidate, &Candidate)> {
        let known = &self.known[..self.known.len().min(MOST_PAIRED)];
        known.iter().enumerate().flat_map(|(i, a)| known[..=i].iter().map(move |b| (a, b)))
    }

    fn sum(&self, values: &[i64]) -> Option<Poly> {
        let is_sum = |((_, a), (_, b)): &(&Candidate, &Candidate)| {
            values.iter().enumerate().all(|(i, &v)| a[i].checked_add(b[i]) == Some(v))
        };
        self.pairs().filter(is_sum).find_map(|(a, b)| a.0.plus(&b.0))
    }

    fn product(&self, values: &[i64]) -> Option<Poly> {
        let scale = |a: &[i64], b: &[i64]| {
            let of = |i: usize| a[i] as i128 * b[i] as i128;
            let whole = of(0) != 0 && values[0] as i128 % of(0) == 0;
            let scale = whole.then(|| values[0] as i128 / of(0))?;
            let right = |(i, &v): (usize, &i64)| of(i).checked_mul(scale) == Some(v as i128);
            let exact = values.iter().enumerate().all(right);
            exact.then(|| i64::try_from(scale).ok()).flatten()
        };
        self.pairs().find_map(|(a, b)| a.0.times(&b.0, scale(&a.1, &b.1)?))
    }
}

impl Fit for LineFitter {
    /// The line with the smallest coefficients; if there is none, a sum or a product.
    fn fit(&self, values: &[i64]) -> Option<Poly> {
        if values.iter().all(|v| v == &values[0]) {
            return Some(Poly(smallvec![(values[0], smallvec![])]));
        }
        let lines = self.known.iter().filter_map(|(poly, known)| {
            let (scale, constant) = line_through(known, values)?;
            poly.line(scale, constant).filter(Poly::is_natural)
        });
        lines.min_by_key(Poly::weight).or_else(|| self.pair(values))
    }
}

/// `b` and `a` of `values = b · known + a`, if these are integers.
fn line_through(known: &[i64], values: &[i64]) -> Option<(i64, i64)> {
    let other = known.iter().position(|n| n != &known[0])?;
    let run = known[other].checked_sub(known[0])?;
    let rise = values[other].checked_sub(values[0])?;
    if rise == 0 || rise.checked_rem(run)? != 0 {
        return None;
    }
    let scale = rise / run;
    let constant = values[0].checked_sub(scale.checked_mul(known[0])?)?;
    let right =
        |(n, v): (&i64, &i64)| n.checked_mul(scale)?.checked_add(constant).map(|at| at == *v);
    let exact = known.iter().zip(values).all(|pair| right(pair) == Some(true));
    exact.then_some((scale, constant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(list: &[i64]) -> Vec<Vec<i64>> {
        list.iter().map(|&s| vec![s]).collect()
    }

    #[test]
    fn finds_what_sizes_become() {
        let at = points(&[3, 7, 20, 31, 64, 65]);
        let fitter = Fitter::new(&at, at.len(), 2);
        let formulas: [fn(i64) -> i64; 7] = [
            |_| 5,
            |_| 0,
            |s| 384 * s,
            |s| 8 * (s + 1),
            |s| 6 * s * s,
            |s| (s + 1) * (s + 1),
            |s| 1024 - s,
        ];
        for formula in formulas {
            let values: Vec<i64> = at.iter().map(|p| formula(p[0])).collect();
            let poly = fitter.fit(&values).unwrap();
            assert_eq!(poly.at(&[1000]), Some(formula(1000)), "{poly:?}");
        }
    }

    #[test]
    fn refuses_what_is_no_polynomial() {
        let at = points(&[2, 3, 16, 33, 63, 64]);
        let fitter = Fitter::new(&at, at.len(), 2);
        let formulas: [fn(i64) -> i64; 4] =
            [|s| s / 2, |s| s.min(40), |s| (s + 7) / 8 * 8, |s| (s == 33) as i64];
        for formula in formulas {
            let values: Vec<i64> = at.iter().map(|p| formula(p[0])).collect();
            assert_eq!(fitter.fit(&values), None, "{values:?}");
        }
    }

    #[test]
    fn two_sizes_multiply() {
        let at: Vec<Vec<i64>> = [(2, 5), (3, 8), (7, 11), (4, 30), (9, 2), (5, 5)]
            .iter()
            .map(|&(a, b)| vec![a, b])
            .collect();
        let fitter = Fitter::new(&at, at.len(), 2);
        let values: Vec<i64> = at.iter().map(|p| 12 * p[0] * (p[1] + 1)).collect();
        assert_eq!(fitter.fit(&values).unwrap().at(&[100, 200]), Some(12 * 100 * 201));
    }

    #[test]
    fn a_large_point_is_no_number() {
        let poly = Fitter::new(&points(&[2, 3, 4]), 3, 0).fit(&[8, 27, 64]).unwrap();
        assert_eq!((poly.at(&[5]), poly.at(&[i64::MAX])), (Some(125), None));
    }

    /// A tile of as many elements as one size is of another one: all but one of the points have two.
    #[test]
    fn one_point_beside_a_line_says_nothing() {
        let of = |points: &[(i64, i64)]| -> Vec<Vec<i64>> {
            points.iter().map(|&(whole, parts)| vec![whole, parts]).collect()
        };
        let line = [(4, 2), (6, 3), (8, 4), (20, 10), (14, 7), (32, 16)];
        let tiles =
            |points: &[Vec<i64>]| -> Vec<i64> { points.iter().map(|p| p[0] / p[1]).collect() };
        let points = of(&[&line[..], &[(3, 1)]].concat());
        assert!(Fitter::new(&points, 7, 0).fit(&tiles(&points)).is_some());
        assert!(Fitter::new(&points, 7, 2).fit(&tiles(&points)).is_none());
        let sums =
            |points: &[Vec<i64>]| -> Vec<i64> { points.iter().map(|p| p[0] - p[1]).collect() };
        let points = of(&[&line[..], &[(3, 1), (9, 2)]].concat());
        assert!(Fitter::new(&points, 8, 2).fit(&sums(&points)).is_some());
        assert!(Fitter::new(&points, 6, 2).fit(&sums(&points)).is_none(), "both are special");
    }
}
