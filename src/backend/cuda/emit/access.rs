//! How a kernel accesses the elements of an operand.

use super::KernelArg;
use super::write::{Writer, compute_type, raw, stored};
use crate::plan::{MemRef, Operand};
use crate::shape::{Dims, numel};
use std::fmt::Write;

/// The points that a kernel iterates over, in row-major order.
pub struct Space {
    /// At least one dimension.
    pub sizes: Dims,
    /// Whether some index or offset needs 64 bits.
    pub wide: bool,
}

/// How an operand's offsets follow from the points of a space.
pub struct Walk {
    /// For every dimension of the space.
    strides: Vec<Stride>,
    /// Whether point `i` of the space is element `i`.
    linear: bool,
}

/// An operand as a kernel accesses it.
pub struct Access {
    /// Its element type in the text: as stored, or bits where elements are only moved.
    pub element: &'static str,
    pub compute_type: &'static str,
    mem: MemRef,
    /// The argument with its first element's address; with the first index for `Index`.
    base: String,
    pub walk: Walk,
    /// Whether `V` neighbours can be accessed at once.
    packs: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Stride {
    Zero,
    One,
    /// By a number or an argument, as text.
    By(String),
}

impl Space {
    pub fn new(mut sizes: Dims, operands: &[&Operand]) -> Space {
        if sizes.is_empty() {
            sizes.push(1);
        }
        let reach = |o: &&Operand| o.layout.end();
        let largest = operands.iter().map(reach).chain([numel(&sizes)]).max().unwrap_or(0);
        Space { sizes, wide: largest >= 1 << 31 }
    }

    pub fn numel(&self) -> i64 {
        numel(&self.sizes)
    }

    /// The type of an index.
    pub fn index(&self) -> &'static str {
        if self.wide { "i64" } else { "u32" }
    }

    /// Declares the coordinates `{prefix}0…` of the point number `point`.
    pub fn coordinates(&self, writer: &mut Writer, prefix: &str, point: &str) -> String {
        let at = self.index();
        let mut text = String::new();
        let mut rest = point.to_string();
        for (d, &size) in self.sizes.iter().enumerate().skip(1).rev() {
            let next = format!("{prefix}q{d}");
            let (quotient, by) = if self.wide {
                let by = writer.number(size.max(1));
                (format!("{rest} / (i64){by}"), by)
            } else {
                let kernel_arg = writer.divisor(size.max(1));
                (format!("divided({rest}, {kernel_arg})"), writer.number(size))
            };
            let _ = writeln!(text, "    const {at} {next} = {quotient};");
            let _ = writeln!(text, "    const {at} {prefix}{d} = {rest} - {next} * ({at}){by};");
            rest = next;
        }
        let _ = writeln!(text, "    const {at} {prefix}0 = {rest};");
        text
    }
}

impl Walk {
    /// `strides` are over the dimensions of `space`.
    pub fn new(writer: &mut Writer, space: &Space, strides: &[i64]) -> Walk {
        let mut dense = 1;
        let linear = space.sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
            let expected = dense;
            dense *= size;
            size == 1 || stride == expected
        });
        let stride = |&stride: &i64| match stride {
            0 => Stride::Zero,
            1 => Stride::One,
            by if linear => Stride::By(by.to_string()),
            by => Stride::By(writer.number(by)),
        };
        Walk { strides: strides.iter().map(stride).collect(), linear }
    }

    /// Whether every point has the same element.
    pub fn is_constant(&self) -> bool {
        self.strides.iter().all(|s| *s == Stride::Zero)
    }

    /// Whether offsets are computed from coordinates.
    pub fn needs_coordinates(&self) -> bool {
        !self.is_constant() && !self.linear
    }

    /// The offset of a point from the base, given the point's number and the coordinates `{prefix}0…`.
    pub fn offset(&self, point: &str, prefix: &str, at: &str) -> String {
        if self.is_constant() {
            return "0".into();
        }
        if self.linear {
            return point.into();
        }
        let term = |(d, stride): (usize, &Stride)| match stride {
            Stride::Zero => None,
            Stride::One => Some(format!("{prefix}{d}")),
            Stride::By(kernel_arg) => Some(format!("{prefix}{d} * ({at}){kernel_arg}")),
        };
        self.strides.iter().enumerate().filter_map(term).collect::<Vec<_>>().join(" + ")
    }

    /// Distance from the offset of a point to that of the `e`-th after it in the last dimension.
    fn step(&self, at: &str) -> String {
        match self.strides.last() {
            Some(Stride::By(kernel_arg)) if !self.linear => format!("e * ({at}){kernel_arg}"),
            Some(Stride::Zero) | None => "0".into(),
            _ => "e".into(),
        }
    }
}

