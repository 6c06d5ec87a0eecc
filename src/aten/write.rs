//! Writes a result into a strided view of a buffer, giving the buffer's new value.

use super::read::as_dtype;
use crate::dtype::DType;
use crate::graph::math::V;
use crate::op::Op;
use crate::op::movement::view_attrs;
use crate::record::{Format, View};
use crate::shape::Layout;

/// The new value of a buffer of `nbytes`, in `format` (as [`crate::record::written_format`] gives it), after `x`, which has
/// the view's dtype and sizes, was written over `view`. `old` is the buffer's old value; unused if the view covers it.
pub fn write<'m>(
    x: V<'m>,
    old: impl FnOnce() -> V<'m>,
    view: &View,
    format: &Format,
    nbytes: usize,
) -> V<'m> {
    if let Some((_, perm)) = view.covers(nbytes) {
        return x.transpose(&perm);
    }
    let old = old();
    if x.numel() == 0 {
        return flat(old, format.dtype).reshape(&format.sizes);
    }
    if format.dtype == view.dtype {
        let whole = flat(old, format.dtype);
        return scatter(whole, x, &view.layout).reshape(&format.sizes);
    }
    // The buffer's size is not a multiple of the view's element size: bytes are written.
    let size = view.dtype.size() as i64;
    let mut bytes = Layout {
        sizes: view.layout.sizes.clone(),
        strides: view.layout.strides.iter().map(|s| s * size).collect(),
        offset: view.layout.offset * size,
    };
    bytes.sizes.push(size);
    bytes.strides.push(1);
    let x = x.reshape(&[x.numel()]).bitcast(DType::U8).reshape(&bytes.sizes);
    scatter(flat(old, DType::U8), x, &bytes).reshape(&format.sizes)
}

fn flat(old: V, dtype: DType) -> V {
    let cast = as_dtype(old, dtype);
    cast.reshape(&[cast.numel()])
}

fn scatter<'m>(whole: V<'m>, x: V<'m>, layout: &Layout) -> V<'m> {
    whole.math().op(Op::AsStridedScatter, &[whole, x], view_attrs(layout))
}
