//! Steps of a plan as CUDA C++: what is launched, with which arguments.
//!
//! **Invariant:** text in, text out: nothing here knows a device. Sizes and strides are arguments, so kernels of one
//! structure are one text; what the text depends on is which strides are 0 or 1, what divides by a vector's width, and
//! whether 32 bits hold every index.

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

/// A kernel, without the prelude that stands in front of all ([`prelude`]): `extern "C"`, of one parameter, a
/// `Words<kernel_args>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Says what it is and, by a hash, which: equal names are equal texts.
    pub name: String,
    pub text: String,
    pub kernel_args: usize,
}

/// Device code that sources use: hand-written, but for what primitives are functions of CUDA's library. `DEVICE` and
/// `UNROLL` are what the compiler at hand calls them.
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

/// `op_` and the name of a primitive, for floats.
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

/// What stands before the prelude when NVRTC compiles it.
pub const NVRTC: &str = include_str!("../../../../cuda/nvrtc.cuh");

/// One argument: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelArg {
    Number(u64),
    /// Address of a reference, and bytes behind it. A `Scalar` is the address of its slot.
    At(MemRef, u64),
    /// Address of the run's status block.
    Status,
    /// Address of scratch memory of the program, and bytes behind it. Steps share it.
    Scratch(u64),
    /// Address of the program's table of arguments, and bytes behind it.
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

/// A launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub source: Source,
    pub kernel_args: Vec<KernelArg>,
    pub shape: Shape,
}

/// What a step is made of, and the bytes of scratch memory that it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    pub tasks: Vec<Task>,
    pub scratch: u64,
}

/// A reference that is in no plan: an operand of the emitter's own in scratch memory.
pub const SCRATCH: MemRef = MemRef::Output(u32::MAX);

/// Blocks that keep a large device busy. A number of ours, not the device's: bits do not depend on the device then.
const BUSY: i64 = 264;
/// Threads of a block.
const BLOCK: u32 = 256;
