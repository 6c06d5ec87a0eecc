//! Layout changes: two in a row become one, and those that change nothing are removed.

use super::fold::{splat, splat_of, splat_value};
use super::rebuild::{Item, Values, rebuild};
use crate::error::Result;
use crate::graph::{Builder, Graph, Guard, Node, Relation, ValueId};
use crate::op::array::Array;
use crate::op::movement::view_of;
use crate::op::{Attr, Attrs, Class, Op, Ty};
use crate::record::View;
use crate::shape::Dims;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// Maximum number of writes to a buffer that are searched for an element.
const MOST_WRITES: usize = 256;

/// ```text
/// %1: f32[3,2] = transpose(%0) {perm=[1,0]}
/// %2: f32[2,3] = transpose(%1) {perm=[1,0]}            %1: f32[2,2] = slice(%0) {starts=[0,1], …}
/// %3: f32[2,2] = slice(%2) {starts=[0,1], …}     →     return %1
/// %4: f32[2,2] = reshape(%3) {sizes=[2,2]}
/// return %4
/// ```
pub fn movement(graph: &Graph) -> Result<Cow<'_, Graph>> {
    rebuild(graph, rule)
}

pub(super) fn rule(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    if matches!(item.op, Op::Attention | Op::AttentionGrad) {
        return attention(b, item);
    }
    if item.op.class() != Class::Movement {
        return Ok(None);
    }
    let found = match moved_splat(b, item)? {
        Some(v) => Some(v),
        None => match item.op {
            Op::Reshape => reshape(b, item)?,
            Op::Transpose => transpose(b, item)?,
            Op::Broadcast => broadcast(b, item)?,
            Op::Slice => slice(b, item)?,
            Op::AsStrided => as_strided(b, item)?,
            Op::AsStridedScatter => as_strided_scatter(b, item)?,
            Op::Concat => concat(b, item)?,
            Op::Bitcast => bitcast(b, item)?,
            _ => None,
        },
    };
    Ok(found.map(|v| Values::from_slice(&[v])))
}

/// The node that made `v`, if it is an `op`.
fn made_by(b: &Builder, v: ValueId, op: Op) -> Option<Node> {
    let maker = b.graph().maker(v);
    (maker.op == op).then(|| maker.clone())
}

/// A repeated number stays that number however it is moved. (Its bits may be another number in another dtype.)
fn moved_splat(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let Some(constant) = splat(b, item.inputs[0]) else {
        return Ok(None);
    };
    if matches!(item.op, Op::Bitcast) || item.inputs.iter().any(|&v| splat(b, v) != Some(constant))
    {
        return Ok(None);
    }
    let types: Vec<_> = item.inputs.iter().map(|&v| b.ty(v)).collect();
    let out = item.op.infer(&types, item.attrs)?;
    b.broadcast(constant, &out[0].sizes).map(Some)
}

fn reshape(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (x, sizes) = (item.inputs[0], item.attrs[0].ints());
    let x = made_by(b, x, Op::Reshape).map_or(x, |inner| inner.inputs[0]);
    b.reshape(x, sizes).map(Some)
}

/// A transpose that keeps the order of the dimensions larger than 1 is a reshape.
fn transpose(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (mut x, mut perm) = (item.inputs[0], Dims::from_slice(item.attrs[0].ints()));
    if let Some(inner) = made_by(b, x, Op::Transpose) {
        let first = inner.attrs[0].ints();
        perm.iter_mut().for_each(|p| *p = first[*p as usize]);
        x = inner.inputs[0];
    }
    let sizes = &b.ty(x).sizes;
    let moved: Vec<i64> = perm.iter().copied().filter(|&p| sizes[p as usize] != 1).collect();
    if moved.is_sorted() {
        let sizes: Dims = perm.iter().map(|&p| sizes[p as usize]).collect();
        return b.reshape(x, &sizes).map(Some);
    }
    b.transpose(x, &perm).map(Some)
}

