//! Operators that the program gave as CUDA C++: a kernel that calls the program's function.

use super::write::{grid, raw, stored};
use super::{Source, Task, Word};
use crate::backend::cuda::device::Shape;
use crate::dtype::DType;
use crate::op::host::{CudaForm, HostOp};
use crate::plan::{Operand, Place};
use crate::record::Arg;
use crate::shape::numel;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

/// The launch of an operator on dense operands. `args` are as recorded: `reads` are what they stand for.
pub fn own(
    op: &HostOp,
    form: &CudaForm,
    args: &[Arg],
    reads: &[Operand],
    writes: &[Operand],
) -> Task {
    let mut call = Call { words: vec![Word::Status], values: Vec::new() };
    let mut reads = reads.iter();
    args.iter().for_each(|arg| call.argument(arg, &mut reads));
    writes.iter().for_each(|write| call.tensor("", write));
    let elements = writes.first().map_or(0, |write| numel(&write.layout.sizes)) as u64;
    let threads = u64::from(form.block) * u64::from(form.elements);
    let blocks = if form.blocks > 0 { form.blocks } else { elements.div_ceil(threads).max(1) };
    let source = source(op, form, &call);
    Task {
        source,
        words: call.words,
        shape: Shape { grid: grid(blocks), block: form.block, shared: 0 },
    }
}

/// Arguments of a kernel, and of the function that it calls.
struct Call {
    words: Vec<Word>,
    values: Vec<String>,
}

impl Call {
    /// An argument, as the text names it: a `u64`.
    fn word(&mut self, word: Word) -> String {
        self.words.push(word);
        format!("a.at[{}]", self.words.len() - 1)
    }

    fn argument<'a>(&mut self, arg: &Arg, reads: &mut impl Iterator<Item = &'a Operand>) {
        match arg {
            Arg::None | Arg::Str(_) => {}
            Arg::Tensor(_) => reads.next().into_iter().for_each(|read| self.tensor("const ", read)),
            Arg::Tensors(list) => {
                for given in list {
                    match given.as_ref().and_then(|_| reads.next()) {
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

    /// `access` is "const " for what is only read.
    fn tensor(&mut self, access: &str, operand: &Operand) {
        let element = match operand.dtype {
            DType::Bool => "bool",
            dtype if dtype.has_arithmetic() => stored(dtype),
            dtype => raw(dtype.size()),
        };
        let data = self.word(Word::of(operand));
        let sizes = &operand.layout.sizes;
        let count = self.word(Word::number(numel(sizes)));
        let places: Vec<String> = sizes.iter().map(|&size| self.word(Word::number(size))).collect();
        let (first, rank) = (places.first().unwrap_or(&count), places.len());
        self.values.push(format!(
            "Tensor<{access}{element}>{{({access}{element}*){data}, (const i64*)&{first}, {rank}, (i64){count}}}"
        ));
    }

    /// The one element of an operand.
    fn scalar(&mut self, operand: &Operand) {
        let address = self.word(Word::of(operand));
        let element = stored(operand.dtype);
        self.values.push(match operand.place {
            Place::Scalar(_) => format!("slot<{element}>({address})"),
            _ => format!("get((const {element}*){address})"),
        });
    }

    fn int(&mut self, n: i64) {
        let word = self.word(Word::number(n));
        self.values.push(format!("(i64){word}"));
    }

    fn float(&mut self, x: f64) {
        let word = self.word(Word::Number(x.to_bits()));
        self.values.push(format!("bits_as<f64>({word})"));
    }

    fn bool(&mut self, b: bool) {
        let word = self.word(Word::Number(b.into()));
        self.values.push(format!("({word} != 0)"));
    }
}

/// The program's text in a namespace of the kernel's own, where its names hide the prelude's, and the kernel. Errors of the
/// compiler say the operator's name and the text's own lines.
fn source(op: &HostOp, form: &CudaForm, call: &Call) -> Source {
    let (words, shown) = (call.words.len(), op.name.escape_default().to_string());
    let whole = |name: &str| {
        let mut text = format!("namespace {name}_own {{\n#line 1 \"{shown}\"\n{}\n", form.source);
        let _ = write!(
            text,
            "#line 1 \"call of {shown}\"\n}}\n\
             extern \"C\" __global__ void __launch_bounds__({}) {name}(const __grid_constant__ Words<{words}> a) {{\n\
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
    Source { text: whole(&name), name, words }
}
