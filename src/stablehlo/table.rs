//! One row per operation of StableHLO (and of CHLO, which JAX writes beside it): how it is read, and which primitives it
//! prints.

use super::forms as print;
use super::lower::Rule;
use super::ops::integers::{self, Shift};
use super::ops::{
    batch_norm, control, custom_call, elementwise as e, index, linalg, order, products, random,
    reduce, shape, special, while_loop, window,
};
use super::printer::Print;
use crate::op::{Op, Op::*};

pub struct Row {
    pub name: &'static str,
    /// The least number of operands.
    pub operands: usize,
    pub rule: Rule,
    pub prints: &'static [Op],
    pub print: Print,
}

/// The least number of operands, and the rule, of the operation of a name.
pub fn rules(name: &str) -> Option<(usize, Rule)> {
    let name = match name {
        "func.call" => "call",
        other => other,
    };
    TABLE.iter().find(|row| row.name == name).map(|row| (row.operands, row.rule))
}

/// The operation that prints a primitive.
pub fn printing(op: Op) -> Option<(&'static str, Print)> {
    let row = TABLE.iter().find(|row| row.prints.contains(&op))?;
    Some((row.name, row.print))
}

const fn row(name: &'static str, operands: usize, rule: Rule) -> Row {
    Row { name, operands, rule, prints: &[], print: print::same }
}

impl Row {
    const fn prints(self, prints: &'static [Op], print: Print) -> Row {
        Row { prints, print, ..self }
    }
}

