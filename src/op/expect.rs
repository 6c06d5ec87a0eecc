//! Conditions on the values of operands, with errors in PyTorch's words.

use super::array::Array;
use super::{Attr, Eval, Ty, Tys, check};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};

pub const EXPECT: Eval = Eval::Whole(expect);

/// A condition that must hold. Its number is attribute `what` of [`Op::Expect`](super::Op::Expect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    Probabilities,
    SomeProbability,
    Probability,
    AsManyValues,
    EnoughElements,
    FiniteRange,
    OneOrTwo,
    InputProbabilities,
    TargetProbabilities,
    FirstOffset,
    LastOffset,
    Deviations,
}

use Expectation::*;

impl Expectation {
    pub const ALL: [Expectation; 12] = [
        Probabilities,
        SomeProbability,
        Probability,
        AsManyValues,
        EnoughElements,
        FiniteRange,
        OneOrTwo,
        InputProbabilities,
        TargetProbabilities,
        FirstOffset,
        LastOffset,
        Deviations,
    ];

    fn text(self) -> &'static str {
        match self {
            Probabilities => "probability tensor contains either `inf`, `nan` or element < 0",
            SomeProbability => "invalid multinomial distribution (sum of probabilities <= 0)",
            Probability => "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
            AsManyValues => {
                "shape mismatch: value tensor cannot be broadcast to indexing result: it has \
                 another number of values than the mask has true elements"
            }
            EnoughElements => "Number of elements of source < number of ones in mask",
            FiniteRange => "histc: range of [min, max] is not finite",
            OneOrTwo => "only p == 1 and p == 2 supported",
            InputProbabilities => "all elements of input should be between 0 and 1",
            TargetProbabilities => "all elements of target should be between 0 and 1",
            FirstOffset => {
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start \
                 from position 0."
            }
            LastOffset => "offsets[-1] can not be greater than input's length",
            Deviations => "normal expects all elements of std >= 0.0",
        }
    }

    pub fn attr(self) -> Attr {
        Attr::Int(self as i64)
    }

    /// The expectation in an attribute.
    fn of(attr: &Attr) -> Option<Expectation> {
        let Attr::Int(number) = attr else { return None };
        Expectation::ALL.get(usize::try_from(*number).ok()?).copied()
    }
}

/// The error of a node whose expectation does not hold.
pub fn unmet(attrs: &[Attr]) -> Error {
    let text = attrs.first().and_then(Expectation::of).map_or("", Expectation::text);
    Error::new(Code::InvalidArgument, text)
}

pub fn expect_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [holds] = inputs else {
        return check::wrong_operands("holds", inputs);
    };
    if !matches!(attrs, [attr] if Expectation::of(attr).is_some()) {
        return check::wrong_attrs("what: int", attrs);
    }
    check::rank(holds, 0, "what holds")?;
    if holds.dtype != DType::Bool {
        return crate::invalid!("what holds must be a bool, not {}", holds.dtype);
    }
    check::one(DType::I64, &[])
}

fn expect(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    match x[0].i64(0) {
        0 => Err(unmet(attrs)),
        _ => Ok(vec![Array::zeros(&outs[0])]),
    }
}
