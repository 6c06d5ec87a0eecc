//! Random programs mean the same whatever is done to them. A second in `cargo test`; `TORCHACC_FUZZ_SECONDS=3600` for
//! the long run, from `TORCHACC_FUZZ_SEED` on. A failure is shrunk and printed as text.

mod backends;
#[path = "../openxla/found.rs"]
mod found;
mod shrink;
mod tolerance;

use backends::{BACKENDS, every_donor, record, run};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use tolerance::{Tolerance, compare, tolerances};
use torchacc::backend::Backend;
use torchacc::backend::cpu::onednn::Search;
use torchacc::backend::cpu::{Cpu, Engine};
use torchacc::error::Code;
#[cfg(debug_assertions)]
use torchacc::graph::Graph;
use torchacc::graph::generate::{Case, Limits, case};
use torchacc::graph::interpret::interpret;
use torchacc::graph::text::parse;
use torchacc::graph::verify::verify;
use torchacc::op::Op;
use torchacc::op::array::Array;
use torchacc::op::table::TABLE;
use torchacc::openxla;
use torchacc::passes::{
    cross_entropy, cse, dce, decompose, fold, movement, optimize, products, scatters, simplify,
};
use torchacc::runtime::compile::pipeline::optimized;
use torchacc::stablehlo;

const LIMITS: [Limits; 3] =
    [Limits { nodes: 6, size: 4 }, Limits { nodes: 20, size: 6 }, Limits { nodes: 60, size: 9 }];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
}

#[test]
fn random_programs_mean_the_same_everywhere() {
    let seconds = setting("TORCHACC_FUZZ_SECONDS", 1);
    let first = setting("TORCHACC_FUZZ_SEED", 0);
    let start = Instant::now();
    let mut seed = first;
    while start.elapsed().as_secs() < seconds {
        check(seed);
        seed += 1;
    }
    println!("{} programs", seed - first);
}

/// The same on CUDA's kernels, run on the host: as many programs as `TORCHACC_FUZZ_CUDA` says, for each takes a compiler.
#[cfg(debug_assertions)]
#[test]
fn random_programs_mean_the_same_on_cuda() {
    let backend = torchacc::backend::cuda::emulated::backend();
    let failure = |case: &Case| {
        let expected = interpret(&case.graph, &case.inputs, &case.scalars).ok()?;
        let tolerances = tolerances(case, &expected);
        let run = |graph: &Graph| {
            let got = run(&backend, graph, case, &every_donor(case))?;
            compare(&got, &expected, &tolerances)
        };
        let optimized = optimize(case.graph.clone(), &|op| backend.supports(op));
        optimized.map_err(|e| e.message).and_then(|graph| run(&graph)).err()
    };
    let first = setting("TORCHACC_FUZZ_SEED", 0);
    for seed in first..first + setting("TORCHACC_FUZZ_CUDA", 16) {
        let case = case(seed, LIMITS[seed as usize % LIMITS.len()]).unwrap();
        if failure(&case).is_some() {
            let small = shrink::shrink(case, &|case| failure(case).is_some());
            let message = failure(&small).expect("shrinking keeps the failure");
            panic!("seed {seed}: {message}\n{}", shrink::describe(&small));
        }
    }
}

/// The same by a plugin of OpenXLA, where there is one: as many programs as `TORCHACC_FUZZ_OPENXLA` says, for each takes a compiler.
#[test]
fn random_programs_mean_the_same_on_openxla() {
    let Some(plugin) = found::plugin() else { return };
    let client = openxla::client(&plugin).unwrap();
    let ran = Cell::new(0);
    let failure = |case: &Case| {
        let expected = interpret(&case.graph, &case.inputs, &case.scalars).ok()?;
        let tolerances = tolerances(case, &expected);
        let graph = decompose(&case.graph, &|_| false);
        let made = graph.and_then(|graph| client.compile(&graph.into_owned().into()));
        match made.and_then(|executable| executable.run(&case.inputs, &case.scalars)) {
            // StableHLO has no words for it.
            Err(error) if error.code == Code::Unsupported => None,
            Err(error) => Some(error.message),
            Ok(got) => {
                ran.set(ran.get() + 1);
                compare(&got, &expected, &tolerances).err()
            }
        }
    };
    let (first, count) = (setting("TORCHACC_FUZZ_SEED", 0), setting("TORCHACC_FUZZ_OPENXLA", 48));
    for seed in first..first + count {
        let case = case(seed, LIMITS[seed as usize % LIMITS.len()]).unwrap();
        if failure(&case).is_some() {
            let small = shrink::shrink(case, &|case| failure(case).is_some());
            let message = failure(&small).expect("shrinking keeps the failure");
            panic!("seed {seed}: {message}\n{}", shrink::describe(&small));
        }
    }
    println!("{} of {count} programs ran", ran.get());
    assert!(10 * ran.get() >= 9 * count);
}

/// Likewise as parts of plans, in memory that is the plan's, with all inputs donated.
#[test]
fn random_programs_mean_the_same_with_openxla_in_plans() {
    let Some(plugin) = found::plugin() else { return };
    let backend = Cpu::new(2, Search::Off).with_engine(Engine::new(&plugin, None).unwrap());
    let failure = |case: &Case| {
        let expected = interpret(&case.graph, &case.inputs, &case.scalars).ok()?;
        let tolerances = tolerances(case, &expected);
        let graph = optimized(case.graph.clone(), &backend);
        let got = graph.map_err(|error| error.message);
        let got = got.and_then(|graph| run(&backend, &graph, case, &every_donor(case)));
        got.and_then(|got| compare(&got, &expected, &tolerances)).err()
    };
    let (first, count) = (setting("TORCHACC_FUZZ_SEED", 0), setting("TORCHACC_FUZZ_OPENXLA", 48));
    for seed in first..first + count {
        let case = case(seed, LIMITS[seed as usize % LIMITS.len()]).unwrap();
        if failure(&case).is_some() {
            let small = shrink::shrink(case, &|case| failure(case).is_some());
            let message = failure(&small).expect("shrinking keeps the failure");
            panic!("seed {seed}: {message}\n{}", shrink::describe(&small));
        }
    }
    let runs = backend.engine_counts().runs;
    println!("{runs} modules ran");
    assert!(2 * runs >= count);
}

