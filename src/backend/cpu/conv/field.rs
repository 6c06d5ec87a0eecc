//! Windows over one plane, as offsets: the plane is copied with its padding (and converted) into a "field", in
//! which every tap of every window exists.

use super::ConvElement;
use crate::backend::cpu::element::{load_run, store_run};
use crate::backend::cpu::isa::{self, Kernel};
use crate::backend::cpu::rows::RowOf;
use crate::backend::cpu::vector::Vector;
use crate::op::nn::window::{Windows, split};
use std::ops::Range;

/// Shorter runs of pixels are copied one by one.
const SHORT: usize = 8;
/// Planes that are computed side by side.
pub const LANES: usize = 16;
/// Taps whose sums fit into registers.
const TAPS: usize = 4;
/// Terms that are added up one by one; sums of this many are then added.
const TERMS: usize = 256;

/// The part of a plane, with its padding, that the windows of a range of pixels cover.
pub struct Field {
    windows: Windows,
    /// Its first element, counted from the start of the padding, and its sizes.
    start: [usize; 3],
    sizes: [usize; 3],
    /// Runs of pixels with adjacent windows: where the first window begins, and the number of pixels.
    runs: Vec<(usize, usize)>,
    /// The offset of each tap from the start of a window.
    taps: Vec<usize>,
}

impl Field {
    /// A field for the pixels `seen`, which are among the pixels `held` whose windows it has to hold.
    pub fn new(windows: &Windows, held: Range<usize>, seen: Range<usize>) -> Field {
        let w = windows;
        let (from, to) = (split(held.start, w.output), split(held.end - 1, w.output));
        // Whole lines; whole layers if there are several.
        let lines = if from[0] == to[0] { (from[1], to[1]) } else { (0, w.output[1] - 1) };
        let ranges = [(from[0], to[0]), lines, (0, w.output[2] - 1)];
        let start = [0, 1, 2].map(|d| ranges[d].0 * w.stride[d]);
        let size = |d: usize| {
            (ranges[d].1 - ranges[d].0) * w.stride[d] + w.dilation[d] * (w.kernel[d] - 1) + 1
        };
        let sizes = [0, 1, 2].map(size);
        let position = |at: [usize; 3]| (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
        let taps = (0..w.taps()).map(|tap| {
            let of = split(tap, w.kernel);
            position([0, 1, 2].map(|d| of[d] * w.dilation[d]))
        });
        let taps = taps.collect();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let joins = w.stride[2] == 1 && w.output[2] >= SHORT;
        for pixel in seen {
            let of = split(pixel, w.output);
            let at = position([0, 1, 2].map(|d| of[d] * w.stride[d] - start[d]));
            match runs.last_mut() {
                Some((first, n)) if joins && *first + *n == at => *n += 1,
                _ => runs.push((at, 1)),
            }
        }
        Field { windows: *w, start, sizes, runs, taps }
    }

    pub fn len(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Whether the field is the plane itself.
    fn is_plane(&self) -> bool {
        self.start == [0; 3] && self.sizes == self.windows.input && self.windows.padding == [0; 3]
    }

    /// Calls `f` for every line, with the range of the field that is within the plane, and the same range of the plane. The
    /// rest is padding.
    fn lines(&self, mut f: impl FnMut(Range<usize>, Range<usize>)) {
        let w = &self.windows;
        // Coordinates of the field that are within the plane.
        let inside = |d: usize| {
            let low = w.padding[d].saturating_sub(self.start[d]);
            let high = (w.padding[d] + w.input[d]).saturating_sub(self.start[d]);
            low.min(self.sizes[d])..high.min(self.sizes[d])
        };
        let columns = inside(2);
        for i in inside(0) {
            for j in inside(1) {
                let layer = self.start[0] + i - w.padding[0];
                let line = self.start[1] + j - w.padding[1];
                let field = (i * self.sizes[1] + j) * self.sizes[2];
                let plane = (layer * w.input[1] + line) * w.input[2];
                // The field's columns start with the padding's.
                let first = columns.start.saturating_sub(w.padding[2]);
                f(
                    field + columns.start..field + columns.end,
                    plane + first..plane + first + columns.len(),
                );
            }
        }
    }

    /// The field of `plane`: in `room`, unless it is the plane itself.
    pub fn load<'a, S: RowOf<L>, L: ConvElement>(
        &self,
        plane: &'a [S],
        room: &'a mut [L],
    ) -> &'a [L] {
        if self.is_plane() {
            return S::read(plane, room);
        }
        let room = &mut room[..self.len()];
        room.fill(L::from(0.0));
        self.lines(|field, from| load_run(&plane[from], &mut room[field]));
        room
    }

