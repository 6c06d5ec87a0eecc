//! The backend `openxla`: parts of plans that a plugin computes, kept on disk; what it says of plugins that fail.

use super::{Fake, found, scratch};
use std::path::Path;
use std::sync::Arc;
use torchacc::dtype::DType;
use torchacc::error::{Code, Error, Result};
use torchacc::graph::Graph;
use torchacc::graph::text::parse;
use torchacc::op::Ty;
use torchacc::op::arg::ScalarKind;
use torchacc::op::array::Array;
use torchacc::record::View;
use torchacc::runtime::Context;
use torchacc::runtime::options::{Asked, Options};
use torchacc::shape::Layout;
use torchacc::trace::TensorRef;

/// A context whose programs, and their modules, are kept in a folder, if one is given.
fn context(plugin: Option<&Path>, folder: Option<&Path>) -> Result<Arc<Context>> {
    let asked = Asked { backend: "openxla", num_threads: 2, ..Asked::default() };
    let options = Options::resolve(asked).unwrap();
    Context::new(Options {
        openxla: plugin.map(Path::to_path_buf),
        cache_folder: folder.map(Path::to_path_buf),
        cache_from: 0,
        ..options
    })
}

/// The results of a graph, on inputs of f32.
fn run(context: &Context, graph: &Graph, inputs: &[&[f64]]) -> Result<Vec<Vec<f64>>> {
    run_with(context, graph, inputs, &[])
}

/// Likewise, with numbers of the argument block.
fn run_with(
    context: &Context,
    graph: &Graph,
    inputs: &[&[f64]],
    numbers: &[(ScalarKind, u64)],
) -> Result<Vec<Vec<f64>>> {
    let types: Vec<Ty> = graph.outputs.iter().map(|&v| graph.ty(v).clone()).collect();
    let new = |ty: &Ty| (context.new_buffer(ty.nbytes()), ty.clone());
    let array = |numbers: &&[f64]| Array::from_f64(DType::F32, &[numbers.len() as i64], numbers);
    let arrays: Vec<Array> = inputs.iter().map(array).collect();
    let given: Vec<(u32, Ty)> = arrays.iter().map(|array| new(&array.ty)).collect();
    let made: Vec<(u32, Ty)> = types.iter().map(new).collect();
    let layouts = |held: &[(u32, Ty)]| -> Vec<Layout> {
        held.iter().map(|(_, ty)| Layout::contiguous(&ty.sizes)).collect()
    };
    let (of_given, of_made) = (layouts(&given), layouts(&made));
    fn tensor<'a>(((buffer, ty), layout): (&(u32, Ty), &'a Layout)) -> TensorRef<'a> {
        TensorRef {
            buffer: *buffer,
            dtype: ty.dtype,
            sizes: &layout.sizes,
            strides: &layout.strides,
            offset: 0,
        }
    }
    for ((buffer, _), array) in given.iter().zip(&arrays) {
        context.write(*buffer, &array.bytes)?;
    }
    let tensors = |held: &[(u32, Ty)], layouts| held.iter().zip(layouts).map(tensor).collect();
    let (x, y): (Vec<_>, Vec<_>) = (tensors(&given, &of_given), tensors(&made, &of_made));
    context.record_graph(graph, &x, numbers, &y)?;
    let results = made.iter().zip(of_made.iter().cloned()).map(|((buffer, ty), layout)| {
        let bytes = context.read_view(*buffer, &View { dtype: ty.dtype, layout })?;
        Ok(Array { ty: ty.clone(), bytes }.to_f64s())
    });
    let results = results.collect();
    given.iter().chain(&made).for_each(|(buffer, _)| context.drop_buffer(*buffer));
    results
}

fn counts(context: &Context) -> [u64; 3] {
    let metrics = context.metrics();
    ["engine_compiles", "engine_loads", "engine_runs"].map(|name| {
        let (_, rest) = metrics.split_once(&format!("\"{name}\": ")).expect("it is counted");
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    })
}

fn negation() -> Graph {
    let text = "%0: f32[4] = input() {index=0, type=(f32[4])}\n%1: f32[4] = neg(%0)\nreturn %1";
    parse(text).unwrap()
}

fn negated(context: &Context) -> Result<Vec<f64>> {
    Ok(run(context, &negation(), &[&[1.0, -2.0, 0.5, 4.0]])?.remove(0))
}

const NEGATIVE: [f64; 4] = [-1.0, 2.0, -0.5, -4.0];

fn folder(name: &str) -> std::path::PathBuf {
    let folder = scratch(name);
    std::fs::remove_dir_all(&folder).ok();
    folder
}

#[test]
fn modules_are_compiled_once_and_kept_on_disk() {
    let (fake, folder) = (Fake::new("kept", &[]), folder("kept.cache"));
    let first = context(Some(&fake.0), Some(&folder)).unwrap();
    for runs in 1..=3 {
        assert_eq!(negated(&first).unwrap(), NEGATIVE);
        assert_eq!(counts(&first), [1, 0, runs]);
    }
    drop(first);
    let second = context(Some(&fake.0), Some(&folder)).unwrap();
    assert_eq!(negated(&second).unwrap(), NEGATIVE);
    assert_eq!(counts(&second), [0, 1, 1]);
    drop(second);
    assert_eq!((fake.ask("live"), fake.ask("misused")), (0, 0));
}

