//! Shape rules: what an operation's results will be.

use super::constants::torchacc_dtype;
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::borrow;
use super::op::{operator, torchacc_op};
use super::record::{TORCHACC_MAX_RANK, arguments, torchacc_arg};
use super::{bad, boundary};
use crate::aten;
use crate::error::Result;
use crate::op::Ty;
use crate::record::{Arg, Format, Operator, Origin, Read, Record, Records, Value, View};
use crate::shape::{Dims, Layout};
use crate::trace::{Given, Located, operator_name, settled, supported};

/// Element type and sizes of a dense tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_type {
    pub dtype: torchacc_dtype,
    pub rank: u32,
    /// The first `rank` count.
    pub sizes: [i64; TORCHACC_MAX_RANK as usize],
}

/// A trace of one operation on dense inputs: what shape inference looks at.
fn alone(op: Operator, args: &[Given]) -> Records {
    let mut records = Records::default();
    let mut read = |tensor: &Located| {
        let (dtype, sizes) = (tensor.dtype, Dims::from(tensor.sizes));
        let nbytes = Ty::new(dtype, &sizes).nbytes();
        let origin = Origin::Leaf(records.n_leaves);
        records.n_leaves += 1;
        let layout = Layout::contiguous(&sizes);
        records.values.push(Value { origin, format: Format { dtype, sizes }, nbytes });
        Read { value: records.values.len() as u32 - 1, view: View { dtype, layout } }
    };
    let mut scalars = Vec::new();
    let args = args.iter().enumerate().map(|(index, given)| match given {
        Given::Tensor(tensor) => Arg::Tensor(read(tensor)),
        Given::Tensors(list) => {
            Arg::Tensors(list.iter().map(|tensor| tensor.as_ref().map(&mut read)).collect())
        }
        &Given::Scalar { kind, bits } => settled(op, index, kind, bits).unwrap_or_else(|| {
            scalars.push(kind);
            Arg::Scalar { kind, slot: scalars.len() as u32 - 1 }
        }),
        attribute => attribute.attribute().unwrap_or(Arg::None),
    });
    let record = Record { op, args: args.collect(), outs: Vec::new(), site: 0 };
    records.records.push(record);
    records.scalars = scalars;
    records
}

/// Types of the `n_outs` results of a native operator. Errors: those of its shape rule, and for another number of results.
pub(super) fn types(op: Operator, args: &[Given], n_outs: usize) -> Result<Vec<Ty>> {
    if let Operator::Host(_) = op {
        return Err(bad("a host operator has no shape rule; use torchacc_record"));
    }
    supported(op, args.iter().flat_map(Given::tensors).map(|tensor| tensor.dtype))?;
    let types = aten::infer(&alone(op, args)).map_err(|e| e.within(operator_name(op)))?;
    match types.len() == n_outs {
        true => Ok(types),
        false => {
            let name = operator_name(op);
            Err(bad(format!("{name} gives {} results, not {n_outs}", types.len())))
        }
    }
}

/// What a native operator's results would be: its shape rule, for arguments as of `torchacc_record` (strides do not count).
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
        let args = unsafe { arguments(context, op, args, n_args)? };
        if outs.is_null() {
            return Err(bad("outs is NULL"));
        }
        let types = types(op, &args, n_outs)?;
        if types.iter().any(|ty| ty.rank() > TORCHACC_MAX_RANK as usize) {
            return Err(bad(format!("a result has more than {TORCHACC_MAX_RANK} dimensions")));
        }
        for (index, ty) in types.iter().enumerate() {
            let mut sizes = [0; TORCHACC_MAX_RANK as usize];
            sizes[..ty.rank()].copy_from_slice(&ty.sizes);
            let rank = ty.rank() as u32;
            unsafe { outs.add(index).write(torchacc_type { dtype: ty.dtype as u32, rank, sizes }) };
        }
        Ok(())
    })
}
