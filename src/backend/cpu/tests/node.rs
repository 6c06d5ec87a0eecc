//! Whole primitives.

use super::*;
use crate::backend::plan_tests;
use crate::op::Attr;
use crate::op::arg::Arg;
use crate::op::host::{self, HostArg, HostOp};
use crate::op::index::Reduction;
use crate::op::nn::Cell;
use smallvec::smallvec;

/// Dense values of a shape, finite.
pub fn values(random: &mut Random, dtype: DType, sizes: &[i64]) -> Array {
    let n = crate::shape::numel(sizes) as usize;
    Array { ty: Ty::new(dtype, sizes), ..numbers(random, dtype, n, false) }
}

pub fn node(op: Op, attrs: Attrs, reads: Vec<Array>) -> Case {
    let types: Vec<&Ty> = reads.iter().map(|a| &a.ty).collect();
    let outs = op.infer(&types, &attrs).unwrap();
    Case::node(op, attrs, reads, &outs)
}

/// The operand in the same place of a case, lying in memory as `lay` says.
pub fn lay_out(case: &mut Case, n: usize, lay: Lay) {
    let (operand, values) = &mut case.reads[n];
    let (layout, len) = layout(lay, &operand.layout.sizes);
    *values = numbers(&mut Random::new(n as u64 + 5), operand.dtype, len, false);
    operand.layout = layout;
}

pub fn largest(a: &Array) -> f64 {
    a.to_f64s().iter().fold(0.0, |m, v| if v.is_finite() { m.max(v.abs()) } else { m })
}

/// Differences of up to `steps` roundings at the size of the largest number of a result.
pub fn check_close(case: &Case, steps: f64) {
    let (got, expected) = case.both();
    let sizes: Vec<f64> =
        expected.iter().map(|a| if a.ty.dtype.is_float() { largest(a) } else { 0.0 }).collect();
    for got in [got, case.run(portable()).unwrap()] {
        case.compare(&got, &expected, |k, i| {
            let dtype = expected[k].ty.dtype;
            steps * compute_epsilon(dtype) * sizes[k]
                + 2.0 * epsilon(dtype) * expected[k].f64(i).abs()
                + tiny(dtype)
        });
    }
}

pub fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.into())
}

#[test]
fn softmax_and_its_kin() {
    let mut random = Random::new(2);
    for dtype in FLOATS {
        for sizes in [&[1][..], &[5], &[7, 33], &[2, 3, 100], &[70, 1500], &[4, 0], &[0, 4]] {
            let (x, dy) = (values(&mut random, dtype, sizes), values(&mut random, dtype, sizes));
            let width = sizes[sizes.len() - 1] as f64;
            for op in [Op::Softmax, Op::LogSoftmax] {
                check_close(&node(op, smallvec![], vec![x.clone()]), 64.0);
            }
            if width > 0.0 {
                check_close(&node(Op::LogSumExp, smallvec![], vec![x.clone()]), 64.0);
            }
            for op in [Op::SoftmaxGrad, Op::LogSoftmaxGrad] {
                check_close(
                    &node(op, smallvec![], vec![dy.clone(), x.clone()]),
                    64.0 + 8.0 * width,
                );
            }
        }
    }
}

#[test]
fn softmax_of_rows_with_infinities_and_nan() {
    let inf = f64::INFINITY;
    let rows = [[1.0, -inf, 2.0], [-inf, -inf, -inf], [1.0, inf, 2.0], [f64::NAN, 1.0, 2.0]];
    for op in [Op::Softmax, Op::LogSoftmax, Op::LogSumExp] {
        let x = Array::from_f64(DType::F32, &[4, 3], rows.as_flattened());
        check_close(&node(op, smallvec![], vec![x]), 64.0);
    }
}

