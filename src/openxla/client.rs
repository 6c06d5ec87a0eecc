//! Clients, executables and arrays of a plugin, each destroyed once by its owner.
#![expect(unsafe_code, reason = "calls of a plugin's functions")]

use super::api::{
    self, RawBuffer, RawClient, RawDevice, RawError, RawEvent, RawExecutable, RawLoaded,
};
use super::options::compile_options;
use super::plugin::Plugin;
use crate::error::{Code, Error, Result};
use crate::op::Ty;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::{Arc, Weak};

/// A kind of object that a plugin returns.
trait Object {
    /// # Safety
    /// `raw` is of this plugin and not used again.
    unsafe fn destroy(plugin: &Plugin, raw: *mut Self) -> *mut RawError;
}

macro_rules! objects {
    ($($raw:ident $args:ident { $field:ident } $function:ident;)*) => {
        $(impl Object for $raw {
            unsafe fn destroy(plugin: &Plugin, raw: *mut $raw) -> *mut RawError {
                let mut args = api::$args { $field: raw, ..api::$args::zeroed() };
                // SAFETY: the caller's promise.
                unsafe { (plugin.functions.$function)(&mut args) }
            }
        })*
    };
}

objects! {
    RawClient ClientDestroy { client } client_destroy;
    RawEvent EventDestroy { event } event_destroy;
    RawBuffer BufferDestroy { buffer } buffer_destroy;
    RawLoaded LoadedDestroy { executable } loaded_destroy;
    RawExecutable ExecutableDestroy { executable } executable_destroy;
}

/// An object that is destroyed on drop.
struct Owned<T: Object> {
    plugin: &'static Plugin,
    raw: *mut T,
}

// SAFETY: PJRT's objects may be used by any thread, and by several at once.
unsafe impl<T: Object> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Owned<T> {}

impl<T: Object> Owned<T> {
    /// Error: the plugin returned none.
    ///
    /// # Safety
    /// `raw` is NULL or an object of this plugin that nobody else destroys.
    unsafe fn new(plugin: &'static Plugin, raw: *mut T, what: &str) -> Result<Owned<T>> {
        match raw.is_null() {
            true => Err(plugin.error(Code::OperatorError, format!("it returned no {what}"))),
            false => Ok(Owned { plugin, raw }),
        }
    }
}

impl<T: Object> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the object is this plugin's, and not used again. An error on its destruction is of no use.
        unsafe {
            let error = T::destroy(self.plugin, self.raw);
            if !error.is_null() {
                let mut args = api::ErrorDestroy { error, ..api::ErrorDestroy::zeroed() };
                (self.plugin.functions.error_destroy)(&mut args);
            }
        }
    }
}

impl Owned<RawEvent> {
    /// Errors: those of the operation that the event stands for.
    fn wait(&self, doing: &str) -> Result<()> {
        let mut args = api::EventAwait { event: self.raw, ..api::EventAwait::zeroed() };
        // SAFETY: an event of this plugin.
        unsafe { self.plugin.call(self.plugin.functions.event_await, &mut args, doing) }
    }
}

/// A PJRT client and its first addressable device.
pub struct Client {
    raw: Owned<RawClient>,
    /// The first one; it lives as long as the client.
    device: *mut RawDevice,
    /// `cpu`, `cuda`, …
    platform: String,
}

// SAFETY: as of `Owned`.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

/// The clients in use: all users of a plugin share one.
static CLIENTS: Mutex<Vec<(&Plugin, Weak<Client>)>> = Mutex::new(Vec::new());

fn current(clients: &[(&Plugin, Weak<Client>)], plugin: &Plugin) -> Option<Arc<Client>> {
    clients.iter().find(|(of, _)| std::ptr::eq(*of, plugin))?.1.upgrade()
}

impl Client {
    /// The client of a plugin that is in use, or a new one.
    pub(super) fn of(plugin: &'static Plugin) -> Result<Arc<Client>> {
        plugin.check()?;
        if let Some(client) = current(&CLIENTS.lock(), plugin) {
            return Ok(client);
        }
        let made = Arc::new(Client::new(plugin)?);
        let mut clients = CLIENTS.lock();
        // Another thread may have been faster; the client that is not used is destroyed without the lock.
        let client = current(&clients, plugin).unwrap_or_else(|| made.clone());
        clients.retain(|(of, _)| !std::ptr::eq(*of, plugin));
        clients.push((plugin, Arc::downgrade(&client)));
        drop(clients);
        Ok(client)
    }

