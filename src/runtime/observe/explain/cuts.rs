//! Cuts by cause and line, merged, so that a loop is one row.

use crate::error::Site;
use std::collections::HashMap;

/// Number of rows kept; later ones are counted together by cause.
const ROWS: usize = 512;
/// Traces whose row is known without asking for a line; beyond, all are asked again.
const SEEN: usize = 4096;
/// Rows whose lines are asked for later, together; and calls of all of their traces, whose sites are kept until then.
const LATER: usize = 256;
pub(super) const CALLS: usize = 2048;

/// Why a trace was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The program asked for it: the end of an optimizer step, `mark_step`.
    Asked,
    /// The program waited for everything.
    Sync,
    /// The host read a value that was still in the trace: the value of this number.
    Read(u32),
    /// The trace had grown to its limit.
    Limit,
    /// A buffer that the trace had read at a changing place was about to be written.
    Overwrite,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::Asked => "asked",
            Cause::Sync => "sync",
            Cause::Read(_) => "read",
            Cause::Limit => "limit",
            Cause::Overwrite => "overwrite",
        }
    }
}

/// Cuts of one cause at one line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cut {
    pub cause: &'static str,
    pub site: Site,
    /// For a read: the value, described, and the line that computed it.
    pub value: String,
    pub value_site: Site,
    pub count: u64,
}

impl Cut {
    fn place(&self) -> CutSite {
        (self.cause, self.site, self.value.clone(), self.value_site)
    }
}

#[derive(Default)]
pub struct Cuts {
    /// Row of each trace and cause that came before.
    seen: HashMap<(u64, Cause), usize>,
    rows: Vec<Cut>,
    /// The row of each place: the first rows, whose sites are lines.
    places: HashMap<CutSite, usize>,
    /// Number of calls in the traces of the other rows.
    calls: usize,
}

/// The key by which cuts are merged into rows.
type CutSite = (&'static str, Site, String, Site);

impl Cuts {
    /// Counts a cut of trace `trace_id` if it came before; otherwise its call site is needed: [`Cuts::add`].
    pub fn again(&mut self, trace_id: u64, cause: Cause) -> bool {
        let row = self.seen.get(&(trace_id, cause)).copied();
        if let Some(row) = row {
            self.rows[row].count += 1;
        }
        row.is_some()
    }

    /// Counts the first cut of a trace of `calls` calls for a cause. Returns whether it is time to ask for [lines](Cuts::sites).
    pub fn add(&mut self, trace_id: u64, calls: usize, cause: Cause, cut: Cut) -> bool {
        if self.seen.len() >= SEEN {
            self.seen.clear();
        }
        self.seen.insert((trace_id, cause), self.rows.len());
        self.rows.push(Cut { count: 1, ..cut });
        self.calls += calls;
        self.calls > CALLS || self.rows.len() - self.places.len() >= LATER
    }

    /// Sites of the rows that have no lines yet.
    pub fn sites(&self) -> Vec<Site> {
        let rows = &self.rows[self.places.len()..];
        rows.iter().flat_map(|cut| [cut.site, cut.value_site]).collect()
    }

    /// Merges the first `count` of these rows by the lines of their sites.
    pub fn place(&mut self, count: usize, line: impl Fn(Site) -> Site) {
        let first = self.places.len();
        let others = self.rows.split_off((first + count).min(self.rows.len()));
        let mut merged = Vec::new();
        for mut cut in self.rows.split_off(first) {
            (cut.site, cut.value_site) = (line(cut.site), line(cut.value_site));
            if self.rows.len() >= ROWS && !self.places.contains_key(&cut.place()) {
                cut = Cut { cause: cut.cause, count: cut.count, ..Cut::default() };
            }
            let row = *self.places.entry(cut.place()).or_insert(self.rows.len());
            merged.push(row);
            match self.rows.get_mut(row) {
                Some(row) => row.count += cut.count,
                None => self.rows.push(cut),
            }
        }
        for row in self.seen.values_mut().filter(|row| **row >= first) {
            let at = *row - first;
            *row = match merged.get(at) {
                Some(&row) => row,
                None => self.rows.len() + at - merged.len(),
            };
        }
        self.rows.extend(others);
        self.calls = 0;
    }

    pub fn rows(&self) -> &[Cut] {
        &self.rows
    }
}
