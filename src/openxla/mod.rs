//! OpenXLA as a second engine: modules of StableHLO compiled and run by a plugin of the PJRT C API, which is loaded when one is
//! named.
//!
//! **Invariant:** touches graphs, text and the plugin. A plugin is loaded once and never unloaded; what it hands out is destroyed
//! once, by the value that owns it, and input bytes are free again when a run returns, however it ends. All of it may be used by
//! several threads at once. Every failure of the plugin is an error that names its file.
//!
//! A program computes what the graph says, up to rounding, and refuses what the graph's primitives refuse (`checks`). Subnormal
//! numbers may be zero.

mod api;
mod checks;
mod client;
mod lower;
mod options;
mod plugin;

use crate::buffer;
use crate::error::{Code, Error, Result};
use crate::invalid;
use crate::op::Ty;
use crate::op::array::Array;
use crate::stablehlo::{Argument, Module, printed};
pub use api::{Fact, facts};
use checks::Check;
pub use client::Client;
use client::Loaded;
use std::path::Path;
use std::sync::Arc;

/// The client of the plugin in a file: the same for all who have one. Errors: `NotFound`; `InvalidArgument` for a
/// file that is no plugin; `AbiMismatch` for one of another API; the plugin's.
pub fn client(file: &Path) -> Result<Arc<Client>> {
    plugin::load(file)?.client()
}

/// A program that a plugin compiled.
pub struct Executable {
    loaded: Loaded,
    arguments: Vec<(Argument, Ty)>,
    /// How many inputs it is called with; the constants follow.
    inputs: usize,
    constants: Vec<Array>,
    /// The program's own results, then those of the checks.
    outputs: Vec<Ty>,
    checks: Vec<Check>,
}

impl Client {
    /// Compiles a program whose composites are decomposed. Errors: `Unsupported` for primitives that StableHLO has no words for;
    /// the plugin's.
    pub fn compile(self: &Arc<Client>, program: &Module) -> Result<Executable> {
        let (graph, checks) = lower::lower(&program.graph)?;
        let outputs: Vec<Ty> = graph.outputs.iter().map(|&v| graph.ty(v).clone()).collect();
        // As arguments, so that large ones are no text.
        let inputs = program.inputs + program.constants.len();
        let module = printed(&Module { graph, inputs, constants: Vec::new() })?;
        if let Some(name) = module.custom_calls.first() {
            let text = format!("StableHLO has no words for {name}, so OpenXLA cannot run it");
            return Err(Error::new(Code::Unsupported, text));
        }
        let types = module.arguments.iter().map(|argument| argument.1.clone()).collect();
        Ok(Executable {
            loaded: self.load(&module.text, types, outputs.clone())?,
            arguments: module.arguments,
            inputs: program.inputs,
            constants: program.constants.clone(),
            outputs,
            checks,
        })
    }
}

impl Executable {
    /// The program's results; waits for them. `inputs` and `scalars` are as of [`crate::graph::interpret::interpret`]. Errors:
    /// inputs of other types than the program's; those of its primitives; the plugin's.
    pub fn run(&self, inputs: &[Array], scalars: &[u64]) -> Result<Vec<Array>> {
        let numbers: Vec<[u8; 8]> = scalars.iter().map(|bits| bits.to_le_bytes()).collect();
        let argument = |(place, ty): &(Argument, Ty)| match *place {
            Argument::Input(index) => match self.array(inputs, index) {
                Some(array) if array.ty == *ty => Ok(&array.bytes[..]),
                Some(array) => invalid!("input {index} is declared as {ty}, but is {}", array.ty),
                None => invalid!("input {index} of {} is missing", inputs.len()),
            },
            Argument::Scalar(slot) => match numbers.get(slot as usize) {
                Some(bytes) => Ok(&bytes[..ty.nbytes()]),
                None => invalid!("scalar {slot} of {} is missing", scalars.len()),
            },
        };
        let given = self.arguments.iter().map(argument).collect::<Result<Vec<_>>>()?;
        let mut results = self.outputs.iter().map(zeros).collect::<Result<Vec<Array>>>()?;
        let mut bytes: Vec<&mut [u8]> =
            results.iter_mut().map(|array| &mut array.bytes[..]).collect();
        self.loaded.run(&given, &mut bytes)?;
        let numbers = results.split_off(results.len() - self.checks.len());
        self.checks.iter().zip(&numbers).try_for_each(|(check, number)| check.result(number))?;
        Ok(results)
    }

    fn array<'a>(&'a self, inputs: &'a [Array], index: usize) -> Option<&'a Array> {
        match index.checked_sub(self.inputs) {
            Some(constant) => self.constants.get(constant),
            None => inputs.get(index),
        }
    }
}

/// Error: `OutOfMemory`.
fn zeros(ty: &Ty) -> Result<Array> {
    Ok(Array { ty: ty.clone(), bytes: buffer::zeros(ty.nbytes())? })
}
