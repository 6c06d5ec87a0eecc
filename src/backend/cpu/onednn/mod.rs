//! oneDNN (<https://github.com/uxlfoundation/oneDNN>, its C API, major version 3), found at run time: it computes the product
//! or the convolution of one block on one thread, faster than the portable code of [`super::gemm`].
//!
//! **Invariant:** whether a thread uses it is decided when the thread, or its run, starts; oneDNN never starts a thread of its
//! own, because every thread that calls it has told OpenMP to use one thread.
#![expect(unsafe_code, reason = "a C library, loaded at run time")]

mod api;
mod convolution;
mod primitive_cache;
mod primitive;
mod product;

pub use convolution::{Convolution, Direction, Problem};
pub use product::{Packing, Plain, Product};

use super::access;
use super::choice::Choices;
use super::element::{Bf16, F16};
use crate::backend::library::{open, symbol};
use crate::error::Result;
use crate::invalid;
use primitive_cache::PrimitiveCache;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the library, with the major version whose API this module uses.
#[cfg(target_os = "macos")]
const NAME: &str = "libdnnl.3.dylib";
#[cfg(not(target_os = "macos"))]
const NAME: &str = "libdnnl.so.3";

/// Where to look for oneDNN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// Not at all.
    Off,
    /// This file; it is an error if it cannot be used.
    File(PathBuf),
    /// In these folders, beside this library, and where the system's libraries are; it may be missing.
    Folders(Vec<PathBuf>),
}

