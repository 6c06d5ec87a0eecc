//! The part of `pjrt_c_api.h` that is used, as a table of functions and the structs that they take.
//!
//! Everything here is as in version 0.81 of the header. Within major version 0, functions and fields have kept their places
//! since minor version 57; new ones are appended. `tests/openxla` compares every number with a header.
#![expect(unsafe_code, reason = "tables and structs of another library's C header")]

use crate::dtype::DType;
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// The only major version so far.
pub const MAJOR: c_int = 0;
/// The oldest supported minor version: before it, functions had other places in the table.
pub const OLDEST_MINOR: c_int = 57;

/// Bytes before the first function of the table.
const HEAD: usize = size_of::<Api>();

/// The beginning of the table of functions.
#[repr(C)]
pub struct Api {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub pjrt_api_version: Version,
}

#[repr(C)]
pub struct Version {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub major_version: c_int,
    pub minor_version: c_int,
}

pub enum RawError {}
pub enum RawEvent {}
pub enum RawClient {}
pub enum RawDevice {}
pub enum RawBuffer {}
pub enum RawLoaded {}
pub enum RawExecutable {}
pub enum RawSerialized {}

/// A C expression over the header's names, and the value that this file assumes for it.
pub type Fact = (String, usize);

/// Structs by their names in C. All of them begin with a size and extensions.
macro_rules! structs {
    ($($name:ident $c:literal { $($field:ident: $ty:ty,)* })*) => {
        $(
            #[repr(C)]
            pub struct $name {
                pub struct_size: usize,
                pub extension_start: *mut c_void,
                $(pub $field: $ty,)*
            }

            impl $name {
                /// All zeros, except for its size.
                pub fn zeroed() -> $name {
                    // SAFETY: pointers and numbers, which may be zero.
                    let mut made: $name = unsafe { std::mem::zeroed() };
                    made.struct_size = size_of::<$name>();
                    made
                }
            }
        )*

        fn places() -> Vec<Fact> {
            vec![$($((
                format!("offsetof({}, {})", $c, stringify!($field).trim_start_matches("r#")),
                offset_of!($name, $field),
            ),)*)*]
        }

        fn sizes() -> Vec<Fact> {
            vec![$((format!("sizeof({})", $c), size_of::<$name>()),)*]
        }
    };
}