#[test]
fn every_primitive_is_drawn() {
    let mut drawn = HashSet::new();
    for seed in 0..400 {
        let graph = case(seed, LIMITS[2]).unwrap().graph;
        drawn.extend(graph.nodes.iter().map(|node| node.op));
    }
    let missing: Vec<&str> =
        TABLE.iter().filter(|row| !drawn.contains(&row.op)).map(|row| row.name).collect();
    // Marks do not outlive the first pass, modules come with the last one, CPU fallbacks need functions, and checks stand for
    // what is dropped.
    assert_eq!(missing, ["mark", "detach", "module", "host", "check"]);
}

fn check(seed: u64) {
    let limits = LIMITS[seed as usize % LIMITS.len()];
    let case = case(seed, limits).unwrap();
    interpret(&case.graph, &case.inputs, &case.scalars).expect("generated programs run");
    if failure(&case).is_some() {
        let small = shrink::shrink(case, &|case| failure(case).is_some());
        let message = failure(&small).expect("shrinking keeps the failure");
        panic!("seed {seed}: {message}\n{}", shrink::describe(&small));
    }
}

/// What is wrong with a case, if anything is. A program that does not run is nobody's failure (the shrinker makes
/// such programs); a panic is.
fn failure(case: &Case) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| properties(case)));
    outcome.unwrap_or_else(|_| Err("panicked".into())).err()
}

fn properties(case: &Case) -> Result<(), String> {
    let graph = &case.graph;
    let Ok(expected) = interpret(graph, &case.inputs, &case.scalars) else {
        return Ok(());
    };
    verify(graph).map_err(|e| e.message)?;
    let again =
        parse(&graph.to_string()).map_err(|e| e.within("parsing what was printed").message)?;
    if again != *graph {
        return Err("parsing what was printed gives another graph".into());
    }
    let module = stablehlo::print(&graph.clone().into()).map_err(|e| e.message)?;
    let program = stablehlo::parse(&module).map_err(|e| e.within("StableHLO").message)?;
    let same_bits = vec![Tolerance::SameBits; expected.len()];
    same(case, "StableHLO", Ok(Cow::Owned(program.graph)), &expected, &same_bits)?;
    let tolerances = tolerances(case, &expected);
    // Products for small constant powers round elsewhere, and when all passes run, so do parts of a log-softmax and sums
    // of matrix products; -0.0 stays where nothing is added to a part. Everything else keeps the bits.
    let has = |ops: &[Op]| graph.nodes.iter().any(|node| ops.contains(&node.op));
    let strict = if has(&[Op::Pow]) { &tolerances } else { &same_bits };
    let logs = has(&[Op::LogSoftmax, Op::LogSoftmaxGrad]);
    let rounds = logs || has(&[Op::Matmul]) && has(&[Op::Add]);
    let of_one = if rounds { &tolerances } else { strict };
    let adds_parts = has(&[Op::AsStridedScatter]) && has(&[Op::Add]);
    let of_all = if adds_parts { &tolerances } else { of_one };
    for (name, passed) in [
        ("dce", dce(graph)),
        ("cse", cse(graph)),
        ("fold", fold(graph)),
        ("movement", movement(graph)),
        ("simplify", simplify(graph)),
    ] {
        same(case, name, passed, &expected, strict)?;
    }
    let small = optimize(graph.clone(), &|_| false);
    same(case, "decompose", decompose(graph, &|_| false), &expected, &tolerances)?;
    same(case, "products", products(graph), &expected, &tolerances)?;
    same(case, "scatters", scatters(graph), &expected, of_all)?;
    same(case, "cross_entropy", cross_entropy(graph), &expected, of_one)?;
    let kept = optimize(graph.clone(), &|_| true);
    same(case, "optimize", kept.map(Cow::Owned), &expected, of_all)?;
    let small = small.map_err(|e| e.message)?;
    same(case, "optimize, nothing kept", Ok(Cow::Borrowed(&small)), &expected, &tolerances)?;
    record(case)
        .and_then(|got| compare(&got, &expected, &tolerances))
        .map_err(|text| format!("recorded node by node: {text}"))?;
    for backend in BACKENDS.iter() {
        for (graph, passes) in [(graph, "as it is"), (&small, "optimized")] {
            for donors in [vec![None; graph.outputs.len()], every_donor(case)] {
                run(backend.as_ref(), graph, case, &donors)
                    .and_then(|got| compare(&got, &expected, &tolerances))
                    .map_err(|text| {
                        format!("{}, {passes}, donors {donors:?}: {text}", backend.name())
                    })?;
            }
        }
    }
    Ok(())
}

/// Whether a rewritten graph computes what it should.
fn same(
    case: &Case,
    name: &str,
    graph: torchacc::error::Result<Cow<'_, torchacc::graph::Graph>>,
    expected: &[Array],
    tolerances: &[Tolerance],
) -> Result<(), String> {
    let graph = graph.map_err(|e| e.within(name).message)?;
    verify(&graph).map_err(|e| e.within(name).message)?;
    let got = interpret(&graph, &case.inputs, &case.scalars).map_err(|e| e.within(name).message)?;
    compare(&got, expected, tolerances).map_err(|text| format!("{name}: {text}\nit made\n{graph}"))
}
