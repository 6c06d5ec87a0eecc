//! cuDNN's functions (<https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html>).
#![expect(unsafe_code, reason = "a C library, loaded at run time")]

use super::super::api::Handle;
use super::super::library::{candidates, functions};
use crate::backend::library::open;
use crate::error::{Code, Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

const NAMES: [&str; 2] = ["libcudnn.so.9", "libcudnn.so"];
/// The first version that describes devices and whose gradients of attention need no cleared memory.
const OLDEST: usize = 9_18_00;

/// `cudnnStatus_t`; 0 is success.
type Status = c_int;

functions!(Api {
    version "cudnnGetVersion" () -> usize;
    last_error "cudnnGetLastErrorString" (*mut c_char, usize) -> ();
    create "cudnnCreate" (*mut Handle) -> Status;
    destroy "cudnnDestroy" (Handle) -> Status;
    set_stream "cudnnSetStream" (Handle, Handle) -> Status;
    create_descriptor "cudnnBackendCreateDescriptor" (c_int, *mut Handle) -> Status;
    destroy_descriptor "cudnnBackendDestroyDescriptor" (Handle) -> Status;
    set "cudnnBackendSetAttribute" (Handle, c_int, c_int, i64, *const c_void) -> Status;
    get "cudnnBackendGetAttribute" (Handle, c_int, c_int, i64, *mut i64, *mut c_void) -> Status;
    finalize "cudnnBackendFinalize" (Handle) -> Status;
    execute "cudnnBackendExecute" (Handle, Handle, Handle) -> Status;
});

/// A loaded cuDNN.
pub struct Library {
    pub api: Api,
    /// For example 91900.
    pub version: usize,
}

impl Library {
    /// The first library found that is new enough. Errors: the reason for every file.
    pub fn find(folders: &[PathBuf]) -> std::result::Result<Library, String> {
        let mut refused = Vec::new();
        for file in candidates(folders, &NAMES) {
            match Library::open(&file) {
                Ok(library) => return Ok(library),
                Err(why) => refused.push(format!("{}: {why}", file.display())),
            }
        }
        Err(refused.join("; "))
    }

    fn open(file: &Path) -> std::result::Result<Library, String> {
        let api = Api::load(open(file)?)?;
        // SAFETY: as `cudnn_graph.h` says.
        let version = unsafe { (api.version)() };
        match version {
            OLDEST.. => Ok(Library { api, version }),
            _ => Err(format!("version {version}, not {OLDEST} or newer")),
        }
    }

    pub fn check(&self, status: Status, what: impl std::fmt::Display) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let mut text = [0; 1024];
        // SAFETY: it writes a text into at most `text.len() - 1` bytes; the last one stays zero.
        let text = unsafe {
            (self.api.last_error)(text.as_mut_ptr(), text.len() - 1);
            CStr::from_ptr(text.as_ptr())
        };
        let text = text.to_string_lossy();
        Err(Error::new(Code::Internal, format!("cuDNN, {what}: {text} (status {status})")))
    }

    /// A handle that queues work on `stream`, in the current context.
    pub fn start(&self, stream: Handle) -> Result<Handle> {
        let mut handle = 0;
        // SAFETY: as `cudnn_graph.h` says.
        self.check(unsafe { (self.api.create)(&mut handle) }, "starting")?;
        // SAFETY: the handle was just made; the stream is of the current context.
        let status = unsafe { (self.api.set_stream)(handle, stream) };
        self.check(status, "setting the stream").inspect_err(|_| self.stop(handle))?;
        Ok(handle)
    }

    /// Destroys a handle with no work left in its queue.
    pub fn stop(&self, handle: Handle) {
        // SAFETY: the handle is from `start`.
        unsafe { (self.api.destroy)(handle) };
    }
}