/// A broadcast that only adds dimensions of size 1 is a reshape; below a broadcast, such a reshape is not needed.
fn broadcast(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (mut x, sizes) = (item.inputs[0], item.attrs[0].ints());
    if let Some(inner) = made_by(b, x, Op::Broadcast) {
        x = inner.inputs[0];
    }
    if let Some(inner) = made_by(b, x, Op::Reshape) {
        let (before, after) = (&b.ty(inner.inputs[0]).sizes, &b.ty(x).sizes);
        let added = after.len().saturating_sub(before.len());
        if after.ends_with(before) && after[..added].iter().all(|&s| s == 1) {
            x = inner.inputs[0];
        }
    }
    let added = sizes.len() - b.ty(x).rank();
    if b.ty(x).sizes[..] == sizes[added..] && sizes[..added].iter().all(|&s| s == 1) {
        return b.reshape(x, sizes).map(Some);
    }
    b.broadcast(x, sizes).map(Some)
}

/// Attention reads a broadcast bias as it was before: the kernels repeat it themselves, and in memory it would be as large as the
/// scores.
fn attention(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    let before_bias = if item.op == Op::Attention { 5 } else { 8 };
    let Some(&bias) = item.inputs.get(before_bias) else { return Ok(None) };
    let Some(repeated) = made_by(b, bias, Op::Broadcast) else { return Ok(None) };
    let x = repeated.inputs[0];
    let mut sizes = Dims::from_elem(1, b.ty(bias).rank() - b.ty(x).rank());
    sizes.extend_from_slice(&b.ty(x).sizes);
    if sizes == b.ty(bias).sizes {
        return Ok(None);
    }
    let mut inputs = item.inputs.clone();
    inputs[before_bias] = b.reshape(x, &sizes)?;
    b.ops(item.op, &inputs, item.attrs.clone()).map(Some)
}

fn slice(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let mut x = item.inputs[0];
    let mut starts = Dims::from_slice(item.attrs[0].ints());
    let mut steps = Dims::from_slice(item.attrs[2].ints());
    if let Some(inner) = made_by(b, x, Op::Slice) {
        for d in 0..starts.len() {
            let step = inner.attrs[2].ints()[d];
            starts[d] = inner.attrs[0].ints()[d] + starts[d] * step;
            steps[d] *= step;
        }
        x = inner.inputs[0];
    }
    if let Some(inner) = made_by(b, x, Op::Concat) {
        let (sizes, dim) = (item.attrs[1].ints(), inner.attrs[0].int() as usize);
        let run = (starts[dim], (sizes[dim] - 1).max(0) * steps[dim] + 1);
        if let Some((part, start, guards)) = within_a_part(b, &inner, run) {
            (x, starts[dim]) = (part, start);
            b.guard(guards);
        }
    }
    // Where nothing is stepped over, any step will do; a canonical one makes equal slices equal nodes.
    let sizes = item.attrs[1].ints();
    for (d, &size) in sizes.iter().enumerate() {
        starts[d] = if size == 0 { 0 } else { starts[d] };
        steps[d] = if size <= 1 { 1 } else { steps[d] };
    }
    if let (&[start], &[size], &[1]) = (&starts[..], sizes, &steps[..])
        && let Some(v) = part_of_buffer(b, x, start, size)?
    {
        return Ok(Some(v));
    }
    if steps.iter().all(|&step| step == 1)
        && let Some(v) = part_of_boxes(b, x, &starts, sizes)?
    {
        return Ok(Some(v));
    }
    b.slice(x, &starts, sizes, &steps).map(Some)
}