#[test]
fn layer_norm_with_and_without_weight_and_bias() {
    let mut random = Random::new(3);
    for dtype in FLOATS {
        for (r, c) in [(1, 1), (3, 5), (40, 96), (130, 37), (0, 4), (3, 0)] {
            for (weight, bias) in [(false, false), (true, false), (false, true), (true, true)] {
                for column in [dtype, DType::F32] {
                    let mut reads = vec![values(&mut random, dtype, &[r, c])];
                    (0..weight as u8 + bias as u8)
                        .for_each(|_| reads.push(values(&mut random, column, &[c])));
                    let attrs = smallvec![Attr::Float(1e-5), Attr::Bool(weight), Attr::Bool(bias)];
                    check_close(&node(Op::LayerNorm, attrs, reads), 200.0);
                }
            }
        }
    }
}

#[test]
fn layer_norm_gradient() {
    let mut random = Random::new(4);
    for dtype in FLOATS {
        let statistic = if dtype == DType::F64 { dtype } else { DType::F32 };
        for (r, c) in [(1, 1), (3, 5), (40, 96), (1300, 7), (0, 4)] {
            for weight in [None, Some(dtype), Some(DType::F32)] {
                let mut reads =
                    vec![values(&mut random, dtype, &[r, c]), values(&mut random, dtype, &[r, c])];
                reads.extend([
                    values(&mut random, statistic, &[r]),
                    values(&mut random, statistic, &[r]),
                ]);
                reads.extend(weight.map(|w| values(&mut random, w, &[c])));
                check_close(&node(Op::LayerNormGrad, smallvec![], reads), 400.0);
            }
        }
    }
}

#[test]
fn rms_norm_and_its_gradient() {
    let mut random = Random::new(5);
    for dtype in FLOATS {
        let statistic = if dtype == DType::F64 { dtype } else { DType::F32 };
        for (r, c) in [(1, 1), (3, 5), (40, 96), (1300, 7), (0, 4), (3, 0)] {
            for weight in [None, Some(dtype), Some(DType::F32)] {
                let mut operand = |dtype, sizes: &[i64]| values(&mut random, dtype, sizes);
                let (x, dy) = (operand(dtype, &[r, c]), operand(dtype, &[r, c]));
                let rstd = operand(statistic, &[r]);
                let weight = weight.map(|w| operand(w, &[c]));
                let forward = [x.clone()].into_iter().chain(weight.clone()).collect();
                check_close(&node(Op::RmsNorm, smallvec![Attr::Float(1e-5)], forward), 200.0);
                let backward = [dy, x, rstd].into_iter().chain(weight).collect();
                check_close(&node(Op::RmsNormGrad, smallvec![], backward), 400.0);
            }
        }
    }
}

/// `[b, h, g, t, s, d, e]`, causal, dropout, bias.
pub type Heads = ([i64; 7], bool, f64, Option<(DType, [i64; 4])>);

pub fn attention_cases() -> Vec<Heads> {
    vec![
        ([1, 1, 1, 1, 1, 1, 1], false, 0.0, None),
        ([2, 3, 3, 7, 11, 5, 6], false, 0.0, None),
        ([2, 4, 2, 9, 9, 8, 8], true, 0.0, None),
        ([1, 2, 1, 70, 130, 4, 3], true, 0.0, None),
        ([1, 2, 2, 130, 70, 4, 3], true, 0.0, None),
        ([2, 2, 1, 5, 6, 4, 4], false, 0.4, Some((DType::F32, [2, 1, 5, 6]))),
        ([2, 2, 2, 66, 40, 4, 4], true, 0.25, Some((DType::Bool, [1, 2, 1, 40]))),
        ([1, 2, 2, 5, 6, 4, 4], false, 0.0, Some((DType::Bool, [1, 1, 5, 6]))),
        ([1, 2, 2, 5, 6, 4, 4], false, 0.0, Some((DType::BF16, [1, 2, 5, 1]))),
        ([3, 2, 1, 5, 6, 4, 4], false, 0.0, Some((DType::I32, [3, 1, 1, 1]))),
        ([2, 2, 2, 66, 40, 4, 4], true, 0.25, Some((DType::I32, [2, 1, 1, 1]))),
        ([2, 2, 2, 5, 6, 4, 4], false, 0.0, Some((DType::I32, [1, 1, 1, 1]))),
        ([1, 2, 2, 0, 6, 4, 4], false, 0.0, None),
        ([1, 2, 2, 5, 0, 4, 4], false, 0.0, None),
    ]
}

