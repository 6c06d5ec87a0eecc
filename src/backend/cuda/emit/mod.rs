//! Steps of a plan as CUDA C++: the kernels that are launched, and their arguments.
//!
//! **Invariant:** text in, text out: nothing here knows a device. Sizes and strides are arguments, so kernels of one
//! structure share one text, which depends only on which strides are 0 or 1, which sizes, strides and offsets are multiples
//! of a vector's width, and whether 32 bits hold every index.

mod access;
mod attention;
mod body;
mod grouped;
pub mod index;
mod map;
mod custom_op;
mod reduce;
mod rows;
mod scan;
mod transpose;
pub mod window;
mod write;

pub use self::body::may_fail;
pub use attention::{attention, attention_grad};
pub use custom_op::custom_op;
pub use grouped::grouped_matmul;
pub use index::IndexedStep;
pub use map::{Epilogue, cast, copy, map, zeros};
pub use reduce::reduce;
pub use rows::{To, log_sum_exp, rows};
pub use scan::running;

use crate::op::table::TABLE;
use crate::op::{Arity, Row};
use crate::plan::{MemRef, Operand};
use std::sync::LazyLock;

/// A kernel, without the [`prelude`] that precedes all kernels: `extern "C"`, with one parameter, a `Words<kernel_args>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// A label and a hash of the text: equal names are equal texts.
    pub name: String,
    pub text: String,
    pub kernel_args: usize,
}

/// Device code that sources use: hand-written, except for primitives that are functions of CUDA's library. `DEVICE` and
/// `UNROLL` are defined for the compiler in use.
pub fn prelude() -> &'static str {
    static PRELUDE: LazyLock<String> = LazyLock::new(|| {
        [
            include_str!("../../../../cuda/types.cuh"),
            &TABLE
                .iter()
                .filter(|row| !row.cuda.is_empty())
                .map(library_function)
                .collect::<String>(),
            include_str!("../../../../cuda/math.cuh"),
            include_str!("../../../../cuda/fold.cuh"),
            include_str!("../../../../cuda/index.cuh"),
            include_str!("../../../../cuda/window.cuh"),
            include_str!("../../../../cuda/grouped.cuh"),
        ]
        .concat()
    });
    &PRELUDE
}

/// The functions `op_{name}` of a primitive, for floats.
fn library_function(row: &Row) -> String {
    let (name, function) = (row.name, row.cuda);
    let of = |dtype: &str, suffix: &str| {
        let (parameters, arguments) = match row.arity {
            Arity::Exactly(1) => (format!("{dtype} x"), "x"),
            _ => (format!("{dtype} x, {dtype} y"), "x, y"),
        };
        format!(
            "DEVICE {dtype} op_{name}({parameters}) {{ return {function}{suffix}({arguments}); }}\n"
        )
    };
    of("f32", "f") + &of("f64", "")
}

/// Text before the prelude when NVRTC compiles it.
pub const NVRTC: &str = include_str!("../../../../cuda/nvrtc.cuh");

/// One argument: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelArg {
    Number(u64),
    /// Address of a reference, plus an offset in bytes. A `Scalar` is the address of its slot.
    At(MemRef, u64),
    /// Address of the run's status block.
    Status,
    /// Address of the program's scratch memory, plus an offset in bytes. Steps share it.
    Scratch(u64),
    /// Address of the program's table of arguments, plus an offset in bytes.
    Table(u64),
}

impl KernelArg {
    /// Address of an operand's first element.
    pub fn of(operand: &Operand) -> KernelArg {
        let offset = operand.layout.offset as u64 * operand.dtype.size() as u64;
        match operand.mem {
            SCRATCH => KernelArg::Scratch(offset),
            mem => KernelArg::At(mem, offset),
        }
    }

    pub fn number(number: i64) -> KernelArg {
        KernelArg::Number(number as u64)
    }
}

/// Threads of a launch. `shared` are bytes of dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: u32,
    pub shared: u32,
}

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub source: Source,
    pub kernel_args: Vec<KernelArg>,
    pub shape: Shape,
}

/// The launches of a step, and the bytes of scratch memory that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    pub tasks: Vec<Task>,
    pub scratch: u64,
}

/// A reference that no plan contains: an operand of the emitter's own in scratch memory.
pub const SCRATCH: MemRef = MemRef::Output(u32::MAX);

/// Number of blocks that keep a large device busy. It is not the device's own number, so that bits do not depend on the device.
const BUSY: i64 = 264;
/// Threads of a block.
const BLOCK: u32 = 256;
