//! The basis in which the numbers of examples are expressed: a few sizes that may be related in any way, or many.

use super::relations::Role;
use crate::symbolic::{Fit, Fitter, LineFitter, Poly};

/// Maximum number of sizes that may be related in any way.
pub const FEW: usize = 3;
/// Maximum number of sizes that vary independently, as the numbers of tokens that each of many experts gets. More are taken for
/// different programs.
const MANY: usize = 255;
/// Number of traces that tell many sizes apart by their numbers. With fewer, a number's polynomial must follow from its role.
pub const ENOUGH: usize = 3;
/// The polynomials in which the numbers of examples are expressed.
#[derive(Clone)]
pub enum Basis {
    Few(Option<Fitter>),
    Many {
        lines: LineFitter,
        /// Whether an example shows how other numbers follow from a size even where that is small.
        shows_small: bool,
        /// Whether a part varies if other parts of the same whole do.
        varies_parts: bool,
    },
}

impl Basis {
    pub fn few() -> Basis {
        Basis::Few(None)
    }

    pub fn many(shows_small: bool, varies_parts: bool) -> Basis {
        Basis::Many { lines: LineFitter::default(), shows_small, varies_parts }
    }

    pub fn varies_parts(&self) -> bool {
        matches!(self, Basis::Many { varies_parts: true, .. })
    }

    pub fn is_many(&self) -> bool {
        matches!(self, Basis::Many { .. })
    }

    /// Whether an example in which the number is small is as good as others.
    pub fn shows_small(&self, role: Role) -> bool {
        matches!(self, Basis::Many { shows_small: true, .. }) && role != Role::Other
    }

    /// Whether a number that is none of the known ones may be one more symbol.
    pub fn takes(&self, role: Role, list: &[i64], symbols: usize) -> bool {
        match self {
            Basis::Few(_) => symbols < FEW,
            Basis::Many { .. } => symbols < MANY && (list.len() >= ENOUGH || role != Role::Other),
        }
    }

    pub fn fit(&self, list: &[i64], role: Role) -> Option<Poly> {
        match self {
            Basis::Few(fitter) => fitter.as_ref()?.fit(list).filter(Poly::is_natural),
            Basis::Many { lines, .. } if list.len() >= ENOUGH => lines.fit(list),
            // Any two sizes are on a line in two examples.
            Basis::Many { lines, .. } if role == Role::Size => lines.multiple(list),
            Basis::Many { lines, .. } => lines.multiple(list).or_else(|| lines.pair(list)),
        }
    }

    /// Notes the polynomial of a number.
    pub fn know(&mut self, poly: Poly, list: &[i64]) -> Poly {
        if let Basis::Many { lines, .. } = self {
            lines.add(poly.clone(), list.to_vec());
        }
        poly
    }

    /// Adds the last symbol of these points; `list` is `step` times its values. Returns the polynomial of `list`.
    pub fn add(&mut self, points: &[Vec<i64>], step: i64, list: &[i64]) -> Option<Poly> {
        let symbols = points[0].len();
        let symbol = Poly::symbol(symbols - 1);
        match self {
            Basis::Few(fitter) => *fitter = Some(Fitter::new(points, points.len(), 0)),
            Basis::Many { .. } if step != 1 => {
                let values: Vec<i64> = points.iter().map(|point| point[symbols - 1]).collect();
                self.know(symbol.clone(), &values);
            }
            Basis::Many { .. } => {}
        }
        Some(self.know(symbol.line(step, 0)?, list))
    }
}
