//! cuBLASLt's functions (<https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api>) and its descriptions of products.
#![expect(unsafe_code, reason = "a C library, loaded at run time")]

use super::super::device::{Matrix, Product};
use super::api::Handle;
use super::library::{candidates, functions};
use crate::backend::library::open;
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::internal;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

const NAMES: [&str; 3] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
const OLDEST: i32 = 12;

/// `cublasStatus_t`; 0 is success.
type Status = c_int;

/// `cublasLtMatmulAlgo_t`: opaque, to be copied and stored.
pub type Algorithm = [u64; 8];

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    pub algorithm: Algorithm,
    /// Bytes of workspace.
    pub workspace: usize,
    pub state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

functions!(Api {
    version "cublasLtGetVersion" () -> usize;
    status_string "cublasLtGetStatusString" (Status) -> *const c_char;
    create "cublasLtCreate" (*mut Handle) -> Status;
    destroy "cublasLtDestroy" (Handle) -> Status;
    create_product "cublasLtMatmulDescCreate" (*mut Handle, c_int, c_int) -> Status;
    destroy_product "cublasLtMatmulDescDestroy" (Handle) -> Status;
    set_product "cublasLtMatmulDescSetAttribute" (Handle, c_int, *const c_void, usize) -> Status;
    create_layout "cublasLtMatrixLayoutCreate" (*mut Handle, c_int, u64, u64, i64) -> Status;
    destroy_layout "cublasLtMatrixLayoutDestroy" (Handle) -> Status;
    set_layout "cublasLtMatrixLayoutSetAttribute" (Handle, c_int, *const c_void, usize) -> Status;
    create_preference "cublasLtMatmulPreferenceCreate" (*mut Handle) -> Status;
    destroy_preference "cublasLtMatmulPreferenceDestroy" (Handle) -> Status;
    set_preference "cublasLtMatmulPreferenceSetAttribute" (Handle, c_int, *const c_void, usize) -> Status;
    choose "cublasLtMatmulAlgoGetHeuristic" (Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Choice, *mut c_int) -> Status;
    check_choice "cublasLtMatmulAlgoCheck" (Handle, Handle, Handle, Handle, Handle, Handle, *const Algorithm, *mut Choice) -> Status;
    multiply "cublasLtMatmul" (Handle, Handle, *const c_void, u64, Handle, u64, Handle, *const c_void, u64, Handle, u64, Handle, *const Algorithm, u64, usize, Handle) -> Status;
});

/// `cublasComputeType_t`.
const COMPUTE_32F: c_int = 68;
const COMPUTE_64F: c_int = 70;
const COMPUTE_32F_FAST_TF32: c_int = 77;
/// `cublasLtMatmulDescAttributes_t`.
const TRANSPOSE_A: c_int = 3;
const TRANSPOSE_B: c_int = 4;
const SCALE_A: c_int = 17;
const SCALE_B: c_int = 18;
/// `cublasLtMatrixLayoutAttribute_t`.
const BATCH_COUNT: c_int = 5;
const BATCH_OFFSET: c_int = 6;
/// `cublasLtMatmulPreferenceAttributes_t`.
const MOST_WORKSPACE: c_int = 1;
const REDUCTION_SCHEMES: c_int = 3;
const ALIGNMENT: [c_int; 4] = [5, 6, 7, 8];
/// The most matrices of one product: not all algorithms support a larger grid.
pub const MOST_BATCH: u64 = 65535;
/// Partial sums are kept in the compute type and added in a fixed order; the other schemes round them to the result's type.
const IN_COMPUTE_TYPE: u32 = 2;

/// A loaded cuBLASLt.
pub struct Blas {
    pub api: Api,
    /// For example 130002.
    pub version: usize,
}

impl Blas {
    /// The first library found that `suits`. Errors: `Unsupported`, with the reason for every file.
    pub fn find(
        folders: &[PathBuf],
        suits: impl Fn(&Blas) -> std::result::Result<(), String>,
    ) -> Result<Blas> {
        let mut refused = Vec::new();
        for file in candidates(folders, &NAMES) {
            match Blas::open(&file).and_then(|blas| suits(&blas).map(|()| blas)) {
                Ok(blas) => return Ok(blas),
                Err(why) => refused.push(format!("{}: {why}", file.display())),
            }
        }
        Err(Error::new(
            Code::Unsupported,
            format!(
                "no usable cuBLASLt, which multiplies matrices. Install it (pip install nvidia-cublas for CUDA 13, \
                 nvidia-cublas-cu12 for CUDA 12, or NVIDIA's CUDA toolkit) or name its folder by TORCHACC_CUDA. Tried {}",
                refused.join("; ")
            ),
        ))
    }

