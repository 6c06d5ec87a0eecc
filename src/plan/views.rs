//! Movements that move no data: a reshape, transpose, broadcast, slice, strided view or bitcast is another view of the memory
//! of the value it comes from.

use crate::dtype::DType;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::op::{Op, Ty};
use crate::shape::{Dims, Layout};
use smallvec::SmallVec;

/// Movements in the order in which they are applied.
pub(super) type Path = SmallVec<[NodeId; 4]>;

/// A value as a view of the dense flat elements of another one.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub root: ValueId,
    /// Differs from the root's after a bitcast.
    pub dtype: DType,
    /// The places of the elements, in units of `dtype`.
    pub layout: Layout,
    /// The movements from the root to here.
    pub path: Path,
}

impl View {
    /// The view of a value as it is.
    pub fn itself(graph: &Graph, value: ValueId) -> View {
        let ty = graph.ty(value);
        View {
            root: value,
            dtype: ty.dtype,
            layout: Layout::contiguous(&ty.sizes),
            path: Path::new(),
        }
    }

    /// Whether it shows all elements of the root in the root's order.
    pub fn is_whole(&self, graph: &Graph) -> bool {
        let root = graph.ty(self.root);
        self.dtype.size() == root.dtype.size() && is_whole(&self.layout, root)
    }

    fn through(&self, graph: &Graph, id: NodeId) -> Option<View> {
        let node = graph.node(id);
        let ty = graph.ty(node.first);
        let (dtype, layout) = match node.op {
            Op::Bitcast => (ty.dtype, self.bitcast(ty)?),
            _ => (self.dtype, moved(node, &self.layout)?),
        };
        let mut path = self.path.clone();
        path.push(id);
        Some(View { root: self.root, dtype, layout, path })
    }

    fn bitcast(&self, to: &Ty) -> Option<Layout> {
        if self.dtype.size() == to.dtype.size() {
            return Some(self.layout.clone());
        }
        let (old, new) = (self.dtype.size() as i64, to.dtype.size() as i64);
        let start = self.layout.offset * old;
        if start % new != 0 {
            return None;
        }
        if self.layout.is_contiguous() {
            return Some(Layout { offset: start / new, ..Layout::contiguous(&to.sizes) });
        }
        // The elements of a row lie side by side, if it has several.
        let last = self.layout.rank().checked_sub(1)?;
        let is_run = self.layout.strides[last] == 1 || self.layout.sizes[last] == 1;
        let outer = &self.layout.strides[..last];
        if !is_run || outer.iter().any(|stride| stride * old % new != 0) {
            return None;
        }
        let strides = outer.iter().map(|stride| stride * old / new).chain([1]).collect();
        Some(canonical(Layout { sizes: to.sizes.clone(), strides, offset: start / new }))
    }
}

/// Whether `layout` visits all elements of a dense `ty` in order.
pub(super) fn is_whole(layout: &Layout, ty: &Ty) -> bool {
    layout.offset == 0 && layout.is_contiguous() && layout.numel() == ty.numel()
}

/// Whether a value that is an output is one that was offloaded, or a view of one: its memory is the host's.
pub(super) fn is_on_host(graph: &Graph, output: ValueId) -> bool {
    let mut maker = graph.maker(output);
    while is_view(maker.op) {
        maker = graph.maker(maker.inputs[0]);
    }
    maker.op == Op::Offload
}

pub(super) fn is_view(op: Op) -> bool {
    use Op::*;
    matches!(op, Reshape | Transpose | Broadcast | Slice | AsStrided | Bitcast)
}

/// The view that every value is. If no layout can express it, the operand becomes a root: it has to be copied
/// into dense memory.
pub(super) fn views(graph: &Graph) -> Vec<View> {
    let mut views: Vec<View> = Vec::with_capacity(graph.values.len());
    for id in graph.node_ids() {
        let node = graph.node(id);
        if !is_view(node.op) {
            views.extend(node.outputs().map(|v| View::itself(graph, v)));
            continue;
        }
        let operand = node.inputs[0];
        let view = views[operand.0 as usize].through(graph, id);
        let view = view.or_else(|| View::itself(graph, operand).through(graph, id));
        views.push(view.expect("dense memory can be looked at in every way"));
    }
    views
}

/// `layout` after a movement, or `None` if no layout has the result. A bitcast needs memory to view, so it has
/// no meaning here; random numbers stand for the repetition of their seed over their sizes.
pub(super) fn moved(node: &Node, layout: &Layout) -> Option<Layout> {
    let ints = |i: usize| node.attrs[i].ints();
    let result = match node.op {
        Op::Reshape => layout.reshape(ints(0))?,
        Op::Transpose => layout.transpose(ints(0)),
        op if op == Op::Broadcast || op.draws() => layout.broadcast(ints(0)),
        Op::Slice => layout.slice(ints(0), ints(1), ints(2)),
        Op::AsStrided if layout.strides.iter().all(|&s| s == 0) => Layout {
            sizes: ints(0).into(),
            strides: Dims::from_elem(0, ints(0).len()),
            offset: layout.offset,
        },
        Op::AsStrided if layout.is_contiguous() => Layout {
            sizes: ints(0).into(),
            strides: ints(1).into(),
            offset: layout.offset + node.attrs[2].int(),
        },
        _ => return None,
    };
    Some(canonical(result))
}

/// [`moved`] along a path.
pub(super) fn along(graph: &Graph, path: &[NodeId], layout: &Layout) -> Option<Layout> {
    path.iter().try_fold(layout.clone(), |l, &id| moved(graph.node(id), &l))
}

/// One spelling for layouts that differ only in the strides of dimensions of size 1.
fn canonical(mut layout: Layout) -> Layout {
    if layout.is_contiguous() {
        return Layout { offset: layout.offset, ..Layout::contiguous(&layout.sizes) };
    }
    for (size, stride) in layout.sizes.iter().zip(layout.strides.iter_mut()) {
        if *size == 1 {
            *stride = 0;
        }
    }
    layout
}
