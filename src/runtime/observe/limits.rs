//! Which events are errors rather than lines in a report, and messages that wait to be reported.

use crate::error::Site;
use crate::runtime::options::Options;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

pub struct Limits {
    /// Recompiles at one line that are allowed silently.
    pub recompiles: AtomicU64,
    /// Whether a recompile beyond the limit is an error; else it is a warning, once for each line.
    pub strict_recompiles: AtomicBool,
    /// Whether a CPU fallback is an error.
    pub strict_fallbacks: AtomicBool,
    /// The first CPU fallback that was an error.
    pub fallback: Mutex<Option<(String, Site)>>,
    /// Warnings that were not reported yet.
    pub warnings: Mutex<Vec<String>>,
}

impl Limits {
    pub fn new(options: &Options) -> Limits {
        let strict = |word: &str| options.strict.split(',').any(|other| other == word);
        Limits {
            recompiles: options.recompile_limit.into(),
            strict_recompiles: strict("recompiles").into(),
            strict_fallbacks: strict("host_calls").into(),
            fallback: Mutex::default(),
            warnings: Mutex::default(),
        }
    }
}
