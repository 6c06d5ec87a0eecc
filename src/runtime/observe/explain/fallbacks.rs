//! CPU fallbacks by operator and call site.

use crate::error::Site;
use std::collections::BTreeMap;

/// Call sites kept; the calls of later ones are counted together by operator.
const SITES: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub count: u64,
    pub time_ns: u64,
}

#[derive(Default)]
pub struct Fallbacks(BTreeMap<(String, Site), Spent>);

impl Fallbacks {
    pub fn add(&mut self, name: &str, site: Site, spent: Spent) {
        let key = (name.to_string(), site);
        let full = self.0.len() >= SITES && !self.0.contains_key(&key);
        let row = self.0.entry(if full { (key.0, 0) } else { key }).or_default();
        row.count += spent.count;
        row.time_ns += spent.time_ns;
    }

    pub fn rows(&self) -> Vec<(String, Site, Spent)> {
        self.0.iter().map(|((name, site), spent)| (name.clone(), *site, *spent)).collect()
    }

    pub fn sites(&self) -> Vec<Site> {
        self.0.keys().map(|(_, site)| *site).collect()
    }

    /// Replaces sites by lines; calls of one operator on one line become one row.
    pub fn place(&mut self, line: impl Fn(Site) -> Site) {
        for ((name, site), spent) in std::mem::take(&mut self.0) {
            self.add(&name, line(site), spent);
        }
    }
}
