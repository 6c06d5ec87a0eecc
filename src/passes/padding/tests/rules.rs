//! Every rule by itself.

use super::*;
use crate::dtype::DType::{Bool, F8E4M3FN, F8E5M2, F32, F64, I32, I64};
use crate::op::index::Reduction;
use crate::op::{Attr, Attrs};
use crate::shape::Dims;
use smallvec::smallvec;

type Made = crate::error::Result<Vec<ValueId>>;

fn ints(list: &[i64]) -> Attr {
    Attr::Ints(Dims::from_slice(list))
}

fn attrs<const N: usize>(list: [Attr; N]) -> Attrs {
    list.into_iter().collect()
}

fn input(
    b: &mut Builder,
    index: u32,
    dtype: DType,
    sizes: &[i64],
) -> crate::error::Result<ValueId> {
    b.input(index, Ty::new(dtype, sizes))
}

#[test]
fn pointwise_programs_need_no_mask() {
    let build = |b: &mut Builder, s: &[i64]| -> Made {
        let x = input(b, 0, F32, &[s[0], 3])?;
        let y = b.unary(Op::Exp, x)?;
        Ok(vec![b.binary(Op::Mul, x, y)?])
    };
    each_length(&build);
    let made = Padded::new(&sampled(&build, 1), &graph(&build, &[20]), &[32], 1, 0).unwrap();
    assert!(made.graph.nodes.iter().all(|node| node.op != Op::Select));
    assert!(made.size_args.is_empty());
}

#[test]
fn integer_division_by_padding_is_no_error() {
    each_length(&|b, s| {
        let x = input(b, 0, I32, &[s[0]])?;
        let one = b.constant_int(1, I32)?;
        let one = b.broadcast(one, &[s[0]])?;
        let y = b.binary(Op::Add, x, one)?;
        Ok(vec![b.binary(Op::Div, x, y)?, b.binary(Op::Rem, x, y)?])
    });
}

#[test]
fn reductions_over_what_varies() {
    for dtype in [F32, I32] {
        for op in [Op::Sum, Op::ReduceMax, Op::ReduceMin] {
            for axes in [&[0, 1, 2][..], &[1], &[0], &[0, 1], &[2]] {
                each_length(&|b, s| {
                    let x = input(b, 0, dtype, &[2, s[0], 3])?;
                    Ok(vec![b.reduce(op, x, axes, false)?])
                });
            }
        }
    }
    for op in [Op::Any, Op::All] {
        each_length(&|b, s| {
            let x = input(b, 0, Bool, &[s[0], 3])?;
            Ok(vec![b.reduce(op, x, &[0], false)?])
        });
    }
    check(
        &|b, s| {
            let x = input(b, 0, F64, &[s[0], 3])?;
            Ok(vec![b.reduce(Op::Prod, x, &[0], true)?])
        },
        &[16],
        &[&[5], &[13]],
    );
}

#[test]
fn the_count_of_a_mean_is_that_of_the_trace() {
    each_length(&|b, s| {
        let x = input(b, 0, F32, &[4, s[0]])?;
        let sum = b.reduce(Op::Sum, x, &[0, 1], false)?;
        let count = b.constant((4 * s[0]) as f64, F32)?;
        let mean = b.binary(Op::Div, sum, count)?;
        let part = b.constant(1.0 / s[0] as f64, F32)?;
        let size = b.constant_int(s[0] - 1, I64)?;
        Ok(vec![mean, b.binary(Op::Mul, sum, part)?, size])
    });
}

#[test]
fn places_of_extremes() {
    for op in [Op::ArgMax, Op::ArgMin] {
        for axis in [0, 1] {
            each_length(&|b, s| {
                let x = input(b, 0, F32, &[3, s[0]])?;
                Ok(vec![b.op(op, &[x], attrs([Attr::Int(axis)]))?])
            });
        }
    }
}

#[test]
fn what_runs_along() {
    for op in [Op::CumSum, Op::CumProd, Op::CumMax] {
        each_length(&|b, s| {
            let x = input(b, 0, F64, &[3, s[0]])?;
            let along = b.op(op, &[x], attrs([Attr::Int(1)]))?;
            let merged = b.reshape(x, &[3 * s[0]])?;
            Ok(vec![along, b.op(op, &[merged], attrs([Attr::Int(0)]))?])
        });
    }
}

