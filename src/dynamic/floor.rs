//! Sizes that follow from others by a division: the effect of a strided window, a slice of every other row or a cut into blocks
//! on a length.

/// `floor((x + more) / divisor)`, a size that follows from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    more: i64,
    divisor: i64,
}

/// Largest divisor that is tried: enough for the hop sizes of spectrograms and for whole encoders.
const MOST_DIVISOR: i64 = 1024;
/// Number of examples that tell one division from another.
const ENOUGH: usize = 3;

impl Floor {
    /// The division that makes `values` of `sizes`, with the least divisor. Several constants may fit: 0 or the one that rounds
    /// up are likely, else the smallest. A guess, to be verified at each use: a step looks like a division by a large number.
    pub fn through(sizes: &[i64], values: &[i64]) -> Option<Floor> {
        if sizes.len() < ENOUGH || values.iter().all(|value| value == &values[0]) {
            return None;
        }
        (2..=MOST_DIVISOR).find_map(|divisor| {
            let (mut least, mut most) = (i64::MIN, i64::MAX);
            for (&size, &value) in sizes.iter().zip(values) {
                let from = divisor.checked_mul(value)?.checked_sub(size)?;
                (least, most) = (least.max(from), most.min(from.checked_add(divisor - 1)?));
                if least > most {
                    return None;
                }
            }
            let likely = [0, divisor - 1].into_iter().find(|n| (least..=most).contains(n));
            let more = likely.unwrap_or(if least > 0 { least } else { most });
            Some(Floor { more, divisor })
        })
    }

    /// `None` beyond 64 bits.
    pub fn at(&self, size: i64) -> Option<i64> {
        Some(size.checked_add(self.more)?.div_euclid(self.divisor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_windows_and_blocks_make_of_a_length() {
        // So many that all remainders are among them.
        let sizes: Vec<i64> = (0..500).map(|n| 4567 + 41 * n).collect();
        let formulas: [fn(i64) -> i64; 5] =
            [|n| n / 2, |n| (n + 1) / 2, |n| (n - 10) / 5 + 1, |n| n / 32, |n| (n - 400) / 160 + 1];
        for formula in formulas {
            let floor =
                Floor::through(&sizes, &sizes.iter().map(|&n| formula(n)).collect::<Vec<_>>())
                    .unwrap();
            for n in 5000..5400 {
                assert_eq!(floor.at(n), Some(formula(n)), "{floor:?}");
            }
        }
    }

    #[test]
    fn refuses_what_is_none() {
        assert_eq!(Floor::through(&[10, 20, 30], &[3, 9, 4]), None);
        assert_eq!(Floor::through(&[10, 20], &[5, 10]), None);
        assert_eq!(Floor::through(&[10, 20, 30], &[5, 5, 5]), None);
        assert_eq!(Floor::through(&[i64::MAX, 20, 30], &[5, 10, i64::MAX]), None);
    }
}
