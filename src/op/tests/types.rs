//! What `infer` refuses and how it says so; that no operands and attributes whatever make a row panic; CPU fallbacks.

use super::*;
use crate::error::Code;
use crate::op::Tys;
use crate::op::arg::{Arg, ScalarKind};
use crate::op::host::{self, HostArg, HostOp};
use crate::op::table::TABLE;

fn ty(dtype: DType, sizes: &[i64]) -> Ty {
    Ty::new(dtype, sizes)
}

#[test]
fn refusals_say_what_is_wrong() {
    use Attr::{Bool as B, DType as D, Float as F, Int as I};
    let f = |sizes: &[i64]| ty(F32, sizes);
    let i = |sizes: &[i64]| ty(I64, sizes);
    let axis = |n| vec![I(n)];
    let cases: Vec<(Op, Vec<Ty>, Vec<Attr>, &str)> = vec![
        (
            Op::Add,
            vec![f(&[2]), f(&[3])],
            vec![],
            "size of tensor a (2) must match the size of tensor b (3)",
        ),
        (Op::Add, vec![f(&[2]), i(&[2])], vec![], "same dtype, but got: f32 != i64"),
        (Op::Add, vec![ty(Bool, &[2]); 2], vec![], "not implemented for 'bool'"),
        (Op::Add, vec![ty(C64, &[2]); 2], vec![], "not implemented for 'c64'"),
        (Op::Add, vec![f(&[2])], vec![], "takes Exactly(2) operands, got 1"),
        (Op::Add, vec![f(&[2]); 2], axis(0), "expected attributes ()"),
        (Op::Exp, vec![i(&[2])], vec![], "expected a float dtype"),
        (Op::And, vec![f(&[2]); 2], vec![], "expected an integer dtype or bool"),
        (Op::Fft, vec![f(&[4])], vec![B(false)], "expected pairs of numbers in lines"),
        (Op::Fft, vec![f(&[4, 3])], vec![B(false)], "expected pairs of numbers in lines"),
        (Op::Fft, vec![i(&[4, 2])], vec![B(false)], "expected f32 or f64"),
        (Op::Select, vec![f(&[2]); 3], vec![], "condition to have dtype bool, but got f32"),
        (Op::Cast, vec![f(&[2])], vec![D(C64)], "not implemented for 'c64'"),
        (Op::Const, vec![], vec![I(1), D(F32)], "expected attributes (value: float, dtype: dtype)"),
        (Op::ConstInt, vec![], vec![I(1), D(F32)], "expected an integer dtype or bool"),
        (Op::Scalar, vec![], vec![I(0), D(F32)], "a scalar is f64, i64 or bool, not f32"),
        (
            Op::Iota,
            vec![],
            vec![ints(&[2]), I(1), D(I64)],
            "Dimension out of range (expected to be in range of [0, 0]",
        ),
        (Op::Iota, vec![], vec![ints(&[-2]), I(0), D(I64)], "negative dimension -2"),
        (Op::Random, vec![i(&[]), f(&[])], vec![ints(&[2])], "offset to have dtype i64"),
        (Op::RandomBits, vec![f(&[]), i(&[])], vec![ints(&[2])], "seed to have dtype i64"),
        (
            Op::Reshape,
            vec![f(&[5])],
            vec![ints(&[2, 3])],
            "shape '[2, 3]' is invalid for input of size 5",
        ),
        (Op::Reshape, vec![f(&[6])], vec![ints(&[-2, -3])], "negative dimension -2"),
        (Op::Transpose, vec![f(&[2, 3])], vec![ints(&[0, 0])], "[0, 0] is not a permutation"),
        (
            Op::Broadcast,
            vec![f(&[3])],
            vec![ints(&[2])],
            "expanded size of the tensor (2) must match the existing size (3)",
        ),
        (Op::Broadcast, vec![f(&[1, 1])], vec![ints(&[2])], "number of sizes provided (1)"),
        (Op::Broadcast, vec![f(&[1])], vec![ints(&[1 << 40, 1 << 40])], "overflow"),
        (Op::Reshape, vec![f(&[0])], vec![ints(&[1 << 40, 1 << 40, 0])], "overflow"),
        (
            Op::Slice,
            vec![f(&[5])],
            vec![ints(&[3]), ints(&[2]), ints(&[2])],
            "does not fit dimension 0 with size 5",
        ),
        (
            Op::Slice,
            vec![f(&[5])],
            vec![ints(&[0]), ints(&[i64::MAX]), ints(&[i64::MAX])],
            "does not fit",
        ),
        (
            Op::Slice,
            vec![f(&[5])],
            vec![ints(&[0]), ints(&[1, 1]), ints(&[1])],
            "one number for each dimension",
        ),
        (
            Op::AsStrided,
            vec![f(&[5])],
            vec![ints(&[3]), ints(&[2]), I(1)],
            "require 6 elements and are out of bounds for 5",
        ),
        (Op::AsStrided, vec![f(&[5])], vec![ints(&[3]), ints(&[-1]), I(4)], "Negative strides"),
        (
            Op::Bitcast,
            vec![f(&[3])],
            vec![D(F64)],
            "self.size(-1) must be divisible by 2 to view f32 as f64",
        ),
        (Op::Bitcast, vec![f(&[])], vec![D(F64)], "self.dim() cannot be 0"),
        (
            Op::Concat,
            vec![f(&[2, 3]), f(&[3, 3])],
            axis(1),
            "Expected size 2 but got size 3 for tensor number 1",
        ),
        (Op::Sum, vec![f(&[2])], vec![ints(&[1])], "Dimension out of range"),
        (Op::Sum, vec![f(&[2, 2])], vec![ints(&[1, 0])], "not sorted"),
        (Op::Sum, vec![ty(Bool, &[2])], vec![ints(&[0])], "not implemented for 'bool'"),
        (Op::Any, vec![f(&[2])], vec![ints(&[0])], "dtype bool, but got f32"),
        (
            Op::ReduceMax,
            vec![f(&[0])],
            vec![ints(&[0])],
            "Expected reduction dim 0 to have non-zero size",
        ),
        (Op::ArgMax, vec![f(&[0])], axis(0), "non-zero size"),
        (
            Op::TopK,
            vec![f(&[3])],
            vec![Attr::Int(0), Attr::Int(4), Attr::Bool(true)],
            "selected index k out of range: 4 of 3",
        ),
        (
            Op::Matmul,
            vec![f(&[2, 3]), f(&[4, 5])],
            vec![],
            "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        ),
        (Op::Matmul, vec![f(&[3]), f(&[3])], vec![], "at least 2D, but they are 1D and 1D"),
        (
            Op::Matmul,
            vec![f(&[2, 1, 1]), f(&[3, 1, 1])],
            vec![],
            "batch dimensions of both tensors to be [2], but got [3]",
        ),
        (Op::Take, vec![f(&[2]), f(&[2])], axis(0), "i32, i64; but got f32"),
        (
            Op::IndexAdd,
            vec![f(&[4]), i(&[2]), f(&[3])],
            axis(0),
            "the source to have sizes [2], but got [3]",
        ),
        (Op::Gather, vec![f(&[2, 2]), i(&[2])], axis(0), "same number of dimensions as self"),
        (Op::Gather, vec![f(&[2, 2]), i(&[2, 3])], axis(0), "Size does not match at dimension 1"),
        (
            Op::Scatter,
            vec![f(&[2]), i(&[1]), f(&[2])],
            vec![I(0), I(0)],
            "the source to have sizes [1]",
        ),
        (
            Op::Scatter,
            vec![f(&[2]), i(&[1]), f(&[1])],
            vec![I(0), I(5)],
            "axis: int, reduction: int below 5",
        ),
        (
            Op::Conv,
            vec![f(&[1, 4, 5]), f(&[2, 3, 3])],
            vec![ints(&[1]), ints(&[0]), ints(&[1]), I(1)],
            "expected input[1, 4, 5] to have 3 channels, but got 4 channels instead",
        ),
        (
            Op::Conv,
            vec![f(&[1, 4, 5]), f(&[2, 4, 9])],
            vec![ints(&[1]), ints(&[1]), ints(&[1]), I(1)],
            "Kernel size can't be greater than actual input size",
        ),
        (
            Op::Conv,
            vec![f(&[1, 4, 5]), f(&[2, 4, 3])],
            vec![ints(&[0]), ints(&[1]), ints(&[1]), I(1)],
            "expected stride to be 1 numbers of at least 1, but got [0]",
        ),
        (
            Op::ConvGradInput,
            vec![f(&[1, 2, 4]), f(&[2, 4, 3])],
            vec![ints(&[5]), ints(&[1]), ints(&[0]), ints(&[1]), I(1)],
            "grad_output to have sizes [1, 2, 3] (or end before that), but got [1, 2, 4]",
        ),
        (
            Op::ConvGradWeight,
            vec![f(&[1, 2, 3]), f(&[1, 4, 5])],
            vec![ints(&[3]), ints(&[1]), ints(&[0]), ints(&[1]), I(0)],
            "non-positive groups is not supported",
        ),
        (
            Op::MaxPool,
            vec![f(&[1, 4, 5])],
            vec![ints(&[2]), ints(&[1]), ints(&[2]), ints(&[1]), B(false)],
            "pad should be at most half of effective kernel size",
        ),
        (
            Op::MaxPoolGrad,
            vec![f(&[1, 4, 2]), f(&[1, 4, 2])],
            vec![ints(&[4])],
            "indices to have dtype i64",
        ),
        (
            Op::SumPoolGrad,
            vec![f(&[1, 4, 2])],
            vec![ints(&[6]), ints(&[2]), ints(&[2]), ints(&[0]), ints(&[1]), B(false)],
            "grad_output to have sizes [1, 4, 3], but got [1, 4, 2]",
        ),
        (Op::Softmax, vec![f(&[])], vec![], "at least one dimension"),
        (Op::Cast, vec![ty(BF16, &[2])], vec![Attr::DType(F8E5M2)], "not implemented for 'f8e5m2'"),
        (
            Op::ScaledMatmul,
            vec![f(&[2, 3]), f(&[3, 4]), f(&[1, 1]), f(&[1, 1])],
            vec![Attr::DType(F32)],
            "floats of 8 bits, but got f32",
        ),
        (
            Op::ScaledMatmul,
            vec![ty(F8E5M2, &[2, 3]), ty(F8E4M3FN, &[3, 4]), f(&[2, 1]), f(&[4, 1])],
            vec![Attr::DType(F32)],
            "scale_b to have sizes [1, 4], but got [4, 1]",
        ),
        (
            Op::GroupedMatmul,
            vec![f(&[5, 3]), f(&[2, 4, 1]), ty(I64, &[2])],
            vec![],
            "contraction dimension of mat_a and mat_b must match: 3 and 4",
        ),
        (
            Op::GroupedMatmul,
            vec![f(&[5, 3]), f(&[3, 3, 1]), ty(I64, &[2])],
            vec![],
            "matrix batch sizes have to match: 2 and 3",
        ),
        (
            Op::GroupedMatmul,
            vec![f(&[5, 3]), f(&[3, 1]), f(&[2])],
            vec![],
            "Expected index to have one of the following scalar types",
        ),
        (Op::LogSumExp, vec![f(&[2, 0])], vec![], "reduction dim 1 to have non-zero size"),
        (
            Op::LayerNorm,
            vec![f(&[2, 3]), f(&[2])],
            vec![F(0.1), B(true), B(false)],
            "to have sizes [3], but got [2]",
        ),
        (
            Op::LayerNorm,
            vec![f(&[2, 3]), f(&[3])],
            vec![F(0.1), B(true), B(true)],
            "expected operands",
        ),
        (
            Op::LayerNormGrad,
            vec![f(&[2, 3]), f(&[2, 3]), f(&[2]), f(&[3])],
            vec![],
            "rstd to have sizes [2]",
        ),
        (Op::RmsNorm, vec![f(&[2, 3]), f(&[2])], vec![F(0.1)], "to have sizes [3], but got [2]"),
        (
            Op::RmsNormGrad,
            vec![f(&[2, 3]), f(&[2, 3]), f(&[3])],
            vec![],
            "rstd to have sizes [2], but got [3]",
        ),
    ];
    for (op, inputs, attrs, message) in cases {
        let error = op.infer(&inputs.iter().collect::<Vec<_>>(), &attrs).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains(message), "{op:?}: {error}");
        assert!(error.message.starts_with(op.name()), "{error}");
    }
}

