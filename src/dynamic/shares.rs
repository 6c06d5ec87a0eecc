//! Points of sizes that are parts of a whole, as the tokens that each of many experts gets: if one has more, others have less.

use super::sampling::FARTHER;
use super::symbol_map::SymbolMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of points in which all parts have something.
const DRAWN: u64 = 8;
/// Maximum number of points in which some parts have nearly all; if there are not more parts, each of them has in one point.
const TURNS: usize = 8;
/// Drawn weights are below.
const WEIGHTS: u64 = 1000;

/// Points at which the parts of each whole are very different; half as far from `base` for each time that it is `shrunk`.
/// `None` beyond 64 bits.
pub fn points(symbol_map: &SymbolMap, base: &[i64], shrunk: u32) -> Option<Vec<Vec<i64>>> {
    let all_one_more = (0..base.len()).map(|s| base[s] + 1).collect();
    let mut points = vec![base.to_vec(), settled(symbol_map, all_one_more)?];
    let turns = base.len().min(TURNS);
    for turn in 0..turns {
        // Some have much more than the others, which are as small as possible without being equal.
        let weight = |s: usize| if s % turns == (turn + 1) % turns { WEIGHTS } else { 0 };
        points.push(point(symbol_map, base, (shrunk, turn), &weight)?);
    }
    for seed in 0..DRAWN {
        let weight = |s: usize| xxh3_64_with_seed(&s.to_le_bytes(), seed) % WEIGHTS;
        points.push(point(symbol_map, base, (shrunk, 0), &weight)?);
    }
    Some(points)
}

fn settled(symbol_map: &SymbolMap, mut point: Vec<i64>) -> Option<Vec<i64>> {
    symbol_map.settle(&mut point)?;
    Some(point)
}

fn point(
    symbol_map: &SymbolMap,
    base: &[i64],
    (shrunk, turn): (u32, usize),
    weight: &dyn Fn(usize) -> u64,
) -> Option<Vec<i64>> {
    let remainders: Vec<(usize, Vec<usize>)> = symbol_map.remainders().collect();
    let mut far = base.to_vec();
    let is_part = |s: usize| remainders.iter().any(|(_, parts)| parts.contains(&s));
    // Equal sizes may have a plan of their own.
    let count = base.len();
    let least = |s: usize| {
        let shift = turn * count.div_ceil(count.min(TURNS));
        symbol_map.least(s) + ((s + count - shift % count) % count) as i64
    };
    for s in symbol_map.independent().filter(|&s| !is_part(s)) {
        let most = base[s].saturating_mul(FARTHER);
        far[s] = least(s) + of(most - least(s), weight(s), WEIGHTS);
    }
    symbol_map.settle(&mut far)?;
    for (rest, parts) in &remainders {
        let whole = far[*rest] + parts.iter().map(|&s| far[s]).sum::<i64>();
        let all: Vec<usize> = parts.iter().chain([rest]).copied().collect();
        let free = whole - all.iter().map(|&s| least(s)).sum::<i64>();
        let weights = all.iter().map(|&s| weight(s)).sum::<u64>().max(1);
        parts.iter().for_each(|&s| far[s] = least(s) + of(free, weight(s), weights));
        symbol_map.settle(&mut far)?;
    }
    let near = (0..base.len()).map(|s| base[s] + (far[s] - base[s]) / (1 << shrunk));
    settled(symbol_map, near.collect())
}

/// The share of a number that a weight has of all.
fn of(number: i64, weight: u64, weights: u64) -> i64 {
    (number as i128 * weight as i128 / weights as i128) as i64
}
