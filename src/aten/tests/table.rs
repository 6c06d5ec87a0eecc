//! Names and numbers of the rows.

use super::*;
use crate::aten::{count, name};

#[test]
fn every_form_of_an_operator_finds_its_row() {
    let same = [
        ["aten::add.Tensor", "aten::add_.Tensor", "aten::add.out"],
        ["aten::add.Scalar", "aten::add_.Scalar", "aten::add.Scalar_out"],
        ["aten::relu", "aten::relu_", "aten::relu.out"],
        ["aten::pow.Tensor_Scalar", "aten::pow_.Scalar", "aten::pow.Tensor_Scalar_out"],
        ["aten::_fused_adamw_"; 3],
    ];
    for [a, b, c] in same {
        assert!(find(a).is_some(), "{a}");
        assert_eq!((find(a), find(a)), (find(b), find(c)), "{a} {b} {c}");
    }
    assert_ne!(find("aten::sum"), find("aten::sum.dim_IntList"));
    for absent in
        ["aten::convolution_overrideable", "add_", "input", "aten::add", "aten::_fused_adamw", ""]
    {
        assert_eq!(find(absent), None, "{absent}");
    }
    assert_eq!(name(find("aten::add_.Tensor").unwrap()), "aten::add");
    assert_eq!(name(find("matmul").unwrap()), "matmul");
    assert!((0..count() as u32).all(|row| !name(row).is_empty()));
}

#[test]
fn no_two_rows_serve_one_name() {
    let mut seen = std::collections::HashSet::new();
    for row in crate::aten::rows::FAMILIES.iter().copied().flatten() {
        for overload in row.overloads {
            assert!(seen.insert((row.name, overload)), "{}.{overload}", row.name);
        }
    }
}

#[test]
fn numbers_that_change_the_algorithm_are_static() {
    let float = |name: &str, arg, x: f64| {
        is_static(find(name).unwrap(), arg, ScalarKind::Float, x.to_bits())
    };
    let cases = [
        ("aten::pow.Tensor_Scalar", 1, 2.0, true),
        ("aten::pow.Tensor_Scalar", 1, 2.5, false),
        ("aten::add.Tensor", 2, 1.0, true),
        ("aten::add.Tensor", 2, 3.0, false),
        ("aten::add.Tensor", 1, 1.0, false),
        ("aten::addmm", 3, 0.0, true),
        ("aten::addmm", 4, 0.0, false),
        ("aten::linalg_vector_norm", 1, 3.7, true),
        ("aten::arange.start_out", 2, 0.5, true),
        ("mul", 1, 2.0, false),
        ("reduce_sum", 1, 2.0, true),
    ];
    for (name, arg, value, expected) in cases {
        assert_eq!(float(name, arg, value), expected, "{name} {arg} {value}");
    }
}

#[test]
fn only_moves_take_any_dtype() {
    let takes = |name: &str, dtypes: &[DType]| accepts(find(name).unwrap(), dtypes);
    assert!(takes("aten::add.Tensor", &[DType::BF16, DType::Bool]));
    assert!(takes("aten::add.Tensor", &[DType::C64, DType::F32, DType::C64]));
    assert!(!takes("aten::add.Tensor", &[DType::C32, DType::C32]));
    assert!(!takes("aten::erf", &[DType::C64, DType::C64]));
    assert!(takes("torchacc::copy", &[DType::C64, DType::C64]));
    assert!(takes("torchacc::copy", &[DType::C64, DType::F32]));
    assert!(!takes("torchacc::copy", &[DType::C64, DType::F8E5M2]));
    assert!(!takes("torchacc::copy", &[DType::C32, DType::F32]));
    assert!(takes("transpose", &[DType::U16]));
}

#[test]
fn primitives_are_called_by_name() {
    let a = wave(DType::F32, &[2, 3], 1);
    let b = wave(DType::I64, &[3], 2);
    let sum: Vec<f64> = a.to_f64s().iter().zip(spread(&b, &[2, 3])).map(|(x, y)| x + y).collect();
    check("add", &only("add", &[(&a).into(), (&b).into()]), DType::F32, &[2, 3], &sum);
    let halved: Vec<f64> = a.to_f64s().iter().map(|x| x * 0.5).collect();
    check("mul", &only("mul", &[(&a).into(), Float(0.5)]), DType::F32, &[2, 3], &halved);
    let turned = only("transpose", &[(&a).into(), ints(&[1, 0])]);
    assert_eq!(&turned.ty.sizes[..], [3, 2]);
    let joined = only("concat", &[TrialArg::List(vec![a.clone(), a.clone()]), at(0)]);
    assert_eq!(&joined.ty.sizes[..], [4, 3]);
    assert!(apply("transpose", &[(&a).into()]).is_err());
    assert!(apply("matmul", &[(&a).into(), (&a).into()]).is_err());
}

#[test]
fn a_result_of_other_sizes_than_recorded_is_an_error() {
    let a = wave(DType::F32, &[2, 3], 1);
    let trial = Trial::new("aten::neg", &[(&a).into()]);
    let error = trial.fresh(&[Ty::new(DType::F32, &[3, 2])]).run().unwrap_err();
    assert_eq!((error.code, error.site), (crate::error::Code::Internal, 7));
    assert!(error.message.starts_with("aten::neg: "), "{error}");
}

#[test]
fn bad_calls_are_errors() {
    let a = wave(DType::F32, &[2, 3], 1);
    let v = wave(DType::F32, &[5], 1);
    let bad: &[(&str, &[TrialArg])] = &[
        ("aten::add.Tensor", &[(&a).into(), (&v).into()]),
        ("aten::mm", &[(&a).into(), (&v).into()]),
        ("aten::mm", &[(&a).into(), (&a).into()]),
        ("aten::sum.dim_IntList", &[(&a).into(), ints(&[2])]),
        ("aten::sum.dim_IntList", &[(&a).into(), ints(&[0, -2])]),
        ("aten::cat", &[TrialArg::List(vec![]), at(0)]),
        ("aten::cat", &[TrialArg::List(vec![a.clone(), v.clone()]), at(0)]),
        ("aten::native_layer_norm", &[(&a).into(), ints(&[2]), NONE, NONE, Float(1e-5)]),
        ("aten::nll_loss_forward", &[(&a).into(), (&v).into(), NONE, at(1), at(-100)]),
        ("aten::tril", &[(&v).into(), at(0)]),
        ("aten::amax", &[(&Array::zeros(&Ty::new(DType::F32, &[0]))).into()]),
        ("aten::gelu", &[(&a).into(), text("maybe")]),
        ("aten::neg", &[]),
    ];
    for (name, args) in bad {
        assert!(apply(name, args).is_err(), "{name}");
    }
}
