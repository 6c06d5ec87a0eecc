//! Reading and writing where indices say, and what goes along an axis.

use super::data::{FLOATS, coordinates, flat, moved, number_types};
use super::*;
use crate::op::index::Reduction;

pub fn cases() -> Vec<Case> {
    let mut cases = reads();
    cases.extend(distinct_writes());
    cases.extend(sums());
    cases.extend(updates());
    cases.extend(many_rows());
    cases.extend(in_place());
    cases.extend(out_of_range());
    cases.extend(gradients());
    cases
}

pub fn oracle(op: Op) -> Option<Oracle> {
    Some(match op {
        Op::Take => |x, attrs, to| {
            let [x, index] = x else { unreachable!() };
            let (axis, rank) = (attrs[0].int() as usize, index.ty.rank());
            let source = |at: &[i64]| {
                let row = index.i64(flat(&index.ty.sizes, &at[axis..axis + rank]));
                [&at[..axis], &[row], &at[axis + rank..]].concat()
            };
            vec![moved(x, &to[0].sizes, source)]
        },
        Op::Gather => |x, attrs, to| {
            let [x, index] = x else { unreachable!() };
            let axis = attrs[0].int() as usize;
            vec![moved(x, &to[0].sizes, |at| named(index, axis, at))]
        },
        Op::Scatter => |x, attrs, _| {
            let [base, index, source] = x else { unreachable!() };
            let axis = attrs[0].int() as usize;
            let target = |at: &[i64]| named(index, axis, at);
            vec![scattered(base, index, source, target, Reduction::of(attrs))]
        },
        Op::IndexAdd => |x, attrs, _| {
            let [base, index, source] = x else { unreachable!() };
            let axis = attrs[0].int() as usize;
            let target = |at: &[i64]| {
                let mut to = at.to_vec();
                to[axis] = index.i64(at[axis] as usize);
                to
            };
            vec![scattered(base, source, source, target, Reduction::Sum)]
        },
        _ => return None,
    })
}

/// The coordinate with the index that stands there in place of that along the axis.
fn named(index: &Array, axis: usize, at: &[i64]) -> Vec<i64> {
    let mut to = at.to_vec();
    to[axis] = index.i64(flat(&index.ty.sizes, at));
    to
}

/// `base` with the elements of `source`, at every coordinate of `over`, where `target` says.
fn scattered(
    base: &Array,
    over: &Array,
    source: &Array,
    target: impl Fn(&[i64]) -> Vec<i64>,
    how: Reduction,
) -> Array {
    let mut result = base.clone();
    for at in coordinates(&over.ty.sizes) {
        let (to, from) = (flat(&base.ty.sizes, &target(&at)), flat(&source.ty.sizes, &at));
        if how == Reduction::Last {
            result.set_raw(to, source.raw(from));
            continue;
        }
        let (before, new) = (result.f64(to), source.f64(from));
        result.set_f64(
            to,
            match how {
                Reduction::Last | Reduction::Sum => before + new,
                Reduction::Product => before * new,
                Reduction::Max => before.max(new),
                Reduction::Min => before.min(new),
            },
        );
    }
    result
}

fn bytes(dtype: DType, sizes: &[i64]) -> Operand {
    Operand::new(dtype, sizes, Fill::Bytes)
}

fn below(dtype: DType, sizes: &[i64], bound: i64) -> Operand {
    Operand::new(dtype, sizes, Fill::Below(bound))
}

const INDICES: [DType; 2] = [DType::I32, DType::I64];

fn axis(axis: usize) -> Attr {
    Attr::Int(axis as i64)
}

/// Take and gather, of every type.
fn reads() -> Vec<Case> {
    // Sizes of what is read and of the indices.
    let all: [(&[i64], &[i64], u8); 10] = [
        (&[5], &[3], ALL),
        (&[3, 2, 4], &[2, 3], HOST),
        (&[3, 2, 4], &[4], HOST),
        (&[3, 2, 4], &[], HOST),
        (&[3, 2, 4], &[0, 2], HOST),
        (&[4, 6], &[2, 3], ALL),
        (&[30, 41], &[700], CPU),
        (&[3, 4, 5], &[7], HOST),
        (&[3, 4, 8], &[7], ALL),
        (&[2, 3], &[0], ALL),
    ];
    let mut cases = Vec::new();
    for (dtype, index) in DType::all().flat_map(|d| INDICES.map(|i| (d, i))) {
        let is_one_of_all = matches!(dtype, DType::F32 | DType::BF16 | DType::U8 | DType::C128);
        let on_device = |engines: u8| if is_one_of_all { engines } else { engines & HOST };
        for (sizes, picked, engines) in all {
            for n in 0..sizes.len() {
                let engines = on_device(engines);
                let operands = [bytes(dtype, sizes), below(index, picked, sizes[n])];
                let device = if index == DType::I64 { engines } else { engines & HOST };
                cases.push(case(Op::Take, [axis(n)], operands).exactly_on(device));
                let mut within: Vec<i64> = sizes.iter().map(|s| 1 + s / 2).collect();
                within[n] = 7;
                let operands = [bytes(dtype, sizes), below(index, &within, sizes[n])];
                let device = if index == DType::I32 { engines } else { engines & HOST };
                cases.push(case(Op::Gather, [axis(n)], operands).exactly_on(device));
            }
        }
        for n in 0..2 {
            let sizes = [3, 4];
            let operands = [bytes(dtype, &sizes), below(index, &[2, 3], sizes[n])];
            cases.push(case(Op::Gather, [axis(n)], operands).exactly_on(HOST));
        }
    }
    // Nothing is asked of an empty dimension, unless an index names it.
    let operands = [bytes(DType::F32, &[0, 3]), below(DType::I64, &[0], 1)];
    cases.push(case(Op::Take, [axis(0)], operands).exactly_on(HOST));
    cases
}

