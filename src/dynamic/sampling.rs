//! Points at which a family is planned: for a few symbols, and for many.

use super::symbol_map::SymbolMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Sizes up to this many times that of the trace in hand are tried.
pub const FARTHER: i64 = 8;

/// The smallest and the largest values of each symbol.
pub fn border(points: &[Vec<i64>]) -> (Vec<i64>, Vec<i64>) {
    let of = |of: fn(i64, i64) -> i64| -> Vec<i64> {
        (0..points[0].len()).map(|s| points.iter().map(|p| p[s]).reduce(of).unwrap_or(0)).collect()
    };
    (of(i64::min), of(i64::max))
}

/// Whether two of the points have consecutive values of each symbol that varies: else the plan might hold for every other size
/// only.
pub fn has_neighbours(symbol_map: &SymbolMap, base: &[i64], points: &[Vec<i64>]) -> bool {
    symbol_map.independent().all(|s| {
        let all_one = points.iter().all(|p| p[s] == base[s]);
        all_one || points.iter().any(|p| points.iter().any(|q| p[s] + 1 == q[s]))
    })
}

pub fn with(point: &[i64], s: usize, value: i64) -> Vec<i64> {
    let mut moved = point.to_vec();
    moved[s] = value;
    moved
}

/// Moves equal sizes of a point towards the base until they differ as there: equal sizes may have a plan of their own.
pub fn keep_apart(base: &[i64], point: &mut [i64]) {
    for s in 1..point.len() {
        while point[s] != base[s] && point[..s].contains(&point[s]) {
            point[s] += (base[s] - point[s]).signum();
        }
    }
}

/// Half of the way from `near` to `far`, geometrically.
pub fn between(near: i64, far: i64) -> i64 {
    ((near as f64 * far as f64).sqrt().round() as i64).clamp(near.min(far), near.max(far))
}

/// Points that show how a number behaves in a box: its corners, neighbours (for numbers that go by steps), and the middle.
pub fn inside(base: &[i64], lowest: &[i64], highest: &[i64]) -> Vec<Vec<i64>> {
    let middle = |s: usize| between(lowest[s], highest[s]);
    let of = |f: &dyn Fn(usize) -> i64| (0..base.len()).map(f).collect::<Vec<i64>>();
    let clamp = |s: usize, value: i64| value.clamp(lowest[s], highest[s]);
    let mut points = vec![
        base.to_vec(),
        of(&|s| clamp(s, base[s] + 1)),
        lowest.to_vec(),
        highest.to_vec(),
        of(&|s| clamp(s, lowest[s] + 1)),
        of(&|s| clamp(s, highest[s] - 1)),
        of(&middle),
    ];
    for s in 0..base.len() {
        // Apart from one another: corners, and different ways in.
        points.push(with(highest, s, lowest[s]));
        points.push(with(lowest, s, highest[s]));
        points.push(with(base, s, middle(s)));
        points.push(with(&of(&middle), s, clamp(s, base[s] + 2)));
    }
    points
}

/// Number of points at each end of a box of many symbols, and within it.
pub const AT_ENDS: usize = 4;
const WITHIN: u64 = 8;

/// A number below `count` for each of `count` symbols, another one in each turn: equal sizes may have a plan of their own.
pub fn turned(s: usize, turn: usize, count: usize) -> i64 {
    ((s + turn * count.div_ceil(AT_ENDS)) % count) as i64
}

/// Points of a box of many symbols: its ends, and some in which every symbol is drawn pseudo-randomly, alike in every process.
pub fn scattered(base: &[i64], lowest: &[i64], highest: &[i64]) -> Vec<Vec<i64>> {
    let count = base.len();
    let of = |f: &dyn Fn(usize) -> i64| -> Vec<i64> {
        (0..count).map(|s| f(s).clamp(lowest[s], highest[s])).collect()
    };
    let mut points = vec![base.to_vec(), of(&|s| base[s] + 1)];
    for turn in 0..AT_ENDS {
        points.push(of(&|s| lowest[s] + turned(s, turn, count)));
        points.push(of(&|s| highest[s] - turned(s, turn, count)));
    }
    points.extend((0..WITHIN).map(|n| {
        of(&|s| {
            let drawn = xxh3_64_with_seed(&s.to_le_bytes(), n);
            lowest[s] + (drawn % (highest[s] - lowest[s] + 1) as u64) as i64
        })
    }));
    points
}