    fn new(plugin: &'static Plugin) -> Result<Client> {
        let functions = &plugin.functions;
        let mut args = api::ClientCreate::zeroed();
        // SAFETY: the function's own arguments.
        let raw = unsafe {
            plugin.call(functions.client_create, &mut args, "creating a client")?;
            Owned::new(plugin, args.client, "client")?
        };
        let mut name =
            api::ClientPlatformName { client: raw.raw, ..api::ClientPlatformName::zeroed() };
        let mut devices = api::ClientAddressableDevices {
            client: raw.raw,
            ..api::ClientAddressableDevices::zeroed()
        };
        // SAFETY: the functions' own arguments; both results live as long as the client.
        let (platform, device) = unsafe {
            plugin.call(functions.client_platform_name, &mut name, "the platform's name")?;
            plugin.call(functions.client_addressable_devices, &mut devices, "its devices")?;
            let name = match name.platform_name.is_null() {
                true => &[],
                false => {
                    std::slice::from_raw_parts(name.platform_name.cast(), name.platform_name_size)
                }
            };
            let some =
                devices.num_addressable_devices > 0 && !devices.addressable_devices.is_null();
            let device = some.then(|| devices.addressable_devices.read());
            (String::from_utf8_lossy(name).into_owned(), device)
        };
        let none = || plugin.error(Code::NotFound, "it has no device that this process can use");
        Ok(Client { device: device.ok_or_else(none)?, raw, platform })
    }

    pub fn platform(&self) -> &str {
        &self.platform
    }

    /// Compiles a module of StableHLO. `inputs` and `outputs` are the types of its function.
    pub(super) fn load(
        self: &Arc<Client>,
        text: &str,
        inputs: Vec<Ty>,
        outputs: Vec<Ty>,
    ) -> Result<Loaded> {
        let plugin = self.raw.plugin;
        plugin.check()?;
        let (format, options) = ("mlir", compile_options());
        let program = api::PjrtProgram {
            code: text.as_ptr().cast_mut().cast(),
            code_size: text.len(),
            format: format.as_ptr().cast(),
            format_size: format.len(),
            ..api::PjrtProgram::zeroed()
        };
        let mut args = api::ClientCompile {
            client: self.raw.raw,
            program: &program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..api::ClientCompile::zeroed()
        };
        // SAFETY: the function's own arguments; the program is read only.
        let raw = unsafe {
            plugin.call(plugin.functions.client_compile, &mut args, "compiling a module")?;
            Owned::new(plugin, args.executable, "executable")?
        };
        self.loaded(raw, inputs, outputs)
    }

    /// Restores the bytes of [`Loaded::serialized`] of the same plugin. Error: `Unsupported` where it cannot read them.
    pub(super) fn restore(
        self: &Arc<Client>,
        bytes: &[u8],
        inputs: Vec<Ty>,
        outputs: Vec<Ty>,
    ) -> Result<Loaded> {
        let plugin = self.raw.plugin;
        plugin.check()?;
        let Some(function) = plugin.functions.deserialize_and_load else {
            return Err(plugin.error(Code::Unsupported, "it reads no executables"));
        };
        let mut args = api::DeserializeAndLoad {
            client: self.raw.raw,
            serialized_executable: bytes.as_ptr().cast(),
            serialized_executable_size: bytes.len(),
            ..api::DeserializeAndLoad::zeroed()
        };
        // SAFETY: the function's own arguments; the bytes are read only.
        let raw = unsafe {
            plugin.call(function, &mut args, "reading an executable")?;
            Owned::new(plugin, args.loaded_executable, "executable")?
        };
        self.loaded(raw, inputs, outputs)
    }

    /// Error: the executable has another number of results.
    fn loaded(
        self: &Arc<Client>,
        raw: Owned<RawLoaded>,
        inputs: Vec<Ty>,
        outputs: Vec<Ty>,
    ) -> Result<Loaded> {
        let count = number_of_outputs(&raw)?;
        if count != outputs.len() {
            let text = format!("its executable has {count} results, not {}", outputs.len());
            return Err(self.raw.plugin.error(Code::OperatorError, text));
        }
        Ok(Loaded { raw, inputs, outputs, client: self.clone() })
    }

