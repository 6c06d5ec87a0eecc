//! How far from the reference a correct result may be, from the arithmetic of the very program: it is run a few times
//! in f64 with every operand and every result of a rounding operation off by a random relative error of about the
//! precision of its dtype. How much an output element moves then says how much rounding can move it: through
//! cancellation, long sums and steep functions alike. Where a rounding error may carry an operand over a pole or out of
//! a domain (`log`, a divisor, …), nothing is asked of what depends on it.

use torchacc::dtype::DType;
use torchacc::graph::generate::{Case, Rng, exact_values};
use torchacc::graph::{Node, ValueId};
use torchacc::op::array::Array;
use torchacc::op::evaluate::evaluate;
use torchacc::op::{Class, Op, Ty};

const SAMPLES: usize = 4;
/// Numbers that do not agree, whatever is done to them.
const WILD: [f64; SAMPLES] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30];

/// Of one output.
#[derive(Clone, Debug)]
pub enum Tolerance {
    /// Bit by bit, apart from the bits of a NaN.
    SameBits,
    /// Equal as numbers: 0.0 for -0.0 will do.
    Exact,
    /// Largest absolute error of every element; infinite where nothing can be said.
    Within(Vec<f64>),
}

/// For every output of a case, whose values are `expected`.
pub fn tolerances(case: &Case, expected: &[Array]) -> Vec<Tolerance> {
    let exact = exact_values(&case.graph);
    let outputs = case.graph.outputs.iter().map(|v| exact[v.0 as usize]);
    if outputs.clone().all(|exact| exact) {
        return vec![Tolerance::Exact; expected.len()];
    }
    let (samples, undefined) = samples(case, &exact);
    let tolerance = |(n, exact): (usize, bool)| match exact {
        true => Tolerance::Exact,
        false if undefined[case.graph.outputs[n].0 as usize] => {
            Tolerance::Within(vec![f64::INFINITY; expected[n].len()])
        }
        false => {
            let seen: Vec<Vec<f64>> = samples.iter().map(|s| s[n].to_f64s()).collect();
            Tolerance::Within(margins(&expected[n], &seen))
        }
    };
    outputs.enumerate().map(tolerance).collect()
}

fn precision(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => f32::EPSILON as f64,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => 0.0,
    }
}

fn margins(expected: &Array, samples: &[Vec<f64>]) -> Vec<f64> {
    let expected_values = expected.to_f64s();
    // `f64::max` would not see a NaN.
    let worse = |a: f64, b: f64| if a >= b { a } else { b };
    let deviation =
        |i: usize| samples.iter().map(|s| (s[i] - expected_values[i]).abs()).fold(0.0, worse);
    let deviations: Vec<f64> = (0..expected.len()).map(deviation).collect();
    let known: Vec<f64> = deviations.iter().copied().filter(|d| d.is_finite()).collect();
    // An element may by chance not have moved while its neighbours did.
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let margin = |i: usize| {
        let x = expected_values[i];
        let unmoved = samples.iter().all(|s| s[i] == x || s[i].is_nan() && x.is_nan());
        match x.is_finite() && deviations[i].is_finite() {
            true => {
                8.0 * deviations[i]
                    + 2.0 * mean
                    + 4.0 * precision(expected.ty.dtype) * x.abs()
                    + 1e-37
            }
            false if unmoved => 0.0,
            false => f64::INFINITY,
        }
    };
    (0..expected.len()).map(margin).collect()
}

/// A value in every disturbed run.
type Runs = Vec<Array>;

