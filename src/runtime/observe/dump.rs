//! Programs as files, for people to read.

use crate::error::Result;
use crate::invalid;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Writes every compiled program into a folder.
pub struct Dump {
    folder: PathBuf,
    count: AtomicU64,
}

impl Dump {
    /// Makes the folder. Error when that is not possible.
    pub fn new(folder: &Path) -> Result<Dump> {
        match std::fs::create_dir_all(folder) {
            Ok(()) => Ok(Dump { folder: folder.into(), count: AtomicU64::new(0) }),
            Err(error) => invalid!("programs cannot be written to {}: {error}", folder.display()),
        }
    }

    /// Writes `PROCESS-NUMBER.txt`: graph and plan. Error when that is not possible.
    pub fn write(&self, program: &dyn Display) -> Result<()> {
        let number = self.count.fetch_add(1, Relaxed) + 1;
        let path = self.folder.join(format!("{}-{number:04}.txt", std::process::id()));
        match std::fs::write(&path, program.to_string()) {
            Ok(()) => Ok(()),
            Err(error) => invalid!("{} was not written: {error}", path.display()),
        }
    }
}