/// Attention with such heads, and its gradient.
pub fn attention_of(
    random: &mut Random,
    dtype: DType,
    ([b, h, g, t, s, d, e], causal, dropout, bias): Heads,
) -> [Case; 2] {
    let q = values(random, dtype, &[b, h, t, d]);
    let (k, v) = (values(random, dtype, &[b, g, s, d]), values(random, dtype, &[b, g, s, e]));
    let number = |n: i64| {
        let mut a = Array::zeros(&Ty::new(DType::I64, &[]));
        a.set_i64(0, n);
        a
    };
    let mut forward = vec![q.clone(), k.clone(), v.clone(), number(1234), number(5)];
    forward.extend(bias.map(|(dtype, sizes)| {
        let mut mask = values(random, dtype, &sizes);
        // Some rows have nothing to see.
        let seen = |i: usize| match dtype {
            DType::Bool => Some((i % 3 == 1 && i > 5) as i64),
            DType::I32 => Some([s / 2 + 1, s + 3, 0][i % 3]),
            _ => None,
        };
        (0..mask.len()).for_each(|i| seen(i).into_iter().for_each(|n| mask.set_i64(i, n)));
        mask
    }));
    let attrs: Attrs =
        smallvec![Attr::Float(1.0 / (d as f64).sqrt()), Attr::Bool(causal), Attr::Float(dropout)];
    let case = node(Op::Attention, attrs.clone(), forward.clone());
    let results = case.run(&Reference::default()).unwrap();
    let dout = values(random, dtype, &results[0].ty.sizes);
    let mut backward = vec![dout, q, k, v, results[0].clone(), results[1].clone()];
    backward.extend_from_slice(&forward[3..]);
    [case, node(Op::AttentionGrad, attrs, backward)]
}

#[test]
fn attention_and_its_gradient() {
    let mut random = Random::new(5);
    for dtype in FLOATS {
        let panels = [
            ([1, 2, 1, 67, 200, 20, 36], false, 0.0, Some((DType::F32, [1, 1, 67, 200]))),
            ([1, 1, 1, 150, 150, 64, 64], true, 0.0, None),
            ([1, 2, 2, 70, 90, 8, 16], false, 0.0, Some((DType::Bool, [1, 1, 1, 90]))),
        ];
        for heads in attention_cases().into_iter().chain(panels) {
            let [forward, backward] = attention_of(&mut random, dtype, heads);
            check_close(&forward, 300.0);
            check_close(&backward, 2000.0);
        }
    }
}

/// q, k, v as they lie in `[b, t, 3, h, d]`.
pub fn heads_side_by_side(dtype: DType) -> Case {
    let sizes = [2i64, 9, 3, 4, 8];
    let mut random = Random::new(6);
    let all = values(&mut random, dtype, &sizes);
    let base = Layout::contiguous(&sizes).transpose(&[0, 3, 1, 4, 2]);
    let part = |n: i64| {
        let l = base.slice(&[0, 0, 0, 0, n], &[2, 4, 9, 8, 1], &[1; 5]);
        Layout { sizes: l.sizes[..4].into(), strides: l.strides[..4].into(), offset: l.offset }
    };
    let dense = values(&mut random, dtype, &[2, 4, 9, 8]);
    let number = Array::zeros(&Ty::new(DType::I64, &[]));
    let attrs = smallvec![Attr::Float(0.3), Attr::Bool(true), Attr::Float(0.0)];
    let mut case = node(
        Op::Attention,
        attrs,
        vec![dense.clone(), dense.clone(), dense, number.clone(), number],
    );
    for n in 0..3 {
        case.reads[n].0.layout = part(n as i64);
        case.reads[n].1 = all.clone();
    }
    case
}