#[test]
fn matrix_products_over_each_of_their_sizes() {
    for which in 0..4 {
        each_length(&|b, s| {
            let mut sizes = [2, 3, 4, 5];
            sizes[which] = s[0];
            let x = input(b, 0, F32, &[sizes[0], sizes[1], sizes[2]])?;
            let y = input(b, 1, F32, &[sizes[0], sizes[2], sizes[3]])?;
            Ok(vec![b.matmul(x, y)?])
        });
    }
}

/// Of rows and of sums, over their sizes and the number of groups. The ends are of the exact sizes.
#[test]
fn products_of_groups_over_each_of_their_sizes() {
    for (which, by_row) in (0..4).flat_map(|which| [(which, false), (which, true)]) {
        each_length(&|b, s| {
            let mut sizes = [3, 4, 5, 2];
            sizes[which] = s[0];
            let [m, k, n, groups] = sizes;
            let x = input(b, 0, F32, &[m, k])?;
            let y = if by_row { vec![groups, k, n] } else { vec![k, n] };
            let y = input(b, 1, F32, &y)?;
            let places =
                b.op(Op::Iota, &[], attrs([ints(&[groups]), Attr::Int(0), Attr::DType(I64)]))?;
            let two = b.constant(2.0, I64)?;
            let two = b.broadcast(two, &[groups])?;
            let ends = b.binary(Op::Mul, places, two)?;
            Ok(vec![b.op(Op::GroupedMatmul, &[x, y, ends], attrs([]))?])
        });
    }
}

#[test]
fn products_of_8_bits_over_each_of_their_sizes() {
    for (which, by_row) in (0..3).flat_map(|which| [(which, false), (which, true)]) {
        each_length(&|b, s| {
            let mut sizes = [3, 4, 5];
            sizes[which] = s[0];
            let [m, k, n] = sizes;
            let x = input(b, 0, F32, &[m, k])?;
            let y = input(b, 1, F32, &[k, n])?;
            let (rows, columns) = if by_row { (m, n) } else { (1, 1) };
            let scale_x = input(b, 2, F32, &[rows, 1])?;
            let scale_y = input(b, 3, F32, &[1, columns])?;
            let (x, y) = (b.cast(x, F8E4M3FN)?, b.cast(y, F8E5M2)?);
            Ok(vec![b.op(
                Op::ScaledMatmul,
                &[x, y, scale_x, scale_y],
                attrs([Attr::DType(F32)]),
            )?])
        });
    }
}

#[test]
fn two_sizes_at_once() {
    let build = |b: &mut Builder, s: &[i64]| -> Made {
        let (rows, t) = (s[0], s[1]);
        let x = input(b, 0, F32, &[rows, t, 6])?;
        let w = input(b, 1, F32, &[6, 6])?;
        let flat = b.reshape(x, &[rows * t, 6])?;
        let y = b.matmul(flat, w)?;
        let y = b.reshape(y, &[rows, t, 2, 3])?;
        let heads = b.transpose(y, &[0, 2, 1, 3])?;
        let keys = b.transpose(heads, &[0, 1, 3, 2])?;
        let scores = b.matmul(heads, keys)?;
        let weights = b.op(Op::Softmax, &[scores], smallvec![])?;
        let out = b.matmul(weights, heads)?;
        let sum = b.reduce(Op::Sum, out, &[0, 1, 2, 3], false)?;
        Ok(vec![out, sum])
    };
    check(&build, &[8, 24], &[&[3, 17], &[8, 24], &[2, 5]]);
}

#[test]
fn rows_of_flat_memory() {
    // A batch of tokens and the same shifted by one, both views of one flat leaf.
    each_length(&|b, s| {
        let (rows, t) = (3, s[0]);
        let data = input(b, 0, I64, &[rows * (t + 1)])?;
        let cut = b.reshape(data, &[rows, t + 1])?;
        let x = b.slice(cut, &[0, 0], &[rows, t], &[1, 1])?;
        let y = b.slice(cut, &[0, 1], &[rows, t], &[1, 1])?;
        let y = b.reshape(y, &[rows * t])?;
        let sum = b.reduce(Op::Sum, y, &[0], false)?;
        Ok(vec![x, y, sum])
    });
}

#[test]
fn slices_from_places_that_vary() {
    each_length(&|b, s| {
        let x = input(b, 0, F32, &[2, s[0], 3])?;
        let last = b.slice(x, &[0, s[0] - 1, 0], &[2, 1, 3], &[1, 1, 1])?;
        let rest = b.slice(x, &[0, 1, 0], &[2, s[0] - 1, 3], &[1, 1, 1])?;
        let tail = b.slice(x, &[0, s[0] - 3, 1], &[2, 3, 2], &[1, 1, 1])?;
        let table = input(b, 1, F32, &[40, 3])?;
        let first = b.slice(table, &[0, 0], &[s[0], 3], &[1, 1])?;
        let later = b.slice(table, &[3, 0], &[s[0], 3], &[1, 1])?;
        let total = b.reduce(Op::Sum, rest, &[1], false)?;
        Ok(vec![last, rest, tail, first, later, total])
    });
}

