//! Shape rules: the types of an operation's results.

use super::arguments::{Arguments, torchacc_arg};
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::borrow;
use super::op::{operator, torchacc_op};
use super::types::torchacc_type;
use super::{bad, boundary};
use crate::aten;
use crate::error::Result;
use crate::op::Ty;
use crate::op::host::{self, HostArg, HostTensor};
use crate::record::{Arg, Format, Operator, Origin, Read, Record, Records, Value, View};
use crate::shape::{Dims, Layout};
use crate::trace::{ArgRef, Call, TensorRef, operator_name, settled, supported};

/// A trace of one operation on dense inputs, for shape inference.
fn alone(op: Operator, args: &[ArgRef]) -> Records {
    let mut records = Records::default();
    let mut read = |tensor: &TensorRef| {
        let (dtype, sizes) = (tensor.dtype, Dims::from(tensor.sizes));
        let nbytes = Ty::new(dtype, &sizes).nbytes();
        let origin = Origin::Leaf(records.n_leaves);
        records.n_leaves += 1;
        let layout = Layout::contiguous(&sizes);
        records.values.push(Value { origin, format: Format { dtype, sizes }, nbytes });
        Read { value: records.values.len() as u32 - 1, view: View { dtype, layout } }
    };
    let mut scalars = Vec::new();
    let args = args.iter().enumerate().map(|(index, arg_ref)| match arg_ref {
        ArgRef::Tensor(tensor) => Arg::Tensor(read(tensor)),
        ArgRef::Tensors(list) => {
            Arg::Tensors(list.iter().map(|tensor| tensor.as_ref().map(&mut read)).collect())
        }
        &ArgRef::Scalar { kind, bits } => settled(op, index, kind, bits).unwrap_or_else(|| {
            scalars.push(kind);
            Arg::Scalar { kind, number: scalars.len() as u32 - 1 }
        }),
        attribute => attribute.attribute().unwrap_or(Arg::None),
    });
    let record = Record { op, args: args.collect(), outs: Vec::new(), site: 0 };
    records.records.push(record);
    records.scalars = scalars;
    records
}

/// The arguments as a shape rule sees them: tensors have an address that nobody reads.
fn shapes(args: &[ArgRef]) -> Vec<HostArg> {
    let shape = |tensor: &TensorRef| HostTensor {
        data: 1,
        dtype: tensor.dtype,
        sizes: tensor.sizes.into(),
    };
    let arg = |arg_ref: &ArgRef| match arg_ref {
        ArgRef::Tensor(tensor) => HostArg::Tensor(shape(tensor)),
        ArgRef::Tensors(list) => {
            HostArg::Tensors(list.iter().map(|tensor| tensor.as_ref().map(shape)).collect())
        }
        &ArgRef::Scalar { kind, bits } => HostArg::Scalar { kind, number: bits },
        attribute => attribute.attribute().unwrap_or(HostArg::None),
    };
    args.iter().map(arg).collect()
}

/// Types of the `n_outs` results of an operator. Errors: those of its shape rule, and for another number of results.
pub(super) fn types(op: Operator, args: &[ArgRef], n_outs: usize) -> Result<Vec<Ty>> {
    supported(op, args, &[])?;
    let types = match op {
        Operator::Native(_) => aten::infer(&alone(op, args)),
        Operator::Host(id) => match host::get(id).as_ref().and_then(|op| op.shape.as_ref()) {
            Some(rule) => rule(&shapes(args), n_outs),
            None => Err(bad("it was registered without a shape rule; use torchacc_record")),
        },
    };
    let types = types.map_err(|e| e.within(operator_name(op)))?;
    match types.len() == n_outs {
        true => Ok(types),
        false => {
            let name = operator_name(op);
            Err(bad(format!("{name} gives {} results, not {n_outs}", types.len())))
        }
    }
}

/// Checks that each result of a call has the sizes of the tensor that it is to be written to.
pub(super) fn check(call: &Call) -> Result<()> {
    for (index, (ty, out)) in
        types(call.op, call.args, call.outs.len())?.iter().zip(call.outs).enumerate()
    {
        if ty.sizes.as_slice() != out.sizes {
            let name = operator_name(call.op);
            let (is, passed) = (&ty.sizes, out.sizes);
            let message = format!("{name}: result {index} has sizes {is:?}, its tensor {passed:?}");
            return Err(bad(message));
        }
    }
    Ok(())
}

/// Gives the types of an operator's results by its shape rule, for arguments as for `torchacc_record` (strides do not count).
/// `n_outs` must be the number of results. Records nothing. Errors: INVALID_ARGUMENT when the operator does not take such
/// arguments, UNSUPPORTED when it has no form for these dtypes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_infer(
    context: *mut torchacc_context,
    op: torchacc_op,
    args: *const torchacc_arg,
    n_args: usize,
    outs: *mut torchacc_type,
    n_outs: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let op = operator(op)?;
        let mut arguments = Arguments::default();
        unsafe { arguments.take(context, op, args, n_args, |_| [0; 2])? };
        let args = &arguments;
        if outs.is_null() {
            return Err(bad("outs is NULL"));
        }
        let types = types(op, &args.refs, args.results(n_outs))?;
        let types: Vec<torchacc_type> =
            types.iter().take(n_outs).map(torchacc_type::of).collect::<Result<_>>()?;
        unsafe { std::ptr::copy_nonoverlapping(types.as_ptr(), outs, types.len()) };
        Ok(())
    })
}
