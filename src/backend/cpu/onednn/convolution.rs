//! Convolutions of a block of images on one thread, in layouts that the library chooses.
//!
//! The library's kernels for plain layouts are no faster than the products of [`super::super::conv`] (measured on AVX-512:
//! 80 to 110 GFLOP/s), those for its own layouts twice as fast; packing and unpacking take about a tenth of the time.
#![expect(unsafe_code, reason = "a C library's functions")]

use super::Element;
use super::api::{self, Engine, Handle, Owned};
use super::primitive::{Layout, Primitive, filled};
use crate::op::nn::Conv;
use crate::shape::{Dims, contiguous_strides};
use std::ffi::c_int;
use std::ptr::null_mut;

/// Larger tensors are refused: the library's kernels compute some offsets in 32 bits.
const MOST_ELEMENTS: usize = 1 << 29;

/// The result that is computed, and its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `y` from `x`, `w`.
    Forward,
    /// `dx` from `dy`, `w`.
    GradInput,
    /// `dw` from `dy`, `x`.
    GradWeight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    pub direction: Direction,
    pub conv: Conv,
    /// Elements from one filter to the next in plain weights.
    pub row: usize,
    /// Element type of plain tensors.
    pub element: c_int,
    /// Element type of packed tensors; but gradients of weights, several of which are added, are f32.
    pub packed: c_int,
}

/// The sizes and plain strides of a tensor.
struct Shape {
    sizes: Dims,
    strides: Dims,
}

impl Problem {
    /// Number of spatial dimensions without leading trivial ones, which the library's kernels for fewer dimensions do not take.
    fn spatial(&self) -> usize {
        let w = &self.conv.windows;
        let used =
            |d: &usize| [w.input[*d], w.output[*d], w.kernel[*d]] != [1; 3] || w.padding[*d] > 0;
        3 - (0..2).find(used).unwrap_or(2)
    }

    fn last(&self, list: [usize; 3]) -> Vec<i64> {
        list[3 - self.spatial()..].iter().map(|&v| v as i64).collect()
    }

    /// The shape of images with `channels` channels in a group.
    fn images(&self, channels: usize, plane: [usize; 3]) -> Shape {
        let head = [self.conv.images, self.conv.groups * channels].map(|v| v as i64);
        let sizes = Dims::from([&head[..], &self.last(plane)].concat());
        Shape { strides: contiguous_strides(&sizes), sizes }
    }

    fn weights(&self) -> Shape {
        let (conv, row) = (&self.conv, self.row as i64);
        let head = [conv.groups, conv.filters, conv.channels].map(|v| v as i64);
        let sizes = Dims::from([&head[..], &self.last(conv.windows.kernel)].concat());
        let mut strides = contiguous_strides(&sizes);
        (strides[0], strides[1]) = (row * conv.filters as i64, row);
        let first = (conv.groups == 1) as usize;
        Shape { sizes: sizes[first..].into(), strides: strides[first..].into() }
    }

    /// The shapes of x, the weights, y.
    fn shapes(&self) -> [Shape; 3] {
        let w = &self.conv.windows;
        let (x, y) =
            (self.images(self.conv.channels, w.input), self.images(self.conv.filters, w.output));
        [x, self.weights(), y]
    }