#[test]
fn attention_refuses_heads_and_masks_that_do_not_fit() {
    let attrs = [Attr::Float(1.0), Attr::Bool(false), Attr::Float(0.0)];
    let infer = |sizes: [&[i64]; 3], bias: Option<Ty>, attrs: &[Attr]| {
        let mut inputs: Vec<Ty> = sizes.map(|s| ty(F32, s)).into();
        inputs.extend([ty(I64, &[]), ty(I64, &[])]);
        inputs.extend(bias);
        Op::Attention.infer(&inputs.iter().collect::<Vec<_>>(), attrs)
    };
    let (q, k) = (&[1, 4, 2, 3][..], &[1, 2, 5, 3][..]);
    let outs = infer([q, k, k], Some(ty(Bool, &[1, 1, 2, 5])), &attrs).unwrap();
    assert_eq!(outs.to_vec(), [ty(F32, &[1, 4, 2, 3]), ty(F32, &[1, 4, 2])]);
    let refused = |result: Result<Tys>, message: &str| {
        let error = result.unwrap_err();
        assert!(error.message.contains(message), "{error}");
    };
    refused(
        infer([q, &[1, 3, 5, 3], &[1, 3, 5, 3]], None, &attrs),
        "must divide the number of heads",
    );
    refused(infer([q, k, &[1, 2, 4, 3]], None, &attrs), "value to have sizes [1, 2, 5, 3]");
    refused(infer([q, k, k], Some(ty(Bool, &[2, 5])), &attrs), "attn_mask to be a 4D tensor");
    refused(infer([q, k, k], Some(ty(Bool, &[1, 1, 5, 2])), &attrs), "cannot be broadcast");
    assert!(infer([q, k, k], Some(ty(I32, &[1, 1, 1, 1])), &attrs).is_ok());
    refused(infer([q, k, k], Some(ty(I32, &[1, 1, 1, 5])), &attrs), "the number of keys to have");
    refused(infer([q, k, k], Some(ty(I64, &[1, 1, 2, 5])), &attrs), "bool or float, but got i64");
    let dropout = [Attr::Float(1.0), Attr::Bool(false), Attr::Float(1.5)];
    refused(infer([q, k, k], None, &dropout), "between 0 and 1, but got 1.5");
}

