//! `TORCHACC_WATCHDOG`: how long a program may be silent.

use crate::error::Result;
use crate::invalid;
use std::time::Duration;

/// How long nothing may end, and whether that ends the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    pub limit: Duration,
    pub abort: bool,
    /// Whether a debugger says where the threads are: it stops them all for that.
    pub stacks: bool,
}

impl Patience {
    /// Errors: `InvalidArgument` for text that is neither seconds nor seconds and `,abort`.
    pub fn parse(text: &str) -> Result<Patience> {
        let (seconds, abort) = match text.split_once(',') {
            Some((seconds, "abort")) => (seconds, true),
            _ => (text, false),
        };
        match seconds.parse().ok().map(Duration::try_from_secs_f64) {
            Some(Ok(limit)) if !limit.is_zero() => Ok(Patience { limit, abort, stacks: true }),
            _ => invalid!(
                "TORCHACC_WATCHDOG={text} is not a number of seconds, or one and \",abort\""
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_seconds_and_perhaps_the_end() {
        let patience = |text: &str| Patience::parse(text).ok();
        let of = |seconds: f64, abort| {
            Some(Patience { limit: Duration::from_secs_f64(seconds), abort, stacks: true })
        };
        assert_eq!((patience("60"), patience("0.5,abort")), (of(60.0, false), of(0.5, true)));
        for wrong in ["", "0", "-1", "soon", "60,kill", "nan", "inf", "1e300"] {
            assert_eq!(patience(wrong), None, "{wrong}");
        }
    }
}