    fn open(file: &Path) -> std::result::Result<Blas, String> {
        let api = Api::load(open(file)?)?;
        // SAFETY: as `cublasLt.h` says.
        let blas = Blas { version: unsafe { (api.version)() }, api };
        match blas.major() {
            major if major < OLDEST => {
                Err(format!("version {}, not {OLDEST} or newer", blas.version))
            }
            _ => Ok(blas),
        }
    }

    pub fn major(&self) -> i32 {
        (self.version / 10_000) as i32
    }

    pub fn check(&self, status: Status, what: impl std::fmt::Display) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: it returns a static text.
        let text = unsafe { CStr::from_ptr((self.api.status_string)(status)) }.to_string_lossy();
        Err(Error::new(Code::Internal, format!("cuBLASLt, {what}: {text}")))
    }
}

/// Column-major layout of one of the three matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    pub rows: u64,
    pub columns: u64,
    pub leading: u64,
    pub batch: u64,
    /// Whether the transpose of the stored matrix is multiplied.
    pub transposed: bool,
}

/// A product in BLAS's terms: `c = first · second` of column-major matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Whether `first` is our `a`; else it is our `b`.
    pub a_first: bool,
    pub first: Columns,
    pub second: Columns,
    pub c: Columns,
}

impl Blocks {
    /// A row-major `c = a b` is a column-major `cᵀ = bᵀ aᵀ`: a row-major matrix, read column-major, is its own transpose.
    pub fn of(product: &Product) -> Blocks {
        let &Product { m, n, k, a, b, c, .. } = product;
        // The stored form of a matrix of `rows` × `columns`, and whether it is to be transposed.
        let stored = |x: Matrix, rows: u64, columns: u64, wanted_transposed: bool| {
            let (stored_rows, stored_columns) =
                if x.transposed { (rows, columns) } else { (columns, rows) };
            Columns {
                rows: stored_rows,
                columns: stored_columns,
                leading: x.leading,
                batch: x.batch,
                transposed: x.transposed == wanted_transposed,
            }
        };
        match c.transposed {
            // Memory holds the columns of cᵀ: bᵀ and aᵀ are wanted.
            false => Blocks {
                a_first: false,
                first: stored(b, k, n, true),
                second: stored(a, m, k, true),
                c: Columns { transposed: false, ..stored(c, m, n, true) },
            },
            // Memory holds the columns of c.
            true => Blocks {
                a_first: true,
                first: stored(a, m, k, false),
                second: stored(b, k, n, false),
                c: Columns { transposed: false, ..stored(c, m, n, false) },
            },
        }
    }
}

/// cuBLASLt's descriptors of a product, destroyed on drop.
pub struct Described<'a> {
    blas: &'a Blas,
    pub product: Handle,
    /// Those of the first operand, the second operand and the result.
    pub layouts: [Handle; 3],
}

