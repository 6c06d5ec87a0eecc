//! Functions as text: names, lines, primitives by their own names.

use super::expand::expansion;
use super::functions::written;
use super::ops::primitive;
use super::types::type_name;
use super::{Argument, INPUT, Module, SCALAR};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::invalid;
use crate::op::array::{Array, integer_range};
use crate::op::{Class, Op, Ty};
use std::fmt::Write;

/// Prints a node; `false` if the operation does not express all of the node.
pub type Print = fn(&mut Printer, &Node, &'static str) -> bool;
/// The operation that prints a primitive, and its printing function.
pub type Printing = fn(Op) -> Option<(&'static str, Print)>;

pub struct Printer<'g> {
    printing: Printing,
    pub(super) graph: &'g Graph,
    /// The name of every value.
    names: Vec<String>,
    pub(super) text: String,
    /// Values that the graph does not have.
    extra: usize,
    /// Functions beside `main`.
    pub(super) functions: Vec<String>,
    /// Number of functions of earlier printers, so that names are unique.
    before: usize,
    /// Whether this prints a function beside `main`.
    pub(super) inner: bool,
    pub(super) arguments: Vec<(Argument, Ty)>,
    pub(super) custom_calls: Vec<&'static str>,
}

/// The printer of a function whose text is complete.
pub fn function<'g>(
    program: &'g Module,
    printing: Printing,
    name: &str,
    before: usize,
    inner: bool,
) -> Result<Printer<'g>> {
    let graph = &program.graph;
    let names = vec![String::new(); graph.values.len()];
    let mut p = Printer {
        printing,
        graph,
        names,
        text: String::new(),
        extra: 0,
        functions: Vec::new(),
        before,
        inner,
        arguments: Vec::new(),
        custom_calls: Vec::new(),
    };
    let args = p.arguments(program);
    p.constants(program);
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
    let body = std::mem::take(&mut p.text);
    p.text = format!("  func.func {name}({args}){arrow} {{\n{body}    {returned}\n  }}\n");
    Ok(p)
}

