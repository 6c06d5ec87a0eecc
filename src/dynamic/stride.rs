//! Sizes that change evenly, as those of a cache of keys and values that grows by one token at a time.

/// Watches the sizes of the traces that run one after the other.
#[derive(Default)]
pub struct StrideDetector {
    last: Vec<i64>,
    stride: Vec<i64>,
}

impl StrideDetector {
    /// Takes the sizes of a trace. Returns those of the trace after the next one, if this step equals the one before.
    pub fn ahead(&mut self, point: &[i64]) -> Option<Vec<i64>> {
        let last = std::mem::replace(&mut self.last, point.to_vec());
        let stride: Vec<i64> = point.iter().zip(&last).map(|(n, last)| n - last).collect();
        let is_even = stride == self.stride && stride.iter().any(|&n| n != 0);
        let ahead = point.iter().zip(&stride).map(|(n, by)| n + 2 * by);
        let ahead = is_even.then(|| ahead.collect());
        self.stride = stride;
        ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_equal_steps_are_a_stride() {
        let mut detector = StrideDetector::default();
        let ahead = [[4, 7], [4, 8], [4, 9], [4, 10], [4, 20]].map(|point| detector.ahead(&point));
        assert_eq!(ahead, [None, None, Some(vec![4, 11]), Some(vec![4, 12]), None]);
    }

    #[test]
    fn what_stays_as_it_is_has_none() {
        let mut detector = StrideDetector::default();
        assert!([5; 4].iter().all(|&n| detector.ahead(&[n]).is_none()));
    }
}
