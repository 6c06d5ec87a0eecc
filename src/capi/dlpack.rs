//! DLPack, version 1: arrays that cross between libraries without a copy, in host memory or the context's device's.

use super::borrow::{Lent, layout};
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::{self, borrow};
use super::release::release;
use super::tensor::torchacc_tensor;
use super::{bad, boundary, put};
use crate::buffer::{Bytes, Location, Storage};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::record::View;
use std::ffi::c_void;
use std::sync::Arc;

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensorVersioned` of dlpack.h. Everything up to `flags` is the same in every version.
#[repr(C)]
pub struct DLManagedTensorVersioned {
    version: Version,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    flags: u64,
    dl_tensor: Tensor,
}

const MAJOR: u32 = 1;
const MINOR: u32 = 0;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
/// kDLCPU, kDLCUDAHost and kDLROCMHost: memory that the host reads.
const HOST_DEVICES: [i32; 3] = [1, 3, 11];

/// Code and bits of the dtypes, in DLPack's numbering.
const DTYPES: [(DType, u8, u8); 21] = [
    (DType::Bool, 6, 8),
    (DType::U8, 1, 8),
    (DType::I8, 0, 8),
    (DType::I16, 0, 16),
    (DType::I32, 0, 32),
    (DType::I64, 0, 64),
    (DType::F16, 2, 16),
    (DType::BF16, 4, 16),
    (DType::F32, 2, 32),
    (DType::F64, 2, 64),
    (DType::C64, 5, 64),
    (DType::C128, 5, 128),
    (DType::U16, 1, 16),
    (DType::U32, 1, 32),
    (DType::U64, 1, 64),
    (DType::C32, 5, 32),
    (DType::F8E4M3FN, 10, 8),
    (DType::F8E5M2, 12, 8),
    (DType::F8E4M3FNUZ, 11, 8),
    (DType::F8E5M2FNUZ, 13, 8),
    (DType::F8E8M0FNU, 14, 8),
];

fn dtype_of(raw: DataType) -> Result<DType> {
    let found = DTYPES.iter().find(|row| (row.1, row.2, 1) == (raw.code, raw.bits, raw.lanes));
    let DataType { code, bits, lanes } = raw;
    found.map(|row| row.0).ok_or_else(|| {
        let message = format!("no dtype here has DLPack's code {code}, {bits} bits, {lanes} lanes");
        Error::new(Code::Unsupported, message)
    })
}

/// A managed tensor that this library owns, and whose deleter it calls in the end.
struct Managed(*mut DLManagedTensorVersioned);

// SAFETY: DLPack lets a consumer call the deleter on any thread; nothing else of it is touched.
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

impl Drop for Managed {
    fn drop(&mut self) {
        if !self.0.is_null() {
            let raw = Managed(std::mem::replace(&mut self.0, std::ptr::null_mut()));
            release(move || raw.give_back());
        }
    }
}

impl Managed {
    fn give_back(mut self) {
        let managed = std::mem::replace(&mut self.0, std::ptr::null_mut());
        // SAFETY: a live managed tensor; the fields up to `flags` are there whatever its version.
        if let Some(deleter) = unsafe { (*managed).deleter } {
            // SAFETY: called once, as its type says.
            unsafe { deleter(managed) };
        }
    }
}

/// Makes a tensor on another library's array, without a copy where it is in the memory of the context's device
/// (`torchacc_context_device`), on the host if it is aligned to 16 bytes. The array must stay as it is while it is lent, as for
/// `torchacc_tensor_borrow`; on a GPU its producer has ensured that it is ready for all work queued on the device's `stream`
/// from now on. `managed` belongs to this library from the call on: its deleter is called, on any thread, once nothing uses the
/// array, on an error too.
/// Errors: UNSUPPORTED for a major version other than 1, memory of another device, and unknown dtypes; INVALID_ARGUMENT for
/// negative sizes or strides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_from_dlpack(
    context: *mut torchacc_context,
    managed: *mut DLManagedTensorVersioned,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    if managed.is_null() {
        return boundary(|| Err(bad("the managed tensor is NULL")));
    }
    let owner = Managed(managed);
    boundary(move || {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let lent = unsafe { lent(owner, context.inner.location())? };
        let tensor = handle::give(unsafe { lent.tensor(context)? });
        unsafe { put(out, tensor).inspect_err(|_| handle::release(tensor)) }
    })
}

/// # Safety
/// `owner` holds a live managed tensor.
unsafe fn lent(owner: Managed, here: Location) -> Result<Lent> {
    let unsupported = |message: String| Err(Error::new(Code::Unsupported, message));
    // SAFETY (here and below): the caller's promise; other fields only once the version is known.
    let major = unsafe { (*owner.0).version.major };
    if major != MAJOR {
        return unsupported(format!("DLPack of version {major}, {MAJOR} is known here"));
    }
    let tensor = unsafe { &(*owner.0).dl_tensor };
    let (device, number) = (tensor.device_type, tensor.device_id);
    let on_device = !here.is_host && (device, number) == (here.device_type, here.device_id);
    if !on_device && !HOST_DEVICES.contains(&device) {
        return unsupported(format!(
            "an array of DLPack's device type {device}, number {number}, is neither in host memory nor in the context's"
        ));
    }
    let rank = u32::try_from(tensor.ndim).map_err(|_| bad("a negative number of dimensions"))?;
    let layout = unsafe { layout(tensor.shape, tensor.strides, rank)? };
    let view = View { dtype: dtype_of(tensor.dtype)?, layout };
    let data = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize).cast();
    // The length follows from the shape alone.
    Ok(Lent { data, len: isize::MAX as usize, view, on_device, owner: Box::new(owner) })
}

/// An exported array with its memory, for as long as the consumer uses it.
struct ExportedArray {
    managed: DLManagedTensorVersioned,
    view: View,
    memory: Memory,
}

enum Memory {
    Shared(Arc<Storage>),
    Own(#[expect(dead_code, reason = "kept, not read")] Box<dyn Bytes>),
}

impl Drop for ExportedArray {
    /// Waits: work that the consumer queued may still read the memory.
    fn drop(&mut self) {
        if let Memory::Shared(storage) = &self.memory {
            // A pending error of the device is reported at the next use.
            storage.visit(|bytes| bytes.settle()).ok();
        }
    }
}

unsafe extern "C" fn give_back(managed: *mut DLManagedTensorVersioned) {
    super::quiet((), || {
        // SAFETY: DLPack's consumer gives the tensor up; `manager_ctx` is the box it came in.
        drop(unsafe { Box::from_raw((*managed).manager_ctx.cast::<ExportedArray>()) });
    });
}

/// Exports the tensor as an array for another library, which calls its deleter in the end, on any thread, whether or not the
/// context is still alive. Without `copy` the array shares the memory of the context's device (`torchacc_context_device`) and
/// must not be written to (its flag READ_ONLY is set); with it, the array is the consumer's own, dense, on the host (IS_COPIED).
/// Blocks: cuts the trace if it still computes the value, and waits, on a GPU until every stream may read it. There the deleter
/// waits, too, for all queued work. Errors: as `torchacc_tensor_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_to_dlpack(
    tensor: *const torchacc_tensor,
    copy: bool,
    out: *mut *mut DLManagedTensorVersioned,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: as the header says.
        let tensor = unsafe { borrow(tensor)? };
        let exported = exported(tensor, copy)?;
        // SAFETY: as the header says; on failure the array is released.
        unsafe { put(out, exported).inspect_err(|_| give_back(exported)) }
    })
}