/// The outputs of the disturbed runs: exact values as they are, others as f64; and of which values nothing can be said.
fn samples(case: &Case, exact: &[bool]) -> (Vec<Vec<Array>>, Vec<bool>) {
    let graph = &case.graph;
    let mut rng = Rng::new(0);
    let mut values: Vec<Runs> = Vec::with_capacity(graph.values.len());
    // The undisturbed run.
    let mut settled: Vec<Array> = Vec::with_capacity(graph.values.len());
    let mut undefined: Vec<bool> = Vec::with_capacity(graph.values.len());
    for node in &graph.nodes {
        let types: Vec<Ty> = node.outputs().map(|v| graph.ty(v).clone()).collect();
        let results = undisturbed(case, node, &settled, &types);
        if exact[node.first.0 as usize] {
            values.extend(results.iter().map(|array| vec![array.clone(); SAMPLES]));
        } else {
            let mut runs: Vec<Runs> = vec![Vec::new(); types.len()];
            (0..SAMPLES).for_each(|n| {
                let run_of = |v: &ValueId| &values[v.0 as usize][n];
                let operands = node.inputs.iter().map(run_of).collect();
                let results = disturbed_results(node, operands, &types, &mut rng);
                runs.iter_mut().zip(results).for_each(|(run, result)| run.push(result));
            });
            unsettle(node, &values, &settled, &mut runs[0]);
            values.extend(runs);
        }
        let depends = node.inputs.iter().any(|v| undefined[v.0 as usize]);
        undefined.resize(values.len(), depends || meets_no_number(node, &settled));
        settled.extend(results);
    }
    let run = |n: usize| graph.outputs.iter().map(|v| values[v.0 as usize][n].clone()).collect();
    ((0..SAMPLES).map(run).collect(), undefined)
}

/// Which results of a Fourier transform a NaN or an infinity reaches depends on how the terms are put together: the
/// definition multiplies an infinity by the zero in `exp(0)`, a butterfly does not.
fn meets_no_number(node: &Node, settled: &[Array]) -> bool {
    let finite = |v: &ValueId| settled[v.0 as usize].to_f64s().iter().all(|x| x.is_finite());
    node.op == Op::Fft && !node.inputs.iter().all(finite)
}

fn disturbed_results(
    node: &Node,
    operands: Vec<&Array>,
    types: &[Ty],
    rng: &mut Rng,
) -> Vec<Array> {
    let rounds = !matches!(node.op.class(), Class::Movement) && node.op != Op::Select;
    let compute = if types[0].dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let error = |dtype: DType| if rounds { precision(dtype) } else { 0.0 };
    // A negative number has powers only for whole exponents.
    let before = if node.op == Op::Pow { 0.0 } else { error(compute) };
    let operands: Vec<Array> = operands.iter().map(|array| disturbed(array, before, rng)).collect();
    let wide: Vec<Ty> = types.iter().map(widened).collect();
    let results = evaluate(node.op, &operands.iter().collect::<Vec<_>>(), &node.attrs, &wide)
        .expect("what ran undisturbed runs disturbed");
    let inside = inner_error(node, &operands) * precision(compute);
    let rounded = |(array, ty): (&Array, &Ty)| {
        let mut array = disturbed(array, error(ty.dtype), rng);
        for i in 0..array.len() {
            array.set_f64(i, array.f64(i) + inside * (rng.unit() * 4.0 - 2.0));
        }
        array
    };
    results.iter().zip(types).map(rounded).collect()
}

/// Composites subtract numbers made of one operand, and take the logarithm of sums near 1: a disturbance of the operand
/// cancels, rounding errors in between do not. This is the size of those numbers.
fn inner_error(node: &Node, operands: &[Array]) -> f64 {
    let largest = |n: usize| {
        let magnitudes = operands.get(n).map(|array| array.to_f64s()).unwrap_or_default();
        magnitudes.iter().fold(0.0, |a: f64, x| a.max(x.abs()))
    };
    match node.op {
        Op::LogSoftmax | Op::LogSumExp | Op::Attention => 2.0,
        Op::SoftmaxGrad | Op::LogSoftmaxGrad => 4.0 * largest(0),
        Op::LayerNormGrad => 4.0 * largest(0) * largest(3) * largest(4).max(1.0),
        Op::RmsNormGrad => 4.0 * largest(0) * largest(2) * largest(3).max(1.0),
        Op::AttentionGrad => largest(0) * largest(3).max(1.0) * largest(1).max(largest(2)).max(1.0),
        _ => 0.0,
    }
}

