//! Two contexts on one folder stand for two processes. (In debug builds every loaded plan is proved against the graph of
//! its records; `torch_extension/tests/test_disk_cache.py` has processes.)

use crate::aten;
use crate::dtype::DType;
use crate::error::Site;
use crate::op::host::{self, HostOp};
use crate::record::{Operator, View};
use crate::runtime::Context;
use crate::runtime::options::{Asked, Options};
use crate::shape::Layout;
use crate::trace::{ArgRef, BufferId, Call, TensorRef};
use std::path::PathBuf;
use std::sync::Arc;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("torchacc-kept-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // What a process of this number has left, which was killed.
        std::fs::remove_dir_all(&path).ok();
        Folder(path)
    }

    fn context(&self, backend: &str) -> Arc<Context> {
        Context::new(self.options(backend)).unwrap()
    }

    /// Of a context whose programs all start with plans made quickly.
    fn quick(&self, backend: &str) -> Arc<Context> {
        Context::new(Options { quick_from: 0, ..self.options(backend) }).unwrap()
    }

    fn options(&self, backend: &str) -> Options {
        let cache_folder = self.0.to_str().unwrap();
        let asked = Asked { backend, cache_folder, num_threads: 1, ..Asked::default() };
        Options::resolve(asked).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn matrix() -> View {
    View { dtype: DType::F32, layout: Layout::contiguous(&[4, 4]) }
}

fn apply(context: &Context, op: Operator, operands: &[BufferId]) -> BufferId {
    let operands: Vec<_> = operands.iter().map(|&buffer| (buffer, matrix())).collect();
    apply_to(context, op, &operands, matrix()).0
}

/// The result, of the type `view`, which is dense.
fn apply_to(
    context: &Context,
    op: Operator,
    operands: &[(BufferId, View)],
    view: View,
) -> (BufferId, View) {
    let out = context.new_buffer(view.layout.numel() as usize * view.dtype.size());
    let given = |(buffer, view)| ArgRef::Tensor(TensorRef::new(buffer, view));
    let args: Vec<ArgRef> = operands.iter().map(|(buffer, view)| given((*buffer, view))).collect();
    let outs = [TensorRef::new(out, &view)];
    context.record(&Call { op, args: &args, outs: &outs }).unwrap();
    (out, view)
}

fn native(name: &str) -> Operator {
    Operator::Native(aten::find(name).unwrap())
}

/// A host operator that fails.
fn failing() -> Operator {
    let function = Box::new(|_: &[_], _: &[_]| crate::invalid!("on purpose"));
    let key = "kept/failing".into();
    Operator::Host(host::register(HostOp {
        name: "test::failing".into(),
        key,
        function,
        shape: None,
        cuda: None,
        device_function: None,
    }))
}

fn count(context: &Context, name: &str) -> u64 {
    let metrics = context.metrics();
    let after = metrics.split(&format!("\"{name}\": ")).nth(1).unwrap();
    after.split([',', '}']).next().unwrap().parse().unwrap()
}

/// The CPU fallbacks of a context without the time that they took.
fn untimed(context: &Context) -> String {
    let calls = context.fallbacks();
    let (before, after) = calls.split_once("\"time_ns\": ").unwrap();
    format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// The bytes of relu(x y) exp(x), then a call that fails: its error's call site.
fn work(context: &Context, place: Site) -> (Vec<u8>, Site) {
    context.set_locator(Box::new(move || place));
    let numbers: Vec<u8> = (0..16).flat_map(|n| (n as f32 / 7.0 - 1.0).to_le_bytes()).collect();
    let [x, y] = [(); 2].map(|_| context.new_buffer(64));
    context.write(x, &numbers).unwrap();
    context.write(y, &numbers).unwrap();
    let product = apply(context, native("aten::mm"), &[x, y]);
    let positive = apply(context, native("aten::relu"), &[product]);
    let root = apply(context, native("aten::exp"), &[x]);
    let result = apply(context, native("aten::mul.Tensor"), &[positive, root]);
    context.sync().unwrap();
    let mut bytes = vec![0; 64];
    context.read(result, 0, &mut bytes).unwrap();
    let _lost = apply(context, failing(), &[x]);
    let error = context.sync().unwrap_err();
    assert!(error.message.contains("test::failing: on purpose"), "{error}");
    (bytes, error.site)
}

#[test]
fn a_second_context_loads_what_the_first_compiled() {
    for backend in ["cpu", "reference"] {
        let folder = Folder::new(backend);
        let first = folder.context(backend);
        let (bytes, site) = work(&first, 100);
        assert_eq!((count(&first, "compiles"), count(&first, "disk_hits"), site), (2, 0, 100));
        let second = folder.context(backend);
        let (again, site) = work(&second, 200);
        assert_eq!((count(&second, "compiles"), count(&second, "disk_hits"), site), (0, 2, 200));
        assert_eq!(bytes, again);
        assert_eq!(untimed(&second), untimed(&first).replace("100", "200"));
        assert!(second.last_program().contains("# plan"));
        // A backend takes no other's programs.
        let other = folder.context(if backend == "cpu" { "null" } else { "cpu" });
        let x = other.new_buffer(64);
        apply(&other, native("aten::exp"), &[x]);
        other.sync().unwrap();
        assert_eq!((count(&other, "compiles"), count(&other, "disk_hits")), (1, 0));
    }
}

#[test]
fn a_plan_for_other_records_is_not_run() {
    let folder = Folder::new("other");
    let first = folder.context("cpu");
    work(&first, 1);
    // Every program under every name: each is whole, and one of them is another key's.
    let files = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
    let is_program = |path: &PathBuf| path.extension().is_some_and(|e| e == "program");
    let files: Vec<PathBuf> = files.filter(is_program).collect();
    let swapped = folder.0.join("swapped");
    std::fs::rename(&files[0], &swapped).unwrap();
    std::fs::rename(&files[1], &files[0]).unwrap();
    std::fs::rename(&swapped, &files[1]).unwrap();
    let second = folder.context("cpu");
    work(&second, 1);
    assert_eq!((count(&second, "compiles"), count(&second, "disk_hits")), (2, 0));
}

/// (relu(x) x w u) relu(x) for x [16, 16], w [16, 512] and u [512, 16]. Over the peak, where x w is, relu(x) need not be kept.
fn with_a_peak(context: &Context) -> Vec<u8> {
    let of =
        |rows, columns| View { dtype: DType::F32, layout: Layout::contiguous(&[rows, columns]) };
    let leaf = |view: View| {
        let numbers = (0..view.layout.numel()).map(|n| (n % 23) as f32 / 11.0 - 1.0);
        let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        let buffer = context.new_buffer(bytes.len());
        context.write(buffer, &bytes).unwrap();
        (buffer, view)
    };
    let (x, w, u) = (leaf(of(16, 16)), leaf(of(16, 512)), leaf(of(512, 16)));
    let op = |name, operands: &[_], view| apply_to(context, native(name), operands, view);
    let a = op("aten::relu", std::slice::from_ref(&x), of(16, 16));
    let p = op("aten::mm", &[a.clone(), x], of(16, 16));
    let q = op("aten::mm", &[p.clone(), w], of(16, 512));
    let r = op("aten::mm", &[q.clone(), u], of(16, 16));
    let (y, view) = op("aten::mul.Tensor", &[r.clone(), a.clone()], of(16, 16));
    [a, p, q, r].into_iter().for_each(|(buffer, _)| context.drop_buffer(buffer));
    let mut bytes = vec![0; view.layout.numel() as usize * 4];
    context.read(y, 0, &mut bytes).unwrap();
    // The background work of the run has ended.
    context.sync().unwrap();
    bytes
}

#[test]
fn a_plan_made_quickly_gives_way_to_one_that_was_searched_for() {
    for backend in ["cpu", "reference"] {
        let [slow, quick] = ["slow", "quick"].map(|name| Folder::new(&format!("{name}-{backend}")));
        let searched = slow.context(backend);
        let first = quick.quick(backend);
        let bytes = with_a_peak(&searched);
        assert_eq!(with_a_peak(&first), bytes);
        let counts = |context: &Context| {
            ["compiles", "quick_plans", "cache_hits"].map(|n| count(context, n))
        };
        assert_eq!((counts(&searched), counts(&first)), ([1, 0, 0], [1, 1, 0]));
        // One step more than there are operations: relu(x) is computed again.
        assert_eq!(
            count(&first, "kernels") + 1,
            count(&searched, "kernels"),
            "{}",
            searched.last_program()
        );
        assert_eq!(first.last_program(), searched.last_program());
        assert_eq!(with_a_peak(&first), bytes);
        assert_eq!(counts(&first), [1, 1, 1]);
        assert_eq!(count(&first, "kernels") + 1, 2 * count(&searched, "kernels"));
        // What was searched for is what other processes find.
        let third = quick.quick(backend);
        assert_eq!(with_a_peak(&third), bytes);
        assert_eq!((counts(&third), count(&third, "disk_hits")), ([0, 0, 0], 1));
        assert_eq!(count(&third, "kernels"), count(&searched, "kernels"));
    }
}

/// What is compiled as fast as it is found is not kept.
#[test]
fn a_small_program_stays_in_memory() {
    let folder = Folder::new("small");
    let context = Context::new(Options { cache_from: 3, ..folder.options("cpu") }).unwrap();
    let x = context.new_buffer(64);
    let run = |operations: usize| {
        let mut last = x;
        for _ in 0..operations {
            last = apply(&context, native("aten::exp"), &[last]);
        }
        context.read(last, 0, &mut [0; 64]).unwrap();
        context.sync().unwrap();
        context.shared.disk.as_ref().unwrap().usage().0
    };
    assert_eq!((run(2), run(3), run(2)), (0, 1, 1));
}
