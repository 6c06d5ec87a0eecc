//! The functions in use of oneDNN's C API of primitives (`dnnl.h` of version 3), and owners of the objects they create.
#![expect(unsafe_code, reason = "a C library's functions")]

use libloading::Library;
use parking_lot::Mutex;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

/// An object of the library, or null.
pub type Handle = *mut c_void;

/// `DNNL_MAX_NDIMS` numbers, one for each dimension.
pub type Dims = [i64; 12];

/// `dnnl_status_t`; 0 is success.
pub type Status = c_int;

/// `dnnl_cpu`, `dnnl_stream_default_flags`, `dnnl_scratchpad_mode_user`, `dnnl_forward_training`,
/// `dnnl_convolution_direct`, `dnnl_format_tag_any`.
const CPU: c_int = 1;
const IN_ORDER: c_uint = 1;
const SCRATCHPAD_OF_USER: c_int = 1;
pub const FORWARD: c_int = 64;
pub const DIRECT: c_int = 1;
pub const ANY: c_int = 1;

/// `dnnl_data_type_t`.
pub const F16: c_int = 1;
pub const BF16: c_int = 2;
pub const F32: c_int = 3;
pub const F64: c_int = 7;

/// `dnnl_query_t`: the name of an implementation, descriptors of operands, strides of a descriptor.
const NAME: c_int = 8;
pub const SOURCE: c_int = 129;
pub const SOURCE_GRADIENT: c_int = 130;
pub const WEIGHTS: c_int = 131;
pub const WEIGHTS_GRADIENT: c_int = 132;
pub const RESULT: c_int = 133;
pub const RESULT_GRADIENT: c_int = 134;
pub const SCRATCHPAD: c_int = 136;

/// `DNNL_ARG_…`: operands of an execution.
pub const ARG_SOURCE: c_int = 1;
pub const ARG_RESULT: c_int = 17;
pub const ARG_WEIGHTS: c_int = 33;
pub const ARG_SCRATCHPAD: c_int = 80;
pub const ARG_GRADIENT: c_int = 128;

/// `dnnl_exec_arg_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Argument {
    pub arg: c_int,
    pub memory: Handle,
}

/// Declares the functions and their symbols.
macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($t:ty),*) $(-> $result:ty)?;)*) => {
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($t),*) $(-> $result)?,)*
        }

        impl Api {
            /// `None` when a function is missing.
            ///
            /// # Safety
            /// The library must be oneDNN of major version 3.
            pub unsafe fn of(library: &Library) -> Option<Api> {
                // SAFETY: these are the types of the functions in that version's header.
                unsafe { Some(Api { $($name: super::symbol(library, $symbol).ok()?,)* }) }
            }
        }
    };
}

functions! {
    create_engine = "dnnl_engine_create": fn(*mut Handle, c_int, usize) -> Status;
    create_stream = "dnnl_stream_create": fn(*mut Handle, Handle, c_uint) -> Status;
    destroy_stream = "dnnl_stream_destroy": fn(Handle) -> Status;
    create_layout = "dnnl_memory_desc_create_with_tag":
        fn(*mut Handle, c_int, *const i64, c_int, c_int) -> Status;
    create_strided = "dnnl_memory_desc_create_with_strides":
        fn(*mut Handle, c_int, *const i64, c_int, *const i64) -> Status;
    create_part = "dnnl_memory_desc_create_submemory":
        fn(*mut Handle, Handle, *const i64, *const i64) -> Status;
    clone_layout = "dnnl_memory_desc_clone": fn(*mut Handle, Handle) -> Status;
    destroy_layout = "dnnl_memory_desc_destroy": fn(Handle) -> Status;
    equal_layouts = "dnnl_memory_desc_equal": fn(Handle, Handle) -> c_int;
    size_of_layout = "dnnl_memory_desc_get_size": fn(Handle) -> usize;
    create_memory = "dnnl_memory_create": fn(*mut Handle, Handle, Handle, *mut c_void) -> Status;
    destroy_memory = "dnnl_memory_destroy": fn(Handle) -> Status;
    create_attributes = "dnnl_primitive_attr_create": fn(*mut Handle) -> Status;
    set_scratchpad = "dnnl_primitive_attr_set_scratchpad_mode": fn(Handle, c_int) -> Status;
    describe_reorder = "dnnl_reorder_primitive_desc_create":
        fn(*mut Handle, Handle, Handle, Handle, Handle, Handle) -> Status;
    describe_forward = "dnnl_convolution_forward_primitive_desc_create":
        fn(*mut Handle, Handle, c_int, c_int, Handle, Handle, Handle, Handle,
           *const i64, *const i64, *const i64, *const i64, Handle) -> Status;
    describe_grad_input = "dnnl_convolution_backward_data_primitive_desc_create":
        fn(*mut Handle, Handle, c_int, Handle, Handle, Handle,
           *const i64, *const i64, *const i64, *const i64, Handle, Handle) -> Status;
    describe_grad_weight = "dnnl_convolution_backward_weights_primitive_desc_create":
        fn(*mut Handle, Handle, c_int, Handle, Handle, Handle, Handle,
           *const i64, *const i64, *const i64, *const i64, Handle, Handle) -> Status;
    describe_product = "dnnl_matmul_primitive_desc_create":
        fn(*mut Handle, Handle, Handle, Handle, Handle, Handle, Handle) -> Status;
    next_implementation = "dnnl_primitive_desc_next_impl": fn(Handle) -> Status;
    query = "dnnl_primitive_desc_query": fn(Handle, c_int, c_int, *mut c_void) -> Status;
    query_layout = "dnnl_primitive_desc_query_md": fn(Handle, c_int, c_int) -> Handle;
    destroy_description = "dnnl_primitive_desc_destroy": fn(Handle) -> Status;
    create_primitive = "dnnl_primitive_create": fn(*mut Handle, Handle) -> Status;
    execute = "dnnl_primitive_execute": fn(Handle, Handle, c_int, *const Argument) -> Status;
    destroy_primitive = "dnnl_primitive_destroy": fn(Handle) -> Status;
}

