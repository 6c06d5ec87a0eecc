//! Sorting along an axis, all of it or its first elements.

use super::access::{Bound, Plain};
use super::element::{Bf16, F16, Stored};
use super::pool::parallel_each;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Attr;
use crate::op::array::make_room;
use crate::shape::numel;

/// An element as an unsigned number of the same order: zeros are equal, NaN is above all.
trait Ordered: Plain {
    type Key: Copy + Default + Ord + Into<u64> + std::ops::Not<Output = Self::Key>;
    fn key(self) -> Self::Key;
}

macro_rules! ordered {
    ($($t:ty as $key:ty: |$x:ident| $e:expr;)*) => {$(
        impl Ordered for $t {
            type Key = $key;
            fn key(self) -> $key { let $x = self; $e }
        }
    )*};
}

ordered! {
    f32 as u32: |x| key_of_f32(x);
    F16 as u32: |x| key_of_f32(x.load());
    Bf16 as u32: |x| key_of_f32(x.load());
    f64 as u64: |x| key_of_f64(x);
    u8 as u32: |x| x as u32;
    i8 as u32: |x| x as i32 as u32 ^ 1 << 31;
    i16 as u32: |x| x as i32 as u32 ^ 1 << 31;
    i32 as u32: |x| x as u32 ^ 1 << 31;
    i64 as u64: |x| x as u64 ^ 1 << 63;
}

/// Flips all bits of negative numbers and the sign of the others. Without branches, for vectors.
fn key_of_f32(x: f32) -> u32 {
    let bits = (x + 0.0).to_bits();
    let key = bits ^ (((bits as i32) >> 31) as u32 | 1 << 31);
    if x.is_nan() { u32::MAX } else { key }
}

fn key_of_f64(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    let key = bits ^ (((bits as i64) >> 63) as u64 | 1 << 63);
    if x.is_nan() { u64::MAX } else { key }
}

/// A key and the place it came from as one number, so that equal keys stay in their order.
trait Placed: Ord + Copy + Send {
    const LAST: Self;
    fn new(key: u64, place: usize) -> Self;
    fn place(self) -> usize;
}

impl Placed for u64 {
    const LAST: u64 = u64::MAX;
    fn new(key: u64, place: usize) -> u64 {
        key << 32 | place as u64
    }
    fn place(self) -> usize {
        self as u32 as usize
    }
}

impl Placed for u128 {
    const LAST: u128 = u128::MAX;
    fn new(key: u64, place: usize) -> u128 {
        (key as u128) << 64 | place as u128
    }
    fn place(self) -> usize {
        self as u64 as usize
    }
}

pub fn top_k(attrs: &[Attr], x: &Bound, values: &Bound, places: &Bound) -> Result<()> {
    let (axis, k, largest) = (attrs[0].int() as usize, attrs[1].int() as usize, attrs[2].bool());
    let sizes = x.sizes();
    let (n, inner) = (sizes[axis] as usize, numel(&sizes[axis + 1..]) as usize);
    let lanes = Lanes { n, inner, k, largest };
    let outs = (values, places);
    match x.dtype {
        DType::F32 => lanes.narrow::<f32>(x, outs),
        DType::F16 => lanes.narrow::<F16>(x, outs),
        DType::BF16 => lanes.narrow::<Bf16>(x, outs),
        DType::U8 => lanes.narrow::<u8>(x, outs),
        DType::I8 => lanes.narrow::<i8>(x, outs),
        DType::I16 => lanes.narrow::<i16>(x, outs),
        DType::I32 => lanes.narrow::<i32>(x, outs),
        DType::F64 => lanes.wide::<f64>(x, outs),
        DType::I64 => lanes.wide::<i64>(x, outs),
        other => return internal!("no order on {other}"),
    }
    Ok(())
}

/// Elements along the axis and after it, and the number and the order of those wanted of each lane.
struct Lanes {
    n: usize,
    inner: usize,
    k: usize,
    largest: bool,
}

impl Lanes {
    /// Keys of 32 bits, beside places of as many where they fit.
    fn narrow<T: Ordered>(&self, x: &Bound, outs: (&Bound, &Bound)) {
        match self.has_narrow_places() {
            true => self.sort::<T, u64>(x, outs, collect_first),
            false => self.sort::<T, u128>(x, outs, collect_first),
        }
    }

