//! Operators: native ones by name, host operators by callback.

use super::constants::*;
use super::context::{User, torchacc_drop_fn};
use super::error::torchacc_error;
use super::record::{torchacc_arg, torchacc_value};
use super::{bad, boundary, put, quiet, torchacc_str};
use crate::aten;
use crate::error::{Code, Error, Result};
use crate::op::host::{self, HostArg, HostOp, HostTensor};
use crate::record::{Operator, ScalarKind};
use std::ffi::c_void;

/// An operator of this process: what `torchacc_op_find` or `torchacc_op_register_host` gave.
pub type torchacc_op = u32;

/// Set in the number of a host operator.
const HOST: u32 = 1 << 31;

/// The operator of a number.
pub(super) fn operator(op: torchacc_op) -> Result<Operator> {
    if op & HOST != 0 {
        let id = op & !HOST;
        return match host::get(id) {
            Some(_) => Ok(Operator::Host(id)),
            None => Err(bad(format!("{op} is not a torchacc_op"))),
        };
    }
    match (op as usize) < aten::count() {
        true => Ok(Operator::Native(op)),
        false => Err(bad(format!("{op} is not a torchacc_op"))),
    }
}

/// Finds a native operator: "aten::add.Tensor" (the in-place and out= forms find the same one), "torchacc::attention", or a
/// primitive's own name. Errors: NOT_FOUND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_op_find(
    name: torchacc_str,
    out: *mut torchacc_op,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: readable, says the header.
        let name = unsafe { name.text()? };
        match aten::find(name) {
            // SAFETY: writable, says the header.
            Some(row) => unsafe { put(out, row) },
            None => Err(Error::new(
                Code::NotFound,
                format!("there is no operator \"{name}\"; torchacc_op_name lists those there are"),
            )),
        }
    })
}

/// How many native operators there are: they are numbered from 0.
#[unsafe(no_mangle)]
pub extern "C" fn torchacc_op_count() -> usize {
    quiet(0, aten::count)
}

/// Name of a native operator; empty for other numbers. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn torchacc_op_name(op: torchacc_op) -> torchacc_str {
    let known = (op as usize) < aten::count();
    quiet(torchacc_str::of(""), || torchacc_str::of(if known { aten::name(op) } else { "" }))
}

/// A dense row-major array that a host operator reads or fills. An absent optional tensor has `data` NULL and `rank` 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_host_tensor {
    pub data: *mut c_void,
    pub sizes: *const i64,
    pub rank: u32,
    pub dtype: torchacc_dtype,
}

/// A host operator. `args` are as recorded, but VIEW and VIEWS point at `torchacc_host_tensor`s (to read only) and SCALAR_*
/// carry the values of this call. Fills every array of `outs`. Returns NULL, or an error from `torchacc_error_new`. Runs on the
/// launch thread; must not call this library otherwise, and must not unwind.
pub type torchacc_host_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        args: *const torchacc_arg,
        n_args: usize,
        outs: *const torchacc_host_tensor,
        n_outs: usize,
    ) -> *mut torchacc_error,
>;