/// Operands and attributes at random: a row gives an error or a type, and what has a type can be evaluated.
#[test]
fn no_row_panics() {
    let mut numbers = Numbers(30);
    let mut accepted = 0;
    for (row, _) in TABLE.iter().flat_map(|row| (0..3000).map(move |n| (row, n))) {
        let dtype = *pick(&mut numbers, &[F32, F64, I64, I64, Bool, BF16, U8, C64]);
        let inputs: Vec<Array> =
            (0..numbers.int(0, 5)).map(|_| some_array(&mut numbers, dtype)).collect();
        let known = row.attrs.len() as i64;
        let count = if numbers.int(0, 9) == 0 { numbers.int(0, 4) } else { known };
        let attrs: Vec<Attr> =
            (0..count).map(|n| some_attr(&mut numbers, row.attrs.get(n as usize))).collect();
        let operands: Vec<&Array> = inputs.iter().collect();
        let types: Vec<&Ty> = inputs.iter().map(|a| &a.ty).collect();
        let Ok(outs) = row.op.infer(&types, &attrs) else { continue };
        // A row called without the arity check must not panic either.
        assert!((row.infer)(&types, &attrs).is_ok());
        (row.flops)(&types, &outs);
        let small = outs.iter().all(|t| t.numel() < 10_000);
        if small && !matches!(row.eval, crate::op::Eval::External) {
            accepted += evaluate(row.op, &operands, &attrs, &outs).is_ok() as usize;
        }
    }
    assert!(accepted > 3000, "only {accepted} programs were valid");
    for row in TABLE {
        for n in 0..8 {
            let _ = (row.infer)(&vec![&ty(F32, &[2, 2]); n], &[]);
        }
    }
}

