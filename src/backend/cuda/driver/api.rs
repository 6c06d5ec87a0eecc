//! The driver's functions and the meaning of its errors.
//!
//! Functions that changed are declared as in CUDA 12; newer drivers keep these variants under the same names.
#![expect(unsafe_code, reason = "a C library, loaded at run time")]

use super::library::{candidates, functions};
use crate::backend::library::open;
use crate::error::{Code, Error, Result};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr;

/// `CUresult`.
pub type Status = c_int;
/// Opaque pointers and device addresses are plain numbers here: the ABI is the same.
pub type Handle = usize;

functions!(Api {
    init "cuInit" (c_uint) -> Status;
    version "cuDriverGetVersion" (*mut c_int) -> Status;
    error_name "cuGetErrorName" (Status, *mut *const c_char) -> Status;
    error_string "cuGetErrorString" (Status, *mut *const c_char) -> Status;
    device_count "cuDeviceGetCount" (*mut c_int) -> Status;
    device "cuDeviceGet" (*mut c_int, c_int) -> Status;
    device_name "cuDeviceGetName" (*mut c_char, c_int, c_int) -> Status;
    device_attribute "cuDeviceGetAttribute" (*mut c_int, c_int, c_int) -> Status;
    retain_context "cuDevicePrimaryCtxRetain" (*mut Handle, c_int) -> Status;
    release_context "cuDevicePrimaryCtxRelease_v2" (c_int) -> Status;
    current_context "cuCtxGetCurrent" (*mut Handle) -> Status;
    push_context "cuCtxPushCurrent_v2" (Handle) -> Status;
    pop_context "cuCtxPopCurrent_v2" (*mut Handle) -> Status;
    exchange_capture_mode "cuThreadExchangeStreamCaptureMode" (*mut c_int) -> Status;
    synchronize_context "cuCtxSynchronize" () -> Status;
    create_stream "cuStreamCreate" (*mut Handle, c_uint) -> Status;
    destroy_stream "cuStreamDestroy_v2" (Handle) -> Status;
    begin_capture "cuStreamBeginCapture_v2" (Handle, c_int) -> Status;
    end_capture "cuStreamEndCapture" (Handle, *mut Handle) -> Status;
    instantiate_graph "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64) -> Status;
    launch_graph "cuGraphLaunch" (Handle, Handle) -> Status;
    destroy_graph "cuGraphDestroy" (Handle) -> Status;
    destroy_executable "cuGraphExecDestroy" (Handle) -> Status;
    create_event "cuEventCreate" (*mut Handle, c_uint) -> Status;
    destroy_event "cuEventDestroy_v2" (Handle) -> Status;
    record_event "cuEventRecord" (Handle, Handle) -> Status;
    query_event "cuEventQuery" (Handle) -> Status;
    synchronize_event "cuEventSynchronize" (Handle) -> Status;
    wait_event "cuStreamWaitEvent" (Handle, Handle, c_uint) -> Status;
    elapsed "cuEventElapsedTime" (*mut f32, Handle, Handle) -> Status;
    memory_info "cuMemGetInfo_v2" (*mut usize, *mut usize) -> Status;
    allocate "cuMemAlloc_v2" (*mut u64, usize) -> Status;
    free "cuMemFree_v2" (u64) -> Status;
    allocate_pinned "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint) -> Status;
    free_pinned "cuMemFreeHost" (*mut c_void) -> Status;
    copy_in "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle) -> Status;
    copy_out "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle) -> Status;
    load_module "cuModuleLoadData" (*mut Handle, *const c_void) -> Status;
    unload_module "cuModuleUnload" (Handle) -> Status;
    function "cuModuleGetFunction" (*mut Handle, Handle, *const c_char) -> Status;
    function_attribute "cuFuncGetAttribute" (*mut c_int, c_int, Handle) -> Status;
    set_function_attribute "cuFuncSetAttribute" (Handle, c_int, c_int) -> Status;
    launch "cuLaunchKernel" (Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void) -> Status;
});

pub const OUT_OF_MEMORY: Status = 2;
pub const NOT_READY: Status = 600;
/// Returned by the initializing call itself, in a forked child.
const NOT_INITIALIZED: Status = 3;
const STUB_LIBRARY: Status = 34;
const NO_DEVICE: Status = 100;
const MISMATCH: Status = 803;
const NOT_READY_SYSTEM: Status = 802;
/// All errors of a capture.
pub const OF_CAPTURE: std::ops::RangeInclusive<Status> = 900..=908;