/// Owns an object of the library.
pub struct Owned {
    pub handle: Handle,
    destroy: unsafe extern "C" fn(Handle) -> Status,
}

// SAFETY: descriptors and primitives are not changed once they are made, and several threads may call the library's
// functions that read or execute them; an object is dropped by its last owner.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Owned {
    /// The object that `create` writes; `None` if it fails.
    ///
    /// # Safety
    /// `create` must write an object that `destroy` takes, or return a status other than 0.
    pub unsafe fn new(
        destroy: unsafe extern "C" fn(Handle) -> Status,
        create: impl FnOnce(*mut Handle) -> Status,
    ) -> Option<Owned> {
        let mut handle = null_mut();
        let status = create(&mut handle);
        (status == 0 && !handle.is_null()).then_some(Owned { handle, destroy })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the promise to `new`. The library counts references to objects that others refer to.
        unsafe { (self.destroy)(self.handle) };
    }
}

/// The processor as the library's device, and attributes by which callers provide scratch memory: executions in several
/// threads would share the library's. Both live as long as the process, one pair for each loaded library.
pub struct Engine {
    pub api: Api,
    pub handle: Handle,
    pub attributes: Handle,
}

/// One for each library that was loaded.
static ENGINES: Mutex<Vec<&'static Engine>> = Mutex::new(Vec::new());

// SAFETY: neither is changed once it is made.
unsafe impl Send for Engine {}
// SAFETY: as above.
unsafe impl Sync for Engine {}

impl Engine {
    /// `None` when the library lacks a function or refuses.
    ///
    /// # Safety
    /// As [`Api::of`], and the library must never be unloaded.
    pub unsafe fn new(library: &Library) -> Option<&'static Engine> {
        // SAFETY: the caller's promise.
        let api = unsafe { Api::of(library)? };
        let mut engines = ENGINES.lock();
        let of_library = |e: &&&Engine| e.api.create_engine as usize == api.create_engine as usize;
        if let Some(engine) = engines.iter().find(of_library) {
            return Some(engine);
        }
        let (mut handle, mut attributes) = (null_mut(), null_mut());
        // SAFETY: as the header says.
        let made = unsafe {
            (api.create_engine)(&mut handle, CPU, 0) == 0
                && (api.create_attributes)(&mut attributes) == 0
                && (api.set_scratchpad)(attributes, SCRATCHPAD_OF_USER) == 0
        };
        made.then(|| {
            engines.push(Box::leak(Box::new(Engine { api, handle, attributes })));
            engines[engines.len() - 1]
        })
    }

    /// The name of the described implementation.
    pub fn name(&self, description: &Owned) -> Option<&'static CStr> {
        let mut name: *const c_char = null();
        let out: *mut *const c_char = &mut name;
        // SAFETY: room for the pointer to a string that the library, which is never unloaded, keeps.
        unsafe {
            let status = (self.api.query)(description.handle, NAME, 0, out.cast());
            (status == 0 && !name.is_null()).then(|| CStr::from_ptr(name))
        }
    }

    /// A queue that runs its work at once, in the calling thread.
    pub fn stream(&self) -> Option<Owned> {
        let create = |out: *mut Handle| {
            // SAFETY: as the header says.
            unsafe { (self.api.create_stream)(out, self.handle, IN_ORDER) }
        };
        // SAFETY: a stream.
        unsafe { Owned::new(self.api.destroy_stream, create) }
    }
}
