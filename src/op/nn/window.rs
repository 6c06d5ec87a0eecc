//! Windows that slide over the spatial dimensions of `[n, c, s…]`, one to three of them: which element of the input a
//! tap of the kernel meets at an output position ("pixel").

use crate::error::Result;
use crate::invalid;
use crate::op::{Attr, check};
use crate::shape::Dims;

/// Larger kernels, strides, … are refused, so that positions can be computed in i64.
const LARGEST: i64 = 1 << 31;

/// Attributes of windows, one number for every spatial dimension each.
#[derive(Clone, Copy)]
pub struct Spacing<'a> {
    pub kernel: &'a [i64],
    pub stride: &'a [i64],
    pub padding: &'a [i64],
    pub dilation: &'a [i64],
}

impl<'a> Spacing<'a> {
    /// Error when the numbers do not fit each other or the spatial sizes.
    pub fn check(self, spatial: &[i64]) -> Result<Spacing<'a>> {
        let n = spatial.len();
        if !(1..=3).contains(&n) {
            return invalid!("expected one to three spatial dimensions, but got {n}");
        }
        let all = [
            (self.kernel, 1, "kernel"),
            (self.stride, 1, "stride"),
            (self.padding, 0, "padding"),
            (self.dilation, 1, "dilation"),
        ];
        for (list, least, what) in all {
            if list.len() != n || list.iter().any(|&v| v < least || v >= LARGEST) {
                return invalid!(
                    "expected {what} to be {n} numbers of at least {least}, but got {list:?}"
                );
            }
        }
        Ok(self)
    }

    /// Elements from the first to the last tap, less one.
    fn reach(&self, d: usize) -> i64 {
        self.dilation[d] * (self.kernel[d] - 1)
    }

    /// Spatial sizes of the output. With `ceil`, a last window may hang over the end if it starts before the padding on
    /// the right.
    pub fn outputs(&self, spatial: &[i64], ceil: bool) -> Result<Dims> {
        let along = |(d, &size): (usize, &i64)| {
            let (stride, padding) = (self.stride[d], self.padding[d]);
            let free = size.saturating_add(2 * padding) - self.reach(d) - 1;
            if free < 0 && !(ceil && free + stride > 0) {
                return invalid!(
                    "Calculated padded input size per channel: {:?}. Kernel size: {:?}. Kernel size can't be greater than actual input size",
                    spatial
                        .iter()
                        .zip(self.padding)
                        .map(|(s, p)| s.saturating_add(2 * p))
                        .collect::<Vec<_>>(),
                    self.kernel
                );
            }
            let count = free.div_euclid(stride) + 1;
            let hangs = ceil && free.rem_euclid(stride) != 0;
            Ok(count + (hangs && count * stride < size.saturating_add(padding)) as i64)
        };
        spatial.iter().enumerate().map(along).collect()
    }
}

/// The list attributes of a node.
pub fn lists<'a, const N: usize>(attrs: &'a [Attr], wanted: &str) -> Result<[&'a [i64]; N]> {
    let mut lists = [&[][..]; N];
    for (n, list) in lists.iter_mut().enumerate() {
        match attrs.get(n) {
            Some(Attr::Ints(v)) => *list = v,
            _ => return check::wrong_attrs(wanted, attrs),
        }
    }
    Ok(lists)
}

/// Windows over an input, with missing spatial dimensions as leading ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    pub input: [usize; 3],
    pub output: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Windows {
    /// From checked numbers.
    pub fn new(spatial: &[i64], outputs: &[i64], spacing: Spacing) -> Windows {
        let three = |list: &[i64], missing: usize| {
            let mut all = [missing; 3];
            let from = 3 - list.len();
            all[from..].iter_mut().zip(list).for_each(|(to, &v)| *to = v as usize);
            all
        };
        Windows {
            input: three(spatial, 1),
            output: three(outputs, 1),
            kernel: three(spacing.kernel, 1),
            stride: three(spacing.stride, 1),
            padding: three(spacing.padding, 0),
            dilation: three(spacing.dilation, 1),
        }
    }

    /// Elements of a plane of the input.
    pub fn plane(&self) -> usize {
        self.input.iter().product()
    }

    /// Elements of a plane of the output.
    pub fn pixels(&self) -> usize {
        self.output.iter().product()
    }

    /// Elements of the kernel.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// The element that a tap meets at a pixel along dimension `d`; `None` in the padding.
    fn meets(&self, d: usize, pixel: usize, tap: usize) -> Option<usize> {
        let at = pixel * self.stride[d] + tap * self.dilation[d];
        at.checked_sub(self.padding[d]).filter(|&i| i < self.input[d])
    }

    /// The place in a plane of the first tap at a pixel that is not before the first element; beyond the
    /// plane if all taps are.
    pub fn start(&self, pixel: usize) -> usize {
        let at = split(pixel, self.output);
        let along = |d: usize| {
            let from = at[d] * self.stride[d];
            let skipped = self.padding[d].saturating_sub(from).div_ceil(self.dilation[d]);
            from + skipped * self.dilation[d] - self.padding[d]
        };
        (0..3).fold(0, |flat: usize, d| flat.wrapping_mul(self.input[d]).wrapping_add(along(d)))
    }

    /// Calls `f(pixel, tap, element of the input)` for all that meet, in row-major order of pixels, then taps.
    pub fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        for pixel in 0..self.pixels() {
            let at = split(pixel, self.output);
            for tap in 0..self.taps() {
                let of = split(tap, self.kernel);
                let met = [0, 1, 2].map(|d| self.meets(d, at[d], of[d]));
                if let [Some(i), Some(j), Some(k)] = met {
                    f(pixel, tap, (i * self.input[1] + j) * self.input[2] + k);
                }
            }
        }
    }
}

/// Coordinates of a flat index.
pub fn split(flat: usize, sizes: [usize; 3]) -> [usize; 3] {
    [flat / sizes[2] / sizes[1], flat / sizes[2] % sizes[1], flat % sizes[2]]
}
