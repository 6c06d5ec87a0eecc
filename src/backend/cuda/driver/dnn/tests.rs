//! What the library takes and compiles, for GPUs that are not there: it needs their description and a driver to be loaded,
//! not to work.

use super::super::super::cudnn_graph::{CudnnGraph, request};
use super::super::super::emulated;
use super::super::tests::{folders, nvrtc_for};
use super::api::Library;
use super::plan::Planner;
use crate::backend::library::open;
use crate::graph::text::parse;
use crate::plan::tests::leaves;
use crate::plan::{Kernel, plan};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};

/// As the library describes a GPU: an H200, an A100.
fn described(capability: u32, multiprocessors: u32, shared: u32, name: &str) -> String {
    format!(
        r#"{{"finalized":true,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
"multiProcessorCount":{multiprocessors},"warpSize":32,"maxSharedMemoryPerBlock":49152,
"maxSharedMemoryPerBlockOptin":{shared},"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,
"totalGlobalMem":80000000000,"smClockRateKHz":1700000,"memClockRateKHz":2600000,"l2CacheSize":41943040,"cudaDeviceId":0,
"deviceVer":{capability},"driverVer":13000,"deviceName":"{name}"}}"#
    )
}

const H200: (u32, u32, u32, &str) = (900, 132, 232_448, "NVIDIA H200");
const A100: (u32, u32, u32, &str) = (800, 108, 166_912, "NVIDIA A100-SXM4-80GB");

/// The library, with what it wants to find in a process. `None`, loudly, without it.
fn library() -> Option<Arc<Library>> {
    static LIBRARY: LazyLock<Result<Arc<Library>, String>> = LazyLock::new(|| {
        let library = Library::find(&folders())?;
        // The one that the library itself will ask for by name.
        nvrtc_for(90).ok_or("no NVRTC")?;
        if open(Path::new("libcuda.so.1")).map(std::mem::forget).is_err() {
            load_stub();
        }
        Ok(Arc::new(library))
    });
    LIBRARY.clone().inspect_err(|why| eprintln!("SKIPPED: no network is planned: {why}")).ok()
}

/// A driver by name only.
fn load_stub() {
    let file = std::env::temp_dir().join(format!("torchacc-stub-{}.so", std::process::id()));
    let status = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"])
        .arg(&file)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/cuda/driver/dnn/stub.c"))
        .status();
    assert!(status.unwrap().success());
    std::mem::forget(open(&file).unwrap());
    std::fs::remove_file(file).ok();
}

fn planner(
    library: &Arc<Library>,
    (capability, multiprocessors, shared, name): (u32, u32, u32, &str),
    allow_tf32: bool,
) -> Planner {
    let text = described(capability, multiprocessors, shared, name);
    Planner::of_text(library, &text, allow_tf32).unwrap()
}

/// What a program's steps ask a library for.
fn requests(text: &str) -> Vec<CudnnGraph> {
    let graph = parse(text).expect("a graph");
    let (inputs, scalars) = leaves(&graph);
    let donors = vec![None; graph.outputs.len()];
    let plan = plan(&graph, &inputs, &scalars, &donors, &emulated::backend()).expect("a plan");
    let asked = plan.steps.iter().map(|step| match &step.kernel {
        Kernel::Node { op, attrs } => {
            request(*op, attrs, step).expect("it is asked for").cudnn_graph
        }
        kernel => panic!("{kernel:?} asks for nothing"),
    });
    asked.collect()
}

/// Attention and its gradient.
fn attention(dtype: &str, [b, h, g, t, s, d, e]: [i64; 7], causal: bool) -> Vec<CudnnGraph> {
    let q = format!("{dtype}[{b},{h},{t},{d}]");
    let (k, v) = (format!("{dtype}[{b},{g},{s},{d}]"), format!("{dtype}[{b},{g},{s},{e}]"));
    let (out, lse) = (format!("{dtype}[{b},{h},{t},{e}]"), format!("f32[{b},{h},{t}]"));
    requests(&format!(
        "\
%0: {q} = input() {{index=0, type=({q})}}
%1: {k} = input() {{index=1, type=({k})}}
%2: {v} = input() {{index=2, type=({v})}}
%3: {out} = input() {{index=3, type=({out})}}
%4: i64[] = input() {{index=4, type=(i64[])}}
%5: {out}, %6: {lse} = attention(%0, %1, %2, %4, %4) {{scale=0.125, causal={causal}, dropout=0.0}}
%7: {q}, %8: {k}, %9: {v} = attention_grad(%3, %0, %1, %2, %5, %6, %4, %4) {{scale=0.125, causal={causal}, dropout=0.0}}
return %5, %6, %7, %8, %9"
    ))
}

