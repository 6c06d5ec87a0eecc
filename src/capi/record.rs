//! Recording: C arguments become the trace's.

use super::buffer::{dtype, torchacc_buffer};
use super::constants::*;
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::{self, Owned, borrow, owner};
use super::op::{operator, torchacc_op};
use super::tensor::torchacc_tensor;
use super::{bad, boundary, infer, slice};
use crate::error::{Error, Result};
use crate::op::Ty;
use crate::op::arg::ScalarKind;
use crate::op::collective::TOKEN;
use crate::record::{Operator, View};
use crate::runtime::{Context, TOKEN_SIZES};
use crate::shape::{Dims, Layout};
use crate::trace::{ArgRef, BufferId, Call, TensorRef, operator_name};
use smallvec::SmallVec;
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
pub const TORCHACC_MAX_RANK: u32 = 64;

/// Sizes and strides of a view.
///
/// # Safety
/// `view` points at what it says, for as long as the result is used.
unsafe fn dims<'a>(view: &torchacc_view) -> Result<(&'a [i64], &'a [i64])> {
    if view.rank > TORCHACC_MAX_RANK {
        return Err(bad(format!("rank {} is more than {TORCHACC_MAX_RANK}", view.rank)));
    }
    let rank = view.rank as usize;
    // SAFETY: the caller's promise.
    unsafe { Ok((slice(view.sizes, rank, "sizes")?, slice(view.strides, rank, "strides")?)) }
}

/// A view in a buffer of the context; `None` for "no tensor".
///
/// # Safety
/// `raw` points at what it says, for as long as the result is used.
unsafe fn located<'a>(
    context: &torchacc_context,
    raw: &torchacc_view,
) -> Result<Option<TensorRef<'a>>> {
    if raw.buffer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let (buffer, (sizes, strides)) = unsafe { (borrow(raw.buffer)?, dims(raw)?) };
    let (buffer, dtype) = (id_in(context, buffer)?, dtype(raw.dtype)?);
    Ok(Some(TensorRef { buffer, dtype, sizes, strides, offset: raw.offset }))
}

/// Buffers of one context are not known to another.
pub(super) fn id_in(context: &torchacc_context, buffer: &torchacc_buffer) -> Result<BufferId> {
    match Arc::ptr_eq(&context.inner, &buffer.context) {
        true => Ok(buffer.id),
        false => Err(bad("a tensor belongs to another context")),
    }
}

/// # Safety
/// `raw` points at what its kind says, for as long as the result is used.
unsafe fn argument<'a>(context: &torchacc_context, raw: &torchacc_arg) -> Result<ArgRef<'a>> {
    let len = raw.len as usize;
    // SAFETY (here and below): the kind says which member of the union was set and what it points at.
    let (i, f, p) = unsafe { (raw.v.i, raw.v.f, raw.v.p) };
    Ok(match raw.kind {
        TORCHACC_ARG_NONE | TORCHACC_ARG_RANDOM => ArgRef::None,
        TORCHACC_ARG_VIEW => {
            let views = unsafe { slice(p.cast::<torchacc_view>(), 1, "view")? };
            unsafe { located(context, &views[0])? }.map_or(ArgRef::None, ArgRef::Tensor)
        }
        TORCHACC_ARG_VIEWS => {
            let views = unsafe { slice(p.cast::<torchacc_view>(), len, "views")? };
            let each = |view: &torchacc_view| unsafe { located(context, view) };
            ArgRef::Tensors(views.iter().map(each).collect::<Result<_>>()?)
        }
        TORCHACC_ARG_TENSOR => {
            let handle = unsafe { borrow(p.cast::<torchacc_tensor>())? };
            ArgRef::Tensor(TensorRef::new(id_in(context, &handle.buffer)?, &handle.view))
        }
        TORCHACC_ARG_TENSORS => {
            let handles = unsafe { slice(p.cast::<*const torchacc_tensor>(), len, "tensors")? };
            let each = |&handle: &*const torchacc_tensor| {
                let handle = unsafe { borrow(handle)? };
                Ok(Some(TensorRef::new(id_in(context, &handle.buffer)?, &handle.view)))
            };
            ArgRef::Tensors(handles.iter().map(each).collect::<Result<_>>()?)
        }
        TORCHACC_ARG_INT => ArgRef::Int(i),
        TORCHACC_ARG_FLOAT => ArgRef::Float(f),
        TORCHACC_ARG_BOOL => ArgRef::Bool(i != 0),
        TORCHACC_ARG_SCALAR_INT => ArgRef::Scalar { kind: ScalarKind::Int, bits: i as u64 },
        TORCHACC_ARG_SCALAR_FLOAT => ArgRef::Scalar { kind: ScalarKind::Float, bits: i as u64 },
        TORCHACC_ARG_SCALAR_BOOL => {
            ArgRef::Scalar { kind: ScalarKind::Bool, bits: (i != 0) as u64 }
        }
        TORCHACC_ARG_INTS => ArgRef::Ints(unsafe { slice(p.cast(), len, "ints")? }),
        TORCHACC_ARG_FLOATS => ArgRef::Floats(unsafe { slice(p.cast(), len, "floats")? }),
        TORCHACC_ARG_BOOLS => ArgRef::Bools(unsafe { slice(p.cast(), len, "bools")? }),
        TORCHACC_ARG_DTYPE => ArgRef::DType(dtype(i as u32)?),
        TORCHACC_ARG_STR => ArgRef::Str(unsafe { text(raw)? }),
        other => return Err(bad(format!("{other} is not a torchacc_arg_kind"))),
    })
}

