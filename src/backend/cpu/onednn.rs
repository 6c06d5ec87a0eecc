//! oneDNN (<https://github.com/uxlfoundation/oneDNN>, its C API, major version 3), found at run time: the product of
//! one block on one thread, faster than [`super::gemm`]'s portable one.
//!
//! **Invariant:** whether a thread uses it was decided when the thread started; oneDNN never starts a thread of its
//! own, because every thread that calls it has told OpenMP that it computes alone.
#![expect(unsafe_code, reason = "a C library, loaded at run time")]

use crate::error::Result;
use crate::invalid;
use libloading::Library;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the library, with the major version whose API this file speaks.
#[cfg(target_os = "macos")]
const NAME: &str = "libdnnl.3.dylib";
#[cfg(not(target_os = "macos"))]
const NAME: &str = "libdnnl.so.3";

/// Where oneDNN is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// Not at all.
    Off,
    /// This file; that it cannot be used is an error.
    File(PathBuf),
    /// In these folders, beside this library, and where the system's libraries are; it may be missing.
    Folders(Vec<PathBuf>),
}

/// `dnnl_sgemm`: row-major `c = alpha op(a) op(b) + beta c`. Returns 0, or a status and has done nothing.
type Sgemm = unsafe extern "C" fn(
    transpose_a: c_char,
    transpose_b: c_char,
    m: i64,
    n: i64,
    k: i64,
    alpha: f32,
    a: *const f32,
    row_a: i64,
    b: *const f32,
    row_b: i64,
    beta: f32,
    c: *mut f32,
    row_c: i64,
) -> c_int;

/// The head of `dnnl_version_t`, which later versions extend.
#[repr(C)]
struct Version {
    major: c_int,
    minor: c_int,
    patch: c_int,
    hash: *const c_char,
    cpu_runtime: u32,
}

const RUNTIME_SEQUENTIAL: u32 = 1;
const RUNTIME_OPENMP: u32 = 2;

/// A loaded oneDNN. It is never unloaded: OpenMP keeps state of every thread that entered it.
pub struct OneDnn {
    sgemm: Sgemm,
    /// OpenMP's `omp_set_num_threads`; a sequential build needs none.
    set_num_threads: Option<unsafe extern "C" fn(c_int)>,
    /// Such as `3.2.0`.
    pub version: String,
}

/// `Ok(None)` when there is none and none was asked for by name.
/// Errors: a file named by the user that is not a usable oneDNN, with the reason.
pub fn load(search: &Search) -> Result<Option<Arc<OneDnn>>> {
    let folders: &[PathBuf] = match search {
        Search::Off => return Ok(None),
        Search::File(path) => match open(path) {
            Ok(library) => return Ok(Some(library)),
            Err(why) => return invalid!("oneDNN at {}: {why}", path.display()),
        },
        Search::Folders(folders) => folders,
    };
    let mut files: Vec<PathBuf> = folders.iter().cloned().chain(own_folder()).collect();
    files.iter_mut().for_each(|folder| folder.push(NAME));
    files.retain(|file| file.exists());
    // A bare name is searched for as the system does.
    files.push(NAME.into());
    Ok(files.iter().find_map(|file| open(file).ok()))
}

/// The folder this library itself was loaded from.
fn own_folder() -> Option<PathBuf> {
    // SAFETY: all zeros is a valid value of this plain struct.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here: fn() -> Option<PathBuf> = own_folder;
    // SAFETY: an address in this library, and memory for the answer.
    if unsafe { libc::dladdr(here as *const libc::c_void, &mut info) } == 0
        || info.dli_fname.is_null()
    {
        return None;
    }
    // SAFETY: the loader's string, which lives as long as the library.
    let file = unsafe { CStr::from_ptr(info.dli_fname) };
    Path::new(file.to_str().ok()?).parent().map(Path::to_path_buf)
}

fn open(path: &Path) -> std::result::Result<Arc<OneDnn>, String> {
    // SAFETY: the initialisers of oneDNN and of its OpenMP only set up their own state.
    let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
    let missing = |e: libloading::Error| e.to_string();
    // SAFETY: the types of oneDNN's C API version 3 and of OpenMP's C API.
    let (version, sgemm, set_num_threads) = unsafe {
        (
            *library
                .get::<unsafe extern "C" fn() -> *const Version>(b"dnnl_version\0")
                .map_err(missing)?,
            *library.get::<Sgemm>(b"dnnl_sgemm\0").map_err(missing)?,
            library.get::<unsafe extern "C" fn(c_int)>(b"omp_set_num_threads\0").ok().map(|f| *f),
        )
    };
    // SAFETY: it returns a static struct that begins like `Version`.
    let version = unsafe { &*version() };
    if version.major != 3 {
        return Err(format!("version {}, not 3", version.major));
    }
    let set_num_threads = match (version.cpu_runtime, set_num_threads) {
        (RUNTIME_SEQUENTIAL, _) => None,
        (RUNTIME_OPENMP, Some(set)) => Some(set),
        _ => return Err("built for threads that it does not let its caller control".into()),
    };
    std::mem::forget(library);
    let version = format!("{}.{}.{}", version.major, version.minor, version.patch);
    Ok(Arc::new(OneDnn { sgemm, set_num_threads, version }))
}

thread_local! {
    static OF_THREAD: RefCell<Option<Arc<OneDnn>>> = const { RefCell::new(None) };
}

/// Makes this thread use `library` from now on.
pub fn enter(library: Option<Arc<OneDnn>>) {
    if let Some(set) = library.as_ref().and_then(|l| l.set_num_threads) {
        // SAFETY: sets the number of threads that parallel regions of this thread start with.
        unsafe { set(1) };
    }
    OF_THREAD.set(library);
}

/// A matrix as BLAS wants it: whether it is transposed, and from row to row of what is in memory.
fn blas_layout(strides: (isize, isize), rows: usize, columns: usize) -> Option<(c_char, i64)> {
    let (row, column) = strides;
    if column == 1 || columns == 1 {
        let enough = row >= columns as isize || rows == 1;
        return enough.then(|| (b'N' as c_char, row.max(columns as isize) as i64));
    }
    if row == 1 || rows == 1 {
        let enough = column >= rows as isize;
        return enough.then(|| (b'T' as c_char, column.max(rows as isize) as i64));
    }
    None
}

/// `c = alpha a b + beta c` as [`super::gemm::Real::product`], if this thread has the library and the layouts suit
/// it; else false, and nothing has happened.
///
/// # Safety
/// The matrices must be valid memory, and `c` nobody else's.
#[allow(clippy::too_many_arguments, reason = "the BLAS signature")]
pub unsafe fn sgemm(
    m: usize,
    k: usize,
    n: usize,
    alpha: f32,
    a: (*const f32, (isize, isize)),
    b: (*const f32, (isize, isize)),
    beta: f32,
    c: (*mut f32, isize),
) -> bool {
    let (Some(at), Some(bt)) = (blas_layout(a.1, m, k), blas_layout(b.1, k, n)) else {
        return false;
    };
    OF_THREAD.with_borrow(|library| {
        let Some(library) = library else { return false };
        let (m, n, k) = (m as i64, n as i64, k as i64);
        // SAFETY: the caller's promise.
        let status = unsafe {
            (library.sgemm)(at.0, bt.0, m, n, k, alpha, a.0, at.1, b.0, bt.1, beta, c.0, c.1 as i64)
        };
        status == 0
    })
}