/// Scatters of every type.
fn distinct_writes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, index) in DType::all().flat_map(|d| INDICES.map(|i| (d, i))) {
        for n in 0..2 {
            let sizes = [3, 4];
            let at = below(index, &[2, 3], sizes[n]);
            let operands = [bytes(dtype, &sizes), at, bytes(dtype, &[2, 3])];
            let attrs = [axis(n), Reduction::Last.attr()];
            cases.push(case(Op::Scatter, attrs, operands).exactly_on(HOST));
        }
    }
    cases
}

/// Several numbers to one place, of such that their sums are exact.
fn sums() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, index) in number_types().flat_map(|d| INDICES.map(|i| (d, i))) {
        for n in 0..2 {
            let sizes = [3, 2];
            let mut along = sizes;
            along[n] = 5;
            let operands =
                [small(dtype, &sizes), below(index, &[5], sizes[n]), small(dtype, &along)];
            cases.push(case(Op::IndexAdd, [axis(n)], operands).exactly_on(HOST));
            for how in [Reduction::Sum, Reduction::Max, Reduction::Min] {
                let at = below(index, &along, sizes[n]);
                let operands = [small(dtype, &sizes), at, small(dtype, &along)];
                let attrs = [axis(n), how.attr()];
                cases.push(case(Op::Scatter, attrs, operands).exactly_on(HOST));
            }
        }
    }
    cases
}

/// Of any numbers, into all sizes; on the device in place, too.
fn updates() -> Vec<Case> {
    // Sizes of the base, and how many meet along an axis.
    let all: [(&[i64], i64, u8); 7] = [
        (&[5], 9, CPU | CUDA_ALL),
        (&[4, 6], 3, CPU),
        (&[3, 4, 5], 11, CPU | CUDA_ALL),
        (&[50, 70], 200, CPU),
        (&[50, 300], 200, CUDA_ALL),
        (&[2, 5], 700, CPU | CUDA_ALL),
        (&[3, 2], 0, CPU | CUDA_ALL),
    ];
    let mut cases = Vec::new();
    let everywhere = number_types().flat_map(|dtype| all.map(|sizes| (dtype, sizes)));
    for (dtype, (sizes, count, engines)) in everywhere {
        let on_device = FLOATS.contains(&dtype) || matches!(dtype, DType::U8 | DType::I64);
        for n in 0..sizes.len() {
            let mut along = sizes.to_vec();
            along[n] = count;
            let mut add = |op, attrs: Vec<Attr>, index: DType, of: &[i64], engines: u8| {
                let cuda = if on_device { engines & CUDA_ALL } else { 0 };
                for (in_place, engines, steps) in
                    [(false, engines & CPU, 4.0), (false, cuda, 16.0), (true, cuda, 16.0)]
                {
                    let index = below(index, of, sizes[n]);
                    let operands = [values(dtype, sizes), index, values(dtype, &along)];
                    let case = case(op, attrs.clone(), operands);
                    let case = Case { in_place, ..case };
                    cases.push(case.on(engines, Bound::Bits, Bound::Steps(steps)));
                }
            };
            add(Op::IndexAdd, vec![axis(n)], DType::I64, &[count], engines);
            for how in Reduction::ALL {
                let attrs = || vec![axis(n), how.attr()];
                add(Op::Scatter, attrs(), DType::I64, &along, engines & CPU);
                if sizes.len() == 3 || matches!(how, Reduction::Last | Reduction::Sum) {
                    add(Op::Scatter, attrs(), DType::I32, &along, engines & CUDA_ALL);
                }
            }
        }
    }
    cases
}

/// Of so many rows that several tasks share them, and the last has fewer.
fn many_rows() -> Vec<Case> {
    let mut cases = Vec::new();
    let sizes = [71, 40, 21];
    for (n, of) in [(1, [71, 37, 21]), (2, [71, 40, 3]), (2, [71, 39, 21])] {
        let at = || below(DType::I64, &of, sizes[n]);
        let gather = case(Op::Gather, [axis(n)], [bytes(DType::F32, &sizes), at()]);
        cases.push(gather.exactly_on(HOST));
        for how in [Reduction::Last, Reduction::Sum] {
            let operands = [values(DType::F32, &sizes), at(), values(DType::F32, &of)];
            let case = case(Op::Scatter, [axis(n), how.attr()], operands);
            cases.push(case.on(CPU, Bound::Bits, Bound::Steps(4.0)));
        }
    }
    cases
}

