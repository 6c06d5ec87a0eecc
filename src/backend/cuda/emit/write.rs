//! A kernel under construction: its arguments and its text.

use super::{BLOCK, KernelArg, Source, Task};
use crate::backend::cuda::emit::Shape;
use crate::dtype::{DType, Float8};
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

/// A kernel's arguments and text. The first argument is the status block.
pub struct Writer {
    kernel_args: Vec<KernelArg>,
    /// Types and functions before the kernel.
    head: String,
    body: String,
}

impl Writer {
    pub fn new() -> Writer {
        Writer { kernel_args: vec![KernelArg::Status], head: String::new(), body: String::new() }
    }

    /// Adds an argument; returns its name in the text, a `u64`.
    pub fn kernel_arg(&mut self, kernel_arg: KernelArg) -> String {
        self.kernel_args.push(kernel_arg);
        format!("a.at[{}]", self.kernel_args.len() - 1)
    }

    pub fn number(&mut self, number: i64) -> String {
        self.kernel_arg(KernelArg::Number(number as u64))
    }

    /// The argument with which `divided` divides by `divisor`, which is at least 1 and below 2^31.
    pub fn divisor(&mut self, divisor: i64) -> String {
        self.kernel_arg(KernelArg::Number(reciprocal(divisor as u64)))
    }

    /// Appends text before the kernel.
    pub fn head(&mut self, text: &str) {
        self.head.push_str(text);
    }

    pub fn line(&mut self, text: impl AsRef<str>) {
        self.body.push_str("    ");
        self.body.push_str(text.as_ref());
        self.body.push('\n');
    }

    /// A task of `blocks` blocks. `label` begins the kernel's name.
    pub fn finish(self, label: &str, blocks: u64) -> Task {
        self.finish_as(label, Shape { grid: grid(blocks), block: BLOCK, shared: 0 })
    }

    /// A task of `blocks` blocks, whose text calls a block's number `block`: so it may be one item of many
    /// ([`Source::of_many`]).
    pub fn finish_item(mut self, label: &str, blocks: u64) -> Task {
        self.body.insert_str(0, NUMBER);
        self.finish(label, blocks)
    }

    /// A task of any shape.
    pub fn finish_as(self, label: &str, shape: Shape) -> Task {
        let block = shape.block;
        let Writer { kernel_args, head, body } = self;
        let n = kernel_args.len();
        let (mut text, entry) = (head, entry("NAME", n, "a"));
        let bounds = format!("__launch_bounds__({block})");
        let _ = writeln!(text, "extern \"C\" __global__ void {bounds} {entry}{body}}}");
        let name = format!("{label}_{:016x}", xxh3_64(text.as_bytes()));
        let text = text.replace("NAME", &name);
        Task { source: Source { name, text, kernel_args: n }, kernel_args, shape }
    }
}

/// The beginning of a kernel, which returns if the run was stopped.
fn entry(name: &str, kernel_args: usize, parameter: &str) -> String {
    format!(
        "{name}(const __grid_constant__ Words<{kernel_args}> {parameter}) {{\n\
         \x20   u64* status = (u64*){parameter}.at[0];\n    if (stopped(status)) return;\n"
    )
}

const NUMBER: &str = "    const u32 block = blockIdx.x;\n";

impl Source {
    /// Number of arguments of a kernel [of many](Source::of_many): the status, the table's address, its number of items, and the
    /// number of the launch's first block among the blocks of all items.
    pub const OF_MANY: usize = 4;

    /// The kernel that does for the items of a table the work that this one does for its arguments; `None` if it was not made for
    /// that. A row of the table is the number of the item's first block, then the item's arguments.
    pub fn of_many(&self) -> Option<Source> {
        let (kernel_args, row) = (self.kernel_args, self.kernel_args + 1);
        let start = entry(&self.name, kernel_args, "a") + NUMBER;
        let (before, body) = self.text.split_once(&start)?;
        let name = format!("{}_of_many", self.name);
        let [before, body] = [before, body].map(|text| text.replace(&self.name, &name));
        let entry = entry(&name, Source::OF_MANY, "table");
        let text = format!(
            "{before}{entry}\
             \x20   const u32 number = blockIdx.x + (u32)table.at[3];\n\
             \x20   const u64* item = item_of((const u64*)table.at[1], table.at[2], {row}, number);\n\
             \x20   const u32 block = number - (u32)item[0];\n\
             \x20   const Words<{kernel_args}> a = *(const Words<{kernel_args}>*)(item + 1);\n{body}"
        );
        Some(Source { text, name, kernel_args: Source::OF_MANY })
    }
}

/// See `divided` in `cuda/types.cuh`.
fn reciprocal(divisor: u64) -> u64 {
    let shift = u64::from(64 - (divisor - 1).leading_zeros());
    let magic = ((1u64 << 32) * ((1u64 << shift) - divisor)) / divisor + 1;
    shift << 32 | (magic & 0xffff_ffff)
}

/// The type of an element in memory.
pub fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool_",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U8 => "u8",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        float8 if Float8::of(float8).is_some() => float8.name(),
        other => raw(other.size()),
    }
}

/// The type of an element that is only moved.
pub fn raw(size: usize) -> &'static str {
    match size {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "pair",
    }
}

/// The type that a register of a loop body has.
pub fn compute_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::F16 | DType::BF16 => "f32",
        other => stored(other),
    }
}

/// A grid of `blocks` blocks. The launch refuses more than a grid can have (2^31 - 1); none are left out.
pub fn grid(blocks: u64) -> [u32; 3] {
    [u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_by_multiplication() {
        let divided = |i: u32, packed: u64| {
            let high = (u64::from(i) * (packed & 0xffff_ffff)) >> 32;
            ((high + u64::from(i)) >> (packed >> 32)) as u32
        };
        let limit = (1u32 << 31) - 1;
        for divisor in (1..2000).chain([4096, 50_257, 65_535, 1 << 20, limit - 1, limit]) {
            let packed = reciprocal(u64::from(divisor));
            for near in [0, divisor, 7 * (divisor / 8), limit / divisor * divisor, limit] {
                for i in [near.saturating_sub(1), near, (near + 1).min(limit)] {
                    assert_eq!(divided(i, packed), i / divisor, "{i} / {divisor}");
                }
            }
        }
    }
}
