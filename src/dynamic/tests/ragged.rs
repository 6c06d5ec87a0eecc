//! Ragged programs, of random sizes in every step: few compiles, whichever traces come first.

use super::*;
use crate::graph::generate::Rng;

/// A size from `least` to `most`.
fn between(rng: &mut Rng, least: i64, most: i64) -> i64 {
    least + rng.below((most - least + 1) as usize) as i64
}

/// Compiles in so many traces, the most of several seeds.
fn compiles(traces: usize, trace: &dyn Fn(&mut Rng) -> Records) -> usize {
    let of_seed = |seed| {
        let (planning, mut rng) = (Planning::default(), Rng::new(seed));
        let done = planning.each((0..traces).map(|_| trace(&mut rng)));
        done.iter().filter(|&&instantiated| !instantiated).count()
    };
    (1..6).map(of_seed).max().unwrap_or(0)
}

fn rows(x: &Read, start: i64, count: i64) -> Read {
    let mut part = x.clone();
    let mut starts = vec![0; x.view.layout.rank()];
    let mut sizes = x.view.layout.sizes.clone();
    (starts[0], sizes[0]) = (start, count);
    part.view.layout = x.view.layout.slice(&starts, &sizes, &vec![1; starts.len()]);
    part
}

fn mean(s: &mut Scribe, x: &Read) -> Read {
    s.op("aten::mean.dim", vec![of(x), ints(&[0]), Arg::Bool(false), Arg::None], &[8])
}

/// The mean of some rows out of a table.
#[test]
fn windows_at_any_place() {
    let trace = |rng: &mut Rng| {
        let (start, mut s) = (between(rng, 0, 90), Scribe::default());
        let count = between(rng, 1, 96 - start);
        let x = s.leaf(&[96, 8]);
        let y = mean(&mut s, &rows(&x, start, count));
        s.finish(&[&y])
    };
    let all = compiles(80, &trace);
    assert!(all <= 16, "{all}");
}
