//! Communicators: callbacks by which the processes of a program reduce and exchange tensors.

use super::arguments::{torchacc_arg, torchacc_value};
use super::constants::{
    TORCHACC_ARG_COMMUNICATOR, TORCHACC_ARG_NONE, TORCHACC_ARG_TENSOR, TORCHACC_F32,
};
use super::context::{User, torchacc_context, torchacc_drop_fn, torchacc_sync};
use super::device::torchacc_device;
use super::error::{outcome, torchacc_error};
use super::handle::borrow;
use super::op::{host_tensor, torchacc_host_tensor, torchacc_op_find};
use super::record::torchacc_apply;
use super::sized::{self, Growing};
use super::tensor::{torchacc_tensor_read, torchacc_tensor_release, torchacc_tensor_zeros};
use super::{bad, boundary, calling, torchacc_str};
use crate::internal;
use crate::op::collective::{self, Communicator, DeviceFunction, Function, Pending, Together};
use std::ffi::c_void;
use std::sync::Arc;

/// Does one collective: fills `output` from `input`, whose types agree on all ranks. `how` is one of `TORCHACC_REDUCE_*` for
/// all_reduce and reduce_scatter, the root for broadcast, for all_gather 1 if it is of parameters and 2 if it is of the same
/// parameters again ("torchacc::all_gather_parameters"), of which a function need not take note, else 0. Called on the launch
/// thread, or, if the communicator is `concurrent`, on one of its own; one at a time, in the order in which its collectives were
/// recorded. May wait for the other ranks, but should not do so for ever. Returns NULL, or an error from `torchacc_error_new`;
/// must not call this library otherwise (except for `torchacc_running_site`), as a `torchacc_host_fn`, and must not unwind.
pub type torchacc_collective_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        how: i64,
        input: *const torchacc_host_tensor,
        output: *const torchacc_host_tensor,
    ) -> *mut torchacc_error,
>;

/// Does one collective on tensors in the memory of the context's `device`, as a `torchacc_collective_fn`, but queues it on
/// `device->stream`, a stream for this communicator or for all, and does not wait, so that the program's computation overlaps
/// it. To be given on every rank or on none.
pub type torchacc_device_collective_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        device: *const torchacc_device,
        how: i64,
        input: *const torchacc_host_tensor,
        output: *const torchacc_host_tensor,
    ) -> *mut torchacc_error,
>;

/// As `torchacc_transfer_fn`, on tensors in a device's memory, as a `torchacc_device_collective_fn`.
pub type torchacc_device_transfer_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        device: *const torchacc_device,
        numbers: *const i64,
        n_numbers: usize,
        input: *const torchacc_host_tensor,
        output: *const torchacc_host_tensor,
    ) -> *mut torchacc_error,
>;

/// As `torchacc_collective_fn`, with several numbers: for reduce one of `TORCHACC_REDUCE_*` and the root; for all_to_all_v the
/// number of rows that go to each rank, and then the number that come from each; for send and receive the other rank and the
/// tag. The `output` of a send and the `input` of a receive are absent. A send must not wait for the other rank's receive, which
/// may come after a receive of its own. A reduce fills the output with the reduced elements on the root, and with the input
/// elsewhere.
pub type torchacc_transfer_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        numbers: *const i64,
        n_numbers: usize,
        input: *const torchacc_host_tensor,
        output: *const torchacc_host_tensor,
    ) -> *mut torchacc_error,
>;

/// A pending collective.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_pending_collective {
    /// One of `TORCHACC_COLLECTIVE_*`.
    pub kind: u32,
    /// The `how` of a `torchacc_collective_fn`, or the numbers of a `torchacc_transfer_fn`.
    pub numbers: *const i64,
    pub n_numbers: usize,
    pub input: *const torchacc_host_tensor,
    pub output: *const torchacc_host_tensor,
    /// Number of the collectives before it, from the first on, that must have been done, because it reads a result of one of
    /// them or writes where one of them reads or writes.
    pub after: usize,
    /// The call site that recorded it, as `torchacc_running_site` gives it.
    pub site: u64,
}

