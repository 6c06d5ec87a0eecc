//! Operators: native ones by name, host operators by callback.

use super::arguments::{torchacc_arg, torchacc_value};
use super::constants::*;
use super::context::{User, torchacc_drop_fn};
use super::device::torchacc_device;
use super::error::{outcome, torchacc_error, torchacc_string};
use super::sized::{self, Growing};
use super::types::torchacc_type;
use super::{bad, boundary, calling, put, quiet, torchacc_str};
use crate::aten;
use crate::error::{Code, Error, Result};
use crate::op::arg::ScalarKind;
use crate::op::host::{self, CudaForm, DeviceFn, HostArg, HostFn, HostOp, HostTensor, ShapeFn};
use crate::record::Operator;
use std::ffi::c_void;
use std::sync::Arc;

/// The number of an operator in this process, from `torchacc_op_find` or `torchacc_op_register_host`.
pub type torchacc_op = u32;

/// Set in the number of a host operator.
const HOST: u32 = 1 << 31;

/// The operator with this number.
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
/// plain name: a primitive's ("add", "matmul": exact types, no defaults), else PyTorch's without namespace ("gelu", "cat").
/// Numbers hold for this process and library only. Errors: NOT_FOUND.
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

/// Number of native operators, which are numbered from 0.
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

/// The `TORCHACC_FACT_*` of an operator of PyTorch, such as "aten::nonzero" or "aten::index.Tensor", in any of its forms, native
/// here or not: for programs that record PyTorch's calls. 0 for other names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_op_facts(name: torchacc_str) -> torchacc_facts {
    // SAFETY: readable, says the header.
    quiet(0, || unsafe { name.text() }.map_or(0, aten::facts::facts))
}

/// Describes the arguments and results of a native operator, for programs that make bindings: a JSON object of
///
/// - `name`, `number`, and `doc` where there is more to say;
/// - `forms`, one or more, each with `overload`, `arguments` and `results`. An argument has a `name`, a `type`, and where it
///   applies `list` (several), `gaps` (elements may be absent), `optional` (NONE for absent) and `default` (NONE stands
///   for it; arguments at the end may be left out). A result has a `type`, and `list` for a list of tensors.
///
/// The types and the kinds of argument that they take: tensor (VIEW, TENSOR), scalar and float (SCALAR_*, or INT, FLOAT and
/// BOOL to have it compiled in), int (INT), bool (BOOL), dtype (DTYPE), text (STR), generator (RANDOM), communicator
/// (COMMUNICATOR), unused (NONE). A list
/// takes the kind in the plural. A tensor may be a number instead where the operator is elementwise.
/// Errors: NOT_FOUND for a number that is no native operator's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_op_signature(
    op: torchacc_op,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    boundary(|| {
        if (op as usize) >= aten::count() {
            return Err(Error::new(Code::NotFound, format!("{op} is not a native operator")));
        }
        if out.is_null() {
            return Err(bad("the output pointer is NULL"));
        }
        // SAFETY: writable, says the header.
        unsafe { put(out, torchacc_string::owned(aten::signature(op))) }
    })
}

/// A dense row-major array that a host operator reads or fills, in host memory (a device's for a `torchacc_device_fn`). An
/// absent optional tensor has `data` NULL and `rank` 0.
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
/// launch thread; must not call this library otherwise (functions that can fail return INVALID_ARGUMENT there), and must not
/// unwind.
pub type torchacc_host_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        args: *const torchacc_arg,
        n_args: usize,
        outs: *const torchacc_host_tensor,
        n_outs: usize,
    ) -> *mut torchacc_error,
>;

/// A host operator on a device: as a `torchacc_host_fn`, with arrays in the memory of the context's `device`. Its work is queued
/// on `device->stream`, in whose order the arrays are used before and after; on the host (`stream` NULL) it is done when this
/// returns. The error UNSUPPORTED means that it cannot do this: `function` is called then, and from then on for this call of the
/// program; an operator without one has failed.
pub type torchacc_device_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        device: *const torchacc_device,
        args: *const torchacc_arg,
        n_args: usize,
        outs: *const torchacc_host_tensor,
        n_outs: usize,
    ) -> *mut torchacc_error,
>;

/// The shape rule of a host operator: writes the types of its `n_outs` results. `args` are as for `torchacc_host_fn`, but the
/// memory of tensors must not be read. Returns NULL, or an error from `torchacc_error_new`. Runs within `torchacc_apply`,
/// `torchacc_apply_into` and `torchacc_infer`, on the thread that calls them; must not call this library otherwise, as a
/// `torchacc_host_fn`, and must not unwind.
pub type torchacc_shape_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        args: *const torchacc_arg,
        n_args: usize,
        outs: *mut torchacc_type,
        n_outs: usize,
    ) -> *mut torchacc_error,
