//! Reductions, arguments of extremes, running sums and the first elements of a line.

use super::data::{FLOATS, INTS, LAYS, coordinates, flat, number_types};
use super::*;

pub fn cases() -> Vec<Case> {
    let mut cases = exact_folds();
    cases.extend(edges());
    cases.extend(folds());
    cases.extend(long_folds());
    cases.extend(odd_numbers());
    cases.extend(along_an_axis());
    cases.extend(sorting());
    cases.extend(gradients());
    cases
}

pub fn oracle(op: Op) -> Option<Oracle> {
    Some(match op {
        Op::Sum => |x, attrs, to| folded(&x[0], attrs, &to[0], 0.0, |a, b| a + b),
        Op::Prod => |x, attrs, to| folded(&x[0], attrs, &to[0], 1.0, |a, b| a * b),
        Op::ReduceMax => |x, attrs, to| folded(&x[0], attrs, &to[0], f64::NEG_INFINITY, max),
        Op::ReduceMin => |x, attrs, to| folded(&x[0], attrs, &to[0], f64::INFINITY, min),
        Op::Any => |x, attrs, to| folded(&x[0], attrs, &to[0], 0.0, f64::max),
        Op::All => |x, attrs, to| folded(&x[0], attrs, &to[0], 1.0, f64::min),
        Op::ArgMax => |x, attrs, to| vec![argument(&x[0], attrs, &to[0], |a, b| a > b)],
        Op::ArgMin => |x, attrs, to| vec![argument(&x[0], attrs, &to[0], |a, b| a < b)],
        Op::CumSum => |x, attrs, to| running(&x[0], attrs, &to[0], 0.0, |a, b| a + b),
        Op::CumProd => |x, attrs, to| running(&x[0], attrs, &to[0], 1.0, |a, b| a * b),
        Op::CumMax => |x, attrs, to| running(&x[0], attrs, &to[0], f64::NEG_INFINITY, max),
        Op::TopK => |x, attrs, to| {
            let [axis, _, largest] = attrs else { unreachable!() };
            let (x, axis, largest) = (&x[0], axis.int() as usize, largest.bool());
            let place = |at: &Vec<i64>| {
                let comes_at = |i: i64| rank(x, at, axis, i, largest) == at[axis];
                (0..x.ty.sizes[axis]).find(|&i| comes_at(i)).expect("one is at each place")
            };
            let value = |at: &Vec<i64>| element(x, at, axis, place(at));
            vec![of_coordinates(&to[0], value), of_coordinates(&to[1], |at| place(at) as f64)]
        },
        _ => return None,
    })
}

fn of_coordinates(ty: &Ty, element: impl Fn(&Vec<i64>) -> f64) -> Array {
    let numbers: Vec<f64> = coordinates(&ty.sizes).iter().map(element).collect();
    Array::from_f64(ty.dtype, &ty.sizes, &numbers)
}

/// The number at a coordinate, at place `i` along an axis.
fn element(x: &Array, at: &[i64], axis: usize, i: i64) -> f64 {
    let mut at = at.to_vec();
    at[axis] = i;
    x.f64(flat(&x.ty.sizes, &at))
}

fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b <= a { a } else { b }
}

fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b >= a { a } else { b }
}

/// Folds the elements of `x` into the coordinate they have without the axes.
fn folded(x: &Array, attrs: &[Attr], to: &Ty, start: f64, f: fn(f64, f64) -> f64) -> Vec<Array> {
    let axes = attrs[0].ints();
    let kept: Vec<usize> = (0..x.ty.rank()).filter(|&d| !axes.contains(&(d as i64))).collect();
    let mut numbers = vec![start; to.numel() as usize];
    for (i, at) in coordinates(&x.ty.sizes).iter().enumerate() {
        let target: Vec<i64> = kept.iter().map(|&d| at[d]).collect();
        let number = &mut numbers[flat(&to.sizes, &target)];
        *number = f(*number, x.f64(i));
    }
    vec![Array::from_f64(to.dtype, &to.sizes, &numbers)]
}

/// Folds the elements up to each along the axis.
fn running(x: &Array, attrs: &[Attr], to: &Ty, start: f64, f: fn(f64, f64) -> f64) -> Vec<Array> {
    let axis = attrs[0].int() as usize;
    let up_to = |at: &Vec<i64>| (0..=at[axis]).map(|i| element(x, at, axis, i)).fold(start, f);
    vec![of_coordinates(to, up_to)]
}