#[test]
fn joining() {
    each_length(&|b, s| {
        let x = input(b, 0, F32, &[s[0], 3])?;
        let y = input(b, 1, F32, &[2 * s[0], 3])?;
        let few = input(b, 2, F32, &[2, 3])?;
        let join = |b: &mut Builder, list: &[ValueId], dim| {
            b.op(Op::Concat, list, attrs([Attr::Int(dim)]))
        };
        let all = join(b, &[x, few, y, few], 0)?;
        let sum = b.reduce(Op::Sum, all, &[0], false)?;
        let there = b.op(Op::Offload, &[all], smallvec![])?;
        let again = b.op(Op::Reload, &[there], smallvec![])?;
        let again = b.reduce(Op::Sum, again, &[0], false)?;
        Ok(vec![all, sum, again, join(b, &[few, x], 0)?, join(b, &[x, x], 1)?])
    });
}

#[test]
fn counting() {
    each_length(&|b, s| {
        let count = |b: &mut Builder, dim| {
            b.op(Op::Iota, &[], attrs([ints(&[s[0], 4]), Attr::Int(dim), Attr::DType(I64)]))
        };
        let (rows, columns) = (count(b, 0)?, count(b, 1)?);
        let causal = b.binary(Op::Ge, rows, columns)?;
        Ok(vec![rows, columns, causal, b.reduce(Op::Sum, rows, &[0, 1], false)?])
    });
}

#[test]
fn random_numbers_are_those_of_the_exact_sizes() {
    for sizes in [|t| vec![2, t, 3], |t| vec![t, 4], |t| vec![2, t, t]] {
        each_length(&|b, s| {
            let (seed, offset) = (b.scalar(0, I64)?, b.scalar(1, I64)?);
            let sizes = sizes(s[0]);
            let draw = |b: &mut Builder, op| b.op(op, &[seed, offset], attrs([ints(&sizes)]));
            Ok(vec![draw(b, Op::Random)?, draw(b, Op::RandomBits)?])
        });
    }
}

#[test]
fn tables_are_read_and_added_to() {
    each_length(&|b, s| {
        let table = input(b, 0, F32, &[5, 3])?;
        let index = input(b, 1, I64, &[2, s[0]])?;
        let rows = b.op(Op::Take, &[table, index], attrs([Attr::Int(0)]))?;
        let flat = b.reshape(index, &[2 * s[0]])?;
        let updates = b.reshape(rows, &[2 * s[0], 3])?;
        let sums = b.op(Op::IndexAdd, &[table, flat, updates], attrs([Attr::Int(0)]))?;
        b.ops(Op::Check, &[rows], attrs([]))?;
        Ok(vec![rows, sums])
    });
}

#[test]
fn picking_and_scattering() {
    each_length(&|b, s| {
        let x = input(b, 0, F32, &[s[0], 5])?;
        let index = input(b, 1, I64, &[s[0], 1])?;
        let picked = b.op(Op::Gather, &[x, index], attrs([Attr::Int(1)]))?;
        let set =
            b.op(Op::Scatter, &[x, index, picked], attrs([Attr::Int(1), Reduction::Last.attr()]))?;
        let base = input(b, 2, F32, &[5, 1])?;
        let mut made = vec![picked, set];
        for how in Reduction::ALL.into_iter().filter(|how| *how != Reduction::Last) {
            let onto = attrs([Attr::Int(0), how.attr()]);
            made.push(b.op(Op::Scatter, &[base, index, picked], onto)?);
        }
        Ok(made)
    });
}

#[test]
fn an_index_into_padding_is_out_of_range() {
    let build = |b: &mut Builder, s: &[i64]| -> Made {
        let x = input(b, 0, F32, &[s[0], 2])?;
        let index = input(b, 1, I64, &[1])?;
        let taken = b.op(Op::Take, &[x, index], attrs([Attr::Int(0)]))?;
        b.ops(Op::Check, &[taken], attrs([]))?;
        Ok(vec![x])
    };
    let made = Padded::new(&sampled(&build, 1), &graph(&build, &[20]), &[32], 2, 0).unwrap();
    let x = Array::from_f64(F32, &[32, 2], &[1.0; 64]);
    let run = |place: f64| {
        let index = Array::from_f64(I64, &[1], &[place]);
        interpret(&made.graph, &[x.clone(), index], &[made.size_args[0].1])
    };
    assert!(run(19.0).is_ok());
    for place in [20.0, 31.0, 32.0, -1.0] {
        assert_eq!(run(place).unwrap_err().code, crate::error::Code::IndexError);
    }
}

