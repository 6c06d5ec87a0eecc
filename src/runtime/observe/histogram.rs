//! Durations by logarithmic buckets: eight to a doubling, so that a percentile is right to an eighth.

use parking_lot::Mutex;

const STEPS: u32 = 3;
const BUCKETS: usize = (64 - STEPS as usize + 1) << STEPS;

pub struct Histogram(Mutex<Inner>);

struct Inner {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(Mutex::new(Inner { counts: Box::new([0; BUCKETS]), total: 0 }))
    }
}

impl Histogram {
    pub fn add(&self, value: u64) {
        let mut inner = self.0.lock();
        inner.counts[bucket(value)] += 1;
        inner.total += 1;
    }

    /// The upper end of the lowest bucket such that `percent` of the values do not exceed it; 0 without values.
    pub fn percentile(&self, percent: u64) -> u64 {
        let inner = self.0.lock();
        let wanted = (inner.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let reached = inner.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        reached.map_or(0, last_of)
    }

    pub fn reset(&self) {
        *self.0.lock() = Inner { counts: Box::new([0; BUCKETS]), total: 0 };
    }
}

/// Values below 8 have a bucket each; above, the three bits after the first one count.
fn bucket(value: u64) -> usize {
    let exponent = value.max(1).ilog2();
    if exponent < STEPS {
        return value as usize;
    }
    let shift = exponent - STEPS;
    ((shift as usize + 1) << STEPS) + ((value >> shift) as usize & ((1 << STEPS) - 1))
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let (group, step) = (bucket >> STEPS, (bucket & ((1 << STEPS) - 1)) as u64);
    match group {
        0 => step,
        group => (((1 << STEPS) + step + 1) << (group - 1)).wrapping_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_its_bucket() {
        for exponent in 0..64 {
            for value in
                [1u64 << exponent, (1 << exponent) + (1 << exponent >> 1), u64::MAX >> exponent]
            {
                let at = bucket(value);
                assert!(at < BUCKETS && value <= last_of(at), "{value}");
                assert!(at == 0 || value > last_of(at - 1), "{value}");
                assert!(last_of(at) - value <= value / 8, "{value}");
            }
        }
    }

    #[test]
    fn percentiles_are_right_to_an_eighth() {
        let histogram = Histogram::default();
        assert_eq!(histogram.percentile(50), 0);
        (1..=1000).for_each(|value| histogram.add(value));
        for percent in [1, 50, 90, 99, 100] {
            let (got, exact) = (histogram.percentile(percent), percent * 10);
            assert!(got >= exact && got <= exact + exact / 8, "{percent}: {got}");
        }
        histogram.reset();
        assert_eq!(histogram.percentile(99), 0);
    }
}
