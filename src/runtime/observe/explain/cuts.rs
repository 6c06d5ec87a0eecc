//! Cuts by cause and line, merged, so that a loop is one row.

use crate::error::Site;
use std::collections::HashMap;

/// Rows kept; later ones are counted together by cause.
const ROWS: usize = 512;
/// Traces whose row is known without asking for a line; beyond, all are asked again.
const SEEN: usize = 4096;

/// Why a trace was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The program said so: the end of an optimizer step, `mark_step`.
    Asked,
    /// It waited for everything.
    Sync,
    /// The host wanted a value that was still in the trace: this one of its values.
    Read(u32),
    /// The trace had grown to its limit.
    Limit,
    /// What it had read of a buffer at a changing place was about to be written.
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
    /// For a read: what was read, and the line that computed it.
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
    places: HashMap<CutSite, usize>,
}

/// What cuts of one row have in common.
type CutSite = (&'static str, Site, String, Site);

impl Cuts {
    /// Counts a cut of trace `trace_id` if it came before; else its line is wanted: [`Cuts::add`].
    pub fn again(&mut self, trace_id: u64, cause: Cause) -> bool {
        let row = self.seen.get(&(trace_id, cause)).copied();
        if let Some(row) = row {
            self.rows[row].count += 1;
        }
        row.is_some()
    }

    /// Counts the first cut of a trace for a cause.
    pub fn add(&mut self, trace_id: u64, cause: Cause, mut cut: Cut) {
        if self.rows.len() >= ROWS && !self.places.contains_key(&cut.place()) {
            cut = Cut { cause: cut.cause, ..Cut::default() };
        }
        let row = *self.places.entry(cut.place()).or_insert(self.rows.len());
        if row == self.rows.len() {
            self.rows.push(cut);
        }
        self.rows[row].count += 1;
        if self.seen.len() >= SEEN {
            self.seen.clear();
        }
        self.seen.insert((trace_id, cause), row);
    }

    pub fn rows(&self) -> &[Cut] {
        &self.rows
    }
}
