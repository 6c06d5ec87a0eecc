//! Runs a case on a backend as the runtime would: planned, compiled, on memory that was somebody else's before.

use std::sync::{Arc, LazyLock};
use torchacc::backend::cpu::Cpu;
use torchacc::backend::cpu::onednn::Search;
use torchacc::backend::reference::Reference;
use torchacc::backend::{Backend, Call};
use torchacc::buffer::Bytes;
use torchacc::dtype::DType;
use torchacc::graph::Graph;
use torchacc::graph::generate::Case;
use torchacc::op::arg::ScalarKind;
use torchacc::op::array::Array;
use torchacc::op::{Op, Ty};
use torchacc::plan::check::check;
use torchacc::plan::{PlanMode, plan_unplaced, stored};
use torchacc::record::View;
use torchacc::runtime::Context;
use torchacc::runtime::options::{Asked, Options};
use torchacc::shape::Layout;
use torchacc::trace::TensorRef;

/// The backends that run on the host; the CPU's with and without a vendor's library.
pub static BACKENDS: LazyLock<[Box<dyn Backend>; 3]> = LazyLock::new(|| {
    let onednn = Options::resolve(Asked::default()).unwrap().onednn;
    [
        Box::new(Reference::default()),
        Box::new(Cpu::new(2, Search::Off)),
        Box::new(Cpu::new(2, onednn)),
    ]
});

/// A context for graphs that are recorded node by node.
static RECORDED: LazyLock<Arc<Context>> = LazyLock::new(|| {
    let asked = Asked { backend: "cpu", num_threads: 2, cache_folder: "off", ..Asked::default() };
    Context::new(Options::resolve(asked).unwrap()).unwrap()
});

/// The outputs of the case when its graph is recorded as calls of primitives.
pub fn record(case: &Case) -> Result<Vec<Array>, String> {
    let context = &*RECORDED;
    let dense = |ty: &Ty| View { dtype: ty.dtype, layout: Layout::contiguous(&ty.sizes) };
    let buffer = |ty: &Ty| context.new_buffer(ty.nbytes());
    let kinds: Vec<ScalarKind> = scalar_types(case).iter().map(|dtype| kind(*dtype)).collect();
    let numbers: Vec<_> = kinds.into_iter().zip(case.scalars.iter().copied()).collect();
    let types: Vec<Ty> = case.graph.outputs.iter().map(|&v| case.graph.ty(v).clone()).collect();
    let all: Vec<&Ty> = case.inputs.iter().map(|array| &array.ty).chain(&types).collect();
    let held: Vec<(u32, View)> = all.into_iter().map(|ty| (buffer(ty), dense(ty))).collect();
    let (inputs, outs) = held.split_at(case.inputs.len());
    for ((id, _), array) in inputs.iter().zip(&case.inputs) {
        context.write(*id, &array.bytes).map_err(|e| e.message)?;
    }
    let read = |(id, view): &(u32, View), ty: &Ty| {
        let bytes = context.read_view(*id, view).map_err(|e| e.message)?;
        Ok(Array { ty: ty.clone(), bytes })
    };
    let recorded = context.record_graph(&case.graph, &tensors(inputs), &numbers, &tensors(outs));
    let got = recorded.map_err(|e| e.message).and_then(|()| {
        outs.iter().zip(&types).map(|(out, ty)| read(out, ty)).collect::<Result<Vec<_>, String>>()
    });
    held.iter().for_each(|(id, _)| context.drop_buffer(*id));
    got
}

fn tensors(held: &[(u32, View)]) -> Vec<TensorRef<'_>> {
    held.iter().map(|(id, view)| TensorRef::new(*id, view)).collect()
}

fn kind(dtype: DType) -> ScalarKind {
    match dtype {
        DType::Bool => ScalarKind::Bool,
        DType::I64 => ScalarKind::Int,
        _ => ScalarKind::Float,
    }
}

/// For every output the first input of as many bytes that no other output has.
pub fn every_donor(case: &Case) -> Vec<Option<u32>> {
    let mut free: Vec<u32> = (0..case.inputs.len() as u32).collect();
    let donor = |nbytes: usize| {
        let found = free.iter().position(|&i| case.inputs[i as usize].ty.nbytes() == nbytes)?;
        Some(free.remove(found))
    };
    case.graph.outputs.iter().map(|&v| case.graph.ty(v).nbytes()).map(donor).collect()
}

