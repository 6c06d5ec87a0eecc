//! BLAS libraries that Python packages bring along, to compare products with: MKL within PyTorch, OpenBLAS within numpy.
#![expect(unsafe_code, reason = "functions of C libraries, loaded at run time")]

use libloading::Library;
use std::ffi::c_char;
use std::path::{Path, PathBuf};
use torchacc::backend::cpu::{Block, Matrix};

/// Fortran's `sgemm`: column-major `c = alpha op(a) op(b) + beta c`.
type Sgemm<Int> = unsafe extern "C" fn(
    transpose_a: *const c_char,
    transpose_b: *const c_char,
    m: *const Int,
    n: *const Int,
    k: *const Int,
    alpha: *const f32,
    a: *const f32,
    row_a: *const Int,
    b: *const f32,
    row_b: *const Int,
    beta: *const f32,
    c: *mut f32,
    row_c: *const Int,
);

/// `sgemm` with integers of either size.
#[derive(Clone, Copy)]
enum Function {
    Short(Sgemm<i32>),
    Long(Sgemm<i64>),
}

pub struct Blas {
    pub name: &'static str,
    sgemm: Function,
    use_one_thread: Box<dyn Fn()>,
}

impl Blas {
    /// Those that are found among the packages of `make`'s environment.
    pub fn found() -> Vec<Blas> {
        [mkl(), openblas()].into_iter().flatten().collect()
    }

    /// `c = a b`, of which rows or columns are dense, on this thread.
    pub fn multiply(&self, k: usize, a: Matrix<f32>, b: Matrix<f32>, c: &mut Block<f32>) {
        (self.use_one_thread)();
        let (m, n, (to, pitch)) = (c.rows, c.columns, c.raw());
        assert!(a.holds(m, k) && b.holds(k, n));
        // The transposed product of what lies in rows is one of what lies in columns.
        let lie = |strides: (usize, usize), rows: usize, columns: usize| match strides {
            (row, 1) => (c"N".as_ptr(), row.max(columns)),
            (_, column) => (c"T".as_ptr(), column.max(rows)),
        };
        let ((turn_a, row_a), (turn_b, row_b)) = (lie(a.strides, m, k), lie(b.strides, k, n));
        macro_rules! call {
            ($sgemm:expr, $int:ty) => {{
                let [m, n, k, row_a, row_b, pitch] =
                    [m, n, k, row_a, row_b, pitch].map(|i| i as $int);
                // SAFETY: the operands hold these elements, and the block is ours alone.
                unsafe {
                    $sgemm(
                        turn_b,
                        turn_a,
                        &n,
                        &m,
                        &k,
                        &1.0,
                        b.data.as_ptr(),
                        &row_b,
                        a.data.as_ptr(),
                        &row_a,
                        &0.0,
                        to,
                        &pitch,
                    );
                }
            }};
        }
        match self.sgemm {
            Function::Short(sgemm) => call!(sgemm, i32),
            Function::Long(sgemm) => call!(sgemm, i64),
        }
    }
}

fn mkl() -> Option<Blas> {
    let library = library("torch/lib", "libtorch_cpu.so")?;
    // SAFETY: their types in MKL's API.
    let (sgemm, set) = unsafe {
        (
            symbol::<Sgemm<i32>>(library, "sgemm_")?,
            symbol::<unsafe extern "C" fn(i32) -> i32>(library, "MKL_Set_Num_Threads_Local")?,
        )
    };
    let use_one_thread = Box::new(move || {
        // SAFETY: sets a number of this thread.
        unsafe { set(1) };
    });
    Some(Blas { name: "MKL", sgemm: Function::Short(sgemm), use_one_thread })
}

fn openblas() -> Option<Blas> {
    let library = library("numpy.libs", "libscipy_openblas64_")?;
    // SAFETY: their types in OpenBLAS's API, with numpy's prefix and suffix.
    let (sgemm, set) = unsafe {
        (
            symbol::<Sgemm<i64>>(library, "scipy_sgemm_64_")?,
            symbol::<unsafe extern "C" fn(i32)>(library, "scipy_openblas_set_num_threads64_")?,
        )
    };
    // SAFETY: sets a number of the library.
    let use_one_thread = Box::new(move || unsafe { set(1) });
    Some(Blas { name: "OpenBLAS", sgemm: Function::Long(sgemm), use_one_thread })
}

/// A library whose name begins so in a folder of the environment's packages; it is never unloaded.
fn library(folder: &str, name: &str) -> Option<&'static Library> {
    let environment = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/lib");
    let begins_so = |file: &PathBuf| {
        let of_file = file.file_name().and_then(|name| name.to_str());
        of_file.is_some_and(|of_file| of_file.starts_with(name))
    };
    let pythons = environment.read_dir().ok()?.flatten();
    let file = pythons.map(|python| python.path().join("site-packages").join(folder)).find_map(
        |folder| {
            let mut files = folder.read_dir().ok()?.flatten().map(|file| file.path());
            files.find(begins_so)
        },
    )?;
    // SAFETY: the libraries' initialisers only set up their own state.
    Some(Box::leak(Box::new(unsafe { Library::new(file) }.ok()?)))
}

/// # Safety
/// `T` must be the type of what has that name.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Option<T> {
    // SAFETY: the caller's promise.
    unsafe { library.get::<T>(name) }.map(|symbol| *symbol).ok()
}
