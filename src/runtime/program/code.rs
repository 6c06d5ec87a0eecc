//! The code of a program. A large program starts with a quick plan, while the final one is searched for.

use super::compiled::Compiled;
use super::engine_choice::EngineChoice;
use parking_lot::Mutex;
use std::sync::Arc;

/// The plan of a program, and perhaps a better one that computes the same bits, or the same on another engine.
pub struct Code {
    versions: Mutex<Versions>,
    pub choice: EngineChoice,
}

struct Versions {
    newest: Arc<Compiled>,
    before: Option<Arc<Compiled>>,
}

impl Code {
    pub fn new(compiled: Compiled) -> Code {
        let versions = Versions { newest: Arc::new(compiled), before: None };
        Code { versions: versions.into(), choice: EngineChoice::default() }
    }

    pub fn newest(&self) -> Arc<Compiled> {
        self.versions.lock().newest.clone()
    }

    /// The code to run. The first run, for which the program is made, begins while a better plan is searched for, and must not
    /// depend on when that is found; later runs begin when the search is over.
    pub fn to_run(&self, is_first: bool) -> Arc<Compiled> {
        let mut versions = self.versions.lock();
        match &versions.before {
            Some(before) if is_first => before.clone(),
            _ => {
                versions.before = None;
                versions.newest.clone()
            }
        }
    }

    pub fn replace(&self, better: impl Into<Arc<Compiled>>) {
        let mut versions = self.versions.lock();
        versions.before = Some(std::mem::replace(&mut versions.newest, better.into()));
    }
}