structs! {
    ErrorDestroy "PJRT_Error_Destroy_Args" { error: *mut RawError, }
    ErrorMessage "PJRT_Error_Message_Args" {
        error: *const RawError,
        message: *const c_char,
        message_size: usize,
    }
    ErrorGetCode "PJRT_Error_GetCode_Args" { error: *const RawError, code: c_int, }
    PluginInitialize "PJRT_Plugin_Initialize_Args" {}
    EventDestroy "PJRT_Event_Destroy_Args" { event: *mut RawEvent, }
    EventAwait "PJRT_Event_Await_Args" { event: *mut RawEvent, }
    ClientCreate "PJRT_Client_Create_Args" {
        create_options: *const c_void,
        num_options: usize,
        kv_get_callback: *const c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *const c_void,
        kv_put_user_arg: *mut c_void,
        client: *mut RawClient,
        kv_try_get_callback: *const c_void,
        kv_try_get_user_arg: *mut c_void,
    }
    ClientDestroy "PJRT_Client_Destroy_Args" { client: *mut RawClient, }
    ClientPlatformName "PJRT_Client_PlatformName_Args" {
        client: *mut RawClient,
        platform_name: *const c_char,
        platform_name_size: usize,
    }
    ClientAddressableDevices "PJRT_Client_AddressableDevices_Args" {
        client: *mut RawClient,
        addressable_devices: *const *mut RawDevice,
        num_addressable_devices: usize,
    }
    PjrtProgram "PJRT_Program" {
        code: *mut c_char,
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }
    ClientCompile "PJRT_Client_Compile_Args" {
        client: *mut RawClient,
        program: *const PjrtProgram,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: *mut RawLoaded,
    }
    BufferFromHostBuffer "PJRT_Client_BufferFromHostBuffer_Args" {
        client: *mut RawClient,
        data: *const c_void,
        r#type: c_int,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: c_int,
        device: *mut RawDevice,
        memory: *mut c_void,
        device_layout: *mut c_void,
        done_with_host_buffer: *mut RawEvent,
        buffer: *mut RawBuffer,
    }
    ExecutableDestroy "PJRT_Executable_Destroy_Args" { executable: *mut RawExecutable, }
    ExecutableNumOutputs "PJRT_Executable_NumOutputs_Args" {
        executable: *mut RawExecutable,
        num_outputs: usize,
    }
    ExecutableSerialize "PJRT_Executable_Serialize_Args" {
        executable: *const RawExecutable,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_executable: *mut RawSerialized,
        serialized_executable_deleter: Option<unsafe extern "C" fn(*mut RawSerialized)>,
    }
    DeserializeAndLoad "PJRT_Executable_DeserializeAndLoad_Args" {
        client: *mut RawClient,
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        loaded_executable: *mut RawLoaded,
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
    }
    LoadedDestroy "PJRT_LoadedExecutable_Destroy_Args" { executable: *mut RawLoaded, }
    GetExecutable "PJRT_LoadedExecutable_GetExecutable_Args" {
        loaded_executable: *mut RawLoaded,
        executable: *mut RawExecutable,
    }
    ExecuteOptions "PJRT_ExecuteOptions" {
        send_callbacks: *mut c_void,
        recv_callbacks: *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut c_void,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
    }
    Execute "PJRT_LoadedExecutable_Execute_Args" {
        executable: *mut RawLoaded,
        options: *mut ExecuteOptions,
        argument_lists: *const *const *mut RawBuffer,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut RawBuffer,
        device_complete_events: *mut *mut RawEvent,
        execute_device: *mut RawDevice,
    }
    BufferDestroy "PJRT_Buffer_Destroy_Args" { buffer: *mut RawBuffer, }
    BufferElementType "PJRT_Buffer_ElementType_Args" { buffer: *mut RawBuffer, r#type: c_int, }
    BufferDimensions "PJRT_Buffer_Dimensions_Args" {
        buffer: *mut RawBuffer,
        dims: *const i64,
        num_dims: usize,
    }
    ToHostBuffer "PJRT_Buffer_ToHostBuffer_Args" {
        src: *mut RawBuffer,
        host_layout: *mut c_void,
        dst: *mut c_void,
        dst_size: usize,
        event: *mut RawEvent,
    }
}

/// Functions by their names in C and their places in the table.
macro_rules! functions {
    (
        needed { $($field:ident $name:literal $place:literal: ($args:ty) $(-> $result:ty)?;)* }
        optional { $($extra:ident $extra_name:literal $extra_place:literal: ($extra_args:ty);)* }
    ) => {
        pub struct Functions {
            $(pub $field: unsafe extern "C" fn(*mut $args) $(-> $result)?,)*
            $(pub $extra: Option<unsafe extern "C" fn(*mut $extra_args) -> *mut RawError>,)*
        }

        impl Functions {
            /// Errors: the function that the table lacks.
            ///
            /// # Safety
            /// `api` is a table of a version that this file knows, readable for the size that it states.
            pub unsafe fn of(api: *const Api) -> Result<Functions, String> {
                // SAFETY: the caller's promise.
                let size = unsafe { (*api).struct_size };
                Ok(Functions {
                    $($field: {
                        let place = HEAD + $place * size_of::<usize>();
                        if size < place + size_of::<usize>() {
                            return Err(format!("its table ends before the function {}", $name));
                        }
                        // SAFETY: it is within the table, and this is its type or NULL.
                        let function = unsafe {
                            api.byte_add(place)
                                .cast::<Option<unsafe extern "C" fn(*mut $args) $(-> $result)?>>()
                                .read()
                        };
                        function.ok_or_else(|| format!("it has no function {}", $name))?
                    },)*
                    // SAFETY: within the table, which ends behind the functions above; this is its type or NULL.
                    $($extra: unsafe {
                        api.byte_add(HEAD + $extra_place * size_of::<usize>())
                            .cast::<Option<unsafe extern "C" fn(*mut $extra_args) -> *mut RawError>>()
                            .read()
                    },)*
                })
            }
        }

        fn table() -> Vec<Fact> {
            vec![$((
                format!("offsetof(PJRT_Api, {})", $name),
                HEAD + $place * size_of::<usize>(),
            ),)* $((
                format!("offsetof(PJRT_Api, {})", $extra_name),
                HEAD + $extra_place * size_of::<usize>(),
            ),)*]
        }
    };
}

functions! {
    needed {
        error_destroy "PJRT_Error_Destroy" 0: (ErrorDestroy);
        error_message "PJRT_Error_Message" 1: (ErrorMessage);
        error_get_code "PJRT_Error_GetCode" 2: (ErrorGetCode) -> *mut RawError;
        plugin_initialize "PJRT_Plugin_Initialize" 3: (PluginInitialize) -> *mut RawError;
        event_destroy "PJRT_Event_Destroy" 5: (EventDestroy) -> *mut RawError;
        event_await "PJRT_Event_Await" 8: (EventAwait) -> *mut RawError;
        client_create "PJRT_Client_Create" 10: (ClientCreate) -> *mut RawError;
        client_destroy "PJRT_Client_Destroy" 11: (ClientDestroy) -> *mut RawError;
        client_platform_name "PJRT_Client_PlatformName" 12: (ClientPlatformName) -> *mut RawError;
        client_addressable_devices "PJRT_Client_AddressableDevices" 16:
            (ClientAddressableDevices) -> *mut RawError;
        client_compile "PJRT_Client_Compile" 20: (ClientCompile) -> *mut RawError;
        buffer_from_host_buffer "PJRT_Client_BufferFromHostBuffer" 22:
            (BufferFromHostBuffer) -> *mut RawError;
        executable_destroy "PJRT_Executable_Destroy" 40: (ExecutableDestroy) -> *mut RawError;
        executable_num_outputs "PJRT_Executable_NumOutputs" 44:
            (ExecutableNumOutputs) -> *mut RawError;
        loaded_destroy "PJRT_LoadedExecutable_Destroy" 50: (LoadedDestroy) -> *mut RawError;
        get_executable "PJRT_LoadedExecutable_GetExecutable" 51: (GetExecutable) -> *mut RawError;
        execute "PJRT_LoadedExecutable_Execute" 55: (Execute) -> *mut RawError;
        buffer_destroy "PJRT_Buffer_Destroy" 58: (BufferDestroy) -> *mut RawError;
        buffer_element_type "PJRT_Buffer_ElementType" 59: (BufferElementType) -> *mut RawError;
        buffer_dimensions "PJRT_Buffer_Dimensions" 60: (BufferDimensions) -> *mut RawError;
        to_host_buffer "PJRT_Buffer_ToHostBuffer" 70: (ToHostBuffer) -> *mut RawError;
    }
    optional {
        executable_serialize "PJRT_Executable_Serialize" 49: (ExecutableSerialize);
        deserialize_and_load "PJRT_Executable_DeserializeAndLoad" 56: (DeserializeAndLoad);
    }
}

/// Enumerators of the header.
macro_rules! constants {
    ($($name:ident $c:literal = $value:literal;)*) => {
        $(pub const $name: c_int = $value;)*

        fn numbers() -> Vec<Fact> {
            vec![$(($c.to_string(), $value),)*]
        }
    };
}

constants! {
    IMMUTABLE_ZERO_COPY "PJRT_HostBufferSemantics_kImmutableZeroCopy" = 2;
    INVALID_ARGUMENT "PJRT_Error_Code_INVALID_ARGUMENT" = 3;
    NOT_FOUND "PJRT_Error_Code_NOT_FOUND" = 5;
    RESOURCE_EXHAUSTED "PJRT_Error_Code_RESOURCE_EXHAUSTED" = 8;
    UNIMPLEMENTED "PJRT_Error_Code_UNIMPLEMENTED" = 12;
}

/// Element types with their numbers.
const ELEMENTS: [(DType, &str, c_int); 20] = [
    (DType::Bool, "PRED", 1),
    (DType::I8, "S8", 2),
    (DType::I16, "S16", 3),
    (DType::I32, "S32", 4),
    (DType::I64, "S64", 5),
    (DType::U8, "U8", 6),
    (DType::U16, "U16", 7),
    (DType::U32, "U32", 8),
    (DType::U64, "U64", 9),
    (DType::F16, "F16", 10),
    (DType::F32, "F32", 11),
    (DType::F64, "F64", 12),
    (DType::BF16, "BF16", 13),
    (DType::C64, "C64", 14),
    (DType::C128, "C128", 15),
    (DType::F8E5M2, "F8E5M2", 16),
    (DType::F8E4M3FN, "F8E4M3FN", 17),
    (DType::F8E5M2FNUZ, "F8E5M2FNUZ", 19),
    (DType::F8E4M3FNUZ, "F8E4M3FNUZ", 20),
    (DType::F8E8M0FNU, "F8E8M0FNU", 28),
];

/// The number of an element type, if it has one.
pub fn element_type(dtype: DType) -> Option<c_int> {
    ELEMENTS.iter().find(|row| row.0 == dtype).map(|row| row.2)
}

/// The facts about the header that this file relies on.
pub fn facts() -> Vec<Fact> {
    let elements =
        ELEMENTS.iter().map(|row| (format!("PJRT_Buffer_Type_{}", row.1), row.2 as usize));
    let version = |field: &str, offset: usize| {
        let start = offset_of!(Api, pjrt_api_version);
        (format!("offsetof(PJRT_Api, pjrt_api_version.{field})"), start + offset)
    };
    let versions = [
        ("PJRT_API_MAJOR".to_string(), MAJOR as usize),
        version("major_version", offset_of!(Version, major_version)),
        version("minor_version", offset_of!(Version, minor_version)),
    ];
    let all = [places(), sizes(), table(), numbers(), versions.into()];
    all.into_iter().flatten().chain(elements).collect()
}