#[test]
fn attention_reads_heads_side_by_side() {
    check_close(&heads_side_by_side(DType::F32), 300.0);
}

pub fn index(random: &mut Random, dtype: DType, sizes: &[i64], below: i64) -> Array {
    let mut a = Array::zeros(&Ty::new(dtype, sizes));
    (0..a.len()).for_each(|i| a.set_i64(i, random.below(below as usize) as i64));
    a
}

#[test]
fn take_and_gather() {
    let mut random = Random::new(7);
    for dtype in DType::all() {
        for (sizes, picked) in [
            (&[5][..], &[3][..]),
            (&[4, 6], &[2, 3]),
            (&[30, 41], &[700]),
            (&[3, 4, 5], &[7]),
            (&[2, 3], &[0]),
        ] {
            for axis in 0..sizes.len() {
                let x = values(&mut random, dtype, sizes);
                let places = index(&mut random, DType::I64, picked, sizes[axis]);
                node(Op::Take, smallvec![Attr::Int(axis as i64)], vec![x.clone(), places])
                    .check_exact();
                let mut within: Vec<i64> = sizes.iter().map(|s| 1 + s / 2).collect();
                within[axis] = 7;
                let places = index(&mut random, DType::I32, &within, sizes[axis]);
                node(Op::Gather, smallvec![Attr::Int(axis as i64)], vec![x, places]).check_exact();
            }
        }
    }
}

#[test]
fn sorting() {
    let mut random = Random::new(17);
    for dtype in FLOATS.into_iter().chain(INTS) {
        for sizes in [&[7][..], &[300], &[4, 9], &[3, 40, 5]] {
            for axis in 0..sizes.len() {
                let x = values(&mut random, dtype, sizes);
                for k in [1, sizes[axis] / 2, sizes[axis]] {
                    for largest in [false, true] {
                        let attrs =
                            smallvec![Attr::Int(axis as i64), Attr::Int(k), Attr::Bool(largest)];
                        node(Op::TopK, attrs, vec![x.clone()]).check_exact();
                    }
                }
            }
        }
    }
}

#[test]
fn index_add_and_scatter() {
    let mut random = Random::new(8);
    for dtype in FLOATS.into_iter().chain(INTS) {
        for (sizes, n) in
            [(&[5][..], 9), (&[4, 6], 3), (&[3, 4, 5], 11), (&[50, 70], 200), (&[3, 2], 0)]
        {
            for axis in 0..sizes.len() {
                let base = values(&mut random, dtype, sizes);
                let mut along = sizes.to_vec();
                along[axis] = n;
                let x = values(&mut random, dtype, &along);
                let at = index(&mut random, DType::I64, &[n], sizes[axis]);
                let axis_attr = Attr::Int(axis as i64);
                check_close(
                    &node(
                        Op::IndexAdd,
                        smallvec![axis_attr.clone()],
                        vec![base.clone(), at, x.clone()],
                    ),
                    4.0,
                );
                let at = index(&mut random, DType::I64, &along, sizes[axis]);
                for how in Reduction::ALL {
                    let attrs = smallvec![axis_attr.clone(), how.attr()];
                    check_close(
                        &node(Op::Scatter, attrs, vec![base.clone(), at.clone(), x.clone()]),
                        4.0,
                    );
                }
            }
        }
    }
}

