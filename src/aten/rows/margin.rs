//! Margin losses of class scores, and their gradients. `reduction` is 0 for none, 1 for mean, 2 for sum.

use super::{BACKWARD, PLAIN, always};
use crate::aten::call::{Call, wide};
use crate::aten::{Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::expect::Expectation;
use crate::op::{Attr, Op};
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("multi_margin_loss", PLAIN, |c| {
        let of = MultiMargin::of(c, 0)?;
        let each = of.classes.per_sample(of.powers(of.hinges()) * of.weight);
        Ok(vec![of.classes.reduced(c, each, 5, !c.ty(1)?.sizes.is_empty())?])
    })
    .refuses(always),
    row("multi_margin_loss_backward", BACKWARD, |c| {
        let of = MultiMargin::of(c, 1)?;
        let slope = of.slopes(of.hinges()) * of.weight * of.classes.share(c, 0, 6)?;
        // Each score that violates the margin pulls the target's score up.
        let pull = slope.reduce(Op::Sum, &[1], true);
        let dx = of.is_target.select(-pull, slope);
        Ok(vec![of.classes.as_given(dx)])
    })
    .refuses(always),
    row("multilabel_margin_loss_forward", &["", "output"], |c| {
        let of = Multilabel::of(c, 0, 1)?;
        let each = of.classes.per_sample(of.hinges().reduce(Op::Sum, &[1], false));
        let is_target = of.classes.as_given(of.is_target.cast(of.classes.scores.dtype()));
        Ok(vec![of.classes.reduced(c, each, 2, c.ty(1)?.sizes.len() > 1)?, is_target])
    })
    .refuses(always),
    row("multilabel_margin_loss_backward", BACKWARD, |c| {
        let of = Multilabel::of(c, 1, 2)?;
        let is_above = of.hinges().gt(0.0).cast(of.classes.scores.dtype());
        let pushed = is_above.reduce(Op::Sum, &[1], false);
        let pulls = is_above.reduce(Op::Sum, &[2], true);
        let pulled = of.is_of_label.select(pulls, 0.0).reduce(Op::Sum, &[1], false);
        Ok(vec![of.classes.as_given((pushed - pulled) * of.classes.share(c, 0, 3)?)])
    })
    .refuses(always),
];

/// Scores of classes, for one sample or several.
struct Classes<'a> {
    /// `[samples, classes]`, in the dtype to compute in.
    scores: V<'a>,
    given: V<'a>,
}