/// A box of an array that was written box by box: from the value written there, or of a fresh array if nothing was. (An unrolled
/// loop over layers stacks the values that its gradient needs, and reads them again layer by layer.)
fn part_of_boxes(
    b: &mut Builder,
    x: ValueId,
    starts: &[i64],
    sizes: &[i64],
) -> Result<Option<ValueId>> {
    if sizes.contains(&0) {
        return Ok(None);
    }
    let steps = Dims::from_elem(1, sizes.len());
    let (mut at, mut guards) = (x, Guards::new());
    for _ in 0..MOST_WRITES {
        let write = b.graph().maker(at);
        if write.op != Op::AsStridedScatter {
            break;
        }
        let [base, part] = write.inputs[..] else { break };
        let view = view_of(&write.attrs).as_box(&b.ty(base).sizes);
        let Some((from, written)) = view else { break };
        let mut dims = (0..sizes.len()).map(|d| (d, (starts[d], sizes[d]), (from[d], written[d])));
        let inside: Option<Vec<[Guard; 2]>> =
            dims.clone().map(|(d, read, written)| within(d, read, written)).collect();
        if let Some(inside) = inside {
            b.guard(guards.into_iter().chain(inside.into_iter().flatten()));
            let part = b.reshape(part, &written)?;
            let offsets: Dims = starts.iter().zip(&from).map(|(at, from)| at - from).collect();
            return b.slice(part, &offsets, sizes, &steps).map(Some);
        }
        match dims.find_map(|(d, read, written)| apart(d, read, written)) {
            Some(guard) => guards.push(guard),
            None => break,
        }
        at = base;
    }
    // An older version of an array that is updated in place would have to be kept for this read.
    match splat(b, at) {
        Some(number) if at != x => {
            b.guard(guards);
            b.broadcast(number, sizes).map(Some)
        }
        _ => Ok(None),
    }
}

/// A run of elements of a buffer that was written run by run: from the value written there, or for a small part of a fresh
/// buffer a buffer of its own, so that the whole one is not needed. (FSDP gathers from a slice of its gathered buffer.)
fn part_of_buffer(b: &mut Builder, x: ValueId, start: i64, size: i64) -> Result<Option<ValueId>> {
    let (mut at, mut inside, mut guards) = (x, Vec::new(), Guards::new());
    for _ in 0..MOST_WRITES {
        let write = b.graph().maker(at);
        if write.op != Op::AsStridedScatter {
            break;
        }
        let [base, part] = write.inputs[..] else { return Ok(None) };
        let Some((from, length)) = run_of(b, base, &write.attrs) else { return Ok(None) };
        if let Some(is_within) =
            within(0, (start, size), (from, length)).filter(|_| inside.is_empty())
        {
            b.guard(guards.into_iter().chain(is_within));
            return b.slice(part, &[start - from], &[size], &[1]).map(Some);
        }
        if let Some(guard) = apart(0, (start, size), (from, length)) {
            guards.push(guard);
        } else {
            let is_small = 2 * size <= b.ty(x).numel();
            let Some(is_within) = within(0, (from, length), (start, size)).filter(|_| is_small)
            else {
                return Ok(None);
            };
            guards.extend(is_within);
            inside.push((part, from - start, length));
        }
        at = base;
    }
    let mut buffer = match splat(b, at) {
        Some(number) if at != x => b.broadcast(number, &[size])?,
        None if at != x && inside.is_empty() => b.slice(at, &[start], &[size], &[1])?,
        _ => return Ok(None),
    };
    b.guard(guards);
    for (part, offset, length) in inside.into_iter().rev() {
        let (sizes, strides) = (smallvec![length], smallvec![1]);
        let attrs = smallvec![Attr::Ints(sizes), Attr::Ints(strides), Attr::Int(offset)];
        buffer = b.op(Op::AsStridedScatter, &[buffer, part], attrs)?;
    }
    Ok(Some(buffer))
}

/// Start and length of a write to `base`, if both have one dimension and it is a run of elements.
fn run_of(b: &Builder, base: ValueId, attrs: &Attrs) -> Option<(i64, i64)> {
    let [Attr::Ints(sizes), Attr::Ints(strides), Attr::Int(offset)] = &attrs[..] else {
        return None;
    };
    let is_run = b.ty(base).rank() == 1 && sizes.len() == 1;
    (is_run && (strides[0] == 1 || sizes[0] <= 1)).then(|| (*offset, sizes[0]))
}

