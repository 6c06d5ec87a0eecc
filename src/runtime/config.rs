//! Options, and the one place that reads the environment.

use crate::backend::{Backend, cpu, null, reference};
use crate::error::Result;
use crate::invalid;

/// Records after which a trace is cut by itself.
const TRACE_LIMIT: usize = 20_000;

#[derive(Clone, Debug)]
pub struct Options {
    /// `cpu`, `reference` or `null`; empty: `TORCHACC_BACKEND`, else `cpu`.
    pub backend: String,
    /// 0: `TORCHACC_NUM_THREADS`, else all cores.
    pub num_threads: usize,
    /// 0: `TORCHACC_TRACE_LIMIT`, else 20000.
    pub trace_limit: usize,
}

impl Options {
    /// Fills what was left open from the environment, then from the defaults.
    /// Errors: an environment variable that is not a number where one is wanted.
    pub fn resolve(backend: &str, num_threads: usize, trace_limit: usize) -> Result<Options> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = |given: usize, name: &str, default: usize| match (given, variable(name)) {
            (0, Some(text)) => match text.parse() {
                Ok(n) => Ok(n),
                Err(_) => invalid!("{name}={text} is not a number"),
            },
            (0, None) => Ok(default),
            (given, _) => Ok(given),
        };
        let named = Some(backend.to_string()).filter(|name| !name.is_empty());
        Ok(Options {
            backend: named.or(variable("TORCHACC_BACKEND")).unwrap_or_else(|| "cpu".into()),
            num_threads: number(num_threads, "TORCHACC_NUM_THREADS", 0)?,
            trace_limit: number(trace_limit, "TORCHACC_TRACE_LIMIT", TRACE_LIMIT)?.max(1),
        })
    }
}

/// The backend that the options name.
pub(super) fn backend(options: &Options) -> Result<Box<dyn Backend>> {
    match options.backend.as_str() {
        "cpu" => Ok(Box::new(cpu::Cpu::new(options.num_threads))),
        "reference" => Ok(Box::new(reference::Reference::default())),
        "null" => Ok(Box::new(null::Null::default())),
        other => invalid!("there is no backend \"{other}\"; there are cpu, reference and null"),
    }
}