/// Arguments of most calls, without a trip to the allocator.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    pub refs: SmallVec<[ArgRef<'a>; 8]>,
    /// What a collective writes in addition to its result.
    token: Option<TensorRef<'static>>,
}

impl<'a> Arguments<'a> {
    /// How many results an operator has that gives the caller `n_outs`.
    pub fn results(&self, n_outs: usize) -> usize {
        n_outs + self.token.is_some() as usize
    }

    /// Takes a caller's arguments, into the place where they stay: they are large. Where one is random, seed and offset, which
    /// `draw` gives, stand after the last. A communicator is its number, its size, its token and this rank.
    ///
    /// # Safety
    /// As [`torchacc_record`], for as long as `self` is used.
    pub unsafe fn take(
        &mut self,
        context: &torchacc_context,
        op: Operator,
        args: *const torchacc_arg,
        n_args: usize,
        draw: impl FnOnce(&Context) -> [u64; 2],
    ) -> Result<()> {
        // SAFETY (here and below): the caller's promise.
        let args = unsafe { slice(args, n_args, "args")? };
        let random = |arg: &torchacc_arg| arg.kind == TORCHACC_ARG_RANDOM;
        // At the end it stands for both numbers, elsewhere for an argument that no row looks at.
        let positional =
            if args.last().is_some_and(random) { &args[..args.len() - 1] } else { args };
        for (index, arg) in positional.iter().enumerate() {
            let within = |e: Error| e.within(format!("{}, argument {index}", operator_name(op)));
            if arg.kind == TORCHACC_ARG_COMMUNICATOR {
                // SAFETY: the kind says what it points at.
                let name = unsafe { text(arg) }.map_err(within)?;
                self.push_communicator(&context.inner, name).map_err(within)?;
                continue;
            }
            self.refs.push(unsafe { argument(context, arg) }.map_err(within)?);
        }
        if args.iter().any(random) {
            let number = |bits| ArgRef::Scalar { kind: ScalarKind::Int, bits };
            self.refs.extend(draw(&context.inner).map(number));
        }
        if self.token.is_some() && matches!(op, Operator::Host(_)) {
            return Err(bad("a host operator takes no communicator"));
        }
        Ok(())
    }

    fn push_communicator(&mut self, context: &Context, name: &str) -> Result<()> {
        let known = context.communicator(name)?;
        let scalar = |bits| ArgRef::Scalar { kind: ScalarKind::Int, bits };
        let token = || ArgRef::Tensor(token(known.token));
        let (number, rank) = (scalar(known.number), scalar(known.rank as u64));
        self.refs.extend([number, ArgRef::Int(known.size), token(), rank]);
        self.token = Some(self::token(known.token));
        Ok(())
    }
}

/// A communicator's token in its buffer.
pub(super) fn token(buffer: BufferId) -> TensorRef<'static> {
    TensorRef { buffer, dtype: TOKEN.0, sizes: &TOKEN_SIZES, strides: &TOKEN_SIZES, offset: 0 }
}

