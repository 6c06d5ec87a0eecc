//! Programs in the IR as text.

use super::arguments::{Arguments, torchacc_arg};
use super::context::torchacc_context;
use super::error::{torchacc_error, torchacc_string};
use super::handle::{self, borrow};
use super::record::give;
use super::tensor::torchacc_tensor;
use super::{bad, boundary, put, quiet, slice, torchacc_str};
use crate::error::{Code, Error, Result};
use crate::graph::text;
use crate::op::Ty;
use crate::passes::{Draws, decompose};
use crate::record::Operator;
use crate::runtime::Context;
use crate::runtime::context::graphs::Number;
use crate::runtime::context::openxla::Executables;
use crate::stablehlo::{self, Module};
use crate::trace::{ArgRef, TensorRef};
use parking_lot::Mutex;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// A program in the IR. Owned.
#[repr(C)]
pub struct torchacc_graph {
    program: Module,
    executables: Executables,
    constants: Mutex<Option<Constants>>,
}

/// A program's constants, in the context to which it was applied last.
type Constants = (Arc<Context>, Arc<Vec<torchacc_tensor>>);

handle::kind!(torchacc_graph, b"gr");

/// No operator's number: for messages only.
const NOBODY: Operator = Operator::Host(u32::MAX);

fn owned(program: Module) -> *mut torchacc_graph {
    let (executables, constants) = (Executables::default(), Mutex::default());
    handle::give(torchacc_graph { program, executables, constants })
}

/// A graph's own text begins with a value or with `return`, as no module does.
fn read(text: &str) -> Result<Module> {
    match text.trim_start().starts_with(['%', '=']) || text.trim_start().starts_with("return") {
        true => Ok(text::parse(text)?.into()),
        false => stablehlo::parse(text),
    }
}

/// Reads a graph from text, one primitive a line, like
///
/// - `%0: f32[2,3] = input() {index=0, type=(f32[2,3])}`
/// - `%1: f32[3,2] = transpose(%0) {perm=[1,0]}`
/// - `%2: f64[] = scalar() {slot=0, dtype=f64}`
/// - `return %1`
///
/// Values are numbered 0, 1, 2, … in order, and say their types. Inputs have an index, scalars (f64, i64 or bool) a slot, from
/// 0. Primitives are the operators without a namespace (`torchacc_op_name`), whose signatures name their attributes. Attributes
/// are written `3`, `3.0`, `1e-5`, `inf`, `nan`, `true`, `[1,2]`, `f32`, or types in parentheses: `(f32[2], i64[])`.
///
/// Also reads a module of StableHLO in either of its forms, as JAX, torch_xla and TensorFlow print it: its function `main`, or
/// its only public one, whose arguments are the inputs. Calls are inlined, and short loops unrolled; the body of any other loop
/// is compiled once.
/// Errors: INVALID_ARGUMENT, with line and column; unsupported features are named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_parse(
    text: torchacc_str,
    out: *mut *mut torchacc_graph,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let graph = owned(read(unsafe { text.text()? })?);
        unsafe { put(out, graph).inspect_err(|_| handle::release(graph)) }
    })
}

/// The graph of the program that was compiled last, after all passes. Errors: NOT_FOUND before the first, and when the last one
/// came from disk or from a plan for other sizes, which have none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_last(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_graph,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let missing = || Error::new(Code::NotFound, "the last program has no graph");
        let graph = owned(context.inner.last_graph().ok_or_else(missing)?.into());
        unsafe { put(out, graph).inspect_err(|_| handle::release(graph)) }
    })
}

/// Begins a capture, which `torchacc_graph_capture` ends: cuts, and gives the number of the trace that begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_capture_begin(
    context: *mut torchacc_context,
    number: *mut u64,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        unsafe { put(number, context.inner.begin_capture()?) }
    })
}

/// Captures the operations recorded since `torchacc_capture_begin` gave `number` as a graph: a function from the values that the
/// tensors `inputs` held then to those that the tensors `outputs` hold now (VIEW, TENSOR; both dense in the graph, whatever
/// their strides). All else that was read, numbers included, is constant. Nothing is computed and nothing changes; the trace
/// goes on.
/// Errors: INVALID_ARGUMENT if the trace has been cut meanwhile, for instance by a read, for an input that is not the whole of
/// its buffer, was never written, or is given twice, and when memory was changed that is neither an input's nor an output's;
/// UNSUPPORTED for an input that is used as another dtype; those of operators that cannot be compiled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_capture(
    context: *mut torchacc_context,
    number: u64,
    inputs: *const torchacc_arg,
    n_inputs: usize,
    outputs: *const torchacc_arg,
    n_outputs: usize,
    out: *mut *mut torchacc_graph,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: as the header says.
        unsafe {
            capture(context, number, (inputs, n_inputs), (outputs, n_outputs), (null(), 0), out)
        }
    })
}