/// Of another plugin nothing is taken, even if it has the same name.
#[test]
fn what_another_plugin_compiled_is_not_loaded() {
    let folder = folder("other.cache");
    for (name, defines) in [("one/fake", &[][..]), ("two/fake", &["-DMINOR=80"])] {
        std::fs::create_dir_all(scratch(name).parent().unwrap()).unwrap();
        let fake = Fake::new(name, defines);
        let context = context(Some(&fake.0), Some(&folder)).unwrap();
        assert_eq!(negated(&context).unwrap(), NEGATIVE);
        assert_eq!(counts(&context), [1, 0, 1]);
    }
}

#[test]
fn plugins_that_keep_nothing_compile_again() {
    for (name, define) in [
        ("no_serialize", "-DMISSING=49"),
        ("no_deserialize", "-DMISSING=56"),
        ("serialize_fails", "-DFAILS=\"serialize\""),
        ("deserialize_fails", "-DFAILS=\"deserialize\""),
    ] {
        let (fake, folder) = (Fake::new(name, &[define]), folder(&format!("{name}.cache")));
        for _ in 0..2 {
            let context = context(Some(&fake.0), Some(&folder)).unwrap();
            assert_eq!(negated(&context).unwrap(), NEGATIVE, "{name}");
            assert_eq!(counts(&context), [1, 0, 1], "{name}");
        }
        assert_eq!((fake.ask("live"), fake.ask("misused")), (0, 0), "{name}");
    }
}

#[test]
fn failures_name_the_plugin_and_leave_nothing() {
    for (function, doing) in [
        ("compile", "compiling a module"),
        ("from_host", "handing it an input"),
        ("execute", "running a program"),
        ("to_host", "reading a result"),
    ] {
        let fake = Fake::new(&format!("plan_{function}"), &[&format!("-DFAILS=\"{function}\"")]);
        let context = context(Some(&fake.0), None).unwrap();
        let error = negated(&context).unwrap_err();
        let file = fake.0.canonicalize().unwrap().display().to_string();
        for said in [&file[..], doing, "made to fail", "a module of 1 primitives"] {
            assert!(error.message.contains(said), "{said} in {error}");
        }
        drop(context);
        assert_eq!((fake.ask("live"), fake.ask("misused")), (0, 0), "{function}");
    }
}

#[test]
fn without_a_plugin_it_says_how_to_get_one() {
    let error = |plugin| -> Error { context(plugin, None).err().unwrap() };
    let none = error(None);
    assert_eq!(none.code, Code::NotFound);
    assert!(none.message.contains("pip install xla-cpu-pjrt"), "{none}");
    assert!(none.message.contains("TORCHACC_OPENXLA"), "{none}");
    let missing = error(Some(Path::new("/nowhere/plugin.so")));
    assert_eq!(missing.code, Code::NotFound);
    assert!(missing.message.contains("/nowhere/plugin.so"), "{missing}");
}

/// A bad index is an error of the operation, also between modules; what does not depend on it is computed.
#[test]
fn what_is_checked_stays_outside() {
    let Some(plugin) = found::plugin() else { return };
    let context = context(Some(&plugin), None).unwrap();
    let text = "\
%0: f32[3] = input() {index=0, type=(f32[3])}
%1: f32[2] = input() {index=1, type=(f32[2])}
%2: f32[3] = exp(%0)
%3: i64[2] = cast(%1) {dtype=i64}
%4: f32[2] = take(%2, %3) {axis=0}
%5: f32[2] = neg(%4)
return %5, %2";
    let graph = parse(text).unwrap();
    let got = run(&context, &graph, &[&[0.0, 1.0, 0.0], &[2.0, 0.0]]).unwrap();
    assert_eq!(got[0], [-1.0, -1.0]);
    assert_eq!(counts(&context), [2, 0, 2]);
    let error = run(&context, &graph, &[&[0.0, 1.0, 0.0], &[3.0, 0.0]]).unwrap_err();
    assert_eq!(error.code, Code::IndexError, "{error}");
    assert!(error.message.contains("take: index out of range"), "{error}");
    let again = run(&context, &graph, &[&[0.0, 1.0, 0.0], &[2.0, 0.0]]).unwrap();
    assert_eq!(again, got);
}

/// Numbers of the argument block are eight bytes each there, a bool too.
#[test]
fn modules_read_numbers_of_every_kind() {
    let Some(plugin) = found::plugin() else { return };
    let context = context(Some(&plugin), None).unwrap();
    let text = "\
%0: f32[2] = input() {index=0, type=(f32[2])}
%1: bool[] = scalar() {slot=0, dtype=bool}
%2: i64[] = scalar() {slot=1, dtype=i64}
%3: f64[] = scalar() {slot=2, dtype=f64}
%4: f64[] = cast(%1) {dtype=f64}
%5: f64[] = cast(%2) {dtype=f64}
%6: f64[] = add(%4, %5)
%7: f64[] = mul(%6, %3)
%8: f32[] = cast(%7) {dtype=f32}
%9: f32[2] = broadcast(%8) {sizes=[2]}
%10: f32[2] = mul(%0, %9)
return %10";
    let graph = parse(text).unwrap();
    for (flag, expected) in [(0, [3.0, -6.0]), (1, [3.5, -7.0])] {
        let numbers =
            [(ScalarKind::Bool, flag), (ScalarKind::Int, 6), (ScalarKind::Float, 0.5f64.to_bits())];
        let got = run_with(&context, &graph, &[&[1.0, -2.0]], &numbers).unwrap();
        assert_eq!(got[0], expected);
    }
}