#[test]
fn updates_of_a_base_in_its_place() {
    let mut random = Random::new(13);
    for dtype in [DType::F32, DType::BF16, DType::I32] {
        let base = values(&mut random, dtype, &[40, 30]);
        let rows = index(&mut random, DType::I64, &[70], 40);
        let x = values(&mut random, dtype, &[70, 30]);
        let axis = Attr::Int(0);
        let at = index(&mut random, DType::I64, &[70, 30], 40);
        let part = values(&mut random, dtype, &[3, 5]);
        let place = smallvec![ints(&[3, 5]), ints(&[60, 2]), Attr::Int(7)];
        let set = smallvec![axis.clone(), Reduction::Last.attr()];
        let mut cases = [
            node(Op::IndexAdd, smallvec![axis], vec![base.clone(), rows, x.clone()]),
            node(Op::Scatter, set, vec![base.clone(), at, x]),
            node(Op::AsStridedScatter, place, vec![base, part]),
        ];
        for case in &mut cases {
            case.in_place = true;
            check_close(case, 4.0);
        }
    }
}

#[test]
fn an_index_out_of_range_fails_before_anything_is_written() {
    let mut random = Random::new(9);
    let x = values(&mut random, DType::F32, &[4, 3]);
    for bad in [-1, 4] {
        let mut at = index(&mut random, DType::I64, &[4], 4);
        at.set_i64(3, bad);
        let wide = Array { ty: Ty::new(DType::I64, &[4, 1]), ..at.clone() };
        let column = values(&mut random, DType::F32, &[4, 1]);
        let axis: Attrs = smallvec![Attr::Int(0)];
        let cases = [
            node(Op::Take, axis.clone(), vec![x.clone(), at.clone()]),
            node(Op::IndexAdd, axis.clone(), vec![x.clone(), at, x.clone()]),
            node(Op::Gather, axis, vec![x.clone(), wide.clone()]),
            node(
                Op::Scatter,
                smallvec![Attr::Int(0), Reduction::Last.attr()],
                vec![x.clone(), wide, column],
            ),
        ];
        for case in cases {
            let (got, expected) =
                (case.run(cpu(2)).unwrap_err(), case.run(&Reference::default()).unwrap_err());
            assert_eq!((got.code, got.message), (expected.code, expected.message));
        }
    }
}

#[test]
fn concat_and_strided_scatter() {
    let mut random = Random::new(10);
    for dtype in [DType::F32, DType::C128, DType::U8] {
        for dim in 0..2 {
            let (mut a, mut b) = ([3i64, 4], [3, 4]);
            (a[dim], b[dim]) = (5, 0);
            let reads = [[3, 4], a, b].map(|s| values(&mut random, dtype, &s));
            let mut case = node(Op::Concat, smallvec![Attr::Int(dim as i64)], reads.to_vec());
            case.check_exact();
            lay_out(&mut case, 0, Lay::Reversed);
            case.check_exact();
        }
        // Runs of bytes across the borders of tasks, and empty parts.
        for (dim, parts) in
            [(0, [[0i64, 70], [401, 70], [3, 70]]), (1, [[600, 80], [600, 0], [600, 41]])]
        {
            let reads = parts.map(|s| values(&mut random, dtype, &s));
            node(Op::Concat, smallvec![Attr::Int(dim)], reads.to_vec()).check_exact();
        }
        let base = values(&mut random, dtype, &[4, 5]);
        for (sizes, strides, offset) in
            [([2, 3], [5, 1], 1), ([3, 2], [1, 7], 2), ([2, 2], [0, 1], 3)]
        {
            let x = values(&mut random, dtype, &sizes);
            let attrs = smallvec![ints(&sizes), ints(&strides), Attr::Int(offset)];
            node(Op::AsStridedScatter, attrs, vec![base.clone(), x]).check_exact();
        }
    }
}

#[test]
fn along_an_axis() {
    let mut random = Random::new(11);
    for dtype in FLOATS.into_iter().chain(INTS) {
        for sizes in [&[9][..], &[5, 7], &[3, 4, 5], &[2, 700]] {
            for axis in 0..sizes.len() {
                let x = Array {
                    ty: Ty::new(dtype, sizes),
                    ..numbers(&mut random, dtype, crate::shape::numel(sizes) as usize, true)
                };
                let attrs: Attrs = smallvec![Attr::Int(axis as i64)];
                node(Op::ArgMax, attrs.clone(), vec![x.clone()]).check_exact();
                node(Op::ArgMin, attrs.clone(), vec![x]).check_exact();
                let x = values(&mut random, dtype, sizes);
                check_close(&node(Op::CumSum, attrs, vec![x]), 4.0);
            }
        }
    }
}

