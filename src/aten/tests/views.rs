//! Reads of strided views and writes into them, against moving bytes one element at a time.

use super::*;
use crate::op::Op;

/// A view as a user's chain of view operations makes it.
fn random_view(dice: &mut Dice, mut layout: Layout, exotic: bool) -> Layout {
    for _ in 0..1 + dice.roll(5) {
        let rank = layout.rank();
        let dim = dice.roll(rank as i64) as usize;
        layout = match dice.roll(if exotic { 8 } else { 7 }) {
            0 if rank > 0 => {
                let mut next = layout.clone();
                next.offset += dice.roll(next.sizes[dim]) * next.strides[dim];
                next.sizes.remove(dim);
                next.strides.remove(dim);
                next
            }
            1 | 2 if rank > 0 => {
                let (mut starts, mut sizes) = (Dims::from_elem(0, rank), layout.sizes.clone());
                let mut steps = Dims::from_elem(1, rank);
                starts[dim] = dice.roll(sizes[dim]);
                steps[dim] = 1 + dice.roll(3);
                sizes[dim] = (sizes[dim] - starts[dim] - 1) / steps[dim] + 1;
                layout.slice(&starts, &sizes, &steps)
            }
            3 if rank > 0 => {
                let mut perm: Dims = (0..rank as i64).collect();
                perm.swap(dim, dice.roll(rank as i64) as usize);
                layout.transpose(&perm)
            }
            4 => {
                let mut sizes = layout.sizes.clone();
                sizes.insert(0, 1 + dice.roll(3));
                layout.broadcast(&sizes)
            }
            5 | 6 => {
                let sizes = other_sizes(dice, layout.numel());
                layout.reshape(&sizes).unwrap_or(layout)
            }
            7 if rank > 0 => {
                // unfold
                let (size, stride) = (layout.sizes[dim], layout.strides[dim]);
                let (window, step) = (1 + dice.roll(size), 1 + dice.roll(2));
                layout.sizes[dim] = (size - window) / step + 1;
                layout.strides[dim] = stride * step;
                layout.sizes.push(window);
                layout.strides.push(stride);
                layout
            }
            _ => layout,
        };
    }
    layout
}

/// Some sizes with `n` elements.
fn other_sizes(dice: &mut Dice, mut n: i64) -> Dims {
    let mut sizes = Dims::new();
    while n > 1 {
        let divisors: Vec<i64> = (2..=n).filter(|d| n % d == 0).collect();
        let d = divisors[dice.roll(divisors.len() as i64) as usize];
        sizes.push(d);
        n /= d;
    }
    sizes
}

/// Reads `layout` as `dtype` from a buffer that holds `base`: the elements, and how many `as_strided` it took.
fn read_back(base: &Array, dtype: DType, layout: &Layout) -> (Array, usize) {
    let mut trial = Trial::new("torchacc::copy", &[NONE]);
    let value = trial.leaf(base);
    let view = View { dtype, layout: layout.clone() };
    trial.records.records[0].args[0] = Arg::Tensor(Read { value, view });
    let trial = trial.fresh(&[Ty::new(dtype, &layout.sizes)]);
    let graph =
        lower(&trial.records).unwrap_or_else(|e| panic!("{layout:?} of {:?}: {e}", base.ty));
    let strided = graph.nodes.iter().filter(|n| n.op == Op::AsStrided).count();
    (interpret(&graph, &trial.leaves, &[]).unwrap().remove(0), strided)
}

fn bytes_of(base: &Array, dtype: DType, layout: &Layout) -> Vec<u8> {
    let size = dtype.size();
    let at = |i: i64| base.bytes[i as usize * size..][..size].iter().copied();
    layout.indices().flat_map(at).collect()
}

fn counted(dtype: DType, sizes: &[i64]) -> Array {
    let mut array = Array::zeros(&Ty::new(dtype, sizes));
    array.bytes.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 7 + i / 251) as u8);
    array
}

#[test]
fn views_are_read_as_they_are() {
    let mut dice = Dice(1);
    let mut strided = 0;
    for trial in 0..3000 {
        let exotic = trial % 4 == 0;
        let sizes = dice.sizes(4);
        let base = counted(DType::I32, &sizes);
        // The value may have been written in other sizes than those it is viewed through.
        let through = other_sizes(&mut dice, numel(&sizes));
        let layout = random_view(&mut dice, Layout::contiguous(&through), exotic);
        let (got, gathers) = read_back(&base, DType::I32, &layout);
        assert_eq!(got.bytes, bytes_of(&base, DType::I32, &layout), "{layout:?} of {sizes:?}");
        strided += if exotic { 0 } else { gathers };
    }
    assert_eq!(strided, 0, "chains of ordinary views are movements");
}

#[test]
fn views_of_other_dtypes_read_the_bytes() {
    let mut dice = Dice(2);
    let dtypes = [DType::U8, DType::I16, DType::F32, DType::F64, DType::C64, DType::BF16];
    for _ in 0..1500 {
        let [from, to] = [0; 2].map(|_| dtypes[dice.roll(dtypes.len() as i64) as usize]);
        let base = counted(from, &dice.sizes(3));
        let n = (base.bytes.len() / to.size()) as i64;
        if n == 0 {
            continue;
        }
        let through = other_sizes(&mut dice, n);
        let layout = random_view(&mut dice, Layout::contiguous(&through), true);
        let (got, _) = read_back(&base, to, &layout);
        assert_eq!(got.bytes, bytes_of(&base, to, &layout), "{layout:?} of {:?} as {to}", base.ty);
    }
}

