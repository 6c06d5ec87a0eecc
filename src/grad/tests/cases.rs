//! Functions to differentiate: every primitive that has a rule, at sizes of 0 and 1 too.

use super::*;
use crate::op::Attrs;
use crate::op::index::Reduction;
use crate::op::nn::Cell;

fn case(
    name: &'static str,
    inputs: &[Array],
    formula: impl for<'m> Fn(&'m Math, &[V<'m>]) -> Vec<V<'m>> + 'static,
) -> Case {
    Case { name, inputs: inputs.to_vec(), formula: Box::new(formula), twice: true }
}

/// Its gradient has none, or one that differences do not find.
fn once(
    name: &'static str,
    inputs: &[Array],
    formula: impl for<'m> Fn(&'m Math, &[V<'m>]) -> Vec<V<'m>> + 'static,
) -> Case {
    Case { twice: false, ..case(name, inputs, formula) }
}

/// The node `op`, all outputs.
fn node<'m>(math: &'m Math, op: Op, operands: &[V<'m>], attrs: Attrs) -> Vec<V<'m>> {
    math.ops(op, operands, attrs).unwrap_or_else(|e| panic!("{}: {e}", op.name()))
}

fn ints(list: &[i64]) -> Attr {
    Attr::Ints(list.into())
}

fn any(seed: u64, sizes: &[i64]) -> Array {
    random(seed, sizes, -2.0, 2.0)
}

fn positive(seed: u64, sizes: &[i64]) -> Array {
    random(seed, sizes, 0.4, 2.0)
}

/// Indices below `size`, as a value of the graph.
fn indices<'m>(math: &'m Math, sizes: &[i64], size: i64) -> V<'m> {
    let n = crate::shape::numel(sizes);
    let numbers = math.iota(&[n], 0, DType::I64) * 3.0 + 1.0;
    numbers.rem(size as f64).reshape(sizes)
}

/// Of three groups: one, none and five of seven.
fn ends<'m>(math: &'m Math) -> V<'m> {
    let thirds = math.iota(&[3], 0, DType::I64);
    (thirds * thirds - thirds) * 2.5 + 1.0
}

