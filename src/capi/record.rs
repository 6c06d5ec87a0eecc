//! Recording of operators, with new tensors or existing ones as results.

use super::arguments::{Arguments, all_located, id_in, located, torchacc_arg};
use super::buffer::torchacc_buffer;
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::{self, Owned, borrow};
use super::op::{operator, torchacc_op};
use super::tensor::torchacc_tensor;
use super::types::torchacc_view;
use super::{bad, boundary, infer, slice};
use crate::error::Result;
use crate::op::Ty;
use crate::record::Operator;
use crate::runtime::Context;
use crate::trace::{Call, TensorRef};
use smallvec::SmallVec;

/// Records an operator. Its results are written to `outs`: first its fresh results in order (views that cover a new buffer),
/// then the arguments it changes, in schema order (in-place self, `out=`, elements of changed lists one by one). Bytes that a
/// write does not cover are kept. Does not wait.
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

/// New dense tensors of these types, after `record` has recorded the operation that fills them. `record` gets these tensors,
/// followed by `tokens`.
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
/// `outs` has room for all of them.
pub(super) unsafe fn give(
    tensors: impl IntoIterator<Item = torchacc_tensor>,
    outs: *mut *mut torchacc_tensor,
) {
    for (index, tensor) in tensors.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { outs.add(index).write(handle::give(tensor)) };
    }
}

/// Records an operation whose result types are inferred from its arguments.
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
        // If the operation repeats one of a known trace, the comparison gives its results.
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

/// Whether an integer of the operation that is recorded next (the start of a slice, a shift) changes from run to run of this
/// program: `changes` is true from the second run on that brought a new one. An operation whose integer changes is better
/// recorded with indices that are computed from a SCALAR_INT, since as an INT every integer makes a program of its own; one that
/// stays is faster as it is. A program is the operations recorded since the last cut, up to the first such question since.
/// `kind` distinguishes integers: a hash of the operator and of all else that decides which are alike. Records nothing. Errors:
/// INVALID_ARGUMENT.
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

/// Number of tensors, from the first one on, that `torchacc_concatenate` can concatenate of a list that the operation recorded
/// next reads (`cat`), if the list changes from run to run of this program, in the sense of `torchacc_integer_changes` but from
/// the third new one on: in its length, or in which tensors share memory with each other or with tensors that the program has
/// read. 0 for a list that stays, and where memory is not the host's. Records nothing. Errors: INVALID_ARGUMENT.
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

/// Makes the elements of `parts`, one after another, the content of the whole buffer of `out`. Records nothing: the values of
/// tensors in memory, or promised by programs that were cut, are copied as bytes, and the list is not part of a program. Waits
/// only while many programs are queued.
/// Errors: INVALID_ARGUMENT for parts that are not dense or whose values are still in the trace, and for an `out` of another
/// size.
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