#[test]
fn chains_that_users_write_are_movements() {
    let qkv = Layout::contiguous(&[2, 5, 24]);
    let heads = |part: i64| {
        let part = qkv.slice(&[0, 0, part * 8], &[2, 5, 8], &[1, 1, 1]);
        part.reshape(&[2, 5, 2, 4]).unwrap().transpose(&[0, 2, 1, 3])
    };
    let matrix = Layout::contiguous(&[5, 7]);
    let strides = |sizes: &[i64], strides: &[i64], offset| Layout {
        sizes: sizes.into(),
        strides: strides.into(),
        offset,
    };
    let cases: [(&[i64], Layout, usize); 15] = [
        (&[2, 5, 24], heads(0), 0),
        (&[2, 5, 24], heads(1).transpose(&[0, 1, 3, 2]), 0),
        (&[2, 5, 24], heads(2), 0),
        (&[10, 24], heads(1), 0),
        (&[5, 7], matrix.transpose(&[1, 0]), 0),
        (&[5, 7], matrix.slice(&[0, 6], &[5, 1], &[1, 1]), 0),
        (&[5, 7], matrix.slice(&[1, 1], &[2, 3], &[2, 2]), 0),
        // diagonal
        (&[5, 7], strides(&[5], &[8], 0), 0),
        (&[3, 5, 7], strides(&[3, 4], &[35, 8], 7), 0),
        // flat[4:22].view(3, 6)[:, 1:5]
        (&[24], strides(&[3, 4], &[6, 1], 5), 0),
        (&[22], strides(&[3, 4], &[6, 1], 5), 0),
        // flat[::3].view(2, 2).t() of 11
        (&[11], strides(&[2, 2], &[3, 6], 0), 0),
        // view(5, 3)[1::3]
        (&[3, 5], strides(&[2, 3], &[9, 1], 3), 0),
        // Windows that overlap are no movement.
        (&[11], strides(&[9, 3], &[1, 1], 0), 1),
        (&[5, 7], strides(&[5, 5], &[1, 1], 2), 1),
    ];
    for (sizes, layout, expected) in cases {
        let base = counted(DType::I32, sizes);
        let (got, strided) = read_back(&base, DType::I32, &layout);
        assert_eq!(got.bytes, bytes_of(&base, DType::I32, &layout), "{layout:?}");
        assert_eq!(strided, expected, "{layout:?} of {sizes:?}");
    }
}

/// What the buffer of `base` holds after a counted array of `dtype` was written over `layout`.
fn check_write(base: Option<&Array>, nbytes: usize, dtype: DType, layout: &Layout) {
    let x = counted(dtype, &layout.sizes);
    let mut trial = Trial::new("torchacc::copy", &[TrialArg::from(&x)]);
    let old = match base {
        Some(base) => trial.leaf(base),
        None => {
            let format = Format::flat(dtype, nbytes);
            trial.records.values.push(Value { origin: Origin::Zeros, format, nbytes });
            trial.records.values.len() as u32 - 1
        }
    };
    trial.write(Some(old), View { dtype, layout: layout.clone() }, nbytes);
    let got = trial.run().unwrap_or_else(|e| panic!("{layout:?}: {e}")).remove(0);
    let mut expected = base.map_or(vec![0; nbytes], |b| b.bytes.clone());
    for (i, at) in layout.indices().enumerate() {
        expected[at as usize * dtype.size()..][..dtype.size()].copy_from_slice(x.raw(i));
    }
    assert_eq!(got.bytes, expected, "{layout:?} as {dtype} into {base:?}");
}

#[test]
fn writes_change_the_view_and_nothing_else() {
    let mut dice = Dice(3);
    let dtypes = [DType::U8, DType::I16, DType::F32, DType::F64, DType::C64];
    let mut partial = 0;
    for trial in 0..1500 {
        let [from, to] = [0; 2].map(|_| dtypes[dice.roll(dtypes.len() as i64) as usize]);
        let base = counted(from, &dice.sizes(3));
        let n = (base.bytes.len() / to.size()) as i64;
        let through = other_sizes(&mut dice, n);
        let layout = random_view(&mut dice, Layout::contiguous(&through), false);
        // A write through a view that overlaps itself is refused by PyTorch.
        if n == 0 || layout.strides.contains(&0) {
            continue;
        }
        partial += (layout.numel() < n) as usize;
        let base = (trial % 5 > 0).then_some(&base);
        let nbytes = base.map_or(n as usize * to.size(), |b| b.bytes.len());
        check_write(base, nbytes, to, &layout);
    }
    assert!(partial > 100);
}

#[test]
fn zero_buffers_and_nothing_to_write() {
    let base = counted(DType::F32, &[3, 4]);
    check_write(Some(&base), 48, DType::F32, &Layout::contiguous(&[0, 4]));
    check_write(None, 48, DType::F32, &Layout::contiguous(&[2, 3]));
    check_write(None, 7, DType::F32, &Layout::contiguous(&[1]));
}