/// The first place along the axis that no other is better than; no number is better than any.
fn argument(x: &Array, attrs: &[Attr], to: &Ty, better: fn(f64, f64) -> bool) -> Array {
    let axis = attrs[0].int() as usize;
    of_coordinates(to, |at| {
        let mut at = at.clone();
        at.insert(axis, 0);
        let line: Vec<f64> = (0..x.ty.sizes[axis]).map(|i| element(x, &at, axis, i)).collect();
        let beats = |a: f64, b: f64| better(a, b) || a.is_nan() && !b.is_nan();
        let best = line.iter().position(|&b| !line.iter().any(|&a| beats(a, b)));
        best.expect("one is the best") as f64
    })
}

/// How many come before element `i` of a sorted line; NaN is the largest, and the first of equals comes first.
fn rank(x: &Array, at: &[i64], axis: usize, i: i64, largest: bool) -> i64 {
    let mine = element(x, at, axis, i);
    let comes_before = |&j: &i64| {
        let theirs = element(x, at, axis, j);
        let (low, high) = if largest { (mine, theirs) } else { (theirs, mine) };
        let equal = theirs == mine || theirs.is_nan() && mine.is_nan();
        low < high || high.is_nan() && !low.is_nan() || equal && j < i
    };
    (0..x.ty.sizes[axis]).filter(comes_before).count() as i64
}

/// What runs along an axis.
const RUNNING: [Op; 3] = [Op::CumSum, Op::CumProd, Op::CumMax];

const FOLDS: [Op; 6] = [Op::Sum, Op::Prod, Op::ReduceMax, Op::ReduceMin, Op::Any, Op::All];

/// The cases of a reduction that is defined on the operand: with a bound for every number it adds up, else exact.
fn fold(op: Op, x: Operand, axes: &[i64], engines: u8) -> Option<Case> {
    let along_one = op.row().attrs == ["axis"];
    let attr = if along_one { Attr::Int(axes[0]) } else { ints(axes) };
    op.infer(&[&x.ty], std::slice::from_ref(&attr)).ok()?;
    let adds = x.ty.dtype.is_float() && matches!(op, Op::Sum | Op::Prod | Op::CumSum | Op::CumProd);
    let is_special = matches!(x.fill, Fill::Numbers { special: true });
    let terms: i64 = axes.iter().map(|&axis| x.ty.sizes[axis as usize]).product();
    let [cpu, cuda] = match op {
        _ if !adds => [Bound::Equal, Bound::Equal],
        _ if is_special => [Bound::Infinities, Bound::Infinities],
        Op::Prod | Op::CumProd => [Bound::Terms(terms as f64 + 2.0), Bound::Terms(128.0)],
        Op::CumSum => [Bound::Terms(8.0), Bound::Terms(128.0)],
        _ => [Bound::Terms(40.0), Bound::Terms(128.0)],
    };
    let case = case(op, [attr], [x]).on(engines, Bound::Bits, cpu);
    Some(Case { cuda: case.cuda.map(|_| cuda), ..case })
}

/// The same, of x + x in the same kernel.
fn doubled(case: Option<Case>) -> Option<Case> {
    case.filter(|case| case.operands[0].ty.dtype != DType::Bool)
        .map(|case| Case { prologue: true, ..case })
}

/// Of small integers, which are exact in every dtype.
fn exact_folds() -> Vec<Case> {
    let axes: [&[i64]; 6] = [&[], &[0], &[1], &[2], &[0, 2], &[0, 1, 2]];
    let sizes = [3, 1, 2];
    let mut cases = Vec::new();
    for (dtype, axes) in number_types().flat_map(|d| axes.map(|a| (d, a))) {
        for op in [Op::Sum, Op::ReduceMax, Op::ReduceMin] {
            cases.extend(fold(op, small(dtype, &sizes), axes, HOST));
        }
        let x = Operand::new(dtype, &sizes, Fill::Below(3));
        cases.extend(fold(Op::Prod, x, axes, HOST));
    }
    for (op, axes) in FOLDS.into_iter().flat_map(|op| axes.map(|a| (op, a))) {
        let x = Operand::new(DType::Bool, &sizes, Fill::Below(2));
        cases.extend(fold(op, x, axes, HOST));
    }
    for (dtype, axis) in number_types().flat_map(|d| (0..3).map(move |a| (d, a))) {
        for op in [Op::ArgMax, Op::ArgMin, Op::CumSum, Op::CumMax] {
            cases.extend(fold(op, small(dtype, &[3, 4, 2]), &[axis], HOST));
        }
        let x = Operand::new(dtype, &[3, 4, 2], Fill::Below(3));
        cases.extend(fold(Op::CumProd, x, &[axis], HOST));
    }
    cases
}

