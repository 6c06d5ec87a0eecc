//! The table of primitives: adding one is adding one row. Conventions:
//! * pointwise inputs have equal sizes and, unless said otherwise, equal dtypes; broadcasting and casts are explicit;
//! * `bool` inputs to arithmetic are refused (cast first); logic works on bool, bitwise on integers;
//! * half types (`f16`, `bf16`) are computed in f32 and rounded when stored; reductions and contractions over them
//!   accumulate in f32, like PyTorch.

use super::Arity::{AtLeast, Between, Exactly};
use super::Class::*;
use super::{Row, fallback, index, leaf, movement, nn, pointwise as p, reduce};
use serde::{Deserialize, Serialize};

/// Declares [`Op`] and [`TABLE`] from the same rows, so that they cannot disagree.
macro_rules! table {
    ($($(#[doc = $doc:literal])* $op:ident $name:literal $class:ident $arity:expr, [$($attr:literal),*],
       $infer:expr, $eval:expr, $flops:expr $(, neutral $neutral:expr)?;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u16)]
        pub enum Op { $($(#[doc = $doc])* $op,)* }

        pub static TABLE: &[Row] = &[$(Row {
            op: Op::$op,
            name: $name,
            class: $class,
            arity: $arity,
            attrs: &[$($attr),*],
            infer: $infer,
            eval: $eval,
            flops: $flops,
            neutral: { #[allow(unused_mut, unused_assignments)] let mut n = None; $(n = Some($neutral);)? n },
            doc: concat!($($doc, "\n"),*),
        },)*];
    };
}

table! {
    // ---- leaves
    /// The `index`-th input of the program.
    Input "input" Leaf Exactly(0), ["index", "type"], leaf::declared, leaf::EXTERNAL, p::no_flops;
    /// The `slot`-th number of the argument block: `f64`, `i64` or `bool`, rank 0.
    Scalar "scalar" Leaf Exactly(0), ["slot", "dtype"], leaf::scalar_type, leaf::EXTERNAL, p::no_flops;
    /// One number of a dtype, rank 0. `value` is an f64; integers beyond 2^53 use `ConstInt`.
    Const "const" Leaf Exactly(0), ["value", "dtype"], leaf::const_type, leaf::CONST, p::no_flops;
    /// One integer or bool, rank 0.
    ConstInt "const_int" Leaf Exactly(0), ["value", "dtype"], leaf::const_int_type, leaf::CONST_INT, p::no_flops;
    /// Index along `dim`: element `[…, i, …]` is `i`. Integer or float dtype.
    Iota "iota" Leaf Exactly(0), ["sizes", "dim", "dtype"], leaf::iota_type, leaf::IOTA, p::no_flops;

    // ---- pointwise, one input (result type = input type)
    Neg "neg" Pointwise Exactly(1), [], p::same_number, p::both(|x| -x[0], |x| Some(x[0].wrapping_neg())), p::each;
    Abs "abs" Pointwise Exactly(1), [], p::same_number, p::both(|x| x[0].abs(), |x| Some(x[0].wrapping_abs())), p::each;
    /// -1, 0 or 1; 0 for NaN, as PyTorch.
    Sign "sign" Pointwise Exactly(1), [], p::same_number, p::both(p::sign, |x| Some(x[0].signum())), p::each;
    Exp "exp" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].exp()), p::each;
    Expm1 "expm1" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].exp_m1()), p::each;
    Log "log" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].ln()), p::each;
    Log1p "log1p" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].ln_1p()), p::each;
    Sqrt "sqrt" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].sqrt()), p::each;
    Rsqrt "rsqrt" Pointwise Exactly(1), [], p::same_float, p::float(|x| 1.0 / x[0].sqrt()), p::each;
    Sin "sin" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].sin()), p::each;
    Cos "cos" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].cos()), p::each;
    Tanh "tanh" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].tanh()), p::each;
    Erf "erf" Pointwise Exactly(1), [], p::same_float, p::float(|x| libm::erf(x[0])), p::each;
    /// 1 - erf(x), small where that cancels.
    Erfc "erfc" Pointwise Exactly(1), [], p::same_float, p::float(|x| libm::erfc(x[0])), p::each;
    /// 1 / (1 + exp(-x))
    Sigmoid "sigmoid" Pointwise Exactly(1), [], p::same_float, p::float(|x| 1.0 / (1.0 + (-x[0]).exp())), p::each;
    Floor "floor" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].floor()), p::each;
    Ceil "ceil" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].ceil()), p::each;
    /// To the nearest integer, ties to even.
    Round "round" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].round_ties_even()), p::each;
    Trunc "trunc" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].trunc()), p::each;
    /// Logical for bool, bitwise for integers.
    Not "not" Pointwise Exactly(1), [], p::same_bits, p::NOT, p::each;
    /// To another dtype. Float to integer truncates (see `array::as_integer`); anything to bool is `!= 0`; bool to number is 0 or 1. 8-bit floats
    /// (but e8m0) are cast from and to f32: to nearest, what is too large to infinity or NaN.
    Cast "cast" Pointwise Exactly(1), ["dtype"], p::cast_type, p::CAST, p::each;

    // ---- pointwise, two inputs
    Add "add" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] + x[1], |x| Some(x[0].wrapping_add(x[1]))), p::each;
    Sub "sub" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] - x[1], |x| Some(x[0].wrapping_sub(x[1]))), p::each;
    Mul "mul" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] * x[1], |x| Some(x[0].wrapping_mul(x[1]))), p::each;
    /// Integers: towards zero; by zero is an error.
    Div "div" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] / x[1], |x| p::nonzero(x, i64::wrapping_div)), p::each;
    /// Remainder with the sign of the dividend (C `fmod`); integer by zero is an error.
    Rem "rem" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] % x[1], |x| p::nonzero(x, i64::wrapping_rem)), p::each;
    /// C `pow`. Integers: by repeated squaring, negative exponents give 0 except for bases 1 and -1.
    Pow "pow" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0].powf(x[1]), |x| Some(p::int_pow(x[0], x[1]))), p::each;
    /// The larger one; NaN if either is NaN.
    Max "max" Pointwise Exactly(2), [], p::same_any, p::both(p::max, |x| Some(x[0].max(x[1]))), p::each;
    /// The smaller one; NaN if either is NaN.
    Min "min" Pointwise Exactly(2), [], p::same_any, p::both(p::min, |x| Some(x[0].min(x[1]))), p::each;
    Atan2 "atan2" Pointwise Exactly(2), [], p::same_float, p::float(|x| x[0].atan2(x[1])), p::each;
    And "and" Pointwise Exactly(2), [], p::same_bits, p::int(|x| Some(x[0] & x[1])), p::each;
    Or "or" Pointwise Exactly(2), [], p::same_bits, p::int(|x| Some(x[0] | x[1])), p::each;
    Xor "xor" Pointwise Exactly(2), [], p::same_bits, p::int(|x| Some(x[0] ^ x[1])), p::each;

    // ---- comparisons: equal dtypes in, bool out
    Eq "eq" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] == x[1]), |x| Some((x[0] == x[1]) as i64)), p::each;
    Ne "ne" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] != x[1]), |x| Some((x[0] != x[1]) as i64)), p::each;
    Lt "lt" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] < x[1]), |x| Some((x[0] < x[1]) as i64)), p::each;
    Le "le" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] <= x[1]), |x| Some((x[0] <= x[1]) as i64)), p::each;
    Gt "gt" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] > x[1]), |x| Some((x[0] > x[1]) as i64)), p::each;
    Ge "ge" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] >= x[1]), |x| Some((x[0] >= x[1]) as i64)), p::each;

    // ---- pointwise, other
    /// `(condition: bool, a, b)`: a where the condition holds, else b.
    Select "select" Pointwise Exactly(3), [], p::select_type, p::SELECT, p::each;
    /// `(seed: i64[], offset: i64[])`: uniform in [0, 1), f32, by Philox4x32-10. Key = seed (low word, high word); counter =
    /// (offset + i/4) in the low two words, 0 above; element i is word i%4, its top 24 bits times 2^-24.
    Random "random" Leaf Exactly(2), ["sizes"], leaf::random_type, leaf::RANDOM, p::each;

    // ---- movement
    /// Same elements in row-major order, other sizes.
    Reshape "reshape" Movement Exactly(1), ["sizes"], movement::reshape_type, movement::RESHAPE, p::no_flops;
    /// Dimension i of the result is dimension perm[i] of the input.
    Transpose "transpose" Movement Exactly(1), ["perm"], movement::transpose_type, movement::TRANSPOSE, p::no_flops;
    /// Numpy broadcasting to `sizes`.
    Broadcast "broadcast" Movement Exactly(1), ["sizes"], movement::broadcast_type, movement::BROADCAST, p::no_flops;
    /// Dimension i: `sizes[i]` elements from `starts[i]`, every `steps[i]`-th (steps >= 1).
    Slice "slice" Movement Exactly(1), ["starts", "sizes", "steps"], movement::slice_type, movement::SLICE, p::no_flops;
    /// A strided view of the input's flat elements (torch.as_strided).
    AsStrided "as_strided" Movement Exactly(1), ["sizes", "strides", "offset"], movement::as_strided_type, movement::AS_STRIDED, p::no_flops;
    /// Reads the same bytes as another dtype; the last dimension scales by the ratio of the sizes of the elements.
    Bitcast "bitcast" Movement Exactly(1), ["dtype"], movement::bitcast_type, movement::BITCAST, p::no_flops;
    /// Joins along `dim`.
    Concat "concat" Movement AtLeast(1), ["dim"], movement::concat_type, movement::CONCAT, p::no_flops;
    /// `(base, x)`: base with x written over the strided view of its flat elements (torch.as_strided_scatter). x has the view's sizes.
    AsStridedScatter "as_strided_scatter" Movement Exactly(2), ["sizes", "strides", "offset"], movement::scatter_type, movement::AS_STRIDED_SCATTER, p::no_flops;

    /// x; equal nodes with other numbers stay two while a graph is built: a point that gradients are taken at. The first pass
    /// removes it.
    Mark "mark" Movement Exactly(1), ["number"], movement::mark_type, movement::SAME, p::no_flops;
    /// x, through which no gradient flows. The first pass removes it.
    Detach "detach" Movement Exactly(1), [], movement::detach_type, movement::SAME, p::no_flops;

    // ---- reductions over `axes` (sorted, dropped from the result); the empty product of axes is the identity
    Sum "reduce_sum" Reduction Exactly(1), ["axes"], reduce::number, reduce::SUM, reduce::flops, neutral 0.0;
    Prod "reduce_prod" Reduction Exactly(1), ["axes"], reduce::number, reduce::PROD, reduce::flops, neutral 1.0;
    /// NaN wins. An empty axis is an error.
    ReduceMax "reduce_max" Reduction Exactly(1), ["axes"], reduce::ordered, reduce::MAX, reduce::flops, neutral f64::NEG_INFINITY;
    ReduceMin "reduce_min" Reduction Exactly(1), ["axes"], reduce::ordered, reduce::MIN, reduce::flops, neutral f64::INFINITY;
    /// Any (`or`) over bool.
    Any "reduce_any" Reduction Exactly(1), ["axes"], reduce::logical, reduce::ANY, reduce::flops, neutral 0.0;
    /// All (`and`) over bool.
    All "reduce_all" Reduction Exactly(1), ["axes"], reduce::logical, reduce::ALL, reduce::flops, neutral 1.0;
    /// Index (i64) of the first maximum along `axis`, which is dropped; the first NaN wins.
    ArgMax "argmax" Reduction Exactly(1), ["axis"], reduce::arg, reduce::ARGMAX, reduce::flops;
    ArgMin "argmin" Reduction Exactly(1), ["axis"], reduce::arg, reduce::ARGMIN, reduce::flops;
    /// Running sum along `axis`.
    CumSum "cumsum" Reduction Exactly(1), ["axis"], reduce::cumulative, reduce::CUMSUM, reduce::flops;

    // ---- contraction
    /// `[…b, m, k] · […b, k, n] → […b, m, n]`; equal batch sizes, equal dtypes.
    Matmul "matmul" Contraction Exactly(2), [], reduce::matmul_type, reduce::MATMUL, reduce::matmul_flops;
    /// `(x[n,c,s…], w[o,c/groups,k…])` → `y[n,o,t…]`, one to three spatial dimensions: `y[n,o,t] = Σ x[n,c,t·stride + k·dilation
    /// - padding] · w[o,c,k]` over the channels of o's group. x is 0 in the padding.
    Conv "conv" Contraction Exactly(2), ["stride", "padding", "dilation", "groups"], nn::conv_type, nn::CONV, nn::conv_flops;
    /// `(dy[n,o,t…], w)` → the gradient `dx[n,c,sizes…]`: also the transposed convolution of dy. dy may stop short of the
    /// last windows.
    ConvGradInput "conv_grad_input" Contraction Exactly(2), ["sizes", "stride", "padding", "dilation", "groups"], nn::conv_grad_input_type, nn::CONV_GRAD_INPUT, nn::conv_grad_input_flops;
    /// `(dy[n,o,t…], x[n,c,s…])` → the gradient `dw[o,c/groups,kernel…]`. dy may stop short of the last windows.
    ConvGradWeight "conv_grad_weight" Contraction Exactly(2), ["kernel", "stride", "padding", "dilation", "groups"], nn::conv_grad_weight_type, nn::CONV_GRAD_WEIGHT, nn::conv_grad_weight_flops;
    /// `x[n,c,s…]` → `y[n,c,t…]`: sums over windows. With `ceil`, a last window may hang over the end.
    SumPool "sum_pool" Contraction Exactly(1), ["kernel", "stride", "padding", "dilation", "ceil"], nn::sum_pool_type, nn::SUM_POOL, nn::pool_flops;
    /// `dy[n,c,t…]` → `dx[n,c,sizes…]`
    SumPoolGrad "sum_pool_grad" Contraction Exactly(1), ["sizes", "kernel", "stride", "padding", "dilation", "ceil"], nn::sum_pool_grad_type, nn::SUM_POOL_GRAD, nn::pool_flops;

    // ---- indexing; an index out of range is an IndexError (negative ones too)
    /// `(x, index)`: result sizes = x[..axis] ++ index sizes ++ x[axis+1..] (embedding, index_select). i32 or i64 index.
    Take "take" Indexing Exactly(2), ["axis"], index::take_type, index::TAKE, p::no_flops;
    /// `(base, index, x)`: base plus x's slices added at rows `index` of `axis` (index rank 1; a repeated index adds up, in order).
    IndexAdd "index_add" Indexing Exactly(3), ["axis"], index::index_add_type, index::INDEX_ADD, p::each;
    /// `(x, index)`: torch.gather along `axis`; index has the result's sizes.
    Gather "gather" Indexing Exactly(2), ["axis"], index::gather_type, index::GATHER, p::no_flops;
    /// `(base, index, x)`: torch.scatter along `axis`; with `add`, torch.scatter_add. index and x have equal sizes.
    Scatter "scatter" Indexing Exactly(3), ["axis", "add"], index::scatter_type, index::SCATTER, p::each;
    /// `x[n,c,s…]` → the largest of every window `y[n,c,t…]`, and where it is: i64, an index into the flattened spatial
    /// dimensions. The first of equals, the last NaN. With `ceil`, a last window may hang over the end.
    MaxPool "max_pool" Indexing Exactly(1), ["kernel", "stride", "padding", "dilation", "ceil"], nn::max_pool_type, nn::MAX_POOL, nn::pool_flops;
    /// `(dy[n,c,t…], index[n,c,t…])` → `dx[n,c,sizes…]`: dy added where the indices say, 0 elsewhere.
    MaxPoolGrad "max_pool_grad" Indexing Exactly(2), ["sizes"], nn::max_pool_grad_type, nn::MAX_POOL_GRAD, nn::pool_flops;

    // ---- composites
    /// Over the last axis; float.
    Softmax "softmax" Composite Exactly(1), [], nn::softmax_type, nn::SOFTMAX, nn::flops_5;
    LogSoftmax "log_softmax" Composite Exactly(1), [], nn::softmax_type, nn::LOG_SOFTMAX, nn::flops_5;
    /// Over the last axis, which stays with size 1: the maximum, and log(sum(exp(x - maximum))); f32, or f64 for f64. Their sum
    /// is torch.logsumexp.
    LogSumExp "log_sum_exp" Composite Exactly(1), [], nn::log_sum_exp_type, nn::LOG_SUM_EXP, nn::flops_5;
    /// `(dy, y)`: (dy - sum(dy*y)) * y over the last axis.
    SoftmaxGrad "softmax_grad" Composite Exactly(2), [], nn::softmax_type, nn::SOFTMAX_GRAD, nn::flops_5;
    /// `(dy, y)`: dy - exp(y) * sum(dy) over the last axis.
    LogSoftmaxGrad "log_softmax_grad" Composite Exactly(2), [], nn::softmax_type, nn::LOG_SOFTMAX_GRAD, nn::flops_5;
    /// `(x[r,c], weight[c]?, bias[c]?)` → `y[r,c]` (x's dtype), `mean[r]`, `rstd[r]` (f32, or f64 for f64). weight and bias
    /// have x's dtype or f32.
    LayerNorm "layer_norm" Composite Between(1, 3), ["eps", "weight", "bias"], nn::layer_norm_type, nn::LAYER_NORM, nn::flops_8;
    /// `(dy[r,c], x[r,c], mean[r], rstd[r], weight[c]?)` → `dx[r,c]` (x's dtype), `dweight[c]`, `dbias[c]` (weight's dtype, else x's).
    LayerNormGrad "layer_norm_grad" Composite Between(4, 5), [], nn::layer_norm_grad_type, nn::LAYER_NORM_GRAD, nn::flops_12;
    /// `(x[r,c], weight[c]?)` → `y[r,c]` (x's dtype), `rstd[r]` (f32, or f64 for f64): x · rstd · weight with rstd =
    /// 1/√(mean(x²) + eps) of the row. weight has x's dtype or f32.
    RmsNorm "rms_norm" Composite Between(1, 2), ["eps"], nn::rms_norm_type, nn::RMS_NORM, nn::flops_5;
    /// `(dy[r,c], x[r,c], rstd[r], weight[c]?)` → `dx[r,c]` (x's dtype), `dweight[c]` (weight's dtype, else x's).
    RmsNormGrad "rms_norm_grad" Composite Between(3, 4), [], nn::rms_norm_grad_type, nn::RMS_NORM_GRAD, nn::flops_8;
    /// `(q[b,h,t,d], k[b,g,s,d], v[b,g,s,e], seed: i64[], offset: i64[], bias[b,h,t,s]?)` → `out[b,h,t,e]` (q's dtype),
    /// `lse[b,h,t]` (f32, or f64 for f64): softmax(scale * q kᵀ + bias) v, h a multiple of g. bias: bool (false = masked)
    /// or float. `causal`: key j is seen by query i iff j <= i (upper left). `dropout` p: each probability is kept iff
    /// `random(seed, offset)[b,h,t,s] >= p`, and divided by 1-p. A row with nothing to see gives 0, lse -inf.
    Attention "attention" Composite Between(5, 6), ["scale", "causal", "dropout"], nn::attention_type, nn::ATTENTION, nn::attention_flops;
    /// `(dout, q, k, v, out, lse, seed, offset, bias?)` → `dq, dk, dv` (as q, k, v).
    AttentionGrad "attention_grad" Composite Between(8, 9), ["scale", "causal", "dropout"], nn::attention_grad_type, nn::ATTENTION_GRAD, nn::attention_grad_flops;
    /// `(a[m,k], b[k,n], scale_a[m or 1,1], scale_b[1,n or 1])` → `dtype[m,n]`: the product of floats of 8 bits (but e8m0), of
    /// two formats if need be, summed in f32, times scale_a · scale_b (f32), rounded once to `dtype`, a float.
    ScaledMatmul "scaled_matmul" Composite Exactly(4), ["dtype"], reduce::scaled_matmul_type, reduce::SCALED_MATMUL, reduce::matmul_flops;

    // ---- host
    /// A call of host operator `op`; `args` say how inputs and plain arguments interleave; `types` are the results'.
    Host "host" Host AtLeast(0), ["op", "types", "args"], fallback::host_type, fallback::HOST, p::no_flops;
    /// No result. Its operand, which nobody may read, is computed because what computes it refuses some numbers.
    Check "check" Host Exactly(1), [], fallback::check_type, fallback::CHECK, p::no_flops;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_op() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.op as usize, i);
            assert_eq!(Op::from_name(row.name), Some(row.op), "{} is not unique", row.name);
        }
    }
}