fn pick<'a, T>(numbers: &mut Numbers, from: &'a [T]) -> &'a T {
    &from[numbers.int(0, from.len() as i64 - 1) as usize]
}

fn some_array(numbers: &mut Numbers, dtype: DType) -> Array {
    let dtype = if numbers.int(0, 4) == 0 { *pick(numbers, &[I64, Bool, F32]) } else { dtype };
    let rank = *pick(numbers, &[0, 1, 2, 2, 4]);
    let sizes: Vec<i64> = (0..rank).map(|_| *pick(numbers, &[2, 2, 2, 2, 1, 3, 0])).collect();
    match dtype.has_arithmetic() {
        true => numbers.indices(dtype, &sizes, 2),
        false => numbers.bytes(dtype, &sizes),
    }
}

/// Usually of the kind that the name suggests.
fn some_attr(numbers: &mut Numbers, name: Option<&&'static str>) -> Attr {
    let list = |numbers: &mut Numbers| {
        let n = numbers.int(0, 3);
        let odd = numbers.int(0, 30) == 0;
        Attr::Ints((0..n).map(|_| if odd { i64::MAX - 1 } else { numbers.int(-1, 3) }).collect())
    };
    let name = if numbers.int(0, 19) == 0 { None } else { name };
    match name.copied() {
        Some("sizes" | "axes" | "perm" | "starts" | "steps" | "strides") => list(numbers),
        // Spatial dimensions of a tensor of four.
        Some("kernel" | "stride" | "padding" | "dilation") if numbers.int(0, 9) > 0 => {
            Attr::Ints((0..2).map(|_| numbers.int(0, 2)).collect())
        }
        Some("kernel" | "stride" | "padding" | "dilation") => list(numbers),
        Some("groups") => Attr::Int(numbers.int(-1, 3)),
        Some("axis" | "dim" | "offset" | "index" | "slot" | "op") => Attr::Int(numbers.int(-1, 2)),
        Some("dtype") => Attr::DType(*pick(numbers, &[F32, I64, Bool, F16, C64])),
        Some("scale" | "dropout" | "eps" | "value") => Attr::Float(numbers.float()),
        Some("causal" | "add" | "weight" | "bias" | "ceil") => Attr::Bool(numbers.int(0, 1) == 1),
        Some("type" | "types") => Attr::Types(vec![ty(F32, &[2])]),
        Some("args") => Attr::Args(vec![]),
        _ => pick(
            numbers,
            &[Attr::Int(i64::MAX), Attr::Float(f64::NAN), Attr::Ints(Default::default())],
        )
        .clone(),
    }
}