/// Does the first of the pending collectives, and as many of the following ones, in order, as it likes. `n_done`, which is 1 at
/// first, becomes their number, on an error too: these have then failed. A number outside of 1 to `n_waiting` is the error
/// INTERNAL of all of them. All pointers are valid until the function returns. Which collectives are pending is specific to this
/// rank and depends on time: a function that does several as one must ensure that all ranks do equally many. Called on the
/// communicator's own thread, as a `torchacc_collective_fn` of one that is `concurrent`; `torchacc_running_site` is that of the
/// first.
pub type torchacc_together_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        waiting: *const torchacc_pending_collective,
        n_waiting: usize,
        n_done: *mut usize,
    ) -> *mut torchacc_error,
>;

/// The functions of a communicator. If one is NULL, collectives of that kind are the error UNSUPPORTED. May grow at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_communicator {
    /// `sizeof(torchacc_communicator)` of the caller.
    pub struct_size: usize,
    /// The name by which operators refer to it.
    pub name: torchacc_str,
    /// This context's rank, from 0.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// The elements of all ranks, reduced, on every rank.
    pub all_reduce: torchacc_collective_fn,
    /// The rows of all ranks, in their order, on every rank.
    pub all_gather: torchacc_collective_fn,
    /// The elements of all ranks, reduced; each rank keeps its part of the rows, in the order of the ranks.
    pub reduce_scatter: torchacc_collective_fn,
    /// The tensor of rank `how`, on every rank.
    pub broadcast: torchacc_collective_fn,
    /// The n-th part of the rows goes to rank n; the received parts are in the order of the ranks.
    pub all_to_all: torchacc_collective_fn,
    /// Passed to all functions.
    pub user: *mut c_void,
    pub drop: torchacc_drop_fn,
    /// Called instead of `all_reduce` where the context's memory is a GPU's, and likewise for the others. NULL: there, tensors
    /// are copied to the host and back.
    pub device_all_reduce: torchacc_device_collective_fn,
    pub device_all_gather: torchacc_device_collective_fn,
    pub device_reduce_scatter: torchacc_device_collective_fn,
    pub device_broadcast: torchacc_device_collective_fn,
    pub device_all_to_all: torchacc_device_collective_fn,
    /// The elements of all ranks, reduced, on one of them.
    pub reduce: torchacc_transfer_fn,
    /// As all_to_all, with any number of rows for each rank.
    pub all_to_all_v: torchacc_transfer_fn,
    /// Sends a tensor to one rank, which receives those with one tag in the order in which they were sent.
    pub send: torchacc_transfer_fn,
    pub receive: torchacc_transfer_fn,
    /// Likewise instead of `reduce` and `all_to_all_v`.
    pub device_reduce: torchacc_device_transfer_fn,
    pub device_all_to_all_v: torchacc_device_transfer_fn,
    /// If not 0, its functions may be called concurrently with those of other communicators and with computation, so that
    /// collectives overlap computation in host memory; and each communicator has a stream of its own on a device. If one
    /// communicator of a context has 0 here, all collectives run one after the other, on one stream.
    pub concurrent: u32,
    /// If it is `concurrent`: called instead of the functions for host memory for the collectives that are pending while the
    /// program computes, so that several may go together. NULL: one by one.
    pub together: torchacc_together_fn,
}

// SAFETY: plain data; NULL and zero are values of every field; the size is first.
unsafe impl Growing for torchacc_communicator {
    const NAME: &'static str = "torchacc_communicator";
}

fn function(call: torchacc_collective_fn, user: &Arc<User>) -> Option<Function> {
    let (call, user) = (call?, user.clone());
    Some(Box::new(move |numbers, input, output| {
        let (input, output) = (host_tensor(input), host_tensor(output));
        // SAFETY: called as its type says; both live until it returns.
        let made = calling(|| unsafe { call(user.pointer, numbers[0], &input, &output) });
        // SAFETY: the callback's error is ours.
        unsafe { outcome(made) }
    }))
}

fn transfer(call: torchacc_transfer_fn, user: &Arc<User>) -> Option<Function> {
    let (call, user) = (call?, user.clone());
    Some(Box::new(move |numbers, input, output| {
        let (input, output) = (host_tensor(input), host_tensor(output));
        let (first, count) = (numbers.as_ptr(), numbers.len());
        // SAFETY: as above.
        let made = calling(|| unsafe { call(user.pointer, first, count, &input, &output) });
        // SAFETY: the callback's error is ours.
        unsafe { outcome(made) }
    }))
}

