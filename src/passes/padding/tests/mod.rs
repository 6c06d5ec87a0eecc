//! Padded programs against the exact ones, through the reference interpreter, with garbage in the padding.

mod fuzz;
mod rules;

use super::*;
use crate::dtype::DType;
use crate::graph::generate::Rng;
use crate::graph::interpret::interpret;
use crate::graph::{Builder, ValueId};
use crate::op::array::Array;
use crate::passes;

/// Writes a program for given sizes.
type Build<'a> = &'a dyn Fn(&mut Builder, &[i64]) -> crate::error::Result<Vec<ValueId>>;

/// Where the programs of a test are looked at first.
const POINTS: [i64; 7] = [11, 12, 14, 17, 23, 29, 35];

fn graph(build: Build, sizes: &[i64]) -> Graph {
    let mut b = Builder::new();
    let outputs = build(&mut b, sizes).unwrap();
    b.finish(outputs)
}

/// Of as many sizes as `bucket` has.
fn sampled(build: Build, symbols: usize) -> Sampled {
    let points = POINTS.iter().enumerate().map(|(i, &first)| {
        let mut point = vec![first];
        point.extend((1..symbols).map(|s| POINTS[(i * (s + 2) + s) % POINTS.len()] + 2));
        point
    });
    let graphs = points.map(|point| (point.clone(), graph(build, &point))).collect();
    Sampled::new(graphs).expect("sizes are polynomials")
}

/// What padding holds.
const GARBAGE: [fn(&mut Rng) -> u8; 4] = [|_| 0xff, |_| 0x7f, |_| 0, |rng| rng.below(256) as u8];

/// The array with padding.
fn padded(
    array: &Array,
    frame: &Frame,
    ty: &Ty,
    garbage: fn(&mut Rng) -> u8,
    rng: &mut Rng,
) -> Array {
    let size = ty.dtype.size();
    let mut all = Array::zeros(ty);
    all.bytes.iter_mut().for_each(|byte| *byte = garbage(rng));
    if ty.dtype == DType::Bool {
        all.bytes.iter_mut().for_each(|byte| *byte &= 1);
    }
    for (exact, at, row) in frame.rows() {
        let from = &array.bytes[exact * size..(exact + row) * size];
        all.bytes[at * size..(at + row) * size].copy_from_slice(from);
    }
    all
}

/// The array without it.
fn exact(all: &Array, frame: &Frame, ty: &Ty) -> Array {
    let size = ty.dtype.size();
    let mut array = Array::zeros(ty);
    for (exact, at, row) in frame.rows() {
        let from = &all.bytes[at * size..(at + row) * size];
        array.bytes[exact * size..(exact + row) * size].copy_from_slice(from);
    }
    array
}

/// Numbers for the inputs of a graph: integers below 3, floats about 1.
fn inputs(graph: &Graph, rng: &mut Rng) -> Vec<Array> {
    let mut types: Vec<(i64, Ty)> = Vec::new();
    for node in graph.nodes.iter().filter(|node| node.op == Op::Input) {
        types.push((node.attrs[0].int(), graph.ty(node.first).clone()));
    }
    types.sort_by_key(|(index, _)| *index);
    let mut number = |dtype: DType| match dtype {
        DType::Bool => rng.below(2) as f64,
        dtype if dtype.is_int() => rng.below(3) as f64,
        _ => 4.0 * rng.unit() - 2.0,
    };
    let array = |(_, ty): &(i64, Ty)| {
        let numbers: Vec<f64> = (0..ty.numel()).map(|_| number(ty.dtype)).collect();
        Array::from_f64(ty.dtype, &ty.sizes, &numbers)
    };
    types.iter().map(array).collect::<Vec<_>>()
}

fn scalars(graph: &Graph) -> Vec<u64> {
    let count = graph.nodes.iter().filter(|node| node.op == Op::Scalar).count();
    (0..count as u64).collect()
}

