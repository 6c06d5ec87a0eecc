//! The ABI does not break: programs built against the header of version 1 run with today's library.
//!
//! `abi/v1.h` and `abi/v1.layout` are what was promised. They change only when [`torchacc::capi::TORCHACC_ABI`] does, and
//! then get a new name beside the old ones. Today's header may say more, which is written down in `abi/NOTES.md`.

use super::{build, generated_header, root, run, scratch};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

fn promised(file: &str) -> String {
    let path = root().join("ffi_tests/abi").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What a header declares, by name: the fields of a struct or union, the value of a constant, the type of a function or of
/// another type. Without comments, names of parameters and the word `struct`, which change nothing for a program.
type Declarations = BTreeMap<String, Vec<String>>;

fn declarations(header: &str) -> Declarations {
    let mut found = Declarations::new();
    let (mut code, mut statement) = (String::new(), String::new());
    for (index, part) in header.split("/*").enumerate() {
        code += if index == 0 { part } else { part.split_once("*/").expect("a comment ends").1 };
    }
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or(line).trim();
        if let Some(define) = line.strip_prefix("#define ") {
            let (name, value) = define.split_once([' ', '(']).unwrap_or((define, ""));
            found.insert(name.to_string(), vec![value.to_string()]);
        } else if !line.starts_with('#') && line != "extern \"C\" {" && line != "}" {
            statement += line;
            statement.push(' ');
            let is_open = statement.matches('{').count() > statement.matches('}').count();
            if line.ends_with(';') && !is_open {
                let (name, parts) = declaration(&std::mem::take(&mut statement));
                found.insert(name, parts);
            }
        }
    }
    found
}

/// Of a whole statement: the name that it declares, and as what.
fn declaration(statement: &str) -> (String, Vec<String>) {
    let last = |tokens: &[String]| tokens.last().expect("a declaration says something").clone();
    if let Some((kind, rest)) = statement.split_once('{') {
        let (fields, name) = rest.rsplit_once('}').expect("a struct ends");
        let is_union = tokens(kind).contains(&"union".to_string());
        let kind = if is_union { "union" } else { "struct" };
        let fields = fields.split(';').map(tokens).filter(|field| !field.is_empty());
        let fields = fields.map(|field| format!("{kind} {}", field.join(" ")));
        return (last(&tokens(name)), fields.collect());
    }
    let tokens = tokens(statement);
    let open = tokens.iter().position(|token| token == "(");
    let name = match open {
        Some(open) if tokens[open + 1] == "*" => tokens[open + 2].clone(),
        Some(open) => tokens[open - 1].clone(),
        None => last(&tokens),
    };
    let is_name = |token: &str| token.starts_with(|c: char| c.is_alphabetic());
    let is_parameter = |at: usize| {
        let (before, after) = (&tokens[at - 1], tokens.get(at + 1).map_or("", String::as_str));
        is_name(&tokens[at]) && (is_name(before) || before == "*") && [",", ")"].contains(&after)
    };
    let kept = (0..tokens.len()).filter(|&at| at == 0 || !is_parameter(at));
    (name, vec![kept.map(|at| tokens[at].as_str()).collect::<Vec<_>>().join(" ")])
}

/// Words and signs; the word `struct` is left out.
fn tokens(code: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = ' ';
    for c in code.chars().filter(|&c| c != ';') {
        match found.last_mut().filter(|_| in_word(c) && in_word(before)) {
            Some(word) => word.push(c),
            None if c.is_whitespace() => {}
            None => found.push(c.to_string()),
        }
        before = c;
    }
    found.retain(|token| token != "struct");
    found
}

fn may_grow(parts: &[String]) -> bool {
    parts.first().is_some_and(|first| first == "struct size_t struct_size")
}

/// What a program built against the header `then` would miss or take for something else. Layouts are compared apart from this.
fn broken(then: &str, now: &str) -> Vec<String> {
    let now = declarations(now);
    let same = |name: &String, parts: &Vec<String>| {
        now.get(name).is_some_and(|today| {
            today == parts || (may_grow(parts) && today.starts_with(parts.as_slice()))
        })
    };
    declarations(then).into_iter().filter(|(name, parts)| !same(name, parts)).map(|d| d.0).collect()
}

/// The names of what came later: functions, types and constants, and fields as `struct.field`.
fn added(then: &str, now: &str) -> Vec<String> {
    let then = declarations(then);
    let mut names = Vec::new();
    for (name, parts) in declarations(now) {
        match then.get(&name) {
            None => names.push(name),
            Some(old) => {
                for field in parts.get(old.len()..).unwrap_or_default() {
                    let declared = field.split(" [").next().unwrap_or(field);
                    let field = declared.rsplit(' ').next().unwrap_or(declared);
                    names.push(format!("{name}.{field}"));
                }
            }
        }
    }
    names
}