/// # Safety
/// `v.p` points at `len` bytes, for as long as the result is used.
unsafe fn text<'a>(arg: &torchacc_arg) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice(arg.v.p.cast::<u8>(), arg.len as usize, "text")? };
    std::str::from_utf8(bytes).map_err(|e| bad(format!("text: {e}")))
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
        let mut arguments = Arguments::default();
        unsafe { arguments.take(context, op, args, n_args, Context::draw)? };
        let args = &arguments;
        let mut written: SmallVec<[TensorRef; 4]> = SmallVec::new();
        for raw in unsafe { slice(outs, n_outs, "outs")? } {
            match unsafe { located(context, raw)? } {
                Some(tensor) => written.push(tensor),
                None => return Err(bad("an output view has no buffer")),
            }
        }
        written.extend(args.token);
        context.inner.record(&Call { op, args: &args.refs, outs: &written })
    })
}

/// New dense tensors of these types, when `record` has recorded what fills them. Their places come before those of `tokens`.
pub(super) fn results(
    context: &torchacc_context,
    types: Vec<Ty>,
    tokens: impl IntoIterator<Item = TensorRef<'static>>,
    record: impl FnOnce(&[TensorRef]) -> Result<()>,
) -> Result<Vec<torchacc_tensor>> {
    let make = |ty: Ty| torchacc_tensor::dense(&context.inner, ty.dtype, &ty.sizes);
    let made: Vec<torchacc_tensor> = types.into_iter().map(make).collect::<Result<_>>()?;
    let outs = made.iter().map(|tensor| TensorRef::new(tensor.buffer.id, &tensor.view));
    let mut written: SmallVec<[TensorRef; 4]> = outs.collect();
    for token in tokens {
        written.push(token);
    }
    record(&written)?;
    drop(written);
    Ok(made)
}

/// Hands tensors over to a C caller.
///
/// # Safety
/// `outs` has room for as many.
pub(super) unsafe fn give(
    tensors: impl IntoIterator<Item = torchacc_tensor>,
    outs: *mut *mut torchacc_tensor,
) {
    for (index, tensor) in tensors.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { outs.add(index).write(handle::give(tensor)) };
    }
}

/// Records an operation whose results have the types that follow from its arguments.
fn inferred(
    context: &torchacc_context,
    op: Operator,
    args: &Arguments,
    n_outs: usize,
) -> Result<Vec<torchacc_tensor>> {
    let mut types = infer::types(op, &args.refs, args.results(n_outs))?;
    types.truncate(n_outs);
    let record =
        |outs: &[TensorRef]| context.inner.record_inferred(&Call { op, args: &args.refs, outs });
    results(context, types, args.token, record)
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
        let mut arguments = Arguments::default();
        unsafe { arguments.take(context, op, args, n_args, Context::draw)? };
        let args = &arguments;
        if outs.is_null() && n_outs > 0 {
            return Err(bad("outs is NULL"));
        }
        // A step that comes again: the comparison with it says what the results are.
        let again = context.inner.record_fresh_again(op, &args.refs, n_outs, args.token)?;
        match again {
            Some(made) => {
                let tensor = |(id, view)| {
                    let buffer = torchacc_buffer::of(&context.inner, id);
                    torchacc_tensor::new(Owned::new(buffer), view)
                };
                unsafe { give(made.into_iter().map(tensor), outs) };
            }
            None => unsafe { give(inferred(context, op, args, n_outs)?, outs) },
        }
        Ok(())
    })
}

/// As `torchacc_record`, with tensors for the results, which are written through them: `outs` may be arguments of the
/// same call (x = x + y in place), and views. A result is cast to its tensor's dtype. Does not wait.
/// Errors as `torchacc_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_apply_into(
    context: *mut torchacc_context,
    op: torchacc_op,
    args: *const torchacc_arg,
    n_args: usize,
    outs: *const *mut torchacc_tensor,
    n_outs: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let op = operator(op)?;
        let mut arguments = Arguments::default();
        unsafe { arguments.take(context, op, args, n_args, Context::draw)? };
        let args = &arguments;
        let mut written: SmallVec<[TensorRef; 4]> = SmallVec::new();
        for &out in unsafe { slice(outs, n_outs, "outs")? } {
            let tensor = unsafe { borrow(out.cast_const())? };
            id_in(context, &tensor.buffer)?;
            written.push(tensor.target()?);
        }
        written.extend(args.token);
        let call = Call { op, args: &args.refs, outs: &written };
        if context.inner.record_again(&call)? {
            return Ok(());
        }
        infer::check(&call)?;
        context.inner.record(&call)
    })
}

