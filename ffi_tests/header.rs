//! `include/torchacc.h` in a reader's order. cbindgen writes all types before all functions; here each section has its own.

use super::{build, root, run, scratch};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// Headings, and what stands below them: declarations by name, a type with its constants; those whose names begin alike (`…*`);
/// and what else a file of `src/capi` declares, in its order. What a declaration needs comes before it.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Versions and texts", &["mod.rs", "torchacc_string_*", "torchacc_drop_fn"]),
    ("Errors", &["torchacc_code", "error.rs"]),
    ("Contexts", &["torchacc_log_level", "context.rs"]),
    ("Tensors", &["torchacc_dtype", "TORCHACC_MAX_RANK", "tensor.rs", "view.rs"]),
    (
        "Operators by name",
        &[
            "torchacc_op",
            "torchacc_op_find",
            "torchacc_op_count",
            "torchacc_op_name",
            "torchacc_op_signature",
        ],
    ),
    (
        "Recording",
        &[
            "torchacc_arg_kind",
            "types.rs",
            "arguments.rs",
            "record.rs",
            "infer.rs",
            "torchacc_seed",
        ],
    ),
    ("Gradients", &["grad.rs"]),
    (
        "Running and waiting",
        &["torchacc_cut", "torchacc_sync", "torchacc_mark", "torchacc_is_done"],
    ),
    ("Reading without waiting", &["async_read.rs"]),
    ("Buffers: what tensors are views of", &["buffer.rs"]),
    ("Memory, and the caches of programs", &["memory.rs", "cache.rs"]),
    (
        "What happened, and where",
        &["torchacc_locate_fn", "torchacc_context_set_locator", "torchacc_strict", "report.rs"],
    ),
    ("Timelines", &["torchacc_span*", "torchacc_profile_*", "torchacc_busy_ns"]),
    ("Programs as text, and on other engines", &["graph.rs"]),
    ("Files of tensors", &["archive.rs"]),
    ("Memory of other libraries", &["borrow.rs", "dlpack.rs"]),
    ("Devices and their memory", &["device.rs"]),
    ("Operators of the program's own", &["op.rs"]),
    ("Several ranks", &["TORCHACC_REDUCE_*", "TORCHACC_COLLECTIVE_*", "communicator.rs"]),
    ("What PyTorch's schemas do not say", &["torchacc_facts", "torchacc_op_facts"]),
];

/// Whether a part of a section, if it is no file, is or begins a name.
fn is_named(part: &str, name: &str) -> bool {
    part.strip_suffix('*').map_or(part == name, |start| name.starts_with(start))
}

/// The line of the header after which declarations begin.
const HANDLES: &str = "typedef struct torchacc_string torchacc_string;";
const OPEN: &str = "#ifdef __cplusplus\nextern \"C\" {\n#endif // __cplusplus";

pub fn generated() -> String {
    let text = cbindgen_text();
    let (prologue, rest) = text.split_once(HANDLES).expect("cbindgen.toml declares the handles");
    let (mut declared, mut end) = (BTreeMap::new(), Vec::new());
    let mut written = Vec::new();
    for item in items(rest).into_iter().filter(|item| item != OPEN) {
        match name(&item) {
            Some(name) => {
                written.push(name.clone());
                declared.insert(name, compact(&item));
            }
            None => end.push(item),
        }
    }
    let mut header =
        Header { declared, places: places(&written), done: BTreeSet::new(), text: String::new() };
    header.text = format!("{prologue}{HANDLES}\n\n{OPEN}\n");
    for (heading, parts) in SECTIONS {
        header.text += &format!("\n/* ---- {heading} ---- */\n");
        for part in *parts {
            header.part(part);
        }
    }
    let missing: Vec<&String> =
        header.declared.keys().filter(|n| !header.done.contains(*n)).collect();
    assert!(missing.is_empty(), "ffi_tests/header.rs has no section for {missing:?}");
    format!("{}\n{}\n", header.text, end.join("\n\n"))
}

/// Where the sources declare something, in the order of files and lines; of a constant also the type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: String,
    at: usize,
    name: String,
    ty: Option<String>,
}

struct Header {
    /// Comments and code, by name.
    declared: BTreeMap<String, String>,
    /// In the order of the sources.
    places: Vec<Place>,
    done: BTreeSet<String>,
    text: String,
}

impl Header {
    fn part(&mut self, part: &str) {
        for Place { name, file, .. } in self.places.clone() {
            let mut parts = SECTIONS.iter().flat_map(|section| section.1);
            let is_elsewhere = parts.any(|other| is_named(other, &name));
            if is_named(part, &name) || file == part && !is_elsewhere {
                self.declare(&name);
            }
        }
    }

    /// A declaration after all that it needs; constants after their type.
    fn declare(&mut self, name: &str) {
        if !self.done.insert(name.to_string()) {
            return;
        }
        let item = self.declared[name].clone();
        for word in code(&item).split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            if self.declared.contains_key(word) {
                self.declare(word);
            }
        }
        let gap = if item.starts_with("#define") { "" } else { "\n" };
        self.text += &format!("{gap}{item}\n");
        for constant in self.places.clone() {
            if constant.ty.as_deref() == Some(name) && self.done.insert(constant.name.clone()) {
                self.text += &format!("{}\n", self.declared[&constant.name]);
            }
        }
    }
}