fn together(call: torchacc_together_fn, user: &Arc<User>) -> Option<Together> {
    let (call, user) = (call?, user.clone());
    Some(Box::new(move |waiting| {
        let tensors: Vec<[torchacc_host_tensor; 2]> =
            waiting.iter().map(|(one, _)| [&one.input, &one.output].map(host_tensor)).collect();
        let pending = |((one, after), [input, output]): (&(&Pending, usize), &[_; 2])| {
            let (numbers, n_numbers) = (one.numbers.as_ptr(), one.numbers.len());
            let (kind, after, site) = (one.kind as u32, *after, one.site);
            torchacc_pending_collective { kind, numbers, n_numbers, input, output, after, site }
        };
        let pending: Vec<_> = waiting.iter().zip(&tensors).map(pending).collect();
        let mut done = 1;
        let (first, count) = (pending.as_ptr(), pending.len());
        // SAFETY: as above.
        let made = calling(|| unsafe { call(user.pointer, first, count, &mut done) });
        // SAFETY: the callback's error is ours.
        let result = unsafe { outcome(made) };
        match (1..=count).contains(&done) {
            true => (done, result),
            false => {
                (count, internal!("of {count} collectives that wait {done} are said to be done"))
            }
        }
    }))
}

fn device_function(
    call: torchacc_device_collective_fn,
    user: &Arc<User>,
) -> Option<DeviceFunction> {
    let (call, user) = (call?, user.clone());
    Some(Box::new(move |location, numbers, input, output| {
        let device = torchacc_device::of(location);
        let (input, output) = (host_tensor(input), host_tensor(output));
        // SAFETY: as above.
        let made = calling(|| unsafe { call(user.pointer, &device, numbers[0], &input, &output) });
        // SAFETY: the callback's error is ours.
        unsafe { outcome(made) }
    }))
}

fn device_transfer(call: torchacc_device_transfer_fn, user: &Arc<User>) -> Option<DeviceFunction> {
    let (call, user) = (call?, user.clone());
    Some(Box::new(move |location, numbers, input, output| {
        let device = torchacc_device::of(location);
        let (input, output) = (host_tensor(input), host_tensor(output));
        let (first, count) = (numbers.as_ptr(), numbers.len());
        // SAFETY: as above.
        let made =
            calling(|| unsafe { call(user.pointer, &device, first, count, &input, &output) });
        // SAFETY: the callback's error is ours.
        unsafe { outcome(made) }
    }))
}

