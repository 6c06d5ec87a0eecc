//! Strided views of flat elements, as writes through views of a buffer make them.

use super::super::axes::{Axis, Part, Size, flattened};
use super::super::padded::{PaddedValue, Pass, dims, whole};
use super::super::{Stop, refused};
use super::anything;
use crate::graph::Node;
use crate::op::{Attr, Attrs, Op};
use crate::shape::Dims;
use smallvec::smallvec;

/// A view in padded memory.
struct View {
    sizes: Dims,
    strides: Dims,
    offset: i64,
}

impl View {
    fn attrs(&self) -> Attrs {
        smallvec![
            Attr::Ints(self.sizes.clone()),
            Attr::Ints(self.strides.clone()),
            Attr::Int(self.offset),
        ]
    }

    /// Whether no two indices name the same element.
    fn is_apart(&self) -> bool {
        let mut all: Vec<(i64, i64)> =
            self.strides.iter().copied().zip(self.sizes.iter().copied()).collect();
        all.retain(|&(_, size)| size > 1);
        all.sort_unstable();
        let mut reach = 0;
        all.iter().all(|&(stride, size)| {
            let apart = stride > reach;
            reach += stride * (size - 1);
            apart
        })
    }
}

/// One part of the viewed array: the distance between its elements, in the value and in padded memory.
struct Run {
    part: Part,
    stride: Size,
    padded: i64,
}

fn runs(axes: &[Axis], one: &Size) -> Vec<Run> {
    let (mut stride, mut padded) = (one.clone(), 1);
    let mut runs = Vec::new();
    for part in flattened(axes).0.into_iter().rev() {
        let run = Run { stride: stride.clone(), padded, part };
        stride = stride.times(&run.part.size);
        padded *= run.part.size.bucket();
        runs.push(run);
    }
    runs.reverse();
    runs
}

/// Places the view of attributes `[sizes, strides, offset]` of node `n`: each of its dimensions goes through one part of
/// the viewed array, from a start and by a step that do not vary.
fn placed(pass: &Pass, n: usize, axes: &[Axis]) -> Result<View, Stop> {
    let one = pass.points.one();
    let (sizes, strides) = (pass.points.ints(n, 0), pass.points.ints(n, 1));
    let runs = runs(axes, &one);
    // The start in every part, outermost first.
    let mut rest = pass.points.int(n, 2);
    let mut starts = Vec::new();
    let mut offset = 0;
    for run in &runs {
        let quotient = |(&a, &b): (&i64, &i64)| a.checked_div(b).unwrap_or(0);
        let start = Size::new(rest.values().iter().zip(run.stride.values()).map(quotient));
        let Some(fixed) = start.fixed() else { return refused("a view from a place that varies") };
        rest = rest.minus(&run.stride.times(&start));
        offset += fixed * run.padded;
        starts.push(fixed);
    }
    let mut reached = starts;
    let mut padded = Dims::new();
    for (size, stride) in sizes.iter().zip(&strides) {
        if size.fixed() == Some(1) || stride.fixed() == Some(0) {
            padded.push(0);
            continue;
        }
        let step = |run: &Run| stride.over(&run.stride).and_then(|step| step.fixed());
        let Some(at) = runs.iter().position(|run| step(run).is_some()) else {
            return cut(&runs, stride);
        };
        let step = step(&runs[at]).unwrap_or(0);
        padded.push(step * runs[at].padded);
        reached[at] += (size.bucket() - 1) * step;
        let last = reached[at] - (size.bucket() - size.here()) * step;
        let part = &runs[at].part.size;
        if reached[at] >= part.bucket() || last >= part.here() {
            return refused("a view that runs over the end of a row");
        }
    }
    Ok(View { sizes: sizes.iter().map(Size::bucket).collect(), strides: padded, offset })
}

/// Asks for a part to be cut so that rows of length `stride` are one part.
fn cut<T>(runs: &[Run], stride: &Size) -> Result<T, Stop> {
    for run in runs {
        let whole = run.stride.times(&run.part.size);
        let rows = whole.over(stride);
        if let (Some(outer), Some(origin)) = (rows, run.part.origin)
            && run.part.size.over(&outer).is_some()
        {
            return Err(Stop::Cut { origin, outer });
        }
    }
    refused("a view by strides that vary otherwise")
}

pub fn as_strided(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let x = pass.value(node.inputs[0]).clone();
    let view = placed(pass, n, &x.axes)?;
    let axes = pass.points.sizes(node.first).into_iter().map(whole).collect();
    let id = pass.op(Op::AsStrided, &[x.id], view.attrs())?;
    Ok(anything(id, axes))
}

/// Padding of the written value leaves the old elements in place.
pub fn scatter(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let (base, x) = (pass.value(node.inputs[0]).clone(), pass.value(node.inputs[1]).clone());
    let view = placed(pass, n, &base.axes)?;
    if !x.axes.iter().all(Axis::is_prefix) {
        return refused("a merged dimension is written through a view");
    }
    if x.varies() && !view.is_apart() {
        return refused("a view that overlaps itself is written");
    }
    let all: Vec<usize> = (0..x.axes.len()).collect();
    let (sizes, attrs, below) = (dims(&x.axes), view.attrs(), base.id);
    let new = pass.choose(&x, &all, |pass, parts| {
        let old = pass.op(Op::AsStrided, &[below], attrs)?;
        debug_assert_eq!(*pass.b.ty(old).sizes, *sizes);
        Ok(pass.b.reshape(old, parts)?)
    })?;
    let id = pass.op(Op::AsStridedScatter, &[base.id, new], view.attrs())?;
    Ok(anything(id, base.axes))
}