/// Random numbers that a generator gave during a capture: those of `seed` from offset `begin` up to `end`. For the context's own
/// generator, `begin` is 0 after `torchacc_seed`, and each call with `TORCHACC_ARG_RANDOM` takes 2^32.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_draws {
    pub seed: u64,
    pub begin: u64,
    pub end: u64,
}

/// As `torchacc_graph_capture`, for a program that draws random numbers, new ones whenever the graph runs: the states of the
/// generators that gave `draws` are its last inputs, and its last results. A state is i64[2], seed and offset. Generators must
/// have different seeds; numbers of other seeds are the same in each run. Errors: as `torchacc_graph_capture`, and
/// INVALID_ARGUMENT for two generators with the same seed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_capture_random(
    context: *mut torchacc_context,
    number: u64,
    inputs: *const torchacc_arg,
    n_inputs: usize,
    outputs: *const torchacc_arg,
    n_outputs: usize,
    draws: *const torchacc_draws,
    n_draws: usize,
    out: *mut *mut torchacc_graph,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: as the header says.
        unsafe {
            capture(
                context,
                number,
                (inputs, n_inputs),
                (outputs, n_outputs),
                (draws, n_draws),
                out,
            )
        }
    })
}

/// # Safety
/// As [`torchacc_graph_capture_random`].
unsafe fn capture(
    context: *mut torchacc_context,
    number: u64,
    (inputs, n_inputs): (*const torchacc_arg, usize),
    (outputs, n_outputs): (*const torchacc_arg, usize),
    (draws, n_draws): (*const torchacc_draws, usize),
    out: *mut *mut torchacc_graph,
) -> Result<()> {
    // SAFETY (here and below): the caller's promise.
    let context = unsafe { borrow(context)? };
    let (mut into, mut from) = (Arguments::default(), Arguments::default());
    unsafe { into.take(context, NOBODY, inputs, n_inputs, Context::draw)? };
    unsafe { from.take(context, NOBODY, outputs, n_outputs, Context::draw)? };
    let (into, from) = (tensors(&into.refs)?, tensors(&from.refs)?);
    let draws: Vec<Draws> = unsafe { slice(draws, n_draws, "draws")? }
        .iter()
        .map(|&torchacc_draws { seed, begin, end }| Draws { seed, begin, end })
        .collect();
    if let Some(k) = (1..draws.len()).find(|&k| draws[..k].iter().any(|d| d.seed == draws[k].seed))
    {
        return Err(bad(format!("draws {k} have the seed of others")));
    }
    let graph = owned(context.inner.capture(number, &into, &from, &draws)?);
    // SAFETY: as above.
    unsafe { put(out, graph).inspect_err(|_| handle::release(graph)) }
}

/// The graph as text, which `torchacc_graph_parse` reads. Errors: UNSUPPORTED for a module with constants of many elements,
/// which this text cannot express.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_text(
    graph: *const torchacc_graph,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let program = &unsafe { borrow(graph)? }.program;
        if !program.constants.is_empty() {
            let message = "constants of many elements have no text but StableHLO's";
            return Err(Error::new(Code::Unsupported, message));
        }
        let text = torchacc_string::owned(program.graph.to_string());
        unsafe { put(out, text).inspect_err(|_| handle::release(text)) }
    })
}

/// The graph as a module of StableHLO, which `torchacc_graph_parse` reads, too. Its inputs, then its scalars, are the arguments
/// of `main`. A primitive without a StableHLO operation is a composite `torchacc.<primitive>` with a function that defines it,
/// or else a custom call of that name, which other systems do not know. Errors: INVALID_ARGUMENT for a graph with a host
/// operator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_stablehlo(
    graph: *const torchacc_graph,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let program = &unsafe { borrow(graph)? }.program;
        let graph = decompose(&program.graph, &|_| false)?.into_owned();
        let text = stablehlo::print(&Module { graph, ..program.clone() })?;
        let text = torchacc_string::owned(text);
        unsafe { put(out, text).inspect_err(|_| handle::release(text)) }
    })
}

/// Number of results of the graph; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_outputs(graph: *const torchacc_graph) -> usize {
    // SAFETY: NULL or a live graph, says the header.
    quiet(0, || unsafe { borrow(graph) }.map_or(0, |g| g.program.graph.outputs.len()))
}