/// Registers a communicator, until it is unregistered. The operators "torchacc::all_reduce" and "torchacc::reduce_scatter"
/// (tensor, STR "sum", "product", "min", "max", "avg", "band", "bor" or "bxor", or NONE for the sum, COMMUNICATOR),
/// "torchacc::broadcast" (tensor, INT root, COMMUNICATOR), "torchacc::all_gather" and "torchacc::all_to_all" (tensor,
/// COMMUNICATOR), "torchacc::all_gather_parameters" (tensor, BOOL again, COMMUNICATOR), "torchacc::reduce" (tensor, STR or NONE,
/// INT root, COMMUNICATOR), "torchacc::all_to_all_v" (tensor, INTS rows for each rank, INTS rows from each, COMMUNICATOR) and
/// "torchacc::receive" (INTS sizes, DTYPE, INT rank, INT tag, COMMUNICATOR) are recorded like others, with one result,
/// "torchacc::send" (tensor, INT rank, INT tag, COMMUNICATOR) without a result. Rows are those of the first dimension, which must
/// be divisible by `size` where it is split.
///
/// Collectives of a communicator run in the order in which they were recorded, even if nobody reads their results; so all ranks
/// must record the same ones, and cut. When one fails, the later ones of the same trace are not called, and fail with its error;
/// those of later traces are called. A communicator over streams therefore closes its connections at the first error, since
/// later data would be taken for the rest of the failed collective's. Collectives run on the host, whatever the backend, unless
/// there is a function for a device's memory, and are counted as collectives, not as CPU fallbacks.
///
/// Gradients flow through them, except for reductions other than sums and averages, for reduce, and for point-to-point
/// operators. They are those of the sum of the losses of all ranks, and are computed by collectives: so all ranks must call
/// `torchacc_grad` alike, whatever each does with the gradients. The backward of all_gather is reduce_scatter and vice versa,
/// that of all_reduce and of broadcast is all_reduce, those of all_to_all and all_to_all_v are themselves.
///
/// `user` belongs to the library from the call on: it is dropped when it is no longer needed, on an error too (except for a bad
/// `struct_size`). Errors: INVALID_ARGUMENT for a name that is taken, or a rank that is not below `size`; OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_communicator_register(
    context: *mut torchacc_context,
    communicator: *const torchacc_communicator,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let raw = unsafe { sized::read(communicator)? };
        let user = Arc::new(User { pointer: raw.user, drop: raw.drop });
        let context = unsafe { borrow(context)? };
        let name = unsafe { raw.name.text()? }.to_string();
        if raw.rank >= raw.size {
            return Err(bad(format!("rank {} of {} ranks", raw.rank, raw.size)));
        }
        let [all_reduce, all_gather, reduce_scatter, broadcast, all_to_all] =
            [raw.all_reduce, raw.all_gather, raw.reduce_scatter, raw.broadcast, raw.all_to_all]
                .map(|call| function(call, &user));
        let [reduce, all_to_all_v, send, receive] =
            [raw.reduce, raw.all_to_all_v, raw.send, raw.receive].map(|call| transfer(call, &user));
        context.inner.register_communicator(Communicator {
            name,
            rank: raw.rank.into(),
            size: raw.size.into(),
            functions: [
                all_reduce,
                all_gather,
                reduce_scatter,
                broadcast,
                all_to_all,
                reduce,
                all_to_all_v,
                send,
                receive,
            ],
            device_functions: [
                device_function(raw.device_all_reduce, &user),
                device_function(raw.device_all_gather, &user),
                device_function(raw.device_reduce_scatter, &user),
                device_function(raw.device_broadcast, &user),
                device_function(raw.device_all_to_all, &user),
                device_transfer(raw.device_reduce, &user),
                device_transfer(raw.device_all_to_all_v, &user),
            ],
            together: together(raw.together, &user),
            lane: (raw.concurrent != 0).then(collective::lane),
        })
    })
}

/// Unregisters a communicator: `user` is dropped when none of its collectives runs any more. Collectives that were recorded and
/// have not run fail: call `torchacc_sync` first. Errors: NOT_FOUND for a name that is not registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_communicator_unregister(
    context: *mut torchacc_context,
    name: torchacc_str,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: as the header says.
        let (context, name) = unsafe { (borrow(context)?, name.text()?) };
        context.inner.unregister_communicator(name)
    })
}

/// Waits until every rank has called this, and everything that each of them recorded before is done. Cuts, and reduces one float
/// by the communicator's all_reduce. Blocks.
/// Errors: NOT_FOUND for a name that is not registered; those of earlier operations, and of the communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_barrier(
    context: *mut torchacc_context,
    communicator: torchacc_str,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says; handles are this function's own.
        let arg = |kind, len, p| torchacc_arg { kind, len, v: torchacc_value { p } };
        let mut op = 0;
        let (mut here, mut all) = (std::ptr::null_mut(), std::ptr::null_mut());
        unsafe {
            // The other ranks wait, even if an operation failed here.
            let before = outcome(torchacc_sync(context));
            outcome(torchacc_op_find(torchacc_str::of("torchacc::all_reduce"), &mut op))?;
            let one = [1i64];
            outcome(torchacc_tensor_zeros(context, TORCHACC_F32, one.as_ptr(), 1, &mut here))?;
            let args = [
                arg(TORCHACC_ARG_TENSOR, 0, here.cast()),
                arg(TORCHACC_ARG_NONE, 0, std::ptr::null()),
                arg(TORCHACC_ARG_COMMUNICATOR, communicator.len as u32, communicator.data.cast()),
            ];
            let applied = outcome(torchacc_apply(context, op, args.as_ptr(), 3, &mut all, 1));
            torchacc_tensor_release(here);
            applied?;
            let mut sum = 0f32;
            let read = outcome(torchacc_tensor_read(all, (&raw mut sum).cast(), size_of::<f32>()));
            torchacc_tensor_release(all);
            before.and(read)
        }
    })
}