    /// Keys of 64 bits.
    fn wide<T: Ordered<Key = u64>>(&self, x: &Bound, outs: (&Bound, &Bound)) {
        match self.k == self.n && self.has_narrow_places() {
            true => self.sort::<T, u64>(x, outs, |found, _, lane, largest| {
                sort_wide(found, lane, largest);
            }),
            false => self.sort::<T, u128>(x, outs, collect_first),
        }
    }

    fn has_narrow_places(&self) -> bool {
        self.n as u64 <= u32::MAX as u64
    }

    /// `collect` finds the first `k` of a lane, in order, and their places.
    fn sort<T: Ordered, P: Placed>(
        &self,
        x: &Bound,
        (values, places): (&Bound, &Bound),
        collect: impl Fn(&mut Vec<P>, usize, &[T], bool) + Sync,
    ) {
        let Lanes { n, inner, k, largest } = *self;
        let (x, size) = (x.dense::<T>(), k * inner);
        let outs =
            values.result::<T>().chunks_mut(size).zip(places.result::<i64>().chunks_mut(size));
        parallel_each(outs.enumerate(), 64 * n * inner, |(outer, (values, places))| {
            let x = &x[outer * n * inner..][..n * inner];
            let (mut found, mut lane) = (Vec::<P>::new(), Vec::new());
            for i in 0..inner {
                let along = if inner == 1 {
                    x
                } else {
                    lane.clear();
                    make_room(&mut lane, n);
                    lane.extend(x[i..].iter().step_by(inner).copied());
                    &lane
                };
                collect(&mut found, k, along, largest);
                for (j, placed) in found.iter().enumerate() {
                    values[j * inner + i] = along[placed.place()];
                    places[j * inner + i] = placed.place() as i64;
                }
            }
        });
    }
}

/// Keys that are computed at once, and skipped at once.
const BLOCK: usize = 256;

/// The first `k` elements, in order, of a lane that has at least as many. For a small `k` most elements are seen once
/// and forgotten: they come after `k` that were found.
fn collect_first<T: Ordered, P: Placed>(found: &mut Vec<P>, k: usize, lane: &[T], largest: bool) {
    found.clear();
    let room = (2 * k).max(32);
    make_room(found, room.min(lane.len()));
    let (mut limit, mut keys) = (P::LAST, [T::Key::default(); BLOCK]);
    for (n, block) in lane.chunks(BLOCK).enumerate() {
        let keys = &mut keys[..block.len()];
        keys.iter_mut().zip(block).for_each(|(key, v)| *key = v.key());
        if largest {
            keys.iter_mut().for_each(|key| *key = !*key);
        }
        let least = keys.iter().copied().fold(keys[0], Ord::min);
        if P::new(least.into(), 0) > limit {
            continue;
        }
        for (i, &key) in keys.iter().enumerate() {
            let placed = P::new(key.into(), n * BLOCK + i);
            if placed <= limit {
                found.push(placed);
            }
            if found.len() == room && room < lane.len() {
                limit = *found.select_nth_unstable(k - 1).1;
                found.truncate(k);
            }
        }
    }
    if k < found.len() {
        found.select_nth_unstable(k);
        found.truncate(k);
    }
    found.sort_unstable();
}

/// All elements of a lane in order. The 32 bits that tell most of the keys apart are sorted beside their places, which
/// takes 0.4 to 0.7 of the time of whole keys beside places; then elements that are equal in these bits are sorted.
fn sort_wide<T: Ordered<Key = u64>>(found: &mut Vec<u64>, lane: &[T], largest: bool) {
    let key = |v: &T| if largest { !v.key() } else { v.key() };
    let keys = || lane.iter().map(key);
    let (least, most) = (keys().min().unwrap_or(0), keys().max().unwrap_or(0));
    let shift = 32u32.saturating_sub((most - least).leading_zeros());
    found.clear();
    make_room(found, lane.len());
    found.extend(keys().enumerate().map(|(n, key)| u64::new((key - least) >> shift, n)));
    found.sort_unstable();
    if shift > 0 {
        for equal in found.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
            equal.sort_unstable_by_key(|placed| (key(&lane[placed.place()]), *placed));
        }
    }
}
