//! Functions to differentiate: primitives that the table of cases does not have, at sizes of 0 and 1 too.

use super::*;

pub fn case(
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

fn any(seed: u64, sizes: &[i64]) -> Array {
    random(seed, sizes, -2.0, 2.0)
}

fn positive(seed: u64, sizes: &[i64]) -> Array {
    random(seed, sizes, 0.4, 2.0)
}

pub fn all() -> Vec<Case> {
    [pointwise(), vec![offload()], complex()].into_iter().flatten().collect()
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

fn offload() -> Case {
    case("offload and reload", &[any(20, &[2, 3, 4])], |math, x| {
        let there = math.op(Op::Offload, &[x[0]], smallvec![]);
        vec![math.op(Op::Reload, &[there], smallvec![]).exp()]
    })
}

fn complex() -> Vec<Case> {
    vec![
        case("fft", &[any(38, &[3, 5, 2])], |math, x| {
            vec![math.op(Op::Fft, &[x[0]], smallvec![Attr::Bool(false)]).tanh()]
        }),
        case("parts of complex numbers", &[any(39, &[4, 2])], |_, x| {
            let z = x[0].paired().broadcast(&[3, 4]);
            let [re, im] = z.parts();
            vec![re * im + z.pairs().reduce(Op::Sum, &[2], false)]
        }),
    ]
}
