//! Sizes, strides and their properties, without touching data. Units are elements, never bytes.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Sizes, strides, axes: a short list of integers. Graphs are copied often, so only four are stored in place, which
/// suffice for most tensors.
pub type Dims = SmallVec<[i64; 4]>;

/// Number of elements; 1 for a scalar. Saturates, so that an absurd shape is "too large", never small.
pub fn numel(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1i64, |n, &s| n.saturating_mul(s))
}

/// Row-major strides of a dense array. A size of 0 counts as 1, as in PyTorch.
pub fn contiguous_strides(sizes: &[i64]) -> Dims {
    let mut strides = Dims::from_elem(1, sizes.len());
    for i in (0..sizes.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1].saturating_mul(sizes[i + 1].max(1));
    }
    strides
}

/// Dimensions of `layouts` in the given order, merged wherever all of them are evenly spaced; never across a
/// boundary in `fences` (positions in `order` that must stay the start of a dimension).
pub fn collapse(
    layouts: &[&Layout],
    order: &[usize],
    fences: &[usize],
) -> (Dims, Vec<Dims>, SmallVec<[usize; 2]>) {
    let mut sizes = Dims::new();
    let mut strides: Vec<Dims> = vec![Dims::new(); layouts.len()];
    // For each fence, how many merged dimensions come before it.
    let mut before = SmallVec::new();
    let mut joinable = false;
    for (position, &d) in order.iter().enumerate() {
        for _ in fences.iter().filter(|&&f| f == position) {
            before.push(sizes.len());
            joinable = false;
        }
        let size = layouts[0].sizes[d];
        if size == 1 {
            continue;
        }
        let merges = joinable
            && layouts.iter().zip(&strides).all(|(l, s)| s.last() == Some(&(l.strides[d] * size)));
        for (l, s) in layouts.iter().zip(&mut strides) {
            if merges {
                s.pop();
            }
            s.push(l.strides[d]);
        }
        match (merges, sizes.last_mut()) {
            (true, Some(last)) => *last *= size,
            _ => sizes.push(size),
        }
        joinable = true;
    }
    fences.iter().filter(|&&f| f >= order.len()).for_each(|_| before.push(sizes.len()));
    (sizes, strides, before)
}

/// The layout of the elements of an array in a flat run of elements.
#[derive(Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Layout {
    pub sizes: Dims,
    pub strides: Dims,
    pub offset: i64,
}

impl Clone for Layout {
    /// Copies slices as a whole: `SmallVec::clone` goes element by element, and every step of a run copies the layouts
    /// of its operands.
    fn clone(&self) -> Layout {
        let [sizes, strides] = [&self.sizes, &self.strides].map(|dims| Dims::from_slice(dims));
        Layout { sizes, strides, offset: self.offset }
    }
}

impl Layout {
    /// The dense row-major layout of `sizes`, starting at 0.
    pub fn contiguous(sizes: &[i64]) -> Layout {
        Layout { sizes: sizes.into(), strides: contiguous_strides(sizes), offset: 0 }
    }

    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub fn numel(&self) -> i64 {
        numel(&self.sizes)
    }