#[test]
fn cpu_fallbacks_pair_arguments_with_operands() {
    // Writes one number for each argument, so that the test sees what arrived.
    fn describe(arg: &HostArg) -> f64 {
        match arg {
            HostArg::None => -1.0,
            HostArg::Tensor(t) => t.sizes[0] as f64,
            HostArg::Tensors(list) => list.iter().filter(|t| t.is_none()).count() as f64 + 100.0,
            HostArg::Scalar { kind: ScalarKind::Float, number: bits } => f64::from_bits(*bits),
            HostArg::Scalar { number: bits, .. } => *bits as i64 as f64,
            HostArg::Int(i) => *i as f64,
            other => panic!("{other:?}"),
        }
    }
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = seen.clone();
    let function = move |args: &[HostArg], outs: &[host::HostTensor]| {
        log.lock().extend(args.iter().map(describe).chain(outs.iter().map(|o| o.sizes[0] as f64)));
        if args.len() == 1 { crate::invalid!("as it was told") } else { Ok(()) }
    };
    let key = "op tests: CPU fallback".to_string();
    let id = host::register(HostOp {
        name: key.clone(),
        key,
        function: Box::new(function),
        shape: None,
        cuda: None,
        device_function: None,
    });
    let args = vec![
        Arg::Scalar { kind: ScalarKind::Int, number: () },
        Arg::Tensor(()),
        Arg::None,
        Arg::Tensors(vec![Some(()), None]),
        Arg::Scalar { kind: ScalarKind::Float, number: () },
        Arg::Int(5),
    ];
    let (x, y) = (Array::zeros(&ty(F32, &[3])), Array::zeros(&ty(C64, &[4])));
    let (n, f) = (Array::from_f64(I64, &[], &[-2.0]), Array::from_f64(F64, &[], &[0.5]));
    let attrs = [Attr::Int(id as i64), Attr::Types(vec![ty(U16, &[6])]), Attr::Args(args)];
    let result = one(Op::Host, &[&n, &x, &y, &f], &attrs);
    assert_eq!(result, Array::zeros(&ty(U16, &[6])));
    assert_eq!(*seen.lock(), [-2.0, 3.0, -1.0, 101.0, 0.5, 5.0, 6.0]);

    let error = run(Op::Host, &[&n, &x, &y], &attrs).unwrap_err();
    assert!(error.message.contains("stand for 4 operands, got 3"), "{error}");
    let error = run(Op::Host, &[&f, &x, &y, &f], &attrs).unwrap_err();
    assert!(error.message.contains("to have dtype i64, but got f64"), "{error}");
    let fails = [attrs[0].clone(), attrs[1].clone(), Attr::Args(vec![Arg::None])];
    assert_eq!(run(Op::Host, &[], &fails).unwrap_err().message, "as it was told");
    let unknown = [Attr::Int(u32::MAX as i64), attrs[1].clone(), Attr::Args(vec![])];
    assert_eq!(run(Op::Host, &[], &unknown).unwrap_err().code, Code::NotFound);
}
