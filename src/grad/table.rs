//! The rule of every primitive. The match has no default: an operator cannot be forgotten.

use super::{Flow, Step, collective, contraction, index, movement, nn, pointwise, reduce};
use crate::op::Op;
use std::f64::consts::FRAC_2_SQRT_PI;

/// What becomes of a cotangent at a node.
pub enum Rule {
    Flows(for<'m> fn(&Step<'m, '_>) -> Flow<'m>),
    /// The operands are no floats, or the result does not change with them but in steps.
    Stops,
    /// There would be a gradient, but nobody has said it.
    Refuses,
}

use Rule::{Flows, Refuses, Stops};

pub fn rule(op: Op) -> Rule {
    use pointwise::{binary, unary};
    match op {
        // ---- leaves
        Op::Input | Op::Scalar | Op::Const | Op::ConstInt | Op::Iota | Op::Random => Stops,

        // ---- pointwise
        Op::Neg => Flows(|s| unary(s, |_, _, dy| -dy)),
        Op::Abs => Flows(|s| unary(s, |x, _, dy| dy * x.unary(Op::Sign))),
        Op::Exp => Flows(|s| unary(s, |_, y, dy| dy * y)),
        Op::Expm1 => Flows(|s| unary(s, |_, y, dy| dy * (y + 1.0))),
        Op::Log => Flows(|s| unary(s, |x, _, dy| dy / x)),
        Op::Log1p => Flows(|s| unary(s, |x, _, dy| dy / (x + 1.0))),
        Op::Sqrt => Flows(|s| unary(s, |_, y, dy| dy / (2.0 * y))),
        Op::Rsqrt => Flows(|s| unary(s, |_, y, dy| -0.5 * dy * (y * y * y))),
        Op::Sin => Flows(|s| unary(s, |x, _, dy| dy * x.unary(Op::Cos))),
        Op::Cos => Flows(|s| unary(s, |x, _, dy| -(dy * x.unary(Op::Sin)))),
        Op::Tanh => Flows(|s| unary(s, |_, y, dy| dy * (1.0 - y * y))),
        Op::Erf => Flows(|s| unary(s, |x, _, dy| dy * (FRAC_2_SQRT_PI * (-(x * x)).exp()))),
        Op::Erfc => Flows(|s| unary(s, |x, _, dy| dy * (-FRAC_2_SQRT_PI * (-(x * x)).exp()))),
        Op::Sigmoid => Flows(|s| unary(s, |_, y, dy| dy * (1.0 - y) * y)),
        Op::Cast => Flows(|s| Ok(vec![Some(s.dy().cast(s.x[0].dtype()))])),
        Op::Add => Flows(|s| binary(s, |_, _, dy| [dy, dy])),
        Op::Sub => Flows(|s| binary(s, |_, _, dy| [dy, -dy])),
        Op::Mul => Flows(|s| binary(s, |[a, b], _, dy| [dy * b, dy * a])),
        Op::Div => Flows(|s| binary(s, |[a, b], _, dy| [dy / b, -dy * (a / b / b)])),
        Op::Rem => Flows(|s| binary(s, |[a, b], _, dy| [dy, -dy * (a / b).unary(Op::Trunc)])),
        Op::Pow => Flows(|s| binary(s, pointwise::pow)),
        Op::Atan2 => Flows(|s| binary(s, pointwise::atan2)),
        Op::Max => Flows(|s| pointwise::extreme(s, Op::Gt)),
        Op::Min => Flows(|s| pointwise::extreme(s, Op::Lt)),
        Op::Select => Flows(pointwise::select),
        Op::Sign | Op::Floor | Op::Ceil | Op::Round | Op::Trunc => Stops,
        Op::Not | Op::And | Op::Or | Op::Xor => Stops,
        Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => Stops,

        // ---- movement
        Op::Reshape => Flows(|s| Ok(vec![Some(s.dy().reshape(&s.x[0].sizes()))])),
        Op::Transpose => Flows(movement::transpose),
        Op::Broadcast => Flows(movement::broadcast),
        Op::Slice => Flows(movement::slice),
        Op::AsStrided => Flows(movement::as_strided),
        Op::AsStridedScatter => Flows(movement::as_strided_scatter),
        Op::Concat => Flows(movement::concat),
        Op::Mark => Flows(|s| Ok(vec![Some(s.dy())])),
        Op::Detach => Stops,
        Op::Bitcast => Refuses,

        // ---- reductions
        Op::Sum => Flows(|s| Ok(vec![Some(reduce::restored(s, s.dy()))])),
        Op::Prod => Flows(reduce::prod),
        Op::ReduceMax | Op::ReduceMin => Flows(reduce::extreme),
        Op::CumSum => Flows(reduce::cumsum),
        Op::Any | Op::All | Op::ArgMax | Op::ArgMin => Stops,

        // ---- contraction
        Op::Matmul => Flows(contraction::matmul),
        Op::Conv => Flows(contraction::conv),
        Op::ConvGradInput => Flows(contraction::conv_grad_input),
        Op::ConvGradWeight => Flows(contraction::conv_grad_weight),
        Op::SumPool => Flows(contraction::sum_pool),
        Op::SumPoolGrad => Flows(contraction::sum_pool_grad),

        // ---- indexing
        Op::Take => Flows(index::take),
        Op::IndexAdd => Flows(index::index_add),
        Op::Gather => Flows(index::gather),
        Op::Scatter => Flows(index::scatter),
        Op::MaxPool => Flows(index::max_pool),
        Op::MaxPoolGrad => Flows(index::max_pool_grad),

        // ---- composites
        Op::Softmax => Flows(|s| Ok(vec![Some(s.dy().binary(Op::SoftmaxGrad, s.y[0]))])),
        Op::LogSoftmax => Flows(|s| Ok(vec![Some(s.dy().binary(Op::LogSoftmaxGrad, s.y[0]))])),
        Op::LogSumExp => Flows(nn::log_sum_exp),
        Op::SoftmaxGrad => Flows(nn::softmax_grad),
        Op::LogSoftmaxGrad => Flows(nn::log_softmax_grad),
        Op::LayerNorm => Flows(nn::layer_norm),
        Op::RmsNorm => Flows(nn::rms_norm),
        Op::Attention => Flows(nn::attention),
        Op::LayerNormGrad | Op::RmsNormGrad | Op::AttentionGrad | Op::ScaledMatmul => Refuses,

        Op::Host => Flows(collective::adjoint),
        Op::Check => Stops,
    }
}