/// Registers a host operator for the rest of the process. `name` is for messages; `key`, any bytes, identifies it: equal keys
/// must behave equally, and registering a key again gives the operator that is there. `user` belongs to the library from the
/// call on: it is dropped when it is not needed, on an error too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_op_register_host(
    name: torchacc_str,
    key: torchacc_str,
    function: torchacc_host_fn,
    user: *mut c_void,
    drop: torchacc_drop_fn,
    out: *mut torchacc_op,
) -> *mut torchacc_error {
    let user = User { pointer: user, drop };
    boundary(move || {
        // SAFETY: readable, says the header.
        let name = unsafe { name.text()? }.to_string();
        // Any bytes will do for a key; as text they stay distinct and printable.
        let key = unsafe { super::slice(key.data.cast::<u8>(), key.len, "key")? };
        let key = key.escape_ascii().to_string();
        let function = function.ok_or_else(|| bad("the function is NULL"))?;
        if out.is_null() {
            return Err(bad("the output pointer is NULL"));
        }
        let call = move |args: &[HostArg], outs: &[HostTensor]| {
            let user: &User = &user;
            let held: Vec<Converted> = args.iter().map(Converted::of).collect();
            let args: Vec<torchacc_arg> = held.iter().map(|c| c.arg).collect();
            let outs: Vec<torchacc_host_tensor> = outs.iter().map(host_tensor).collect();
            // SAFETY: called as its type says; everything passed lives until it returns.
            let error = unsafe {
                function(user.pointer, args.as_ptr(), args.len(), outs.as_ptr(), outs.len())
            };
            // SAFETY: an owned error, says the header.
            if error.is_null() { Ok(()) } else { Err(unsafe { torchacc_error::take(error) }) }
        };
        let id = host::register(HostOp { name, key, function: Box::new(call) });
        // SAFETY: writable, says the header.
        unsafe { put(out, id | HOST) }
    })
}

fn host_tensor(tensor: &HostTensor) -> torchacc_host_tensor {
    torchacc_host_tensor {
        data: tensor.data as *mut c_void,
        sizes: tensor.sizes.as_ptr(),
        rank: tensor.sizes.len() as u32,
        dtype: tensor.dtype as u32,
    }
}

/// An argument in C form, with the arrays that it points at.
struct Converted {
    arg: torchacc_arg,
    _tensors: Vec<torchacc_host_tensor>,
    _bools: Vec<u8>,
}

impl Converted {
    fn of(arg: &HostArg) -> Converted {
        let mut tensors = Vec::new();
        let mut bools = Vec::new();
        let pointer = |p: *const c_void| torchacc_value { p };
        let (kind, len, v) = match arg {
            HostArg::None => (TORCHACC_ARG_NONE, 0, torchacc_value { i: 0 }),
            HostArg::Tensor(t) => {
                tensors.push(host_tensor(t));
                (TORCHACC_ARG_VIEW, 1, pointer(tensors.as_ptr().cast()))
            }
            HostArg::Tensors(list) => {
                tensors.extend(list.iter().map(host_tensor));
                (TORCHACC_ARG_VIEWS, list.len(), pointer(tensors.as_ptr().cast()))
            }
            HostArg::Scalar { kind, bits } => {
                let kind = match kind {
                    ScalarKind::Bool => TORCHACC_ARG_SCALAR_BOOL,
                    ScalarKind::Int => TORCHACC_ARG_SCALAR_INT,
                    ScalarKind::Float => TORCHACC_ARG_SCALAR_FLOAT,
                };
                (kind, 0, torchacc_value { i: *bits as i64 })
            }
            HostArg::Int(i) => (TORCHACC_ARG_INT, 0, torchacc_value { i: *i }),
            HostArg::Float(f) => (TORCHACC_ARG_FLOAT, 0, torchacc_value { f: *f }),
            HostArg::Bool(b) => (TORCHACC_ARG_BOOL, 0, torchacc_value { i: *b as i64 }),
            HostArg::Ints(list) => (TORCHACC_ARG_INTS, list.len(), pointer(list.as_ptr().cast())),
            HostArg::Floats(list) => {
                (TORCHACC_ARG_FLOATS, list.len(), pointer(list.as_ptr().cast()))
            }
            HostArg::Bools(list) => {
                bools.extend(list.iter().map(|&b| b as u8));
                (TORCHACC_ARG_BOOLS, list.len(), pointer(bools.as_ptr().cast()))
            }
            HostArg::DType(d) => (TORCHACC_ARG_DTYPE, 0, torchacc_value { i: *d as i64 }),
            HostArg::Str(s) => (TORCHACC_ARG_STR, s.len(), pointer(s.as_ptr().cast())),
        };
        let arg = torchacc_arg { kind, len: len as u32, v };
        Converted { arg, _tensors: tensors, _bools: bools }
    }
}
