//! A graph as a module of StableHLO.

use super::ops::primitive;
use super::table::printing;
use super::types::{is_unsigned, type_name};
use super::{INPUT, SCALAR};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::invalid;
use crate::op::array::{Array, integer_range};
use crate::op::evaluate::evaluate;
use crate::op::{Class, Op, Ty};
use std::fmt::Write;

pub struct Printer<'g> {
    graph: &'g Graph,
    /// Of every value.
    names: Vec<String>,
    text: String,
    /// Values that the graph does not have.
    extra: usize,
}

/// The graph as the function `main` of a module. Primitives that StableHLO has none for are calls of `torchacc.<primitive>`,
/// which only this library knows: decompose composites before. Errors: host operators, whose functions no text has.
pub fn print(graph: &Graph) -> Result<String> {
    let mut p = Printer {
        graph,
        names: vec![String::new(); graph.values.len()],
        text: String::new(),
        extra: 0,
    };
    let args = p.arguments();
    for node in graph.nodes.iter().filter(|node| !matches!(node.op, Op::Input | Op::Scalar)) {
        p.node(node)?;
    }
    let types: Vec<String> = graph.outputs.iter().map(|&v| type_name(graph.ty(v))).collect();
    let names: Vec<&str> = graph.outputs.iter().map(|&v| p.name(v)).collect();
    let returned = match names.is_empty() {
        true => "return".to_string(),
        false => format!("return {} : {}", names.join(", "), types.join(", ")),
    };
    let arrow = match types.is_empty() {
        true => String::new(),
        false => format!(" -> ({})", types.join(", ")),
    };
    Ok(format!(
        "module @torchacc {{\n  func.func public @main({args}){arrow} {{\n{}    {returned}\n  }}\n}}\n",
        p.text
    ))
}

impl Printer<'_> {
    /// The leaves that the program is called with; inputs first, by their numbers.
    fn arguments(&mut self) -> String {
        let of = |op: Op| {
            let mut found: Vec<(i64, ValueId)> = Vec::new();
            let nodes = self.graph.nodes.iter().filter(|node| node.op == op);
            found.extend(nodes.map(|node| (node.attrs[0].int(), node.first)));
            found.sort_unstable_by_key(|leaf| leaf.0);
            found
        };
        let mut args: Vec<String> = Vec::new();
        let mut last = None;
        for (op, leaves) in [(Op::Input, of(Op::Input)), (Op::Scalar, of(Op::Scalar))] {
            for (number, value) in leaves {
                if last != Some((op, number)) {
                    let said = match op {
                        Op::Input if number == args.len() as i64 => String::new(),
                        Op::Input => format!(" {{{INPUT} = {number} : i64}}"),
                        _ => format!(" {{{SCALAR} = {number} : i64}}"),
                    };
                    let ty = type_name(self.graph.ty(value));
                    args.push(format!("%arg{}: {ty}{said}", args.len()));
                }
                last = Some((op, number));
                self.names[value.0 as usize] = format!("%arg{}", args.len() - 1);
            }
        }
        args.join(", ")
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        if let Some(row) = printing(node.op)
            && (row.print)(self, node, row.name)
        {
            return Ok(());
        }
        self.call(node)
    }

    /// A primitive by its name.
    fn call(&mut self, node: &Node) -> Result<()> {
        let row = node.op.row();
        let attrs: Option<Vec<String>> = (row.attrs.iter().zip(&node.attrs))
            .map(|(name, attr)| Some(format!("{name} = {}", primitive::text(attr)?)))
            .collect();
        let attrs = match attrs {
            Some(attrs) if row.class != Class::Host => attrs.join(", "),
            _ => return invalid!("`{}` has no text outside of this process", row.name),
        };
        let results: Vec<ValueId> = node.outputs().collect();
        let base = format!("%{}", node.first.0);
        for (i, value) in results.iter().enumerate() {
            let many = if results.len() > 1 { format!("{base}#{i}") } else { base.clone() };
            self.names[value.0 as usize] = many;
        }
        let count = if results.len() > 1 { format!(":{}", results.len()) } else { String::new() };
        let types: Vec<String> = results.iter().map(|&v| self.ty(v)).collect();
        let types =
            if types.len() == 1 { types[0].clone() } else { format!("({})", types.join(", ")) };
        let (operands, of_operands) = (self.operands(node), self.types(node));
        let name = row.name;
        self.line(format!(
            "{base}{count} = stablehlo.custom_call @{}{name}({operands}) {{backend_config = {{{attrs}}}, api_version = 4 : i32}} : ({of_operands}) -> {types}",
            primitive::PREFIX
        ));
        Ok(())
    }

    fn line(&mut self, line: impl AsRef<str>) {
        for line in line.as_ref().lines() {
            let _ = writeln!(self.text, "    {line}");
        }
    }

    fn name(&self, value: ValueId) -> &str {
        &self.names[value.0 as usize]
    }

    fn ty(&self, value: ValueId) -> String {
        type_name(self.graph.ty(value))
    }

    /// The name of the node's only result, from now on.
    fn result(&mut self, node: &Node) -> String {
        let name = format!("%{}", node.first.0);
        self.names[node.first.0 as usize] = name.clone();
        name
    }

    /// A name for a value that the graph does not have.
    fn fresh(&mut self) -> String {
        self.extra += 1;
        format!("%t{}", self.extra)
    }

    fn operands(&self, node: &Node) -> String {
        node.inputs.iter().map(|&v| self.name(v)).collect::<Vec<_>>().join(", ")
    }

    fn types(&self, node: &Node) -> String {
        node.inputs.iter().map(|&v| self.ty(v)).collect::<Vec<_>>().join(", ")
    }

    /// `%3 = name operands, options : (types) -> type`
    fn operation(&mut self, node: &Node, name: &str, options: &str) -> bool {
        let (operands, from, to) = (self.operands(node), self.types(node), self.ty(node.first));
        let result = self.result(node);
        self.line(format!("{result} = {name} {operands}{options} : ({from}) -> {to}"));
        true
    }

    /// A number to begin with.
    fn number(&mut self, number: f64, dtype: DType) -> String {
        let name = self.fresh();
        let mut array = Array::zeros(&Ty::new(dtype, &[]));
        match number {
            _ if dtype.is_float() => array.set_f64(0, number),
            f64::NEG_INFINITY => array.set_i64(0, integer_range(dtype).0),
            f64::INFINITY => array.set_i64(0, integer_range(dtype).1),
            _ => array.set_i64(0, number as i64),
        }
        let ty = type_name(&array.ty);
        self.line(format!("{name} = stablehlo.constant dense<{}> : {ty}", element(&array, 0)));
        name
    }
}

