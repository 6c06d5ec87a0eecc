//! Whether a trace repeats itself: a loop without a cut, which is best cut at whole iterations. Elsewhere every piece would
//! begin at another point of the loop and be another program.

use crate::record::{Arg, Read, Record};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The number of records after which the end of `records` repeats itself; 0 if it does not. The longest of all ends that
/// consist of two iterations or more counts.
pub fn period_of(records: &[Record]) -> usize {
    let reversed: Vec<u64> = records.iter().rev().map(likeness).collect();
    // Knuth, Morris, Pratt: border[m] is the length of the longest proper prefix of the first m that is also a suffix.
    let mut border = vec![0; reversed.len() + 1];
    let mut period = 0;
    for m in 2..=reversed.len() {
        let mut length = border[m - 1];
        while length > 0 && reversed[length] != reversed[m - 1] {
            length = border[length];
        }
        border[m] = length + (reversed[length] == reversed[m - 1]) as usize;
        if 2 * (m - border[m]) <= m {
            period = m - border[m];
        }
    }
    period
}

/// Hash of everything that iterations of a loop have in common: all but the values they work on.
fn likeness(record: &Record) -> u64 {
    let mut hash = DefaultHasher::new();
    let read = |read: &Read, hash: &mut DefaultHasher| read.view.hash(hash);
    record.op.hash(&mut hash);
    for arg in &record.args {
        std::mem::discriminant(arg).hash(&mut hash);
        match arg {
            Arg::Tensor(tensor) => read(tensor, &mut hash),
            Arg::Tensors(list) => list.iter().flatten().for_each(|tensor| read(tensor, &mut hash)),
            Arg::Int(i) => i.hash(&mut hash),
            Arg::Ints(list) => list.hash(&mut hash),
            _ => {}
        }
    }
    record.outs.iter().for_each(|out| out.view.hash(&mut hash));
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operator;

    fn period(operators: &[u32]) -> usize {
        let record =
            |&op: &u32| Record { op: Operator::Native(op), args: vec![], outs: vec![], site: 0 };
        period_of(&operators.iter().map(record).collect::<Vec<_>>())
    }

    #[test]
    fn the_longest_end_that_repeats_itself_counts() {
        assert_eq!(period(&[]), 0);
        assert_eq!(period(&[1]), 0);
        assert_eq!(period(&[1, 2, 3, 4]), 0);
        assert_eq!(period(&[9, 8, 1, 1, 1, 1]), 1);
        assert_eq!(period(&[9, 1, 2, 3, 1, 2, 3, 1, 2, 3]), 3);
        assert_eq!(period(&[7, 3, 1, 2, 2, 3, 1, 2, 2, 3, 1, 2, 2]), 4, "not 1, of its last two");
        assert_eq!(period(&[1, 2, 3, 1, 2, 3, 1]), 3, "in the middle of an iteration");
    }
}
