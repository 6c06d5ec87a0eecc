//! Diagnostics: events on the launch thread that a recording thread reports: recompiles beyond the limit, CPU fallbacks where
//! they are forbidden. It does so at the end of a cut, a read or a sync, when nothing is half done and no lock is held, because
//! that calls the user's program.

use super::Context;
use crate::error::{Code, Error, Result, Site};
use crate::record::Origin;
use crate::runtime::observe::explain::{Cause, Cut, Recompile, origin};
use crate::trace::RecordedTrace;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Maps a site to its line.
pub type Line = Box<dyn Fn(Site) -> Site + Send + Sync>;

/// Receives a message about a line.
pub type Warn = Box<dyn Fn(&str, Site) + Send + Sync>;

/// Severity of a message.
#[derive(Clone, Copy, PartialEq)]
pub enum Level {
    Warning = 1,
    /// A recompile, and its reason.
    Info = 2,
}

/// Receives messages about a line.
pub type Log = Box<dyn Fn(Level, &str, Site) + Send + Sync>;

/// Callbacks of the user's program for call sites.
pub struct Observer {
    /// Gives the same number for all sites on one line, itself a site on that line.
    pub line: Line,
    /// Receives a warning about a line.
    pub warn: Warn,
}

impl Context {
    pub fn set_observer(&self, observer: Observer) {
        let old = self.observer.write().replace(Arc::new(observer));
        // Outside of the lock, since this may call the program.
        drop(old);
        // For messages that had no receiver before.
        self.shared.observed.explain.wake();
    }

    /// Sets the receiver of messages, once.
    pub fn set_log(&self, log: Log) {
        self.log.set(log).ok();
        self.shared.observed.explain.wake();
    }

    pub fn set_recompile_limit(&self, limit: u64) {
        self.shared.observed.limits.recompiles.store(limit, Relaxed);
    }

    pub fn set_strict(&self, recompiles: bool, fallbacks: bool) {
        self.shared.observed.limits.strict_recompiles.store(recompiles, Relaxed);
        self.shared.observed.limits.strict_fallbacks.store(fallbacks, Relaxed);
    }

    fn line(&self, site: Site) -> Site {
        let observer = self.observer.read().clone();
        match observer.filter(|_| site != 0) {
            Some(observer) => (observer.line)(site),
            None => site,
        }
    }

    /// Settles the compiles since the last call: warns, or returns the error that the limits ask for. The error is about an
    /// operation that has run: nothing has to be repeated.
    pub(super) fn raise_diagnostics(&self) -> Result<()> {
        if !self.shared.observed.explain.take_pending() {
            return Ok(());
        }
        let has_taker = self.log.get().is_some() || self.observer.read().is_some();
        let mut kept = self.shared.observed.limits.warnings.lock();
        let warnings = if has_taker { std::mem::take(&mut *kept) } else { Vec::new() };
        drop(kept);
        warnings.iter().for_each(|message| self.warn(message, 0));
        let mut first = self.shared.observed.limits.fallback.lock().take().map(|(name, site)| {
            let message = format!(
                "{name} has no native form here and ran as a CPU fallback, which strict mode forbids; \
                 torchacc.set_strict(host_calls=False) allows it"
            );
            Error::new(Code::Strict, message).at(self.line(site))
        });
        for (number, sites) in self.shared.observed.explain.unsettled() {
            let lines = sites.map(|site| self.line(site));
            let recompile = self.shared.observed.explain.settle(number, lines);
            let checked = recompile.map_or(Ok(()), |recompile| self.check_recompile(&recompile));
            first = first.or(checked.err());
        }
        first.map_or(Ok(()), Err)
    }

    fn check_recompile(&self, recompile: &Recompile) -> Result<()> {
        let Recompile { change, count } = recompile;
        self.tell(Level::Info, &format!("compiled again: {change}"), change.site);
        let limits = &self.shared.observed.limits;
        let limit = limits.recompiles.load(Relaxed);
        if *count <= limit {
            return Ok(());
        }
        let message = format!(
            "this line made the program compile again {count} times (the limit is {limit}). The last time, {change}. {} \
             torchacc.explain() lists all recompiles; torchacc.set_recompile_limit(n) moves the limit",
            change.advice()
        );
        if limits.strict_recompiles.load(Relaxed) {
            return Err(Error::new(Code::Strict, message).at(change.site));
        }
        if *count == limit + 1 {
            self.warn(&message, change.site);
        }
        Ok(())
    }

    pub(super) fn warn(&self, message: &str, site: Site) {
        let observer = self.observer.read().clone();
        if let Some(observer) = observer {
            (observer.warn)(message, site);
        }
        self.tell(Level::Warning, message, site);
    }

    fn tell(&self, level: Level, message: &str, site: Site) {
        if let Some(log) = self.log.get() {
            log(level, message, site);
        }
    }

    /// Counts a cut of `recorded`, and asks for the call site of a new one; asks for the lines of many such sites together.
    pub(super) fn note_cut(&self, recorded: Option<Arc<RecordedTrace>>, cause: Cause) {
        let Some(recorded) = recorded else { return };
        if self.shared.observed.explain.cuts.lock().again(recorded.id, cause) {
            return;
        }
        let locate = self.locator.read().clone();
        let site = locate.map_or(0, |locate| locate());
        let mut cut = Cut { cause: cause.name(), site, ..Cut::default() };
        if let Cause::Read(value) = cause {
            let read = &recorded.values[value as usize];
            cut.value = origin(&recorded, value, read.format.clone());
            if let Origin::Written { record, .. } = read.origin {
                cut.value_site = recorded.records[record as usize].site;
            }
        }
        let (id, calls) = (recorded.id, recorded.records.len());
        if self.shared.observed.explain.cuts.lock().add(id, calls, cause, cut) {
            self.locate_cuts();
        }
    }

    fn locate_cuts(&self) {
        let sites = self.shared.observed.explain.cuts.lock().sites();
        let count = sites.len() / 2;
        let line = self.lines(sites);
        self.shared.observed.explain.cuts.lock().place(count, line);
    }

    /// Compiles, CPU fallbacks and cuts with their reasons, choices of engines and of implementations of products, and the last
    /// collectives, as JSON.
    pub fn explain(&self) -> String {
        self.locate_cuts();
        self.locate_fallbacks();
        self.locate_collectives();
        let sites = self.shared.observed.explain.chosen.lock().sites();
        let line = self.lines(sites);
        self.shared.observed.explain.chosen.lock().place(line);
        self.shared.observed.explain.to_json(&self.shared.backend.product_choices())
    }

    /// CPU fallbacks since the last reset, as a JSON list of `{name, count, time_ns, site}`.
    pub fn fallbacks(&self) -> String {
        self.locate_fallbacks();
        self.shared.observed.explain.fallbacks_json()
    }

    fn locate_fallbacks(&self) {
        let sites = self.shared.observed.explain.fallbacks.lock().sites();
        let line = self.lines(sites);
        self.shared.observed.explain.fallbacks.lock().place(line);
    }

    fn locate_collectives(&self) {
        let sites = self.shared.observed.explain.collectives.lock().sites();
        let line = self.lines(sites);
        self.shared.observed.explain.collectives.lock().place(line);
    }

    /// The lines of `sites`, asked for without a lock.
    fn lines(&self, sites: Vec<Site>) -> impl Fn(Site) -> Site + use<> {
        let mut lines = std::collections::HashMap::new();
        for site in sites {
            lines.entry(site).or_insert_with(|| self.line(site));
        }
        move |site| *lines.get(&site).unwrap_or(&site)
    }
}