#[test]
fn writes_through_views() {
    each_length(&|b, s| {
        let t = s[0];
        let strided =
            |b: &mut Builder, op, list: &[ValueId], sizes: &[i64], strides: &[i64], at| {
                b.op(op, list, attrs([ints(sizes), ints(strides), Attr::Int(at)]))
            };
        // The first rows of a table; columns of rows whose length varies.
        let table = input(b, 0, F32, &[120])?;
        let x = input(b, 1, F32, &[t, 3])?;
        let rows = strided(b, Op::AsStridedScatter, &[table, x], &[t, 3], &[3, 1], 6)?;
        let flat = input(b, 2, F32, &[2 * (t + 2)])?;
        let y = input(b, 3, F32, &[2, t])?;
        let inner = strided(b, Op::AsStridedScatter, &[flat, y], &[2, t], &[t + 2, 1], 1)?;
        let seen = strided(b, Op::AsStrided, &[flat], &[2, t], &[t + 2, 1], 2)?;
        let sum = b.reduce(Op::Sum, inner, &[0], false)?;
        Ok(vec![rows, inner, seen, sum])
    });
}

#[test]
fn softmax_along_and_beside_what_varies() {
    for op in [Op::Softmax, Op::LogSoftmax] {
        for sizes in [|t| [3, t], |t| [t, 3]] {
            each_length(&|b, s| {
                let x = input(b, 0, F32, &sizes(s[0]))?;
                let dy = input(b, 1, F32, &sizes(s[0]))?;
                let y = b.op(op, &[x], smallvec![])?;
                let back = if op == Op::Softmax { Op::SoftmaxGrad } else { Op::LogSoftmaxGrad };
                let logs = b.ops(Op::LogSumExp, &[x], smallvec![])?;
                Ok(vec![y, b.op(back, &[dy, y], smallvec![])?, logs[0], logs[1]])
            });
        }
    }
}

#[test]
fn norms_of_rows() {
    each_length(&|b, s| {
        let x = input(b, 0, F32, &[s[0], 6])?;
        let dy = input(b, 1, F32, &[s[0], 6])?;
        let (w, c) = (input(b, 2, F32, &[6])?, input(b, 3, F32, &[6])?);
        let eps = || attrs([Attr::Float(1e-5), Attr::Bool(true), Attr::Bool(true)]);
        let layer = b.ops(Op::LayerNorm, &[x, w, c], eps())?;
        let rms = b.ops(Op::RmsNorm, &[x, w], attrs([Attr::Float(1e-5)]))?;
        let back = [dy, x, layer[1], layer[2], w];
        let layer_grad = b.ops(Op::LayerNormGrad, &back, smallvec![])?;
        let rms_grad = b.ops(Op::RmsNormGrad, &[dy, x, rms[1], w], smallvec![])?;
        Ok([layer, rms, layer_grad, rms_grad].concat())
    });
}

/// `q`, `k`, `v` of two batches and two heads, and gradients of attention.
fn attention(b: &mut Builder, sizes: [i64; 3], causal: bool, bias: Option<DType>) -> Made {
    let [batch, t, keys] = sizes;
    let q = input(b, 0, F32, &[batch, 2, t, 4])?;
    let (k, v) = (input(b, 1, F32, &[batch, 2, keys, 4])?, input(b, 2, F32, &[batch, 2, keys, 4])?);
    let dout = input(b, 3, F32, &[batch, 2, t, 4])?;
    let (seed, offset) = (b.scalar(0, I64)?, b.scalar(1, I64)?);
    let attrs = || attrs([Attr::Float(0.5), Attr::Bool(causal), Attr::Float(0.0)]);
    let mut list = vec![q, k, v, seed, offset];
    if let Some(dtype) = bias {
        list.push(input(b, 4, dtype, &[batch, 2, t, keys])?);
    }
    let out = b.ops(Op::Attention, &list, attrs())?;
    let mut back = vec![dout, q, k, v, out[0], out[1], seed, offset];
    back.extend(&list[5..]);
    let gradients = b.ops(Op::AttentionGrad, &back, attrs())?;
    Ok([&out[..], &gradients].concat())
}

