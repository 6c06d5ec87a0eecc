//! Buckets for the sizes that a program has run with.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of runs after which buckets are fitted for the first time; from then on whenever it has doubled.
const FIRST_FIT: u64 = 256;
/// New buckets must save this fraction of the padded sizes: each is a program to compile.
const WORTH: f64 = 0.05;
/// Beyond this many distinct sizes nothing is fitted.
const MOST_SIZES: usize = 2048;

/// Number of runs of traces at each point; shared by all who run them.
#[derive(Default)]
pub struct Seen(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    of: BTreeMap<Vec<i64>, u64>,
    runs: u64,
    /// Number of runs at the next fit, less [`FIRST_FIT`].
    due: u64,
}

impl Seen {
    /// Counts one more run; returns whether it is time to fit the buckets again.
    pub fn add(&self, point: &[i64]) -> bool {
        let mut counts = self.0.lock();
        match counts.of.get_mut(point) {
            Some(count) => *count += 1,
            None => {
                counts.of.insert(point.into(), 1);
            }
        }
        counts.runs += 1;
        counts.runs == FIRST_FIT + counts.due
    }

    /// Distinct values of each symbol with their counts, if it is time to fit.
    fn if_due(&self, symbols: usize) -> Option<Vec<Vec<(i64, u64)>>> {
        let mut counts = self.0.lock();
        if counts.runs < FIRST_FIT + counts.due {
            return None;
        }
        counts.due = 2 * counts.runs - FIRST_FIT;
        let of = |s: usize| {
            let mut sizes: BTreeMap<i64, u64> = BTreeMap::new();
            counts.of.iter().for_each(|(p, count)| *sizes.entry(p[s]).or_default() += count);
            sizes.into_iter().collect()
        };
        Some((0..symbols).map(of).collect())
    }
}

/// The buckets of each symbol, as far as they are known.
pub struct Learned {
    pub seen: Arc<Seen>,
    edges: Vec<Vec<i64>>,
}

impl Learned {
    pub fn new(symbols: usize) -> Learned {
        Learned { seen: Arc::default(), edges: vec![Vec::new(); symbols] }
    }

    /// The bucket of a size, if there is one.
    pub fn bucket(&self, symbol: usize, size: i64) -> Option<i64> {
        self.edges[symbol].iter().copied().find(|&edge| edge >= size)
    }

    /// Fits `count` buckets for each symbol when it is time. `start` is the padded size where nothing is learned.
    /// Returns whether the buckets have changed.
    pub fn fit(&mut self, count: usize, start: &dyn Fn(i64) -> Option<i64>) -> bool {
        let Some(sizes) = self.seen.if_due(self.edges.len()) else { return false };
        let mut changed = false;
        for (symbol, sizes) in sizes.iter().enumerate() {
            if sizes.len() > MOST_SIZES {
                continue;
            }
            let edges = fitted(sizes, count);
            let now = cost(sizes, &|size| self.bucket(symbol, size).or_else(|| start(size)));
            let then = cost(sizes, &|size| edges.iter().copied().find(|&edge| edge >= size));
            if then <= (1.0 - WORTH) * now {
                self.edges[symbol] = edges;
                changed = true;
            }
        }
        changed
    }
}

/// The sum of the padded sizes of all runs.
fn cost(sizes: &[(i64, u64)], bucket: &dyn Fn(i64) -> Option<i64>) -> f64 {
    let padded = |&(size, count): &(i64, u64)| bucket(size).unwrap_or(size) as f64 * count as f64;
    sizes.iter().map(padded).sum()
}

/// At most `count` of the sizes, ascending, the last among them, such that rounding up to them costs least: the cheapest way
/// to cut the sizes into that many runs.
fn fitted(sizes: &[(i64, u64)], count: usize) -> Vec<i64> {
    let n = sizes.len();
    let mut before = vec![0; n + 1];
    (0..n).for_each(|i| before[i + 1] = before[i] + sizes[i].1);
    let run = |from: usize, to: usize| (before[to] - before[from]) as f64 * sizes[to - 1].0 as f64;
    // best[to]: least cost of the first `to` sizes; splits[k][to]: where the last of k + 1 runs begins.
    let mut best: Vec<f64> = (0..=n).map(|to| if to == 0 { 0.0 } else { run(0, to) }).collect();
    let mut splits: Vec<Vec<usize>> = vec![vec![0; n + 1]];
    for _ in 1..count.min(n) {
        let (mut better, mut cut) = (best.clone(), vec![0; n + 1]);
        for to in 1..=n {
            for (from, so_far) in best.iter().enumerate().take(to).skip(1) {
                let cost = so_far + run(from, to);
                if cost < better[to] {
                    (better[to], cut[to]) = (cost, from);
                }
            }
        }
        best = better;
        splits.push(cut);
    }
    let (mut edges, mut to) = (Vec::new(), n);
    for cut in splits.iter().rev() {
        if to == 0 {
            break;
        }
        // A cut at 0: fewer runs are as good.
        if cut[to] != 0 || std::ptr::eq(cut, &splits[0]) {
            edges.push(sizes[to - 1].0);
            to = cut[to];
        }
    }
    edges.reverse();
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cheapest choice of at most `count` sizes, by trying all.
    fn brute(sizes: &[(i64, u64)], count: usize) -> f64 {
        let choices = (0..1u32 << sizes.len()).filter(|mask| mask.count_ones() as usize <= count);
        let costs = choices.filter_map(|mask| {
            let edges: Vec<i64> =
                (0..sizes.len()).filter(|i| mask >> i & 1 == 1).map(|i| sizes[i].0).collect();
            let last = edges.last() == sizes.last().map(|(size, _)| size);
            let bucket = |size| edges.iter().copied().find(|&edge| edge >= size);
            last.then(|| cost(sizes, &bucket))
        });
        costs.fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_fit_is_the_best_choice() {
        let mut rng = crate::graph::generate::Rng::new(5);
        for _ in 0..60 {
            let mut sizes: BTreeMap<i64, u64> = BTreeMap::new();
            for _ in 0..1 + rng.below(9) {
                sizes.insert(1 + rng.below(100) as i64, 1 + rng.below(20) as u64);
            }
            let sizes: Vec<(i64, u64)> = sizes.into_iter().collect();
            for count in 1..5 {
                let edges = fitted(&sizes, count);
                assert!(edges.len() <= count && edges.is_sorted());
                let got = cost(&sizes, &|size| edges.iter().copied().find(|&e| e >= size));
                assert_eq!(got, brute(&sizes, count), "{sizes:?} {count}: {edges:?}");
            }
        }
    }

    #[test]
    fn buckets_follow_what_is_seen_where_that_is_worth_it() {
        let mut learned = Learned::new(1);
        let start = |size: i64| Some((size + 63) / 64 * 64);
        let run = |learned: &Learned, sizes: &[i64]| {
            (0..256).filter(|i| learned.seen.add(&[sizes[i % sizes.len()]])).count()
        };
        assert!(!learned.fit(2, &start), "nothing is known yet");
        assert_eq!(run(&learned, &[65, 66, 129, 130]), 1);
        assert!(learned.fit(2, &start));
        assert_eq!(
            [3, 66, 67, 130, 131].map(|n| learned.bucket(0, n)),
            [Some(66), Some(66), Some(130), Some(130), None]
        );
        assert!(!learned.fit(2, &start), "not again so soon");
        assert_eq!(run(&learned, &[64, 66, 129, 130]), 1);
        assert!(!learned.fit(2, &start), "no better ones");
    }
}