    /// An array of the plugin: `bytes` themselves if they are aligned as it requires (to 64 bytes), else a copy.
    fn argument<'b>(&self, ty: &Ty, bytes: &'b [u8]) -> Result<Argument<'b>> {
        let plugin = self.raw.plugin;
        let mut args = api::BufferFromHostBuffer {
            client: self.raw.raw,
            data: bytes.as_ptr().cast(),
            r#type: self.element_type(ty)?,
            dims: ty.sizes.as_ptr(),
            num_dims: ty.sizes.len(),
            host_buffer_semantics: api::IMMUTABLE_ZERO_COPY,
            device: self.device,
            ..api::BufferFromHostBuffer::zeroed()
        };
        // SAFETY: the function's own arguments; the bytes are there and not written to until `Argument` has ended.
        unsafe {
            let function = plugin.functions.buffer_from_host_buffer;
            plugin.call(function, &mut args, "handing it an input")?;
            let done = Owned::new(plugin, args.done_with_host_buffer, "event of an input");
            let buffer = Owned::new(plugin, args.buffer, "array");
            Ok(Argument { buffer: Some(buffer?), done: done?, bytes: PhantomData })
        }
    }

    fn element_type(&self, ty: &Ty) -> Result<i32> {
        api::element_type(ty.dtype).ok_or_else(|| {
            let text = format!("PJRT has no elements of type {}", ty.dtype);
            self.raw.plugin.error(Code::Unsupported, text)
        })
    }
}

/// The plugin's action, for errors.
const LOOKING: &str = "looking at what it compiled";

fn inner(loaded: &Owned<RawLoaded>) -> Result<Owned<RawExecutable>> {
    let plugin = loaded.plugin;
    let mut get =
        api::GetExecutable { loaded_executable: loaded.raw, ..api::GetExecutable::zeroed() };
    // SAFETY: the function's own arguments.
    unsafe {
        plugin.call(plugin.functions.get_executable, &mut get, LOOKING)?;
        Owned::new(plugin, get.executable, "executable")
    }
}

fn number_of_outputs(loaded: &Owned<RawLoaded>) -> Result<usize> {
    let (plugin, inner) = (loaded.plugin, inner(loaded)?);
    let mut count =
        api::ExecutableNumOutputs { executable: inner.raw, ..api::ExecutableNumOutputs::zeroed() };
    // SAFETY: the function's own arguments.
    unsafe { plugin.call(plugin.functions.executable_num_outputs, &mut count, LOOKING)? };
    Ok(count.num_outputs)
}

/// An input in the plugin. Its drop waits until the plugin no longer reads the bytes.
struct Argument<'b> {
    /// `None` only during the drop.
    buffer: Option<Owned<RawBuffer>>,
    done: Owned<RawEvent>,
    bytes: PhantomData<&'b [u8]>,
}

impl Drop for Argument<'_> {
    fn drop(&mut self) {
        self.buffer = None;
        // Even after an error, the bytes are free again.
        self.done.wait("").ok();
    }
}

/// A function that a plugin compiled.
pub struct Loaded {
    // Dropped before the client.
    raw: Owned<RawLoaded>,
    inputs: Vec<Ty>,
    outputs: Vec<Ty>,
    client: Arc<Client>,
}