/// Start and length.
type Run = (i64, i64);

type Guards = SmallVec<[Guard; 4]>;

/// A guard that the first run has no element of the second one; `None` if it has.
fn apart(dim: usize, (start, size): Run, (from, length): Run) -> Option<Guard> {
    let dim = dim as u32;
    let guard = |says, margin: i64| (margin >= 0).then_some(Guard { says, part: 0, dim, margin });
    guard(Relation::Before, from - (start + size))
        .or_else(|| guard(Relation::After, start - (from + length)))
        .or_else(|| guard(Relation::Empty, -size.min(length)))
}

/// Guards that the first run is a part of the second one; `None` if it is not.
fn within(dim: usize, (start, size): Run, (from, length): Run) -> Option<[Guard; 2]> {
    let dim = dim as u32;
    let begins = Guard { says: Relation::BeginsWithin, part: 0, dim, margin: start - from };
    let margin = from + length - (start + size);
    let ends = Guard { says: Relation::EndsWithin, part: 0, dim, margin };
    (begins.margin >= 0 && ends.margin >= 0).then_some([begins, ends])
}

/// The operand of `concat` that contains all of a run of the result, the run's start there, and guards that this holds.
fn within_a_part(b: &Builder, concat: &Node, run: Run) -> Option<(ValueId, i64, [Guard; 2])> {
    let dim = concat.attrs[0].int() as usize;
    let mut from = 0;
    for (nth, &part) in concat.inputs.iter().enumerate() {
        let length = b.ty(part).sizes[dim];
        if let Some(guards) = within(dim, run, (from, length)) {
            let guards = guards.map(|guard| Guard { part: nth as u32, ..guard });
            return Some((part, run.0 - from, guards));
        }
        from += length;
    }
    None
}

/// The view that attributes (sizes, strides, offset) describe, if it names every element of `base` once: then the
/// sizes of the dense array in memory order, and the permutation that brings the view's dimensions into that order.
fn whole_view(b: &Builder, base: ValueId, item: &Item) -> Option<(Dims, Dims)> {
    let ty = b.ty(base);
    View { dtype: ty.dtype, layout: view_of(item.attrs) }.covers(ty.nbytes())
}

/// A view of all elements is a reshape and a transpose.
fn as_strided(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let Some((dense, perm)) = whole_view(b, item.inputs[0], item) else {
        return Ok(None);
    };
    let mut back = perm.clone();
    perm.iter().enumerate().for_each(|(i, &p)| back[p as usize] = i as i64);
    let x = b.reshape(item.inputs[0], &dense)?;
    b.transpose(x, &back).map(Some)
}

/// A write over all elements leaves nothing of the base.
fn as_strided_scatter(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (base, x) = (item.inputs[0], item.inputs[1]);
    let Some((_, perm)) = whole_view(b, base, item) else {
        if let Some((row, guards)) = copied_in_parts(b, item) {
            b.guard(guards);
            return Ok(Some(row));
        }
        return assembled(b, item);
    };
    let sizes = b.ty(base).sizes.clone();
    let ordered = b.transpose(x, &perm)?;
    b.reshape(ordered, &sizes).map(Some)
}