    /// Strides, dilation minus one, padding before and after.
    fn spacing(&self) -> [api::Dims; 4] {
        let w = &self.conv.windows;
        let after = [0, 1, 2].map(|d| {
            let reach = (w.output[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1;
            reach as i64 - (w.input[d] + w.padding[d]) as i64
        });
        let dilation = w.dilation.map(|v| v - 1);
        let [stride, dilation, before] =
            [w.stride, dilation, w.padding].map(|l| filled(&self.last(l)));
        [stride, dilation, before, filled(&after[3 - self.spatial()..])]
    }

    /// The library's description of its fastest kernel for layouts of its own choice, `None` if it has none.
    fn describe(&self, engine: &Engine, shapes: &[Shape; 3]) -> Option<Owned> {
        let any = |n: usize, element| Layout::of(engine, element, &shapes[n].sizes, None);
        let [x, w, y] = [any(0, self.packed)?, any(1, self.packed)?, any(2, self.packed)?];
        let dw = any(1, api::F32)?;
        let [x, w, y, dw] = [&x, &w, &y, &dw].map(Layout::handle);
        let (api, device, none) = (&engine.api, engine.handle, null_mut());
        let [s, d, p, q] = self.spacing();
        let [s, d, p, q] = [&s, &d, &p, &q].map(|list| list.as_ptr());
        let (how, with) = (api::DIRECT, engine.attributes);
        // SAFETY, here and below: layouts, lists of numbers and descriptions, where the header says that they are passed.
        let forward = unsafe {
            Owned::new(api.destroy_description, |out| {
                (api.describe_forward)(
                    out,
                    device,
                    api::FORWARD,
                    how,
                    x,
                    w,
                    none,
                    y,
                    s,
                    d,
                    p,
                    q,
                    with,
                )
            })?
        };
        let hint = forward.handle;
        let description = match self.direction {
            Direction::Forward => forward,
            // SAFETY: as above.
            Direction::GradInput => unsafe {
                Owned::new(api.destroy_description, |out| {
                    (api.describe_grad_input)(out, device, how, x, w, y, s, d, p, q, hint, with)
                })?
            },
            // SAFETY: as above.
            Direction::GradWeight => unsafe {
                Owned::new(api.destroy_description, |out| {
                    (api.describe_grad_weight)(
                        out, device, how, x, dw, none, y, s, d, p, q, hint, with,
                    )
                })?
            },
        };
        while !is_direct(engine, &description) {
            // SAFETY: a description, which becomes that of the next kernel if there is one.
            if unsafe { (engine.api.next_implementation)(description.handle) } != 0 {
                return None;
            }
        }
        Some(description)
    }
}

/// Whether the described kernel is one of those generated for blocked layouts: for f32 up to twice as fast as kernels of
/// small matrix products ("brgconv") on small planes, and as those of large ones ("gemm") on all.
fn is_direct(engine: &Engine, description: &Owned) -> bool {
    engine.name(description).is_some_and(|name| name.to_bytes().starts_with(b"jit"))
}

/// An operand or result, packed in the primitive's layout: one part for each image; the weights are one part.
pub struct Tensor {
    element: c_int,
    /// Length of a packed part, in elements of f32.
    pub part: usize,
    /// Elements from the first to the last of a plain part.
    plain: usize,
    /// Length of all packed parts, in elements of f32.
    pub len: usize,
    reorder: Primitive,
}

impl Tensor {
    fn new(
        engine: &'static Engine,
        (shape, parts): (&Shape, bool),
        packed: &Layout,
        element: c_int,
        is_result: bool,
    ) -> Option<Tensor> {
        let part;
        let (mut sizes, mut packed_part) = (shape.sizes.clone(), packed);
        if parts {
            part = packed.first_part(engine, &sizes)?;
            (sizes[0], packed_part) = (1, &part);
        }
        let plain = Layout::of(engine, element, &sizes, Some(&shape.strides))?;
        let (from, to) = if is_result { (packed_part, &plain) } else { (&plain, packed_part) };
        let reorder = Primitive::reorder(engine, from, to)?;
        let of_f32 = |layout: &Layout| layout.nbytes / size_of::<f32>();
        let (part, len) = (of_f32(packed_part), of_f32(packed));
        if !packed_part.nbytes.is_multiple_of(size_of::<f32>()) {
            return None;
        }
        // The library also counts the gap after the last row.
        let last = sizes.iter().zip(&shape.strides).map(|(size, stride)| (size - 1) * stride);
        let plain = 1 + last.sum::<i64>() as usize;
        (len.max(plain) <= MOST_ELEMENTS).then_some(Tensor { element, part, plain, len, reorder })
    }

    fn check<T: Element>(&self, plain: usize, packed: usize, room: usize) {
        assert!(T::CODE == self.element, "another element type");
        assert!(plain >= self.plain && packed >= self.part, "{plain} and {packed} elements");
        assert!(room >= self.reorder.room());
    }

    /// Packs a part of an operand into the primitive's layout.
    pub fn pack<T: Element>(&self, plain: &[T], packed: &mut [f32], room: &mut [f32]) {
        self.check::<T>(plain.len(), packed.len(), room.len());
        let operands: [Handle; 2] = [plain.as_ptr() as Handle, packed.as_mut_ptr().cast()];
        // SAFETY: the slices have as many elements as the layouts; the first is only read.
        unsafe { self.reorder.execute(&operands, room) };
    }

    /// Unpacks a part of the result from the primitive's layout.
    pub fn unpack<T: Element>(&self, packed: &[f32], plain: &mut [T], room: &mut [f32]) {
        self.check::<T>(plain.len(), packed.len(), room.len());
        let operands: [Handle; 2] = [packed.as_ptr() as Handle, plain.as_mut_ptr().cast()];
        // SAFETY: the slices have as many elements as the layouts; the first is only read.
        unsafe { self.reorder.execute(&operands, room) };
    }
}

pub struct Convolution {
    /// In the order of [`Direction`]'s comments.
    pub operands: [Tensor; 2],
    pub result: Tensor,
    primitive: Primitive,
    /// Elements of scratch memory that the primitive, packing and unpacking need.
    pub room: usize,
}

impl Convolution {
    /// `None` where there is no kernel worth using.
    pub fn new(engine: &'static Engine, problem: &Problem) -> Option<Convolution> {
        use api::*;
        let shapes = problem.shapes();
        let description = problem.describe(engine, &shapes)?;
        // For the two operands and the result: the index in `shapes`, the argument and the query for the layout.
        let (order, names) = match problem.direction {
            Direction::Forward => {
                ([0, 1, 2], [(ARG_SOURCE, SOURCE), (ARG_WEIGHTS, WEIGHTS), (ARG_RESULT, RESULT)])
            }
            Direction::GradInput => (
                [2, 1, 0],
                [
                    (ARG_GRADIENT + ARG_RESULT, RESULT_GRADIENT),
                    (ARG_WEIGHTS, WEIGHTS),
                    (ARG_GRADIENT + ARG_SOURCE, SOURCE_GRADIENT),
                ],
            ),
            Direction::GradWeight => (
                [2, 0, 1],
                [
                    (ARG_GRADIENT + ARG_RESULT, RESULT_GRADIENT),
                    (ARG_SOURCE, SOURCE),
                    (ARG_GRADIENT + ARG_WEIGHTS, WEIGHTS_GRADIENT),
                ],
            ),
        };
        let primitive = Primitive::new(engine, &description, &names)?;
        let tensor = |n: usize| {
            let shape = (&shapes[order[n]], order[n] != 1);
            Tensor::new(engine, shape, primitive.layout(n), problem.element, n == 2)
        };
        let (operands, result) = ([tensor(0)?, tensor(1)?], tensor(2)?);
        let rooms = [&operands[0], &operands[1], &result].map(|tensor| tensor.reorder.room());
        let room = rooms.into_iter().fold(primitive.room(), usize::max);
        Some(Convolution { operands, result, primitive, room })
    }

    /// Whether both use the same layout for the weights, or their gradient.
    pub fn shares_weights(&self, other: &Convolution, direction: Direction) -> bool {
        let at = if direction == Direction::GradWeight { 2 } else { 1 };
        self.primitive.layout(at).is(other.primitive.layout(at), self.primitive.engine())
    }

    /// Computes the packed result of packed operands.
    pub fn run(&self, a: &[f32], b: &[f32], result: &mut [f32], room: &mut [f32]) {
        let lengths = [(a.len(), &self.operands[0]), (b.len(), &self.operands[1])];
        assert!(lengths.iter().all(|(len, tensor)| *len >= tensor.len));
        assert!(result.len() >= self.result.len);
        let operands: [Handle; 3] =
            [a.as_ptr() as Handle, b.as_ptr() as Handle, result.as_mut_ptr().cast()];
        // SAFETY: the slices have as many elements as the layouts; only the last is written.
        unsafe { self.primitive.execute(&operands, room) };
    }
}
