//! Normalisation of each feature over all other dimensions, which TensorFlow writes as one operation.

use crate::error::Result;
use crate::graph::math::{V, wide};
use crate::invalid;
use crate::op::Op;
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::lower::Call;
use crate::stablehlo::value::{Value, Values};

/// The operand and its features.
struct Features<'m> {
    x: V<'m>,
    feature: usize,
    epsilon: f64,
}

impl<'m> Features<'m> {
    /// Errors: the operands 1 to `last` do not have a number for each feature.
    fn of(c: &Call<'_, '_, 'm>, last: usize) -> Result<Features<'m>> {
        let x = c.x[0].v;
        let feature = c.dim(&["feature_index"], x.rank())?;
        let epsilon = match c.attr(&["epsilon"])? {
            Attribute::Float(x) => f64::from(*x as f32),
            Attribute::Int(n) => *n as f64,
            _ => return invalid!("`epsilon` is no number"),
        };
        if !x.dtype().is_float() {
            return invalid!("{} is normalised, not a float", x.dtype());
        }
        let of_each = [x.sizes()[feature]];
        let is_wrong =
            |other: &&Value| other.v.sizes()[..] != of_each || other.dtype != c.x[0].dtype;
        if let Some(other) = c.x[1..=last].iter().find(is_wrong) {
            return invalid!(
                "{} is not one number for each of {} features",
                other.ty(),
                of_each[0]
            );
        }
        Ok(Features { x: x.cast(wide(x.dtype())), feature, epsilon })
    }

    fn axes(&self) -> Vec<i64> {
        (0..self.x.rank()).filter(|&d| d != self.feature).map(|d| d as i64).collect()
    }

    /// Number of elements of each feature.
    fn count(&self) -> f64 {
        self.axes().iter().map(|&d| self.x.sizes()[d as usize] as f64).product()
    }

    fn sum(&self, v: V<'m>) -> V<'m> {
        v.reduce(Op::Sum, &self.axes(), false)
    }

    /// Broadcasts a number for each feature to all elements.
    fn spread(&self, v: V<'m>) -> V<'m> {
        let mut sizes = vec![1; self.x.rank()];
        sizes[self.feature] = self.x.sizes()[self.feature];
        v.cast(self.x.dtype()).reshape(&sizes).broadcast(&self.x.sizes())
    }

    fn normalised(&self, mean: V<'m>, variance: V<'m>) -> V<'m> {
        (self.x - self.spread(mean))
            / self.spread((variance.cast(self.x.dtype()) + self.epsilon).sqrt())
    }
}

fn results<'m>(c: &Call<'_, '_, 'm>, all: &[V<'m>]) -> Values<'m> {
    all.iter().map(|v| Value::of(v.cast(c.x[0].dtype))).collect()
}

/// `(x, scale, offset)` → `y`, and the mean and the variance of each feature.
pub fn training<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let f = Features::of(c, 2)?;
    let mean = f.sum(f.x) / f.count();
    let centered = f.x - f.spread(mean);
    let variance = f.sum(centered * centered) / f.count();
    let y = f.normalised(mean, variance) * f.spread(c.x[1].v) + f.spread(c.x[2].v);
    Ok(results(c, &[y, mean, variance]))
}

/// `(x, scale, offset, mean, variance)` → `y`.
pub fn inference<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let f = Features::of(c, 4)?;
    let y = f.normalised(c.x[3].v, c.x[4].v) * f.spread(c.x[1].v) + f.spread(c.x[2].v);
    Ok(results(c, &[y]))
}

/// `(x, scale, mean, variance, dy)` → `dx`, `dscale`, `doffset`.
pub fn gradient<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let f = Features::of(c, 3)?;
    if c.x[4].ty() != c.x[0].ty() {
        return invalid!("a gradient of {} for {}", c.x[4].ty(), c.x[0].ty());
    }
    let (normalised, dy) = (f.normalised(c.x[2].v, c.x[3].v), c.x[4].v.cast(f.x.dtype()));
    let (dscale, doffset) = (f.sum(dy * normalised), f.sum(dy));
    let centered = dy - f.spread(doffset / f.count()) - normalised * f.spread(dscale / f.count());
    let deviation = (c.x[3].v.cast(f.x.dtype()) + f.epsilon).sqrt();
    let dx = centered * f.spread(c.x[1].v.cast(f.x.dtype()) / deviation);
    Ok(results(c, &[dx, dscale, doffset]))
}
