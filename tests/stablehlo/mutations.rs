//! Texts that are damaged give an error or another program, never a panic: characters, lines and numbers of printed graphs
//! and of JAX's modules are exchanged, repeated and dropped. `TORCHACC_FUZZ_SECONDS` for the long run.

use std::fs;
use std::panic::catch_unwind;
use std::time::Instant;
use torchacc::graph::generate::{Limits, Rng, case};
use torchacc::graph::verify::verify;
use torchacc::stablehlo::{parse, print};

/// What is put where something else stood.
const PIECES: [&str; 24] = [
    "9223372036854775807",
    "-1",
    "0",
    "4294967296",
    "%0",
    "%arg0",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ":",
    "->",
    "\"",
    "tensor<0x3xf32>",
    "tensor<ui64>",
    "tensor<9223372036854775807x2xi1>",
    "dense<1>",
    "stablehlo.reduce",
    "xcomplex<f32>",
    "é",
];

fn texts() -> Vec<String> {
    let folder = super::folder();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let modules = files.filter(|path| path.extension().is_some_and(|e| e == "mlir"));
    let mut texts: Vec<String> = modules.map(|path| fs::read_to_string(path).unwrap()).collect();
    texts.sort();
    // The large ones take most of the time and have nothing that the others lack.
    texts.retain(|text| text.len() < 30_000);
    let limits = Limits { nodes: 20, size: 4 };
    texts.extend((0..40).map(|seed| print(&case(seed, limits).unwrap().graph.into()).unwrap()));
    texts
}

/// The text with one to three changes.
fn damaged(text: &str, rng: &mut Rng) -> String {
    let mut text = text.to_string();
    for _ in 0..1 + rng.below(3) {
        let place = |rng: &mut Rng| {
            let at = rng.below(text.len().max(1));
            (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
        };
        let (a, b) = (place(rng), place(rng));
        let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 40));
        let to = (to..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
        text = match rng.below(5) {
            0 => format!("{}{}", &text[..from], &text[to..]),
            1 => format!("{}{}{}", &text[..to], &text[from..to], &text[to..]),
            2 => format!("{}{}{}", &text[..from], rng.pick(&PIECES), &text[to..]),
            3 => text[..from].to_string(),
            _ => other_number(&text, from, rng),
        };
    }
    text
}

/// The number after a place becomes another one.
fn other_number(text: &str, from: usize, rng: &mut Rng) -> String {
    let Some(start) = text[from..].find(|c: char| c.is_ascii_digit()).map(|n| from + n) else {
        return text.to_string();
    };
    let rest = &text[start..];
    let end = start + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number =
        *rng.pick(&["0", "1", "2", "3", "7", "63", "64", "9999999999", "9223372036854775807"]);
    format!("{}{number}{}", &text[..start], &text[end..])
}

#[test]
fn damaged_texts_never_panic() {
    let seconds = std::env::var("TORCHACC_FUZZ_SECONDS").map_or(2, |text| text.parse().unwrap());
    let first = std::env::var("TORCHACC_FUZZ_SEED").map_or(0, |text| text.parse().unwrap());
    let (texts, start) = (texts(), Instant::now());
    let (mut seed, mut refused) = (first, 0);
    while start.elapsed().as_secs() < seconds || seed < first + 100 {
        let mut rng = Rng::new(seed);
        let text = damaged(&texts[rng.below(texts.len())], &mut rng);
        let outcome = catch_unwind(|| match parse(&text) {
            Ok(program) => verify(&program.graph).map(|()| true),
            Err(error) => {
                assert_ne!(error.message, "");
                Ok(false)
            }
        });
        match outcome {
            Ok(Ok(read)) => refused += !read as u64,
            Ok(Err(error)) => panic!("seed {seed}: a wrong graph, {error}\n{text}"),
            Err(_) => panic!("seed {seed}: panicked\n{text}"),
        }
        seed += 1;
    }
    assert!(refused > 0);
    println!("{} texts, {refused} refused", seed - first);
}
