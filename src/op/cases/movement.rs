//! Movements of elements of every dtype.

use super::data::{coordinates, flat, moved};
use super::*;

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = DType::all().flat_map(of_any_dtype).collect();
    cases.extend(bitcasts());
    cases.extend(joined());
    cases.extend(gradients());
    cases
}

pub fn oracle(op: Op) -> Option<Oracle> {
    Some(match op {
        Op::Reshape | Op::Offload | Op::Reload => |x, _, to| vec![same_bytes(&x[0], &to[0])],
        Op::Bitcast => |x, _, to| {
            let [from, into] = [x[0].ty.dtype, to[0].dtype].map(|d| d.size() as i64);
            let last = x[0].ty.sizes.last().map(|n| n * from / into);
            assert_eq!(to[0].sizes.last().copied(), last);
            vec![same_bytes(&x[0], &to[0])]
        },
        Op::Transpose => |x, attrs, to| {
            let source = |at: &[i64]| {
                let mut from = vec![0; at.len()];
                attrs[0].ints().iter().zip(at).for_each(|(&p, &i)| from[p as usize] = i);
                from
            };
            vec![moved(&x[0], &to[0].sizes, source)]
        },
        Op::Broadcast => |x, _, to| {
            let sizes = &x[0].ty.sizes;
            let source = |at: &[i64]| {
                let last = &at[at.len() - sizes.len()..];
                last.iter().zip(sizes).map(|(&i, &n)| i.min(n - 1)).collect()
            };
            vec![moved(&x[0], &to[0].sizes, source)]
        },
        Op::Slice => |x, attrs, to| {
            let [starts, _, steps] = [0, 1, 2].map(|n| attrs[n].ints());
            let source = |at: &[i64]| (0..at.len()).map(|d| starts[d] + at[d] * steps[d]).collect();
            vec![moved(&x[0], &to[0].sizes, source)]
        },
        Op::AsStrided => |x, attrs, to| {
            let mut y = Array::zeros(&to[0]);
            let places = strided(attrs);
            places.into_iter().enumerate().for_each(|(i, place)| y.set_raw(i, x[0].raw(place)));
            vec![y]
        },
        Op::AsStridedScatter => |x, attrs, _| {
            let mut y = x[0].clone();
            let places = strided(attrs);
            places.into_iter().enumerate().for_each(|(i, place)| y.set_raw(place, x[1].raw(i)));
            vec![y]
        },
        Op::Concat => |x, attrs, to| {
            let (dim, mut y, mut start) = (attrs[0].int() as usize, Array::zeros(&to[0]), 0);
            for part in x {
                for (i, mut at) in coordinates(&part.ty.sizes).into_iter().enumerate() {
                    at[dim] += start;
                    y.set_raw(flat(&to[0].sizes, &at), part.raw(i));
                }
                start += part.ty.sizes[dim];
            }
            assert_eq!(to[0].sizes[dim], start);
            vec![y]
        },
        _ => return None,
    })
}

fn same_bytes(x: &Array, to: &Ty) -> Array {
    assert_eq!(to.nbytes(), x.bytes.len());
    Array { ty: to.clone(), bytes: x.bytes.clone() }
}

/// The places of a view's elements.
fn strided(attrs: &[Attr]) -> Vec<usize> {
    let (strides, offset) = (attrs[1].ints(), attrs[2].int());
    let place =
        |at: &Vec<i64>| (offset + at.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>()) as usize;
    coordinates(attrs[0].ints()).iter().map(place).collect()
}

fn bytes(dtype: DType, sizes: &[i64]) -> Operand {
    Operand::new(dtype, sizes, Fill::Bytes)
}

fn view(sizes: &[i64], strides: &[i64], offset: i64) -> Vec<Attr> {
    vec![ints(sizes), ints(strides), Attr::Int(offset)]
}

fn of_any_dtype(dtype: DType) -> Vec<Case> {
    let slice = |starts, sizes, steps| [starts, sizes, steps].map(ints).to_vec();
    let lists = |list| vec![ints(list)];
    let all: Vec<(Op, &[i64], Vec<Attr>)> = vec![
        (Op::Transpose, &[2, 1, 3], lists(&[0, 1, 2])),
        (Op::Transpose, &[2, 1, 3], lists(&[2, 0, 1])),
        (Op::Transpose, &[2, 1, 3], lists(&[1, 2, 0])),
        (Op::Transpose, &[2, 1, 3], lists(&[2, 1, 0])),
        (Op::Transpose, &[0, 4], lists(&[1, 0])),
        (Op::Transpose, &[], lists(&[])),
        (Op::Reshape, &[2, 1, 3], lists(&[6])),
        (Op::Reshape, &[2, 1, 3], lists(&[3, 2])),
        (Op::Reshape, &[2, 1, 3], lists(&[1, 6, 1])),
        (Op::Reshape, &[0, 4], lists(&[2, 0])),
        (Op::Broadcast, &[3, 1], lists(&[2, 3, 4])),
        (Op::Broadcast, &[3, 1], lists(&[3, 0])),
        (Op::Broadcast, &[], lists(&[2, 2])),
        (Op::Slice, &[5, 4], slice(&[1, 0], &[2, 4], &[3, 1])),
        (Op::Slice, &[5, 4], slice(&[4, 3], &[1, 1], &[i64::MAX, i64::MAX])),
        (Op::Slice, &[5, 4], slice(&[5, 2], &[0, 1], &[1, 1])),
        (Op::AsStrided, &[3, 4], view(&[2, 3], &[5, 2], 1)),
        // Overlapping; none.
        (Op::AsStrided, &[3, 4], view(&[3, 2], &[1, 1], 0)),
        (Op::AsStrided, &[3, 4], view(&[0, 9], &[100, 100], 100)),
        (Op::Offload, &[2, 3], vec![]),
        (Op::Reload, &[2, 3], vec![]),
    ];
    let of = |(op, sizes, attrs): (Op, &[i64], Vec<Attr>)| {
        case(op, attrs, [bytes(dtype, sizes)]).exactly_on(MEANING)
    };
    let mut cases: Vec<Case> = all.into_iter().map(of).collect();
    let operands = [bytes(dtype, &[3, 4]), bytes(dtype, &[2, 3])];
    cases.push(case(Op::AsStridedScatter, view(&[2, 3], &[5, 2], 1), operands).exactly_on(HOST));
    for dim in 0..2 {
        let part = |n: i64| {
            let mut sizes = [2, 3];
            sizes[dim] = n;
            bytes(dtype, &sizes)
        };
        let attrs = [Attr::Int(dim as i64)];
        cases.push(case(Op::Concat, attrs, [1, 0, 3].map(part)).exactly_on(HOST));
    }
    cases
}

