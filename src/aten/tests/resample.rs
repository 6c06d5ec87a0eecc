//! Padding, interpolation, grids and windows: against formulas for single elements, and every gradient of what is linear
//! against the definition of an adjoint.

use super::*;
use DType::*;

/// The elements of `sizes`, each from its place.
fn each(sizes: &[i64], element: impl Fn(&[i64]) -> f64) -> Vec<f64> {
    let place = |mut i: i64| {
        let mut at = vec![0; sizes.len()];
        for d in (0..sizes.len()).rev() {
            (at[d], i) = (i % sizes[d], i / sizes[d]);
        }
        at
    };
    (0..numel(sizes)).map(|i| element(&place(i))).collect()
}

fn pick(x: &Array, at: &[i64]) -> f64 {
    let strides = crate::shape::contiguous_strides(&x.ty.sizes);
    x.f64(at.iter().zip(&strides).map(|(a, s)| a * s).sum::<i64>() as usize)
}

fn dot(a: &Array, b: &Array) -> f64 {
    a.to_f64s().iter().zip(b.to_f64s()).map(|(a, b)| a * b).sum()
}

/// `⟨A x, y⟩ = ⟨x, Aᵀ y⟩`: `forward` takes x first, `backward` the gradient.
fn check_adjoint(forward: &str, args: &[TrialArg], backward: &str, rest: &[TrialArg], x: &Array) {
    let operands = |first: &Array, rest: &[TrialArg]| [&[first.into()], rest].concat();
    let y = only(forward, &operands(x, args));
    let dy = wave(y.ty.dtype, &y.ty.sizes, 5);
    let dx = only(backward, &operands(&dy, rest));
    assert_eq!(dx.ty, x.ty, "{backward}");
    let (left, right) = (dot(&y, &dy), dot(x, &dx));
    assert!((left - right).abs() < 1e-9 * (1.0 + left.abs()), "{backward}: {left} {right}");
}

#[test]
fn what_lies_beyond_an_edge() {
    let x = wave(F64, &[2, 1, 4, 5], 1);
    let padding = ints(&[2, 1, -1, 3]);
    let sizes = [2, 1, 6, 8];
    let mirrored = |i: i64, n: i64| (n - 1) - ((n - 1) - i.abs()).abs();
    let args = [(&x).into(), padding.clone()];
    let expected =
        each(&sizes, |at| pick(&x, &[at[0], 0, mirrored(at[2] + 1, 4), mirrored(at[3] - 2, 5)]));
    check("reflection", &only("aten::reflection_pad2d", &args), F64, &sizes, &expected);
    let expected =
        each(&sizes, |at| pick(&x, &[at[0], 0, (at[2] + 1).clamp(0, 3), (at[3] - 2).clamp(0, 4)]));
    check("replication", &only("aten::replication_pad2d", &args), F64, &sizes, &expected);
    for kind in ["reflection", "replication"] {
        let (forward, backward) =
            (format!("aten::{kind}_pad2d"), format!("aten::{kind}_pad2d_backward"));
        let padding = [padding.clone()];
        let rest = [(&x).into(), padding[0].clone()];
        check_adjoint(&forward, &padding, &backward, &rest, &x);
    }
    let far = apply("aten::reflection_pad1d", &[(&wave(F32, &[1, 3], 1)).into(), ints(&[3, 0])]);
    assert!(far.unwrap_err().message.contains("less than the corresponding input dimension"));
    let all = [(&wave(F32, &[1, 3], 1)).into(), ints(&[-2, -1])];
    assert!(apply("aten::replication_pad1d", &all).is_err());
}

