//! Whether integers of operations (the offset of a slice, a shift) change from run to run of a program.
//!
//! A constant integer is better an attribute of its record: the program then copies a slice. A changing one is better an input,
//! from which indices are computed: else every run would be another program. One program says nothing about another, and a
//! program is named by the operations before its first such integer: from there on, the records depend on what has been learnt.

use crate::record::Operator;
use std::collections::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// An integer counts as changing once more than this many runs have brought something new. If it took one run more, one more
/// program would be compiled and never used again, and two where the first of two integers shows its change a run later.
pub const INTEGER: usize = 1;
/// The same for a list: that of an epoch's last batch is often shorter, without any further change.
pub const LIST: usize = 2;
/// Beyond this many kinds of integers, all are forgotten.
const CAPACITY: usize = 1024;
/// Stands for no trace. (With an `Option`, some builds compare the number before they know that there is one: memory checkers
/// then report a use of uninitialized memory.)
const NO_TRACE: u64 = u64::MAX;

pub struct ChangingIntegers {
    /// The last trace with such an integer, and the hash of its operations before the first one.
    last: (u64, u64),
    /// Keyed by the hash of a program and a kind of integer, which may come several times in a run.
    met: HashMap<u64, Met>,
}

struct Met {
    /// Hashes of a run's integers up to each of them: each alone may have occurred before.
    known: HashSet<u64>,
    chain: u64,
    /// The trace in which it came last, ...
    trace: u64,
    /// ... and the last one in which it brought something new.
    new_in: u64,
    news: usize,
}

impl Default for ChangingIntegers {
    fn default() -> Self {
        Self { last: (NO_TRACE, 0), met: HashMap::new() }
    }
}

impl Default for Met {
    fn default() -> Self {
        Self { known: HashSet::new(), chain: 0, trace: NO_TRACE, new_in: NO_TRACE, news: 0 }
    }
}

impl ChangingIntegers {
    /// Whether an integer of a kind changes: more than `most` runs have brought something new. `trace` is unique to each trace;
    /// `operations` is the hash of its records by [`with_operation`].
    pub fn meet(
        &mut self,
        (trace, operations): (u64, u64),
        (kind, integer): (u64, i64),
        most: usize,
    ) -> bool {
        let program = match self.last {
            (last, program) if last == trace => program,
            _ => operations,
        };
        self.last = (trace, program);
        if self.met.len() >= CAPACITY {
            self.met.clear();
        }
        let key = xxh3_64_with_seed(&kind.to_ne_bytes(), program);
        let met = self.met.entry(key).or_default();
        if met.news > most {
            return true;
        }
        let before = if met.trace == trace { met.chain } else { 0 };
        met.chain = xxh3_64_with_seed(&integer.to_ne_bytes(), before);
        met.trace = trace;
        if met.known.insert(met.chain) && met.new_in != trace {
            met.new_in = trace;
            met.news += 1;
        }
        met.news > most
    }
}

/// Hash of operations, whatever their sizes and numbers: the hash of those before, and one more operation.
pub fn with_operation(before: u64, operation: Operator) -> u64 {
    let word = match operation {
        Operator::Native(row) => u64::from(row) << 1,
        Operator::Host(id) => u64::from(id) << 1 | 1,
    };
    xxh3_64_with_seed(&word.to_ne_bytes(), before)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each run says of its integers, from which on it is the same forever.
    fn runs(
        changing: &mut ChangingIntegers,
        first: u64,
        operations: u64,
        runs: &[&[i64]],
    ) -> Vec<Vec<bool>> {
        let run = |(n, integers): (usize, &&[i64])| {
            let trace = first + n as u64;
            // What comes after the first one is no longer the program's name.
            let at = |k: usize| if k == 0 { operations } else { trace * 100 + k as u64 };
            let meet =
                |(k, &integer): (usize, &i64)| changing.meet((trace, at(k)), (7, integer), INTEGER);
            integers.iter().enumerate().map(meet).collect()
        };
        runs.iter().enumerate().map(run).collect()
    }

    #[test]
    fn an_integer_changes_when_runs_bring_others() {
        let mut changing = ChangingIntegers::default();
        let said = runs(&mut changing, 0, 1, &[&[3, 5], &[3, 5], &[3, 4], &[3, 5]]);
        assert_eq!(said[..2], [[false; 2]; 2]);
        assert_eq!(said[2..], [[false, true], [true; 2]]);
    }

    #[test]
    fn integers_that_differ_within_a_run_stay() {
        let mut changing = ChangingIntegers::default();
        let said = runs(&mut changing, 0, 1, &[[0, 1, 2, 3, 4].as_slice(); 6]);
        assert_eq!(said, [[false; 5]; 6]);
    }

    #[test]
    fn another_program_learns_for_itself() {
        let mut changing = ChangingIntegers::default();
        let one = runs(&mut changing, 0, 1, &[&[0], &[1]]);
        assert_eq!(one[1], [true]);
        let other = runs(&mut changing, 10, 2, &[&[0], &[0], &[0]]);
        assert_eq!(other, [[false]; 3]);
        assert_eq!(runs(&mut changing, 20, 1, &[&[0]]), [[true]]);
    }
}
