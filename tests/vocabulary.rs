//! The code speaks the field's language: private words that were given up stay away from `src` and from the C++ of the device.
//! Quotations are excepted.

use std::fs;
use std::path::{Path, PathBuf};

/// As identifiers: in code, and between backticks in comments.
const IDENTIFIERS: &[&str] = &[
    "Alone",
    "Beside",
    "Brain",
    "Carried",
    "Effort",
    "Fitting",
    "Form",
    "Forms",
    "Framed",
    "Given",
    "Guess",
    "Guide",
    "Half",
    "Held",
    "HostCall",
    "HostCalls",
    "Keep",
    "Keeps",
    "Known",
    "Lane",
    "Lone",
    "Need",
    "Network",
    "OtherDiv",
    "OtherMax",
    "OtherMin",
    "OtherSub",
    "Outline",
    "Place",
    "Program",
    "Rest",
    "Routine",
    "Spot",
    "Tape",
    "Team",
    "Thin",
    "Told",
    "Traced",
    "Turn",
    "Turned",
    "With",
    "Word",
    "announce",
    "bounce",
    "carry_over",
    "exchange",
    "gathers",
    "host_call",
    "host_calls",
    "judge",
    "lacks",
    "rehearse",
    "shortage",
    "tape",
    "team",
    "told",
    "verdict",
    "widens",
];

/// Identifiers that are names elsewhere: metric keys, variants of another meaning.
const EXCEPTED: &[(&str, &str)] = &[
    ("src/aten/tests/views.rs", "gathers"),
    // Texts over several lines.
    ("src/aten/signature.rs", "Given"),
    ("src/capi/report.rs", "host_calls"),
    ("src/runtime/", "host_calls"),
    ("src/trace/", "Traced"),
    ("src/runtime/", "Traced"),
    // Names of c10 and of collectives.
    ("torch_extension/csrc/", "Half"),
    ("torch_extension/csrc/", "exchange"),
    ("torch_extension/csrc/", "gathers"),
    ("torch_extension/csrc/ops/report.cpp", "host_calls"),
];

/// In comments.
const PHRASES: &[&str] =
    &["carried over", "host call", "host calls", "rehearsal", "tape", "tapes", "team", "verdict"];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    let is_source =
        |path: &Path| path.extension().is_some_and(|e| e == "rs" || e == "cpp" || e == "h");
    files.filter(|path| is_source(path)).collect()
}

/// The sources with their names from the root on.
fn all_sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = ["src", "torch_extension/csrc"].map(|folder| sources(&root.join(folder)));
    let named = |path: &PathBuf| {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    found.iter().flatten().map(named).collect()
}

/// Every second piece of what `mark` separates, from the `first` on.
fn pieces(text: &str, mark: char, first: usize) -> String {
    text.split(mark).skip(first).step_by(2).collect::<Vec<_>>().join(" ")
}

/// The code in a line, quoted code included, and the words of its comment.
fn parts(line: &str) -> (String, String) {
    let line = pieces(line, '"', 0);
    let (code, comment) = line.split_once("//").unwrap_or((&line, ""));
    (format!("{code} {}", pieces(comment, '`', 1)), pieces(comment, '`', 0))
}

fn has(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(inside) && !text[at + word.len()..].starts_with(inside)
    })
}

#[test]
fn private_words_stay_away() {
    let mut found = Vec::new();
    for (name, text) in all_sources() {
        for (number, line) in text.lines().enumerate() {
            let (code, comment) = parts(line);
            let excepted =
                |word: &str| EXCEPTED.iter().any(|e| name.starts_with(e.0) && e.1 == word);
            let words = IDENTIFIERS.iter().filter(|word| has(&code, word) && !excepted(word));
            for word in words.chain(PHRASES.iter().filter(|word| has(&comment, word))) {
                found.push(format!("{name}:{}: {word}", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "words with a standard name:\n{}", found.join("\n"));
}

/// A comment that says "what" where there is a noun is hard to read.
#[test]
fn comments_have_nouns() {
    let comments = |of: &dyn Fn(&str) -> bool| -> usize {
        let all = all_sources();
        all.iter().flat_map(|(_, text)| text.lines()).filter(|line| of(&parts(line).1)).count()
    };
    let lines = comments(&|comment| !comment.trim().is_empty());
    let vague = comments(&|comment| has(comment, "what") || has(comment, "What"));
    assert!(50 * vague < lines, "{vague} of {lines} lines of comments say \"what\"");
}

#[test]
fn words_are_found() {
    assert_eq!(
        parts("let x = Tape; // a \"tape\" of `Held`"),
        ("let x = Tape;  Held".into(), " a   of  ".into())
    );
    assert!(has("Tape::new", "Tape") && !has("Tapes", "Tape") && !has("_tape", "tape"));
}