#[test]
fn interpolation() {
    let x = wave(F64, &[1, 2, 3, 4], 1);
    let size = ints(&[7, 6]);
    let to = [1, 2, 7, 6];
    let none = || [NONE, NONE];
    let nearest = [&[(&x).into(), size.clone()], &none()[..]].concat();
    let expected = each(&to, |at| pick(&x, &[0, at[1], at[2] * 3 / 7, at[3] * 4 / 6]));
    check("nearest", &only("aten::upsample_nearest2d", &nearest), F64, &to, &expected);
    let centre = |i: i64, from: i64, to: i64| (2 * i + 1) * from / (2 * to);
    let expected = each(&to, |at| pick(&x, &[0, at[1], centre(at[2], 3, 7), centre(at[3], 4, 6)]));
    check("exact", &only("aten::_upsample_nearest_exact2d", &nearest), F64, &to, &expected);
    for align in [false, true] {
        let place = |i: i64, from: i64, to: i64| {
            let (i, from, to) = (i as f64, from as f64, to as f64);
            match align {
                true => i * (from - 1.0) / (to - 1.0),
                false => ((i + 0.5) * from / to - 0.5).max(0.0),
            }
        };
        // A tent over each element.
        let tent =
            |at: f64, i: i64, n: i64| (1.0 - (at.min((n - 1) as f64) - i as f64).abs()).max(0.0);
        let expected = each(&to, |at| {
            let (h, w) = (place(at[2], 3, 7), place(at[3], 4, 6));
            let part = |i: i64, j: i64| tent(h, i, 3) * tent(w, j, 4) * pick(&x, &[0, at[1], i, j]);
            (0..12).map(|n| part(n / 4, n % 4)).sum()
        });
        let args = [&[(&x).into(), size.clone(), flag(align)], &none()[..]].concat();
        check("bilinear", &only("aten::upsample_bilinear2d", &args), F64, &to, &expected);
    }
    // What is constant stays so.
    let flat = Array::from_f64(F64, &[1, 2, 3, 4], &[2.5; 24]);
    let args = [&[(&flat).into(), size.clone(), flag(false)], &none()[..]].concat();
    check("bicubic", &only("aten::upsample_bicubic2d", &args), F64, &to, &[2.5; 84]);
    let from = ints(&[1, 2, 3, 4]);
    for (name, align) in [
        ("upsample_nearest2d", None),
        ("_upsample_nearest_exact2d", None),
        ("upsample_bilinear2d", Some(true)),
        ("upsample_bicubic2d", Some(false)),
    ] {
        let more: Vec<TrialArg> = align.into_iter().map(flag).chain(none()).collect();
        let args = [std::slice::from_ref(&size), &more[..]].concat();
        let rest = [&[size.clone(), from.clone()], &more[..]].concat();
        let (forward, backward) = (format!("aten::{name}"), format!("aten::{name}_backward"));
        check_adjoint(&forward, &args, &backward, &rest, &x);
    }
    let empty = [(&wave(F32, &[1, 1, 0], 1)).into(), ints(&[4]), NONE];
    assert!(apply("aten::upsample_nearest1d", &empty).is_err());
}

#[test]
fn interpolation_without_aliasing() {
    let x = wave(F64, &[1, 2, 7, 5], 1);
    let (size, from, to) = (ints(&[3, 9]), ints(&[1, 2, 7, 5]), [1, 2, 3, 9]);
    for (align, scale) in [(false, None), (true, None), (false, Some(0.4))] {
        // The elements' weights of one result: a tent as wide as the results lie apart, and at least as the inputs do.
        let tents = |i: i64, from: i64, to: i64, scale: Option<f64>| {
            let spacing = match (align, scale) {
                (true, _) => (from - 1) as f64 / (to - 1) as f64,
                (_, Some(scale)) => 1.0 / scale,
                _ => from as f64 / to as f64,
            };
            let far = |j: i64| (j as f64 + 0.5 - (i as f64 + 0.5) * spacing) / spacing.max(1.0);
            let tents: Vec<f64> = (0..from).map(|j| (1.0 - far(j).abs()).max(0.0)).collect();
            let all: f64 = tents.iter().sum();
            tents.into_iter().map(|tent| tent / all).collect::<Vec<_>>()
        };
        let expected = each(&to, |at| {
            let (h, w) = (tents(at[2], 7, 3, scale), tents(at[3], 5, 9, None));
            let part = |i: i64, j: i64| h[i as usize] * w[j as usize] * pick(&x, &[0, at[1], i, j]);
            (0..35).map(|n| part(n / 5, n % 5)).sum()
        });
        let scales = [scale.map_or(NONE, TrialArg::Float), NONE];
        let args = [&[(&x).into(), size.clone(), flag(align)], &scales[..]].concat();
        let y = only("aten::_upsample_bilinear2d_aa", &args);
        check("bilinear", &y, F64, &to, &expected);
        for name in ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"] {
            let (forward, backward) = (format!("aten::{name}"), format!("aten::{name}_backward"));
            let rest = [&[size.clone(), from.clone(), flag(align)], &scales[..]].concat();
            check_adjoint(&forward, &args[1..], &backward, &rest, &x);
        }
    }
    // What is constant stays so.
    let flat = Array::from_f64(F64, &[1, 2, 7, 5], &[2.5; 70]);
    let args = [(&flat).into(), size, flag(false), NONE, NONE];
    check("bicubic", &only("aten::_upsample_bicubic2d_aa", &args), F64, &to, &[2.5; 54]);
}

