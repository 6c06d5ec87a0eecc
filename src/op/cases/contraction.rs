//! Matrix products, also of groups.

use super::data::{FLOATS, LAYS, coordinates, flat, number_types};
use super::*;

pub fn cases() -> Vec<Case> {
    let mut cases = exact_products();
    cases.extend(products());
    cases.extend(large_products());
    cases.extend(infinite_terms());
    cases.extend(exact_groups());
    cases.extend(groups());
    cases.extend(gradients());
    cases
}

pub fn oracle(op: Op) -> Option<Oracle> {
    Some(match op {
        Op::Matmul => |x, _, to| {
            let [a, b] = x else { unreachable!() };
            let terms = a.ty.sizes[a.ty.rank() - 1];
            let element = |at: &Vec<i64>| {
                let (batch, last) = at.split_at(at.len() - 2);
                let term = |j: i64| {
                    let left = flat(&a.ty.sizes, &[batch, &[last[0], j]].concat());
                    let right = flat(&b.ty.sizes, &[batch, &[j, last[1]]].concat());
                    a.f64(left) * b.f64(right)
                };
                (0..terms).map(term).sum()
            };
            let numbers: Vec<f64> = coordinates(&to[0].sizes).iter().map(element).collect();
            vec![Array::from_f64(to[0].dtype, &to[0].sizes, &numbers)]
        },
        Op::GroupedMatmul => |x, _, to| {
            let [a, b, ends] = x else { unreachable!() };
            // Each row and each term is in the first group that ends after it.
            let group = |at: i64| (0..ends.len()).find(|&g| at < ends.i64(g));
            let number = |x: &Array, at: &[i64]| x.f64(flat(&x.ty.sizes, at));
            let of_rows = to[0].rank() == 2;
            let element = |at: &Vec<i64>| -> f64 {
                if of_rows {
                    let Some(g) = group(at[0]) else { return 0.0 };
                    let term = |j| number(a, &[at[0], j]) * number(b, &[g as i64, j, at[1]]);
                    return (0..a.ty.sizes[1]).map(term).sum();
                }
                let terms = (0..a.ty.sizes[1]).filter(|&j| group(j) == Some(at[0] as usize));
                terms.map(|j| number(a, &[at[1], j]) * number(b, &[j, at[2]])).sum()
            };
            let numbers: Vec<f64> = coordinates(&to[0].sizes).iter().map(element).collect();
            vec![Array::from_f64(to[0].dtype, &to[0].sizes, &numbers)]
        },
        _ => return None,
    })
}

/// Of small integers, which are exact in every dtype.
fn exact_products() -> Vec<Case> {
    let batches: [&[i64]; 4] = [&[], &[2], &[2, 0], &[3, 1]];
    let mut cases = Vec::new();
    for (dtype, batch) in number_types().flat_map(|d| batches.map(|batch| (d, batch))) {
        for [m, k, n] in [[2, 3, 4], [1, 1, 1], [2, 0, 2], [0, 2, 2], [2, 2, 0]] {
            let matrix = |a, b| small(dtype, &[batch, &[a, b]].concat());
            cases.push(case(Op::Matmul, [], [matrix(m, k), matrix(k, n)]).exactly_on(HOST));
        }
    }
    // They are accumulated in f32.
    let ones = |sizes: &[i64]| exactly(DType::BF16, sizes, [1.0; 4096]);
    let operands = [ones(&[1, 4096]), ones(&[4096, 1])];
    cases.push(case(Op::Matmul, [], operands).exactly_on(HOST));
    cases
}

/// A product with as many roundings as terms.
fn product([a, b]: [Operand; 2], engines: u8) -> Case {
    let terms = a.ty.sizes[a.ty.rank() - 1] as f64;
    case(Op::Matmul, [], [a, b]).on(engines, Bound::Bits, Bound::Steps(4.0 * (terms + 2.0)))
}

/// Of any layout.
fn products() -> Vec<Case> {
    let shapes = [
        (1, 1, 1, 1),
        (2, 3, 5, 7),
        (1, 17, 64, 33),
        (3, 1, 40, 9),
        (1, 0, 3, 4),
        (2, 3, 0, 4),
        (1, 70, 600, 90),
    ];
    let mut cases = Vec::new();
    for (dtype, (b, m, k, n)) in number_types().flat_map(|d| shapes.map(|shape| (d, shape))) {
        let lays = if m * n * k > 9999 { &LAYS[..2] } else { &LAYS[..] };
        for (i, &lay) in lays.iter().enumerate() {
            let other = lays[(i + 1) % lays.len()];
            let operands =
                [values(dtype, &[b, m, k]).lay(lay), values(dtype, &[b, k, n]).lay(other)];
            cases.push(product(operands, CPU));
        }
    }
    cases
}

