//! Who may import whom: downward only, in `src/` and in the folders that have layers of their own; and in no folder in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// By folder, lowest first.
const LAYERS: &[(&str, &[&[&str]])] = &[
    (
        "",
        &[
            &["error", "dtype", "shape"],
            &["buffer", "thread", "number", "weights"],
            &["op", "symbolic"],
            &["record", "graph"],
            &["grad", "stablehlo"],
            &["aten", "passes", "plan", "cache", "openxla"],
            &["trace", "backend", "dynamic"],
            &["runtime"],
            &["capi"],
        ],
    ),
    (
        "runtime",
        &[
            &["options"],
            &["observe"],
            &["program"],
            &["shared"],
            &["compile"],
            &["launch"],
            &["context"],
        ],
    ),
];

type Name = Vec<String>;

fn split(folder: &str) -> Name {
    folder.split('/').filter(|part| !part.is_empty()).map(String::from).collect()
}

fn layer(layers: &[&[&str]], module: &str) -> Option<usize> {
    layers.iter().position(|modules| modules.contains(&module))
}

/// Of the modules of two files; also where one is no module.
fn may_import(layers: &[&[&str]], from: &str, to: &str) -> bool {
    from == to || layer(layers, to).is_none_or(|to| Some(to) < layer(layers, from))
}

/// The `.rs` files under `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// `graph::text` of `src/graph/text.rs`, `shape` of `src/shape.rs`, `op` of `src/op/mod.rs`, nothing of `src/lib.rs`.
fn module_of(source: &Path) -> Name {
    let mut name = split(source.strip_prefix(root()).unwrap().with_extension("").to_str().unwrap());
    name.pop_if(|last| ["mod", "lib"].contains(&last.as_str()));
    name
}

/// What it names after `crate::` and `super::`, from the root on, with the line number.
fn imports(text: &str, module: &[String]) -> Vec<(usize, Name)> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap()).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_inside = |c: char| c.is_alphanumeric() || ['_', ':'].contains(&c);
            if code[..at].ends_with(is_inside) {
                continue;
            }
            let above =
                if start == "super::" { module.split_last().map(|(_, above)| above) } else { None };
            let mut names = Vec::new();
            follow(above.unwrap_or_default().to_vec(), &code[at + start.len()..], &mut names);
            let line = code[..at].matches('\n').count() + 1;
            found.extend(names.into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// The ends of a tree of names: `op::{Op, Ty}`.
fn follow(mut name: Name, text: &str, found: &mut Vec<Name>) {
    let text = text.trim_start();
    if text.is_empty() {
        return;
    }
    if let Some(list) = text.strip_prefix('{') {
        items(list).into_iter().for_each(|item| follow(name.clone(), item, found));
        return;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    match &text[..end] {
        "super" => drop(name.pop()),
        "" | "self" => {}
        word => name.push(word.into()),
    }
    match text[end..].strip_prefix("::") {
        Some(rest) => follow(name, rest, found),
        None => found.push(name),
    }
}

/// The items of a list, which may be lists, after its opening brace.
fn items(list: &str) -> Vec<&str> {
    let (mut items, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    items
}

/// Which module of a folder a name leads to, or lies in.
fn within<'a>(folder: &[String], name: &'a [String]) -> Option<&'a str> {
    name.strip_prefix(folder)?.first().map(String::as_str)
}

/// Imports between modules of a folder: where, from which, to which. In inner folders those of tests do not count: what they
/// look at a module through may be above it.
fn between(folder: &[String]) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for source in sources(&root()) {
        let module = module_of(&source);
        let Some(from) = within(folder, &module) else { continue };
        let mut text = fs::read_to_string(&source).unwrap();
        if !folder.is_empty() {
            if module.iter().any(|part| part.ends_with("tests")) {
                continue;
            }
            text.truncate(text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len()));
        }
        for (line, name) in imports(&text, &module) {
            if let Some(to) = within(folder, &name) {
                found.push((format!("{}:{line}", source.display()), from.into(), to.into()));
            }
        }
    }
    found
}

#[test]
fn modules_import_downward_only() {
    let mut wrong = Vec::new();
    for (folder, layers) in LAYERS {
        let name = split(folder);
        for source in sources(&root()) {
            let module = module_of(&source);
            if let Some(module) = within(&name, &module).filter(|module| !module.ends_with("tests"))
            {
                let is_there = layer(layers, module).is_some();
                assert!(
                    is_there,
                    "src/{folder}/{module} is in no layer: give it one in tests/layers.rs"
                );
            }
        }
        for (place, from, to) in between(&name) {
            if !may_import(layers, &from, &to) {
                wrong.push(format!("{place}: {from} imports {to}"));
            }
        }
    }
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}

/// The folders below `src`, without those of tests.
fn folders() -> BTreeSet<Name> {
    let of_module = |module: Name| Some(module.split_last()?.1.to_vec());
    let all = sources(&root()).iter().filter_map(|source| of_module(module_of(source))).collect();
    let is_code = |folder: &Name| !folder.iter().any(|part| part.ends_with("tests"));
    BTreeSet::into_iter(all).filter(is_code).filter(|folder| !folder.is_empty()).collect()
}

#[test]
fn modules_do_not_import_in_circles() {
    for folder in folders() {
        let all = between(&folder);
        let modules: BTreeSet<&str> = all.iter().map(|(_, from, _)| from.as_str()).collect();
        let mut imported: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (_, from, to) in all.iter().filter(|(_, from, to)| from != to) {
            if modules.contains(to.as_str()) {
                imported.entry(from).or_default().insert(to);
            }
        }
        // Whoever imports nobody that is left is below the others, and whom nobody imports is above them.
        loop {
            let left: BTreeSet<&str> = imported.keys().copied().collect();
            let below: BTreeSet<&str> = imported.values().flatten().copied().collect();
            imported.retain(|from, to| below.contains(from) && !to.is_disjoint(&left));
            if imported.len() == left.len() {
                break;
            }
        }
        let is_left = |name: &str| imported.contains_key(name);
        let circle = all.iter().filter(|(_, from, to)| from != to && is_left(from) && is_left(to));
        let circle: Vec<String> =
            circle.map(|(place, from, to)| format!("{place}: {from} imports {to}")).collect();
        assert!(circle.is_empty(), "in a circle:\n{}", circle.join("\n"));
    }
}

#[test]
fn imports_are_found() {
    let names = |text: &str| {
        let found = imports(text, &split("plan/order/late"));
        found
            .into_iter()
            .map(|(line, name)| format!("{line} {}", name.join("::")))
            .collect::<Vec<_>>()
    };
    assert_eq!(names("use crate::op::{Op, Ty};"), ["1 op::Op", "1 op::Ty"]);
    assert_eq!(names("\nuse crate::{op::{self, Op}, shape};"), ["2 op", "2 op::Op", "2 shape"]);
    assert_eq!(names("use crate::{\n    op::Op,\n};"), ["1 op::Op"]);
    assert_eq!(
        names("f(crate::dtype::F32, crate::plan::ALIGN) // crate::capi"),
        ["1 dtype::F32", "1 plan::ALIGN"]
    );
    assert_eq!(names("use super::super::memory::place;"), ["1 plan::memory::place"]);
    let layers = LAYERS[0].1;
    assert!(
        !may_import(layers, "op", "graph")
            && may_import(layers, "graph", "op")
            && !may_import(layers, "plan", "cache")
    );
}
