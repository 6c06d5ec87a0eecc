//! Gradients.

use super::arguments::{id_in, token};
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::borrow;
use super::record::{give, results};
use super::tensor::torchacc_tensor;
use super::{bad, boundary, slice};
use crate::aten;
use crate::error::Result;
use crate::op::Ty;
use crate::record::Operator;
use crate::trace::{ArgRef, Call, TensorRef};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// The row for gradients.
fn operator() -> Operator {
    static ROW: OnceLock<u32> = OnceLock::new();
    let find = || aten::find("torchacc::grad").expect("the table has a row for gradients");
    Operator::Native(*ROW.get_or_init(find))
}

/// Records the derivatives of `loss`, one float, with respect to `count` float tensors, and gives them as new dense tensors
/// of the tensors' types. One record; does not wait. Gradients are operations like others: they may be differentiated again.
///
/// A derivative is taken with respect to the value that a tensor holds at the call, as the tensor shows it: a view has the
/// gradient of its elements. It is zero for a tensor that the loss does not depend on. It flows through floats: through native
/// operators, views, in-place writes; not through comparisons, rounding, integers, the primitive "detach", or the steps of
/// optimizers: "torchacc::adamw" (lists params, grads, means, squares; then step, counted from 1, lr, beta1, beta2,
/// weight_decay, eps → the new params, means, squares) and "torchacc::sgd" (lists params, grads, momentum_buffers or an empty
/// one; then lr, momentum, weight_decay, and the attribute nesterov → the new params, momentum_buffers), which `torchacc_record`
/// writes over the old ones. Their numbers, given as SCALAR_*, cause no recompile.
///
/// The loss must have been recorded since the last cut, and everything between the tensors and the loss too: values computed
/// before that have lost their history. So record the whole step, forward, gradients and update, before any part of it is read,
/// synced or cut. A step longer than the options `trace_limit` or `trace_bytes` is cut automatically: raise them.
///
/// Errors, with nothing recorded: INVALID_ARGUMENT for a loss that is not one float or no longer in the trace, and for a tensor
/// that is not a float, that was written since the loss was computed from it, or that the loss depends on through values
/// computed before the last cut; UNSUPPORTED if the loss depends on a tensor through an operator without a gradient, which the
/// message names; host operators have none. An invalid earlier record of the trace is reported here too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_grad(
    context: *mut torchacc_context,
    loss: *const torchacc_tensor,
    params: *const *mut torchacc_tensor,
    count: usize,
    grads: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let loss = unsafe { borrow(loss)? };
        let handles = unsafe { slice(params, count, "params")? };
        let params: Vec<&torchacc_tensor> = handles
            .iter()
            .map(|&param| unsafe { borrow(param.cast_const()) })
            .collect::<Result<_>>()?;
        if grads.is_null() && count > 0 {
            return Err(bad("grads is NULL"));
        }
        let located = |tensor: &&'_ torchacc_tensor| id_in(context, &tensor.buffer);
        let ids: SmallVec<[_; 8]> = params.iter().map(located).collect::<Result<_>>()?;
        let pairs = params.iter().zip(ids);
        let list = pairs.map(|(param, id)| Some(TensorRef::new(id, &param.view))).collect();
        let loss = TensorRef::new(id_in(context, &loss.buffer)?, &loss.view);
        // Collectives of the backward pass run after those that were recorded before.
        let tokens: SmallVec<[TensorRef; 2]> =
            context.inner.tokens().into_iter().map(token).collect();
        let mut args = vec![ArgRef::Tensor(loss), ArgRef::Tensors(list)];
        if !tokens.is_empty() {
            args.push(ArgRef::Tensors(tokens.iter().copied().map(Some).collect()));
        }
        let ty = |param: &&torchacc_tensor| Ty::new(param.view.dtype, &param.view.layout.sizes);
        let record = |outs: &[TensorRef]| {
            context.inner.record_inferred(&Call { op: operator(), args: &args, outs })
        };
        let made = results(context, params.iter().map(ty).collect(), tokens, record)?;
        unsafe { give(made, grads) };
        Ok(())
    })
}