fn edges() -> Vec<Case> {
    let nan = f64::NAN;
    let rows = [1.0, 3.0, 3.0, 1.0, 5.0, nan, 7.0, nan, -0.0, 0.0, -0.0, 0.0];
    let mut cases = Vec::new();
    for op in [Op::ReduceMax, Op::ReduceMin, Op::ArgMax, Op::ArgMin] {
        cases.extend(fold(op, exactly(DType::F32, &[3, 4], rows), &[1], HOST));
    }
    let low = || exactly(DType::F32, &[1], [f64::NEG_INFINITY]);
    cases.extend(fold(Op::ReduceMax, low(), &[0], HOST));
    // Integers wrap.
    cases.extend(fold(Op::CumMax, exactly(DType::F32, &[3, 4], rows), &[1], HOST));
    for op in [Op::Sum, Op::CumSum, Op::CumProd] {
        let x = exactly(DType::I8, &[3], [100.0, 100.0, 1.0]);
        cases.extend(fold(op, x, &[0], HOST));
    }
    // Adding them one by one in bf16 would stop at 256.
    let ones = exactly(DType::BF16, &[4096], [1.0; 4096]);
    cases.extend(fold(Op::Sum, ones, &[0], HOST));
    cases
}

/// Over any axes of any layout.
fn folds() -> Vec<Case> {
    let shapes: [(&[i64], &[&[i64]]); 7] = [
        (&[], &[&[]]),
        (&[7], &[&[], &[0]]),
        (&[5, 9], &[&[0], &[1], &[0, 1], &[]]),
        (&[3, 4, 5], &[&[0], &[1], &[2], &[0, 2], &[0, 1], &[1, 2], &[0, 1, 2]]),
        (&[2, 3, 1, 4, 5], &[&[1, 3], &[0, 2, 4], &[4], &[0]]),
        (&[4, 0], &[&[0], &[1], &[0, 1]]),
        (&[0, 4], &[&[0], &[1]]),
    ];
    let dtypes = [DType::F32, DType::BF16, DType::F64, DType::I32, DType::U8, DType::Bool];
    let mut cases = Vec::new();
    for (sizes, axes) in shapes.iter().flat_map(|(s, all)| all.iter().map(move |a| (*s, *a))) {
        for (lay, op) in LAYS.into_iter().flat_map(|lay| FOLDS.map(|op| (lay, op))) {
            for dtype in dtypes {
                let case = || fold(op, values(dtype, sizes).lay(lay), axes, CPU);
                cases.extend(case().into_iter().chain(doubled(case())));
            }
        }
    }
    // On the device, where few texts are compiled: of every type, then of every layout.
    for (op, dtype) in FOLDS.into_iter().flat_map(|op| {
        let dtypes =
            [DType::Bool, DType::U8, DType::I32, DType::I64, DType::BF16, DType::F32, DType::F64];
        dtypes.map(|dtype| (op, dtype))
    }) {
        let line = fold(op, values(dtype, &[37]), &[0], CPU | CUDA_ALL);
        let is_bool = dtype == DType::Bool;
        cases.extend(if is_bool { line } else { doubled(line) });
        for axis in 0..2 {
            cases.extend(fold(op, values(dtype, &[6, 35]), &[axis], CPU | CUDA_ALL));
        }
    }
    let shapes: [(&[i64], &[i64]); 7] = [
        (&[3, 4, 5, 6], &[1]),
        (&[3, 4, 5, 6], &[0, 2]),
        (&[3, 4, 5, 6], &[1, 3]),
        (&[3, 4, 5, 6], &[0, 1, 2, 3]),
        (&[9, 64], &[0]),
        (&[4, 0, 3], &[1]),
        (&[0, 3], &[1]),
    ];
    for ((sizes, axes), lay) in shapes.into_iter().flat_map(|s| LAYS.map(|lay| (s, lay))) {
        for op in [Op::Sum, Op::ReduceMax] {
            let x = values(DType::F32, sizes).lay(lay);
            cases.extend(doubled(fold(op, x, axes, CPU | CUDA)));
        }
    }
    cases
}