/// Updates of a base in its place.
fn in_place() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::I32] {
        let (base, x) = (|| values(dtype, &[40, 30]), || values(dtype, &[70, 30]));
        let rows = below(DType::I64, &[70], 40);
        let at = below(DType::I64, &[70, 30], 40);
        let part = values(dtype, &[3, 5]);
        let strided = [ints(&[3, 5]), ints(&[60, 2]), Attr::Int(7)];
        let set = [axis(0), Reduction::Last.attr()];
        for case in [
            case(Op::IndexAdd, [axis(0)], [base(), rows, x()]),
            case(Op::Scatter, set, [base(), at, x()]),
            case(Op::AsStridedScatter, strided, [base(), part]),
        ] {
            let case = Case { in_place: true, ..case };
            cases.push(case.on(CPU, Bound::Bits, Bound::Steps(4.0)));
        }
    }
    cases
}

fn out_of_range() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |case: Case, engines, in_place, message: &str| {
        let bound = Bound::Fails(Code::IndexError, message.into());
        cases.push(Case { in_place, ..case }.on(engines, bound.clone(), bound));
    };
    let of = |bad: i64| format!("index {bad} is out of bounds for dimension 0 with size 4");
    for bad in [-1, 4, 7] {
        let (reads, in_self) = (of(bad), format!("index out of range in self: {}", of(bad)));
        let list = [0.0, 3.0, 1.0, bad as f64];
        let at = || exactly(DType::I64, &[4], list);
        let column = || exactly(DType::I64, &[4, 1], list);
        let x = || values(DType::F32, &[4, 3]);
        let engines = if bad == -1 { ALL } else { HOST };
        add(case(Op::Take, [axis(0)], [x(), at()]), engines, false, &in_self);
        add(case(Op::Gather, [axis(0)], [x(), column()]), engines, false, &reads);
        for (in_place, engines) in [(false, engines), (true, CPU | CUDA)] {
            let operands = [x(), at(), x()];
            add(case(Op::IndexAdd, [axis(0)], operands), engines, in_place, &in_self);
            for how in [Reduction::Last, Reduction::Sum] {
                let attrs = [axis(0), how.attr()];
                let operands = [x(), column(), values(DType::F32, &[4, 1])];
                add(case(Op::Scatter, attrs, operands), engines, in_place, &reads);
            }
        }
        // Of one dimension.
        let (x, at) =
            (|n| values(DType::F32, &[n]), || exactly(DType::I64, &[2], [0.0, bad as f64]));
        add(case(Op::Take, [axis(0)], [x(4), at()]), HOST, false, &in_self);
        add(case(Op::Gather, [axis(0)], [x(4), at()]), HOST, false, &reads);
        add(case(Op::IndexAdd, [axis(0)], [x(4), at(), x(2)]), HOST, false, &in_self);
        let attrs = [axis(0), Reduction::Sum.attr()];
        add(case(Op::Scatter, attrs, [x(4), at(), x(2)]), HOST, false, &reads);
    }
    let operands = [bytes(DType::F32, &[0, 3]), exactly(DType::I64, &[1], [0.0])];
    let message =
        "index out of range in self: index 0 is out of bounds for dimension 0 with size 0";
    add(case(Op::Take, [axis(0)], operands), HOST, false, message);
    cases
}

fn gradients() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |op, attrs: Vec<Attr>, operands: Vec<Operand>| {
        let case = case(op, attrs, operands).on(CPU, Bound::Bits, Bound::Steps(4.0));
        cases.push(case.differentiated(Gradient::Twice));
    };
    let at = |sizes: &[i64], bound| below(DType::I64, sizes, bound);
    add(Op::Take, vec![axis(1)], vec![smooth(&[2, 4, 2]), at(&[3, 2], 4)]);
    add(Op::Take, vec![axis(0)], vec![smooth(&[4, 2]), at(&[0], 4)]);
    add(Op::IndexAdd, vec![axis(1)], vec![smooth(&[2, 3]), at(&[5], 3), smooth(&[2, 5])]);
    add(Op::Gather, vec![axis(1)], vec![smooth(&[3, 4]), at(&[2, 5], 4)]);
    add(Op::Gather, vec![axis(1)], vec![smooth(&[3, 4]), at(&[3, 1], 4)]);
    let distinct = || exactly(DType::I64, &[4, 2], [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    for how in Reduction::ALL {
        let index = if how == Reduction::Last { distinct() } else { at(&[4, 2], 5) };
        let operands = vec![smooth(&[5, 2]), index, smooth(&[4, 2])];
        add(Op::Scatter, vec![axis(0), how.attr()], operands);
    }
    cases
}
