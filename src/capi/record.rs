//! Recording: C arguments become the trace's.

use super::buffer::{dtype, torchacc_buffer};
use super::constants::*;
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::{self, borrow, shared};
use super::op::{operator, torchacc_op};
use super::tensor::torchacc_tensor;
use super::{bad, boundary, slice};
use crate::aten;
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::op::Ty;
use crate::record::{
    Arg, Format, Operator, Origin, Read, Record, Records, ScalarKind, Value, View,
};
use crate::shape::{Dims, Layout};
use crate::trace::{BufferId, Given, operator_name};
use std::ffi::c_void;
use std::sync::Arc;

/// A strided view of a buffer. Sizes, strides and offset count elements of `dtype`. A NULL buffer stands for "no tensor".
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_view {
    pub buffer: *mut torchacc_buffer,
    pub sizes: *const i64,
    pub strides: *const i64,
    pub offset: i64,
    pub rank: u32,
    pub dtype: torchacc_dtype,
}

/// Value of an argument; which member counts is said by the kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub union torchacc_value {
    pub i: i64,
    pub f: f64,
    pub p: *const c_void,
}

/// One argument, in the order of the operator's schema without its `out=` arguments.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_arg {
    pub kind: torchacc_arg_kind,
    /// Elements that `v.p` points at, where it points at several.
    pub len: u32,
    pub v: torchacc_value,
}

/// More dimensions than any tensor library has.
const MAX_RANK: u32 = 64;

/// # Safety
/// `view` points at what it says.
unsafe fn view(view: &torchacc_view) -> Result<View> {
    if view.rank > MAX_RANK {
        return Err(bad(format!("rank {} is more than {MAX_RANK}", view.rank)));
    }
    let rank = view.rank as usize;
    // SAFETY: the caller's promise.
    let (sizes, strides) =
        unsafe { (slice(view.sizes, rank, "sizes")?, slice(view.strides, rank, "strides")?) };
    let layout = Layout { sizes: sizes.into(), strides: strides.into(), offset: view.offset };
    Ok(View { dtype: dtype(view.dtype)?, layout })
}

/// The buffer and the view; `None` for "no tensor".
///
/// # Safety
/// `given` points at what it says.
unsafe fn located(given: &torchacc_view) -> Result<Option<(&torchacc_buffer, View)>> {
    if given.buffer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { Ok(Some((borrow(given.buffer)?, view(given)?))) }
}

/// Buffers of one context are not known to another.
fn id_in(context: &torchacc_context, buffer: &torchacc_buffer) -> Result<BufferId> {
    match Arc::ptr_eq(&context.inner, &buffer.context) {
        true => Ok(buffer.id),
        false => Err(bad("a tensor belongs to another context")),
    }
}

