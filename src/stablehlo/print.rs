//! A graph as a module of StableHLO.

use super::printer::{Printer, function};
use super::table::printing;
use super::{Argument, Module};
use crate::error::Result;
use crate::graph::{Builder, Graph, Node, ValueId};
use crate::op::Ty;

/// A module, and the data that is needed to run it elsewhere.
pub struct Printed {
    pub text: String,
    /// Arguments of `main`, in order.
    pub arguments: Vec<(Argument, Ty)>,
    /// Primitives that no other system knows: calls of `torchacc.<primitive>`.
    pub custom_calls: Vec<&'static str>,
}

/// The program as the function `main` of a module. Primitives without an operation in StableHLO are composites, or calls of
/// `torchacc.<primitive>`, which only this library knows: decompose our own composites before. Errors: host operators, whose
/// functions have no text.
pub fn print(program: &Module) -> Result<String> {
    Ok(printed(program)?.text)
}

/// As [`print`], with the data that is not in the text.
pub fn printed(program: &Module) -> Result<Printed> {
    let mut main = function(program, printing, "public @main", 0, false)?;
    main.functions.insert(0, main.text);
    let text = format!("module @torchacc {{\n{}}}\n", main.functions.concat());
    let Printer { arguments, custom_calls, .. } = main;
    Ok(Printed { text, arguments, custom_calls })
}

/// Whether a module can express a node without calls that only this library knows.
pub fn says(graph: &Graph, node: &Node) -> bool {
    let alone = || -> Result<Graph> {
        let mut b = Builder::new();
        let input = |(index, v): (usize, &ValueId)| b.input(index as u32, graph.ty(*v).clone());
        let inputs = node.inputs.iter().enumerate().map(input).collect::<Result<Vec<_>>>()?;
        let outputs = b.ops(node.op, &inputs, node.attrs.clone())?;
        Ok(b.finish(outputs.to_vec()))
    };
    let text = alone().and_then(|graph| printed(&graph.into()));
    text.is_ok_and(|module| module.custom_calls.is_empty())
}