impl Loaded {
    /// Runs the function, and waits. Inputs are dense and row-major, of as many bytes as their types, and free again when this
    /// returns. Those that are aligned to 64 bytes need not be copied.
    pub fn run(&self, inputs: &[&[u8]]) -> Result<Results<'_>> {
        self.raw.plugin.check()?;
        fits("inputs", &self.inputs, inputs.iter().map(|bytes| bytes.len()))?;
        let arguments: Vec<Argument> = (self.inputs.iter().zip(inputs))
            .map(|(ty, bytes)| self.client.argument(ty, bytes))
            .collect::<Result<_>>()?;
        let results = Results { arrays: self.execute(&arguments)?, of: self };
        results.arrays.iter().zip(&self.outputs).try_for_each(|(raw, ty)| self.check(raw, ty))?;
        Ok(results)
    }

    /// The bytes from which [`Client::restore`] makes it in another process. `None`: the plugin writes no executables.
    pub fn serialized(&self) -> Result<Option<Vec<u8>>> {
        let plugin = self.raw.plugin;
        let (Some(function), Some(_)) =
            (plugin.functions.executable_serialize, plugin.functions.deserialize_and_load)
        else {
            return Ok(None);
        };
        let inner = inner(&self.raw)?;
        let mut args = api::ExecutableSerialize {
            executable: inner.raw,
            ..api::ExecutableSerialize::zeroed()
        };
        // SAFETY: the function's own arguments; the bytes live until the deleter is called, once.
        unsafe {
            match plugin.call(function, &mut args, "writing an executable") {
                Err(error) if error.code == Code::Unsupported => return Ok(None),
                done => done?,
            }
            let bytes = match args.serialized_bytes.is_null() {
                true => Vec::new(),
                false => std::slice::from_raw_parts(
                    args.serialized_bytes.cast::<u8>(),
                    args.serialized_bytes_size,
                )
                .to_vec(),
            };
            if let Some(end) = args.serialized_executable_deleter {
                end(args.serialized_executable);
            }
            Ok(Some(bytes))
        }
    }

    fn execute(&self, arguments: &[Argument]) -> Result<Vec<Owned<RawBuffer>>> {
        let plugin = self.raw.plugin;
        let given: Vec<*mut RawBuffer> = arguments
            .iter()
            .map(|argument| argument.buffer.as_ref().map_or(null_mut(), |buffer| buffer.raw))
            .collect();
        let mut made: Vec<*mut RawBuffer> = vec![null_mut(); self.outputs.len()];
        let mut options = api::ExecuteOptions::zeroed();
        let (given, lists) = ([given.as_ptr()], [made.as_mut_ptr()]);
        let mut done: *mut RawEvent = null_mut();
        let mut args = api::Execute {
            executable: self.raw.raw,
            options: &mut options,
            argument_lists: given.as_ptr(),
            num_devices: 1,
            num_args: arguments.len(),
            output_lists: lists.as_ptr(),
            device_complete_events: &mut done,
            ..api::Execute::zeroed()
        };
        let doing = "running a program";
        // SAFETY: the function's own arguments; the arrays are there until the event has come.
        unsafe {
            plugin.call(plugin.functions.execute, &mut args, doing)?;
            let results: Vec<Result<Owned<RawBuffer>>> =
                made.into_iter().map(|raw| Owned::new(plugin, raw, "result")).collect();
            let waited = Owned::new(plugin, done, "event of a run")?.wait(doing);
            let results = results.into_iter().collect::<Result<Vec<_>>>()?;
            waited.map(|()| results)
        }
    }

    /// Error: the plugin's result is of another type than its module's.
    fn check(&self, result: &Owned<RawBuffer>, ty: &Ty) -> Result<()> {
        let (plugin, doing) = (self.raw.plugin, "asking for a result's type");
        let mut element =
            api::BufferElementType { buffer: result.raw, ..api::BufferElementType::zeroed() };
        let mut dims =
            api::BufferDimensions { buffer: result.raw, ..api::BufferDimensions::zeroed() };
        // SAFETY: the functions' own arguments; the sizes live as long as the array.
        let same = unsafe {
            plugin.call(plugin.functions.buffer_element_type, &mut element, doing)?;
            plugin.call(plugin.functions.buffer_dimensions, &mut dims, doing)?;
            let sizes = match dims.num_dims {
                0 => &[],
                rank => std::slice::from_raw_parts(dims.dims, rank),
            };
            *sizes == ty.sizes[..] && element.r#type == self.client.element_type(ty)?
        };
        match same {
            true => Ok(()),
            false => {
                let text = format!("a result is not {ty}, as the module says");
                Err(plugin.error(Code::OperatorError, text))
            }
        }
    }
}

/// The results of a run, in the plugin's memory.
pub struct Results<'l> {
    arrays: Vec<Owned<RawBuffer>>,
    of: &'l Loaded,
}

impl Results<'_> {
    /// Copies the results, dense and row-major, to memory of as many bytes as their types. Errors: the plugin's, `torn`.
    pub fn copy_to(&self, outputs: &mut [&mut [u8]]) -> Result<()> {
        fits("results", &self.of.outputs, outputs.iter().map(|bytes| bytes.len()))?;
        let mut copies = self.arrays.iter().zip(outputs);
        copies
            .try_for_each(|(array, bytes)| self.copy(array, bytes))
            .map_err(|error| Error { torn: true, ..error })
    }

    fn copy(&self, array: &Owned<RawBuffer>, bytes: &mut [u8]) -> Result<()> {
        let (plugin, doing) = (self.of.raw.plugin, "reading a result");
        let mut args = api::ToHostBuffer {
            src: array.raw,
            dst: bytes.as_mut_ptr().cast::<c_void>(),
            dst_size: bytes.len(),
            ..api::ToHostBuffer::zeroed()
        };
        // SAFETY: the function's own arguments; the memory is there until the event has come.
        let copied = unsafe {
            plugin.call(plugin.functions.to_host_buffer, &mut args, doing)?;
            Owned::new(plugin, args.event, "event of a copy")?
        };
        copied.wait(doing)
    }
}

/// Error: the number of arrays, or the bytes of one, do not match the types.
fn fits(what: &str, types: &[Ty], bytes: impl ExactSizeIterator<Item = usize>) -> Result<()> {
    let count = bytes.len();
    match count == types.len() && types.iter().map(Ty::nbytes).eq(bytes) {
        true => Ok(()),
        false => {
            let text = format!("the {count} {what} have not the bytes of {} types", types.len());
            Err(Error::new(Code::InvalidArgument, text))
        }
    }
}
