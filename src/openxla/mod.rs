//! OpenXLA as a second engine: modules of StableHLO compiled and run by a plugin of the PJRT C API, which is loaded when one is
//! named.
//!
//! **Invariant:** touches graphs, text and the plugin. A plugin is loaded once and never unloaded; its objects are destroyed
//! once, by the values that own them, and input bytes are free again when a run returns, however it ends. All of it may be used
//! by several threads at once. Every failure of the plugin is an error that names its file.
//!
//! A program computes its graph, up to rounding, and refuses the numbers that the graph's primitives refuse (`checks`).
//! Subnormal numbers may be zero.

mod api;
mod checks;
mod client;
mod lower;
mod options;
mod plugin;

use crate::buffer;
use crate::error::{Code, Error, Result};
use crate::graph::{Graph, Node};
use crate::invalid;
use crate::op::Ty;
use crate::op::array::Array;
use crate::stablehlo::{self, Argument, Module, printed};
pub use api::{Fact, facts};
use checks::Check;
use client::Loaded;
pub use client::{Client, Results};
use std::path::Path;
use std::sync::Arc;

/// The client of the plugin in a file, shared by all users. Errors: `NotFound`; `InvalidArgument` for a
/// file that is no plugin; `AbiMismatch` for one of another API; the plugin's.
pub fn client(file: &Path) -> Result<Arc<Client>> {
    Client::of(plugin::load(file)?)
}

/// A program in the form that a plugin receives.
pub struct HloModule {
    text: String,
    arguments: Vec<(Argument, Ty)>,
    /// Number of inputs of a call; the constants follow them.
    inputs: usize,
    constants: Vec<Array>,
    /// The program's own results, then those of the checks.
    outputs: Vec<Ty>,
    checks: Vec<Check>,
}

/// A module that a plugin compiled.
pub struct Executable {
    program: HloModule,
    loaded: Loaded,
}

impl HloModule {
    /// Converts a program whose composites are decomposed. Error: `Unsupported` for primitives that StableHLO cannot express.
    pub fn new(program: &Module) -> Result<HloModule> {
        let (graph, checks) = lower::lower(&program.graph)?;
        let outputs: Vec<Ty> = graph.outputs.iter().map(|&v| graph.ty(v).clone()).collect();
        // Constants are arguments, so that large ones are not part of the text.
        let inputs = program.inputs + program.constants.len();
        let module = printed(&Module { graph, inputs, constants: Vec::new() })?;
        if let Some(name) = module.custom_calls.first() {
            let text = format!("StableHLO has no words for {name}, so OpenXLA cannot run it");
            return Err(Error::new(Code::Unsupported, text));
        }
        Ok(HloModule {
            text: module.text,
            arguments: module.arguments,
            inputs: program.inputs,
            constants: program.constants.clone(),
            outputs,
            checks,
        })
    }

    /// The module's text in StableHLO.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn types(&self) -> (Vec<Ty>, Vec<Ty>) {
        let arguments = self.arguments.iter().map(|argument| argument.1.clone());
        (arguments.collect(), self.outputs.clone())
    }

    fn array<'a>(&'a self, inputs: &'a [Array], index: usize) -> Option<&'a Array> {
        match index.checked_sub(self.inputs) {
            Some(constant) => self.constants.get(constant),
            None => inputs.get(index),
        }
    }
}

impl Client {
    /// Errors: as [`HloModule::new`]; the plugin's.
    pub fn compile(self: &Arc<Client>, program: &Module) -> Result<Executable> {
        self.compiled(HloModule::new(program)?)
    }

    /// Errors: the plugin's.
    pub fn compiled(self: &Arc<Client>, program: HloModule) -> Result<Executable> {
        let (inputs, outputs) = program.types();
        Ok(Executable { loaded: self.load(&program.text, inputs, outputs)?, program })
    }

    /// Restores the bytes of [`Executable::serialized`] for the same program on the same plugin. Errors: the plugin's;
    /// `Unsupported` where it has no such function.
    pub fn restored(self: &Arc<Client>, program: HloModule, bytes: &[u8]) -> Result<Executable> {
        let (inputs, outputs) = program.types();
        Ok(Executable { loaded: self.restore(bytes, inputs, outputs)?, program })
    }
}

impl Executable {
    /// The program's results; waits for them. `inputs` and `scalars` are as for [`crate::graph::interpret::interpret`]. Errors:
    /// inputs of other types than the program's; those of its primitives; the plugin's.
    pub fn run(&self, inputs: &[Array], scalars: &[u64]) -> Result<Vec<Array>> {
        let program = &self.program;
        let numbers: Vec<[u8; 8]> = scalars.iter().map(|bits| bits.to_le_bytes()).collect();
        let argument = |(place, ty): &(Argument, Ty)| match *place {
            Argument::Input(index) => match program.array(inputs, index) {
                Some(array) if array.ty == *ty => Ok(&array.bytes[..]),
                Some(array) => invalid!("input {index} is declared as {ty}, but is {}", array.ty),
                None => invalid!("input {index} of {} is missing", inputs.len()),
            },
            Argument::Scalar(slot) => match numbers.get(slot as usize) {
                Some(bytes) => Ok(&bytes[..ty.nbytes()]),
                None => invalid!("scalar {slot} of {} is missing", scalars.len()),
            },
        };
        let given = program.arguments.iter().map(argument).collect::<Result<Vec<_>>>()?;
        let mut results = program.outputs.iter().map(zeros).collect::<Result<Vec<Array>>>()?;
        let mut bytes: Vec<&mut [u8]> =
            results.iter_mut().map(|array| &mut array.bytes[..]).collect();
        self.loaded.run(&given)?.copy_to(&mut bytes)?;
        let checks = &program.checks;
        let numbers = results.split_off(results.len() - checks.len());
        checks.iter().zip(&numbers).try_for_each(|(check, number)| check.result(number))?;
        Ok(results)
    }

    /// As [`Executable::run`], for a program without scalars, constants and checks that uses all its inputs, in the caller's
    /// memory: `inputs` are no longer read when results can be copied.
    pub fn start(&self, inputs: &[&[u8]]) -> Result<Results<'_>> {
        self.loaded.run(inputs)
    }

    /// The bytes for [`Client::restored`]. `None`: the plugin writes no executables.
    pub fn serialized(&self) -> Result<Option<Vec<u8>>> {
        self.loaded.serialized()
    }
}

/// Whether a node can be a part of a program without checks: StableHLO can express it, it refuses no numbers, and its operands
/// and results are not empty. Looks only at the types of operands, except for a divisor.
pub fn says(graph: &Graph, node: &Node) -> bool {
    let types = || node.inputs.iter().copied().chain(node.outputs()).map(|v| graph.ty(v));
    types().all(|ty| api::element_type(ty.dtype).is_some() && ty.numel() > 0)
        && !checks::may_refuse(graph, node)
        && stablehlo::says(graph, node)
}

/// Identifies a plugin, on which its executables depend besides the program. Loads it. Its file of hundreds of megabytes is
/// identified by size and time. Errors: as [`client`].
pub fn fingerprint(file: &Path) -> Result<String> {
    plugin::load(file)?.fingerprint()
}

/// Error: `OutOfMemory`.
fn zeros(ty: &Ty) -> Result<Array> {
    Ok(Array { ty: ty.clone(), bytes: buffer::zeros(ty.nbytes())? })
}