/// What a program gives as it is, and what with its composites written out: where numbers cancel, the rest is the rounding of
/// one or of the other. `None` if it fails.
fn forms(graph: &Graph, inputs: &[Array], scalars: &[u64]) -> Option<[Vec<Array>; 2]> {
    let apart = passes::optimize(graph.clone(), &|_| false).unwrap();
    let run = |graph| interpret(graph, inputs, scalars).ok();
    Some([run(graph)?, run(&apart)?])
}

/// Runs a padded program with every kind of garbage: the results must be the same bits, and about those of one of the forms.
fn compare(padding: &Padded, inputs: &[Array], scalars: &[u64], forms: &[Vec<Array>; 2]) {
    let want = &forms[0];
    let mut scalars = scalars.to_vec();
    scalars.extend(padding.size_args.iter().map(|arg| arg.1));
    let types = padding.input_types(inputs.iter().map(|a| a.ty.clone()).collect());
    for keeps in [true, false] {
        let graph = passes::optimize(padding.graph.clone(), &|_| keeps).unwrap();
        let mut first: Option<Vec<Array>> = None;
        for (kind, garbage) in GARBAGE.into_iter().enumerate() {
            let mut rng = Rng::new(kind as u64);
            let all: Vec<Array> = (inputs.iter().zip(&padding.inputs).zip(&types))
                .map(|((array, frame), ty)| match frame {
                    Some(frame) => self::padded(array, frame, ty, garbage, &mut rng),
                    None => array.clone(),
                })
                .collect();
            let got = interpret(&graph, &all, &scalars).unwrap();
            let got: Vec<Array> = (got.iter().zip(&padding.outputs).zip(want))
                .map(|((array, frame), want)| match frame {
                    Some(frame) => exact(array, frame, &want.ty),
                    None => array.clone(),
                })
                .collect();
            match &first {
                Some(first) => assert_eq!(first, &got, "garbage of kind {kind} changes a bit"),
                None => first = Some(got),
            }
        }
        for (n, got) in first.unwrap().iter().enumerate() {
            assert_eq!(got.ty, want[n].ty);
            assert_near(got, [&forms[0][n], &forms[1][n]]);
        }
    }
}

/// Every element is near that of one of the arrays.
fn assert_near(got: &Array, wants: [&Array; 2]) {
    let bound = match got.ty.dtype {
        DType::F64 => 1e-12,
        DType::F16 | DType::BF16 => 2e-2,
        _ => 1e-5,
    };
    let wants = wants.map(Array::to_f64s);
    for (i, x) in got.to_f64s().into_iter().enumerate() {
        let near =
            |y: f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= bound * (1.0 + y.abs());
        let [one, other] = [0, 1].map(|erased| wants[erased][i]);
        assert!(near(one) || near(other), "element {i}: {x} is neither {one} nor {other}");
    }
}

/// The program at these sizes, padded to a bucket, gives what it gives exactly.
fn check(build: Build, bucket: &[i64], lengths: &[&[i64]]) {
    let sampled = sampled(build, bucket.len());
    let mut rng = Rng::new(7);
    let mut program = None;
    for sizes in lengths {
        let here = graph(build, sizes);
        let (inputs, scalars) = (inputs(&here, &mut rng), scalars(&here));
        let padding = Padded::new(&sampled, &here, bucket, inputs.len(), scalars.len()).unwrap();
        let want = forms(&here, &inputs, &scalars).unwrap();
        compare(&padding, &inputs, &scalars, &want);
        // One program for the bucket.
        let text = padding.graph.to_string();
        assert_eq!(program.get_or_insert_with(|| text.clone()), &text);
    }
}

/// Lengths of one size: below, between and at the bucket.
fn each_length(build: Build) {
    check(build, &[32], &[&[5], &[20], &[31], &[32]]);
}

/// Why the program is refused.
fn refusal(build: Build) -> String {
    let here = graph(build, &[20]);
    let leaves = inputs(&here, &mut Rng::new(0)).len();
    let made = Padded::new(&sampled(build, 1), &here, &[32], leaves, scalars(&here).len());
    made.err().expect("it is refused")
}