    /// Dense and row-major (dimensions of size 1 do not count), at any offset.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&size, &stride) in self.sizes.iter().zip(&self.strides).rev() {
            if size == 0 {
                return true;
            }
            if size != 1 && stride != expected {
                return false;
            }
            expected *= size;
        }
        true
    }

    /// Whether no two indices are the same element; `false` where a quick check cannot tell.
    pub fn is_injective(&self) -> bool {
        let mut dims: Vec<(i64, i64)> =
            self.strides.iter().copied().zip(self.sizes.iter().copied()).collect();
        dims.retain(|&(_, size)| size > 1);
        dims.sort_unstable();
        let mut reach = 0;
        dims.iter().all(|&(stride, size)| {
            let apart = stride > reach;
            reach += stride * (size - 1);
            apart
        })
    }

    /// One past the largest flat index that is read; 0 when there is no element.
    pub fn end(&self) -> i64 {
        if self.sizes.contains(&0) {
            return 0;
        }
        let last = |(&size, &stride): (&i64, &i64)| (size - 1).saturating_mul(stride.max(0));
        let reach: i64 =
            self.sizes.iter().zip(&self.strides).map(last).fold(0, i64::saturating_add);
        self.offset.saturating_add(reach).saturating_add(1)
    }

    /// Dimension `i` of the result is dimension `perm[i]` of `self`.
    pub fn transpose(&self, perm: &[i64]) -> Layout {
        Layout {
            sizes: perm.iter().map(|&p| self.sizes[p as usize]).collect(),
            strides: perm.iter().map(|&p| self.strides[p as usize]).collect(),
            offset: self.offset,
        }
    }

    /// Dimension `i` takes `sizes[i]` elements, from `starts[i]`, every `steps[i]`-th. (A step over a single element
    /// may be arbitrarily large.)
    pub fn slice(&self, starts: &[i64], sizes: &[i64], steps: &[i64]) -> Layout {
        let moved: i64 = starts.iter().zip(&self.strides).map(|(a, s)| a * s).sum();
        Layout {
            sizes: sizes.into(),
            strides: self.strides.iter().zip(steps).map(|(s, k)| s.saturating_mul(*k)).collect(),
            offset: self.offset + moved,
        }
    }

    /// Numpy broadcasting to `sizes`: dimensions align at the end, size 1 repeats with stride 0.
    pub fn broadcast(&self, sizes: &[i64]) -> Layout {
        let lead = sizes.len() - self.rank();
        let stride = |i: usize| match i.checked_sub(lead) {
            Some(j) if self.sizes[j] == sizes[i] => self.strides[j],
            _ => 0,
        };
        Layout {
            sizes: sizes.into(),
            strides: (0..sizes.len()).map(stride).collect(),
            offset: self.offset,
        }
    }

    /// As [`Layout::transpose`]; `None` when `order` does not name every dimension once.
    pub fn permuted(&self, order: &[i64]) -> Option<Layout> {
        let mut sorted: Dims = order.into();
        sorted.sort_unstable();
        let complete = sorted.iter().copied().eq(0..self.rank() as i64);
        complete.then(|| self.transpose(order))
    }

    /// `count` elements of dimension `dim`, from `start` on, every `step`-th; `None` when they are not in it.
    pub fn sliced(&self, dim: usize, start: i64, count: i64, step: i64) -> Option<Layout> {
        let size = *self.sizes.get(dim)?;
        let last = (count - 1).max(0).checked_mul(step)?.checked_add(start)?;
        // An empty slice may begin at the end.
        let inside = if count == 0 { start <= size } else { last < size };
        if start < 0 || count < 0 || step < 1 || !inside {
            return None;
        }
        let mut layout = self.clone();
        layout.sizes[dim] = count;
        layout.strides[dim] = self.strides[dim].saturating_mul(step);
        layout.offset += if count == 0 { 0 } else { start * self.strides[dim] };
        Some(layout)
    }

    /// As [`Layout::broadcast`]; `None` when a size other than 1 would have to change.
    pub fn expanded(&self, sizes: &[i64]) -> Option<Layout> {
        let lead = sizes.len().checked_sub(self.rank())?;
        let pairs = || self.sizes.iter().zip(&sizes[lead..]);
        pairs().all(|(&old, &new)| old == new || old == 1).then(|| self.broadcast(sizes))
    }

    /// The same elements in row-major order under other sizes, without moving them; `None` when that needs a copy.
    pub fn reshape(&self, sizes: &[i64]) -> Option<Layout> {
        if self.numel() == 0 || self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(sizes) });
        }
        // Walk both shapes from the innermost dimension; a run of old dimensions that is dense within itself
        // ("chunk") can be cut again at will.
        let mut strides = Dims::from_elem(0, sizes.len());
        let mut view = sizes.len();
        let mut chunk_stride = *self.strides.last()?;
        let (mut chunk, mut covered) = (1, 1);
        for d in (0..self.rank()).rev() {
            chunk *= self.sizes[d];
            let ends =
                d == 0 || (self.sizes[d - 1] != 1 && self.strides[d - 1] != chunk * chunk_stride);
            if ends {
                while view > 0 && (covered < chunk || sizes[view - 1] == 1) {
                    view -= 1;
                    strides[view] = covered * chunk_stride;
                    covered *= sizes[view];
                }
                if covered != chunk {
                    return None;
                }
                if d > 0 {
                    chunk_stride = self.strides[d - 1];
                    (chunk, covered) = (1, 1);
                }
            }
        }
        (view == 0).then(|| Layout { sizes: sizes.into(), strides, offset: self.offset })
    }

    /// If these elements, in their order, are a box of a dense array of sizes `full`: its start and its sizes. `None`
    /// for other elements, and where there are none. They have to be in the array.
    pub fn as_box(&self, full: &[i64]) -> Option<(Dims, Dims)> {
        if self.numel() == 0 {
            return None;
        }
        let dense = contiguous_strides(full);
        let place =
            |flat: i64| full.iter().zip(&dense).map(move |(size, stride)| flat / stride % size);
        let starts: Dims = place(self.offset).collect();
        let sizes: Dims =
            place(self.end() - 1).zip(&starts).map(|(last, first)| last - first + 1).collect();
        if sizes.iter().any(|&size| size < 1) || numel(&sizes) != self.numel() {
            return None;
        }
        let own = self.reshape(&sizes)?;
        let fits = (0..sizes.len()).all(|d| sizes[d] == 1 || own.strides[d] == dense[d]);
        fits.then_some((starts, sizes))
    }

    /// Flat index of every element, in row-major order of the sizes. For tests and slow paths.
    pub fn indices(&self) -> impl Iterator<Item = i64> + '_ {
        let dense = contiguous_strides(&self.sizes);
        (0..self.numel()).map(move |i| {
            let at = |d: usize| (i / dense[d]) % self.sizes[d] * self.strides[d];
            self.offset + (0..self.rank()).map(at).sum::<i64>()
        })
    }
}

