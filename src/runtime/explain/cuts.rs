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
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::Asked => "asked",
            Cause::Sync => "sync",
            Cause::Read(_) => "read",
            Cause::Limit => "limit",
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

#[derive(Default)]
pub struct Cuts {
    /// Row of each trace and cause that came before.
    seen: HashMap<(u64, Cause), usize>,
    rows: Vec<Cut>,
}

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
        let same = |row: &Cut| {
            (row.cause, row.site, &row.value, row.value_site)
                == (cut.cause, cut.site, &cut.value, cut.value_site)
        };
        let mut found = self.rows.iter().position(same);
        if found.is_none() && self.rows.len() >= ROWS {
            cut = Cut { cause: cut.cause, ..Cut::default() };
            let rest = |row: &Cut| row.cause == cut.cause && row.site == 0 && row.value.is_empty();
            found = self.rows.iter().position(rest);
        }
        let row = found.unwrap_or_else(|| {
            self.rows.push(cut);
            self.rows.len() - 1
        });
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
