//! StableHLO as text: modules of JAX, torch_xla and TensorFlow read as graphs, and graphs written for these.
//!
//! **Invariant:** touches text and graphs only. `parse(print(g))` computes the same bits as `g`. A module from elsewhere
//! computes its meaning in StableHLO; an unsupported one is refused with line, column, operation and reason, and no text makes
//! this module panic, recurse without bound or allocate memory for numbers that the text does not have.
//!
//! Reading: `cursor` (characters), `attribute`, `types`, `literal` → `syntax` (a module as it is written) gives a `tree`,
//! `tuples` → `lower` (calls inlined, short loops unrolled) by the rules of [`table`], one row per operation, whose meanings are
//! in `ops`. Writing: `printer` and `forms`, by the same table. Primitives that StableHLO has no operation for are composites
//! called `torchacc.<primitive>`, with a function that expresses them in StableHLO (`expand`, `functions`), or else
//! `custom_call`s of that name; our own composites are best decomposed before.

mod attribute;
mod body;
mod cursor;
mod expand;
mod forms;
mod functions;
mod literal;
mod lower;
mod ops;
mod options;
mod print;
mod printer;
mod syntax;
pub mod table;
mod tree;
mod tuples;
mod types;
mod value;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::Math;
use crate::graph::verify::verify;
use crate::graph::{Graph, Node};
use crate::invalid;
use crate::op::array::Array;
use crate::op::{Op, Ty};
use attribute::{Attribute, Dict};
use cursor::{error_at, located};
use lower::Lowering;
pub use print::{Printed, print, printed, says};
use tree::Function;
use types::carrier;
use value::Value;

/// The computation of a module.
#[derive(Clone, Debug)]
pub struct Module {
    /// The graph of the module's public function: argument `i` is input `i`, unless an attribute says otherwise.
    pub graph: Graph,
    /// Number of inputs that the program is called with.
    pub inputs: usize,
    /// Constants of many elements: inputs of the graph after those of a call.
    pub constants: Vec<Array>,
}

/// A graph that is called with all its inputs.
impl From<Graph> for Module {
    fn from(graph: Graph) -> Module {
        let number = |node: &Node| (node.op == Op::Input).then(|| node.attrs[0].int() as usize + 1);
        let inputs = graph.nodes.iter().filter_map(number).max().unwrap_or(0);
        Module { graph, inputs, constants: Vec::new() }
    }
}

/// The function `main` of a module, or its only public one. Errors (`InvalidArgument`): begin with line and column.
pub fn parse(text: &str) -> Result<Module> {
    program(text).map_err(|error| located(text, error))
}

fn program(text: &str) -> Result<Module> {
    let functions = syntax::functions(text)?;
    let entry = entry(&functions)?;
    let math = Math::default();
    let places = places(entry)?;
    let n_inputs = places.iter().filter_map(|place| place.input()).max().map_or(0, |n| n + 1);
    let lowering = Lowering::new(&math, table::rules, &functions, n_inputs);
    let mut args = Vec::new();
    for (place, ty) in places.iter().zip(&entry.args) {
        let v = match place {
            Argument::Input(index) => math.build(|b| b.input(*index as u32, ty.clone())),
            Argument::Scalar(slot) => math.build(|b| b.scalar(*slot, ty.dtype)),
        };
        args.push(Value::new(v.bitcast(carrier(ty.dtype)), ty.dtype));
        math.check().map_err(|e| error_at(entry.at, e.message))?;
    }
    let results = lowering.call(entry.name, args).map_err(|e| e.at(entry.at as u64 + 1))?;
    let outputs = results.iter().map(|x| x.stored().id).collect();
    math.check()?;
    let constants = lowering.constants.take();
    drop(lowering);
    let graph = math.into_builder().finish(outputs);
    verify(&graph)?;
    Ok(Module { graph, inputs: n_inputs, constants })
}

fn entry<'f, 'a>(functions: &'f [Function<'a>]) -> Result<&'f Function<'a>> {
    if let Some(main) = functions.iter().find(|f| f.name == "main") {
        return Ok(main);
    }
    match functions.iter().filter(|f| f.is_public).collect::<Vec<_>>()[..] {
        [only] => Ok(only),
        ref all => {
            invalid!("expected a function `@main` or one public function, not {}", all.len())
        }
    }
}

/// An argument of a module's function: an input of the graph, or a slot of its scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    Input(usize),
    Scalar(u32),
}

impl Argument {
    fn input(&self) -> Option<usize> {
        match self {
            Argument::Input(index) => Some(*index),
            Argument::Scalar(_) => None,
        }
    }
}

/// Attributes with an argument's input, or its slot of the argument block. Without them, arguments are inputs in order.
const INPUT: &str = "torchacc.input";
const SCALAR: &str = "torchacc.scalar";

fn places(function: &Function) -> Result<Vec<Argument>> {
    let number = |attrs: &Dict, name: &str| match attrs.iter().find(|(found, _)| *found == name) {
        Some((_, Attribute::Int(n @ 0..=0xffff))) => Some(*n),
        _ => None,
    };
    let mut places: Vec<Argument> = Vec::new();
    for (i, (ty, attrs)) in function.args.iter().zip(&function.arg_attrs).enumerate() {
        places.push(match (number(attrs, INPUT), number(attrs, SCALAR)) {
            (Some(index), _) => Argument::Input(index as usize),
            (None, Some(slot)) if matches!(ty.dtype, DType::F64 | DType::I64 | DType::Bool) => {
                Argument::Scalar(slot as u32)
            }
            _ => Argument::Input(i),
        });
    }
    let mut seen: Vec<(usize, &Ty)> = Vec::new();
    for (place, ty) in places.iter().zip(&function.args) {
        let Some(index) = place.input() else { continue };
        if seen.iter().any(|(other, said)| *other == index && *said != ty) {
            return Err(error_at(function.at, format!("input {index} has two types")));
        }
        seen.push((index, ty));
    }
    Ok(places)
}
