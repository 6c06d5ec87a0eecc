//! Printing of primitives: one function for each form of StableHLO's operations, named by the table.

use super::printer::{Printer, element};
use super::types::{is_unsigned, type_name};
use crate::dtype::DType;
use crate::graph::Node;
use crate::graph::module::graph_of;
use crate::op::evaluate::evaluate;
use crate::op::index::Reduction;
use crate::op::movement::view_of;
use crate::op::while_loop;
use crate::op::{Op, Ty};

fn list(numbers: &[i64]) -> String {
    format!("[{}]", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}

fn array(numbers: &[i64]) -> String {
    match numbers.is_empty() {
        true => "array<i64>".into(),
        false => format!("array<i64: {}", &list(numbers)[1..]).replace(']', ">"),
    }
}

/// `%2 = name %0, %1 : type`, where all types are equal.
pub fn same(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (operands, ty) = (p.operands(node), p.ty(node.first));
    let result = p.result(node);
    p.line(format!("{result} = {name} {operands} : {ty}"));
    true
}

pub fn chlo(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (operands, ty) = (p.operands(node), p.ty(node.first));
    let result = p.result(node);
    p.line(format!("{result} = {name} {operands} : {ty} -> {ty}"));
    true
}

pub fn functional(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    p.operation(node, name, "")
}

pub fn constant(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let ty = p.graph.ty(node.first).clone();
    let Ok(made) = evaluate(node.op, &[], &node.attrs, std::slice::from_ref(&ty)) else {
        return false;
    };
    let number = element(&made[0], 0);
    let result = p.result(node);
    p.line(format!("{result} = {name} dense<{number}> : {}", type_name(&ty)));
    true
}

pub fn iota(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (dim, ty) = (node.attrs[1].int(), p.ty(node.first));
    let result = p.result(node);
    p.line(format!("{result} = {name} dim = {dim} : {ty}"));
    true
}

pub fn compare(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let dtype = p.graph.ty(node.inputs[0]).dtype;
    let kind = match dtype {
        _ if dtype.is_float() => "FLOAT",
        _ if is_unsigned(dtype) => "UNSIGNED",
        _ => "SIGNED",
    };
    let direction = node.op.name().to_uppercase();
    let (operands, from, to) = (p.operands(node), p.types(node), p.ty(node.first));
    let result = p.result(node);
    p.line(format!("{result} = {name} {direction}, {operands}, {kind} : ({from}) -> {to}"));
    true
}

pub fn select(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (operands, condition, ty) = (p.operands(node), p.ty(node.inputs[0]), p.ty(node.first));
    let result = p.result(node);
    p.line(format!("{result} = {name} {operands} : {condition}, {ty}"));
    true
}

pub fn transpose(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let dims = list(node.attrs[0].ints());
    p.operation(node, name, &format!(", dims = {dims}"))
}

pub fn broadcast(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (from, to) = (p.graph.ty(node.inputs[0]).rank(), p.graph.ty(node.first).rank());
    let dims: Vec<i64> = (to - from..to).map(|d| d as i64).collect();
    p.operation(node, name, &format!(", dims = {}", list(&dims)))
}

pub fn slice(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let [starts, sizes, steps] = [0, 1, 2].map(|n| node.attrs[n].ints());
    let range = |d: usize| {
        let last = (sizes[d] - 1).max(0) * steps[d] + (sizes[d] > 0) as i64;
        let step = if steps[d] == 1 { String::new() } else { format!(":{}", steps[d]) };
        format!("{}:{}{step}", starts[d], starts[d] + if sizes[d] > 0 { last } else { 0 })
    };
    let ranges: Vec<String> = (0..sizes.len()).map(range).collect();
    p.operation(node, name, &format!(" [{}]", ranges.join(", ")))
}

/// An update of a part that is a box of the array.
pub fn update_slice(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (base, part) = (p.graph.ty(node.inputs[0]).clone(), p.graph.ty(node.inputs[1]).clone());
    let Some((starts, sizes)) = view_of(&node.attrs).as_box(&base.sizes) else { return false };
    let mut update = p.name(node.inputs[1]).to_string();
    let (of_base, of_part) = (type_name(&base), type_name(&part));
    let of_update = type_name(&Ty { dtype: part.dtype, sizes: sizes.clone() });
    if sizes != part.sizes {
        let reshaped = p.fresh();
        p.line(format!("{reshaped} = stablehlo.reshape {update} : ({of_part}) -> {of_update}"));
        update = reshaped;
    }
    let mut operands = vec![p.name(node.inputs[0]).to_string(), update];
    let mut types = vec![of_base.clone(), of_update];
    for &start in &starts {
        operands.push(p.number(start as f64, DType::I64));
        types.push(type_name(&Ty::new(DType::I64, &[])));
    }
    let (operands, types) = (operands.join(", "), types.join(", "));
    let result = p.result(node);
    p.line(format!("{result} = {name} {operands} : ({types}) -> {of_base}"));
    true
}

pub fn concatenate(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let dim = node.attrs[0].int();
    p.operation(node, name, &format!(", dim = {dim}"))
}

/// Ours scales the last dimension; StableHLO's adds or removes one.
pub fn bitcast(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (from, to) = (p.graph.ty(node.inputs[0]).clone(), p.graph.ty(node.first).clone());
    let is_other = |dtype: DType| dtype == DType::Bool || dtype.is_complex();
    if is_other(from.dtype) || is_other(to.dtype) {
        return false;
    }
    let (of_from, of_to) = (from.dtype.size(), to.dtype.size());
    if of_from == of_to {
        return p.operation(node, name, "");
    }
    let operand = p.name(node.inputs[0]).to_string();
    let between = p.fresh();
    let mut split =
        if of_from > of_to { Ty { dtype: to.dtype, ..from.clone() } } else { to.clone() };
    split.sizes.push((of_from.max(of_to) / of_from.min(of_to)) as i64);
    if of_from < of_to {
        split.dtype = from.dtype;
    }
    let [from, to, split] = [&from, &to, &split].map(type_name);
    let result = p.result(node);
    let (first, second) = match of_from > of_to {
        true => (name, "stablehlo.reshape"),
        false => ("stablehlo.reshape", name),
    };
    p.line(format!("{between} = {first} {operand} : ({from}) -> {split}"));
    p.line(format!("{result} = {second} {between} : ({split}) -> {to}"));
    true
}

pub fn reduce(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let ty = p.graph.ty(node.inputs[0]).clone();
    let body = match node.op {
        Op::Sum => "stablehlo.add",
        Op::Prod => "stablehlo.multiply",
        Op::ReduceMax if ty.dtype == DType::Bool => "stablehlo.or",
        Op::ReduceMin if ty.dtype == DType::Bool => "stablehlo.and",
        Op::ReduceMax => "stablehlo.maximum",
        Op::ReduceMin => "stablehlo.minimum",
        Op::Any => "stablehlo.or",
        _ => "stablehlo.and",
    };
    let neutral = node.op.row().neutral.unwrap_or(0.0);
    let neutral = if ty.dtype == DType::Bool { neutral.clamp(0.0, 1.0) } else { neutral };
    let init = p.number(neutral, ty.dtype);
    let (x, dims) = (p.name(node.inputs[0]).to_string(), list(node.attrs[0].ints()));
    let one = type_name(&Ty::new(ty.dtype, &[]));
    let (from, to) = (type_name(&ty), p.ty(node.first));
    let result = p.result(node);
    p.line(format!(
        "{result} = {name}({x} init: {init}) applies {body} across dimensions = {dims} : ({from}, {one}) -> {to}"
    ));
    true
}

pub fn reduce_window(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let ty = p.graph.ty(node.inputs[0]).clone();
    let rank = ty.rank();
    let ones = vec![1; rank];
    let (mut window, mut strides, mut dilations) = (ones.clone(), ones.clone(), ones);
    let mut padding = vec![[0, 0]; rank];
    let (neutral, body) = match node.op {
        Op::CumProd => (1.0, "stablehlo.multiply"),
        Op::CumMax => (f64::NEG_INFINITY, "stablehlo.maximum"),
        _ => (0.0, "stablehlo.add"),
    };
    if node.op != Op::SumPool {
        let axis = node.attrs[0].int() as usize;
        if ty.sizes[axis] < 2 {
            return false;
        }
        window[axis] = ty.sizes[axis];
        padding[axis][0] = ty.sizes[axis] - 1;
    } else {
        let lists = [0, 1, 2, 3].map(|n| node.attrs[n].ints());
        for (d, &out) in p.graph.ty(node.first).sizes[2..].iter().enumerate() {
            let [kernel, stride, pad, dilation] = lists.map(|list| list[d]);
            (window[d + 2], strides[d + 2], dilations[d + 2]) = (kernel, stride, dilation);
            // As much padding after the end as the last window needs, so that no further window fits.
            let reach = (out - 1) * stride + (kernel - 1) * dilation + 1;
            padding[d + 2] = [pad, reach - pad - ty.sizes[d + 2]];
        }
    }
    let init = p.number(neutral, ty.dtype);
    let pads: Vec<String> = padding.iter().map(|pair| list(pair)).collect();
    let one = type_name(&Ty::new(ty.dtype, &[]));
    let (from, to) = (type_name(&ty), p.ty(node.first));
    let x = p.name(node.inputs[0]).to_string();
    let result = p.result(node);
    let [window, strides, dilations] = [window, strides, dilations].map(|list| array(&list));
    p.line(format!(
        "{result} = \"{name}\"({x}, {init}) <{{padding = dense<[{}]> : tensor<{rank}x2xi64>, window_dimensions = {window}, window_strides = {strides}, window_dilations = {dilations}}}> ({{",
        pads.join(", ")
    ));
    region(p, body, &one);
    p.line(format!("}}) : ({from}, {one}) -> {to}"));
    true
}

pub fn dot_general(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let rank = p.graph.ty(node.first).rank();
    let batch: Vec<i64> = (0..rank as i64 - 2).collect();
    let batching = match batch.is_empty() {
        true => String::new(),
        false => format!(", batching_dims = {0} x {0}", list(&batch)),
    };
    let contracting = format!(", contracting_dims = [{}] x [{}]", rank - 1, rank - 2);
    p.operation(node, name, &format!("{batching}{contracting}"))
}

pub fn convolution(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let [stride, padding, dilation] = [0, 1, 2].map(|n| node.attrs[n].ints());
    let groups = node.attrs[3].int();
    let n = stride.len();
    let spatial: String = (0..n).map(|d| format!(", {d}")).collect();
    let pads: Vec<String> = padding.iter().map(|&n| list(&[n, n])).collect();
    let (operands, from, to) = (p.operands(node), p.types(node), p.ty(node.first));
    let result = p.result(node);
    p.line(format!(
        "{result} = {name}({operands}) dim_numbers = [b, f{spatial}]x[o, i{spatial}]->[b, f{spatial}], window = {{stride = {}, pad = [{}], rhs_dilate = {}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({from}) -> {to}",
        list(stride),
        pads.join(", "),
        list(dilation)
    ));
    true
}

/// Gathers whole slices at the indices, which StableHLO clamps.
pub fn take(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (x, index) = (p.graph.ty(node.inputs[0]).clone(), p.graph.ty(node.inputs[1]).clone());
    let axis = node.attrs[0].int() as usize;
    if x.sizes[axis] == 0 {
        return false;
    }
    let out = p.graph.ty(node.first).rank();
    let offset: Vec<i64> =
        (0..out).filter(|d| !(axis..axis + index.rank()).contains(d)).map(|d| d as i64).collect();
    let mut window = x.sizes.to_vec();
    window[axis] = 1;
    let (operands, from, to) = (p.operands(node), p.types(node), p.ty(node.first));
    let result = p.result(node);
    p.line(format!(
        "{result} = \"{name}\"({operands}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [{axis}], start_index_map = [{axis}], index_vector_dim = {}>, indices_are_sorted = false, slice_sizes = {}}}> : ({from}) -> {to}",
        list(&offset),
        index.rank(),
        array(&window)
    ));
    true
}

/// Scatters that add rows, or that write numbers of a flat array (the expansion of every scatter).
pub fn scatter(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let base = p.graph.ty(node.inputs[0]).clone();
    let is_flat = p.inner && base.rank() == 1;
    let body = match node.op {
        Op::Scatter if !is_flat => return false,
        Op::Scatter => match Reduction::of(&node.attrs) {
            Reduction::Last => "",
            Reduction::Sum => "stablehlo.add",
            Reduction::Product => "stablehlo.multiply",
            Reduction::Max => "stablehlo.maximum",
            Reduction::Min => "stablehlo.minimum",
        },
        _ => "stablehlo.add",
    };
    let axis = node.attrs[0].int();
    let window: Vec<i64> = (0..base.rank() as i64).filter(|&d| d != axis).collect();
    let one = type_name(&Ty::new(base.dtype, &[]));
    let (operands, from, to) = (p.operands(node), p.types(node), p.ty(node.first));
    let result = p.result(node);
    p.line(format!(
        "{result} = \"{name}\"({operands}) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [{axis}], scatter_dims_to_operand_dims = [{axis}], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}}> ({{",
        list(&window)
    ));
    region(p, body, &one);
    p.line(format!("}}) : ({from}) -> {to}"));
    true
}

/// The region that combines two elements; without an operation, the second replaces the first.
fn region(p: &mut Printer, body: &str, one: &str) {
    p.line(format!("^bb0(%a: {one}, %b: {one}):"));
    if body.is_empty() {
        return p.line(format!("  stablehlo.return %b : {one}"));
    }
    p.line(format!("  %c = {body} %a, %b : {one}"));
    p.line(format!("  stablehlo.return %c : {one}"));
}

/// The condition and the body are functions, which the regions call.
pub fn while_loop(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let Some(parts) = while_loop::parts(&node.attrs) else { return false };
    let types: Vec<String> = node.outputs().map(|v| p.ty(v)).collect();
    let all_types = p.types(node);
    let operands: Vec<String> = node.inputs.iter().map(|&v| p.name(v).to_string()).collect();
    let (carried, captured) = operands.split_at(types.len());
    let mut regions = Vec::new();
    for body in parts {
        let (callee, number) = p.function_name(node.op.name());
        let graph = graph_of(body);
        let of: Vec<String> = graph.outputs.iter().map(|&v| type_name(graph.ty(v))).collect();
        let of = of.join(", ");
        if p.function(graph, node.inputs.len(), (&callee, number)).is_err() {
            return false;
        }
        let args: Vec<String> = carried.iter().map(|_| p.fresh()).collect();
        let typed: Vec<String> =
            args.iter().zip(&types).map(|(x, ty)| format!("{x}: {ty}")).collect();
        let result = p.fresh();
        let (count, returned) = match body.results.len() {
            1 => (String::new(), result.clone()),
            n => {
                let each: Vec<String> = (0..n).map(|i| format!("{result}#{i}")).collect();
                (format!(":{n}"), each.join(", "))
            }
        };
        let passed: Vec<&str> = args.iter().chain(captured).map(String::as_str).collect();
        regions.push(format!(
            "{{\n^bb0({}):\n  {result}{count} = func.call @{callee}({}) : ({all_types}) -> ({of})\n  stablehlo.return {returned} : {of}\n}}",
            typed.join(", "),
            passed.join(", "),
        ));
    }
    let (named, types) = (p.results(node), types.join(", "));
    p.line(format!(
        "{named} = \"{name}\"({}) ({}) : ({types}) -> ({types})",
        carried.join(", "),
        regions.join(", ")
    ));
    true
}
