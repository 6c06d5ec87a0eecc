//! The functions of composites as text, for primitives that no other primitives express, but operations of StableHLO do.

use super::types::{element_name, is_unsigned, type_name};
use crate::dtype::DType;
use crate::graph::{Graph, Node};
use crate::op::{Op, Ty};
use crate::shape::Dims;

/// The function `name`, equivalent to the node. `None`: StableHLO has no equivalent.
pub fn written(graph: &Graph, node: &Node, name: &str) -> Option<String> {
    let x = graph.ty(*node.inputs.first()?);
    let (body, results) = match node.op {
        Op::TopK => top_k(x, node)?,
        Op::Fft => fft(x, node)?,
        Op::Bitcast => bitcast(x, graph.ty(node.first))?,
        _ => return None,
    };
    let types: Vec<String> = node.outputs().map(|v| type_name(graph.ty(v))).collect();
    let types = types.join(", ");
    let body: String = body.iter().map(|line| format!("    {line}\n")).collect();
    Some(format!(
        "  func.func private @{name}(%x: {}) -> ({types}) {{\n{body}    return {results} : {types}\n  }}\n",
        type_name(x)
    ))
}

/// The lines of a body, and the names of its results.
type Body = (Vec<String>, &'static str);

/// Sorts the elements with their indices, and keeps the first of them.
fn top_k(x: &Ty, node: &Node) -> Option<Body> {
    let axis = usize::try_from(node.attrs[0].int()).ok()?;
    let (k, largest) = (node.attrs[1].int(), node.attrs[2].bool());
    let places = Ty { dtype: DType::I64, sizes: x.sizes.clone() };
    let first = |ty: &Ty| {
        let mut sizes = ty.sizes.clone();
        sizes[axis] = k;
        let ranges: Vec<String> = sizes.iter().map(|size| format!("0:{size}")).collect();
        let to = type_name(&Ty { dtype: ty.dtype, sizes });
        format!("[{}] : ({}) -> {to}", ranges.join(", "), type_name(ty))
    };
    let (greater, less) = if largest { ("%a", "%b") } else { ("%b", "%a") };
    let one = format!("tensor<{}>", element_name(x.dtype));
    let compare = |name: &str, how: &str, a: &str, b: &str, kind: &str| {
        format!(
            "  {name} = stablehlo.compare {how}, {a}, {b}, {kind} : ({one}, {one}) -> tensor<i1>"
        )
    };
    let kind = match x.dtype {
        dtype if dtype.is_float() => "FLOAT",
        dtype if is_unsigned(dtype) => "UNSIGNED",
        _ => "SIGNED",
    };
    let (of_x, of_places) = (type_name(x), type_name(&places));
    let mut lines = vec![
        format!("%i = stablehlo.iota dim = {axis} : {of_places}"),
        format!(
            "%s:2 = \"stablehlo.sort\"(%x, %i) <{{dimension = {axis} : i64, is_stable = true}}> ({{"
        ),
        format!("^bb0(%a: {one}, %b: {one}, %c: tensor<i64>, %d: tensor<i64>):"),
        compare("%e", "GT", greater, less, kind),
    ];
    let before = match kind {
        // NaN is greater than all numbers.
        "FLOAT" => {
            lines.push(compare("%f", "NE", greater, greater, kind));
            lines.push(compare("%g", "EQ", less, less, kind));
            lines.push("  %h = stablehlo.and %f, %g : tensor<i1>".into());
            lines.push("  %j = stablehlo.or %e, %h : tensor<i1>".into());
            "%j"
        }
        _ => "%e",
    };
    lines.extend([
        format!("  stablehlo.return {before} : tensor<i1>"),
        format!("}}) : ({of_x}, {of_places}) -> ({of_x}, {of_places})"),
        format!("%v = stablehlo.slice %s#0 {}", first(x)),
        format!("%p = stablehlo.slice %s#1 {}", first(&places)),
    ]);
    Some((lines, "%v, %p"))
}

/// Between complex numbers and their parts, which StableHLO's own does not support.
fn bitcast(x: &Ty, out: &Ty) -> Option<Body> {
    let (parts, whole) = match (x.dtype.part(), out.dtype.part()) {
        (None, Some(part)) if part == x.dtype => (x, out),
        (Some(part), None) if part == out.dtype => (out, x),
        _ => return None,
    };
    let of = |sizes: &[i64]| type_name(&Ty { dtype: parts.dtype, sizes: Dims::from(sizes) });
    let (from, to, one) = (type_name(x), type_name(out), of(&whole.sizes));
    let [half, pairs] = [1, 2].map(|size| of(&[&whole.sizes[..], &[size]].concat()));
    let range = |from: i64| {
        let rest: String = whole.sizes.iter().map(|size| format!("0:{size}, ")).collect();
        format!("[{rest}{from}:{}]", from + 1)
    };
    let lines = match std::ptr::eq(parts, x) {
        true => vec![
            format!("%a = stablehlo.reshape %x : ({from}) -> {pairs}"),
            format!("%b = stablehlo.slice %a {} : ({pairs}) -> {half}", range(0)),
            format!("%c = stablehlo.slice %a {} : ({pairs}) -> {half}", range(1)),
            format!("%d = stablehlo.reshape %b : ({half}) -> {one}"),
            format!("%e = stablehlo.reshape %c : ({half}) -> {one}"),
            format!("%y = stablehlo.complex %d, %e : {to}"),
        ],
        false => vec![
            format!("%a = stablehlo.real %x : ({from}) -> {one}"),
            format!("%b = stablehlo.imag %x : ({from}) -> {one}"),
            format!("%c = stablehlo.reshape %a : ({one}) -> {half}"),
            format!("%d = stablehlo.reshape %b : ({one}) -> {half}"),
            format!(
                "%e = stablehlo.concatenate %c, %d, dim = {} : ({half}, {half}) -> {pairs}",
                whole.sizes.len()
            ),
            format!("%y = stablehlo.reshape %e : ({pairs}) -> {to}"),
        ],
    };
    Some((lines, "%y"))
}

/// Transforms pairs as complex numbers. The inverse, which is not scaled, is the conjugate of the conjugate's transform.
fn fft(x: &Ty, node: &Node) -> Option<Body> {
    let (part, line) = match (x.dtype, &x.sizes[..]) {
        (DType::F32, [line @ .., 2]) => (DType::C64, line),
        (DType::F64, [line @ .., 2]) => (DType::C128, line),
        _ => return None,
    };
    let n = *line.last().filter(|_| x.numel() > 0)?;
    let rank = line.len();
    let of = |dtype: DType, sizes: &[i64]| type_name(&Ty { dtype, sizes: Dims::from(sizes) });
    let (whole, flat, complex) = (type_name(x), of(x.dtype, line), of(part, line));
    let half = of(x.dtype, &[line, &[1]].concat());
    let range = |from: i64| {
        let rest: String = line.iter().map(|size| format!("0:{size}, ")).collect();
        format!("[{rest}{from}:{}]", from + 1)
    };
    let inverse = node.attrs[0].bool();
    let sign = |name: &str, of: &str| match inverse {
        true => format!("{name} = stablehlo.negate {of} : {flat}"),
        false => format!("{name} = stablehlo.reshape {of} : ({flat}) -> {flat}"),
    };
    let lines = vec![
        format!("%a = stablehlo.slice %x {} : ({whole}) -> {half}", range(0)),
        format!("%b = stablehlo.slice %x {} : ({whole}) -> {half}", range(1)),
        format!("%c = stablehlo.reshape %a : ({half}) -> {flat}"),
        format!("%d = stablehlo.reshape %b : ({half}) -> {flat}"),
        sign("%e", "%d"),
        format!("%f = stablehlo.complex %c, %e : {complex}"),
        format!("%g = stablehlo.fft %f, type = FFT, length = [{n}] : ({complex}) -> {complex}"),
        format!("%h = stablehlo.real %g : ({complex}) -> {flat}"),
        format!("%i = stablehlo.imag %g : ({complex}) -> {flat}"),
        sign("%j", "%i"),
        format!("%k = stablehlo.reshape %h : ({flat}) -> {half}"),
        format!("%l = stablehlo.reshape %j : ({flat}) -> {half}"),
        format!("%y = stablehlo.concatenate %k, %l, dim = {rank} : ({half}, {half}) -> {whole}"),
    ];
    Some((lines, "%y"))
}
