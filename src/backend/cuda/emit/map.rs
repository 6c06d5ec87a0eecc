//! Pointwise kernels: a thread computes 16 bytes' worth of neighbouring points.

use super::access::{Access, Space, pack};
use super::body::{may_fail, statements};
use super::index::blocks;
use super::transpose::{self, Tiling};
use super::write::{Writer, compute_type, stored};
use super::{BLOCK, Tasks};
use crate::dtype::{DType, Float8};
use crate::error::Result;
use crate::op::{Attr, Op};
use crate::plan::{Instr, LoopBody, Operand};
use crate::shape::{Dims, Layout, collapse};
use smallvec::smallvec;
use std::fmt::Write;

/// `Kernel::Map` as step number `step`. With `overwrites_donor`, some result overwrites the only copy of a donor's value, so a
/// separate launch first finds out whether the step fails.
pub fn map(
    body: &LoopBody,
    reads: &[Operand],
    writes: &[Operand],
    step: usize,
    overwrites_donor: bool,
) -> Result<Tasks> {
    let mut tasks = Tasks::default();
    if body.sizes.contains(&0) {
        return Ok(tasks);
    }
    if overwrites_donor && may_fail(body) {
        tasks.tasks.push(kernel(body, reads, writes, step, false)?);
    }
    tasks.tasks.push(kernel(body, reads, writes, step, true)?);
    Ok(tasks)
}

/// Copies `from` to `to`, element by element; both have the same sizes and dtype.
pub fn copy(from: &Operand, to: &Operand) -> Result<Tasks> {
    let body = LoopBody {
        sizes: to.layout.sizes.clone(),
        reads: vec![from.dtype],
        instrs: Vec::new(),
        results: vec![0],
    };
    map(&body, std::slice::from_ref(from), std::slice::from_ref(to), 0, false)
}

/// Casts `from` to the dtype of `to`, which has arithmetic; both have the same sizes.
pub fn cast(from: &Operand, to: &Operand) -> Result<Tasks> {
    if from.dtype == to.dtype {
        return copy(from, to);
    }
    let cast = |dtype, arg| {
        let attrs = smallvec![Attr::DType(dtype)];
        Instr { op: Op::Cast, attrs, dtype, args: smallvec![arg] }
    };
    let instrs = match Float8::of(from.dtype) {
        Some(_) => vec![cast(DType::F32, 0), cast(to.dtype, 1)],
        None => vec![cast(to.dtype, 0)],
    };
    let (sizes, results) = (to.layout.sizes.clone(), vec![instrs.len() as u32]);
    let body = LoopBody { sizes, reads: vec![from.dtype], instrs, results };
    map(&body, std::slice::from_ref(from), std::slice::from_ref(to), 0, false)
}

/// Fills `to` with zeros.
pub fn zeros(to: &Operand) -> Result<Tasks> {
    let zero = Instr {
        op: Op::ConstInt,
        attrs: smallvec![Attr::Int(0), Attr::DType(to.dtype)],
        dtype: to.dtype,
        args: smallvec![],
    };
    let zero = match to.dtype.is_float() {
        true => Instr {
            op: Op::Const,
            attrs: smallvec![Attr::Float(0.0), Attr::DType(to.dtype)],
            ..zero
        },
        false => zero,
    };
    let sizes = to.layout.sizes.clone();
    let body = LoopBody { sizes, reads: vec![], instrs: vec![zero], results: vec![0] };
    map(&body, &[], std::slice::from_ref(to), 0, false)
}

/// The points of `sizes` in as few dimensions as the operands allow, and the operands' strides in them.
fn space_of(sizes: &[i64], operands: &[&Operand]) -> (Space, Vec<Dims>) {
    let order: Vec<usize> = (0..sizes.len()).collect();
    // A dense layout keeps the order of the points even where no operand does.
    let points = Layout::contiguous(sizes);
    let layouts: Vec<&Layout> = operands.iter().map(|o| &o.layout).chain([&points]).collect();
    let (sizes, mut strides, _) = collapse(&layouts, &order, &[]);
    let space = Space::new(sizes, operands);
    strides.iter_mut().for_each(|s| s.resize(space.sizes.len(), 0));
    (space, strides)
}

fn kernel(
    body: &LoopBody,
    reads: &[Operand],
    writes: &[Operand],
    step: usize,
    stores: bool,
) -> Result<super::Task> {
    let operands: Vec<&Operand> = reads.iter().chain(writes).collect();
    let (space, strides) = space_of(&body.sizes, &operands);
    let tiling = Tiling::new(&space, reads, &strides);
    let width = if tiling.is_some() { 1 } else { pack(&space, &operands, &strides) };
    let moves = body.instrs.is_empty()
        && body.results.iter().zip(writes).all(|(&r, w)| reads[r as usize].dtype == w.dtype);
    let mut writer = Writer::new();
    let step = writer.number(step as i64);
    let mut access = |(operand, strides): (&&Operand, &Dims)| {
        Access::new(&mut writer, operand, &space, (strides, &[]), width, moves)
    };
    let all: Vec<Access> = operands.iter().zip(&strides).map(&mut access).collect();
    let (from, to) = all.split_at(reads.len());
    let tiled = tiling.as_ref().map_or(&[][..], |tiling| &tiling.reads);
    let inputs = PointInputs { result: None, tiled };
    let text = points_text(body, (from, inputs), to, &space, &mut writer, (&step, stores))?;
    writer.head(&text);
    let label = body.instrs.last().map_or("copy", |instr| instr.op.name());
    if let Some(tiling) = tiling {
        return Ok(tiling.finish(writer, &space, from, label));
    }
    let (at, n) = (space.index(), writer.number(space.numel()));
    writer.line(format!("i64 i = ((i64)block * {BLOCK} + threadIdx.x) * {width};"));
    writer.line(format!("const i64 n = (i64){n};"));
    writer.line(format!("if (i + {width} <= n) NAME_at<{width}>(a, status, ({at})i);"));
    if width > 1 && space.sizes.len() == 1 {
        writer.line(format!("else for (; i < n; i++) NAME_at<1>(a, status, ({at})i);"));
    }
    Ok(writer.finish_item(label, blocks((space.numel() as u64).div_ceil(width as u64) as i64)))
}

