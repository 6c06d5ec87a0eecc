//! Programs for which one of two engines was chosen.

use crate::error::Site;
use std::collections::VecDeque;

/// Number of programs kept: the newest ones.
const LAST: usize = 64;

#[derive(Clone, Debug)]
pub struct Chosen {
    /// Name of the backend.
    pub engine: &'static str,
    pub operations: usize,
    /// Of the program's first operation.
    pub site: Site,
    /// Median times on the first engine and the second; `None` where an earlier process measured them.
    pub ns: Option<[u64; 2]>,
}

#[derive(Default)]
pub struct Choices(VecDeque<Chosen>);

impl Choices {
    pub fn add(&mut self, new: Chosen) {
        self.0.push_back(new);
        if self.0.len() > LAST {
            self.0.pop_front();
        }
    }

    pub fn rows(&self) -> Vec<Chosen> {
        self.0.iter().cloned().collect()
    }

    pub fn sites(&self) -> Vec<Site> {
        self.0.iter().map(|chosen| chosen.site).collect()
    }

    /// Replaces sites by lines.
    pub fn place(&mut self, line: impl Fn(Site) -> Site) {
        self.0.iter_mut().for_each(|chosen| chosen.site = line(chosen.site));
    }
}