/// # Safety
/// `given` points at what its kind says.
unsafe fn argument(context: &torchacc_context, given: &torchacc_arg) -> Result<Given> {
    let len = given.len as usize;
    let tensor = |found: (&torchacc_buffer, View)| Ok((id_in(context, found.0)?, found.1));
    // SAFETY (here and below): the kind says which member of the union was set and what it points at.
    let (i, f, p) = unsafe { (given.v.i, given.v.f, given.v.p) };
    let scalar = |kind| Ok(Given::Scalar { kind, bits: i as u64 });
    let plain = |arg| Ok(Given::Plain(arg));
    match given.kind {
        TORCHACC_ARG_NONE => plain(Arg::None),
        TORCHACC_ARG_VIEW => {
            let views = unsafe { slice(p.cast::<torchacc_view>(), 1, "view")? };
            match unsafe { located(&views[0])? } {
                Some(found) => tensor(found).map(|(buffer, view)| Given::Tensor { buffer, view }),
                None => plain(Arg::None),
            }
        }
        TORCHACC_ARG_VIEWS => {
            let views = unsafe { slice(p.cast::<torchacc_view>(), len, "views")? };
            let each = |view: &torchacc_view| unsafe { located(view)? }.map(tensor).transpose();
            Ok(Given::Tensors(views.iter().map(each).collect::<Result<_>>()?))
        }
        TORCHACC_ARG_TENSOR => {
            let handle = unsafe { borrow(p.cast::<torchacc_tensor>())? };
            let (buffer, view) = tensor((&handle.buffer, handle.view.clone()))?;
            Ok(Given::Tensor { buffer, view })
        }
        TORCHACC_ARG_TENSORS => {
            let handles = unsafe { slice(p.cast::<*const torchacc_tensor>(), len, "tensors")? };
            let each = |&handle: &*const torchacc_tensor| {
                let handle = unsafe { borrow(handle)? };
                tensor((&handle.buffer, handle.view.clone())).map(Some)
            };
            Ok(Given::Tensors(handles.iter().map(each).collect::<Result<_>>()?))
        }
        TORCHACC_ARG_INT => plain(Arg::Int(i)),
        TORCHACC_ARG_FLOAT => plain(Arg::Float(f)),
        TORCHACC_ARG_BOOL => plain(Arg::Bool(i != 0)),
        TORCHACC_ARG_SCALAR_INT => scalar(ScalarKind::Int),
        TORCHACC_ARG_SCALAR_FLOAT => scalar(ScalarKind::Float),
        TORCHACC_ARG_SCALAR_BOOL => {
            Ok(Given::Scalar { kind: ScalarKind::Bool, bits: (i != 0) as u64 })
        }
        TORCHACC_ARG_INTS => {
            plain(Arg::Ints(unsafe { slice(p.cast::<i64>(), len, "ints")? }.into()))
        }
        TORCHACC_ARG_FLOATS => {
            plain(Arg::Floats(unsafe { slice(p.cast::<f64>(), len, "floats")? }.to_vec()))
        }
        TORCHACC_ARG_BOOLS => {
            let bytes = unsafe { slice(p.cast::<u8>(), len, "bools")? };
            plain(Arg::Bools(bytes.iter().map(|&b| b != 0).collect()))
        }
        TORCHACC_ARG_DTYPE => plain(Arg::DType(dtype(i as u32)?)),
        TORCHACC_ARG_STR => {
            let bytes = unsafe { slice(p.cast::<u8>(), len, "text")? };
            let text = std::str::from_utf8(bytes).map_err(|e| bad(format!("text: {e}")))?;
            plain(Arg::Str(text.to_string()))
        }
        other => Err(bad(format!("{other} is not a torchacc_arg_kind"))),
    }
}

/// Scalars that an operator needs to know when it is compiled become attributes.
fn settle(op: Operator, index: usize, given: Given) -> Given {
    match (op, &given) {
        (Operator::Native(row), &Given::Scalar { kind, bits })
            if aten::is_static(row, index, kind, bits) =>
        {
            Given::Plain(match kind {
                ScalarKind::Bool => Arg::Bool(bits != 0),
                ScalarKind::Int => Arg::Int(bits as i64),
                ScalarKind::Float => Arg::Float(f64::from_bits(bits)),
            })
        }
        _ => given,
    }
}

/// # Safety
/// As [`torchacc_record`].
unsafe fn arguments(
    context: &torchacc_context,
    op: Operator,
    args: *const torchacc_arg,
    n_args: usize,
) -> Result<Vec<Given>> {
    // SAFETY: the caller's promise.
    let args = unsafe { slice(args, n_args, "args")? };
    let convert = |(index, arg): (usize, &torchacc_arg)| {
        // SAFETY: the caller's promise.
        unsafe { argument(context, arg) }
            .map(|given| settle(op, index, given))
            .map_err(|e| e.within(format!("{}, argument {index}", operator_name(op))))
    };
    args.iter().enumerate().map(convert).collect()
}

/// Refuses what a native operator cannot compute; the caller may record a host operator instead.
fn supported(op: Operator, dtypes: impl Iterator<Item = DType>) -> Result<()> {
    let Operator::Native(row) = op else { return Ok(()) };
    let dtypes: Vec<DType> = dtypes.collect();
    if aten::accepts(row, &dtypes) {
        return Ok(());
    }
    let message = format!("{} has no native form for {dtypes:?}", aten::name(row));
    Err(Error::new(Code::Unsupported, message))
}

fn dtypes_of(args: &[Given]) -> impl Iterator<Item = DType> + '_ {
    args.iter().flat_map(|given| match given {
        Given::Tensor { view, .. } => vec![view.dtype],
        Given::Tensors(list) => list.iter().flatten().map(|(_, view)| view.dtype).collect(),
        _ => Vec::new(),
    })
}