#[test]
fn grids() {
    let x = wave(F64, &[1, 2, 3, 4], 1);
    // Centres of elements, one beyond an edge, one nowhere.
    let centre = |i: i64, n: i64| (2 * i + 1) as f64 / n as f64 - 1.0;
    let spots = [(0, 0), (2, 3), (1, 2), (1, 4)];
    let mut places: Vec<f64> =
        spots.iter().flat_map(|&(h, w)| [centre(w, 4), centre(h, 3)]).collect();
    places.extend([f64::NAN, 0.0]);
    let grid = Array::from_f64(F64, &[1, 1, 5, 2], &places);
    for mode in [0, 1, 2] {
        for padding in [0, 1, 2] {
            let args = [(&x).into(), (&grid).into(), at(mode), at(padding), flag(false)];
            let got = only("aten::grid_sampler_2d", &args);
            for channel in 0..2 {
                for (i, &(h, w)) in spots.iter().enumerate() {
                    let beyond = if padding == 0 { 0.0 } else { pick(&x, &[0, channel, h, 3]) };
                    let want = if w < 4 { pick(&x, &[0, channel, h, w]) } else { beyond };
                    let got = pick(&got, &[0, channel, 0, i as i64]);
                    assert!((got - want).abs() < 1e-9, "{mode} {padding} {i}: {got} {want}");
                }
                let nowhere = pick(&got, &[0, channel, 0, 4]);
                let is_product = padding > 0 || mode == 2;
                assert!(is_product || nowhere == 0.0, "{mode}: {nowhere}");
            }
            let dy = wave(F64, &[1, 2, 1, 5], 3);
            let back = [&[(&dy).into()], &args[..]].concat();
            let grads = apply("aten::grid_sampler_2d_backward", &back).unwrap();
            assert_eq!((&grads[0].ty, &grads[1].ty), (&x.ty, &grid.ty));
        }
    }
    let wrong = [(&x).into(), (&wave(F64, &[2, 1, 5, 2], 1)).into(), at(0), at(0), flag(true)];
    assert!(apply("aten::grid_sampler_2d", &wrong).is_err());
}

#[test]
fn windows_as_columns() {
    let x = wave(F64, &[2, 3, 5, 6], 1);
    let windows = [ints(&[2, 3]), ints(&[2, 1]), ints(&[1, 0]), ints(&[1, 2])];
    // 5 + 2 - 3 + 1 = 5 by (6 - 3) / 2 + 1 = 2 windows of 2 by 3.
    let sizes = [2, 18, 10];
    let expected = each(&sizes, |at| {
        let (channel, i, j) = (at[1] / 6, at[1] % 6 / 3, at[1] % 3);
        let (h, w) = (at[2] / 2 - 1 + 2 * i, at[2] % 2 * 2 + j);
        if (0..5).contains(&h) { pick(&x, &[at[0], channel, h, w]) } else { 0.0 }
    });
    let args = [&[(&x).into()], &windows[..]].concat();
    check("im2col", &only("aten::im2col", &args), F64, &sizes, &expected);
    let image = [&[ints(&[5, 6])], &windows[..]].concat();
    check_adjoint("aten::im2col", &windows, "aten::col2im", &image, &x);
    let one = [&[(&wave(F64, &[3, 5, 6], 1)).into()], &windows[..]].concat();
    check("without a batch", &only("aten::im2col", &one), F64, &sizes[1..], &expected[..180]);
    let large = [(&x).into(), ints(&[9, 9]), ints(&[1, 1]), ints(&[0, 0]), ints(&[1, 1])];
    assert!(apply("aten::im2col", &large).is_err());
}

#[test]
fn channels_as_pixels() {
    let x = wave(I32, &[2, 8, 2, 3], 1);
    let sizes = [2, 2, 4, 6];
    let expected = each(&sizes, |at| {
        let channel = at[1] * 4 + at[2] % 2 * 2 + at[3] % 2;
        pick(&x, &[at[0], channel, at[2] / 2, at[3] / 2])
    });
    let y = only("aten::pixel_shuffle", &[(&x).into(), at(2)]);
    check("pixel_shuffle", &y, I32, &sizes, &expected);
    let back = only("aten::pixel_unshuffle", &[(&y).into(), at(2)]);
    check("pixel_unshuffle", &back, I32, &[2, 8, 2, 3], &x.to_f64s());
    for name in ["aten::pixel_shuffle", "aten::pixel_unshuffle"] {
        assert!(apply(name, &[(&x).into(), at(3)]).is_err(), "{name}");
        assert!(apply(name, &[(&x).into(), at(0)]).is_err(), "{name}");
    }
}

#[test]
fn weights_of_a_given_norm() {
    let (v, g) = (wave(F64, &[3, 4], 1), wave(F64, &[3, 1], 2));
    let results =
        apply("aten::_weight_norm_interface", &[(&v).into(), (&g).into(), at(0)]).unwrap();
    let norm = |row: i64| (0..4).map(|c| pick(&v, &[row, c]).powi(2)).sum::<f64>().sqrt();
    let expected = each(&[3, 4], |at| pick(&v, at) * pick(&g, &[at[0], 0]) / norm(at[0]));
    check("weight_norm", &results[0], F64, &[3, 4], &expected);
    check("its norms", &results[1], F64, &[3, 1], &[norm(0), norm(1), norm(2)]);
    // Lengthening v changes nothing, lengthening g everything.
    let dw = wave(F64, &[3, 4], 3);
    let args = [(&dw).into(), (&v).into(), (&g).into(), (&results[1]).into(), at(0)];
    let grads = apply("aten::_weight_norm_interface_backward", &args).unwrap();
    for row in 0..3 {
        let along = |a: &Array, b: &Array| -> f64 {
            (0..4).map(|c| pick(a, &[row, c]) * pick(b, &[row, c])).sum()
        };
        assert!(along(&grads[0], &v).abs() < 1e-9);
        let (dg, g) = (pick(&grads[1], &[row, 0]), pick(&g, &[row, 0]));
        assert!((dg * g - along(&dw, &results[0])).abs() < 1e-9);
    }
}