/// `dnnl_sgemm` (of f32) and `dnnl_gemm_bf16bf16f32`: row-major `c = alpha op(a) op(b) + beta c`. Returns 0, or an error
/// status without having done anything.
type Gemm<T> = unsafe extern "C" fn(
    transpose_a: c_char,
    transpose_b: c_char,
    m: i64,
    n: i64,
    k: i64,
    alpha: f32,
    a: *const T,
    row_a: i64,
    b: *const T,
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

/// `dnnl_cpu_isa_t`: the bit of AVX-512's bf16 instructions, and all bits up to AVX-512's last before AMX.
const ISA_BF16: u32 = 0x80;
const ISA_AVX512: u32 = 0x1ef;

/// OpenMP's `omp_get_max_threads` and `omp_set_num_threads`: the number of threads that parallel regions of this thread use.
#[derive(Clone, Copy)]
struct OpenMp {
    get: unsafe extern "C" fn() -> c_int,
    set: unsafe extern "C" fn(c_int),
}

impl OpenMp {
    fn get(self) -> c_int {
        // SAFETY: asks for a number of this thread.
        unsafe { (self.get)() }
    }

    fn set(self, count: c_int) {
        // SAFETY: sets a number of this thread.
        unsafe { (self.set)(count) }
    }
}

/// Element types of plain tensors, by their `dnnl_data_type_t`.
pub trait Element: access::Plain {
    const CODE: c_int;
}
impl Element for f32 {
    const CODE: c_int = api::F32;
}
impl Element for f64 {
    const CODE: c_int = api::F64;
}
impl Element for F16 {
    const CODE: c_int = api::F16;
}
impl Element for Bf16 {
    const CODE: c_int = api::BF16;
}

/// Objects made of the library's primitives.
struct Primitives {
    engine: &'static api::Engine,
    convolutions: PrimitiveCache<Problem, Convolution>,
    products: product::Products,
}

/// A loaded oneDNN. It is never unloaded: OpenMP keeps state of every thread that entered it.
#[derive(Clone)]
pub struct OneDnn {
    sgemm: Gemm<f32>,
    bf16_gemm: Option<Gemm<Bf16>>,
    /// Whether computing in bf16 is faster than converting to f32.
    fast_bf16: bool,
    /// A sequential build needs none.
    openmp: Option<OpenMp>,
    primitives: Option<Arc<Primitives>>,
    /// For which blocks it was measured to be the fastest, if that is measured.
    choices: Option<Arc<Choices>>,
    /// The instruction sets that it uses, by `dnnl_cpu_isa_t`; 0 if unknown.
    pub isa: u32,
    /// Such as `3.2.0`.
    pub version: String,
}

/// `Ok(None)` when there is none and none was asked for by name.
/// Errors: a file named by the user that is not a usable oneDNN, with the reason.
pub fn load(search: &Search) -> Result<Option<Arc<OneDnn>>> {
    let folders: &[PathBuf] = match search {
        Search::Off => return Ok(None),
        Search::File(path) => match at(path) {
            Ok(library) => return Ok(Some(library)),
            Err(why) => return invalid!("oneDNN at {}: {why}", path.display()),
        },
        Search::Folders(folders) => folders,
    };
    let mut files: Vec<PathBuf> = folders.iter().cloned().chain(own_folder()).collect();
    files.iter_mut().for_each(|folder| folder.push(NAME));
    files.retain(|file| file.exists());
    // The system searches for a bare name in its own way.
    files.push(NAME.into());
    Ok(files.iter().find_map(|file| at(file).ok()))
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

fn at(path: &Path) -> std::result::Result<Arc<OneDnn>, String> {
    let library = open(path)?;
    // SAFETY: its type in oneDNN's C API.
    let version: unsafe extern "C" fn() -> *const Version =
        unsafe { symbol(&library, "dnnl_version")? };
    // SAFETY: it returns a static struct that begins like `Version`.
    let version = unsafe { &*version() };
    if version.major != 3 {
        return Err(format!("version {}, not 3", version.major));
    }
    // SAFETY: their types in the C API of oneDNN version 3 and of OpenMP.
    let (sgemm, bf16_gemm, get, set) = unsafe {
        (
            symbol(&library, "dnnl_sgemm")?,
            symbol(&library, "dnnl_gemm_bf16bf16f32").ok(),
            symbol(&library, "omp_get_max_threads").ok(),
            symbol(&library, "omp_set_num_threads").ok(),
        )
    };
    let openmp = match (version.cpu_runtime, get, set) {
        (RUNTIME_SEQUENTIAL, ..) => None,
        (RUNTIME_OPENMP, Some(get), Some(set)) => Some(OpenMp { get, set }),
        _ => return Err("built for threads that it does not let its caller control".into()),
    };
    // SAFETY: its type in oneDNN's C API.
    let isa = unsafe {
        symbol::<unsafe extern "C" fn() -> u32>(&library, "dnnl_get_effective_cpu_isa")
            .map_or(0, |isa| isa())
    };
    let fast_bf16 = has_fast_bf16(isa);
    // SAFETY: it is of version 3, and is forgotten below, so never unloaded.
    let engine = unsafe { api::Engine::new(&library) };
    let primitives = engine.map(|engine| {
        let (convolutions, products) = (PrimitiveCache::default(), product::Products::new(engine));
        Arc::new(Primitives { engine, convolutions, products })
    });
    std::mem::forget(library);
    let version = format!("{}.{}.{}", version.major, version.minor, version.patch);
    let choices = None;
    let library = OneDnn { sgemm, bf16_gemm, fast_bf16, openmp, primitives, choices, isa, version };
    Ok(Arc::new(library))
}

/// Whether products of bf16 are faster than of f32: with AMX, and with AMD's AVX-512. Intel's AVX-512 takes twice as
/// long for a bf16 dot product as for the multiply-adds in f32 that it replaces (85 to 170 GFLOP/s). On other
/// architectures the library's numbers mean something else, and this is not measured.
fn has_fast_bf16(isa: u32) -> bool {
    let is_fast = isa > ISA_AVX512 || isa & ISA_BF16 != 0 && super::isa::is_amd();
    cfg!(target_arch = "x86_64") && is_fast
}

thread_local! {
    static OF_THREAD: RefCell<Option<Arc<OneDnn>>> = const { RefCell::new(None) };
    /// OpenMP's number of threads before [`enter`] set it to 1.
    static BEFORE: Cell<Option<(OpenMp, c_int)>> = const { Cell::new(None) };
}

/// Makes this thread use `library` from now on.
pub fn enter(library: Option<Arc<OneDnn>>) {
    let openmp = library.as_ref().and_then(|l| l.openmp);
    BEFORE.set(openmp.map(|openmp| (openmp, openmp.get())));
    openmp.inspect(|openmp| openmp.set(1));
    OF_THREAD.set(library);
}

/// Undoes [`enter`]; returns the library that this thread used.
fn leave() -> Option<Arc<OneDnn>> {
    BEFORE.take().inspect(|(openmp, count)| openmp.set(*count));
    OF_THREAD.take()
}

impl OneDnn {
    pub fn with_choices(self, choices: Choices) -> OneDnn {
        OneDnn { choices: Some(Arc::new(choices)), ..self }
    }

    pub fn choices(&self) -> Option<&Choices> {
        self.choices.as_deref()
    }
}

/// Calls `body` with the choices of this thread's library: `None` without a library, `Some(None)` if it has no choices.
pub fn with_choices<R>(body: impl FnOnce(Option<Option<&Choices>>) -> R) -> R {
    OF_THREAD.with_borrow(|library| body(library.as_ref().map(|l| l.choices.as_deref())))
}

/// Whether this thread uses a library.
pub fn is_here() -> bool {
    OF_THREAD.with_borrow(Option::is_some)
}

/// Runs `body` with `library` on this thread; with `None`, OpenMP has its usual number of threads.
pub fn with<R>(library: Option<Arc<OneDnn>>, body: impl FnOnce() -> R) -> R {
    struct Back(Option<Arc<OneDnn>>);
    impl Drop for Back {
        fn drop(&mut self) {
            leave();
            enter(self.0.take());
        }
    }
    let _back = Back(leave());
    enter(library);
    body()
}

/// The packed element type with which this thread's library convolves elements of type `element` fastest.
pub fn packed(element: c_int) -> c_int {
    let fast = |library: &Option<Arc<OneDnn>>| library.as_ref().is_some_and(|l| l.fast_bf16);
    if element == api::BF16 && OF_THREAD.with_borrow(fast) { api::BF16 } else { api::F32 }
}

/// The convolution of `problem`, for threads with this one's library; `None` without a library or a fast kernel.
pub fn convolution(problem: &Problem) -> Option<Arc<Convolution>> {
    let primitives = primitives()?;
    primitives.convolutions.find(*problem, || Convolution::new(primitives.engine, problem))
}

/// How this thread's library packs `plain`; `None` without a library, or if it gains nothing by packing.
pub fn packing(plain: Plain) -> Option<Arc<Packing>> {
    let suits =
        plain.element == api::F32 || plain.element == api::BF16 && packed(api::BF16) == api::BF16;
    if !suits {
        return None;
    }
    primitives()?.products.packing(plain)
}

/// The product of `rows` rows and an operand of that packing. `None` as for [`packing`].
pub fn product(packing: &Packing, rows: usize, pitch: usize) -> Option<Arc<Product>> {
    primitives()?.products.product(packing, rows, pitch)
}

fn primitives() -> Option<Arc<Primitives>> {
    OF_THREAD.with_borrow(|library: &Option<Arc<OneDnn>>| library.as_ref()?.primitives.clone())
}

/// A matrix as BLAS takes it: its transposition flag and leading dimension; `None` if its strides do not suit.
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

/// The address and strides of a matrix in memory.
pub type Raw<T> = (*const T, (isize, isize));

/// `c = alpha a b + beta c` as [`super::gemm::Real::product`], if this thread has the library and the layouts suit
/// it; else returns false and does nothing.
///
/// # Safety
/// The matrices must be valid memory, and nobody else may access `c`.
#[allow(clippy::too_many_arguments, reason = "the BLAS signature")]
pub unsafe fn sgemm(
    m: usize,
    k: usize,
    n: usize,
    alpha: f32,
    a: Raw<f32>,
    b: Raw<f32>,
    beta: f32,
    c: (*mut f32, isize),
) -> bool {
    let gemm = OF_THREAD.with_borrow(|library| library.as_ref().map(|l| l.sgemm));
    // SAFETY: the caller's promise.
    gemm.is_some_and(|gemm| unsafe { call(gemm, [m, k, n], alpha, a, b, beta, c) })
}

/// `c = a b` of bf16 in f32, under the same conditions; also false where converting to f32 is no slower.
///
/// # Safety
/// As [`sgemm`].
pub unsafe fn bf16_gemm(
    sizes: [usize; 3],
    a: Raw<Bf16>,
    b: Raw<Bf16>,
    c: (*mut f32, isize),
) -> bool {
    let fast = |library: &Option<Arc<OneDnn>>| {
        library.as_ref().filter(|l| l.fast_bf16).and_then(|l| l.bf16_gemm)
    };
    let gemm = OF_THREAD.with_borrow(fast);
    // SAFETY: the caller's promise.
    gemm.is_some_and(|gemm| unsafe { call(gemm, sizes, 1.0, a, b, 0.0, c) })
}

/// # Safety
/// As [`sgemm`].
unsafe fn call<T>(
    gemm: Gemm<T>,
    [m, k, n]: [usize; 3],
    alpha: f32,
    a: Raw<T>,
    b: Raw<T>,
    beta: f32,
    c: (*mut f32, isize),
) -> bool {
    let (Some(at), Some(bt)) = (blas_layout(a.1, m, k), blas_layout(b.1, k, n)) else {
        return false;
    };
    let (m, n, k) = (m as i64, n as i64, k as i64);
    // SAFETY: the caller's promise.
    let status =
        unsafe { gemm(at.0, bt.0, m, n, k, alpha, a.0, at.1, b.0, bt.1, beta, c.0, c.1 as i64) };
    status == 0
}

#[cfg(test)]
mod tests {
    use super::super::gemm::bf16_gemm;
    use super::super::isa::{Isa, chosen};
    use super::super::matrix::{Block, Matrix};
    use super::super::tests::{Random, onednn};
    use super::*;

    #[test]
    fn what_is_asked_for_by_name_must_be_there() {
        let here = Search::File(file!().into());
        assert!(load(&here).is_err_and(|e| e.message.starts_with("oneDNN at src/backend")));
        assert!(load(&Search::Off).unwrap().is_none());
    }

    /// Also where f32 would be used because it is faster. Without AVX-512 the library refuses, and nothing has happened.
    #[test]
    fn bf16_products_are_exact_up_to_the_sums() {
        let Some(library) = load(&onednn()).unwrap() else { return };
        enter(Some(Arc::new(OneDnn { fast_bf16: true, ..(*library).clone() })));
        let mut random = Random::new(3);
        for (m, k, n) in [(1, 2, 1), (3, 5, 7), (3, 6, 7), (33, 70, 65), (64, 200, 16)] {
            let mut numbers = |count: usize| -> Vec<Bf16> {
                (0..count).map(|_| Bf16(half::bf16::from_f64(random.unit()).to_bits())).collect()
            };
            let (a, b) = (numbers(m * k), numbers(k * n));
            for layouts in 0..4 {
                fn transposed(
                    data: &[Bf16],
                    rows: usize,
                    columns: usize,
                    turn: bool,
                ) -> Matrix<'_, Bf16> {
                    match turn {
                        true => Matrix::rows(data, rows).transposed(),
                        false => Matrix::rows(data, columns),
                    }
                }
                let a = transposed(&a[..], m, k, layouts & 1 != 0);
                let b = transposed(&b[..], k, n, layouts & 2 != 0);
                let mut c = vec![f32::NAN; m * n];
                let done = bf16_gemm(k, a, b, &mut Block::new(&mut c, n));
                assert_eq!(done, k % 2 == 0 && chosen() == Isa::Avx512);
                if !done {
                    assert!(c.iter().all(|c| c.is_nan()));
                    continue;
                }
                let at = |x: &Matrix<Bf16>, i: usize, j: usize| {
                    let bits = x.data[i * x.strides.0 + j * x.strides.1].0;
                    half::bf16::from_bits(bits).to_f64()
                };
                for (at_c, &c) in c.iter().enumerate() {
                    let (i, j) = (at_c / n, at_c % n);
                    let want: f64 = (0..k).map(|l| at(&a, i, l) * at(&b, l, j)).sum();
                    assert!((c as f64 - want).abs() <= k as f64 * 1e-6, "{c} {want}");
                }
            }
        }
        enter(None);
    }
}