/// Records an operator. Its results are written to `outs`: first its fresh results in order (views that cover a new buffer),
/// then the arguments it changes, in schema order (in-place self, `out=`, elements of changed lists one by one). What a
/// write does not cover keeps its bytes. Does not wait.
/// Errors, with nothing recorded: INVALID_ARGUMENT; UNSUPPORTED when a native operator has no form for these dtypes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_record(
    context: *mut torchacc_context,
    op: torchacc_op,
    args: *const torchacc_arg,
    n_args: usize,
    outs: *const torchacc_view,
    n_outs: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let op = operator(op)?;
        let args = unsafe { arguments(context, op, args, n_args)? };
        let mut written = Vec::with_capacity(n_outs);
        for given in unsafe { slice(outs, n_outs, "outs")? } {
            match unsafe { located(given)? } {
                Some((buffer, view)) => written.push((id_in(context, buffer)?, view)),
                None => return Err(bad("an output view has no buffer")),
            }
        }
        let dtypes = dtypes_of(&args).chain(written.iter().map(|(_, view)| view.dtype));
        supported(op, dtypes)?;
        context.inner.record(op, args, &written)
    })
}

/// A trace of one operation on dense inputs: what shape inference looks at.
fn alone(op: Operator, args: &[Given]) -> Records {
    let mut records = Records::default();
    let mut read = |view: &View| {
        let (dtype, sizes) = (view.dtype, view.layout.sizes.clone());
        let nbytes = Ty::new(dtype, &sizes).nbytes();
        let origin = Origin::Leaf(records.n_leaves);
        records.n_leaves += 1;
        let layout = Layout::contiguous(&sizes);
        records.values.push(Value { origin, format: Format { dtype, sizes }, nbytes });
        Read { value: records.values.len() as u32 - 1, view: View { dtype, layout } }
    };
    let mut scalars = Vec::new();
    let args = args.iter().map(|given| match given {
        Given::Plain(arg) => arg.clone(),
        Given::Tensor { view, .. } => Arg::Tensor(read(view)),
        Given::Tensors(list) => {
            Arg::Tensors(list.iter().map(|t| t.as_ref().map(|(_, view)| read(view))).collect())
        }
        &Given::Scalar { kind, .. } => {
            scalars.push(kind);
            Arg::Scalar { kind, slot: scalars.len() as u32 - 1 }
        }
    });
    let record = Record { op, args: args.collect(), outs: Vec::new(), site: 0 };
    records.records.push(record);
    records.scalars = scalars;
    records
}

/// Records a native operator on tensors, and gives its results as new dense tensors, whose shapes it infers. `n_outs` must
/// be the number of results. Does not wait. Errors as `torchacc_record`, and those of the operator's shape rule.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_apply(
    context: *mut torchacc_context,
    op: torchacc_op,
    args: *const torchacc_arg,
    n_args: usize,
    outs: *mut *mut torchacc_tensor,
    n_outs: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let op = operator(op)?;
        if let Operator::Host(_) = op {
            return Err(bad("a host operator has no shape rule; use torchacc_record"));
        }
        let args = unsafe { arguments(context, op, args, n_args)? };
        supported(op, dtypes_of(&args))?;
        let types = aten::infer(&alone(op, &args)).map_err(|e| e.within(operator_name(op)))?;
        if types.len() != n_outs || outs.is_null() {
            let message =
                format!("{} gives {} results, not {n_outs}", operator_name(op), types.len());
            return Err(bad(message));
        }
        let made: Vec<torchacc_tensor> = types
            .into_iter()
            .map(|ty| torchacc_tensor::dense(&context.inner, ty.dtype, &ty.sizes))
            .collect::<Result<_>>()?;
        let views: Vec<(BufferId, View)> =
            made.iter().map(|t| (t.buffer.id, t.view.clone())).collect();
        context.inner.record(op, args, &views)?;
        for (index, tensor) in made.into_iter().enumerate() {
            unsafe { outs.add(index).write(handle::share(tensor)) };
        }
        Ok(())
    })
}

/// A tensor that views a buffer.
///
/// # Safety
/// `given` points at what it says.
pub(super) unsafe fn tensor_of(given: &torchacc_view) -> Result<torchacc_tensor> {
    // SAFETY: the caller's promise.
    let (buffer, view) = unsafe { (shared(given.buffer)?, view(given)?) };
    torchacc_tensor::checked(buffer, view)
}

/// Sizes given by a C caller.
///
/// # Safety
/// `sizes` is readable for `rank` elements.
pub(super) unsafe fn sizes_of(sizes: *const i64, rank: u32) -> Result<Dims> {
    if rank > MAX_RANK {
        return Err(bad(format!("rank {rank} is more than {MAX_RANK}")));
    }
    // SAFETY: the caller's promise.
    let sizes = unsafe { slice(sizes, rank as usize, "sizes")? };
    match sizes.iter().find(|&&size| size < 0) {
        Some(size) => Err(bad(format!("a size of {size}"))),
        None => Ok(sizes.into()),
    }
}
