//! Movements of elements of every dtype, against coordinates.

use super::*;

fn each_dtype(f: impl Fn(&mut Numbers, DType)) {
    DType::all().for_each(|dtype| f(&mut Numbers(5), dtype));
}

#[test]
fn transpose_and_reshape() {
    each_dtype(|numbers, dtype| {
        let x = numbers.bytes(dtype, &[2, 1, 3]);
        for perm in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
            let sizes = perm.map(|p: i64| x.ty.sizes[p as usize]);
            let source = |at: &[i64]| {
                let mut from = vec![0; 3];
                perm.iter().zip(at).for_each(|(&p, &i)| from[p as usize] = i);
                from
            };
            check(Op::Transpose, &[&x], &[ints(&perm)], &moved(&x, &sizes, source));
        }
        for sizes in [&[6][..], &[3, 2], &[1, 6, 1]] {
            let want = Array { ty: Ty::new(dtype, sizes), bytes: x.bytes.clone() };
            check(Op::Reshape, &[&x], &[ints(sizes)], &want);
        }
        let empty = numbers.bytes(dtype, &[0, 4]);
        check(Op::Reshape, &[&empty], &[ints(&[2, 0])], &numbers.bytes(dtype, &[2, 0]));
        check(Op::Transpose, &[&empty], &[ints(&[1, 0])], &numbers.bytes(dtype, &[4, 0]));
        let scalar = numbers.bytes(dtype, &[]);
        check(Op::Transpose, &[&scalar], &[ints(&[])], &scalar);
    });
}

#[test]
fn broadcast() {
    each_dtype(|numbers, dtype| {
        let x = numbers.bytes(dtype, &[3, 1]);
        check(
            Op::Broadcast,
            &[&x],
            &[ints(&[2, 3, 4])],
            &moved(&x, &[2, 3, 4], |at| vec![at[1], 0]),
        );
        check(Op::Broadcast, &[&x], &[ints(&[3, 0])], &numbers.bytes(dtype, &[3, 0]));
        let scalar = numbers.bytes(dtype, &[]);
        check(Op::Broadcast, &[&scalar], &[ints(&[2, 2])], &moved(&scalar, &[2, 2], |_| vec![]));
    });
}

#[test]
fn slice() {
    each_dtype(|numbers, dtype| {
        let x = numbers.bytes(dtype, &[5, 4]);
        let attrs = [ints(&[1, 0]), ints(&[2, 4]), ints(&[3, 1])];
        check(Op::Slice, &[&x], &attrs, &moved(&x, &[2, 4], |at| vec![1 + 3 * at[0], at[1]]));
        let far = [ints(&[4, 3]), ints(&[1, 1]), ints(&[i64::MAX, i64::MAX])];
        check(Op::Slice, &[&x], &far, &moved(&x, &[1, 1], |_| vec![4, 3]));
        let nothing = [ints(&[5, 2]), ints(&[0, 1]), ints(&[1, 1])];
        check(Op::Slice, &[&x], &nothing, &numbers.bytes(dtype, &[0, 1]));
    });
}

#[test]
fn strided_views_are_read_and_written() {
    each_dtype(|numbers, dtype| {
        let base = numbers.bytes(dtype, &[3, 4]);
        let attrs = [ints(&[2, 3]), ints(&[5, 2]), Attr::Int(1)];
        let place = |at: &[i64]| 1 + 5 * at[0] + 2 * at[1];
        let want = moved(&base, &[2, 3], |at| vec![place(at) / 4, place(at) % 4]);
        check(Op::AsStrided, &[&base], &attrs, &want);

        let x = numbers.bytes(dtype, &[2, 3]);
        let mut want = base.clone();
        for at in coordinates(&[2, 3]) {
            want.set_raw(place(&at) as usize, x.raw(flat(&[2, 3], &at)));
        }
        check(Op::AsStridedScatter, &[&base, &x], &attrs, &want);
        // The view is as it was written, when its elements are distinct.
        check(Op::AsStrided, &[&want], &attrs, &x);

        let overlapping = [ints(&[3, 2]), ints(&[1, 1]), Attr::Int(0)];
        let want = moved(&base, &[3, 2], |at| vec![0, at[0] + at[1]]);
        check(Op::AsStrided, &[&base], &overlapping, &want);
        let empty = [ints(&[0, 9]), ints(&[100, 100]), Attr::Int(100)];
        check(Op::AsStrided, &[&base], &empty, &numbers.bytes(dtype, &[0, 9]));
    });
}

#[test]
fn bitcast_keeps_the_bytes() {
    for (from, to) in DType::all().flat_map(|a| DType::all().map(move |b| (a, b))) {
        let x = Numbers(6).bytes(from, &[3, 16]);
        let y = one(Op::Bitcast, &[&x], &[Attr::DType(to)]);
        assert_eq!(y.bytes, x.bytes);
        assert_eq!(y.ty.sizes.as_slice(), [3, 16 * from.size() as i64 / to.size() as i64]);
        assert_eq!(one(Op::Bitcast, &[&y], &[Attr::DType(from)]), x);
    }
    let scalar = Numbers(6).bytes(I32, &[]);
    assert_eq!(one(Op::Bitcast, &[&scalar], &[Attr::DType(F32)]).bytes, scalar.bytes);
}

#[test]
fn what_goes_to_the_host_and_back_is_the_same() {
    each_dtype(|numbers, dtype| {
        let x = numbers.bytes(dtype, &[2, 3]);
        assert_eq!(one(Op::Reload, &[&one(Op::Offload, &[&x], &[])], &[]), x);
    });
}

#[test]
fn concat() {
    each_dtype(|numbers, dtype| {
        for dim in 0..2usize {
            let part = |numbers: &mut Numbers, n| {
                let mut sizes = [2, 3];
                sizes[dim] = n;
                numbers.bytes(dtype, &sizes)
            };
            let parts = [1, 0, 3].map(|n| part(numbers, n));
            let got = one(Op::Concat, &parts.each_ref(), &[Attr::Int(dim as i64)]);
            let mut start = 0;
            for part in &parts {
                let taken = moved(&got, &part.ty.sizes, |at| {
                    let mut from = at.to_vec();
                    from[dim] += start;
                    from
                });
                assert_eq!(taken, *part);
                start += part.ty.sizes[dim];
            }
            assert_eq!(got.ty.sizes[dim], start);
        }
    });
}
