//! The code speaks the field's language: private words that were given up stay away from `src`. Quotations are excepted.

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
    ("aten/tests/views.rs", "gathers"),
    // Texts over several lines.
    ("aten/signature.rs", "Given"),
    ("capi/report.rs", "host_calls"),
    ("runtime/", "host_calls"),
    ("trace/", "Traced"),
    ("runtime/", "Traced"),
];

/// In comments.
const PHRASES: &[&str] =
    &["carried over", "host call", "host calls", "rehearsal", "tape", "tapes", "team", "verdict"];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for source in sources(&root) {
        let name = source.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        for (number, line) in fs::read_to_string(&source).unwrap().lines().enumerate() {
            let (code, comment) = parts(line);
            let excepted =
                |word: &str| EXCEPTED.iter().any(|e| name.starts_with(e.0) && e.1 == word);
            let words = IDENTIFIERS.iter().filter(|word| has(&code, word) && !excepted(word));
            for word in words.chain(PHRASES.iter().filter(|word| has(&comment, word))) {
                found.push(format!("{}:{}: {word}", source.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "words with a standard name:\n{}", found.join("\n"));
}

#[test]
fn words_are_found() {
    assert_eq!(
        parts("let x = Tape; // a \"tape\" of `Held`"),
        ("let x = Tape;  Held".into(), " a   of  ".into())
    );
    assert!(has("Tape::new", "Tape") && !has("Tapes", "Tape") && !has("_tape", "tape"));
}
