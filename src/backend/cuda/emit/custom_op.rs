//! Custom operators as CUDA C++: a kernel that calls the program's function.

use super::write::{grid, raw, stored};
use super::{KernelArg, Source, Task};
use crate::backend::cuda::emit::Shape;
use crate::dtype::DType;
use crate::op::arg::{Arg, NodeArg};
use crate::op::host::{CudaForm, HostOp};
use crate::plan::{MemRef, Operand};
use crate::shape::numel;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

/// The launch of an operator on dense operands. `args` are as recorded; `reads` are the operands that they refer to.
pub fn custom_op(
    op: &HostOp,
    form: &CudaForm,
    args: &[NodeArg],
    reads: &[Operand],
    writes: &[Operand],
) -> Task {
    let mut call = Call { kernel_args: vec![KernelArg::Status], values: Vec::new() };
    let mut reads = reads.iter();
    args.iter().for_each(|arg| call.argument(arg, &mut reads));
    writes.iter().for_each(|write| call.tensor("", write));
    let elements = writes.first().map_or(0, |write| numel(&write.layout.sizes)) as u64;
    let threads = u64::from(form.block) * u64::from(form.elements);
    let blocks = if form.blocks > 0 { form.blocks } else { elements.div_ceil(threads).max(1) };
    let source = source(op, form, &call);
    Task {
        source,
        kernel_args: call.kernel_args,
        shape: Shape { grid: grid(blocks), block: form.block, shared: 0 },
    }
}

/// Arguments of a kernel, and of the function that it calls.
struct Call {
    kernel_args: Vec<KernelArg>,
    values: Vec<String>,
}

impl Call {
    /// Adds an argument; returns its name in the text, a `u64`.
    fn kernel_arg(&mut self, kernel_arg: KernelArg) -> String {
        self.kernel_args.push(kernel_arg);
        format!("a.at[{}]", self.kernel_args.len() - 1)
    }

    fn argument<'a>(&mut self, arg: &NodeArg, reads: &mut impl Iterator<Item = &'a Operand>) {
        match arg {
            Arg::None | Arg::Str(_) => {}
            Arg::Tensor(_) => reads.next().into_iter().for_each(|read| self.tensor("const ", read)),
            Arg::Tensors(list) => {
                for entry in list {
                    match entry.as_ref().and_then(|_| reads.next()) {
                        Some(read) => self.tensor("const ", read),
                        None => self.values.push("Tensor<const u8>{0, 0, 0, 0}".into()),
                    }
                }
            }
            Arg::Scalar { .. } => reads.next().into_iter().for_each(|read| self.scalar(read)),
            Arg::Int(n) => self.int(*n),
            Arg::Float(x) => self.float(*x),
            Arg::Bool(b) => self.bool(*b),
            Arg::Ints(list) => list.iter().for_each(|n| self.int(*n)),
            Arg::Floats(list) => list.iter().for_each(|x| self.float(*x)),
            Arg::Bools(list) => list.iter().for_each(|b| self.bool(*b)),
            Arg::DType(dtype) => self.int(*dtype as i64),
        }
    }

    /// `access` is "const " for tensors that are only read.
    fn tensor(&mut self, access: &str, operand: &Operand) {
        let element = match operand.dtype {
            DType::Bool => "bool",
            dtype if dtype.has_arithmetic() => stored(dtype),
            dtype => raw(dtype.size()),
        };
        let data = self.kernel_arg(KernelArg::of(operand));
        let sizes = &operand.layout.sizes;
        let count = self.kernel_arg(KernelArg::number(numel(sizes)));
        let places: Vec<String> =
            sizes.iter().map(|&size| self.kernel_arg(KernelArg::number(size))).collect();
        let (first, rank) = (places.first().unwrap_or(&count), places.len());
        self.values.push(format!(
            "Tensor<{access}{element}>{{({access}{element}*){data}, (const i64*)&{first}, {rank}, (i64){count}}}"
        ));
    }

    /// The one element of an operand.
    fn scalar(&mut self, operand: &Operand) {
        let address = self.kernel_arg(KernelArg::of(operand));
        let element = stored(operand.dtype);
        self.values.push(match operand.mem {
            MemRef::Scalar(_) => format!("slot<{element}>({address})"),
            _ => format!("get((const {element}*){address})"),
        });
    }

    fn int(&mut self, n: i64) {
        let kernel_arg = self.kernel_arg(KernelArg::number(n));
        self.values.push(format!("(i64){kernel_arg}"));
    }

    fn float(&mut self, x: f64) {
        let kernel_arg = self.kernel_arg(KernelArg::Number(x.to_bits()));
        self.values.push(format!("bits_as<f64>({kernel_arg})"));
    }

    fn bool(&mut self, b: bool) {
        let kernel_arg = self.kernel_arg(KernelArg::Number(b.into()));
        self.values.push(format!("({kernel_arg} != 0)"));
    }
}

/// The program's text in a namespace of the kernel's own, where its names hide the prelude's, and the kernel. Compiler
/// errors refer to the operator's name and the text's own lines.
fn source(op: &HostOp, form: &CudaForm, call: &Call) -> Source {
    let (kernel_args, shown) = (call.kernel_args.len(), op.name.escape_default().to_string());
    let whole = |name: &str| {
        let mut text = format!("namespace {name}_own {{\n#line 1 \"{shown}\"\n{}\n", form.source);
        let _ = write!(
            text,
            "#line 1 \"call of {shown}\"\n}}\n\
             extern \"C\" __global__ void __launch_bounds__({}) {name}(const __grid_constant__ Words<{kernel_args}> a) {{\n\
             \x20   if (stopped((const u64*)a.at[0])) return;\n\
             \x20   {name}_own::{}({});\n}}\n",
            form.block,
            form.entry,
            call.values.join(", ")
        );
        text
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let label: String = op.name.chars().map(plain).collect();
    let name = format!("own_{label}_{:016x}", xxh3_64(whole("").as_bytes()));
    Source { text: whole(&name), name, kernel_args }
}