/// Makes the runs disagree wildly on elements whose operand is nearer to a pole than its own uncertainty, or at the
/// pole, where the sign of a zero decides.
fn unsettle(node: &Node, values: &[Runs], settled: &[Array], runs: &mut Runs) {
    let (operand, poles) = match node.op {
        Op::Log | Op::Sqrt | Op::Rsqrt | Op::Pow => (0, &[0.0][..]),
        Op::Log1p => (0, &[-1.0][..]),
        Op::Erfinv => (0, &[-1.0, 1.0][..]),
        Op::Div => (1, &[0.0][..]),
        _ => return,
    };
    let operand = node.inputs[operand].0 as usize;
    let x = &settled[operand];
    for i in 0..x.len() {
        let distance = poles.iter().map(|pole| (x.f64(i) - pole).abs()).fold(f64::MAX, f64::min);
        let moved = values[operand].iter().map(|run| (run.f64(i) - x.f64(i)).abs());
        if 32.0 * moved.fold(0.0, f64::max) >= distance {
            runs.iter_mut().zip(WILD).for_each(|(run, x)| run.set_f64(i, x));
        }
    }
}

fn undisturbed(case: &Case, node: &Node, values: &[Array], types: &[Ty]) -> Vec<Array> {
    match node.op {
        Op::Input => vec![case.inputs[node.attrs[0].int() as usize].clone()],
        Op::Scalar => {
            let mut array = Array::zeros(&types[0]);
            array.set_scalar(0, case.scalars[node.attrs[0].int() as usize]);
            vec![array]
        }
        op => {
            let operands: Vec<&Array> = node.inputs.iter().map(|v| &values[v.0 as usize]).collect();
            evaluate(op, &operands, &node.attrs, types).expect("what ran once runs again")
        }
    }
}

fn widened(ty: &Ty) -> Ty {
    let dtype = if ty.dtype.is_float() { DType::F64 } else { ty.dtype };
    Ty { dtype, sizes: ty.sizes.clone() }
}

/// Floats as f64, each off by up to two times the relative error; others as they are.
fn disturbed(array: &Array, error: f64, rng: &mut Rng) -> Array {
    if !array.ty.dtype.is_float() {
        return array.clone();
    }
    let mut moved = Array::zeros(&widened(&array.ty));
    for i in 0..array.len() {
        let factor = 1.0 + error * (rng.unit() * 4.0 - 2.0);
        moved.set_f64(i, array.f64(i) * factor);
    }
    moved
}

/// `Err` names the first element that is too far off.
pub fn compare(got: &[Array], expected: &[Array], tolerances: &[Tolerance]) -> Result<(), String> {
    for (n, ((got, expected), tolerance)) in got.iter().zip(expected).zip(tolerances).enumerate() {
        if got.ty != expected.ty {
            return Err(format!("output {n} is {}, not {}", got.ty, expected.ty));
        }
        for i in 0..expected.len() {
            let (fits, margin) = element_fits(got, expected, tolerance, i);
            if !fits {
                let (got, expected) = (got.f64(i), expected.f64(i));
                return Err(format!(
                    "output {n}, element {i} is {got:?}, not {expected:?} (off by {:e}, allowed {margin:e})",
                    (got - expected).abs()
                ));
            }
        }
    }
    Ok(())
}

fn element_fits(got: &Array, expected: &Array, tolerance: &Tolerance, i: usize) -> (bool, f64) {
    if got.raw(i) == expected.raw(i) {
        return (true, 0.0);
    }
    if !got.ty.dtype.is_float() {
        return (
            matches!(tolerance, Tolerance::Within(margins) if margins[i] == f64::INFINITY),
            0.0,
        );
    }
    let (x, y) = (got.f64(i), expected.f64(i));
    if x.is_nan() && y.is_nan() {
        return (true, 0.0);
    }
    match tolerance {
        Tolerance::SameBits => (false, 0.0),
        Tolerance::Exact => (x == y, 0.0),
        Tolerance::Within(margins) if margins[i] == f64::INFINITY => (true, margins[i]),
        Tolerance::Within(margins) => (x == y || (x - y).abs() <= margins[i], margins[i]),
    }
}