fn unsaid(added: &[String], notes: &str) -> Vec<String> {
    let words: Vec<&str> =
        notes.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).collect();
    let is_said = |name: &&String| words.iter().any(|word| word.trim_end_matches('.') == **name);
    added.iter().filter(|name| !is_said(name)).cloned().collect()
}

#[test]
fn what_was_promised_is_still_there() {
    let changed = broken(&promised("v1.h"), &generated_header());
    assert!(changed.is_empty(), "of version 1 these are gone or otherwise: {changed:?}");
}

#[test]
fn what_came_later_is_written_down() {
    let names = unsaid(&added(&promised("v1.h"), &generated_header()), &promised("NOTES.md"));
    assert!(names.is_empty(), "say in ffi_tests/abi/NOTES.md why these are new: {names:?}");
}

/// The guard itself, on headers that were changed as they must not be, and as they may.
#[test]
fn every_kind_of_change_is_found() {
    let then = generated_header();
    let changed = |from: &str, to: &str| {
        assert!(then.contains(from), "the header has no {from:?} any more: change another place");
        then.replacen(from, to, 1)
    };
    let breaks = [
        ("torchacc_error *torchacc_cut(torchacc_context *context);", "", "torchacc_cut"),
        ("size_t torchacc_op_count(void)", "uint32_t torchacc_op_count(void)", "torchacc_op_count"),
        ("torchacc_op_name(torchacc_op op)", "torchacc_op_name(uint64_t op)", "torchacc_op_name"),
        ("uint64_t seed)", "int64_t seed)", "torchacc_seed"),
        ("uint64_t evictions;", "double evictions;", "torchacc_cache_stats"),
        ("uint64_t evictions;\n", "", "torchacc_cache_stats"),
        ("  double f;\n", "", "torchacc_value"),
        ("  uint32_t rank;\n", "  uint32_t rank;\n  uint32_t more;\n", "torchacc_view"),
        ("int64_t sizes[TORCHACC_MAX_RANK];", "int64_t sizes[8];", "torchacc_type"),
        (
            "void (*torchacc_drop_fn)(void *user)",
            "int (*torchacc_drop_fn)(void *user)",
            "torchacc_drop_fn",
        ),
        ("(*torchacc_line_fn)(void *user,", "(*torchacc_line_fn)(", "torchacc_line_fn"),
        ("typedef uint32_t torchacc_dtype;", "typedef uint8_t torchacc_dtype;", "torchacc_dtype"),
        ("#define TORCHACC_F32 8", "#define TORCHACC_F32 9", "TORCHACC_F32"),
        ("#define TORCHACC_ABI 1", "#define TORCHACC_ABI 2", "TORCHACC_ABI"),
    ];
    for (from, to, name) in breaks {
        assert_eq!(broken(&then, &changed(from, to)), [name], "{from} became {to}");
    }
    let may_come = [
        (" * Rules\n", " * Some rules\n", vec![]),
        ("uint64_t seed);", "uint64_t number);", vec![]),
        ("const struct torchacc_arg *args", "const torchacc_arg *args", vec![]),
        (
            "void torchacc_archive_free(",
            "void torchacc_new(void);\nvoid torchacc_archive_free(",
            vec!["torchacc_new"],
        ),
        (
            "  torchacc_device_fn device_function;\n",
            "  torchacc_device_fn device_function;\n  void *more[2];\n",
            vec!["torchacc_host_op.more"],
        ),
        (
            "#define TORCHACC_F32 8",
            "#define TORCHACC_F32 8\n#define TORCHACC_NEW 99",
            vec!["TORCHACC_NEW"],
        ),
    ];
    for (from, to, names) in may_come {
        let now = changed(from, to);
        assert!(broken(&then, &now).is_empty(), "{from} became {to}");
        assert_eq!(added(&then, &now), names, "{from} became {to}");
        assert_eq!(unsaid(&added(&then, &now), "torchacc_newer, torchacc_host_op"), names);
        assert!(unsaid(&added(&then, &now), &format!("- `{}`: why.", names.concat())).is_empty());
    }
}

#[test]
fn everything_in_the_header_is_described() {
    let header = generated_header();
    let lines: Vec<&str> = header.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let is_one = line.starts_with("typedef ")
            || line.contains(" *torchacc_")
            || line.contains(" torchacc_");
        if is_one && line.starts_with(|c: char| c.is_alphabetic()) {
            assert!(lines[index - 1].ends_with("*/"), "{line} has no comment");
        }
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
        "cache",
        "collectives",
        "gradients",
        "host_operator",
        "lent",
        "own_kernel",
        "processes",
        "report",
        "stored",
        "threads",
        "views",
    ] {
        let folder = scratch(&format!("old_{name}"));
        let program = build(name, &format!("old_{name}"), &include);
        let command = &mut Command::new(program);
        match name {
            "cache" => {
                std::fs::remove_dir_all(folder.join("programs")).ok();
                command.arg(folder.join("programs"));
            }
            "threads" => {
                command.arg("100");
            }
            _ => {}
        }
        assert_eq!(run(command).trim(), "ok", "{name}");
    }
}