fn element(array: &Array, i: usize) -> String {
    let dtype = array.ty.dtype;
    if dtype == DType::Bool {
        return (array.i64(i) != 0).to_string();
    }
    if !dtype.is_float() {
        return array.i64(i).to_string();
    }
    if !array.f64(i).is_finite() {
        let bytes: String = array.raw(i).iter().rev().map(|b| format!("{b:02X}")).collect();
        return format!("0x{bytes}");
    }
    let shortest = match dtype {
        DType::F64 => format!("{:e}", array.f64(i)),
        _ => format!("{:e}", array.f64(i) as f32),
    };
    // MLIR wants a point in every float.
    match shortest.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => shortest,
    }
}

fn list(numbers: &[i64]) -> String {
    format!("[{}]", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}

fn array(numbers: &[i64]) -> String {
    match numbers.is_empty() {
        true => "array<i64>".into(),
        false => format!("array<i64: {}", &list(numbers)[1..]).replace(']', ">"),
    }
}

// ---- forms, for the table

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

pub fn concatenate(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let dim = node.attrs[0].int();
    p.operation(node, name, &format!(", dim = {dim}"))
}

/// The last dimension of ours scales; StableHLO's has one more or one less.
pub fn bitcast(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let (from, to) = (p.graph.ty(node.inputs[0]).clone(), p.graph.ty(node.first).clone());
    if from.dtype == DType::Bool || to.dtype == DType::Bool {
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
    if node.op == Op::CumSum {
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
            // As much after the end as the last window needs, and no further window fits.
            let reach = (out - 1) * stride + (kernel - 1) * dilation + 1;
            padding[d + 2] = [pad, reach - pad - ty.sizes[d + 2]];
        }
    }
    let init = p.number(0.0, ty.dtype);
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
    sum_region(p, &one);
    p.line(format!("}}) : ({from}, {one}) -> {to}"));
    true
}

fn sum_region(p: &mut Printer, one: &str) {
    p.line(format!("^bb0(%a: {one}, %b: {one}):"));
    p.line(format!("  %c = stablehlo.add %a, %b : {one}"));
    p.line(format!("  stablehlo.return %c : {one}"));
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

/// Whole slices at the indices, which StableHLO moves inside where they are not.
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

pub fn index_add(p: &mut Printer, node: &Node, name: &'static str) -> bool {
    let base = p.graph.ty(node.inputs[0]).clone();
    let axis = node.attrs[0].int();
    let window: Vec<i64> = (0..base.rank() as i64).filter(|&d| d != axis).collect();
    let one = type_name(&Ty::new(base.dtype, &[]));
    let (operands, from, to) = (p.operands(node), p.types(node), p.ty(node.first));
    let result = p.result(node);
    p.line(format!(
        "{result} = \"{name}\"({operands}) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [{axis}], scatter_dims_to_operand_dims = [{axis}], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}}> ({{",
        list(&window)
    ));
    sum_region(p, &one);
    p.line(format!("}}) : ({from}) -> {to}"));
    true
}
