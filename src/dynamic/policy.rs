//! The sizes that programs are made for, where they are not made for every size.

use crate::error::Result;
use crate::invalid;
use crate::shape::Dims;
use std::ops::RangeInclusive;

/// The sizes to pad to: a size is padded to the smallest of them that is not below it.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Policy {
    /// Nothing is padded.
    #[default]
    Exact,
    /// The multiples of a number.
    Multiple(i64),
    /// Each `ratio` times the one before, rounded up to a multiple of a number: the work of padding is bounded by the ratio.
    Geometric { ratio: f64, multiple: i64 },
    /// These alone; larger sizes are not padded.
    List(Dims),
    /// This many, those that would have caused the least padding of the sizes seen; the geometric ones at first.
    Learned(usize),
}

const DEFAULT_RATIO: f64 = 1.25;
const DEFAULT_MULTIPLE: i64 = 64;
const DEFAULT_BUCKETS: usize = 8;
/// All sizes are below this one.
const LARGEST: i64 = 1 << 40;
/// With a smaller ratio there would be as many buckets as sizes.
const RATIOS: RangeInclusive<f64> = 1.01..=1024.0;

impl Policy {
    /// `exact`, `multiple:64`, `geometric:1.25:64`, `list:128,256,512` or `learned:8`; numbers that are left out default to
    /// these.
    pub fn parse(text: &str) -> Result<Policy> {
        let wrong = || {
            invalid!(
                "the bucket policy \"{text}\" is none of exact, multiple:64, geometric:1.25:64, list:128,256,512, learned:8"
            )
        };
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let size = |word: Option<&str>, default: i64| match word.map(str::parse) {
            None => Some(default),
            Some(Ok(n)) => (1..LARGEST).contains(&n).then_some(n),
            Some(Err(_)) => None,
        };
        let policy = match name {
            "exact" => Some(Policy::Exact),
            "multiple" => size(words.next(), DEFAULT_MULTIPLE).map(Policy::Multiple),
            "geometric" => {
                let ratio = words.next().map_or(Ok(DEFAULT_RATIO), str::parse);
                let ratio = ratio.ok().filter(|ratio| RATIOS.contains(ratio));
                let multiple = size(words.next(), DEFAULT_MULTIPLE);
                ratio.zip(multiple).map(|(ratio, multiple)| Policy::Geometric { ratio, multiple })
            }
            "list" => {
                let sizes = words.next().unwrap_or_default().split(',');
                let sizes: Option<Dims> = sizes.map(|word| size(Some(word), 0)).collect();
                sizes.map(|mut sizes| {
                    sizes.sort_unstable();
                    Policy::List(sizes)
                })
            }
            "learned" => {
                let count = size(words.next(), DEFAULT_BUCKETS as i64);
                count.map(|count| Policy::Learned(count as usize))
            }
            _ => None,
        };
        match (policy, words.next()) {
            (Some(policy), None) => Ok(policy),
            _ => wrong(),
        }
    }

    /// The size to which a size is padded; `None` if the policy has none for it.
    pub fn bucket(&self, size: i64) -> Option<i64> {
        match self {
            Policy::Exact => None,
            _ if !(0..LARGEST).contains(&size) => None,
            Policy::Multiple(n) => Some(rounded(size.max(1), *n)),
            Policy::Geometric { ratio, multiple } => {
                let mut edge = *multiple;
                while edge < size {
                    let next = (edge as f64 * ratio).ceil() as i64;
                    edge = rounded(next.max(edge + 1), *multiple);
                }
                Some(edge)
            }
            Policy::List(sizes) => sizes.iter().copied().find(|&edge| edge >= size),
            Policy::Learned(_) => {
                let start = Policy::Geometric { ratio: DEFAULT_RATIO, multiple: DEFAULT_MULTIPLE };
                start.bucket(size)
            }
        }
    }
}

/// Rounds up to a multiple.
fn rounded(n: i64, multiple: i64) -> i64 {
    (n + multiple - 1) / multiple * multiple
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(policy: &str, sizes: &[i64]) -> Vec<Option<i64>> {
        let policy = Policy::parse(policy).unwrap();
        sizes.iter().map(|&size| policy.bucket(size)).collect()
    }

    #[test]
    fn each_policy_rounds_up() {
        assert_eq!(buckets("exact", &[7]), [None]);
        let sizes = [1, 64, 65, 128];
        assert_eq!(buckets("multiple:64", &sizes), [64, 64, 128, 128].map(Some));
        let sizes = [1, 65, 129, 193, 257, 321, 449, 1000];
        let edges = [64, 128, 192, 256, 320, 448, 576, 1216].map(Some);
        assert_eq!(buckets("geometric:1.25:64", &sizes), edges);
        assert_eq!(buckets("geometric", &sizes), edges);
        assert_eq!(
            buckets("list:512,128", &[3, 128, 129, 513]),
            [Some(128), Some(128), Some(512), None]
        );
    }

    #[test]
    fn geometric_buckets_bound_the_padding() {
        let policy = Policy::parse("geometric:1.25:1").unwrap();
        for size in 8..5000 {
            let bucket = policy.bucket(size).unwrap();
            assert!(bucket >= size && (bucket as f64) < 1.26 * size as f64 + 1.0);
        }
    }

    #[test]
    fn every_size_has_a_bucket_that_is_its_own() {
        let policies = [
            "multiple:1",
            "multiple:1099511627775",
            "geometric:1.01:1",
            "geometric:1.01:1099511627775",
            "geometric:1024:1",
            "geometric:1024:1099511627775",
            "geometric",
            "learned",
        ];
        for text in policies {
            let policy = Policy::parse(text).unwrap();
            let mut last = 0;
            for size in
                (0..3000).chain((12..40).flat_map(|bits| [-1, 0, 1].map(|d| (1 << bits) + d)))
            {
                let bucket = policy.bucket(size).unwrap();
                assert!(bucket >= size.max(last), "{text}: {size} to {bucket}");
                // Sizes are below a limit; buckets may be above.
                assert!([None, Some(bucket)].contains(&policy.bucket(bucket)), "{text}: {size}");
                last = bucket;
            }
            assert_eq!((policy.bucket(-1), policy.bucket(LARGEST)), (None, None));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let wrong = [
            "",
            "exakt",
            "exact:1",
            "multiple:0",
            "multiple:-3",
            "multiple:x",
            "geometric:1.0:64",
            "geometric:nan",
            "geometric:1.0000001:1",
            "geometric:1e300",
            "geometric:1.5:64:2",
            "list",
            "list:",
            "list:3,,4",
            "learned:0",
        ];
        for text in wrong {
            assert!(Policy::parse(text).is_err(), "{text}");
        }
    }
}
