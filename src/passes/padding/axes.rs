//! Dimensions of a padded array: products of parts, each padded at its own end.
//!
//! A dimension that a reshape made of `[B, S]` has the parts `B` and `S`: padding follows every row, not the last one. So
//! a reshape moves no element of a padded array either.

use super::{Stop, refused};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A size at every point that was sampled; the last two are the trace in hand and the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Size(SmallVec<[i64; 10]>);

impl Size {
    pub fn new(values: impl IntoIterator<Item = i64>) -> Size {
        Size(values.into_iter().collect())
    }

    /// The same size everywhere, at as many points as `like`.
    pub fn constant(value: i64, like: &Size) -> Size {
        Size(SmallVec::from_elem(value, like.0.len()))
    }

    pub fn fixed(&self) -> Option<i64> {
        self.0.iter().all(|n| *n == self.0[0]).then_some(self.0[0])
    }

    pub fn values(&self) -> &[i64] {
        &self.0
    }

    /// The size in the trace in hand.
    pub fn here(&self) -> i64 {
        self.0[self.0.len() - 2]
    }

    /// The size in the bucket.
    pub fn bucket(&self) -> i64 {
        self.0[self.0.len() - 1]
    }

    pub fn times(&self, other: &Size) -> Size {
        Size(self.0.iter().zip(&other.0).map(|(a, b)| a.saturating_mul(*b)).collect())
    }

    pub fn minus(&self, other: &Size) -> Size {
        Size(self.0.iter().zip(&other.0).map(|(a, b)| a.saturating_sub(*b)).collect())
    }

    pub fn plus(&self, other: &Size) -> Size {
        Size(self.0.iter().zip(&other.0).map(|(a, b)| a.saturating_add(*b)).collect())
    }

    /// The quotient, if there is no remainder at any point.
    pub fn over(&self, other: &Size) -> Option<Size> {
        let quotient = |(a, b): (&i64, &i64)| (*b != 0 && a % b == 0).then(|| a / b);
        self.0.iter().zip(&other.0).map(quotient).collect::<Option<_>>().map(Size)
    }

