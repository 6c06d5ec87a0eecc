//! How the numbers of a plan follow from the sizes that vary.

use super::poly::{Fit, Poly};
use crate::number::Number;
use std::collections::HashMap;

/// Smaller sizes have programs of their own: they broadcast, or there is nothing to compute.
pub const SMALLEST: i64 = 2;

/// A number by value. Floats are distinguished by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Datum {
    Int(i64),
    Float(u64),
}

impl Datum {
    /// `None` for bytes beyond 63 bits.
    pub fn of(number: &Number) -> Option<Datum> {
        Some(match number {
            Number::Int(n) | Number::Size(n) => Datum::Int(**n),
            Number::Bytes(n) => Datum::Int(i64::try_from(**n).ok()?),
            Number::Float(x) => Datum::Float(x.to_bits()),
        })
    }

    /// Whether a size is one or none.
    pub fn is_small(self) -> bool {
        matches!(self, Datum::Int(..SMALLEST))
    }

    /// `None` for a negative number of bytes, or another kind of number.
    pub fn put(self, number: Number) -> Option<()> {
        match (self, number) {
            (Datum::Int(value), Number::Int(n) | Number::Size(n)) => *n = value,
            (Datum::Int(value), Number::Bytes(n)) => *n = u64::try_from(value).ok()?,
            (Datum::Float(bits), Number::Float(x)) => *x = f64::from_bits(bits),
            _ => return None,
        }
        Some(())
    }
}

type OfSize = fn(f64) -> f64;

#[derive(Clone, Debug)]
pub enum Expr {
    Int(Poly),
    /// A float computed from a size.
    Float(OfSize, Poly),
}

/// Functions of sizes in programs: `x / n`, `x * n`, their roots, the variance of a population from that of a sample; with their
/// inverses.
const FLOATS: [(OfSize, OfSize); 8] = [
    (|n| n, |x| x),
    (|n| 1.0 / n, |x| 1.0 / x),
    (|n| (1.0 / n) as f32 as f64, |x| 1.0 / x),
    (|n| n.sqrt(), |x| x * x),
    (|n| 1.0 / n.sqrt(), |x| 1.0 / (x * x)),
    (|n| (1.0 / n.sqrt()) as f32 as f64, |x| 1.0 / (x * x)),
    (|n| n / (n - 1.0).max(1.0), |x| x / (x - 1.0)),
    (|n| (n / (n - 1.0).max(1.0)) as f32 as f64, |x| x / (x - 1.0)),
];

impl Expr {
    pub fn at(&self, point: &[i64]) -> Option<Datum> {
        Some(match self {
            Expr::Int(poly) => Datum::Int(poly.at(point)?),
            Expr::Float(of, poly) => Datum::Float(of(poly.at(point)? as f64).to_bits()),
        })
    }
}

/// Finds expressions; searches for each distinct list of values once.
pub struct Finder {
    fitter: Box<dyn Fit>,
    known: HashMap<Vec<Datum>, Option<Expr>>,
}

impl Finder {
    pub fn new(fitter: Box<dyn Fit>) -> Finder {
        Finder { fitter, known: HashMap::new() }
    }

    /// An expression with these values at the points of the fitter.
    pub fn find(&mut self, values: &[Datum]) -> Option<Expr> {
        if let Some(known) = self.known.get(values) {
            return known.clone();
        }
        let found = self.search(values);
        self.known.insert(values.to_vec(), found.clone());
        found
    }

    fn search(&self, values: &[Datum]) -> Option<Expr> {
        let ints: Option<Vec<i64>> =
            values.iter().map(|v| if let Datum::Int(n) = v { Some(*n) } else { None }).collect();
        if let Some(ints) = ints {
            return self.fitter.fit(&ints).map(Expr::Int);
        }
        FLOATS.iter().find_map(|(of, back)| {
            let size = |v: &Datum| {
                let Datum::Float(bits) = *v else { return None };
                let n = back(f64::from_bits(bits)).round();
                (n.abs() < 9e15 && of(n).to_bits() == bits).then_some(n as i64)
            };
            let sizes: Option<Vec<i64>> = values.iter().map(size).collect();
            self.fitter.fit(&sizes?).map(|poly| Expr::Float(*of, poly))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::poly::Fitter;
    use super::*;

    #[test]
    fn finds_the_size_in_a_float() {
        let points: Vec<Vec<i64>> = [3, 7, 10, 50, 51, 64].iter().map(|&s| vec![s]).collect();
        let mut finder = Finder::new(Box::new(Fitter::new(&points, points.len(), 2)));
        let formulas: [fn(f64) -> f64; 5] = [
            |s| 8.0 * s / (8.0 * s - 1.0),
            |s| 8.0 * s,
            |s| 1.0 / (8.0 * s),
            |s| (1.0f32 / (s as f32 - 1.0)) as f64,
            |s| 1.0 / s.sqrt(),
        ];
        for formula in formulas {
            let value = |s: f64| Datum::Float(formula(s).to_bits());
            let values: Vec<Datum> = points.iter().map(|p| value(p[0] as f64)).collect();
            let expr = finder.find(&values).unwrap();
            assert_eq!(expr.at(&[1000]), Some(value(1000.0)));
        }
        let odd: Vec<Datum> =
            points.iter().map(|p| Datum::Float((p[0] as f64).ln().to_bits())).collect();
        assert!(finder.find(&odd).is_none());
    }
}
