//! The device of a context's memory, the program's own allocator for it, and the program's own work on it.

use super::context::{User, torchacc_context, torchacc_drop_fn};
use super::error::{outcome, torchacc_error};
use super::handle::borrow;
use super::sized::{self, Growing};
use super::{bad, boundary, calling, torchacc_buffer};
use crate::backend::supplied::Supplied;
use crate::buffer::Location;
use crate::error::Result;
use crate::runtime::Context;
use crate::trace::BufferId;
use std::ffi::c_void;
use std::sync::Arc;

/// The device whose memory a context uses, in the terms of other libraries. May grow at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_device {
    /// `sizeof(torchacc_device)` of the side that fills it in.
    pub struct_size: usize,
    /// DLPack's `DLDeviceType`: 1 for host memory, 2 for an NVIDIA GPU's.
    pub device_type: i32,
    /// Index among the GPUs that the driver shows.
    pub device_id: i32,
    /// On a GPU the `cudaStream_t` on which the context queues its programs; NULL where work is done at once.
    pub stream: *mut c_void,
    /// 1 where programs run on the host: every function can access their memory in place.
    pub is_host: u32,
}

// SAFETY: plain data; NULL and zero are values of every field; the size is first.
unsafe impl Growing for torchacc_device {
    const NAME: &'static str = "torchacc_device";
}

impl torchacc_device {
    pub(super) fn of(location: Location) -> torchacc_device {
        torchacc_device {
            struct_size: size_of::<torchacc_device>(),
            device_type: location.device_type,
            device_id: location.device_id,
            stream: std::ptr::with_exposed_provenance_mut(location.stream),
            is_host: location.is_host.into(),
        }
    }
}

/// Gives the device of the context's memory. The caller sets `out->struct_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_device(
    context: *const torchacc_context,
    out: *mut torchacc_device,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        unsafe { sized::write(out, &torchacc_device::of(context.inner.location())) }
    })
}

/// Returns `nbytes` (not 0) bytes of `device`'s memory, contents undefined, aligned to 64 bytes, on a GPU to 256; NULL when
/// there are none, which is the error OUT_OF_MEMORY of the operation that wanted them. On a GPU the memory is used in the order
/// of `device->stream`, even if it is freed before the work queued there is done.
pub type torchacc_allocate_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        device: *const torchacc_device,
        nbytes: usize,
    ) -> *mut c_void,
>;

/// Takes back memory that a `torchacc_allocate_fn` gave for `nbytes` bytes.
pub type torchacc_deallocate_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        device: *const torchacc_device,
        memory: *mut c_void,
        nbytes: usize,
    ),
>;

/// An allocator of device memory. May grow at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_allocator {
    /// `sizeof(torchacc_allocator)` of the caller.
    pub struct_size: usize,
    pub allocate: torchacc_allocate_fn,
    pub free: torchacc_deallocate_fn,
    /// Passed to both.
    pub user: *mut c_void,
    pub drop: torchacc_drop_fn,
}

// SAFETY: plain data; NULL and zero are values of every field; the size is first.
unsafe impl Growing for torchacc_allocator {
    const NAME: &'static str = "torchacc_allocator";
}

/// Makes the program's allocator the source of all memory for values and programs of the context, so that the program's own
/// tensors and the context's share it. The library then keeps no free memory: the allocator should, since each step asks for the
/// same sizes again. Its functions are called on any thread, for as long as anything of the context's lives.
///
/// `user` belongs to the library from the call on: it is dropped when it is no longer needed, on an error too (except for a bad
/// `struct_size`). Errors: INVALID_ARGUMENT for a function that is NULL, after memory was taken, or a second time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_set_allocator(
    context: *mut torchacc_context,
    allocator: *const torchacc_allocator,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let raw = unsafe { sized::read(allocator)? };
        let user = Arc::new(User { pointer: raw.user, drop: raw.drop });
        let context = unsafe { borrow(context)? };
        let (Some(allocate), Some(free)) = (raw.allocate, raw.free) else {
            return Err(bad("allocate or free is NULL"));
        };
        let (location, owner) = (context.inner.location(), user.clone());
        context.inner.set_supply(Supplied {
            location,
            allocate: Box::new(move |nbytes| {
                let device = torchacc_device::of(location);
                let raw = calling(|| unsafe { allocate(user.pointer, &device, nbytes) });
                raw.expose_provenance()
            }),
            release: Box::new(move |address, nbytes| {
                let memory = std::ptr::with_exposed_provenance_mut(address);
                let device = torchacc_device::of(location);
                calling(|| unsafe { free(owner.pointer, &device, memory, nbytes) });
            }),
        })
    })
}

/// The program's own work on `nbytes` bytes of `device`'s memory. On a GPU it is queued on `device->stream`, or on other streams
/// that this one waits for and that have waited for it; elsewhere it is done when this returns. Returns NULL, or an error from
/// `torchacc_error_new`; must not call this library otherwise, and must not unwind.
pub type torchacc_memory_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        device: *const torchacc_device,
        memory: *mut c_void,
        nbytes: usize,
    ) -> *mut torchacc_error,
>;

/// Replaces the content: `fill` writes to all of `memory`, so that data can come from elsewhere in the device's memory without
/// passing through the host's. Calls it before this returns; does not wait. Errors: OUT_OF_MEMORY, those of `fill`: the content
/// stays as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_fill(
    buffer: *mut torchacc_buffer,
    fill: torchacc_memory_fn,
    user: *mut c_void,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    boundary(|| unsafe { work_on(buffer, fill, user, |context, id, work| context.fill(id, work)) })
}

/// Lets `look` read the content in place; it must neither write nor keep the address. `memory` is NULL if the content is all
/// zeros. Blocks: cuts the trace if it still computes the value, and waits until the computation is queued. Errors: as
/// `torchacc_buffer_read`, those of `look`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_look(
    buffer: *mut torchacc_buffer,
    look: torchacc_memory_fn,
    user: *mut c_void,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    boundary(|| unsafe { work_on(buffer, look, user, |context, id, work| context.visit(id, work)) })
}

/// # Safety
/// As the two functions above.
unsafe fn work_on(
    buffer: *mut torchacc_buffer,
    work: torchacc_memory_fn,
    user: *mut c_void,
    run: impl FnOnce(&Context, BufferId, &mut dyn FnMut(usize) -> Result<()>) -> Result<()>,
) -> Result<()> {
    // SAFETY (here and below): as the header says.
    let buffer = unsafe { borrow(buffer)? };
    let work = work.ok_or_else(|| bad("the function is NULL"))?;
    let (context, id) = (&buffer.context, buffer.id);
    let (device, nbytes) = (torchacc_device::of(context.location()), context.nbytes(id));
    run(context, id, &mut |address| {
        let memory = std::ptr::with_exposed_provenance_mut(address);
        let made = calling(|| unsafe { work(user, &device, memory, nbytes) });
        unsafe { outcome(made) }
    })
}