/// An item without its comments.
fn code(item: &str) -> String {
    let rest = item.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code));
    rest.collect()
}

fn cbindgen_text() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml");
    let declared = scratch("declared").join("cache.rs");
    // With the space that comments of three slashes begin with.
    let docs = torchacc::capi::DECLARED.split("#[doc =");
    let spaced = docs.map(|rest| rest.trim_start().replacen('"', "\" ", 1)).collect::<Vec<_>>();
    fs::write(&declared, spaced.join("#[doc = ")).expect("the folder is writable");
    // The others are found through it; named too, each would be declared twice.
    let builder = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root().join("src/capi/mod.rs"))
        .with_src(declared);
    let mut header = Vec::new();
    builder.generate().expect("src/capi is what cbindgen reads").write(&mut header);
    String::from_utf8(header).expect("the header is text")
}

/// Pieces between empty lines, which comments may have, too.
fn items(text: &str) -> Vec<String> {
    let (mut items, mut in_comment) = (vec![String::new()], false);
    for line in text.lines() {
        in_comment = !line.contains("*/") && (in_comment || line.contains("/*"));
        match items.last_mut().expect("there is one") {
            _ if line.is_empty() && !in_comment => items.push(String::new()),
            item if item.is_empty() => item.push_str(line),
            item => *item = format!("{item}\n{line}"),
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

/// What an item declares.
fn name(item: &str) -> Option<String> {
    let code = code(item);
    let code = code.trim_start();
    let word = |text: &str| {
        let is_in = |c: char| c.is_alphanumeric() || c == '_';
        let start = text.find(is_in)?;
        let word: String = text[start..].chars().take_while(|&c| is_in(c)).collect();
        word.to_lowercase().starts_with("torchacc_").then_some(word)
    };
    if let Some(define) = code.strip_prefix("#define ") {
        return word(define);
    }
    if let Some((_, function)) = code.split_once("(*").filter(|_| code.starts_with("typedef")) {
        return word(function);
    }
    if code.starts_with("typedef") {
        return word(code.trim_end_matches(';').rsplit([' ', '}']).next()?);
    }
    let (before, _) = code.split_once('(')?;
    word(before.rsplit([' ', '*']).next()?)
}

/// Comments of one line on one line.
fn compact(item: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in item.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        match &lines[..] {
            [.., open, text] if line.trim() == "*/" && open.trim() == "/*" && text.len() <= 112 => {
                let joined = format!("{}/* {} */", &indent[1..], text.trim());
                lines.truncate(lines.len() - 2);
                lines.push(joined);
            }
            _ => lines.push(line.to_string()),
        }
    }
    lines.join("\n")
}

/// Where the sources declare what the header does.
fn places(names: &[String]) -> Vec<Place> {
    let folder = fs::read_dir(root().join("src/capi")).expect("src/capi is there");
    let mut found = Vec::new();
    for file in folder.map(|entry| entry.expect("it can be listed").path()) {
        let text = fs::read_to_string(&file).expect("a source");
        let file = file.file_name().expect("a file").to_string_lossy().into_owned();
        for name in names {
            let declared =
                ["fn", "struct", "union", "type", "const"].into_iter().find_map(|kind| {
                    let start = format!("pub {kind} {name}");
                    let other = format!("extern \"C\" fn {name}(");
                    let after = |at: &usize| {
                        !text[at + start.len()..]
                            .starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    };
                    let plain = text.match_indices(&start).map(|(at, _)| at).find(after);
                    plain.or_else(|| text.find(&other))
                });
            if let Some(at) = declared {
                let ty = text[at..].strip_prefix(&format!("pub const {name}: "));
                let ty = ty.and_then(|rest| rest.split_once(' ')).map(|(ty, _)| ty.to_string());
                found.push(Place { file: file.clone(), at, name: name.clone(), ty });
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_example_in_the_header_runs() {
    let header =
        fs::read_to_string(root().join("include/torchacc.h")).expect("the header is there");
    let lines = header.lines().skip_while(|line| !line.contains("Example:")).skip(2);
    let lines = lines.map(|line| line.trim_start_matches(" *")).take_while(|line| !line.is_empty());
    let code = lines.collect::<Vec<_>>().join("\n");
    let main = format!("int main(void) {{\n{code}\n  printf(\"%g\\n\", value);\n}}\n");
    let includes = ["stdio.h", "stdlib.h", "torchacc.h"].map(|name| format!("#include <{name}>\n"));
    let source = scratch("example").join("example");
    fs::write(source.with_extension("c"), includes.concat() + &main).expect("it is writable");
    let source = source.to_str().expect("the repository's path is UTF-8");
    let program = build(source, "example", &root().join("include"));
    assert_eq!(run(&mut Command::new(program)).trim(), "6");
}
