//! The table of primitives: adding one is adding one row. Conventions:
//! * pointwise inputs have equal sizes and, unless said otherwise, equal dtypes; broadcasting and casts are explicit;
//! * `bool` inputs to arithmetic are refused (cast first); logic works on bool, bitwise on integers;
//! * half types (`f16`, `bf16`) are computed in f32 and rounded when stored; reductions and contractions over them
//!   accumulate in f32, like PyTorch.
//!
//! A row is `Op { "name" Class arity, [attributes], types, meaning, flops, facts }`, where the facts are fields of
//! [`Row`](super::Row) that are not [`DEFAULT`](super::DEFAULT), and columns that belong to other modules, which read
//! them by handing a macro to [`primitives`]. Their paths are those of the module that reads them:
//! * `grad (rule)`, for `grad::table`: every row has one;
//! * `cpu (short |a| vector)` or `(long …)`, for `backend::cpu::tile`: a function of one vector of f32 that takes few
//!   or many instructions; `(own)` has a loop of its own there;
//! * `decomposed (rule)`, for `passes::decompose`: a composite in other primitives;
//! * `padded (rule)`, for `passes::padding::rules`: its form in a trace that is padded to longer sizes. Pointwise rows share one.

use super::Arity::{AtLeast, Between, Exactly};
use super::Class::*;
use super::LayoutRequirement::{Dense, Number, Rows, Strided};
use super::{
    DEFAULT, Row, expect, fallback, fft, grouped, index, leaf, module, movement, nn,
    pointwise as p, reduce, while_loop,
};
use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// Calls the macro `$read` with `[arguments]` and all rows.
macro_rules! primitives {
    ($read:ident [$($arguments:tt)*]) => { $read! { [$($arguments)*]
        // ---- leaves
        /// The `index`-th input of the program.
        Input { "input" Leaf Exactly(0), ["index", "type"], leaf::declared, leaf::EXTERNAL, p::no_flops }
            grad (Stops) padded (One(leaf::input));
        /// The `slot`-th number of the argument block: `f64`, `i64` or `bool`, rank 0.
        Scalar { "scalar" Leaf Exactly(0), ["slot", "dtype"], leaf::scalar_type, leaf::EXTERNAL, p::no_flops }
            grad (Stops);
        /// One number of a dtype, rank 0. `value` is an f64; integers beyond 2^53 use `ConstInt`.
        Const { "const" Leaf Exactly(0), ["value", "dtype"], leaf::const_type, leaf::CONST, p::no_flops }
            grad (Stops) padded (One(leaf::constant));
        /// One integer or bool, rank 0.
        ConstInt { "const_int" Leaf Exactly(0), ["value", "dtype"], leaf::const_int_type, leaf::CONST_INT, p::no_flops }
            grad (Stops) padded (One(leaf::constant));
        /// Index along `dim`: element `[…, i, …]` is `i`. Integer or float dtype.
        Iota { "iota" Leaf Exactly(0), ["sizes", "dim", "dtype"], leaf::iota_type, leaf::IOTA, p::no_flops }
            grad (Stops) padded (One(leaf::iota));

        // ---- pointwise, one input (result type = input type)
        Neg { "neg" Pointwise Exactly(1), [], p::same_number, p::both(|x| -x[0], |x| Some(x[0].wrapping_neg())), p::each, exact: true }
            grad (Flows(|s| unary(s, |_, _, dy| -dy))) cpu (short |a| -a);
        Abs { "abs" Pointwise Exactly(1), [], p::same_number, p::both(|x| x[0].abs(), |x| Some(x[0].wrapping_abs())), p::each, cuda: "fabs", exact: true }
            grad (Flows(|s| unary(s, |x, _, dy| dy * x.unary(Op::Sign)))) cpu (short |a| a.abs());
        /// -1, 0 or 1; 0 for NaN, as PyTorch.
        Sign { "sign" Pointwise Exactly(1), [], p::same_number, p::both(p::sign, |x| Some(x[0].signum())), p::each, exact: true, jumps: true }
            grad (Stops) cpu (long |a| math::sign(a));
        Exp { "exp" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].exp()), p::each, work: 4, ulps: 1.1, cuda: "exp" }
            grad (Flows(|s| unary(s, |_, y, dy| dy * y))) cpu (long |a| math::exp(a));
        Expm1 { "expm1" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].exp_m1()), p::each, work: 4, ulps: 2.0, cuda: "expm1" }
            grad (Flows(|s| unary(s, |_, y, dy| dy * (y + 1.0)))) cpu (long |a| math::expm1(a));
        Log { "log" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].ln()), p::each, work: 4, ulps: 1.0, cuda: "log" }
            grad (Flows(|s| unary(s, |x, _, dy| dy / x))) cpu (long |a| math::log(a));
        Log1p { "log1p" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].ln_1p()), p::each, work: 4, ulps: 2.0, cuda: "log1p" }
            grad (Flows(|s| unary(s, |x, _, dy| dy / (x + 1.0)))) cpu (long |a| math::log1p(a));
        Sqrt { "sqrt" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].sqrt()), p::each, work: 4, cuda: "sqrt" }
            grad (Flows(|s| unary(s, |_, y, dy| dy / (2.0 * y)))) cpu (short |a| a.sqrt());
        Rsqrt { "rsqrt" Pointwise Exactly(1), [], p::same_float, p::float(|x| 1.0 / x[0].sqrt()), p::each, work: 4, ulps: 1.5, cuda: "rsqrt" }
            grad (Flows(|s| unary(s, |_, y, dy| -0.5 * dy * (y * y * y)))) cpu (short |a| a.rsqrt());
        Sin { "sin" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].sin()), p::each, work: 4, ulps: 2.0, cuda: "sin" }
            grad (Flows(|s| unary(s, |x, _, dy| dy * x.unary(Op::Cos)))) cpu (own);
        Cos { "cos" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].cos()), p::each, work: 4, ulps: 2.0, cuda: "cos" }
            grad (Flows(|s| unary(s, |x, _, dy| -(dy * x.unary(Op::Sin))))) cpu (own);
        Tanh { "tanh" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].tanh()), p::each, work: 4, ulps: 5.0, cuda: "tanh" }
            grad (Flows(|s| unary(s, |_, y, dy| dy * (1.0 - y * y)))) cpu (long |a| math::tanh(a));
        Erf { "erf" Pointwise Exactly(1), [], p::same_float, p::float(|x| libm::erf(x[0])), p::each, work: 4, ulps: 5.0, cuda: "erf" }
            grad (Flows(|s| unary(s, |x, _, dy| dy * (FRAC_2_SQRT_PI * (-(x * x)).exp())))) cpu (long |a| math::erf(a));
        /// 1 - erf(x), small where that cancels.
        Erfc { "erfc" Pointwise Exactly(1), [], p::same_float, p::float(|x| libm::erfc(x[0])), p::each, work: 4, ulps: 6.0, cuda: "erfc" }
            grad (Flows(|s| unary(s, |x, _, dy| dy * (-FRAC_2_SQRT_PI * (-(x * x)).exp())))) cpu (long |a| math::erfc(a));
        /// The number whose erf is x: infinite at -1 and 1, NaN beyond.
        Erfinv { "erfinv" Pointwise Exactly(1), [], p::same_float, p::float(p::erfinv), p::each, work: 8, ulps: 6.0, cuda: "erfinv" }
            grad (Flows(|s| unary(s, |_, y, dy| dy * ((y * y).exp() * (1.0 / FRAC_2_SQRT_PI))))) cpu (long |a| math::erfinv(a));
        /// 1 / (1 + exp(-x))
        Sigmoid { "sigmoid" Pointwise Exactly(1), [], p::same_float, p::float(|x| 1.0 / (1.0 + (-x[0]).exp())), p::each, work: 4, ulps: 3.0 }
            grad (Flows(|s| unary(s, |_, y, dy| dy * (1.0 - y) * y))) cpu (long |a| math::sigmoid(a));
        Floor { "floor" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].floor()), p::each, cuda: "floor", exact: true, jumps: true }
            grad (Stops) cpu (short |a| a.floor());
        Ceil { "ceil" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].ceil()), p::each, cuda: "ceil", exact: true, jumps: true }
            grad (Stops) cpu (short |a| a.ceil());
        /// To the nearest integer, ties to even.
        Round { "round" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].round_ties_even()), p::each, cuda: "rint", exact: true, jumps: true }
            grad (Stops) cpu (short |a| a.round());
        Trunc { "trunc" Pointwise Exactly(1), [], p::same_float, p::float(|x| x[0].trunc()), p::each, cuda: "trunc", exact: true, jumps: true }
            grad (Stops) cpu (short |a| a.trunc());
        /// Logical for bool, bitwise for integers.
        Not { "not" Pointwise Exactly(1), [], p::same_bits, p::NOT, p::each }
            grad (Stops);
        /// To another dtype. Float to integer truncates (see `array::as_integer`); anything to bool is `!= 0`; bool to number is 0 or 1. 8-bit floats
        /// (but e8m0) are cast from and to f32: to nearest, what is too large to infinity or NaN.
        Cast { "cast" Pointwise Exactly(1), ["dtype"], p::cast_type, p::CAST, p::each }
            grad (Flows(|s| Ok(vec![Some(s.dy().cast(s.x[0].dtype()))])));

        // ---- pointwise, two inputs
        Add { "add" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] + x[1], |x| Some(x[0].wrapping_add(x[1]))), p::each }
            grad (Flows(|s| binary(s, |_, _, dy| [dy, dy])));
        Sub { "sub" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] - x[1], |x| Some(x[0].wrapping_sub(x[1]))), p::each }
            grad (Flows(|s| binary(s, |_, _, dy| [dy, -dy])));
        Mul { "mul" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] * x[1], |x| Some(x[0].wrapping_mul(x[1]))), p::each }
            grad (Flows(|s| binary(s, |[a, b], _, dy| [dy * b, dy * a])));
        /// Integers: towards zero; by zero is an error.
        Div { "div" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] / x[1], |x| p::nonzero(x, i64::wrapping_div)), p::each, work: 4, refuses: |dtype| !dtype.is_float() }
            grad (Flows(|s| binary(s, |[a, b], _, dy| [dy / b, -dy * (a / b / b)])));
        /// Remainder with the sign of the dividend (C `fmod`); integer by zero is an error.
        Rem { "rem" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0] % x[1], |x| p::nonzero(x, i64::wrapping_rem)), p::each, work: 4, refuses: |dtype| !dtype.is_float(), cuda: "fmod", exact: true, jumps: true }
            grad (Flows(|s| binary(s, |[a, b], _, dy| [dy, -dy * (a / b).unary(Op::Trunc)])));
        /// C `pow`. Integers: by repeated squaring, negative exponents give 0 except for bases 1 and -1.
        Pow { "pow" Pointwise Exactly(2), [], p::same_number, p::both(|x| x[0].powf(x[1]), |x| Some(p::int_pow(x[0], x[1]))), p::each, work: 8, ulps: 1.0, cuda: "pow" }
            grad (Flows(|s| binary(s, pointwise::pow)));
        /// The larger one; NaN if either is NaN.
        Max { "max" Pointwise Exactly(2), [], p::same_any, p::both(p::max, |x| Some(x[0].max(x[1]))), p::each, exact: true }
            grad (Flows(|s| pointwise::extreme(s, Op::Gt)));
        /// The smaller one; NaN if either is NaN.
        Min { "min" Pointwise Exactly(2), [], p::same_any, p::both(p::min, |x| Some(x[0].min(x[1]))), p::each, exact: true }
            grad (Flows(|s| pointwise::extreme(s, Op::Lt)));
        Atan2 { "atan2" Pointwise Exactly(2), [], p::same_float, p::float(|x| x[0].atan2(x[1])), p::each, work: 8, ulps: 3.0, cuda: "atan2", jumps: true }
            grad (Flows(|s| binary(s, pointwise::atan2)));
        And { "and" Pointwise Exactly(2), [], p::same_bits, p::int(|x| Some(x[0] & x[1])), p::each }
            grad (Stops);
        Or { "or" Pointwise Exactly(2), [], p::same_bits, p::int(|x| Some(x[0] | x[1])), p::each }
            grad (Stops);
        Xor { "xor" Pointwise Exactly(2), [], p::same_bits, p::int(|x| Some(x[0] ^ x[1])), p::each }
            grad (Stops);

        // ---- comparisons: equal dtypes in, bool out
        Eq { "eq" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] == x[1]), |x| Some((x[0] == x[1]) as i64)), p::each }
            grad (Stops);
        Ne { "ne" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] != x[1]), |x| Some((x[0] != x[1]) as i64)), p::each }
            grad (Stops);
        Lt { "lt" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] < x[1]), |x| Some((x[0] < x[1]) as i64)), p::each }
            grad (Stops);
        Le { "le" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] <= x[1]), |x| Some((x[0] <= x[1]) as i64)), p::each }
            grad (Stops);
        Gt { "gt" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] > x[1]), |x| Some((x[0] > x[1]) as i64)), p::each }
            grad (Stops);
        Ge { "ge" Pointwise Exactly(2), [], p::comparison, p::both(|x| p::truth(x[0] >= x[1]), |x| Some((x[0] >= x[1]) as i64)), p::each }
            grad (Stops);

        // ---- pointwise, other
        /// `(condition: bool, a, b)`: a where the condition holds, else b.
        Select { "select" Pointwise Exactly(3), [], p::select_type, p::SELECT, p::each, exact: true }
            grad (Flows(pointwise::select));
        /// `(seed: i64[], offset: i64[])`: uniform in [0, 1), f32, by Philox4x32-10. Key = seed (low word, high word); counter =
        /// (offset + i/4) in the low two words, 0 above; element i is word i%4, its top 24 bits times 2^-24.
        Random { "random" Leaf Exactly(2), ["sizes"], |x, a| leaf::random_type(x, a, DType::F32), leaf::RANDOM, p::each, work: 64 }
            grad (Stops) padded (One(leaf::random));
        /// `(seed: i64[], offset: i64[])`: 64 random bits, i64. The lower word is what `random` makes its number of; the upper one
        /// is word i%4, too, of the counter with 1 in its third word.
        RandomBits { "random_bits" Leaf Exactly(2), ["sizes"], |x, a| leaf::random_type(x, a, DType::I64), leaf::RANDOM, p::each, work: 128 }
            grad (Stops) padded (One(leaf::random));

        // ---- movement
        /// Same elements in row-major order, other sizes.
        Reshape { "reshape" Movement Exactly(1), ["sizes"], movement::reshape_type, movement::RESHAPE, p::no_flops }
            grad (Flows(|s| Ok(vec![Some(s.dy().reshape(&s.x[0].sizes()))]))) padded (One(movement::reshape));
        /// Dimension i of the result is dimension perm[i] of the input.
        Transpose { "transpose" Movement Exactly(1), ["perm"], movement::transpose_type, movement::TRANSPOSE, p::no_flops }
            grad (Flows(movement::transpose)) padded (One(movement::transpose));
        /// Numpy broadcasting to `sizes`.
        Broadcast { "broadcast" Movement Exactly(1), ["sizes"], movement::broadcast_type, movement::BROADCAST, p::no_flops }
            grad (Flows(movement::broadcast)) padded (One(movement::broadcast));
        /// Dimension i: `sizes[i]` elements from `starts[i]`, every `steps[i]`-th (steps >= 1).
        Slice { "slice" Movement Exactly(1), ["starts", "sizes", "steps"], movement::slice_type, movement::SLICE, p::no_flops }
            grad (Flows(movement::slice)) padded (One(movement::slice));
        /// A strided view of the input's flat elements (torch.as_strided).
        AsStrided { "as_strided" Movement Exactly(1), ["sizes", "strides", "offset"], movement::as_strided_type, movement::AS_STRIDED, p::no_flops }
            grad (Flows(movement::as_strided)) padded (One(strided::as_strided));
        /// Reads the same bytes as another dtype; the last dimension scales by the ratio of the sizes of the elements.
        Bitcast { "bitcast" Movement Exactly(1), ["dtype"], movement::bitcast_type, movement::BITCAST, p::no_flops }
            grad (Flows(movement::bitcast)) padded (One(movement::bitcast));
        /// Joins along `dim`.
        Concat { "concat" Movement AtLeast(1), ["dim"], movement::concat_type, movement::CONCAT, p::no_flops, layouts: &[Strided] }
            grad (Flows(movement::concat)) padded (One(movement::concat));
        /// `(base, x)`: base with x written over the strided view of its flat elements (torch.as_strided_scatter). x has the view's sizes.
        AsStridedScatter { "as_strided_scatter" Movement Exactly(2), ["sizes", "strides", "offset"], movement::scatter_type, movement::AS_STRIDED_SCATTER, p::no_flops, layouts: &[Dense, Strided] }
            grad (Flows(movement::as_strided_scatter)) padded (One(strided::scatter));

        /// x; equal nodes with other numbers stay two while a graph is built: a point that gradients are taken at. The first pass
        /// removes it.
        Mark { "mark" Movement Exactly(1), ["number"], movement::mark_type, movement::SAME, p::no_flops }
            grad (Flows(|s| Ok(vec![Some(s.dy())])));
        /// x, through which no gradient flows. The first pass removes it.
        Detach { "detach" Movement Exactly(1), [], movement::same_type, movement::SAME, p::no_flops }
            grad (Stops);

        /// x, in the host's memory if it lies between the inputs and the results of a program: a device's is free meanwhile.
        Offload { "offload" Movement Exactly(1), [], movement::same_type, movement::SAME, p::no_flops }
            grad (Flows(|s| Ok(vec![Some(s.dy())]))) padded (One(movement::same));
        /// x, in the device's memory again.
        Reload { "reload" Movement Exactly(1), [], movement::same_type, movement::SAME, p::no_flops }
            grad (Flows(|s| Ok(vec![Some(s.dy())]))) padded (One(movement::same));

        // ---- reductions over `axes` (sorted, dropped from the result); the empty product of axes is the identity
        Sum { "reduce_sum" Reduction Exactly(1), ["axes"], reduce::number, reduce::SUM, reduce::flops, neutral: Some(0.0) }
            grad (Flows(|s| Ok(vec![Some(reduce::restored(s, s.dy()))]))) padded (One(reduce::reduce));
        Prod { "reduce_prod" Reduction Exactly(1), ["axes"], reduce::number, reduce::PROD, reduce::flops, neutral: Some(1.0) }
            grad (Flows(reduce::prod)) padded (One(reduce::reduce));
        /// NaN wins. An empty axis is an error.
        ReduceMax { "reduce_max" Reduction Exactly(1), ["axes"], reduce::ordered, reduce::MAX, reduce::flops, neutral: Some(f64::NEG_INFINITY), exact: true }
            grad (Flows(reduce::extreme)) padded (One(reduce::reduce));
        ReduceMin { "reduce_min" Reduction Exactly(1), ["axes"], reduce::ordered, reduce::MIN, reduce::flops, neutral: Some(f64::INFINITY), exact: true }
            grad (Flows(reduce::extreme)) padded (One(reduce::reduce));
        /// Any (`or`) over bool.
        Any { "reduce_any" Reduction Exactly(1), ["axes"], reduce::logical, reduce::ANY, reduce::flops, neutral: Some(0.0) }
            grad (Stops) padded (One(reduce::reduce));
        /// All (`and`) over bool.
        All { "reduce_all" Reduction Exactly(1), ["axes"], reduce::logical, reduce::ALL, reduce::flops, neutral: Some(1.0) }
            grad (Stops) padded (One(reduce::reduce));
        /// Index (i64) of the first maximum along `axis`, which is dropped; the first NaN wins.
        ArgMax { "argmax" Reduction Exactly(1), ["axis"], reduce::arg, reduce::ARGMAX, reduce::flops, folds: false }
            grad (Stops) padded (One(reduce::arg));
        ArgMin { "argmin" Reduction Exactly(1), ["axis"], reduce::arg, reduce::ARGMIN, reduce::flops, folds: false }
            grad (Stops) padded (One(reduce::arg));
        /// Running sum along `axis`.
        CumSum { "cumsum" Reduction Exactly(1), ["axis"], reduce::cumulative, reduce::CUMSUM, reduce::flops, folds: false }
            grad (Flows(reduce::cumsum)) padded (One(reduce::cumulative));
        /// Running product along `axis`.
        CumProd { "cumprod" Reduction Exactly(1), ["axis"], reduce::cumulative, reduce::CUMPROD, reduce::flops, folds: false }
            grad (Flows(reduce::cumprod)) padded (One(reduce::cumulative));
        /// The largest so far along `axis`; NaN wins.
        CumMax { "cummax" Reduction Exactly(1), ["axis"], reduce::cumulative, reduce::CUMMAX, reduce::flops, folds: false, exact: true }
            grad (Flows(reduce::cummax)) padded (One(reduce::cumulative));

        // ---- contraction
        /// The sums over j of x[…, j, :] · exp(∓2πi jk / n), of complex numbers as pairs `[…, n, 2]`, not normalized; + if
        /// `inverse`.
        Fft { "fft" Contraction Exactly(1), ["inverse"], fft::fft_type, fft::FFT, fft::fft_flops }
            grad (Flows(contraction::fft));
        /// `[…b, m, k] · […b, k, n] → […b, m, n]`; equal batch sizes, equal dtypes.
        Matmul { "matmul" Contraction Exactly(2), [], reduce::matmul_type, reduce::MATMUL, reduce::matmul_flops, layouts: &[Strided], multiplies: true }
            grad (Flows(contraction::matmul)) padded (One(contraction::matmul));
        /// Products of groups of rows or of terms; `ends` says where each group ends, ascending. `a` is [m, k], `ends` [g].
        /// With `b` [g, k, n]: each group of rows of `a` by the matrix of its own, [m, n]; rows of no group are 0.
        /// With `b` [k, n]: a product for each group of terms of the sums, [g, m, n].
        GroupedMatmul { "grouped_matmul" Contraction Exactly(3), [], grouped::grouped_matmul_type, grouped::GROUPED_MATMUL, grouped::flops, layouts: &[Strided, Strided, Dense], multiplies: true }
            grad (Flows(contraction::grouped_matmul)) padded (One(contraction::grouped));
        /// `(x[n,c,s…], w[o,c/groups,k…])` → `y[n,o,t…]`, one to three spatial dimensions: `y[n,o,t] = Σ x[n,c,t·stride + k·dilation
        /// - padding] · w[o,c,k]` over the channels of o's group. x is 0 in the padding.
        Conv { "conv" Contraction Exactly(2), ["stride", "padding", "dilation", "groups"], nn::conv_type, nn::CONV, nn::conv_flops, multiplies: true }
            grad (Flows(contraction::conv)) padded (All(contraction::windows));
        /// `(dy[n,o,t…], w)` → the gradient `dx[n,c,sizes…]`: also the transposed convolution of dy. dy may stop short of the
        /// last windows.
        ConvGradInput { "conv_grad_input" Contraction Exactly(2), ["sizes", "stride", "padding", "dilation", "groups"], nn::conv_grad_input_type, nn::CONV_GRAD_INPUT, nn::conv_grad_input_flops, multiplies: true }
            grad (Flows(contraction::conv_grad_input)) padded (All(contraction::windows));
        /// `(dy[n,o,t…], x[n,c,s…])` → the gradient `dw[o,c/groups,kernel…]`. dy may stop short of the last windows.
        ConvGradWeight { "conv_grad_weight" Contraction Exactly(2), ["kernel", "stride", "padding", "dilation", "groups"], nn::conv_grad_weight_type, nn::CONV_GRAD_WEIGHT, nn::conv_grad_weight_flops, multiplies: true }
            grad (Flows(contraction::conv_grad_weight)) padded (One(contraction::weight));
        /// `x[n,c,s…]` → `y[n,c,t…]`: sums over windows. With `ceil`, a last window may hang over the end.
        SumPool { "sum_pool" Contraction Exactly(1), ["kernel", "stride", "padding", "dilation", "ceil"], nn::sum_pool_type, nn::SUM_POOL, nn::pool_flops }
            grad (Flows(contraction::sum_pool)) padded (All(contraction::windows));
        /// `dy[n,c,t…]` → `dx[n,c,sizes…]`
        SumPoolGrad { "sum_pool_grad" Contraction Exactly(1), ["sizes", "kernel", "stride", "padding", "dilation", "ceil"], nn::sum_pool_grad_type, nn::SUM_POOL_GRAD, nn::pool_flops }
            grad (Flows(contraction::sum_pool_grad)) padded (All(contraction::windows));

        // ---- indexing; an index out of range is an IndexError (negative ones too)
        /// `(x, index)`: result sizes = x[..axis] ++ index sizes ++ x[axis+1..] (embedding, index_select). i32 or i64 index.
        Take { "take" Indexing Exactly(2), ["axis"], index::take_type, index::TAKE, p::no_flops, refuses: |_| true, exact: true }
            grad (Flows(index::take)) padded (One(index::take));
        /// `(base, index, x)`: base plus x's slices added at rows `index` of `axis` (index rank 1; a repeated index adds up, in order).
        IndexAdd { "index_add" Indexing Exactly(3), ["axis"], index::index_add_type, index::INDEX_ADD, p::each, refuses: |_| true }
            grad (Flows(index::index_add)) padded (One(index::index_add));
        /// `(x, index)`: torch.gather along `axis`; index has the result's sizes.
        Gather { "gather" Indexing Exactly(2), ["axis"], index::gather_type, index::GATHER, p::no_flops, refuses: |_| true, exact: true }
            grad (Flows(index::gather)) padded (One(index::gather));
        /// `(base, index, x)`: torch.scatter along `axis`, or torch.scatter_reduce with what is there: `reduction` is a
        /// [`index::Reduction`]. index and x have equal sizes.
        Scatter { "scatter" Indexing Exactly(3), ["axis", "reduction"], index::scatter_type, index::SCATTER, p::each, refuses: |_| true }
            grad (Flows(index::scatter)) padded (One(index::scatter));
        /// `x[n,c,s…]` → the largest of every window `y[n,c,t…]`, and where it is: i64, an index into the flattened spatial
        /// dimensions. The first of equals, the last NaN. With `ceil`, a last window may hang over the end.
        MaxPool { "max_pool" Indexing Exactly(1), ["kernel", "stride", "padding", "dilation", "ceil"], nn::max_pool_type, nn::MAX_POOL, nn::pool_flops, results: 2, exact: true }
            grad (Flows(index::max_pool)) padded (All(contraction::windows));
        /// `(dy[n,c,t…], index[n,c,t…])` → `dx[n,c,sizes…]`: dy added where the indices say, 0 elsewhere.
        MaxPoolGrad { "max_pool_grad" Indexing Exactly(2), ["sizes"], nn::max_pool_grad_type, nn::MAX_POOL_GRAD, nn::pool_flops }
            grad (Flows(index::max_pool_grad)) padded (All(contraction::windows));

        /// The first `k` elements along `axis` in descending order (`largest`) or ascending order, and where they are (i64). NaN
        /// is the largest of all; equal elements stay in the order of their indices.
        TopK { "top_k" Indexing Exactly(1), ["axis", "k", "largest"], reduce::top_k_type, reduce::TOP_K, reduce::sort_flops, results: 2, exact: true }
            grad (Flows(index::top_k));

        /// `(holds: bool[])`: 0 (i64, rank 0). Where it does not hold, an error that says `what` (`expect::Expectation`): added to
        /// what must not be computed then.
        Expect { "expect" Indexing Exactly(1), ["what"], expect::expect_type, expect::EXPECT, p::no_flops, refuses: |_| true, exact: true, jumps: true }
            grad (Stops) padded (One(leaf::expect));

        // ---- composites
        /// Over the last axis; float.
        Softmax { "softmax" Composite Exactly(1), [], nn::softmax_type, nn::SOFTMAX, nn::flops_5, by_rows: 1 }
            grad (Flows(|s| Ok(vec![Some(s.dy().binary(Op::SoftmaxGrad, s.y[0]))]))) decomposed (softmax)
            padded (All(composite::softmax));
        LogSoftmax { "log_softmax" Composite Exactly(1), [], nn::softmax_type, nn::LOG_SOFTMAX, nn::flops_5, by_rows: 1 }
            grad (Flows(|s| Ok(vec![Some(s.dy().binary(Op::LogSoftmaxGrad, s.y[0]))]))) decomposed (log_softmax)
            padded (All(composite::softmax));
        /// Over the last axis, which stays with size 1: the maximum, and log(sum(exp(x - maximum))); f32, or f64 for f64. Their sum
        /// is torch.logsumexp.
        LogSumExp { "log_sum_exp" Composite Exactly(1), [], nn::log_sum_exp_type, nn::LOG_SUM_EXP, nn::flops_5, results: 2 }
            grad (Flows(nn::log_sum_exp)) decomposed (log_sum_exp) padded (All(composite::softmax));
        /// `(dy, y)`: (dy - sum(dy*y)) * y over the last axis.
        SoftmaxGrad { "softmax_grad" Composite Exactly(2), [], nn::softmax_type, nn::SOFTMAX_GRAD, nn::flops_5, by_rows: 2 }
            grad (Flows(nn::softmax_grad)) decomposed (softmax_grad) padded (All(composite::softmax_grad));
        /// `(dy, y)`: dy - exp(y) * sum(dy) over the last axis.
        LogSoftmaxGrad { "log_softmax_grad" Composite Exactly(2), [], nn::softmax_type, nn::LOG_SOFTMAX_GRAD, nn::flops_5, by_rows: 2 }
            grad (Flows(nn::log_softmax_grad)) decomposed (log_softmax_grad) padded (All(composite::softmax_grad));
        /// `(x[r,c], weight[c]?, bias[c]?)` → `y[r,c]` (x's dtype), `mean[r]`, `rstd[r]` (f32, or f64 for f64). weight and bias
        /// have x's dtype or f32.
        LayerNorm { "layer_norm" Composite Between(1, 3), ["eps", "weight", "bias"], nn::layer_norm_type, nn::LAYER_NORM, nn::flops_8, results: 3, by_rows: 1, repeatable: true }
            grad (Flows(nn::layer_norm)) decomposed (norm::layer_norm) padded (All(composite::norm));
        /// `(dy[r,c], x[r,c], mean[r], rstd[r], weight[c]?)` → `dx[r,c]` (x's dtype), `dweight[c]`, `dbias[c]` (weight's dtype, else x's).
        LayerNormGrad { "layer_norm_grad" Composite Between(4, 5), [], nn::layer_norm_grad_type, nn::LAYER_NORM_GRAD, nn::flops_12, results: 3, by_rows: 2 }
            grad (Refuses) decomposed (norm::layer_norm_grad)
            padded (All(|pass, n, node| composite::norm_grad(pass, n, node, 4)));
        /// `(x[r,c], weight[c]?)` → `y[r,c]` (x's dtype), `rstd[r]` (f32, or f64 for f64): x · rstd · weight with rstd =
        /// 1/√(mean(x²) + eps) of the row. weight has x's dtype or f32.
        RmsNorm { "rms_norm" Composite Between(1, 2), ["eps"], nn::rms_norm_type, nn::RMS_NORM, nn::flops_5, results: 2, by_rows: 1, repeatable: true }
            grad (Flows(nn::rms_norm)) decomposed (norm::rms_norm) padded (All(composite::norm));
        /// `(dy[r,c], x[r,c], rstd[r], weight[c]?)` → `dx[r,c]` (x's dtype), `dweight[c]` (weight's dtype, else x's).
        RmsNormGrad { "rms_norm_grad" Composite Between(3, 4), [], nn::rms_norm_grad_type, nn::RMS_NORM_GRAD, nn::flops_8, results: 2, by_rows: 2 }
            grad (Refuses) decomposed (norm::rms_norm_grad)
            padded (All(|pass, n, node| composite::norm_grad(pass, n, node, 3)));
        /// `(q[b,h,t,d], k[b,g,s,d], v[b,g,s,e], seed: i64[], offset: i64[], bias[b,h,t,s]?)` → `out[b,h,t,e]` (q's dtype),
        /// `lse[b,h,t]` (f32, or f64 for f64): softmax(scale * q kᵀ + bias) v, h a multiple of g. bias: bool (false = masked)
        /// or float. `causal`: key j is seen by query i iff j <= i (upper left). `dropout` p: each probability is kept iff
        /// `random(seed, offset)[b,h,t,s] >= p`, and divided by 1-p. A row with nothing to see gives 0, lse -inf.
        Attention { "attention" Composite Between(5, 6), ["scale", "causal", "dropout"], nn::attention_type, nn::ATTENTION, nn::attention_flops, results: 2, layouts: &[Rows, Rows, Rows, Number, Number, Dense], multiplies: true }
            grad (Flows(nn::attention)) decomposed (attention::attention) padded (All(composite::attention));
        /// `(dout, q, k, v, out, lse, seed, offset, bias?)` → `dq, dk, dv` (as q, k, v).
        AttentionGrad { "attention_grad" Composite Between(8, 9), ["scale", "causal", "dropout"], nn::attention_grad_type, nn::ATTENTION_GRAD, nn::attention_grad_flops, results: 3, layouts: &[Rows, Rows, Rows, Rows, Rows, Dense, Number, Number, Dense], multiplies: true }
            grad (Refuses) decomposed (attention::attention_grad) padded (All(composite::attention_grad));
        /// `(gates[t,b,g·h], w[g·h,h], hidden[b,h], cell[b,h] or bias[h])` → `y[t,b,h]`, the last `cell[b,h]` of an LSTM, `saved[t,b,s·h]` for
        /// the gradient: one direction of a layer of torch.nn.RNN, LSTM or GRU ([`nn::Cell`]), whose input products with all
        /// their biases `gates` are; `reverse`: from the last step to the first. An LSTM has the first cell, a GRU the bias
        /// of the product that its reset gate multiplies. f32 or f64.
        Recurrent { "recurrent" Composite Between(3, 4), ["cell", "reverse"], nn::recurrent_type, nn::RECURRENT, nn::recurrent_flops, results: 3, unrolls: true, multiplies: true }
            grad (Flows(nn::recurrent)) decomposed (recurrent::recurrent);
        /// `(dy[t,b,h], w, hidden, y, saved, cell?, dcell?)` → `dgates[t,b,g·h]`, `dhidden[b,h]`, and `dcell[b,h]` of an LSTM, or of a GRU
        /// what the product that the reset gate multiplies gets, `[t,b,h]`.
        RecurrentGrad { "recurrent_grad" Composite Between(5, 7), ["cell", "reverse"], nn::recurrent_grad_type, nn::RECURRENT_GRAD, nn::recurrent_flops, results: 3, unrolls: true, multiplies: true }
            grad (Refuses) decomposed (recurrent::recurrent_grad);
        /// `(a[m,k], b[k,n], scale_a[m or 1,1], scale_b[1,n or 1])` → `dtype[m,n]`: the product of floats of 8 bits (but e8m0), of
        /// two formats if need be, summed in f32, times scale_a · scale_b (f32), rounded once to `dtype`, a float.
        ScaledMatmul { "scaled_matmul" Composite Exactly(4), ["dtype"], reduce::scaled_matmul_type, reduce::SCALED_MATMUL, reduce::matmul_flops, layouts: &[Strided, Strided, Dense], multiplies: true }
            grad (Refuses) decomposed (scaled_matmul) padded (One(contraction::scaled));

        // ---- programs
        /// A part of the program that a second engine computes as a whole: the results of `body` ([`module::Body`]).
        Module { "module" Nested AtLeast(0), ["body"], module::module_type, module::MODULE, p::no_flops, layouts: &[Number] }
            grad (Refuses);
        /// `(carried…, captured…)` → `carried…`: as long as `condition`, a bool of rank 0, holds, the results of `round` take the place
        /// of the carried values. Both see all operands ([`module::Body`]).
        While { "while" Nested AtLeast(0), ["condition", "round"], while_loop::while_type, while_loop::WHILE, p::no_flops, layouts: &[Number] }
            grad (Refuses);

        // ---- host
        /// A call of host operator `op`; `args` say how inputs and plain arguments interleave; `types` are the results'.
        Host { "host" Host AtLeast(0), ["op", "types", "args"], fallback::host_type, fallback::HOST, p::no_flops }
            grad (Flows(collective::adjoint));
        /// No result. Its operand, which nobody may read, is computed because what computes it refuses some numbers.
        Check { "check" Host Exactly(1), [], fallback::check_type, fallback::CHECK, p::no_flops, results: 0, layouts: &[Strided] }
            grad (Stops) padded (All(leaf::check));
    }};
}
pub(crate) use primitives;

/// Declares [`Op`] and [`TABLE`] from the same rows, so that they cannot disagree.
macro_rules! declare {
    ([] $($(#[doc = $doc:literal])* $op:ident
        { $name:literal $class:ident $arity:expr, [$($attr:literal),*], $infer:expr, $eval:expr, $flops:expr
          $(, $fact:ident: $value:expr)* } $($column:ident $of:tt)*;)*) => {
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
            doc: concat!($($doc, "\n"),*),
            $($fact: $value,)*
            ..DEFAULT
        },)*];
    };
}
primitives! { declare [] }

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