/// The row of elements that is written part by part, each part to its own place; and guards that this holds.
fn copied_in_parts(b: &Builder, item: &Item) -> Option<(ValueId, Guards)> {
    let copied = |inputs: &[ValueId], attrs: &Attrs| {
        let part = b.graph().maker(inputs[1]);
        let (from, length) = run_of(b, inputs[0], attrs)?;
        let is_there = part.op == Op::Slice && part.attrs[0].ints() == [from];
        let is_copy = is_there && part.attrs[2].ints() == [1];
        let row = *part.inputs.first()?;
        (is_copy && b.ty(row) == b.ty(inputs[0])).then_some((row, from, length))
    };
    let (row, from, length) = copied(&item.inputs, item.attrs)?;
    let (mut at, mut runs) = (item.inputs[0], vec![(from, length)]);
    while runs.len() < MOST_WRITES {
        let write = b.graph().maker(at);
        if write.op != Op::AsStridedScatter {
            break;
        }
        let (_, from, length) =
            copied(&write.inputs, &write.attrs).filter(|&(other, ..)| other == row)?;
        runs.push((from, length));
        at = write.inputs[0];
    }
    runs.sort_unstable();
    // Each run begins before the earlier ones end, or right there, and they reach the end of the row.
    let (mut until, mut guards) = (0, Guards::new());
    for (from, length) in runs.into_iter().chain([(b.ty(row).numel(), 0)]) {
        let margin = until - from;
        guards.push(Guard { says: Relation::BeginsWithin, part: 0, dim: 0, margin });
        until = until.max(from + length);
    }
    guards.iter().all(|guard| guard.margin >= 0).then_some((row, guards))
}

/// A buffer that is written part by part, side by side, until nothing of it is left: the parts as one array. Each part is a run of
/// elements, or one such run in each of as many rows as the others have.
fn assembled(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let base = b.ty(item.inputs[0]).clone();
    // Rows, elements of a row, and where the part begins, of a view.
    let runs = |attrs: &Attrs| {
        let [Attr::Ints(sizes), Attr::Ints(strides), Attr::Int(offset)] = &attrs[..] else {
            return None;
        };
        match (&sizes[..], &strides[..]) {
            (&[length], &[1]) => Some((1, length, *offset)),
            (&[rows, length], &[row, 1]) if rows * row == base.numel() => {
                Some((rows, length, *offset))
            }
            _ => None,
        }
    };
    let Some((rows, ..)) = runs(item.attrs) else { return Ok(None) };
    if base.numel() == 0 || base.numel() % rows != 0 {
        return Ok(None);
    }
    let (mut at, mut attrs, mut part) = (item.inputs[0], item.attrs.clone(), item.inputs[1]);
    let mut parts: Vec<(i64, i64, ValueId)> = Vec::new();
    let mut missing = base.numel() / rows;
    while let Some((_, length, offset)) = runs(&attrs).filter(|&(other, ..)| other == rows) {
        parts.push((offset, length, part));
        missing -= length;
        let write = b.graph().maker(at);
        if missing <= 0 || parts.len() == MOST_WRITES || write.op != Op::AsStridedScatter {
            break;
        }
        (at, attrs, part) = (write.inputs[0], write.attrs.clone(), write.inputs[1]);
    }
    parts.sort_unstable_by_key(|&(offset, ..)| offset);
    let mut until = 0;
    for &(offset, length, _) in &parts {
        if offset != until || length == 0 {
            return Ok(None);
        }
        until += length;
    }
    if missing != 0 || parts.len() < 2 {
        return Ok(None);
    }
    let mut pieces = Values::new();
    for (_, length, part) in parts {
        pieces.push(b.reshape(part, &[rows, length])?);
    }
    let whole = b.op(Op::Concat, &pieces, smallvec![Attr::Int(1)])?;
    b.reshape(whole, &base.sizes).map(Some)
}

/// Operands without elements add nothing; slices that lie side by side are one slice; reshapes move behind the concatenation where
/// that can do without them.
fn concat(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let dim = item.attrs[0].int() as usize;
    let filled = |v: &ValueId| b.ty(*v).sizes[dim] != 0;
    let parts: Values = item.inputs.iter().copied().filter(filled).collect();
    match parts.as_slice() {
        [] => return Ok(Some(item.inputs[0])),
        [only] => return Ok(Some(*only)),
        _ => {}
    }
    if let Some(slice) = side_by_side(b, &parts, dim)? {
        return Ok(Some(slice));
    }
    match concat_before_reshape(b, &parts, dim)? {
        None if parts.len() == item.inputs.len() => Ok(None),
        None => b.op(Op::Concat, &parts, item.attrs.clone()).map(Some),
        found => Ok(found),
    }
}