/// Rows and columns that are cut into blocks.
fn long_folds() -> Vec<Case> {
    let shapes: [(&[i64], &[i64]); 7] = [
        (&[2, 70_001], &[1]),
        (&[3001, 37], &[0]),
        (&[37, 1500], &[0]),
        (&[200_003], &[0]),
        (&[300, 7, 4, 4], &[0, 2, 3]),
        (&[5, 3, 2500], &[0, 2]),
        (&[3, 6, 2, 5, 30], &[0, 2, 4]),
    ];
    let mut cases = Vec::new();
    for (sizes, axes) in shapes {
        for dtype in [DType::F32, DType::F64, DType::I64] {
            for op in [Op::Sum, Op::ReduceMax] {
                let case = || fold(op, values(dtype, sizes), axes, CPU);
                cases.extend(case().into_iter().chain(doubled(case())));
            }
        }
    }
    for (sizes, axes) in [([2, 70_001], [1]), ([9001, 8], [0])] {
        for lay in LAYS {
            let x = values(DType::F32, &sizes).lay(lay);
            cases.extend(fold(Op::Sum, x, &axes, CPU | CUDA));
        }
    }
    // Sums of columns as they lie.
    for sizes in [[1, 5000], [17, 1025], [3000, 130], [75, 4100]] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let case = || fold(Op::Sum, values(dtype, &sizes), &[0], CPU);
            cases.extend(case().into_iter().chain(doubled(case())));
        }
    }
    cases
}

/// With what is no number or infinite among them.
fn odd_numbers() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in [Op::Sum, Op::Prod, Op::ReduceMax, Op::ReduceMin] {
        for (dtype, axis) in FLOATS.into_iter().flat_map(|d| [0, 1].map(|axis| (d, axis))) {
            let case = || fold(op, special(dtype, &[41, 43]), &[axis], CPU);
            cases.extend(case().into_iter().chain(doubled(case())));
        }
    }
    for op in [Op::ReduceMax, Op::ReduceMin, Op::ArgMax, Op::ArgMin] {
        for dtype in [DType::F32, DType::BF16, DType::I32, DType::U8] {
            let shapes: [(&[i64], i64); 3] = [(&[300], 0), (&[40, 6], 0), (&[6, 40], 1)];
            for (sizes, axis) in shapes {
                cases.extend(fold(op, special(dtype, sizes), &[axis], CPU | CUDA));
            }
        }
    }
    cases
}

fn along_an_axis() -> Vec<Case> {
    let mut cases = Vec::new();
    let shapes: [&[i64]; 4] = [&[9], &[5, 7], &[3, 4, 5], &[2, 700]];
    for (dtype, sizes) in number_types().flat_map(|d| shapes.map(|sizes| (d, sizes))) {
        for axis in 0..sizes.len() as i64 {
            for op in [Op::ArgMax, Op::ArgMin] {
                cases.extend(fold(op, special(dtype, sizes), &[axis], CPU));
            }
            let sums = case(Op::CumSum, [Attr::Int(axis)], [values(dtype, sizes)]);
            cases.push(sums.on(CPU, Bound::Bits, Bound::Steps(4.0)));
            cases.extend(fold(Op::CumMax, special(dtype, sizes), &[axis], CPU));
        }
    }
    for op in [Op::ArgMax, Op::ArgMin].into_iter().chain(RUNNING) {
        for dtype in [DType::F32, DType::I32, DType::F64] {
            for axis in [0, 1] {
                let x = values(dtype, &[11, 13]).lay(Lay::Reversed);
                cases.extend(doubled(fold(op, x, &[axis], CPU)));
            }
        }
    }
    let shapes: [(&[i64], i64); 4] = [(&[1], 0), (&[2500], 0), (&[3, 70, 4], 1), (&[5, 9], 0)];
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8] {
        for ((sizes, axis), lay) in
            shapes.into_iter().flat_map(|s| [Lay::Dense, Lay::Reversed].map(|lay| (s, lay)))
        {
            let case = fold(Op::CumSum, values(dtype, sizes).lay(lay), &[axis], CPU | CUDA);
            cases.extend(if sizes.len() > 1 { doubled(case) } else { case });
            // Longer ones have fewer and fewer digits.
            if sizes[axis as usize] <= 70 {
                let products = divided(dtype, sizes, 2.0).lay(lay);
                cases.extend(fold(Op::CumProd, products, &[axis], CPU | CUDA));
            }
            let largest = special(dtype, sizes).lay(lay);
            cases.extend(fold(Op::CumMax, largest, &[axis], CPU | CUDA));
        }
    }
    cases
}