fn exported(tensor: &torchacc_tensor, copy: bool) -> Result<*mut DLManagedTensorVersioned> {
    let (context, id) = (&tensor.buffer.context, tensor.buffer.id);
    let mut view = tensor.view.clone();
    let (address, flags, location, memory) = if copy {
        let own = context.copy_of(id, &view)?;
        view.layout = crate::shape::Layout::contiguous(&view.layout.sizes);
        (own.address(), IS_COPIED, Location::HOST, Memory::Own(own))
    } else {
        let (storage, mut address) = (context.share_written(id)?, 0);
        storage.visit(|bytes| {
            address = bytes.address();
            bytes.settle()
        })?;
        (address, READ_ONLY, context.location(), Memory::Shared(storage))
    };
    let address = address + view.layout.offset as usize * view.dtype.size();
    let managed = described(&view, address, location, flags);
    let mut exported = Box::new(ExportedArray { managed, view, memory });
    // The lists may be part of the box, whose address does not change.
    exported.managed.dl_tensor.shape = exported.view.layout.sizes.as_mut_ptr();
    exported.managed.dl_tensor.strides = exported.view.layout.strides.as_mut_ptr();
    let exported = Box::into_raw(exported);
    // SAFETY: just made.
    unsafe {
        (*exported).managed.manager_ctx = exported.cast();
        Ok(&raw mut (*exported).managed)
    }
}

/// A managed tensor without its pointers into the box that will hold it.
fn described(
    view: &View,
    address: usize,
    location: Location,
    flags: u64,
) -> DLManagedTensorVersioned {
    let (_, code, bits) = DTYPES[view.dtype as usize];
    DLManagedTensorVersioned {
        version: Version { major: MAJOR, minor: MINOR },
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(give_back),
        flags,
        dl_tensor: Tensor {
            data: std::ptr::with_exposed_provenance_mut(address),
            device_type: location.device_type,
            device_id: location.device_id,
            ndim: view.layout.rank() as i32,
            dtype: DataType { code, bits, lanes: 1 },
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_are_in_the_order_of_the_numbers_and_come_back() {
        for (dtype, &(row, code, bits)) in DType::all().zip(&DTYPES) {
            assert_eq!((row, bits as usize), (dtype, dtype.size() * 8));
            assert_eq!(dtype_of(DataType { code, bits, lanes: 1 }).unwrap(), dtype);
        }
        assert!(dtype_of(DataType { code: 2, bits: 32, lanes: 4 }).is_err());
    }

    #[test]
    fn structs_are_laid_out_as_in_dlpack() {
        use std::mem::offset_of;
        assert_eq!(size_of::<DLManagedTensorVersioned>(), 80);
        assert_eq!(offset_of!(DLManagedTensorVersioned, dl_tensor), 32);
        assert_eq!((offset_of!(Tensor, shape), offset_of!(Tensor, byte_offset)), (24, 40));
    }
}