impl<'a> Described<'a> {
    /// Describes a product of at most [`MOST_BATCH`] matrices. `scales` are the addresses of the first and the second operand's
    /// scales. Errors: the library's.
    pub fn new(
        blas: &'a Blas,
        product: &Product,
        scales: Option<[usize; 2]>,
        allow_tf32: bool,
    ) -> Result<Described<'a>> {
        let [a, b, c] = product.dtypes;
        let (compute, scale) = computed(a, allow_tf32);
        let blocks = Blocks::of(product);
        let batch = product.batch as i32;
        let [first, second] = if blocks.a_first { [a, b] } else { [b, a] };
        let types = [element(first)?, element(second)?, element(c)?];
        let mut described = Described { blas, product: 0, layouts: [0; 3] };
        // SAFETY (all calls of this file): as `cublasLt.h` says; attributes have the size of their type there.
        let status = unsafe { (blas.api.create_product)(&mut described.product, compute, scale) };
        blas.check(status, "describing a product")?;
        for (which, side) in [(TRANSPOSE_A, blocks.first), (TRANSPOSE_B, blocks.second)] {
            let set = blas.api.set_product;
            described.set(set, described.product, which, side.transposed as i32)?;
        }
        for (which, address) in [SCALE_A, SCALE_B].into_iter().zip(scales.into_iter().flatten()) {
            described.set(blas.api.set_product, described.product, which, address as u64)?;
        }
        for (at, side) in [blocks.first, blocks.second, blocks.c].into_iter().enumerate() {
            let data = types[at];
            let (rows, columns, leading) = (side.rows, side.columns, side.leading as i64);
            let layout = &mut described.layouts[at];
            let status = unsafe { (blas.api.create_layout)(layout, data, rows, columns, leading) };
            blas.check(status, format_args!("describing {side:?}"))?;
            let layout = *layout;
            described.set(blas.api.set_layout, layout, BATCH_COUNT, batch)?;
            described.set(blas.api.set_layout, layout, BATCH_OFFSET, side.batch as i64)?;
        }
        Ok(described)
    }

    fn set<T>(
        &self,
        function: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status,
        of: Handle,
        attribute: c_int,
        value: T,
    ) -> Result<()> {
        let status = unsafe { function(of, attribute, (&raw const value).cast(), size_of::<T>()) };
        self.blas.check(status, format_args!("attribute {attribute} of a product"))
    }

    /// The algorithms that the library expects to be fastest, the best first, for operands (first, second, result) with this
    /// `alignment` in bytes. Errors: there is none.
    pub fn choices(
        &self,
        handle: Handle,
        most_workspace: usize,
        alignment: [u32; 3],
        most: usize,
    ) -> Result<Vec<Choice>> {
        let (api, mut preference) = (&self.blas.api, 0);
        let status = unsafe { (api.create_preference)(&mut preference) };
        self.blas.check(status, "choosing an algorithm")?;
        let chosen = (|| {
            let set = api.set_preference;
            self.set(set, preference, MOST_WORKSPACE, most_workspace as u64)?;
            self.set(set, preference, REDUCTION_SCHEMES, IN_COMPUTE_TYPE)?;
            let [first, second, c] = alignment;
            for (which, bytes) in ALIGNMENT.into_iter().zip([first, second, c, c]) {
                self.set(set, preference, which, bytes)?;
            }
            let mut choices = vec![Choice::default(); most];
            let mut count = 0;
            let [a, b, c] = self.layouts;
            let status = unsafe {
                let to = choices.as_mut_ptr();
                (api.choose)(
                    handle,
                    self.product,
                    a,
                    b,
                    c,
                    c,
                    preference,
                    most as c_int,
                    to,
                    &mut count,
                )
            };
            self.blas.check(status, "choosing an algorithm")?;
            choices.truncate(count.max(0) as usize);
            choices.retain(|choice| choice.state == 0 && choice.workspace <= most_workspace);
            Ok(choices)
        })();
        unsafe { (api.destroy_preference)(preference) };
        match chosen? {
            choices if choices.is_empty() => internal!("cuBLASLt has no algorithm for a product"),
            choices => Ok(choices),
        }
    }

    /// The choice for a stored algorithm, if the library still accepts it.
    pub fn restored(&self, handle: Handle, algorithm: Algorithm, most: usize) -> Option<Choice> {
        let mut choice = Choice::default();
        let [a, b, c] = self.layouts;
        let status = unsafe {
            let check = self.blas.api.check_choice;
            check(handle, self.product, a, b, c, c, &algorithm, &mut choice)
        };
        (status == 0 && choice.workspace <= most).then_some(Choice { algorithm, ..choice })
    }
}

impl Drop for Described<'_> {
    fn drop(&mut self) {
        let api = &self.blas.api;
        unsafe {
            for layout in self.layouts.into_iter().filter(|&layout| layout != 0) {
                (api.destroy_layout)(layout);
            }
            if self.product != 0 {
                (api.destroy_product)(self.product);
            }
        }
    }
}

/// `cudaDataType_t`.
fn element(dtype: DType) -> Result<c_int> {
    Ok(match dtype {
        DType::F32 => 0,
        DType::F64 => 1,
        DType::F16 => 2,
        DType::BF16 => 14,
        DType::F8E4M3FN => 28,
        DType::F8E5M2 => 29,
        other => return internal!("cuBLASLt multiplies no {other:?}"),
    })
}

/// Compute type of a product of `operand`s, and `cudaDataType_t` of alpha and beta.
fn computed(operand: DType, allow_tf32: bool) -> (c_int, c_int) {
    match operand {
        DType::F64 => (COMPUTE_64F, 1),
        DType::F32 if allow_tf32 => (COMPUTE_32F_FAST_TF32, 0),
        _ => (COMPUTE_32F, 0),
    }
}
