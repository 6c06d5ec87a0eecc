//! A plugin: its file, its table of functions, and its errors as ours.
#![expect(unsafe_code, reason = "functions of a library that is loaded at run time")]

use super::api::{self, Api, Functions, RawError};
use crate::error::{Code, Error, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use parking_lot::Mutex;
use std::error::Error as _;
use std::ffi::c_int;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The one function that plugins export.
const ENTRY: &[u8] = b"GetPjrtApi\0";

/// Advice against the most likely mistakes.
const ADVICE: &str =
    "TORCHACC_OPENXLA must name a PJRT plugin, like that of the package xla-cpu-pjrt";

/// A library that was loaded and initialized. It is never unloaded: its threads may run.
pub struct Plugin {
    file: PathBuf,
    /// Minor version of the API.
    version: c_int,
    pub functions: Functions,
    /// Id of the process that its threads are in.
    process: u32,
}

/// Each file once, since a plugin is initialized once.
static PLUGINS: Mutex<Vec<&'static Plugin>> = Mutex::new(Vec::new());

/// The plugin in a file. Errors: `NotFound`; `InvalidArgument` for a file that is no plugin; `AbiMismatch` for one of another
/// API; the plugin's on initialization.
pub fn load(file: &Path) -> Result<&'static Plugin> {
    let said = |error: Error| error.within(format!("OpenXLA's plugin {}", file.display()));
    let Some(place) = file.canonicalize().ok().filter(|place| place.is_file()) else {
        let text = format!("there is no such file; {ADVICE}");
        return Err(said(Error::new(Code::NotFound, text)));
    };
    let mut plugins = PLUGINS.lock();
    if let Some(plugin) = plugins.iter().find(|plugin| plugin.file == place) {
        return Ok(plugin);
    }
    let plugin: &'static Plugin = Box::leak(Box::new(open(place).map_err(said)?));
    plugins.push(plugin);
    Ok(plugin)
}

/// The loader's message: the crate's own only says which call failed.
fn unloadable(error: libloading::Error) -> Error {
    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    Error::new(Code::InvalidArgument, format!("{why}; {ADVICE}"))
}

fn open(file: PathBuf) -> Result<Plugin> {
    // Local: plugins contain much of the same code, in other versions. SAFETY: initialisers set up the library's own state.
    let library =
        unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) }.map_err(unloadable)?;
    // SAFETY: the type that the function of this name has.
    let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const Api>(ENTRY) };
    let entry = *entry.map_err(unloadable)?;
    std::mem::forget(library);
    // SAFETY: it takes nothing.
    let api = unsafe { entry() };
    // SAFETY: a plugin returns its table, of which no more is read here than the size that it states.
    let (functions, version) = unsafe { checked(api)? };
    let process = std::process::id();
    let plugin = Plugin { file, version, functions, process };
    let mut args = api::PluginInitialize::zeroed();
    // SAFETY: the function's own arguments.
    unsafe { plugin.call(plugin.functions.plugin_initialize, &mut args, "initializing it")? };
    Ok(plugin)
}

/// The functions of a table of a known version, and its minor version.
///
/// # Safety
/// `api` is NULL or returned by `GetPjrtApi` of some version.
unsafe fn checked(api: *const Api) -> Result<(Functions, c_int)> {
    let mismatch = |text: String| Err(Error::new(Code::AbiMismatch, text));
    if api.is_null() {
        return mismatch("it returned no table of functions".into());
    }
    // SAFETY: every version begins with a size.
    let size = unsafe { api.cast::<usize>().read() };
    if size < size_of::<Api>() {
        return mismatch(format!("its table of functions has {size} bytes, too few for a version"));
    }
    // SAFETY: it is as large as that.
    let version = unsafe { &(*api).pjrt_api_version };
    let (major, minor) = (version.major_version, version.minor_version);
    if major != api::MAJOR || minor < api::OLDEST_MINOR {
        return mismatch(format!(
            "it has version {major}.{minor} of the PJRT API; use one of {}.{} or newer, of the same major version",
            api::MAJOR,
            api::OLDEST_MINOR
        ));
    }
    // SAFETY: a table of that version.
    match unsafe { Functions::of(api) } {
        Ok(functions) => Ok((functions, minor)),
        Err(missing) => mismatch(format!("{missing} (version {major}.{minor} of the PJRT API)")),
    }
}

impl Plugin {
    /// Error: the process was forked from the one that has the plugin's threads.
    pub fn check(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        let text = "it was loaded before this process was forked and cannot be used here; load it in the process that uses it";
        Err(self.said(Error::new(Code::InvalidArgument, text)))
    }

    /// Identifies the plugin: code that is compiled with it is for it alone.
    pub fn fingerprint(&self) -> Result<String> {
        let found = std::fs::metadata(&self.file).map_err(|error| {
            self.error(Code::NotFound, format!("it was there, and now: {error}"))
        })?;
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (bytes, time) = (found.len(), found.mtime());
        Ok(format!("{name} 0.{} of {bytes} bytes at {time}", self.version))
    }

    fn said(&self, error: Error) -> Error {
        error.within(format!("OpenXLA's plugin {}", self.file.display()))
    }

    /// An error of ours about the plugin's behaviour.
    pub fn error(&self, code: Code, text: impl Into<String>) -> Error {
        self.said(Error::new(code, text))
    }

    /// Calls a function. Errors: the plugin's, with its code as ours; `doing` names the action in them.
    ///
    /// # Safety
    /// The function is of this plugin, and `args` are as the header says.
    pub unsafe fn call<A>(
        &self,
        function: unsafe extern "C" fn(*mut A) -> *mut RawError,
        args: &mut A,
        doing: &str,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        let raw = unsafe { function(args) };
        if raw.is_null() {
            return Ok(());
        }
        // SAFETY: an error of this plugin that nobody else has.
        let (code, text) = unsafe { self.take(raw) };
        Err(self.said(Error::new(code, format!("{doing}: {text}"))))
    }

    /// Code and text of an error, which is destroyed.
    ///
    /// # Safety
    /// The error is of this plugin, and not used again.
    unsafe fn take(&self, error: *mut RawError) -> (Code, String) {
        let mut message = api::ErrorMessage { error, ..api::ErrorMessage::zeroed() };
        let mut number = api::ErrorGetCode { error, ..api::ErrorGetCode::zeroed() };
        let mut end = api::ErrorDestroy { error, ..api::ErrorDestroy::zeroed() };
        // SAFETY: the caller's promise; the text lives as long as the error.
        unsafe {
            (self.functions.error_message)(&mut message);
            let text = match message.message.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(message.message.cast(), message.message_size),
            };
            let text = String::from_utf8_lossy(text).into_owned();
            let failed = (self.functions.error_get_code)(&mut number);
            if !failed.is_null() {
                let mut end = api::ErrorDestroy { error: failed, ..api::ErrorDestroy::zeroed() };
                (self.functions.error_destroy)(&mut end);
            }
            (self.functions.error_destroy)(&mut end);
            (code(number.code), text)
        }
    }
}

fn code(number: c_int) -> Code {
    match number {
        api::INVALID_ARGUMENT => Code::InvalidArgument,
        api::NOT_FOUND => Code::NotFound,
        api::RESOURCE_EXHAUSTED => Code::OutOfMemory,
        api::UNIMPLEMENTED => Code::Unsupported,
        _ => Code::OperatorError,
    }
}
