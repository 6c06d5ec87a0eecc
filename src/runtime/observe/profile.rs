//! A timeline: in the format of Chrome's and Perfetto's viewers, or span by span for another profiler.
//!
//! **Invariant:** off, it costs one relaxed load wherever something could be noted. On, it keeps the last [`EVENTS`].

use super::clock::now;
use super::json::{Object, list, quoted};
use crate::error::Site;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Number of events kept; earlier ones are only counted: a program's first steps are like no others.
const EVENTS: usize = 1 << 18;

#[derive(Default)]
pub struct Profile {
    active: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// When it was started.
    start: u64,
    events: VecDeque<Event>,
    /// Number of events that were dropped for later ones.
    lost: u64,
    /// Names of threads.
    names: Vec<Event>,
    /// Threads that were named in an event.
    threads: Vec<u64>,
    /// What lanes are of, and their numbers among the threads.
    lanes: Vec<(String, u64)>,
}

/// An event as it is kept.
struct Event {
    name: String,
    category: &'static str,
    /// Nanoseconds since the timeline was started.
    begin: u64,
    /// Number of the thread.
    thread: u64,
    kind: Kind,
    /// JSON.
    details: String,
}

enum Kind {
    Span {
        end: u64,
        site: Site,
    },
    Counter,
    /// The name of a thread, in the details.
    Thread,
}

/// A span, in time since the timeline's start.
pub struct Timed<'a> {
    pub name: &'a str,
    pub category: &'static str,
    pub begin: u64,
    pub end: u64,
    pub thread: u64,
    pub site: Site,
    pub details: &'a str,
}

/// An interval of work.
pub struct Span<'a> {
    pub name: &'a str,
    /// trace, phase, compile, kernel or CPU fallback.
    pub category: &'static str,
    pub begin: u64,
    pub end: u64,
    /// 0 for none.
    pub site: Site,
    /// Further details, as JSON.
    pub details: Object,
}

impl Profile {
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Starts a new timeline; one that was not stopped is dropped.
    pub fn start(&self) {
        *self.inner.lock() = Inner { start: now(), ..Inner::default() };
        self.active.store(true, Relaxed);
    }

    /// Ends the timeline. Returns an object with `traceEvents`, and `otherData` with the number of `lost_events`.
    pub fn stop(&self) -> String {
        let Inner { events, lost, names, .. } = self.take();
        Object::default()
            .text("displayTimeUnit", "ms")
            .raw("otherData", Object::default().raw("lost_events", lost).end())
            .raw("traceEvents", list(names.iter().chain(&events).map(Event::json)))
            .end()
    }

    /// Ends the timeline. Passes its spans to `visit`, and returns the number of events that were lost.
    pub fn stop_with(&self, mut visit: impl FnMut(Timed)) -> u64 {
        let Inner { events, lost, .. } = self.take();
        for event in &events {
            let Kind::Span { end, site } = event.kind else { continue };
            visit(Timed {
                name: &event.name,
                category: event.category,
                begin: event.begin,
                end,
                thread: event.thread,
                site,
                details: &event.details,
            });
        }
        lost
    }

    fn take(&self) -> Inner {
        self.active.store(false, Relaxed);
        std::mem::take(&mut *self.inner.lock())
    }

    /// Notes a span of the calling thread. One that began before the timeline is cut off.
    pub fn span(&self, span: Span) {
        self.add_span(span, Inner::thread);
    }

    /// Notes a span of a lane: a communicator's, or that of copies one way.
    pub fn span_of(&self, lane: &str, span: Span) {
        self.add_span(span, |inner| inner.lane(lane));
    }

    fn add_span(&self, span: Span, thread: impl FnOnce(&mut Inner) -> u64) {
        if !self.is_active() {
            return;
        }
        let mut inner = self.inner.lock();
        let thread = thread(&mut inner);
        let begin = span.begin.max(inner.start);
        let end = span.end.max(begin) - inner.start;
        let kind = Kind::Span { end, site: span.site };
        inner.add((span.name, thread), span.category, begin, kind, span.details.end());
    }

    /// Runs `work`, and notes it as a stage of a compile.
    pub fn stage<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        if !self.is_active() {
            return work();
        }
        let begin = now();
        let result = work();
        let (end, details) = (now(), Object::default());
        self.span(Span { name, category: "compile", begin, end, site: 0, details });
        result
    }

    /// Notes the value that a counter has now.
    pub fn counter(&self, name: &str, value: u64) {
        if !self.is_active() {
            return;
        }
        let details = Object::default().raw("bytes", value).end();
        let mut inner = self.inner.lock();
        let thread = inner.thread();
        inner.add((name, thread), "memory", now(), Kind::Counter, details);
    }
}

