//! A graph as a module of StableHLO.

use super::printer::{Printer, function};
use super::table::printing;
use super::{Argument, Module};
use crate::error::Result;
use crate::graph::{Builder, Graph, Node, ValueId};
use crate::op::Ty;

/// A module, and what those must know who have it run elsewhere.
pub struct Printed {
    pub text: String,
    /// Of `main`, in order.
    pub arguments: Vec<(Argument, Ty)>,
    /// Primitives that nobody else knows: calls of `torchacc.<primitive>`.
    pub custom_calls: Vec<&'static str>,
}

/// The program as the function `main` of a module. Primitives that StableHLO has none for are composites, or calls of
/// `torchacc.<primitive>`, which only this library knows: decompose our own composites before. Errors: host operators, whose
/// functions no text has.
pub fn print(program: &Module) -> Result<String> {
    Ok(printed(program)?.text)
}

/// As [`print`], with what is not in the text.
pub fn printed(program: &Module) -> Result<Printed> {
    let mut main = function(program, printing, "public @main", 0, false)?;
    main.functions.insert(0, main.text);
    let text = format!("module @torchacc {{\n{}}}\n", main.functions.concat());
    let Printer { arguments, custom_calls, .. } = main;
    Ok(Printed { text, arguments, custom_calls })
}

/// Whether a module can say a node, for everybody.
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