impl Access {
    /// `strides` are the operand's over the dimensions of `space`; `pack` neighbours along the last are accessed at once, from
    /// points that also move by the strides `others`.
    pub fn new(
        writer: &mut Writer,
        operand: &Operand,
        space: &Space,
        (strides, others): (&[i64], &[i64]),
        pack: i64,
        moves: bool,
    ) -> Access {
        let (dtype, offset) = (operand.dtype, operand.layout.offset);
        let base = match operand.mem {
            MemRef::Index => writer.number(offset),
            MemRef::Scalar(_) => writer.kernel_arg(KernelArg::At(operand.mem, 0)),
            _ => writer.kernel_arg(KernelArg::of(operand)),
        };
        // A slot has the same number at every point, regardless of the layout.
        let none = Dims::from_elem(0, strides.len());
        let is_slot = matches!(operand.mem, MemRef::Scalar(_));
        let strides = if is_slot { &none } else { strides };
        let outer = &strides[..strides.len().saturating_sub(1)];
        let aligned = outer.iter().chain(others).chain([&offset]).all(|n| n % pack == 0);
        let together = pack > 1 && strides.last() == Some(&1) && aligned;
        Access {
            element: if moves { raw(dtype.size()) } else { stored(dtype) },
            compute_type: if moves { raw(dtype.size()) } else { compute_type(dtype) },
            mem: operand.mem,
            base,
            walk: Walk::new(writer, space, strides),
            packs: together && operand.mem != MemRef::Index,
        }
    }

    fn pointer(&self, offset: &str) -> String {
        format!("(const {}*){} + ({offset})", self.element, self.base)
    }

    /// The element at an offset.
    pub fn element_at(&self, offset: &str) -> String {
        format!("*({})", self.pointer(offset))
    }

    /// Declares `x`, the elements, in the compute type, of `V` (a name in the text) points from `offset` on: an array, or one
    /// value for all if they are equal.
    pub fn load(&self, x: &str, offset: &str, at: &str) -> String {
        let Access { compute_type, base, element, .. } = self;
        let one = |step: &str| match self.mem {
            MemRef::Index => format!("(i64){base} + (i64)({offset}) + {step}"),
            MemRef::Scalar(_) => format!("slot<{element}>({base})"),
            _ => format!("get({} + {step})", self.pointer(offset)),
        };
        if self.walk.is_constant() {
            return format!("    const {compute_type} {x} = {};\n", one("0"));
        }
        let load = if self.packs {
            format!("get_all<V>({x}, {});", self.pointer(offset))
        } else {
            format!("UNROLL for (int e = 0; e < V; e++) {x}[e] = {};", one(&self.walk.step(at)))
        };
        format!("    {compute_type} {x}[V];\n    {load}\n")
    }

    /// The text of lane `e` of the declaration by [`Access::load`].
    pub fn lane(&self, x: &str) -> String {
        if self.walk.is_constant() { x.into() } else { format!("{x}[e]") }
    }

    /// Stores the array `y` to `V` points from `offset` on.
    pub fn store(&self, y: &str, offset: &str, at: &str) -> String {
        let target = format!("({}*){} + ({offset})", self.element, self.base);
        if self.packs {
            return format!("    put_all<V>({target}, {y});\n");
        }
        let step = self.walk.step(at);
        format!("    UNROLL for (int e = 0; e < V; e++) put({target} + {step}, {y}[e]);\n")
    }
}

/// Number of neighbours along the last dimension that a thread takes: as many as make 16 bytes of the largest dense
/// element, at most 8, and fewer if they do not divide the dimension.
pub fn pack(space: &Space, operands: &[&Operand], strides: &[Dims]) -> i64 {
    let last = space.sizes.len() - 1;
    let dense = operands.iter().zip(strides).filter(|(o, s)| {
        !matches!(o.mem, MemRef::Scalar(_) | MemRef::Index) && s.get(last) == Some(&1)
    });
    let sizes: Vec<usize> = dense.map(|(o, _)| o.dtype.size()).collect();
    let Some(largest) = sizes.iter().max() else { return 1 };
    let mut pack = (16 / largest).clamp(1, 8) as i64;
    // In one dimension, the remainder is done one by one.
    while last > 0 && space.sizes[last] % pack != 0 {
        pack /= 2;
    }
    pack
}
