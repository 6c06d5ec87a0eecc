//! Where the time goes: every moment since the last reset is counted once.
//!
//! The work of the launch thread takes precedence: it looks a key up, compiles, prepares a launch, or runs a program. While it
//! waits for work, the time belongs to recording while a trace is open, else to nothing. Of recording, the part inside the
//! library is measured at one operation in [`SAMPLE`], the rest is the program's own.

use super::clock::now;
use super::stats::Snapshot;
use parking_lot::Mutex;

/// A prime, so that it does not align with a loop of the program.
pub const SAMPLE: u64 = 61;
/// Nanoseconds that recording never takes: the thread was stopped meanwhile, unlike during the other operations.
const STOPPED: u64 = 50_000;

/// Work of the launch thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Wait,
    Key,
    Compile,
    Launch,
    Device,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Wait => "wait",
            Phase::Key => "key",
            Phase::Compile => "compile",
            Phase::Launch => "launch",
            Phase::Device => "device",
        }
    }
}

#[derive(Default)]
pub struct Breakdown(Mutex<Inner>);

struct Inner {
    /// Start of the counting, and the time up to which it has counted.
    start: u64,
    since: u64,
    phase: Phase,
    /// When the open trace was begun.
    recording: Option<u64>,
    by_phase: [u64; 5],
    /// Time in `Wait` with an open trace.
    recorded_in_wait: u64,
    /// All time with an open trace.
    recorded: u64,
    /// Time of the sampled operations and of those they stand for.
    sampled: u64,
}

impl Default for Inner {
    fn default() -> Inner {
        let start = now();
        Inner {
            start,
            since: start,
            phase: Phase::Wait,
            recording: None,
            by_phase: [0; 5],
            recorded_in_wait: 0,
            recorded: 0,
            sampled: 0,
        }
    }
}

impl Inner {
    fn advance(&mut self) -> u64 {
        let now = now();
        let passed = now - self.since;
        self.since = now;
        self.by_phase[self.phase as usize] += passed;
        if self.recording.is_some() {
            self.recorded += passed;
            if self.phase == Phase::Wait {
                self.recorded_in_wait += passed;
            }
        }
        now
    }
}

impl Breakdown {
    /// Begins a phase of the launch thread. Returns the phase before, and the time.
    pub fn enter(&self, phase: Phase) -> (Phase, u64) {
        let mut inner = self.0.lock();
        let now = inner.advance();
        (std::mem::replace(&mut inner.phase, phase), now)
    }

    /// Notes that the first operation of a trace was recorded.
    pub fn begin_trace(&self) {
        let mut inner = self.0.lock();
        inner.recording = Some(inner.advance());
    }

    /// Notes that the trace was cut. Returns when it was begun, and the time now.
    pub fn end_trace(&self) -> (u64, u64) {
        let mut inner = self.0.lock();
        let now = inner.advance();
        (inner.recording.take().unwrap_or(now), now)
    }

    /// Notes the time of recording one operation, one out of [`SAMPLE`].
    pub fn sample(&self, nanoseconds: u64) {
        let stands_for = if nanoseconds < STOPPED { SAMPLE } else { 1 };
        self.0.lock().sampled += nanoseconds * stands_for;
    }

    /// Sets the nanoseconds of `all`; the first is the sum of the others.
    pub fn measure(&self, all: &mut Snapshot) {
        let mut inner = self.0.lock();
        let wall = inner.advance() - inner.start;
        let inside = inner.sampled.min(inner.recorded);
        // The library's part of the recording during waits is taken to be its part of all recording.
        let share = inner.recorded_in_wait as u128 * inside as u128;
        let record = share.checked_div(inner.recorded as u128).unwrap_or(0) as u64;
        let phase = |phase: Phase| inner.by_phase[phase as usize];
        all.wall_ns = wall;
        all.wall_python_ns = inner.recorded_in_wait - record;
        all.wall_record_ns = record;
        all.wall_key_ns = phase(Phase::Key);
        all.wall_compile_ns = phase(Phase::Compile);
        all.wall_launch_ns = phase(Phase::Launch);
        all.wall_device_ns = phase(Phase::Device);
        all.wall_idle_ns = phase(Phase::Wait) - inner.recorded_in_wait;
    }

    /// Restarts the counting; the phase and an open trace continue.
    pub fn reset(&self) {
        let mut inner = self.0.lock();
        let (phase, recording) = (inner.phase, inner.recording);
        *inner = Inner { phase, recording, ..Inner::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::observe::stats::Stats;

    /// The wall time and its parts, whose sum it is.
    fn parts_of(breakdown: &Breakdown) -> Snapshot {
        let mut all = Stats::default().snapshot();
        breakdown.measure(&mut all);
        let recording = all.wall_python_ns + all.wall_record_ns;
        let launching = all.wall_key_ns + all.wall_compile_ns + all.wall_launch_ns;
        let rest = all.wall_device_ns + all.wall_idle_ns;
        assert_eq!(recording + launching + rest, all.wall_ns, "{}", all.json());
        all
    }

    #[test]
    fn the_parts_are_the_whole() {
        let breakdown = Breakdown::default();
        let pause = || std::thread::sleep(std::time::Duration::from_millis(1));
        pause();
        breakdown.begin_trace();
        breakdown.sample(5000);
        pause();
        assert_eq!(breakdown.enter(Phase::Device).0, Phase::Wait);
        pause();
        let (begun, cut) = breakdown.end_trace();
        assert!(begun < cut);
        pause();
        assert_eq!(breakdown.enter(Phase::Wait).0, Phase::Device);
        pause();
        let all = parts_of(&breakdown);
        let some = [all.wall_python_ns, all.wall_record_ns, all.wall_device_ns, all.wall_idle_ns];
        assert!(some.iter().all(|&part| part > 0), "{}", all.json());
        assert_eq!(all.wall_compile_ns, 0);
        // What recorded while the device ran is the device's: about half of the samples count.
        assert!(all.wall_record_ns < 5000 * SAMPLE);
    }

    #[test]
    fn a_reset_in_the_middle_starts_from_nothing() {
        let breakdown = Breakdown::default();
        breakdown.begin_trace();
        breakdown.enter(Phase::Compile);
        breakdown.reset();
        parts_of(&breakdown);
        assert_eq!(breakdown.enter(Phase::Wait).0, Phase::Compile);
        parts_of(&breakdown);
    }
}
