//! A timeline in the format of Chrome's and Perfetto's viewers.
//!
//! **Invariant:** off, it costs one relaxed load wherever something could be noted. On, it keeps at most [`EVENTS`].

use super::clock::now;
use super::json::{Object, list, quoted};
use crate::error::Site;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Later events are counted, not kept.
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
    /// JSON of events without their ends, ...
    events: Vec<String>,
    /// ... and how many there was no room for.
    lost: u64,
    /// Threads that were named in an event.
    threads: Vec<u64>,
}

/// Something that took time.
pub struct Span<'a> {
    pub name: &'a str,
    /// trace, phase, compile, kernel or CPU fallback.
    pub category: &'static str,
    pub begin: u64,
    pub end: u64,
    /// 0 for none.
    pub site: Site,
    /// More to say, as JSON.
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

    /// Ends it. An object with `traceEvents`, and `otherData` with the number of `lost_events`.
    pub fn stop(&self) -> String {
        self.active.store(false, Relaxed);
        let Inner { events, lost, .. } = std::mem::take(&mut *self.inner.lock());
        Object::default()
            .text("displayTimeUnit", "ms")
            .raw("otherData", Object::default().raw("lost_events", lost).end())
            .raw("traceEvents", list(events))
            .end()
    }

    /// Notes a span of the calling thread. One that began before the timeline is cut off.
    pub fn span(&self, span: Span) {
        if !self.is_active() {
            return;
        }
        let mut inner = self.inner.lock();
        let begin = span.begin.max(inner.start);
        let args = if span.site == 0 { span.details } else { span.details.raw("site", span.site) };
        let event = inner
            .event(span.name, span.category, "X", begin)
            .raw("dur", microseconds(span.end.saturating_sub(begin)))
            .raw("args", args.end());
        inner.add(event);
    }

    /// Notes a stage of a compile, which `work` is.
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
        let mut inner = self.inner.lock();
        let args = Object::default().raw("bytes", value).end();
        let event = inner.event(name, "memory", "C", now()).raw("args", args);
        inner.add(event);
    }
}

impl Inner {
    fn event(&mut self, name: &str, category: &str, kind: &str, at: u64) -> Object {
        Object::default()
            .text("name", name)
            .text("cat", category)
            .text("ph", kind)
            .raw("ts", microseconds(at.saturating_sub(self.start)))
            .raw("pid", std::process::id())
            .raw("tid", self.thread())
    }

    fn add(&mut self, event: Object) {
        if self.events.len() < EVENTS {
            self.events.push(event.end());
        } else {
            self.lost += 1;
        }
    }

    /// Number of the calling thread; its name is an event of its own.
    fn thread(&mut self) -> u64 {
        let number = NUMBER.with(|number| *number);
        if !self.threads.contains(&number) {
            self.threads.push(number);
            let current = std::thread::current();
            let name = current.name().map_or_else(|| format!("thread {number}"), str::to_string);
            let args = Object::default().raw("name", quoted(&name)).end();
            let event = Object::default().text("name", "thread_name").text("ph", "M");
            let event = event.raw("pid", std::process::id()).raw("tid", number).raw("args", args);
            self.add(event);
        }
        number
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
    fn the_timeline_is_bounded() {
        let profile = Profile::default();
        profile.start();
        (0..EVENTS as u64 + 10).for_each(|at| profile.span(span("x", at)));
        assert_eq!(profile.inner.lock().events.len(), EVENTS);
        assert!(profile.stop().contains("\"lost_events\": 11"));
    }
}