/// A convolution of square images and its gradients.
fn conv(
    dtype: &str,
    [n, c, size]: [i64; 3],
    [o, kernel, stride, padding]: [i64; 4],
) -> Vec<CudnnGraph> {
    let out = (size + 2 * padding - kernel) / stride + 1;
    let (x, w) =
        (format!("{dtype}[{n},{c},{size},{size}]"), format!("{dtype}[{o},{c},{kernel},{kernel}]"));
    let y = format!("{dtype}[{n},{o},{out},{out}]");
    let how = format!(
        "stride=[{stride},{stride}], padding=[{padding},{padding}], dilation=[1,1], groups=1"
    );
    requests(&format!(
        "\
%0: {x} = input() {{index=0, type=({x})}}
%1: {w} = input() {{index=1, type=({w})}}
%2: {y} = conv(%0, %1) {{{how}}}
%3: {x} = conv_grad_input(%2, %1) {{sizes=[{size},{size}], {how}}}
%4: {w} = conv_grad_weight(%2, %0) {{kernel=[{kernel},{kernel}], {how}}}
return %2, %3, %4"
    ))
}

/// Plans are made, and are what their texts say.
fn check(planner: &Planner, graphs: &[CudnnGraph]) -> Vec<Vec<u8>> {
    let check = |cudnn_graph: &CudnnGraph| {
        let text =
            planner.plan(cudnn_graph).unwrap_or_else(|| panic!("no plan for {cudnn_graph:#?}"));
        let plan = planner.restore(&text).unwrap();
        assert!(plan.int(402).unwrap() >= 0);
        assert_eq!(plan.text(405).unwrap(), text);
        text
    };
    graphs.iter().map(check).collect()
}

/// What is loaded for the library stays, and compilers say other things beside it: so all that needs it is run by a process
/// of its own.
#[test]
fn plans() {
    let tests = Command::new(std::env::current_exe().unwrap())
        .args(["dnn", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = [tests.stdout, tests.stderr].concat();
    eprintln!("{}", String::from_utf8_lossy(&said));
    assert!(tests.status.success());
}

#[test]
#[ignore = "run by `plans`"]
fn attention_is_planned() {
    let Some(library) = library() else { return };
    let hopper = planner(&library, H200, false);
    check(&hopper, &attention("bf16", [4, 12, 12, 1024, 1024, 64, 64], true));
    check(&hopper, &attention("bf16", [1, 32, 8, 2048, 2048, 128, 128], true));
    check(&hopper, &attention("f16", [2, 4, 2, 70, 130, 40, 56], false));
    check(&hopper, &attention("bf16", [1, 2, 2, 64, 64, 256, 256], true));
    let ampere = planner(&library, A100, false);
    check(&ampere, &attention("bf16", [4, 12, 12, 1024, 1024, 64, 64], true));
    check(&ampere, &attention("f16", [2, 4, 2, 70, 130, 64, 64], false));
}

#[test]
#[ignore = "run by `plans`"]
fn convolutions_are_planned() {
    let Some(library) = library() else { return };
    for device in [H200, A100] {
        let planner = planner(&library, device, false);
        for dtype in ["bf16", "f32"] {
            check(&planner, &conv(dtype, [32, 64, 56], [64, 3, 1, 1]));
            check(&planner, &conv(dtype, [32, 3, 224], [64, 7, 2, 3]));
            check(&planner, &conv(dtype, [32, 256, 56], [512, 1, 2, 0]));
        }
    }
}

/// Operands of f32 are rounded to TF32 only where that is allowed.
#[test]
#[ignore = "run by `plans`"]
fn the_engine_of_f32_is_another_one_with_tf32() {
    let Some(library) = library() else { return };
    let graphs = conv("f32", [32, 64, 56], [64, 3, 1, 1]);
    let [exact, rounded] =
        [false, true].map(|allow| check(&planner(&library, H200, allow), &graphs));
    let engine = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        let at = text.rfind("\"engineId\":").expect("it says its engine");
        text[at..].split(',').next().map(str::to_owned)
    };
    for (exact, rounded) in exact.iter().zip(&rounded) {
        assert_ne!(engine(exact), engine(rounded));
    }
}

/// A plan of another device, or none at all.
#[test]
#[ignore = "run by `plans`"]
fn what_is_no_plan_of_the_device_is_refused() {
    let Some(library) = library() else { return };
    let hopper = planner(&library, H200, false);
    for text in [&b""[..], b"{}", b"no plan"] {
        assert!(hopper.restore(text).is_err());
    }
    let cudnn_graph = &attention("bf16", [1, 2, 2, 64, 64, 64, 64], true)[0];
    let text = planner(&library, A100, false).plan(cudnn_graph).unwrap();
    assert!(hopper.restore(&text).is_err());
}