#[test]
fn cpu_fallbacks_run_on_the_calling_thread() {
    let caller = std::thread::current().id();
    let id = host::register(HostOp {
        name: "test::checks_the_thread".into(),
        key: "test::checks_the_thread cpu".into(),
        function: Box::new(move |args, outs| {
            let [HostArg::Tensor(x), HostArg::Int(7)] = args else {
                return crate::internal!("arguments {args:?}");
            };
            assert_eq!(std::thread::current().id(), caller);
            assert_eq!(
                (x.sizes.as_slice(), outs[0].sizes.as_slice()),
                ([2i64, 3].as_slice(), [2i64, 3].as_slice())
            );
            crate::invalid!("the host says no")
        }),
        shape: None,
        cuda: None,
        device_function: None,
    });
    let ty = Ty::new(DType::F32, &[2, 3]);
    let args = Attr::Args(vec![Arg::Tensor(()), Arg::Int(7)]);
    let attrs = [Attr::Int(id as i64), Attr::Types(vec![ty.clone()]), args].into_iter().collect();
    let case =
        Case::node(Op::Host, attrs, vec![values(&mut Random::new(12), DType::F32, &[2, 3])], &[ty]);
    assert!(case.run(cpu(2)).unwrap_err().message.contains("the host says no"));
}

#[test]
fn halves_are_rounded_for_their_readers() {
    plan_tests::halves_are_rounded_for_their_readers(portable());
    code::without(|| plan_tests::halves_are_rounded_for_their_readers(portable()));
}

#[test]
fn rows_between_maps() {
    plan_tests::rows_between_maps(portable());
    code::without(|| plan_tests::rows_between_maps(portable()));
}

#[test]
fn recurrent_layers() {
    let mut random = Random::new(21);
    let sizes = [(1, 1, 1), (3, 7, 5), (2, 13, 16), (4, 200, 3), (2, 3, 70), (5, 2, 130)];
    for ((time, batch, units), cell) in
        sizes.into_iter().flat_map(|s| Cell::ALL.map(|cell| (s, cell)))
    {
        let small = |random: &mut Random, sizes: &[i64]| {
            let mut x = values(random, DType::F32, sizes);
            (0..x.len()).for_each(|i| x.set_f64(i, x.f64(i) / 8.0));
            x
        };
        let of_gates = cell.gates() as i64 * units;
        let gates = small(&mut random, &[time, batch, of_gates]);
        let w = small(&mut random, &[of_gates, units]);
        let hidden = small(&mut random, &[batch, units]);
        let mut operands = vec![gates, w.clone(), hidden.clone()];
        match cell {
            Cell::Lstm => operands.push(small(&mut random, &[batch, units])),
            Cell::Gru => operands.push(small(&mut random, &[units])),
            Cell::Tanh | Cell::Relu => {}
        }
        for reverse in [false, true] {
            let attrs: Attrs = smallvec![cell.attr(), Attr::Bool(reverse)];
            let forward = node(Op::Recurrent, attrs.clone(), operands.clone());
            check_close(&forward, 256.0);
            let made = forward.run(&Reference::default()).unwrap();
            let dy = small(&mut random, &[time, batch, units]);
            let mut back = vec![dy, w.clone(), hidden.clone(), made[0].clone(), made[2].clone()];
            if cell == Cell::Lstm {
                back.extend([operands[3].clone(), small(&mut random, &[batch, units])]);
            }
            check_close(&node(Op::RecurrentGrad, attrs, back), 1024.0);
        }
    }
}
