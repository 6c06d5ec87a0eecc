//! Every pass on small graphs, as text. `UPDATE_EXPECT=1 cargo test --test passes` rewrites what is expected.

mod collective_matmul;
mod cross_entropy;
mod decompose;
mod movement;
mod optimize;
mod outline;
mod products;
mod scatters;
mod simplify;
mod tidy;

use expect_test::Expect;
use std::borrow::Cow;
use torchacc::error::Result;
use torchacc::graph::Graph;
use torchacc::graph::text::parse;
use torchacc::graph::verify::verify;
use torchacc::passes::dce;

/// What `pass`, and then `dce` so that only the point is left, makes of the graph in `text`.
fn check(pass: impl Fn(&Graph) -> Result<Cow<'_, Graph>>, text: &str, expected: Expect) {
    let graph = parse(text).unwrap();
    let passed = pass(&graph).unwrap();
    let result = dce(&passed).unwrap();
    verify(&result).unwrap();
    expected.assert_eq(&result.to_string());
}

/// The text of a program: its inputs `%0`, `%1`, … are of `types`, then come `lines`.
fn program(types: &[&str], lines: &str) -> String {
    let input =
        |(i, ty): (usize, &&str)| format!("%{i}: {ty} = input() {{index={i}, type=({ty})}}\n");
    types.iter().enumerate().map(input).collect::<String>() + lines
}