impl Printer<'_> {
    /// The leaves that the program is called with; inputs first, by their numbers.
    fn arguments(&mut self, program: &Module) -> String {
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
                if op == Op::Input && number >= program.inputs as i64 {
                    continue;
                }
                if last != Some((op, number)) {
                    let said = match op {
                        Op::Input if number == args.len() as i64 => String::new(),
                        Op::Input => format!(" {{{INPUT} = {number} : i64}}"),
                        _ => format!(" {{{SCALAR} = {number} : i64}}"),
                    };
                    let ty = self.graph.ty(value).clone();
                    args.push(format!("%arg{}: {}{said}", args.len(), type_name(&ty)));
                    let place = match op {
                        Op::Input => Argument::Input(number as usize),
                        _ => Argument::Scalar(number as u32),
                    };
                    self.arguments.push((place, ty));
                }
                last = Some((op, number));
                self.names[value.0 as usize] = format!("%arg{}", args.len() - 1);
            }
        }
        args.join(", ")
    }

    /// Prints the arrays that are not arguments.
    fn constants(&mut self, program: &Module) {
        for node in program.graph.nodes.iter().filter(|node| node.op == Op::Input) {
            let place = (node.attrs[0].int() as usize).checked_sub(program.inputs);
            let Some(array) = place.and_then(|place| program.constants.get(place)) else {
                continue;
            };
            let ty = type_name(&array.ty);
            let result = self.result(node);
            if array.ty.dtype != DType::Bool {
                let bytes: String = array.bytes.iter().map(|b| format!("{b:02X}")).collect();
                self.line(format!("{result} = stablehlo.constant dense<\"0x{bytes}\"> : {ty}"));
                continue;
            }
            // Systems disagree on the number of bools in a byte.
            let flat = self.fresh();
            let of_flat = type_name(&Ty::new(DType::Bool, &[array.ty.numel()]));
            let all: Vec<String> = (0..array.len()).map(|i| element(array, i)).collect();
            let all = all.join(", ");
            self.line(format!("{flat} = stablehlo.constant dense<[{all}]> : {of_flat}"));
            self.line(format!("{result} = stablehlo.reshape {flat} : ({of_flat}) -> {ty}"));
        }
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        if let Some((name, print)) = (self.printing)(node.op)
            && print(self, node, name)
        {
            return Ok(());
        }
        self.call(node)
    }

    /// Prints a primitive by its name: as a composite, or as a call.
    fn call(&mut self, node: &Node) -> Result<()> {
        let row = node.op.row();
        let attrs: Option<Vec<String>> = (row.attrs.iter().zip(&node.attrs))
            .map(|(name, attr)| Some(format!("{name} = {}", primitive::text(attr)?)))
            .collect();
        let attrs = match attrs {
            Some(attrs) if row.class != Class::Host => attrs.join(", "),
            _ => return invalid!("`{}` has no text outside of this process", row.name),
        };
        let named = self.results(node);
        let types: Vec<String> = node.outputs().map(|v| self.ty(v)).collect();
        let types =
            if types.len() == 1 { types[0].clone() } else { format!("({})", types.join(", ")) };
        let (operands, of_operands) = (self.operands(node), self.types(node));
        let name = format!("{}{}", primitive::PREFIX, row.name);
        let signature = format!("({of_operands}) -> {types}");
        let (callee, number) = self.function_name(row.name);
        if let Some(text) = written(self.graph, node, &callee) {
            self.functions.push(text);
        } else if let Some(graph) = expansion(self.graph, node) {
            self.function(graph, node.inputs.len(), (&callee, number))?;
        } else {
            self.custom_calls.push(row.name);
            self.line(format!(
                "{named} = stablehlo.custom_call @{name}({operands}) {{backend_config = {{{attrs}}}, api_version = 4 : i32}} : {signature}"
            ));
            return Ok(());
        }
        let space = if operands.is_empty() { "" } else { " " };
        self.line(format!(
            "{named} = stablehlo.composite \"{name}\"{space}{operands} {{composite_attributes = {{{attrs}}}, decomposition = @{callee}}} : {signature}"
        ));
        Ok(())
    }

    /// A name for a function of the module, and its number.
    pub(super) fn function_name(&self, of: &str) -> (String, usize) {
        let number = self.before + self.functions.len();
        (format!("{}{of}.{number}", primitive::PREFIX), number)
    }

    /// Writes a graph as the function `name`. Its arguments are all `inputs`, used or not.
    pub(super) fn function(
        &mut self,
        graph: Graph,
        inputs: usize,
        (name, number): (&str, usize),
    ) -> Result<()> {
        let program = Module { graph, inputs, constants: Vec::new() };
        let name = format!("private @{name}");
        let inner = function(&program, self.printing, &name, number + 1, true)?;
        self.functions.push(inner.text);
        self.functions.extend(inner.functions);
        self.custom_calls.extend(inner.custom_calls);
        Ok(())
    }

    /// Names the node's results; returns the text before the `=`.
    pub(super) fn results(&mut self, node: &Node) -> String {
        let base = format!("%{}", node.first.0);
        if node.n_outputs == 1 {
            return self.result(node);
        }
        for (i, value) in node.outputs().enumerate() {
            self.names[value.0 as usize] = format!("{base}#{i}");
        }
        format!("{base}:{}", node.n_outputs)
    }

    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        for line in line.as_ref().lines() {
            let _ = writeln!(self.text, "    {line}");
        }
    }

    pub(super) fn name(&self, value: ValueId) -> &str {
        &self.names[value.0 as usize]
    }

    pub(super) fn ty(&self, value: ValueId) -> String {
        type_name(self.graph.ty(value))
    }

    /// Names the node's only result.
    pub(super) fn result(&mut self, node: &Node) -> String {
        let name = format!("%{}", node.first.0);
        self.names[node.first.0 as usize] = name.clone();
        name
    }

    /// A name for a value that the graph does not have.
    pub(super) fn fresh(&mut self) -> String {
        self.extra += 1;
        format!("%t{}", self.extra)
    }

    pub(super) fn operands(&self, node: &Node) -> String {
        node.inputs.iter().map(|&v| self.name(v)).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn types(&self, node: &Node) -> String {
        node.inputs.iter().map(|&v| self.ty(v)).collect::<Vec<_>>().join(", ")
    }

    /// `%3 = name operands, options : (types) -> type`
    pub(super) fn operation(&mut self, node: &Node, name: &str, options: &str) -> bool {
        let (operands, from, to) = (self.operands(node), self.types(node), self.ty(node.first));
        let result = self.result(node);
        self.line(format!("{result} = {name} {operands}{options} : ({from}) -> {to}"));
        true
    }

    /// Prints a constant, such as the initial value of a reduction; returns its name.
    pub(super) fn number(&mut self, number: f64, dtype: DType) -> String {
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

pub(super) fn element(array: &Array, i: usize) -> String {
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
    // MLIR requires a point in every float.
    match shortest.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => shortest,
    }
}