/// After these the driver answers every call with the same error.
const LOST: [Status; 14] = [214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721];

/// End of the messages about an unusable device.
const INSTEAD: &str = "or use the backend cpu (TORCHACC_BACKEND=cpu)";

/// The reason why no GPU can be used, with advice.
pub enum Refused {
    /// There is no driver, or it finds no GPU: without a named backend, none is expected.
    Absent(String),
    /// There is a driver, but its GPU cannot be used.
    Broken(String),
}

/// An error that the driver returned.
impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Broken(format!("{error}. Look at nvidia-smi"))
    }
}

impl Refused {
    pub fn error(self) -> Error {
        let (Refused::Absent(why) | Refused::Broken(why)) = self;
        Error::new(Code::Unsupported, format!("CUDA cannot be used: {why}, {INSTEAD}"))
    }
}

impl Api {
    /// Loads and starts the driver.
    pub fn start(folders: &[PathBuf]) -> std::result::Result<Api, Refused> {
        const NAME: &str = "libcuda.so.1";
        let (mut refused, mut old) = (Vec::new(), None);
        let mut files = candidates(folders, &[NAME]);
        // The path in WSL, which not every system's loader searches.
        files.push("/usr/lib/wsl/lib/libcuda.so.1".into());
        let mut loaded = None;
        for file in files {
            match open(&file).map(Api::load) {
                Ok(Ok(api)) => {
                    loaded = Some(api);
                    break;
                }
                Ok(Err(why)) => old = Some(why),
                Err(why) => refused.push(why),
            }
        }
        let api = match (loaded, old) {
            (Some(api), _) => api,
            (None, Some(why)) => {
                return Err(Refused::Broken(format!("the driver is too old: {why}. Update it")));
            }
            (None, None) => {
                return Err(Refused::Absent(format!(
                    "no NVIDIA driver: {}. Install the driver (in a container, start it with the GPU, as docker run \
                     --gpus all does)",
                    refused.join("; ")
                )));
            }
        };
        // SAFETY: as `cuda.h` says.
        let why = match unsafe { (api.init)(0) } {
            0 => return Ok(api),
            NO_DEVICE => {
                let why = "the driver finds no GPU. Look at nvidia-smi and at CUDA_VISIBLE_DEVICES, and in a container at \
                           what it was started with";
                return Err(Refused::Absent(why.into()));
            }
            NOT_INITIALIZED => {
                "the process is the fork of one that had started CUDA, which does not survive that. Start it in another way \
                 (multiprocessing's \"spawn\" or \"forkserver\")"
                    .into()
            }
            STUB_LIBRARY => {
                "the libcuda.so.1 found is the toolkit's stub, not a driver. Remove its folder from LD_LIBRARY_PATH".into()
            }
            MISMATCH => {
                "the driver's library and its kernel module are of different versions. Restart the machine (or reload the \
                 module nvidia)"
                    .into()
            }
            NOT_READY_SYSTEM => {
                "the GPUs of this system are not ready. Start NVIDIA's fabric manager (systemctl start nvidia-fabricmanager)"
                    .into()
            }
            status => format!("the driver does not start: {}. Look at nvidia-smi", api.text(status)),
        };
        Err(Refused::Broken(why))
    }

    /// The error of a call, unless `status` is success.
    pub fn check(&self, status: Status, what: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let text = self.text(status);
        Err(match status {
            OUT_OF_MEMORY => Error::new(Code::OutOfMemory, format!("{what}: {text}")),
            lost if LOST.contains(&lost) => Error::new(
                Code::OperatorError,
                format!(
                    "{what}, or something queued before it: {text}. The process has lost the GPU and all that was in its \
                     memory: restart it"
                ),
            ),
            _ => Error::new(Code::Internal, format!("{what}: {text}")),
        })
    }

    /// The driver's text for an error.
    pub fn text(&self, status: Status) -> String {
        let ask = |function: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = ptr::null();
            // SAFETY: as `cuda.h` says; the texts are static.
            let known = unsafe { function(status, &mut text) } == 0 && !text.is_null();
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        match (ask(self.error_string), ask(self.error_name)) {
            (Some(text), Some(name)) => format!("{text} ({name})"),
            _ => format!("error {status} of the driver"),
        }
    }
}
