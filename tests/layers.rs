//! Who may import whom: downward only. `crate::module` in a file of `src/` must name a module of a lower layer or the
//! file's own.

use std::fs;
use std::path::{Path, PathBuf};

/// Lowest first.
const LAYERS: &[&[&str]] = &[
    &["error", "dtype", "shape"],
    &["buffer", "thread", "number", "weights"],
    &["op"],
    &["record", "graph"],
    &["grad", "stablehlo"],
    &["aten", "passes", "plan", "cache", "openxla"],
    &["trace", "backend", "dynamic"],
    &["runtime"],
    &["capi"],
];

fn layer(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|modules| modules.contains(&module))
        .unwrap_or_else(|| panic!("src/{module} is in no layer: give it one in tests/layers.rs"))
}

fn may_import(from: &str, to: &str) -> bool {
    from == to || layer(to) < layer(from)
}

/// The `.rs` files under `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

/// `graph` of `src/graph/text.rs`, `shape` of `src/shape.rs`.
fn module_of(source: &Path, root: &Path) -> String {
    let first = source.strip_prefix(root).unwrap().iter().next().unwrap().to_str().unwrap();
    first.trim_end_matches(".rs").to_string()
}

/// Modules named after `crate::`, with the line number: `crate::op::Op`, `crate::{op::Op, shape}`.
fn imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap();
        for after in code.split("crate::").skip(1) {
            let list = match after.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap(),
                None => after.split([';', ',']).next().unwrap(),
            };
            for item in list.split(',') {
                let word =
                    item.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                found.push((number + 1, word.to_string()));
            }
        }
    }
    found
}

#[test]
fn modules_import_downward_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for source in sources(&root).iter().filter(|s| !s.ends_with("lib.rs")) {
        let from = module_of(source, &root);
        for (line, to) in imports(&fs::read_to_string(source).unwrap()) {
            // The rest are macros: `crate::invalid!`.
            let is_module = LAYERS.iter().any(|modules| modules.contains(&to.as_str()));
            if is_module && !may_import(&from, &to) {
                wrong.push(format!("{}:{line}: {from} imports {to}", source.display()));
            }
        }
        layer(&from);
    }
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}

#[test]
fn imports_are_found() {
    let names = |text: &str| imports(text).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    assert_eq!(names("use crate::op::{Op, Ty};"), ["op"]);
    assert_eq!(names("use crate::{op::Op, shape};"), ["op", "shape"]);
    assert_eq!(names("f(crate::dtype::F32, crate::plan::ALIGN) // crate::capi"), ["dtype", "plan"]);
    assert!(
        !may_import("op", "graph") && may_import("graph", "op") && !may_import("plan", "cache")
    );
}
