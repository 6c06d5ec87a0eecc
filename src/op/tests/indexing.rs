//! Indexing of every dtype by both index types, against coordinates; indices out of range.

use super::*;
use crate::error::Code;
use crate::op::index::Reduction;

fn each(f: impl Fn(&mut Numbers, DType, DType)) {
    for (dtype, index) in DType::all().flat_map(|d| [I32, I64].map(|i| (d, i))) {
        f(&mut Numbers(12), dtype, index);
    }
}

#[test]
fn take() {
    each(|numbers, dtype, index_dtype| {
        for (axis, index_sizes) in [(0, &[2, 3][..]), (1, &[4]), (2, &[]), (1, &[0, 2])] {
            let x = numbers.bytes(dtype, &[3, 2, 4]);
            let index = numbers.indices(index_dtype, index_sizes, x.ty.sizes[axis]);
            let rank = index_sizes.len();
            let sizes = [&x.ty.sizes[..axis], index_sizes, &x.ty.sizes[axis + 1..]].concat();
            let want = moved(&x, &sizes, |at| {
                let row = index.i64(flat(index_sizes, &at[axis..axis + rank]));
                [&at[..axis], &[row], &at[axis + rank..]].concat()
            });
            check(Op::Take, &[&x, &index], &[Attr::Int(axis as i64)], &want);
        }
    });
}

#[test]
fn gather_and_scatter() {
    each(|numbers, dtype, index_dtype| {
        for axis in 0..2usize {
            let x = numbers.bytes(dtype, &[3, 4]);
            let index = numbers.indices(index_dtype, &[2, 3], x.ty.sizes[axis]);
            let named = |at: &[i64]| {
                let mut to = at.to_vec();
                to[axis] = index.i64(flat(&[2, 3], at));
                to
            };
            let attr = Attr::Int(axis as i64);
            let want = moved(&x, &[2, 3], named);
            check(Op::Gather, &[&x, &index], std::slice::from_ref(&attr), &want);

            let source = numbers.bytes(dtype, &[2, 3]);
            let mut want = x.clone();
            for (i, at) in coordinates(&[2, 3]).iter().enumerate() {
                want.set_raw(flat(&[3, 4], &named(at)), source.raw(i));
            }
            check(Op::Scatter, &[&x, &index, &source], &[attr, Reduction::Last.attr()], &want);
        }
    });
}

#[test]
fn additions_of_repeated_indices_add_up() {
    for (dtype, index_dtype) in numbers().flat_map(|d| [I32, I64].map(|i| (d, i))) {
        let mut numbers = Numbers(13);
        for axis in 0..2usize {
            let base = numbers.small(dtype, &[3, 2]);
            let mut sizes = [3, 2];
            sizes[axis] = 5;
            let source = numbers.small(dtype, &sizes);
            let index = numbers.indices(index_dtype, &[5], base.ty.sizes[axis]);
            let (mut rows, mut elements) = (base.to_f64s(), base.to_f64s());
            let full = numbers.indices(index_dtype, &sizes, base.ty.sizes[axis]);
            for (i, at) in coordinates(&sizes).iter().enumerate() {
                let mut to = at.clone();
                to[axis] = index.i64(at[axis] as usize);
                rows[flat(&[3, 2], &to)] += source.f64(i);
                to[axis] = full.i64(i);
                elements[flat(&[3, 2], &to)] += source.f64(i);
            }
            let attr = Attr::Int(axis as i64);
            let want = Array::from_f64(dtype, &[3, 2], &rows);
            check(Op::IndexAdd, &[&base, &index, &source], std::slice::from_ref(&attr), &want);
            let want = Array::from_f64(dtype, &[3, 2], &elements);
            check(Op::Scatter, &[&base, &full, &source], &[attr, Reduction::Sum.attr()], &want);
        }
    }
}

#[test]
fn out_of_range_is_an_index_error() {
    let x = Numbers(14).floats(F32, &[4]);
    let axis = &[Attr::Int(0)];
    for bad in [-1.0, 4.0, 7.0] {
        let index = Array::from_f64(I64, &[2], &[0.0, bad]);
        let source = Numbers(15).floats(F32, &[2]);
        let bounds = format!("index {bad} is out of bounds for dimension 0 with size 4");
        let in_self = format!("index out of range in self: {bounds}");
        let cases: [(Op, &[&Array], &[Attr], &str); 4] = [
            (Op::Take, &[&x, &index], axis, &in_self),
            (Op::IndexAdd, &[&x, &index, &source], axis, &in_self),
            (Op::Gather, &[&x, &index], axis, &bounds),
            (Op::Scatter, &[&x, &index, &source], &[Attr::Int(0), Reduction::Sum.attr()], &bounds),
        ];
        for (op, inputs, attrs, message) in cases {
            let error = run(op, inputs, attrs).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (Code::IndexError, message), "{op:?}");
        }
    }
    // Nothing is asked of an empty dimension, unless an index names it.
    let empty = Numbers(16).floats(F32, &[0, 3]);
    let none = Array::from_f64(I64, &[0], &[]);
    assert!(one(Op::Take, &[&empty, &none], axis).is_empty());
    let zero = Array::from_f64(I64, &[1], &[0.0]);
    assert_eq!(run(Op::Take, &[&empty, &zero], axis).unwrap_err().code, Code::IndexError);
}