impl Inner {
    fn add(
        &mut self,
        (name, thread): (&str, u64),
        category: &'static str,
        at: u64,
        kind: Kind,
        details: String,
    ) {
        let begin = at.saturating_sub(self.start);
        self.push(Event { name: name.to_string(), category, begin, thread, kind, details });
    }

    fn push(&mut self, event: Event) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(event);
    }

    /// Number of the calling thread; its name is an event of its own.
    fn thread(&mut self) -> u64 {
        let number = NUMBER.with(|number| *number);
        if !self.threads.contains(&number) {
            let current = std::thread::current();
            let name = current.name().map_or_else(|| format!("thread {number}"), str::to_string);
            self.name(number, &name);
        }
        number
    }

    /// Likewise for a lane.
    fn lane(&mut self, of: &str) -> u64 {
        if let Some((_, number)) = self.lanes.iter().find(|(name, _)| name == of) {
            return *number;
        }
        let number = THREADS.fetch_add(1, Relaxed);
        self.lanes.push((of.to_string(), number));
        self.name(number, &format!("lane of {of}"));
        number
    }

    fn name(&mut self, thread: u64, name: &str) {
        self.threads.push(thread);
        self.names.push(Event {
            name: "thread_name".to_string(),
            category: "",
            begin: 0,
            thread,
            kind: Kind::Thread,
            details: Object::default().raw("name", quoted(name)).end(),
        });
    }
}

impl Event {
    fn json(&self) -> String {
        let event = Object::default().text("name", &self.name);
        let event = match self.kind {
            Kind::Thread => event.text("ph", "M"),
            Kind::Span { .. } | Kind::Counter => event
                .text("cat", self.category)
                .text("ph", if matches!(self.kind, Kind::Counter) { "C" } else { "X" })
                .raw("ts", microseconds(self.begin)),
        };
        let event = event.raw("pid", std::process::id()).raw("tid", self.thread);
        match self.kind {
            Kind::Span { end, site } => event
                .raw("dur", microseconds(end - self.begin))
                .raw("args", with_site(&self.details, site)),
            Kind::Counter | Kind::Thread => event.raw("args", &self.details),
        }
        .end()
    }
}

/// An object of JSON with a site, if there is one.
fn with_site(details: &str, site: Site) -> String {
    match (site, details.strip_suffix('}')) {
        (0, _) | (_, None) => details.to_string(),
        (_, Some("{")) => format!("{{\"site\": {site}}}"),
        (_, Some(fields)) => format!("{fields}, \"site\": {site}}}"),
    }
}

static THREADS: AtomicU64 = AtomicU64::new(1);
thread_local! {
    static NUMBER: u64 = THREADS.fetch_add(1, Relaxed);
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, begin: u64) -> Span<'_> {
        let details = Object::default();
        Span { name, category: "phase", begin, end: begin + 1500, site: 7, details }
    }

    #[test]
    fn events_between_start_and_stop_are_kept() {
        let profile = Profile::default();
        profile.span(span("before", now()));
        profile.start();
        profile.span(span("inside", now()));
        profile.counter("memory", 64);
        let text = profile.stop();
        profile.span(span("after", now()));
        assert!(!text.contains("before") && !profile.stop().contains("after"));
        assert!(text.contains("\"dur\": 1.500, \"args\": {\"site\": 7}"), "{text}");
        assert!(text.contains("\"ph\": \"C\"") && text.contains("\"lost_events\": 0"), "{text}");
        assert_eq!(text.matches("thread_name").count(), 1);
    }

    #[test]
    fn spans_are_visited_in_nanoseconds() {
        let profile = Profile::default();
        profile.start();
        profile.span(Span { details: Object::default().raw("step", 2), ..span("inside", now()) });
        profile.counter("memory", 64);
        let mut seen = Vec::new();
        let visit = |one: Timed| {
            seen.push((
                one.name.to_string(),
                one.end - one.begin,
                one.site,
                one.details.to_string(),
            ));
        };
        assert_eq!(profile.stop_with(visit), 0);
        assert_eq!(seen, [("inside".to_string(), 1500, 7, "{\"step\": 2}".to_string())]);
        assert_eq!(profile.stop_with(|_| unreachable!("it was stopped")), 0);
    }

    #[test]
    fn the_timeline_is_bounded() {
        let profile = Profile::default();
        profile.start();
        profile.span(span("first", 0));
        (1..EVENTS as u64 + 10).for_each(|at| profile.span(span("x", at)));
        assert_eq!(profile.inner.lock().events.len(), EVENTS);
        let text = profile.stop();
        assert!(text.contains("\"lost_events\": 10") && text.contains("thread_name"));
        assert!(!text.contains("\"first\""));
    }
}