    /// Stores the plane of a field: elements of the padding are dropped, elements that no window covers are 0.
    pub fn store<S: RowOf<L>, L: ConvElement>(&self, field: &[L], plane: &mut [S]) {
        if !self.is_plane() {
            plane.fill(S::store(L::from(0.0)));
        }
        self.lines(|from, to| store_run(&field[from], &mut plane[to]));
    }

    /// Reads the element under `tap` for each pixel.
    pub fn gather<L: Copy>(&self, field: &[L], tap: usize, to: &mut [L]) {
        let from = &field[self.taps[tap]..];
        if self.runs.len() == to.len() {
            to.iter_mut().zip(&self.runs).for_each(|(to, run)| *to = from[run.0]);
            return;
        }
        let mut at = 0;
        for &(first, n) in &self.runs {
            to[at..at + n].copy_from_slice(&from[first..first + n]);
            at += n;
        }
    }

    /// `field += scale * from` under `tap`, for each pixel.
    pub fn scatter<L: ConvElement>(&self, scale: L, from: &[L], tap: usize, field: &mut [L]) {
        isa::run(Scatter { runs: &self.runs, scale, from, to: &mut field[self.taps[tap]..] });
    }

    /// The start of every pixel's window.
    pub fn positions(&self) -> Vec<usize> {
        self.runs.iter().flat_map(|&(first, n)| first..first + n).collect()
    }

    /// Adds to each tap's sum the element under it times that of `with`, for each pixel: [`LANES`] planes side by side.
    pub fn add_products<L: ConvElement>(
        &self,
        field: &[L],
        (positions, with): (&[usize], &[L]),
        sums: &mut [L],
    ) {
        isa::run(AddProducts { taps: &self.taps, field, positions, with, sums });
    }

    /// `to += scale * the element under tap`, for each pixel.
    pub fn add_tap<L: ConvElement>(&self, scale: L, field: &[L], tap: usize, to: &mut [L]) {
        isa::run(AddTap { runs: &self.runs, scale, field: &field[self.taps[tap]..], to });
    }
}

struct Scatter<'a, L> {
    runs: &'a [(usize, usize)],
    scale: L,
    from: &'a [L],
    to: &'a mut [L],
}

impl<L: ConvElement> Kernel for Scatter<'_, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let mut from = self.from;
        for &(first, n) in self.runs {
            let (run, rest) = from.split_at(n);
            for (to, &v) in self.to[first..first + n].iter_mut().zip(run) {
                *to += self.scale * v;
            }
            from = rest;
        }
    }
}

struct AddTap<'a, L> {
    runs: &'a [(usize, usize)],
    scale: L,
    field: &'a [L],
    to: &'a mut [L],
}

impl<L: ConvElement> Kernel for AddTap<'_, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let mut to = self.to;
        for &(first, n) in self.runs {
            let (run, rest) = to.split_at_mut(n);
            for (to, &v) in run.iter_mut().zip(&self.field[first..first + n]) {
                *to += self.scale * v;
            }
            to = rest;
        }
    }
}

struct AddProducts<'a, L> {
    taps: &'a [usize],
    field: &'a [L],
    positions: &'a [usize],
    with: &'a [L],
    sums: &'a mut [L],
}

impl<L: ConvElement> Kernel for AddProducts<'_, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let AddProducts { field, positions, with, .. } = self;
        let taps = self.taps.chunks(TAPS).zip(self.sums.chunks_mut(TAPS * LANES));
        for (taps, sums) in taps {
            match taps.try_into() {
                Ok(taps) => add_products::<L, TAPS>(taps, field, positions, with, sums),
                Err(_) => {
                    for (tap, sums) in taps.iter().zip(sums.chunks_exact_mut(LANES)) {
                        add_products(&[*tap], field, positions, with, sums);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn add_products<L: ConvElement, const N: usize>(
    taps: &[usize; N],
    field: &[L],
    positions: &[usize],
    with: &[L],
    sums: &mut [L],
) {
    for (positions, with) in positions.chunks(TERMS).zip(with.chunks(TERMS * LANES)) {
        let mut of_taps = [[L::from(0.0); LANES]; N];
        for (position, with) in positions.iter().zip(with.chunks_exact(LANES)) {
            for (tap, sum) in taps.iter().zip(&mut of_taps) {
                let met = &field[(position + tap) * LANES..][..LANES];
                for lane in 0..LANES {
                    sum[lane] += with[lane] * met[lane];
                }
            }
        }
        let of_taps = of_taps.iter().flatten();
        sums.iter_mut().zip(of_taps).for_each(|(sum, &more)| *sum += more);
    }
}