fn sorting() -> Vec<Case> {
    let sort = |x: Operand, axis: usize, k: i64, largest: bool, engines: u8| {
        let attrs = [Attr::Int(axis as i64), Attr::Int(k), Attr::Bool(largest)];
        case(Op::TopK, attrs, [x]).exactly_on(engines)
    };
    let mut cases = Vec::new();
    for dtype in FLOATS.into_iter().chain(INTS) {
        let shapes: [&[i64]; 4] = [&[7], &[300], &[4, 9], &[3, 40, 5]];
        for (sizes, axis) in shapes.into_iter().flat_map(|s| (0..s.len()).map(move |a| (s, a))) {
            for (k, largest) in
                [1, sizes[axis] / 2, sizes[axis]].into_iter().flat_map(|k| [(k, false), (k, true)])
            {
                cases.push(sort(values(dtype, sizes), axis, k, largest, CPU));
            }
        }
        let sizes = [3, 5, 2];
        for axis in 0..3 {
            let count = sizes[axis];
            for (k, largest) in [(0, true), (1, false), (2, true), (count, false), (count, true)] {
                cases.push(sort(small(dtype, &sizes), axis, k, largest, HOST));
            }
        }
    }
    // Zeros are equal.
    let nan = f64::NAN;
    for largest in [false, true] {
        let x = exactly(DType::F32, &[6], [0.0, nan, -0.0, 3.0, nan, -1.0]);
        cases.push(sort(x, 0, 6, largest, HOST));
    }
    cases
}

fn gradients() -> Vec<Case> {
    let x = || smooth(&[2, 3, 4]);
    let zeros = |sizes: &[i64], list: &[f64]| exactly(DType::F64, sizes, list);
    let matrix = [0.7, 0.0, 1.3, 1.9, 0.5, 0.0, 0.8, 1.1, 1.6];
    let mut cases = Vec::new();
    for (op, x, axes, gradient) in [
        (Op::Sum, x(), &[0, 2][..], Gradient::Twice),
        (Op::Sum, smooth(&[2, 0]), &[1], Gradient::Twice),
        (Op::Prod, x(), &[1], Gradient::Twice),
        (Op::Prod, zeros(&[3, 3], &matrix), &[1], Gradient::Once),
        (Op::Prod, zeros(&[4], &[0.9, 0.0, 1.4, 0.0]), &[0], Gradient::Once),
        (Op::ReduceMax, x(), &[1, 2], Gradient::Twice),
        (Op::ReduceMin, x(), &[0], Gradient::Twice),
        (Op::CumSum, x(), &[1], Gradient::Twice),
        (Op::CumSum, smooth(&[0, 2]), &[0], Gradient::Twice),
        (Op::CumProd, x(), &[1], Gradient::Twice),
        (Op::CumProd, smooth(&[0, 2]), &[0], Gradient::Twice),
        (Op::CumProd, zeros(&[3, 3], &matrix), &[1], Gradient::Once),
        (Op::CumProd, zeros(&[6], &[0.9, 0.0, 1.4, 1.2, 0.0, 0.7]), &[0], Gradient::Once),
        (Op::CumMax, x(), &[1], Gradient::Twice),
    ] {
        let case = fold(op, x, axes, CPU).expect("it is defined");
        cases.push(case.differentiated(gradient));
    }
    let attrs = [Attr::Int(1), Attr::Int(2), Attr::Bool(true)];
    let sorted = case(Op::TopK, attrs, [x()]).exactly_on(HOST);
    cases.push(sorted.differentiated(Gradient::Twice));
    cases
}