fn bitcasts() -> Vec<Case> {
    let cast = |from: DType, to: DType, sizes: &[i64]| {
        case(Op::Bitcast, [Attr::DType(to)], [bytes(from, sizes)]).exactly_on(MEANING)
    };
    let mut cases = vec![cast(DType::I32, DType::F32, &[])];
    for (from, to) in DType::all().flat_map(|a| DType::all().map(move |b| (a, b))) {
        cases.push(cast(from, to, &[3, 16]));
        // And back.
        cases.push(cast(to, from, &[3, 16 * from.size() as i64 / to.size() as i64]));
    }
    cases
}

/// What the CPU has kernels for.
fn joined() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::C128, DType::U8] {
        let concat = |dim: usize, parts: [[i64; 2]; 3], lay: Lay| {
            let [first, rest @ ..] = parts.map(|sizes| values(dtype, &sizes));
            let parts = [first.lay(lay)].into_iter().chain(rest);
            case(Op::Concat, [Attr::Int(dim as i64)], parts).exactly_on(CPU)
        };
        for dim in 0..2 {
            let (mut a, mut b) = ([3, 4], [3, 4]);
            (a[dim], b[dim]) = (5, 0);
            cases.extend([Lay::Dense, Lay::Reversed].map(|lay| concat(dim, [[3, 4], a, b], lay)));
        }
        // Runs of bytes across the borders of tasks, and empty parts.
        cases.push(concat(0, [[0, 70], [401, 70], [3, 70]], Lay::Dense));
        cases.push(concat(1, [[600, 80], [600, 0], [600, 41]], Lay::Dense));
        for (sizes, strides, offset) in
            [([2, 3], [5, 1], 1), ([3, 2], [1, 7], 2), ([2, 2], [0, 1], 3)]
        {
            let operands = [values(dtype, &[4, 5]), values(dtype, &sizes)];
            let attrs = view(&sizes, &strides, offset);
            cases.push(case(Op::AsStridedScatter, attrs, operands).exactly_on(CPU));
        }
    }
    cases
}

fn gradients() -> Vec<Case> {
    let x = || vec![smooth(&[2, 3, 4])];
    let slice = |starts, sizes, steps| [starts, sizes, steps].map(ints).to_vec();
    let lists = |list| vec![ints(list)];
    let parts = vec![smooth(&[2, 3]), smooth(&[2, 0]), smooth(&[2, 1])];
    let all = vec![
        (Op::Reshape, lists(&[4, 6]), x()),
        (Op::Transpose, lists(&[2, 0, 1]), x()),
        (Op::Broadcast, lists(&[2, 3, 4]), vec![smooth(&[3, 1])]),
        (Op::Broadcast, lists(&[3]), vec![smooth(&[])]),
        (Op::Broadcast, lists(&[0]), vec![smooth(&[1])]),
        (Op::Slice, slice(&[1, 0, 1], &[1, 2, 2], &[1, 2, 2]), x()),
        (Op::Slice, slice(&[0, 1, 0], &[2, 1, 4], &[1, 1, 1]), x()),
        (Op::Slice, slice(&[0, 0, 0], &[2, 2, 4], &[1, 1, 1]), x()),
        (Op::Slice, slice(&[0, 0, 3], &[2, 3, 1], &[1, 1, 1]), x()),
        (Op::Slice, slice(&[0, 1, 0], &[2, 0, 4], &[1, 1, 1]), x()),
        (Op::AsStrided, view(&[2, 2], &[7, 3], 2), x()),
        (Op::AsStrided, view(&[3, 4], &[2, 1], 1), x()),
        (
            Op::AsStridedScatter,
            view(&[2, 2], &[7, 3], 2),
            vec![smooth(&[2, 3, 4]), smooth(&[2, 2])],
        ),
        (Op::Concat, vec![Attr::Int(1)], parts),
    ];
    let of = |(op, attrs, operands): (Op, Vec<Attr>, Vec<Operand>)| {
        case(op, attrs, operands).exactly_on(MEANING).differentiated(Gradient::Twice)
    };
    all.into_iter().map(of).collect()
}