    /// The largest number that divides the size at every point, and `number`.
    fn common(&self, number: i64) -> i64 {
        self.0.iter().fold(number, |g, &n| gcd(g, n))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The place where a part is made, and may be made differently: part `part` of dimension `dim` of the result of node `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub node: u32,
    pub dim: u32,
    pub part: u32,
}

#[derive(Clone, Debug)]
pub struct Part {
    pub size: Size,
    /// `None` if it cannot be cut.
    pub origin: Option<Origin>,
}

/// Parts of a dimension, the outermost first; adjacent ones that do not vary are joined, those of size 1 left out.
#[derive(Clone, Debug, Default)]
pub struct Axis(pub SmallVec<[Part; 2]>);

impl Axis {
    pub fn of(part: Part) -> Axis {
        let mut axis = Axis::default();
        axis.push(part);
        axis
    }

    pub fn push(&mut self, part: Part) {
        match (part.size.fixed(), self.0.last_mut()) {
            (Some(1), _) => {}
            (Some(_), Some(last)) if last.size.fixed().is_some() => {
                last.size = last.size.times(&part.size);
            }
            _ => self.0.push(part),
        }
    }

    pub fn varies(&self) -> bool {
        self.0.iter().any(Part::varies)
    }

    /// Whether element `i` of the padded dimension is element `i` of the dimension.
    pub fn is_prefix(&self) -> bool {
        self.0.len() <= 1 || self.0[1..].iter().all(|part| !part.varies())
    }

    pub fn size(&self, one: &Size) -> Size {
        self.0.iter().fold(one.clone(), |product, part| product.times(&part.size))
    }

    /// The size with its padding.
    pub fn bucket(&self) -> i64 {
        self.0.iter().fold(1, |n, part| n.saturating_mul(part.size.bucket()))
    }
}

/// Axes with parts of equal sizes have the same elements at the same places.
impl PartialEq for Axis {
    fn eq(&self, other: &Axis) -> bool {
        let pairs = || self.0.iter().zip(&other.0);
        self.0.len() == other.0.len() && pairs().all(|(a, b)| a.size == b.size)
    }
}

impl Part {
    pub fn varies(&self) -> bool {
        self.size.fixed().is_none()
    }

    /// Asks for the part to be made as `outer` times the remainder.
    fn cut<T>(&self, outer: Size) -> Result<T, Stop> {
        match self.origin {
            Some(origin) => Err(Stop::Cut { origin, outer }),
            None => refused("a dimension that varies is divided"),
        }
    }
}

/// The parts of a dimension that two arrays share. Stops if one of them must be cut for that.
pub fn unify(a: &Axis, b: &Axis) -> Result<Axis, Stop> {
    let mut axis = Axis::default();
    let (mut left, mut right): (VecDeque<Part>, VecDeque<Part>) =
        (a.0.iter().cloned().collect(), b.0.iter().cloned().collect());
    loop {
        let (x, y) = match (left.pop_front(), right.pop_front()) {
            (None, None) => return Ok(axis),
            (Some(x), Some(y)) => (x, y),
            _ => return refused("two sizes that must be equal are not"),
        };
        if x.size == y.size {
            axis.push(Part { origin: x.origin.and(y.origin), ..x });
            continue;
        }
        let (larger, smaller, rest) = match (x.size.over(&y.size), y.size.over(&x.size)) {
            (Some(rest), _) => (x, y, (&mut left, rest)),
            (_, Some(rest)) => (y, x, (&mut right, rest)),
            _ => return refused("two sizes that must be equal divide otherwise"),
        };
        if larger.varies() {
            return larger.cut(smaller.size);
        }
        rest.0.push_front(Part { size: rest.1, origin: None });
        axis.push(smaller);
    }
}

/// The parts of all dimensions, in row-major order.
pub fn flattened(axes: &[Axis]) -> Axis {
    let mut all = Axis::default();
    axes.iter().flat_map(|axis| &axis.0).for_each(|part| all.push(part.clone()));
    all
}

/// Groups the parts into dimensions of other sizes. Stops if one must be cut for that.
pub fn regrouped(parts: Axis, sizes: &[Size]) -> Result<Vec<Axis>, Stop> {
    let mut parts: VecDeque<Part> = parts.0.into_iter().collect();
    let mut axes = Vec::new();
    for size in sizes {
        let (mut axis, mut rest) = (Axis::default(), size.clone());
        while rest.fixed() != Some(1) {
            let Some(part) = parts.pop_front() else {
                return refused("a reshape to sizes that vary otherwise");
            };
            if let Some(left) = rest.over(&part.size) {
                axis.push(part);
                rest = left;
                continue;
            }
            match part.size.fixed() {
                Some(n) => {
                    let shared = rest.common(n);
                    if shared <= 1 {
                        return refused("a reshape that divides otherwise for other sizes");
                    }
                    let size = Size::constant(shared, &rest);
                    let Some(left) = rest.over(&size) else { return refused("nothing to divide") };
                    rest = left;
                    axis.push(Part { size: size.clone(), origin: None });
                    parts
                        .push_front(Part { size: Size::constant(n / shared, &size), origin: None });
                }
                None if part.size.over(&rest).is_some() => return part.cut(rest),
                None => return refused("a reshape that divides otherwise for other sizes"),
            }
        }
        axes.push(axis);
    }
    match parts.is_empty() {
        true => Ok(axes),
        false => refused("a reshape to sizes that vary otherwise"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(of: impl Fn(i64) -> i64) -> Size {
        Size::new([10, 11, 13, 17, 14, 16].map(of))
    }

    fn part(of: impl Fn(i64) -> i64) -> Part {
        Part { size: size(of), origin: Some(Origin { node: 1, dim: 0, part: 0 }) }
    }

    fn axis(parts: &[fn(i64) -> i64]) -> Axis {
        let mut axis = Axis::default();
        parts.iter().for_each(|of| axis.push(part(of)));
        axis
    }

    #[test]
    fn reshapes_move_whole_parts() {
        let heads = axis(&[|_| 8, |t| t, |_| 48]);
        let axes = regrouped(heads.clone(), &[size(|t| 8 * t), size(|_| 6), size(|_| 8)]).unwrap();
        assert_eq!(axes, [axis(&[|_| 8, |t| t]), axis(&[|_| 6]), axis(&[|_| 8])]);
        assert_eq!(regrouped(flattened(&axes), &[size(|t| 8 * t * 48)]).unwrap(), [heads]);
        assert_eq!(axes[0].bucket(), 8 * 16);
        assert!(!axes[0].is_prefix() && axis(&[|t| t, |_| 8]).is_prefix());
    }

    #[test]
    fn flat_memory_is_cut_where_rows_begin() {
        let flat = axis(&[|t| 8 * t + 8]);
        let stop = regrouped(flat.clone(), &[size(|_| 8), size(|t| t + 1)]);
        assert!(matches!(stop, Err(Stop::Cut { outer, .. }) if outer == size(|_| 8)));
        let stop = unify(&axis(&[|_| 8, |t| t + 1]), &flat);
        assert!(matches!(stop, Err(Stop::Cut { outer, .. }) if outer == size(|_| 8)));
        let whole = Axis::of(Part { origin: None, ..part(|t| 8 * t + 8) });
        assert!(matches!(regrouped(whole, &[size(|_| 8), size(|t| t + 1)]), Err(Stop::Refused(_))));
    }

    #[test]
    fn what_does_not_divide_is_refused() {
        for sizes in [vec![size(|t| t + 1)], vec![size(|t| t), size(|_| 2)], vec![]] {
            assert!(matches!(regrouped(axis(&[|t| t]), &sizes), Err(Stop::Refused(_))));
        }
        let (a, b) = (axis(&[|t| t, |_| 3]), axis(&[|t| t + 1]));
        assert!(matches!(unify(&a, &b), Err(Stop::Refused(_))));
        assert!(unify(&a, &a.clone()).unwrap() == a);
    }
}