/// The slice of one array that slices of it make up, each of which begins where the one before it ends, as those of `torch.chunk`.
fn side_by_side(b: &mut Builder, parts: &[ValueId], dim: usize) -> Result<Option<ValueId>> {
    let Some(first) = made_by(b, parts[0], Op::Slice) else { return Ok(None) };
    let (starts, steps) = (first.attrs[0].ints(), first.attrs[2].ints());
    let mut end = starts[dim];
    for &part in parts {
        let node = b.graph().maker(part);
        let begins_there = |d: usize| match d == dim {
            true => node.attrs[0].ints()[d] == end && node.attrs[2].ints()[d] == 1,
            false => node.attrs[0].ints()[d] == starts[d] && node.attrs[2].ints()[d] == steps[d],
        };
        let is_next = node.op == Op::Slice && node.inputs[0] == first.inputs[0];
        if !is_next || !(0..starts.len()).all(begins_there) {
            return Ok(None);
        }
        end += b.ty(part).sizes[dim];
    }
    let mut sizes = b.ty(parts[0]).sizes.clone();
    sizes[dim] = end - starts[dim];
    b.slice(first.inputs[0], starts, &sizes, steps).map(Some)
}

/// `concat(reshape(x), reshape(y))` as `reshape(concat(x, y))`: a kernel that concatenates reads any strides, but the
/// reshape of a transpose has to be copied first. Possible where both forms append runs of the same elements.
fn concat_before_reshape(
    b: &mut Builder,
    parts: &[ValueId],
    dim: usize,
) -> Result<Option<ValueId>> {
    let inner = |&v: &ValueId| made_by(b, v, Op::Reshape).map(|reshape| reshape.inputs[0]);
    let Some(inner) = parts.iter().map(inner).collect::<Option<Values>>() else {
        return Ok(None);
    };
    let runs: i64 = b.ty(parts[0]).sizes[..dim].iter().product();
    let first = b.ty(inner[0]).sizes.clone();
    let suits = |&at: &usize| {
        let alike = |&v: &ValueId| {
            let sizes = &b.ty(v).sizes;
            let same = sizes.len() == first.len();
            same && sizes[..at] == first[..at] && sizes[at + 1..] == first[at + 1..]
        };
        first[..at].iter().product::<i64>() == runs && inner.iter().all(alike)
    };
    let Some(at) = (0..first.len()).find(suits) else { return Ok(None) };
    let mut sizes = b.ty(parts[0]).sizes.clone();
    sizes[dim] = parts.iter().map(|&v| b.ty(v).sizes[dim]).sum();
    let whole = b.op(Op::Concat, &inner, smallvec![Attr::Int(at as i64)])?;
    b.reshape(whole, &sizes).map(Some)
}

/// A buffer that was never written is zero bytes, whatever it is read as.
fn bitcast(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (mut x, dtype) = (item.inputs[0], item.attrs[0].dtype());
    let is_zero = |number: Array| number.bytes.iter().all(|&byte| byte == 0);
    if dtype.has_arithmetic() && splat_value(b, x).is_some_and(is_zero) {
        let out = item.op.infer(&[b.ty(x)], item.attrs)?;
        return splat_of(b, &Array::zeros(&Ty::new(dtype, &[])), &out[0].sizes).map(Some);
    }
    // A bitcast there and back around a reshape is the reshape.
    let under = made_by(b, x, Op::Reshape).map_or(x, |reshape| reshape.inputs[0]);
    if let Some(inner) = made_by(b, under, Op::Bitcast).filter(|_| under != x)
        && b.ty(inner.inputs[0]).dtype == dtype
    {
        let out = item.op.infer(&[b.ty(x)], item.attrs)?;
        return b.reshape(inner.inputs[0], &out[0].sizes).map(Some);
    }
    if let Some(inner) = made_by(b, x, Op::Bitcast) {
        x = inner.inputs[0];
    }
    if b.ty(x).dtype == dtype {
        return Ok(Some(x));
    }
    b.op(Op::Bitcast, &[x], item.attrs.clone()).map(Some)
}