/// Records the operations of the graph: `args` are its inputs (VIEW, TENSOR), in order, and its scalars (SCALAR_*), in the order
/// of their slots; `outs` are new dense tensors, one for each result. Does not wait.
/// Errors: INVALID_ARGUMENT for types, kinds or counts other than the graph's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_apply(
    context: *mut torchacc_context,
    graph: *const torchacc_graph,
    args: *const torchacc_arg,
    n_args: usize,
    outs: *mut *mut torchacc_tensor,
    n_outs: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let (context, graph) = unsafe { (borrow(context)?, borrow(graph)?) };
        let mut arguments = Arguments::default();
        unsafe { arguments.take(context, NOBODY, args, n_args, Context::draw)? };
        let made = apply(context, graph, &arguments, outs, n_outs)?;
        unsafe { give(made, outs) };
        Ok(())
    })
}

/// As `torchacc_graph_apply`, with results written into existing tensors: result `k` into `into[k]` (VIEW, TENSOR), or else
/// (NONE) into a new tensor. `outs` gets the new ones, and NULL for the others. Inputs may be among the targets, as the state of
/// a training step is: their memory is overwritten where the program permits it, so that each step's state needs no memory of
/// its own.
/// Errors, with nothing recorded: as `torchacc_graph_apply`, and INVALID_ARGUMENT for two results in the same memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_apply_into(
    context: *mut torchacc_context,
    graph: *const torchacc_graph,
    args: *const torchacc_arg,
    n_args: usize,
    into: *const torchacc_arg,
    outs: *mut *mut torchacc_tensor,
    n_outs: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let (context, graph) = unsafe { (borrow(context)?, borrow(graph)?) };
        let (mut arguments, mut targets) = (Arguments::default(), Arguments::default());
        unsafe { arguments.take(context, NOBODY, args, n_args, Context::draw)? };
        unsafe { targets.take(context, NOBODY, into, n_outs, Context::draw)? };
        let targets = targets_of(context, &targets.refs, &graph.program)?;
        let made = apply(context, graph, &arguments, outs, n_outs)?;
        for (tensor, target) in made.iter().zip(&targets) {
            if let Some(target) = target {
                context.inner.copy(TensorRef::new(tensor.buffer.id, &tensor.view), *target)?;
            }
        }
        for (index, (tensor, target)) in made.into_iter().zip(&targets).enumerate() {
            let new = if target.is_none() { handle::give(tensor) } else { null_mut() };
            unsafe { outs.add(index).write(new) };
        }
        Ok(())
    })
}

/// The tensors that results are to be written to; `None` for a new tensor. Errors: a type other than the result's, the same
/// memory twice, a tensor that leaves its buffer or repeats elements.
fn targets_of<'a>(
    context: &torchacc_context,
    refs: &[ArgRef<'a>],
    program: &Module,
) -> Result<Vec<Option<TensorRef<'a>>>> {
    let graph = &program.graph;
    let mut targets: Vec<Option<TensorRef>> = Vec::new();
    for (k, (arg, value)) in refs.iter().zip(&graph.outputs).enumerate() {
        let target = match arg {
            ArgRef::None => None,
            ArgRef::Tensor(tensor) => Some(*tensor),
            _ => return Err(bad(format!("what result {k} is written to is no tensor"))),
        };
        if let Some(tensor) = target {
            let (wanted, given) = (graph.ty(*value), Ty::new(tensor.dtype, tensor.sizes));
            if *wanted != given {
                return Err(bad(format!("result {k} of the graph is {wanted}, not {given}")));
            }
            if !context.inner.fits(&tensor)? || !tensor.view().layout.is_injective() {
                return Err(bad(format!(
                    "what result {k} is written to is not in its buffer, or has elements that are one"
                )));
            }
            let is_there =
                |other: &Option<TensorRef>| other.is_some_and(|o| o.buffer == tensor.buffer);
            if let Some(first) = targets.iter().position(is_there) {
                return Err(bad(format!("results {first} and {k} are to be in the same memory")));
            }
        }
        targets.push(target);
    }
    Ok(targets)
}

/// Records the graph, and returns its results in new tensors.
fn apply(
    context: &torchacc_context,
    graph: &torchacc_graph,
    arguments: &Arguments,
    outs: *mut *mut torchacc_tensor,
    n_outs: usize,
) -> Result<Vec<torchacc_tensor>> {
    let program = &graph.program;
    let made = results(context, program, outs, n_outs)?;
    let (mut inputs, numbers) = split(&arguments.refs)?;
    let constants = constants(&context.inner, graph)?;
    if !constants.is_empty() && inputs.len() != program.inputs {
        let count = program.inputs;
        return Err(bad(format!("the graph has {count} inputs, not {}", inputs.len())));
    }
    inputs.extend(constants.iter().map(|t| TensorRef::new(t.buffer.id, &t.view)));
    let targets: Vec<TensorRef> =
        made.iter().map(|t| TensorRef::new(t.buffer.id, &t.view)).collect();
    context.inner.record_graph(&program.graph, &inputs, &numbers, &targets)?;
    Ok(made)
}

