//! Converts the C arguments of a call to the trace's.

use super::buffer::{dtype, torchacc_buffer};
use super::constants::*;
use super::context::torchacc_context;
use super::handle::borrow;
use super::tensor::torchacc_tensor;
use super::types::{dims, torchacc_view};
use super::{bad, slice};
use crate::error::{Error, Result};
use crate::op::arg::ScalarKind;
use crate::op::collective::TOKEN;
use crate::record::Operator;
use crate::runtime::{Context, TOKEN_SIZES};
use crate::trace::{ArgRef, BufferId, TensorRef, operator_name};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;

/// Value of an argument; the kind says which member is set.
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
    /// Number of elements at `v.p`, for kinds that take several.
    pub len: u32,
    pub v: torchacc_value,
}

/// A view in a buffer of the context; `None` for "no tensor".
///
/// # Safety
/// The pointers in `raw` are valid for the lengths that it states, for as long as the result is used.
pub(super) unsafe fn located<'a>(
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

/// The buffer's id. Error: the buffer belongs to another context.
pub(super) fn id_in(context: &torchacc_context, buffer: &torchacc_buffer) -> Result<BufferId> {
    match Arc::ptr_eq(&context.inner, &buffer.context) {
        true => Ok(buffer.id),
        false => Err(bad("a tensor belongs to another context")),
    }
}

/// # Safety
/// The pointer in `raw` is valid as its kind requires, for as long as the result is used.
unsafe fn argument<'a>(context: &torchacc_context, raw: &torchacc_arg) -> Result<ArgRef<'a>> {
    let len = raw.len as usize;
    // SAFETY (here and below): the kind says which member of the union is set and which type it points at.
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

/// The converted arguments of a call, without an allocation for most calls.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    pub refs: SmallVec<[ArgRef<'a>; 8]>,
    /// The token, which a collective writes in addition to its result.
    pub token: Option<TensorRef<'static>>,
}

impl<'a> Arguments<'a> {
    /// Number of results of an operator that gives the caller `n_outs`.
    pub fn results(&self, n_outs: usize) -> usize {
        n_outs + self.token.is_some() as usize
    }

    /// Converts a caller's arguments into `self`, where they stay, since they are large. If one is random, the seed and offset
    /// from `draw` follow the last one. A communicator becomes its number, its size, its token and this rank.
    ///
    /// # Safety
    /// As [`super::record::torchacc_record`], for as long as `self` is used.
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
        // At the end a random argument stands for both numbers, elsewhere for an argument that no row reads.
        let positional =
            if args.last().is_some_and(random) { &args[..args.len() - 1] } else { args };
        for (index, arg) in positional.iter().enumerate() {
            let within = |e: Error| e.within(format!("{}, argument {index}", operator_name(op)));
            if arg.kind == TORCHACC_ARG_COMMUNICATOR {
                // SAFETY: the kind says that it points at text.
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

/// The tensor in the buffer of a communicator's token.
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

/// # Safety
/// `list` points at `len` views, for as long as the result is used.
pub(super) unsafe fn all_located<'a>(
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
