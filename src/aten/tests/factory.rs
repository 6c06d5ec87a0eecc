//! Tensors from nothing, and copies.

use super::*;
use DType::*;

/// `name` with an `out=` of the given type.
fn out(name: &str, args: &[TrialArg], dtype: DType, sizes: &[i64]) -> Array {
    Trial::new(name, args).fresh(&[Ty::new(dtype, sizes)]).run().unwrap().remove(0)
}

#[test]
fn ranges() {
    let steps = [Int(2), Int(9), Int(3)];
    check("arange", &out("aten::arange.start_out", &steps, I64, &[3]), I64, &[3], &[2.0, 5.0, 8.0]);
    check("arange", &only("aten::arange.start_step", &steps), I64, &[3], &[2.0, 5.0, 8.0]);
    check("arange", &only("aten::arange", &[Int(3)]), I64, &[3], &[0.0, 1.0, 2.0]);
    check("arange", &only("aten::arange", &[Int(2), dtype(F16)]), F16, &[2], &[0.0, 1.0]);
    check("arange", &only("aten::arange.start", &[Float(0.5), Int(2)]), F32, &[2], &[0.5, 1.5]);
    let down = [Float(1.0), Float(0.0), Float(-0.25)];
    let expected = [1.0, 0.75, 0.5, 0.25];
    check("arange", &out("aten::arange.start_out", &down, F32, &[4]), F32, &[4], &expected);
    let line = [Float(-1.0), Float(1.0), at(5)];
    let expected = [-1.0, -0.5, 0.0, 0.5, 1.0];
    check("linspace", &out("aten::linspace.out", &line, F32, &[5]), F32, &[5], &expected);
    check("linspace", &only("aten::linspace", &[Int(3), Int(9), at(1)]), F32, &[1], &[3.0]);
    check(
        "eye",
        &only("aten::eye.m", &[at(2), at(3)]),
        F32,
        &[2, 3],
        &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
    );
    assert!(apply("aten::arange.start", &[Int(3), Int(1)]).is_err());
}

#[test]
fn filling() {
    let x = wave(BF16, &[2, 2], 1);
    for value in [0.0, 1.0, 0.3] {
        let got = only("aten::fill.Scalar", &[(&x).into(), Float(value)]);
        check("fill", &got, BF16, &[2, 2], &[value; 4]);
    }
    let one = Array::from_f64(F32, &[], &[2.5]);
    let view =
        TrialArg::View(x.clone(), Layout::contiguous(&[2, 2]).slice(&[0, 1], &[2, 1], &[1, 1]));
    let got = in_place("aten::fill_.Tensor", &[view, (&one).into()]).unwrap();
    check("fill_", &got, BF16, &[2, 2], &[x.f64(0), 2.5, x.f64(2), 2.5]);
    check("zero", &only("aten::zero", &[(&x).into()]), BF16, &[2, 2], &[0.0; 4]);
    check(
        "ones_like",
        &only("aten::ones_like", &[(&x).into(), dtype(I32)]),
        I32,
        &[2, 2],
        &[1.0; 4],
    );
    check("full", &only("aten::full", &[ints(&[2]), Int(7)]), I64, &[2], &[7.0; 2]);
    check("zeros", &only("aten::zeros", &[ints(&[1, 2])]), F32, &[1, 2], &[0.0; 2]);
}

#[test]
fn copies_cast_and_broadcast() {
    let x = wave(F32, &[3], 1);
    let row = TrialArg::View(x.clone(), Layout::contiguous(&[1, 3]).broadcast(&[2, 3]));
    let got = out("torchacc::copy", &[row], I32, &[2, 3]);
    let expected: Vec<f64> = spread(&x, &[2, 3]).iter().map(|x| x.trunc()).collect();
    check("copy", &got, I32, &[2, 3], &expected);
    let row = TrialArg::from(&x);
    check("copy", &out("torchacc::copy", &[row], F32, &[2, 3]), F32, &[2, 3], &spread(&x, &[2, 3]));
    let complex = Array { ty: Ty::new(C64, &[2]), bytes: (0..16).collect() };
    let back = TrialArg::View(complex.clone(), Layout::contiguous(&[2, 1]).transpose(&[1, 0]));
    assert_eq!(out("torchacc::copy", &[back], C64, &[1, 2]).bytes, complex.bytes);
    check("to", &only("aten::_to_copy", &[(&x).into(), dtype(F16)]), F16, &[3], &x.to_f64s());
}

/// By way of f32, as in PyTorch: integers too, which may then be beyond the largest number.
#[test]
fn floats_of_8_bits_are_cast() {
    let numbers = [0.0, 1.0625, -17.0, 500.0];
    let to = |x: &Array, to: DType| only("aten::_to_copy", &[x.into(), dtype(to)]);
    for from in [F64, F32, BF16, F16, I64] {
        let x = Array::from_f64(from, &[4], &numbers);
        assert_eq!(to(&x, F8E4M3FN).bytes, [0, 0x38, 0xd8, 0x7f], "{from}");
        assert_eq!(to(&x, F8E5M2).bytes, [0, 0x3c, 0xcc, 0x60], "{from}");
    }
    let codes = Array { ty: Ty::new(F8E4M3FN, &[3]), bytes: vec![0x38, 0xd8, 0] };
    for into in [F64, F32, BF16, F16, I64] {
        check("from f8", &to(&codes, into), into, &[3], &[1.0, -16.0, 0.0]);
    }
    assert_eq!(to(&codes, Bool).bytes, [1, 1, 0]);
    assert_eq!(to(&codes, F8E5M2).bytes, [0x3c, 0xcc, 0]);
    assert_eq!(only("aten::_to_copy", &[(&codes).into(), dtype(F8E4M3FN)]), codes);
}