>;

/// A host operator to register. May grow at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_host_op {
    /// `sizeof(torchacc_host_op)` of the caller.
    pub struct_size: usize,
    /// For messages.
    pub name: torchacc_str,
    /// Any bytes that identify the operator: operators with equal keys must behave equally, in every process. The fields
    /// `cuda_*` are part of it implicitly.
    pub key: torchacc_str,
    /// NULL only if there is a `cuda_source` or a `device_function`: contexts that cannot use these fail, with UNSUPPORTED, when
    /// the operator runs.
    pub function: torchacc_host_fn,
    /// The shape rule; NULL for none: then only `torchacc_record`, which is passed the results, takes the operator.
    pub shape: torchacc_shape_fn,
    /// Passed to all functions.
    pub user: *mut c_void,
    pub drop: torchacc_drop_fn,
    /// The operator for the backend cuda, as CUDA C++; empty for none: then a function is called there too. Compiled by NVRTC
    /// when a program with it is compiled, without headers; the compiler's message becomes the program's error, OPERATOR_ERROR.
    /// The text is placed in a namespace of its own, which has
    ///
    /// - `template <class T> struct Tensor { T* data; const long long* sizes; int rank; long long count; };`, dense and
    ///   row-major, of `count` elements;
    /// - `struct f16 { unsigned short bits; };`, `float f32_of(f16);`, `f16 f16_of(float);`, and the same of `bf16`.
    pub cuda_source: torchacc_str,
    /// The `__device__` function in it, with its namespaces if any, which all threads of a one-dimensional grid call at once,
    /// and which may be a template or overloaded. It takes the arguments as recorded, a list's elements one by one, without NONE
    /// and STR: VIEW as a `Tensor<const T>`, an absent one in a list as a `Tensor<const unsigned char>` of NULL; SCALAR_* (with
    /// the values of this call), INT, FLOAT, BOOL and DTYPE as `long long`, `double` or `bool`. The results follow, as
    /// `Tensor<T>`, in which every element must be written. `T` is `bool`, `float`, `double`, `f16`, `bf16`, a signed type or
    /// `unsigned char`; elements without arithmetic come as unsigned numbers of their size. It cannot fail. Not called where all
    /// results are empty.
    pub cuda_entry: torchacc_str,
    /// Threads of a block, at most 1024; 0 for 256.
    pub cuda_block: u32,
    /// Elements of the first result for each thread, which determines the size of the grid; 0 for 1.
    pub cuda_elements: u32,
    /// Blocks of the grid, at most 2^31 - 1, whatever the result; 0: as many as follow from `cuda_elements`.
    pub cuda_blocks: u64,
    /// The operator for contexts whose memory is a device's (`torchacc_context_device`) and that have no other form of it: called
    /// instead of `function`, which would get copies. NULL for none.
    pub device_function: torchacc_device_fn,
}

// SAFETY: plain data; NULL and zero are values of every field; the size is first.
unsafe impl Growing for torchacc_host_op {
    const NAME: &'static str = "torchacc_host_op";
}

/// Registers a host operator for the rest of the process; registering a key again gives the existing operator. `user` belongs to
/// the library from the call on: it is dropped when it is no longer needed, on an error too (except for a bad `struct_size`).
/// Texts are copied. Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_op_register_host(
    op: *const torchacc_host_op,
    out: *mut torchacc_op,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let op = unsafe { sized::read(op)? };
        let user = Arc::new(User { pointer: op.user, drop: op.drop });
        let name = unsafe { op.name.text()? }.to_string();
        // Any bytes will do for a key; as text they stay distinct and printable.
        let key = unsafe { super::slice(op.key.data.cast::<u8>(), op.key.len, "key")? };
        let key = key.escape_ascii().to_string();
        let cuda = unsafe { cuda_form(&op)? };
        if out.is_null() {
            return Err(bad("the output pointer is NULL"));
        }
        let shape = op.shape.map(|rule| shape_rule(rule, user.clone()));
        let device_function = op.device_function.map(|f| device_function(f, user.clone()));
        let function = match op.function {
            Some(function) => host_function(function, user),
            None if cuda.is_some() || device_function.is_some() => {
                Box::new(|_: &[HostArg], _: &[HostTensor]| {
                    let message = "it has only a form for devices: give it a function for the host";
                    Err(Error::new(Code::Unsupported, message))
                })
            }
            None => return Err(bad("the function is NULL, and there is nothing in its place")),
        };
        let id = host::register(HostOp { name, key, function, shape, cuda, device_function });
        unsafe { put(out, id | HOST) }
    })
}

