//! The layout of an array in padded memory.

use super::axes::{Axis, flattened};
use crate::shape::{Dims, Layout, contiguous_strides, numel};

/// The sizes of an array's parts, without and with padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    exact: Dims,
    padded: Dims,
}

impl Frame {
    /// `None` if nothing varies.
    pub(super) fn of(axes: &[Axis]) -> Option<Frame> {
        let parts = flattened(axes).0;
        parts.iter().any(|part| part.varies()).then(|| Frame {
            exact: parts.iter().map(|part| part.size.here()).collect(),
            padded: parts.iter().map(|part| part.size.bucket()).collect(),
        })
    }

    /// Number of elements without padding.
    pub fn exact_len(&self) -> usize {
        numel(&self.exact) as usize
    }

    /// Number of elements with it.
    pub fn padded_len(&self) -> usize {
        numel(&self.padded) as usize
    }

    /// The layouts of the elements, without padding and with it.
    pub fn layouts(&self) -> [Layout; 2] {
        let strides = contiguous_strides(&self.padded);
        let padded = Layout { sizes: self.exact.clone(), strides, offset: 0 };
        [Layout::contiguous(&self.exact), padded]
    }

    /// Every run of elements that stays together: its start without padding, its start with padding, and its length.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        // From the innermost padded part on, rows are whole.
        let split = (0..self.exact.len()).rev().find(|&p| self.exact[p] != self.padded[p]);
        let split = split.unwrap_or(0);
        let row = numel(&self.exact[split..]) as usize;
        let outer = Layout {
            sizes: self.exact[..split].into(),
            strides: contiguous_strides(&self.padded)[..split].into(),
            offset: 0,
        };
        let starts: Vec<i64> = if row == 0 { Vec::new() } else { outer.indices().collect() };
        starts.into_iter().enumerate().map(move |(n, start)| (n * row, start as usize, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_apart_by_their_padding() {
        let frame =
            |exact: &[i64], padded: &[i64]| Frame { exact: exact.into(), padded: padded.into() };
        let rows = |frame: Frame| frame.rows().collect::<Vec<_>>();
        let three = frame(&[2, 3, 4], &[2, 5, 4]);
        let [exact, padded] = three.layouts();
        assert_eq!((exact.end(), padded.end(), padded.strides[0]), (24, 32, 20));
        assert_eq!((three.exact_len(), three.padded_len()), (24, 40));
        assert_eq!(rows(three), [(0, 0, 12), (12, 20, 12)]);
        assert_eq!(rows(frame(&[3, 4], &[8, 4])), [(0, 0, 12)]);
        assert_eq!(rows(frame(&[2, 2], &[3, 4])), [(0, 0, 2), (2, 4, 2)]);
        assert_eq!(rows(frame(&[5], &[5])), [(0, 0, 5)]);
        assert_eq!(rows(frame(&[5, 0], &[8, 0])), []);
    }
}