/// The outputs of `graph`, which stands for the case's. Errors: whatever fails, and an input that changed although it
/// was not donated.
pub fn run(
    backend: &dyn Backend,
    graph: &Graph,
    case: &Case,
    donors: &[Option<u32>],
) -> Result<Vec<Array>, String> {
    let types: Vec<Ty> = case.inputs.iter().map(|array| array.ty.clone()).collect();
    let scalars = scalar_types(case);
    let planned = plan_unplaced(graph, &types, &scalars, donors, backend, PlanMode::Search);
    // With results in one block, however small they are.
    let plan = planned.map_err(|e| e.message)?.0.placed_sharing(1);
    check(graph, &plan).map_err(|e| e.message)?;
    // What another process would load is the plan itself, so that it computes the same bits.
    let loaded = stored::encode(&plan).and_then(|bytes| stored::decode(&bytes, |_| 0));
    if loaded.as_ref() != Some(&plan) {
        return Err("a plan changed on its way to disk and back".into());
    }
    let plan = Arc::new(plan);
    let executable = backend.compile(plan.clone()).map_err(|e| e.message)?;

    let mut inputs: Vec<Box<dyn Bytes>> =
        types.iter().map(|ty| used(backend, ty.nbytes())).collect();
    for (memory, array) in inputs.iter_mut().zip(&case.inputs) {
        memory.write(0, &array.bytes).map_err(|e| e.message)?;
    }
    let own: Vec<Box<dyn Bytes>> =
        plan.outputs.iter().map(|ty| used(backend, ty.nbytes())).collect();
    let arena = used(backend, plan.arena_bytes as usize);
    let host = backend.allocate_on_host(plan.host_bytes as usize).map_err(|e| e.message)?;
    let results = used(backend, plan.results_bytes as usize);
    let memory_of = |k: usize| match (plan.donors[k], plan.place_of_result(k as u32)) {
        (Some(i), _) => (&*inputs[i as usize], 0),
        (None, Some(start)) => (&*results, start as usize),
        (None, None) => (&*own[k], 0),
    };
    let address = |k: usize| memory_of(k).0.address() + memory_of(k).1;
    let call = Call {
        inputs: &inputs.iter().map(|memory| memory.address()).collect::<Vec<_>>(),
        poisoned: &[],
        derived: &[],
        outputs: &(0..own.len()).map(address).collect::<Vec<_>>(),
        arena: arena.address(),
        host: host.address(),
        results: results.address(),
        scalars: &case.scalars,
        watch: None,
    };
    if let Some(failure) = executable.run(&call).failed.first() {
        return Err(format!("output {} failed: {}", failure.output, failure.error));
    }
    for (i, array) in case.inputs.iter().enumerate() {
        let given_away = plan.donors.contains(&Some(i as u32));
        if !given_away && content((&*inputs[i], 0), &array.ty) != *array {
            return Err(format!("input {i} was overwritten"));
        }
    }
    Ok(plan.outputs.iter().enumerate().map(|(k, ty)| content(memory_of(k), ty)).collect())
}

fn scalar_types(case: &Case) -> Vec<DType> {
    let mut types = vec![DType::F64; case.scalars.len()];
    for node in case.graph.nodes.iter().filter(|node| node.op == Op::Scalar) {
        types[node.attrs[0].int() as usize] = node.attrs[1].dtype();
    }
    types
}

/// Memory full of NaNs and large numbers, so that what is read unwritten shows.
fn used(backend: &dyn Backend, nbytes: usize) -> Box<dyn Bytes> {
    let mut memory = backend.allocate(nbytes).expect("a little memory");
    memory.write(0, &vec![0xff; nbytes]).expect("memory of its own");
    memory
}

fn content((memory, start): (&dyn Bytes, usize), ty: &Ty) -> Array {
    let mut array = Array::zeros(ty);
    memory.read(start, &mut array.bytes).expect("the program has run");
    array
}