/// Whether an integer of the operation that is recorded next (the place of a slice, a shift) changes from run to run of this
/// program: `changes` is true from the second run on that brought a new one. An operation whose integer changes is better recorded
/// with indices that are computed from a SCALAR_INT, for as an INT every integer makes a program of its own; one that stays is
/// faster as it is. A program is the operations recorded since the last cut, up to the first such question since. `kind` tells
/// integers apart: a hash of the operator and of what else decides which are alike. Records nothing. Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_integer_changes(
    context: *mut torchacc_context,
    kind: u64,
    integer: i64,
    changes: *mut bool,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        let said = unsafe { borrow(context)? }.inner.changes(kind, integer)?;
        // SAFETY: writable, says the header.
        unsafe { super::put(changes, said) }
    })
}

/// How many tensors of a list that the operation recorded next reads (`cat`), from its first on, `torchacc_concatenate` can put
/// together, if the list changes from run to run of this program, as `torchacc_integer_changes` says it but from the third new one on:
/// how many there are, and which are the same memory as others, or as what the program has read. 0 for a list that stays, and where memory is not the
/// host's. Records nothing. Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_list_changes(
    context: *mut torchacc_context,
    kind: u64,
    list: *const torchacc_view,
    len: usize,
    stored: *mut usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let list = unsafe { all_located(context, list, len)? };
        unsafe { super::put(stored, context.inner.changing_list(kind, &list)?) }
    })
}

/// Makes the elements of `parts`, one after another, the content of the whole buffer of `out`. Nothing is recorded: what tensors are
/// in memory, or will be of programs that were cut, is copied as bytes, and the list is no part of a program. Waits only while many programs are queued.
/// Errors: INVALID_ARGUMENT for parts that are not dense or that are recorded only, and for an `out` of another size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_concatenate(
    context: *mut torchacc_context,
    parts: *const torchacc_view,
    n_parts: usize,
    out: *const torchacc_view,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let parts = unsafe { all_located(context, parts, n_parts)? };
        let out = unsafe { all_located(context, out, 1)? };
        if out[0].view().covers(context.inner.nbytes(out[0].buffer)).is_none() {
            return Err(bad("what parts are put into is not a whole buffer"));
        }
        context.inner.concatenate(&parts, out[0].buffer)
    })
}

/// # Safety
/// `list` points at `len` views, for as long as the result is used.
unsafe fn all_located<'a>(
    context: &torchacc_context,
    list: *const torchacc_view,
    len: usize,
) -> Result<SmallVec<[TensorRef<'a>; 8]>> {
    // SAFETY: the caller's promise.
    let views = unsafe { slice(list, len, "views")? };
    let each = |raw| match unsafe { located(context, raw)? } {
        Some(tensor) => Ok(tensor),
        None => Err(bad("a view has no buffer")),
    };
    views.iter().map(each).collect()
}

/// A tensor that views a buffer.
///
/// # Safety
/// `raw` points at what it says.
pub(super) unsafe fn tensor_of(raw: &torchacc_view) -> Result<torchacc_tensor> {
    // SAFETY: the caller's promise.
    let (buffer, (sizes, strides)) = unsafe { (owner(raw.buffer)?, dims(raw)?) };
    let layout = Layout { sizes: sizes.into(), strides: strides.into(), offset: raw.offset };
    torchacc_tensor::checked(buffer, View { dtype: dtype(raw.dtype)?, layout })
}

/// Sizes given by a C caller.
///
/// # Safety
/// `sizes` is readable for `rank` elements.
pub(super) unsafe fn sizes_of(sizes: *const i64, rank: u32) -> Result<Dims> {
    if rank > TORCHACC_MAX_RANK {
        return Err(bad(format!("rank {rank} is more than {TORCHACC_MAX_RANK}")));
    }
    // SAFETY: the caller's promise.
    let sizes = unsafe { slice(sizes, rank as usize, "sizes")? };
    match sizes.iter().find(|&&size| size < 0) {
        Some(size) => Err(bad(format!("a size of {size}"))),
        None => Ok(sizes.into()),
    }
}
