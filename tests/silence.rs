//! The library prints nothing: what it has to say goes to errors, reports and callbacks.

use std::fs;
use std::path::{Path, PathBuf};

const PRINTING: [&str; 5] = ["println!", "eprintln!", "print!(", "eprint!(", "dbg!("];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

/// Tests may print.
fn is_test(path: &Path) -> bool {
    path.iter().filter_map(|part| part.to_str()).any(|part| part.contains("tests"))
}

#[test]
fn nothing_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for source in sources(&root).iter().filter(|path| !is_test(path.strip_prefix(&root).unwrap())) {
        let text = fs::read_to_string(source).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            if PRINTING.iter().any(|word| line.contains(word)) {
                wrong.push(format!("{}:{}", source.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "these lines print: {wrong:?}");
}