fn large_products() -> Vec<Case> {
    let matrix = |a, b| values(DType::F32, &[a, b]);
    let mut cases = vec![product([matrix(300, 200), matrix(200, 250)], CPU)];
    cases[0].cpu = Some(Bound::Steps(400.0));
    // Operands whose terms lie so far apart that they are copied, in more than one piece.
    for (m, n) in [(1100, 2), (2, 1100), (1030, 20)] {
        cases.push(product([matrix(m, 400).lay(Lay::Reversed), matrix(400, n)], CPU));
    }
    cases
}

/// They stay infinite.
fn infinite_terms() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, k) in FLOATS.into_iter().flat_map(|d| [1, 2, 3, 8, 33].map(|k| (d, k))) {
        for operand in 0..2 {
            // Sums of ones are exact.
            let mut lists = [vec![1.0; 3 * k], vec![1.0; k * 17]];
            *lists[operand].last_mut().unwrap() = f64::NEG_INFINITY;
            let [a, b] = lists;
            let k = k as i64;
            let operands = [exactly(dtype, &[3, k], a), exactly(dtype, &[k, 17], b)];
            cases.push(case(Op::Matmul, [], operands).exactly_on(HOST));
        }
    }
    cases
}

fn ends_of(dtype: DType, ends: &[i64]) -> Operand {
    let list: Vec<f64> = ends.iter().map(|&end| end as f64).collect();
    exactly(dtype, &[ends.len() as i64], list)
}

fn exact_groups() -> Vec<Case> {
    let all: [&[i64]; 5] = [&[1, 1, 5], &[2, 4, 7], &[9, 3, -2], &[0, 6, 2], &[]];
    let (m, k, n) = (7, 3, 2);
    let mut cases = Vec::new();
    for (dtype, ends) in FLOATS.into_iter().flat_map(|d| all.map(|ends| (d, ends))) {
        let groups = ends.len() as i64;
        let of_rows = [small(dtype, &[m, k]), small(dtype, &[groups, k, n])];
        let of_sums = [small(dtype, &[k, m]), small(dtype, &[m, n])];
        for operands in [of_rows, of_sums] {
            let operands = operands.into_iter().chain([ends_of(DType::I64, ends)]);
            cases.push(case(Op::GroupedMatmul, [], operands).exactly_on(HOST));
        }
    }
    cases
}

/// Products of rows and of sums, in several pieces and in none, dense and transposed.
fn groups() -> Vec<Case> {
    let all: [&[i64]; 4] = [&[70, 70, 80, 420], &[0, 5, 500, 500], &[420, 3, 3, 420], &[0; 4]];
    let mut cases = Vec::new();
    for (dtype, ends) in FLOATS.into_iter().flat_map(|d| all.map(|ends| (d, ends))) {
        for (index, [m, k, n]) in [(DType::I64, [420, 33, 37]), (DType::I32, [420, 5, 0])] {
            for (a, b) in [([m, k], vec![4, k, n]), ([k, m], vec![m, n])] {
                for lay in [Lay::Dense, Lay::Reversed] {
                    let operands = [values(dtype, &a).lay(lay), values(dtype, &b).lay(lay)];
                    let operands = operands.into_iter().chain([ends_of(index, ends)]);
                    let bound = Bound::Steps(4.0 * (a[1] as f64 + 2.0));
                    let case = case(Op::GroupedMatmul, [], operands);
                    cases.push(case.on(CPU | CUDA_ALL, Bound::Bits, bound));
                }
            }
        }
    }
    cases
}

fn gradients() -> Vec<Case> {
    let mut cases = Vec::new();
    for (a, b) in [(&[2, 3, 4][..], &[2, 4, 2][..]), (&[2, 0], &[0, 3])] {
        cases.push(product([smooth(a), smooth(b)], CPU));
    }
    // Of three groups: one, none and five of seven.
    for (a, b) in [(&[7, 3][..], &[3, 3, 2][..]), (&[2, 7], &[7, 3])] {
        let operands = [smooth(a), smooth(b), ends_of(DType::I64, &[1, 1, 6])];
        let case = case(Op::GroupedMatmul, [], operands);
        cases.push(case.on(CPU, Bound::Bits, Bound::Steps(40.0)));
    }
    cases.into_iter().map(|case| case.differentiated(Gradient::Twice)).collect()
}
