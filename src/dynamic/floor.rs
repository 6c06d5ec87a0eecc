//! Sizes that others are divided into: what a strided window, a slice of every other row or a cut into blocks makes of a length.

/// `floor((factor · x + more) / divisor)`, a size or number that follows from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    factor: i64,
    more: i64,
    divisor: i64,
}

/// Divisors of hop sizes of spectrograms and of whole encoders.
const MOST_DIVISOR: i64 = 1024;
/// What a length is multiplied by before it is divided into parts: their number is small.
const MOST_PARTS: i64 = 16;
/// Examples that tell one division from another.
const ENOUGH: usize = 3;

impl Floor {
    /// The division that makes `values` of `sizes`, with the least divisor. Several constants may do: 0 or the one that rounds up
    /// are likely, else the smallest.
    pub fn through(sizes: &[i64], values: &[i64]) -> Option<Floor> {
        Floor::among(sizes, values, &|_| 1..=1, MOST_DIVISOR)
    }

    /// As [`Floor::through`], also of a multiple of the size: where each of a few parts of it begins.
    pub fn of_parts(sizes: &[i64], values: &[i64]) -> Option<Floor> {
        Floor::through(sizes, values)
            .or_else(|| Floor::among(sizes, values, &|divisor| 2..=divisor - 1, MOST_PARTS))
    }

    fn among(
        sizes: &[i64],
        values: &[i64],
        factors: &dyn Fn(i64) -> std::ops::RangeInclusive<i64>,
        most: i64,
    ) -> Option<Floor> {
        let mut distinct: Vec<i64> = values.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if sizes.len() < ENOUGH || distinct.len() < 2 {
            return None;
        }
        let all = (2..=most).flat_map(|divisor| factors(divisor).map(move |f| (f, divisor)));
        all.into_iter().find_map(|(factor, divisor)| {
            let mut range = (i64::MIN, i64::MAX);
            for (&size, &value) in sizes.iter().zip(values) {
                let least = divisor.checked_mul(value)?.checked_sub(factor.checked_mul(size)?)?;
                range = (range.0.max(least), range.1.min(least + divisor - 1));
                if range.0 > range.1 {
                    return None;
                }
            }
            let likely = [0, divisor - 1].into_iter().find(|n| (range.0..=range.1).contains(n));
            let more = likely.unwrap_or(if range.0 > 0 { range.0 } else { range.1 });
            Some(Floor { factor, more, divisor })
        })
    }

    /// `None` beyond 64 bits.
    pub fn at(&self, size: i64) -> Option<i64> {
        let of = size.checked_mul(self.factor)?.checked_add(self.more)?;
        Some(of.div_euclid(self.divisor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_windows_and_blocks_make_of_a_length() {
        let sizes = [16001, 9000, 12345, 31999, 20011, 4567];
        let formulas: [fn(i64) -> i64; 5] =
            [|n| n / 2, |n| (n + 1) / 2, |n| (n - 10) / 5 + 1, |n| n / 32, |n| (n - 400) / 160 + 1];
        for formula in formulas {
            let floor = Floor::through(&sizes, &sizes.map(formula)).unwrap();
            for n in 5000..5400 {
                assert_eq!(floor.at(n), Some(formula(n)), "{floor:?}");
            }
        }
    }

    #[test]
    fn parts_of_a_length_begin_at_fractions() {
        let sizes = [11, 17, 23, 34, 39, 45, 51, 63];
        for part in 1..5 {
            let begins = sizes.map(|n| part * n / 5);
            assert_eq!(Floor::of_parts(&sizes, &begins).unwrap().at(77), Some(part * 77 / 5));
            let ends = sizes.map(|n| (part * n + 4) / 5);
            assert_eq!(Floor::of_parts(&sizes, &ends).unwrap().at(78), Some((part * 78 + 4) / 5));
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