pub static TABLE: &[Row] = &[
    // ---- leaves
    row("stablehlo.constant", 0, shape::constant).prints(&[Const, ConstInt], print::constant),
    row("stablehlo.iota", 0, shape::iota).prints(&[Iota], print::iota),
    // ---- one operand
    row("stablehlo.negate", 1, e::negate).prints(&[Neg], print::same),
    row("stablehlo.abs", 1, e::abs).prints(&[Abs], print::same),
    row("stablehlo.sign", 1, e::sign),
    row("stablehlo.exponential", 1, |c| e::unary(c, Exp)).prints(&[Exp], print::same),
    row("stablehlo.exponential_minus_one", 1, |c| e::unary(c, Expm1)).prints(&[Expm1], print::same),
    row("stablehlo.log", 1, |c| e::unary(c, Log)).prints(&[Log], print::same),
    row("stablehlo.log_plus_one", 1, |c| e::unary(c, Log1p)).prints(&[Log1p], print::same),
    row("stablehlo.sqrt", 1, |c| e::unary(c, Sqrt)).prints(&[Sqrt], print::same),
    row("stablehlo.rsqrt", 1, |c| e::unary(c, Rsqrt)).prints(&[Rsqrt], print::same),
    row("stablehlo.cbrt", 1, special::cbrt),
    row("stablehlo.sine", 1, |c| e::unary(c, Sin)).prints(&[Sin], print::same),
    row("stablehlo.cosine", 1, |c| e::unary(c, Cos)).prints(&[Cos], print::same),
    row("stablehlo.tan", 1, special::tan),
    row("stablehlo.tanh", 1, |c| e::unary(c, Tanh)).prints(&[Tanh], print::same),
    row("stablehlo.logistic", 1, |c| e::unary(c, Sigmoid)).prints(&[Sigmoid], print::same),
    row("stablehlo.floor", 1, |c| e::unary(c, Floor)).prints(&[Floor], print::same),
    row("stablehlo.ceil", 1, |c| e::unary(c, Ceil)).prints(&[Ceil], print::same),
    row("stablehlo.round_nearest_even", 1, |c| e::unary(c, Round)).prints(&[Round], print::same),
    row("stablehlo.round_nearest_afz", 1, e::round_afz),
    row("stablehlo.is_finite", 1, e::is_finite),
    row("stablehlo.not", 1, |c| e::unary(c, Not)).prints(&[Not], print::same),
    row("stablehlo.popcnt", 1, integers::popcnt),
    row("stablehlo.count_leading_zeros", 1, integers::count_leading_zeros),
    row("stablehlo.convert", 1, e::convert).prints(&[Cast], print::functional),
    row("stablehlo.reduce_precision", 1, e::reduce_precision),
    row("stablehlo.real", 1, |c| e::part(c, 0)),
    row("stablehlo.imag", 1, |c| e::part(c, 1)),
    row("stablehlo.optimization_barrier", 0, e::identity),
    row("chlo.erf", 1, |c| e::unary(c, Erf)).prints(&[Erf], print::chlo),
    row("chlo.erfc", 1, |c| e::unary(c, Erfc)).prints(&[Erfc], print::chlo),
    row("chlo.erf_inv", 1, |c| e::unary(c, Erfinv)).prints(&[Erfinv], print::chlo),
    row("chlo.lgamma", 1, special::lgamma),
    row("chlo.digamma", 1, special::digamma),
    row("chlo.tan", 1, special::tan),
    row("chlo.sinh", 1, special::sinh),
    row("chlo.cosh", 1, special::cosh),
    row("chlo.atan", 1, special::atan),
    row("chlo.asin", 1, special::asin),
    row("chlo.acos", 1, special::acos),
    row("chlo.asinh", 1, special::asinh),
    row("chlo.acosh", 1, special::acosh),
    row("chlo.atanh", 1, special::atanh),
    row("chlo.square", 1, |c| e::formula(c, |v| v * v)),
    row("chlo.is_inf", 1, |c| e::test(c, |v| v.abs().eq(f64::INFINITY))),
    row("chlo.is_pos_inf", 1, |c| e::test(c, |v| v.eq(f64::INFINITY))),
    row("chlo.is_neg_inf", 1, |c| e::test(c, |v| v.eq(f64::NEG_INFINITY))),
    // ---- two operands and more
    row("stablehlo.add", 2, |c| e::binary(c, Add, Some(Or))).prints(&[Add], print::same),
    row("stablehlo.subtract", 2, |c| e::binary(c, Sub, None)).prints(&[Sub], print::same),
    row("stablehlo.multiply", 2, |c| e::binary(c, Mul, Some(And))).prints(&[Mul], print::same),
    row("stablehlo.divide", 2, |c| e::divide(c, Div)).prints(&[Div], print::same),
    row("stablehlo.remainder", 2, |c| e::divide(c, Rem)).prints(&[Rem], print::same),
    row("stablehlo.power", 2, e::power).prints(&[Pow], print::same),
    row("stablehlo.maximum", 2, |c| e::maximum(c, Max)).prints(&[Max], print::same),
    row("stablehlo.minimum", 2, |c| e::maximum(c, Min)).prints(&[Min], print::same),
    row("stablehlo.atan2", 2, |c| e::binary(c, Atan2, None)).prints(&[Atan2], print::same),
    row("stablehlo.and", 2, |c| integers::bitwise(c, And)).prints(&[And], print::same),
    row("stablehlo.or", 2, |c| integers::bitwise(c, Or)).prints(&[Or], print::same),
    row("stablehlo.xor", 2, |c| integers::bitwise(c, Xor)).prints(&[Xor], print::same),
    row("stablehlo.shift_left", 2, |c| integers::shift(c, Shift::Left)),
    row("stablehlo.shift_right_logical", 2, |c| integers::shift(c, Shift::Logical)),
    row("stablehlo.shift_right_arithmetic", 2, |c| integers::shift(c, Shift::Arithmetic)),
    row("stablehlo.complex", 2, e::complex_of),
    row("stablehlo.compare", 2, e::compare).prints(&[Eq, Ne, Lt, Le, Gt, Ge], print::compare),
    row("stablehlo.select", 3, e::select).prints(&[Select], print::select),
    row("stablehlo.clamp", 3, e::clamp),
    row("chlo.next_after", 2, special::next_after),
    // ---- shapes
    row("stablehlo.reshape", 1, shape::reshape).prints(&[Reshape], print::functional),
    row("stablehlo.transpose", 1, shape::transpose).prints(&[Transpose], print::transpose),
    row("stablehlo.broadcast_in_dim", 1, shape::broadcast_in_dim)
        .prints(&[Broadcast], print::broadcast),
    row("stablehlo.broadcast", 1, shape::broadcast),
    row("stablehlo.slice", 1, shape::slice).prints(&[Slice], print::slice),
    row("stablehlo.concatenate", 1, shape::concatenate).prints(&[Concat], print::concatenate),
    row("stablehlo.pad", 2, shape::pad),
    row("stablehlo.reverse", 1, shape::reverse),
    row("stablehlo.dynamic_slice", 1, shape::dynamic_slice),
    row("stablehlo.dynamic_update_slice", 2, shape::dynamic_update_slice)
        .prints(&[AsStridedScatter], print::update_slice),
    row("stablehlo.bitcast_convert", 1, shape::bitcast_convert).prints(&[Bitcast], print::bitcast),
    // ---- reductions and order
    row("stablehlo.reduce", 2, reduce::reduce)
        .prints(&[Sum, Prod, ReduceMax, ReduceMin, Any, All], print::reduce),
    row("stablehlo.reduce_window", 2, window::reduce_window)
        .prints(&[CumSum, CumProd, CumMax, SumPool], print::reduce_window),
    row("stablehlo.select_and_scatter", 3, window::select_and_scatter),
    row("stablehlo.sort", 1, order::sort),
    row("chlo.top_k", 1, order::top_k),
    row("stablehlo.batch_norm_training", 3, batch_norm::training),
    row("stablehlo.batch_norm_inference", 5, batch_norm::inference),
    row("stablehlo.batch_norm_grad", 5, batch_norm::gradient),
    // ---- products
    row("stablehlo.dot_general", 2, products::dot_general).prints(&[Matmul], print::dot_general),
    row("stablehlo.dot", 2, products::dot),
    row("stablehlo.convolution", 2, products::convolution).prints(&[Conv], print::convolution),
    row("stablehlo.fft", 1, products::fft),
    row("stablehlo.cholesky", 1, linalg::cholesky),
    row("stablehlo.triangular_solve", 2, linalg::triangular_solve),
    // ---- indices
    row("stablehlo.gather", 2, index::gather).prints(&[Take], print::take),
    row("stablehlo.scatter", 3, index::scatter).prints(&[IndexAdd, Scatter], print::scatter),
    // ---- control
    row("call", 0, control::call),
    row("stablehlo.composite", 0, control::composite),
    row("stablehlo.custom_call", 0, custom_call::custom_call),
    row("sdy.sharding_constraint", 1, e::identity),
    row("stablehlo.while", 0, while_loop::while_loop).prints(&[While], print::while_loop),
    row("stablehlo.if", 1, control::branches),
    row("stablehlo.case", 1, control::branches),
    row("stablehlo.rng", 0, control::refused),
    row("stablehlo.rng_bit_generator", 1, random::rng_bit_generator),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_every_primitive_has_one_row() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|other| other.name != row.name), "{}", row.name);
            for op in row.prints {
                assert_eq!(printing(*op).map(|found| found.0), Some(row.name), "{op:?}");
            }
        }
    }
}