pub fn all() -> Vec<Case> {
    [
        pointwise(),
        movement(),
        reductions(),
        contractions(),
        indexing(),
        norms(),
        attention(),
        recurrent(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn pointwise() -> Vec<Case> {
    let mut cases = Vec::new();
    let everywhere = [
        Op::Neg,
        Op::Abs,
        Op::Exp,
        Op::Expm1,
        Op::Sin,
        Op::Cos,
        Op::Tanh,
        Op::Erf,
        Op::Erfc,
        Op::Sigmoid,
    ];
    for op in everywhere {
        let inputs = [any(1, &[2, 3])];
        cases.push(case(op.name(), &inputs, move |_, x| vec![x[0].unary(op)]));
    }
    cases.push(case("erfinv", &[any(1, &[2, 3])], |_, x| vec![x[0].tanh().unary(Op::Erfinv)]));
    for op in [Op::Log, Op::Log1p, Op::Sqrt, Op::Rsqrt] {
        let inputs = [positive(2, &[5])];
        cases.push(case(op.name(), &inputs, move |_, x| vec![x[0].unary(op)]));
    }
    let two = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Min, Op::Atan2, Op::Rem];
    for op in two {
        for sizes in [&[2, 3][..], &[], &[0, 3], &[1, 1]] {
            let inputs = [any(3, sizes), positive(4, sizes)];
            cases.push(case(op.name(), &inputs, move |_, x| vec![x[0].binary(op, x[1])]));
        }
    }
    cases.push(case("pow", &[positive(5, &[4]), any(6, &[4])], |_, x| vec![x[0].pow(x[1])]));
    cases.push(case("square", &[any(5, &[4])], |_, x| vec![x[0].pow(2.0), x[0] * x[0]]));
    cases.push(case("select", &[any(7, &[4]), any(8, &[4])], |_, x| {
        vec![x[0].gt(0.0).select(x[0] * x[1], x[1].exp()), x[0].le(0.5).select(x[1], 0.0)]
    }));
    cases.push(once("cast", &[any(9, &[3])], |_, x| {
        vec![x[0].cast(DType::I64).cast(DType::F64) * x[0].cast(DType::F64)]
    }));
    cases.push(case("mark", &[any(10, &[3])], |math, x| {
        vec![math.op(Op::Mark, &[x[0]], smallvec![Attr::Int(0)]).exp()]
    }));
    cases
}

fn movement() -> Vec<Case> {
    let x = [any(20, &[2, 3, 4])];
    let strided = |sizes: &[i64], strides: &[i64], offset: i64| -> Attrs {
        smallvec![ints(sizes), ints(strides), Attr::Int(offset)]
    };
    let apart = strided(&[2, 2], &[7, 3], 2);
    let overlapping = strided(&[3, 4], &[2, 1], 1);
    let written = apart.clone();
    vec![
        case("reshape", &x, |_, x| vec![x[0].reshape(&[4, 6]).exp()]),
        case("transpose", &x, |_, x| vec![x[0].transpose(&[2, 0, 1]).exp()]),
        case("broadcast", &[any(21, &[3, 1])], |_, x| vec![x[0].broadcast(&[2, 3, 4]).exp()]),
        case("broadcast of one", &[any(21, &[])], |_, x| vec![x[0].broadcast(&[3]).exp()]),
        case("broadcast to none", &[any(21, &[1])], |_, x| vec![x[0].broadcast(&[0]).exp()]),
        case("slice", &x, |_, x| vec![x[0].slice(&[1, 0, 1], &[1, 2, 2], &[1, 2, 2]).exp()]),
        case("narrow", &x, |_, x| {
            vec![x[0].narrow(1, 1, 1).exp(), x[0].narrow(1, 0, 2), x[0].narrow(2, 3, 1)]
        }),
        case("narrow to none", &x, |_, x| vec![x[0].narrow(1, 1, 0).exp()]),
        case("as_strided", &x, move |math, x| {
            vec![math.op(Op::AsStrided, &[x[0]], apart.clone()).exp()]
        }),
        case("overlapping as_strided", &x, move |math, x| {
            vec![math.op(Op::AsStrided, &[x[0]], overlapping.clone()).exp()]
        }),
        case("as_strided_scatter", &[any(22, &[2, 3, 4]), any(23, &[2, 2])], move |math, x| {
            vec![math.op(Op::AsStridedScatter, x, written.clone()).exp()]
        }),
        case("offload and reload", &x, |math, x| {
            let there = math.op(Op::Offload, &[x[0]], smallvec![]);
            vec![math.op(Op::Reload, &[there], smallvec![]).exp()]
        }),
        case("concat", &[any(24, &[2, 3]), any(25, &[2, 0]), any(26, &[2, 1])], |math, x| {
            vec![math.concat(x, 1).exp()]
        }),
    ]
}

fn reductions() -> Vec<Case> {
    let x = || any(30, &[2, 3, 4]);
    let mut with_zeros = positive(31, &[3, 3]);
    [1, 5].into_iter().for_each(|i| with_zeros.set_f64(i, 0.0));
    let mut twice_zero = positive(32, &[4]);
    [1, 3].into_iter().for_each(|i| twice_zero.set_f64(i, 0.0));
    vec![
        case("sum", &[x()], |_, x| vec![x[0].reduce(Op::Sum, &[0, 2], false).exp()]),
        case("sum of none", &[any(30, &[2, 0])], |_, x| {
            vec![x[0].reduce(Op::Sum, &[1], false).exp()]
        }),
        case("prod", &[x()], |_, x| vec![x[0].reduce(Op::Prod, &[1], false).exp()]),
        once("prod of zeros", &[with_zeros], |_, x| vec![x[0].reduce(Op::Prod, &[1], false)]),
        once("prod of two zeros", &[twice_zero], |_, x| vec![x[0].reduce(Op::Prod, &[0], false)]),
        case("max", &[x()], |_, x| vec![x[0].reduce(Op::ReduceMax, &[1, 2], false).exp()]),
        case("min", &[x()], |_, x| vec![x[0].reduce(Op::ReduceMin, &[0], true).exp()]),
        case("cumsum", &[x()], |math, x| {
            vec![math.op(Op::CumSum, &[x[0]], smallvec![Attr::Int(1)]).exp()]
        }),
        case("top_k", &[x()], |math, x| {
            let attrs = smallvec![Attr::Int(1), Attr::Int(2), Attr::Bool(true)];
            let found = math.ops(Op::TopK, &[x[0]], attrs).unwrap();
            vec![found[0].exp() * x[0].reduce(Op::Sum, &[1], true)]
        }),
        case("cumsum of none", &[any(30, &[0, 2])], |math, x| {
            vec![math.op(Op::CumSum, &[x[0]], smallvec![Attr::Int(0)]).exp()]
        }),
    ]
}

fn contractions() -> Vec<Case> {
    let spacing = |stride: i64, padding: i64, dilation: i64, groups: i64| -> Attrs {
        let both = |n: i64| ints(&[n, n]);
        smallvec![both(stride), both(padding), both(dilation), Attr::Int(groups)]
    };
    let with =
        |sizes: &[i64], rest: Attrs| -> Attrs { [ints(sizes)].into_iter().chain(rest).collect() };
    let (plain, grouped) = (spacing(1, 0, 1, 1), spacing(2, 1, 2, 2));
    // A stride that leaves the last elements out.
    let (input, weight) = (with(&[5, 5], spacing(2, 0, 1, 1)), with(&[2, 2], spacing(2, 0, 1, 1)));
    let pool = |ceil: bool| -> Attrs {
        smallvec![ints(&[2, 3]), ints(&[2, 1]), ints(&[1, 0]), ints(&[1, 1]), Attr::Bool(ceil)]
    };
    let (pooled, hanging, back) = (pool(false), pool(true), with(&[3, 5], pool(false)));
    vec![
        case("fft", &[any(38, &[3, 5, 2])], |math, x| {
            vec![math.op(Op::Fft, &[x[0]], smallvec![Attr::Bool(false)]).tanh()]
        }),
        case("parts of complex numbers", &[any(39, &[4, 2])], |_, x| {
            let z = x[0].paired().broadcast(&[3, 4]);
            let [re, im] = z.parts();
            vec![re * im + z.pairs().reduce(Op::Sum, &[2], false)]
        }),
        case("matmul", &[any(40, &[2, 3, 4]), any(41, &[2, 4, 2])], |_, x| {
            vec![x[0].matmul(x[1]).tanh()]
        }),
        case("grouped_matmul of rows", &[any(40, &[7, 3]), any(41, &[3, 3, 2])], |math, x| {
            vec![node(math, Op::GroupedMatmul, &[x[0], x[1], ends(math)], Attrs::new())[0].tanh()]
        }),
        case("grouped_matmul of sums", &[any(40, &[2, 7]), any(41, &[7, 3])], |math, x| {
            vec![node(math, Op::GroupedMatmul, &[x[0], x[1], ends(math)], Attrs::new())[0].tanh()]
        }),
        case("matmul of none", &[any(40, &[2, 0]), any(41, &[0, 3])], |_, x| {
            vec![x[0].matmul(x[1]).exp()]
        }),
        case("conv", &[any(42, &[2, 2, 4, 3]), any(43, &[3, 2, 2, 2])], move |math, x| {
            vec![math.op(Op::Conv, x, plain.clone()).tanh()]
        }),
        case("grouped conv", &[any(44, &[1, 2, 5, 6]), any(45, &[4, 1, 2, 3])], move |math, x| {
            vec![math.op(Op::Conv, x, grouped.clone()).tanh()]
        }),
        case("conv_grad_input", &[any(46, &[1, 2, 2, 2]), any(47, &[2, 1, 2, 2])], move |m, x| {
            vec![m.op(Op::ConvGradInput, x, input.clone()).tanh()]
        }),
        case("conv_grad_weight", &[any(48, &[1, 2, 2, 2]), any(49, &[1, 1, 5, 5])], move |m, x| {
            vec![m.op(Op::ConvGradWeight, x, weight.clone()).tanh()]
        }),
        case("sum_pool", &[any(50, &[1, 2, 3, 5])], move |math, x| {
            vec![
                math.op(Op::SumPool, x, pooled.clone()).tanh(),
                math.op(Op::SumPool, x, hanging.clone()).tanh(),
            ]
        }),
        case("sum_pool_grad", &[any(51, &[1, 1, 2, 3])], move |math, x| {
            vec![math.op(Op::SumPoolGrad, x, back.clone()).tanh()]
        }),
    ]
}

fn indexing() -> Vec<Case> {
    let windows: Attrs =
        smallvec![ints(&[2, 2]), ints(&[1, 2]), ints(&[1, 0]), ints(&[1, 1]), Attr::Bool(true)];
    vec![
        case("take", &[any(60, &[2, 4, 2])], |math, x| {
            let index = indices(math, &[3, 2], 4);
            vec![math.op(Op::Take, &[x[0], index], smallvec![Attr::Int(1)]).exp()]
        }),
        case("take none", &[any(60, &[4, 2])], |math, x| {
            let index = indices(math, &[0], 4);
            vec![math.op(Op::Take, &[x[0], index], smallvec![Attr::Int(0)]).exp()]
        }),
        case("index_add", &[any(61, &[2, 3]), any(62, &[2, 5])], |math, x| {
            let index = indices(math, &[5], 3);
            vec![math.op(Op::IndexAdd, &[x[0], index, x[1]], smallvec![Attr::Int(1)]).exp()]
        }),
        case("gather", &[any(63, &[3, 4])], |math, x| {
            let index = indices(math, &[2, 5], 4);
            vec![math.op(Op::Gather, &[x[0], index], smallvec![Attr::Int(1)]).exp()]
        }),
        case("gather one of each", &[any(63, &[3, 4])], |math, x| {
            let index = indices(math, &[3, 1], 4);
            vec![math.op(Op::Gather, &[x[0], index], smallvec![Attr::Int(1)]).exp()]
        }),
        case("scatter", &[any(64, &[5, 2]), any(65, &[4, 2])], |math, x| {
            let onto = |how: Reduction| -> Attrs { smallvec![Attr::Int(0), how.attr()] };
            let index = indices(math, &[4, 2], 5);
            let distinct = math.iota(&[4, 2], 0, DType::I64);
            vec![
                math.op(Op::Scatter, &[x[0], index, x[1]], onto(Reduction::Sum)).exp(),
                math.op(Op::Scatter, &[x[0], distinct, x[1]], onto(Reduction::Last)).exp(),
                math.op(Op::Scatter, &[x[0], index, x[1]], onto(Reduction::Product)).exp(),
                math.op(Op::Scatter, &[x[0], index, x[1]], onto(Reduction::Max)).exp(),
                math.op(Op::Scatter, &[x[0], index, x[1]], onto(Reduction::Min)).exp(),
            ]
        }),
        case("max_pool", &[any(66, &[2, 1, 3, 4])], move |math, x| {
            vec![node(math, Op::MaxPool, x, windows.clone())[0].exp()]
        }),
    ]
}

fn norms() -> Vec<Case> {
    let x = || any(70, &[3, 4]);
    let column = |seed| any(seed, &[4]);
    let layer = |weight, bias| -> Attrs {
        smallvec![Attr::Float(1e-3), Attr::Bool(weight), Attr::Bool(bias)]
    };
    let (full, bias, none) = (layer(true, true), layer(false, true), layer(false, false));
    let rms: Attrs = smallvec![Attr::Float(1e-3)];
    let bare = rms.clone();
    vec![
        case("softmax", &[x()], |_, x| vec![x[0].unary(Op::Softmax).sqrt()]),
        case("log_softmax", &[x()], |_, x| vec![x[0].unary(Op::LogSoftmax).tanh()]),
        case("softmax of none", &[any(70, &[2, 0])], |_, x| vec![x[0].unary(Op::Softmax)]),
        case("softmax_grad", &[x(), any(71, &[3, 4])], |_, x| {
            vec![x[0].binary(Op::SoftmaxGrad, x[1]).tanh()]
        }),
        case("log_softmax_grad", &[x(), any(71, &[3, 4])], |_, x| {
            vec![x[0].binary(Op::LogSoftmaxGrad, x[1]).tanh()]
        }),
        case("log_sum_exp", &[x()], |math, x| {
            let parts = node(math, Op::LogSumExp, x, smallvec![]);
            vec![(parts[0] + parts[1]).exp()]
        }),
        case("parts of log_sum_exp", &[x()], |math, x| node(math, Op::LogSumExp, x, smallvec![])),
        once("layer_norm", &[x(), column(72), column(73)], move |math, x| {
            let found = node(math, Op::LayerNorm, x, full.clone());
            vec![found[0].tanh(), found[1] * found[2]]
        }),
        once("layer_norm with a bias", &[x(), column(73)], move |math, x| {
            node(math, Op::LayerNorm, x, bias.clone())
        }),
        once("bare layer_norm", &[x()], move |math, x| {
            vec![node(math, Op::LayerNorm, x, none.clone())[0].tanh()]
        }),
        once("rms_norm", &[x(), column(74)], move |math, x| {
            let found = node(math, Op::RmsNorm, x, rms.clone());
            vec![found[0].tanh(), found[1].exp()]
        }),
        once("bare rms_norm", &[x()], move |math, x| {
            vec![node(math, Op::RmsNorm, x, bare.clone())[0].tanh()]
        }),
    ]
}

fn recurrent() -> Vec<Case> {
    let of = |name: &'static str, cell: Cell, reverse: bool| {
        let gates = cell.gates() as i64;
        let mut inputs =
            vec![any(83, &[3, 2, gates * 2]), any(84, &[gates * 2, 2]), any(85, &[2, 2])];
        match cell {
            Cell::Lstm => inputs.push(any(86, &[2, 2])),
            Cell::Gru => inputs.push(any(86, &[2])),
            Cell::Tanh | Cell::Relu => {}
        }
        once(name, &inputs, move |math, x| {
            let attrs = smallvec![cell.attr(), Attr::Bool(reverse)];
            let results = node(math, Op::Recurrent, x, attrs);
            vec![results[0].exp(), results[1].exp()]
        })
    };
    vec![
        of("recurrent tanh", Cell::Tanh, false),
        of("recurrent relu", Cell::Relu, true),
        of("long short-term memory", Cell::Lstm, false),
        of("long short-term memory in reverse", Cell::Lstm, true),
        of("gated recurrent unit", Cell::Gru, false),
        of("gated recurrent unit in reverse", Cell::Gru, true),
    ]
}

fn attention() -> Vec<Case> {
    let qkv = [any(80, &[1, 4, 3, 2]), any(81, &[1, 2, 5, 2]), any(82, &[1, 2, 5, 3])];
    let attend = |math: &Math, x: &[V<'_>], causal: bool, dropout: f64, masked: Option<DType>| {
        let seed = math.constant_int(7, DType::I64);
        let mut operands = vec![x[0].id, x[1].id, x[2].id, seed.id, seed.id];
        operands.extend(masked.map(|dtype| match dtype {
            DType::I32 => math.constant_int(4, dtype).reshape(&[1; 4]).id,
            _ => math.iota(&[1, 1, 3, 5], 3, DType::F64).lt(4.0).id,
        }));
        let attrs = smallvec![Attr::Float(0.6), Attr::Bool(causal), Attr::Float(dropout)];
        let operands: Vec<V> = operands.into_iter().map(|id| math.wrap(id)).collect();
        node(math, Op::Attention, &operands, attrs)[0].id
    };
    vec![
        once("attention", &qkv, move |math, x| {
            vec![math.wrap(attend(math, x, false, 0.0, Some(DType::Bool))).exp()]
        }),
        once("attention to some keys", &qkv, move |math, x| {
            vec![math.wrap(attend(math, x, false, 0.0, Some(DType::I32))).exp()]
        }),
        once("causal attention with dropout", &qkv, move |math, x| {
            vec![math.wrap(attend(math, x, true, 0.3, None)).exp()]
        }),
    ]
}