/// The shape that numpy broadcasting gives two shapes, or `None`.
pub fn broadcast_shapes(a: &[i64], b: &[i64]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let at = |s: &[i64], i: usize| if i + s.len() < rank { 1 } else { s[i + s.len() - rank] };
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(l: &Layout) -> Vec<i64> {
        l.indices().collect()
    }

    #[test]
    fn reshape_keeps_the_elements_or_refuses() {
        let base = Layout::contiguous(&[4, 6]);
        let columns = base.slice(&[0, 2], &[4, 3], &[1, 1]);
        assert_eq!(columns.reshape(&[12]), None);
        let split = columns.reshape(&[2, 2, 3, 1]).unwrap();
        assert_eq!(elements(&split), elements(&columns));
        let transposed = base.transpose(&[1, 0]);
        assert_eq!(transposed.reshape(&[24]), None);
        let finer = transposed.reshape(&[2, 3, 2, 2]).unwrap();
        assert_eq!(elements(&finer), elements(&transposed));
        let broadcast = Layout::contiguous(&[1, 3]).broadcast(&[4, 3]);
        assert_eq!(broadcast.reshape(&[12]), None);
        assert_eq!(elements(&broadcast.reshape(&[2, 2, 3]).unwrap()), elements(&broadcast));
    }

    #[test]
    fn a_box_of_an_array_has_its_elements_in_their_order() {
        let full = [3, 4, 5];
        let base = Layout::contiguous(&full);
        let row = base.slice(&[1, 0, 0], &[1, 4, 5], &[1, 1, 1]);
        let inner = base.slice(&[0, 1, 2], &[3, 2, 3], &[1, 1, 1]);
        for (view, starts, sizes) in [
            (base.reshape(&[60]).unwrap(), [0, 0, 0], [3, 4, 5]),
            (row.reshape(&[4, 5]).unwrap(), [1, 0, 0], [1, 4, 5]),
            (row.reshape(&[20]).unwrap(), [1, 0, 0], [1, 4, 5]),
            (inner.clone(), [0, 1, 2], [3, 2, 3]),
            (inner.reshape(&[3, 1, 2, 3]).unwrap(), [0, 1, 2], [3, 2, 3]),
            (base.slice(&[2, 3, 4], &[1, 1, 1], &[1, 1, 1]), [2, 3, 4], [1, 1, 1]),
        ] {
            let (at, of) = view.as_box(&full).unwrap();
            assert_eq!((&at[..], &of[..]), (&starts[..], &sizes[..]));
            assert_eq!(elements(&base.slice(&at, &of, &[1, 1, 1])), elements(&view));
        }
        for view in [
            base.transpose(&[1, 0, 2]),
            base.slice(&[0, 0, 0], &[2, 4, 5], &[2, 1, 1]),
            base.slice(&[1, 0, 0], &[1, 4, 5], &[1, 1, 1]).broadcast(&[3, 4, 5]),
            Layout { sizes: [10].as_slice().into(), strides: [1].as_slice().into(), offset: 3 },
            Layout {
                sizes: [0, 5].as_slice().into(),
                strides: [5, 1].as_slice().into(),
                offset: 0,
            },
        ] {
            assert_eq!(view.as_box(&full), None, "{view:?}");
        }
        assert_eq!(Layout::contiguous(&[]).as_box(&[1, 1]).unwrap().1.as_slice(), [1, 1]);
    }

    #[test]
    fn views_are_checked() {
        let base = Layout::contiguous(&[4, 6]);
        assert_eq!(base.permuted(&[1, 0]), Some(base.transpose(&[1, 0])));
        assert_eq!(base.permuted(&[0, 0]).or(base.permuted(&[0])).or(base.permuted(&[0, 2])), None);
        let odd = base.sliced(1, 1, 3, 2).unwrap();
        assert_eq!(elements(&odd), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23]);
        assert_eq!(base.sliced(1, 6, 0, 1).unwrap().numel(), 0);
        for (dim, start, count, step) in
            [(2, 0, 1, 1), (0, -1, 1, 1), (0, 0, 5, 1), (0, 0, 3, 2), (0, 1, 2, i64::MAX)]
        {
            assert_eq!(base.sliced(dim, start, count, step), None);
        }
        assert_eq!(base.sliced(0, 0, 1, 0).or(base.sliced(0, 0, -1, 1)), None);
        let row = base.sliced(0, 2, 1, 1).unwrap();
        assert_eq!(row.expanded(&[2, 3, 6]).unwrap().sizes.as_slice(), [2, 3, 6]);
        assert_eq!(row.expanded(&[3, 7]).or(row.expanded(&[6])), None);
    }

    #[test]
    fn contiguity_ignores_sizes_of_one() {
        let mut l = Layout::contiguous(&[3, 1, 2]);
        l.strides[1] = 77;
        assert!(l.is_contiguous());
        assert_eq!(l.end(), 6);
        assert!(!l.transpose(&[2, 1, 0]).is_contiguous());
    }
}