/// The operator for a GPU. Errors: `InvalidArgument`.
///
/// # Safety
/// The texts of `op` are readable.
unsafe fn cuda_form(op: &torchacc_host_op) -> Result<Option<CudaForm>> {
    // SAFETY: the caller's promise.
    let (source, entry) = unsafe { (op.cuda_source.text()?, op.cuda_entry.text()?) };
    let or = |raw: u32, usual: u32| if raw == 0 { usual } else { raw };
    let (block, elements) = (or(op.cuda_block, 256), or(op.cuda_elements, 1));
    if source.is_empty() {
        return Ok(None);
    }
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if entry.is_empty() || !entry.chars().all(in_name) {
        return Err(bad(format!("cuda_entry \"{entry}\" is no name of a function")));
    }
    if source.contains('\0') {
        return Err(bad("cuda_source has a zero byte"));
    }
    if block > 1024 || op.cuda_blocks > i32::MAX as u64 {
        let blocks = op.cuda_blocks;
        return Err(bad(format!("a grid of {blocks} blocks of {block} threads is too large")));
    }
    let (source, entry) = (source.to_string(), entry.to_string());
    Ok(Some(CudaForm { source, entry, block, elements, blocks: op.cuda_blocks }))
}

type Callback<T> =
    unsafe extern "C" fn(*mut c_void, *const torchacc_arg, usize, T, usize) -> *mut torchacc_error;

fn host_function(call: Callback<*const torchacc_host_tensor>, user: Arc<User>) -> HostFn {
    Box::new(move |args, outs| {
        with_arrays(args, outs, |args, outs| {
            // SAFETY: called as its type says; everything passed lives until it returns.
            unsafe { call(user.pointer, args.as_ptr(), args.len(), outs.as_ptr(), outs.len()) }
        })
    })
}

type DeviceCallback = unsafe extern "C" fn(
    *mut c_void,
    *const torchacc_device,
    *const torchacc_arg,
    usize,
    *const torchacc_host_tensor,
    usize,
) -> *mut torchacc_error;

fn device_function(call: DeviceCallback, user: Arc<User>) -> DeviceFn {
    Box::new(move |location, args, outs| {
        let device = torchacc_device::of(location);
        with_arrays(args, outs, |args, outs| {
            let (raw, made) = (args.as_ptr(), outs.as_ptr());
            // SAFETY: as above.
            unsafe { call(user.pointer, &device, raw, args.len(), made, outs.len()) }
        })
    })
}

/// Calls a function with arguments and results in C form. Error: the function's.
fn with_arrays(
    args: &[HostArg],
    outs: &[HostTensor],
    call: impl FnOnce(&[torchacc_arg], &[torchacc_host_tensor]) -> *mut torchacc_error,
) -> Result<()> {
    let converted: Vec<Converted> = args.iter().map(Converted::of).collect();
    let args: Vec<torchacc_arg> = converted.iter().map(|c| c.arg).collect();
    let outs: Vec<torchacc_host_tensor> = outs.iter().map(host_tensor).collect();
    let made = calling(|| call(&args, &outs));
    // SAFETY: the callback's error is ours.
    unsafe { outcome(made) }
}

fn shape_rule(call: Callback<*mut torchacc_type>, user: Arc<User>) -> ShapeFn {
    Box::new(move |args, n_outs| {
        let converted: Vec<Converted> = args.iter().map(Converted::of).collect();
        let args: Vec<torchacc_arg> = converted.iter().map(|c| c.arg).collect();
        let mut outs = vec![torchacc_type::EMPTY; n_outs];
        // SAFETY: called as its type says; everything passed lives until it returns.
        let made = calling(|| unsafe {
            call(user.pointer, args.as_ptr(), args.len(), outs.as_mut_ptr(), n_outs)
        });
        // SAFETY: the callback's error is ours.
        unsafe { outcome(made)? };
        outs.iter().map(torchacc_type::ty).collect()
    })
}

pub(super) fn host_tensor(tensor: &HostTensor) -> torchacc_host_tensor {
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
                let absent = HostTensor::absent();
                tensors.extend(list.iter().map(|t| host_tensor(t.as_ref().unwrap_or(&absent))));
                (TORCHACC_ARG_VIEWS, list.len(), pointer(tensors.as_ptr().cast()))
            }
            HostArg::Scalar { kind, number: bits } => {
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
