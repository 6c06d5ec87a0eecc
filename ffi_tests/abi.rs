//! The ABI does not break: programs built against the header of version 1 run with today's library.
//!
//! `abi/v1.h` and `abi/v1.layout` are what was promised. They change only when [`torchacc::capi::TORCHACC_ABI`] does, and
//! then get a new name beside the old ones.

use super::{build, functions, generated_header, root, run, scratch};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

fn promised(file: &str) -> String {
    let path = root().join("ffi_tests/abi").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// `NAME value` of every `#define` with a value.
fn constants(header: &str) -> BTreeSet<String> {
    let defines = header.lines().filter_map(|line| line.strip_prefix("#define "));
    defines.filter(|rest| rest.contains(' ')).map(str::to_string).collect()
}

#[test]
fn what_was_promised_is_still_there() {
    let (then, now) = (promised("v1.h"), generated_header());
    let missing: Vec<String> = functions(&then).difference(&functions(&now)).cloned().collect();
    assert!(missing.is_empty(), "functions of version 1 are gone: {missing:?}");
    let changed: Vec<String> = constants(&then).difference(&constants(&now)).cloned().collect();
    assert!(changed.is_empty(), "constants of version 1 have changed: {changed:?}");
}

#[test]
fn what_came_later_is_written_down() {
    let (then, now, notes) = (promised("v1.h"), generated_header(), promised("NOTES.md"));
    let added = functions(&now).difference(&functions(&then)).cloned().collect::<BTreeSet<_>>();
    let added: BTreeSet<String> = &added | &(&constants(&now) - &constants(&then));
    for name in added {
        let name = name.split(' ').next().expect("a name");
        assert!(notes.contains(name), "{name} is new: say in ffi_tests/abi/NOTES.md why");
    }
}

/// Sizes and offsets, from a program that includes the header.
fn layout(include: PathBuf, name: &str) -> Vec<String> {
    let program = scratch(name).join("layout");
    run(Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(root().join("ffi_tests/layout.c"))
        .arg("-I")
        .arg(include));
    run(&mut Command::new(program)).lines().map(str::to_string).collect()
}

#[test]
fn structs_keep_their_layout() {
    let now = layout(root().join("include"), "layout_now");
    let path = root().join("ffi_tests/abi/v1.layout");
    let then: Vec<String> = promised("v1.layout").lines().map(str::to_string).collect();
    for line in &then {
        // A struct that begins with its size may grow.
        let (what, size) = line.split_once(' ').expect("a name and a number");
        let may_grow = then.contains(&format!("{what}.struct_size 0"));
        let number = |line: &str| line.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok());
        let grown = |other: &String| {
            let same = other.starts_with(&format!("{what} "));
            may_grow && same && number(other) >= size.parse().ok()
        };
        assert!(
            now.contains(line) || now.iter().any(grown),
            "{}: {line} is now otherwise",
            path.display()
        );
    }
}

#[test]
fn every_struct_of_the_header_is_looked_at() {
    let source = std::fs::read_to_string(root().join("ffi_tests/layout.c")).expect("layout.c");
    let header = generated_header();
    let (mut within, mut missing) = (None, Vec::new());
    for line in header.lines() {
        let start = ["typedef struct ", "typedef union "].iter().find_map(|s| line.strip_prefix(s));
        if let Some(name) = start.and_then(|rest| rest.strip_suffix(" {")) {
            within = Some(name);
        } else if line.starts_with('}') {
            within = None;
        } else if let Some(name) = within
            // Comments are indented further.
            && let Some(field) = line.strip_suffix(';').filter(|line| !line.starts_with("   "))
        {
            let field = field.split('[').next().unwrap_or(field);
            let field = field.rsplit([' ', '*']).next().expect("a field has a name");
            let looked = format!("FIELD({name}, {field})");
            if !source.contains(&looked) {
                missing.push(looked);
            }
        }
    }
    assert!(missing.is_empty(), "ffi_tests/layout.c lacks {missing:?}");
}

/// A test that comes to need what is newer than version 1 leaves this list.
#[test]
fn programs_built_against_version_1_run() {
    let include = scratch("old_header");
    std::fs::write(include.join("torchacc.h"), promised("v1.h")).expect("the folder is writable");
    for name in [
        "arithmetic",
        "bad_calls",
        "host_operator",
        "report",
        "views",
        "lent",
        "stored",
        "gradients",
    ] {
        let program = build(name, &format!("old_{name}"), &include);
        assert_eq!(run(&mut Command::new(program)).trim(), "ok", "{name}");
    }
}