/// The loop body that a kernel's result, its read 0, goes through before it is stored. `reads` are the body's other reads.
#[derive(Clone, Copy)]
pub struct Epilogue<'a> {
    pub body: &'a LoopBody,
    pub reads: &'a [Operand],
    pub writes: &'a [Operand],
}

impl Epilogue<'_> {
    /// Writes the body as a function before a kernel over rows of `n`. Returns a lambda that calls it with a position and up to
    /// `width` neighbours of the result, whose number divides the position.
    pub fn write(&self, writer: &mut Writer, width: i64, n: i64) -> Result<String> {
        let operands: Vec<&Operand> = self.reads.iter().chain(self.writes).collect();
        let (space, strides) = space_of(&self.body.sizes, &operands);
        let last = space.sizes[space.sizes.len() - 1];
        let whole = last % n == 0 || last % width == 0;
        // Otherwise neighbours begin between the places of a row where they could be accessed at once.
        let pack = if space.sizes.len() == 1 || last % width == 0 { width } else { 1 };
        let mut access = |(operand, strides): (&&Operand, &Dims)| {
            Access::new(writer, operand, &space, (strides, &[]), pack, false)
        };
        let all: Vec<Access> = operands.iter().zip(&strides).map(&mut access).collect();
        let (from, to) = all.split_at(self.reads.len());
        let result = self.body.reads[0];
        let inputs = PointInputs { result: Some(result), tiled: &[] };
        let text = points_text(self.body, (from, inputs), to, &space, writer, ("0", true))?;
        writer.head(&text);
        let at = space.index();
        let call = match whole {
            true => format!("NAME_at(a, status, ({at})at, x);"),
            false => {
                let one = format!("const {} one[1] = {{x[e]}};", compute_type(result));
                let call = format!("NAME_at(a, status, ({at})(at + e), one);");
                format!("UNROLL for (int e = 0; e < sizeof x / sizeof *x; e++) {{ {one} {call} }}")
            }
        };
        Ok(format!("[&](i64 at, const auto& x) {{ {call} }}"))
    }
}

/// Parameters of the function of a point: the `result` of a kernel, of that dtype, for read 0 of the body; the elements of
/// the `tiled` among the other reads.
#[derive(Clone, Copy)]
struct PointInputs<'a> {
    result: Option<DType>,
    tiled: &'a [usize],
}

/// The function of `V` points from point `i` on.
fn points_text(
    body: &LoopBody,
    (from, inputs): (&[Access], PointInputs),
    to: &[Access],
    space: &Space,
    writer: &mut Writer,
    (step, stores): (&str, bool),
) -> Result<String> {
    let at = space.index();
    let result = inputs.result.map(|dtype| format!(", const {} (&x)[V]", compute_type(dtype)));
    let elements = inputs.tiled.iter().map(|&n| transpose::parameter(n, &from[n]));
    let parameters: String = result.into_iter().chain(elements).collect();
    let mut text = format!(
        "template <int V, class A>\nDEVICE void NAME_at(const A& a, u64* status, const {at} i{parameters}) {{\n"
    );
    let is_tiled = |n: &usize| inputs.tiled.contains(n);
    let others = (0..from.len()).filter(|n| !is_tiled(n)).map(|n| &from[n]);
    if others.chain(to).any(|access| access.walk.needs_coordinates()) {
        text += &space.coordinates(writer, "c", "i");
    }
    for (n, access) in from.iter().enumerate() {
        text += &match is_tiled(&n) {
            true => format!("    const {} x{n}[V] = {{get(&t{n})}};\n", access.compute_type),
            false => access.load(&format!("x{n}"), &access.walk.offset("i", "c", at), at),
        };
    }
    for (k, access) in to.iter().enumerate() {
        let _ = writeln!(text, "    {} y{k}[V];", access.compute_type);
    }
    let _ = writeln!(text, "    UNROLL for (int e = 0; e < V; e++) {{");
    let first = inputs.result.map(|dtype| format!("as_stored<{}>(x[e])", stored(dtype)));
    let others = from.iter().enumerate().map(|(n, access)| access.lane(&format!("x{n}")));
    let lanes: Vec<String> = first.into_iter().chain(others).collect();
    if body.instrs.is_empty() {
        for (k, &register) in body.results.iter().enumerate() {
            let _ = writeln!(text, "        y{k}[e] = {};", lanes[register as usize]);
        }
    } else {
        text += &statements(body, &lanes, step)?;
        for (k, register) in body.results.iter().enumerate() {
            let _ = writeln!(text, "        y{k}[e] = r{register};");
        }
    }
    text += "    }\n";
    for (k, access) in to.iter().enumerate().filter(|_| stores) {
        text += &access.store(&format!("y{k}"), &access.walk.offset("i", "c", at), at);
    }
    text += "}\n\n";
    Ok(text)
}