/// Runs the graph on OpenXLA, now: by the plugin of the PJRT C API in the file `plugin` (UTF-8), or if that is empty by that of
/// `TORCHACC_OPENXLA`. `args` and `outs` are as for `torchacc_graph_apply`. The first call for a plugin compiles. Results are
/// those of `torchacc_graph_apply`, except for rounding; subnormal numbers may be zero. Blocks: reads its inputs, as
/// `torchacc_tensor_read`. Errors: NOT_FOUND when no plugin is named, or there is no such file; INVALID_ARGUMENT for a file that
/// is not a plugin, and as `torchacc_graph_apply`; ABI_MISMATCH for a plugin of another API; UNSUPPORTED for operations that
/// StableHLO cannot express; those of the graph's operations, of reading, and of the plugin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_run_on_openxla(
    context: *mut torchacc_context,
    graph: *const torchacc_graph,
    plugin: torchacc_str,
    args: *const torchacc_arg,
    n_args: usize,
    outs: *mut *mut torchacc_tensor,
    n_outs: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let (context, graph) = unsafe { (borrow(context)?, borrow(graph)?) };
        let plugin = Some(unsafe { plugin.text()? }).filter(|file| !file.is_empty());
        let mut arguments = Arguments::default();
        unsafe { arguments.take(context, NOBODY, args, n_args, Context::draw)? };
        let made = results(context, &graph.program, outs, n_outs)?;
        let (inputs, numbers) = split(&arguments.refs)?;
        let plugin = plugin.map(Path::new);
        let (program, executables) = (&graph.program, &graph.executables);
        let arrays =
            context.inner.run_on_openxla(program, executables, plugin, &inputs, &numbers)?;
        for (tensor, array) in made.iter().zip(&arrays) {
            context.inner.write(tensor.buffer.id, &array.bytes)?;
        }
        unsafe { give(made, outs) };
        Ok(())
    })
}

/// New tensors for a program's results.
fn results(
    context: &torchacc_context,
    program: &Module,
    outs: *mut *mut torchacc_tensor,
    n_outs: usize,
) -> Result<Vec<torchacc_tensor>> {
    let graph = &program.graph;
    if graph.outputs.len() != n_outs || (outs.is_null() && n_outs > 0) {
        return Err(bad(format!("the graph has {} results, not {n_outs}", graph.outputs.len())));
    }
    let types = graph.outputs.iter().map(|&value| graph.ty(value));
    types.map(|ty| torchacc_tensor::dense(&context.inner, ty.dtype, &ty.sizes)).collect()
}

/// The constants that are kept beside the program's graph, copied to the context once.
fn constants(context: &Arc<Context>, graph: &torchacc_graph) -> Result<Arc<Vec<torchacc_tensor>>> {
    let mut constants = graph.constants.lock();
    if let Some((_, known)) = constants.as_ref().filter(|(of, _)| Arc::ptr_eq(of, context)) {
        return Ok(known.clone());
    }
    let made = graph.program.constants.iter().map(|array| {
        let tensor = torchacc_tensor::dense(context, array.ty.dtype, &array.ty.sizes)?;
        context.write(tensor.buffer.id, &array.bytes)?;
        Ok(tensor)
    });
    let made = Arc::new(made.collect::<Result<Vec<_>>>()?);
    if !made.is_empty() {
        *constants = Some((context.clone(), made.clone()));
    }
    Ok(made)
}

/// Splits arguments into tensors and numbers.
fn split<'a>(args: &[ArgRef<'a>]) -> Result<(Vec<TensorRef<'a>>, Vec<Number>)> {
    let (mut tensors, mut numbers) = (Vec::new(), Vec::new());
    for (index, arg) in args.iter().enumerate() {
        match arg {
            ArgRef::Tensor(tensor) => tensors.push(*tensor),
            &ArgRef::Scalar { kind, bits } => numbers.push((kind, bits)),
            _ => return Err(bad(format!("argument {index} is neither a tensor nor a SCALAR_*"))),
        }
    }
    Ok((tensors, numbers))
}

/// Arguments that are all tensors.
fn tensors<'a>(args: &[ArgRef<'a>]) -> Result<Vec<TensorRef<'a>>> {
    match split(args)? {
        (tensors, numbers) if numbers.is_empty() => Ok(tensors),
        _ => Err(bad("a number is no tensor")),
    }
}

/// Frees a graph; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_graph_free(graph: *mut torchacc_graph) {
    // SAFETY: NULL or a live graph that its owner gives up, says the header.
    quiet((), || unsafe { handle::release(graph) });
}