impl<'a> Classes<'a> {
    /// The scores in argument `i`.
    fn of(c: &Call<'a>, i: usize) -> Result<Classes<'a>> {
        let given = c.tensor(i)?;
        let scores = match given.sizes()[..] {
            [] => given.reshape(&[1, 1]),
            [n] => given.reshape(&[1, n]),
            [_, _] => given,
            _ => return invalid!("scores of sizes {:?} are no matrix or vector", given.sizes()),
        };
        if scores.sizes()[1] == 0 {
            return invalid!("scores of sizes {:?} are of no class", given.sizes());
        }
        Ok(Classes { scores: scores.cast(wide(given.dtype())), given })
    }

    fn samples(&self) -> i64 {
        self.scores.sizes()[0]
    }

    fn count(&self) -> i64 {
        self.scores.sizes()[1]
    }

    /// `[samples]`: the mean of the classes' parts.
    fn per_sample(&self, of_classes: V<'a>) -> V<'a> {
        of_classes.reduce(Op::Sum, &[1], false) / self.count() as f64
    }

    /// The loss, by the reduction in argument `i`. `listed`: whether targets are given as a list of samples, even if of only
    /// one.
    fn reduced(&self, c: &Call<'a>, each: V<'a>, i: usize, listed: bool) -> Result<V<'a>> {
        let sum = || each.reduce(Op::Sum, &[0], false);
        let loss = match c.int(i, 1)? {
            0 if listed => each,
            0 => each.reshape(&[]),
            1 => sum() / self.samples() as f64,
            _ => sum(),
        };
        Ok(loss.cast(self.given.dtype()))
    }

    /// Weight of a class's part in the loss, `[samples or 1, 1]`: of the gradient, argument `dy`, by the reduction, argument `i`.
    fn share(&self, c: &Call<'a>, dy: usize, i: usize) -> Result<V<'a>> {
        let dy = c.tensor(dy)?.cast(self.scores.dtype()) / self.count() as f64;
        Ok(match c.int(i, 1)? {
            0 => dy.reshape(&[self.samples(), 1]),
            1 => dy.reshape(&[1, 1]) / self.samples() as f64,
            _ => dy.reshape(&[1, 1]),
        })
    }

    /// `x` in the sizes and the dtype of the scores as given.
    fn as_given(&self, x: V<'a>) -> V<'a> {
        x.reshape(&self.given.sizes()).cast(self.given.dtype())
    }

    /// The scores of the classes in `index`, `[samples, n]`.
    fn pick(&self, index: V<'a>) -> V<'a> {
        index.math().op(Op::Gather, &[self.scores, index], smallvec![Attr::Int(1)])
    }
}

/// `(…, self, target, p, margin, weight?, …)`: one class of each sample is the right one.
struct MultiMargin<'a> {
    classes: Classes<'a>,
    target: V<'a>,
    is_target: V<'a>,
    margin: V<'a>,
    weight: V<'a>,
    is_squared: V<'a>,
}

impl<'a> MultiMargin<'a> {
    /// With the scores at argument `i`.
    fn of(c: &Call<'a>, i: usize) -> Result<MultiMargin<'a>> {
        let classes = Classes::of(c, i)?;
        let (samples, compute) = (classes.samples(), classes.scores.dtype());
        let target = c.tensor(i + 1)?;
        if target.numel() != samples || target.rank() > 1 {
            let sizes = classes.given.sizes();
            return invalid!(
                "scores of sizes {sizes:?} do not go with targets of sizes {:?}",
                target.sizes()
            );
        }
        let target = target.cast(DType::I64).reshape(&[samples, 1]);
        let power = c.number(i + 2, 1.0, compute)?;
        let is_known = power.eq(1.0).or(power.eq(2.0)).expected(Expectation::OneOrTwo);
        let is_squared = (power + is_known.cast(compute)).eq(2.0);
        let margin = c.number(i + 3, 1.0, compute)?;
        let weight = match c.optional(i + 4)? {
            None => c.math.constant(1.0, compute),
            Some(weight) if weight.sizes()[..] == [classes.count()] => {
                let at = smallvec![Attr::Int(0)];
                c.math.op(Op::Take, &[weight.cast(compute), target], at)
            }
            Some(weight) => {
                let n = classes.count();
                return invalid!("weights of sizes {:?} for {n} classes", weight.sizes());
            }
        };
        let class = c.math.iota(&classes.scores.sizes(), 1, DType::I64);
        let is_target = class.eq(target);
        Ok(MultiMargin { classes, target, is_target, margin, weight, is_squared })
    }

    /// `[samples, classes]`: how far each other score exceeds the target's score minus the margin.
    fn hinges(&self) -> V<'a> {
        let above = self.margin - self.classes.pick(self.target) + self.classes.scores;
        self.is_target.not().and(above.gt(0.0)).select(above, 0.0)
    }

    fn powers(&self, hinges: V<'a>) -> V<'a> {
        self.is_squared.select(hinges * hinges, hinges)
    }

    /// The derivative of [`MultiMargin::powers`].
    fn slopes(&self, hinges: V<'a>) -> V<'a> {
        self.is_squared.select(hinges * 2.0, hinges.gt(0.0).cast(hinges.dtype()))
    }
}

/// `(…, self, target, …)`: the right classes of each sample are its labels before the first negative one.
struct Multilabel<'a> {
    classes: Classes<'a>,
    /// `[samples, labels]`: the class of each, 0 where there is none.
    label: V<'a>,
    is_label: V<'a>,
    /// `[samples, labels, classes]`
    is_of_label: V<'a>,
    /// `[samples, classes]`
    is_target: V<'a>,
}

impl<'a> Multilabel<'a> {
    /// With the scores and the labels at these arguments.
    fn of(c: &Call<'a>, scores: usize, labels: usize) -> Result<Multilabel<'a>> {
        let classes = Classes::of(c, scores)?;
        let [samples, n] = [classes.samples(), classes.count()];
        let given = c.tensor(labels)?;
        if given.sizes() != classes.given.sizes() {
            let sizes = classes.given.sizes();
            return invalid!(
                "scores of sizes {sizes:?} do not go with labels of sizes {:?}",
                given.sizes()
            );
        }
        let label = given.cast(DType::I64).reshape(&[samples, n]);
        let place = c.math.iota(&[samples, n], 1, DType::I64);
        let end = label.lt(0.0).select(place, n as f64).reduce(Op::ReduceMin, &[1], true);
        let is_label = place.lt(end);
        let label = is_label.select(label, 0.0);
        let class = c.math.iota(&[samples, n, n], 2, DType::I64);
        let is_of_label = class.eq(label.unsqueeze(2)).and(is_label.unsqueeze(2));
        let is_target =
            is_of_label.cast(DType::I32).reduce(Op::ReduceMax, &[1], false).cast(DType::Bool);
        Ok(Multilabel { classes, label, is_label, is_of_label, is_target })
    }

    /// `[samples, labels, classes]`: how far the score of each other class exceeds each label's score minus 1.
    fn hinges(&self) -> V<'a> {
        let above =
            1.0 - self.classes.pick(self.label).unsqueeze(2) + self.classes.scores.unsqueeze(1);
        let counts = self.is_label.unsqueeze(2).and(self.is_target.unsqueeze(1).not());
        counts.and(above.gt(0.0)).select(above, 0.0)
    }
}