#[test]
fn attention_over_what_varies() {
    for causal in [true, false] {
        for bias in [None, Some(F32)] {
            each_length(&|b, s| attention(b, [2, s[0], s[0]], causal, bias));
        }
        each_length(&|b, s| attention(b, [2, s[0], 7], causal, None));
        each_length(&|b, s| attention(b, [2, 7, s[0]], causal, Some(Bool)));
        each_length(&|b, s| attention(b, [s[0], 7, 7], causal, None));
    }
}

/// Where they are side by side a number says how many keys there are, else a mask where, in one row for all queries.
#[test]
fn attention_knows_its_keys() {
    let whole = |b: &mut Builder, s: &[i64]| attention(b, [2, s[0], s[0]], false, None);
    let parts = |b: &mut Builder, s: &[i64]| -> Made {
        let q = input(b, 0, F32, &[2, 2, 5, 4])?;
        let k = input(b, 1, F32, &[2, 2, 3, s[0], 4])?;
        let k = b.reshape(k, &[2, 2, 3 * s[0], 4])?;
        let number = b.scalar(0, I64)?;
        let how = attrs([Attr::Float(0.5), Attr::Bool(false), Attr::Float(0.0)]);
        Ok(b.ops(Op::Attention, &[q, k, k, number, number], how)?.to_vec())
    };
    each_length(&parts);
    let hidden = |build: Build, leaves: usize| {
        let made = Padded::new(&sampled(build, 1), &graph(build, &[20]), &[32], leaves, 2).unwrap();
        let node = made.graph.nodes.iter().find(|node| node.op == Op::Attention).unwrap();
        made.graph.ty(node.inputs[5]).clone()
    };
    assert_eq!(hidden(&whole, 4), Ty::new(I32, &[2, 1, 1, 1]));
    assert_eq!(hidden(&parts, 2), Ty::new(Bool, &[1, 1, 1, 96]));
}

#[test]
fn images_are_counted() {
    each_length(&|b, s| {
        let x = input(b, 0, F32, &[s[0], 2, 6, 6])?;
        let w = input(b, 1, F32, &[3, 2, 3, 3])?;
        let window = || [ints(&[1, 1]), ints(&[1, 1]), ints(&[1, 1]), Attr::Int(1)];
        let y = b.op(Op::Conv, &[x, w], attrs(window()))?;
        let [a, p, d, g] = window();
        let dx = b.op(Op::ConvGradInput, &[y, w], attrs([ints(&[6, 6]), a, p, d, g]))?;
        let [a, p, d, g] = window();
        let dw = b.op(Op::ConvGradWeight, &[y, x], attrs([ints(&[3, 3]), a, p, d, g]))?;
        let two = || ints(&[2, 2]);
        let pool = [two(), two(), ints(&[0, 0]), ints(&[1, 1]), Attr::Bool(false)];
        let best = b.ops(Op::MaxPool, &[y], attrs(pool))?;
        let back = b.op(Op::MaxPoolGrad, &[best[0], best[1]], attrs([ints(&[6, 6])]))?;
        Ok(vec![y, dx, dw, best[0], best[1], back])
    });
}

#[test]
fn what_is_not_known_is_refused() {
    let why = refusal(&|b, s| {
        let x = input(b, 0, F32, &[2, 1, s[0]])?;
        let w = input(b, 1, F32, &[1, 1, 3])?;
        let window = [ints(&[1]), ints(&[1]), ints(&[1]), Attr::Int(1)];
        Ok(vec![b.op(Op::Conv, &[x, w], attrs(window))?])
    });
    assert_eq!(why, "conv: a dimension varies that must not");
    let why = refusal(&|b, s| {
        let x = input(b, 0, F32, &[3, s[0]])?;
        let merged = b.reshape(x, &[3 * s[0]])?;
        Ok(vec![b.op(Op::ArgMax, &[merged], attrs([Attr::Int(0)]))?])
    });
    assert_eq!(why, "argmax: places along a merged dimension");
    let why = refusal(&|b, s| {
        let x = input(b, 0, F32, &[s[0], 2])?;
        Ok(vec![
            b.ops(
                Op::LayerNorm,
                &[x],
                attrs([Attr::Float(s[0] as f64), Attr::Bool(false), Attr::Bool(false)]),
            )?[0],
        ])
    });
    assert_eq!(why, "layer_norm: an attribute varies");
}
