//! `TORCHACC_WATCHDOG=60`: when nothing of a program that is compiled or run has ended for 60 seconds, reports the stuck work
//! (the step, its operator, the line that recorded it) and where all threads are, once for each time that it gets stuck, and
//! goes on: slow work is not wrong, and waiting threads get their value or error as always. `TORCHACC_WATCHDOG=60,abort` ends
//! the process after that (SIGABRT), for processes that are better started again than left hanging: a rank of several, a test.
//!
//! Off, which is the default, it costs nothing. On, every step on the host is timed; a program on a GPU counts as one step.

use super::clock::now;
use crate::error::Site;
use crate::plan::Plan;
use crate::record::Operator;
use crate::runtime::options::Patience;
use crate::trace::name_of;
use parking_lot::Mutex;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Once, OnceLock, Weak};
use std::thread;
use std::time::Duration;

/// Receives a report, and the call site of the stuck work.
pub type Listener = Arc<dyn Fn(&str, Site) + Send + Sync>;

pub struct Watchdog {
    patience: Patience,
    /// Beginnings and ends of programs, compiles and steps.
    progress: AtomicU64,
    work: Mutex<Option<Work>>,
    started: Once,
    /// Receives the reports, besides the error stream.
    listener: OnceLock<Listener>,
}

/// Work of the launch thread.
#[derive(Clone)]
enum Work {
    Compile,
    Run { plan: Arc<Plan>, operators: Arc<[Operator]>, step: Option<usize> },
}

/// Guard for as long as the launch thread works on a program.
pub struct AtWork<'a>(&'a Watchdog);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.is_at(None);
    }
}

impl Watchdog {
    pub fn new(patience: Patience) -> Watchdog {
        Watchdog {
            patience,
            progress: AtomicU64::new(0),
            work: Mutex::new(None),
            started: Once::new(),
            listener: OnceLock::new(),
        }
    }

    /// Sets the receiver of reports.
    pub fn reports_to(&self, listener: Listener) {
        self.listener.set(listener).ok();
    }

    /// Notes that the launch thread looks for a program, or compiles it. The first call starts the thread that watches.
    pub fn compiles(self: &Arc<Self>) -> AtWork<'_> {
        self.started.call_once(|| {
            let watched = Arc::downgrade(self);
            let thread = thread::Builder::new().name("torchacc-watchdog".into());
            // Without a thread nothing is watched, and nothing else is wrong.
            thread.spawn(move || watch(&watched)).ok();
        });
        self.is_at(Some(Work::Compile));
        AtWork(self)
    }

    pub fn runs(&self, plan: &Arc<Plan>, operators: &Arc<[Operator]>) {
        let (plan, operators) = (plan.clone(), operators.clone());
        self.is_at(Some(Work::Run { plan, operators, step: None }));
    }

    pub fn begins(&self, index: usize) {
        if let Some(Work::Run { step, .. }) = &mut *self.work.lock() {
            *step = Some(index);
        }
        self.progress.fetch_add(1, Relaxed);
    }

    fn is_at(&self, work: Option<Work>) {
        *self.work.lock() = work;
        self.progress.fetch_add(1, Relaxed);
    }

    fn is_watching(&self) -> bool {
        self.work.lock().is_some()
    }

    fn report(&self, work: &Work) {
        let seconds = self.patience.limit.as_secs_f64();
        let (what, site) = described(work);
        let message = format!("nothing has ended for {seconds} s: {what}");
        write(&format!("torchacc: {message}\n{}", threads()));
        if let Some(listener) = self.listener.get().cloned() {
            // Finding the line of a site may want the interpreter's lock, which the stuck thread may hold.
            let (done, is_done) = channel();
            thread::spawn(move || {
                listener(&message, site);
                done.send(()).ok();
            });
            is_done.recv_timeout(Duration::from_secs(5)).ok();
        }
        if self.patience.stacks {
            stacks();
        }
        if self.patience.abort {
            std::process::abort();
        }
    }
}

fn watch(watched: &Weak<Watchdog>) {
    let mut seen = (u64::MAX, now());
    let mut is_notified = false;
    loop {
        let Some(dog) = watched.upgrade() else { return };
        let limit = dog.patience.limit;
        let progress = dog.progress.load(Relaxed);
        if progress != seen.0 || !dog.is_watching() {
            (seen, is_notified) = ((progress, now()), false);
        } else if !is_notified && Duration::from_nanos(now() - seen.1) >= limit {
            let work = dog.work.lock().clone();
            is_notified = true;
            work.iter().for_each(|work| dog.report(work));
        }
        drop(dog);
        thread::sleep((limit / 4).min(Duration::from_secs(1)));
    }
}

fn described(work: &Work) -> (String, Site) {
    let Work::Run { plan, operators, step } = work else {
        return ("a program is compiled".into(), 0);
    };
    let count = plan.steps.len();
    match step.and_then(|step| Some((step, plan.steps.get(step)?))) {
        Some((index, step)) => {
            let name = name_of(operators, step.record);
            (format!("step {index} of {count} of a program runs, {name}: {step}"), step.site)
        }
        None => (format!("a program of {count} steps runs"), 0),
    }
}

/// Writes to the error stream: the user who asked for a watchdog reads it there, whatever else is stuck.
fn write(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// Name and state of each thread and, where the system gives it, the place in the kernel where it waits.
fn threads() -> String {
    let mut text = String::new();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return text };
    for task in tasks.flatten().map(|task| task.path()) {
        let part = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        let status = part("status");
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
        };
        let id = task.file_name().unwrap_or_default().to_string_lossy();
        let (name, state, wait) = (field("Name:"), field("State:"), part("wchan"));
        text += &format!("  thread {id} {name}: {state} {wait}\n");
    }
    text
}

/// Writes the stacks of all threads to the error stream, by the debugger that is installed.
fn stacks() {
    let process = std::process::id().to_string();
    let debuggers: [&[&str]; 2] = [
        &["gdb", "--batch", "-nx", "-p", &process, "-ex", "thread apply all backtrace 40"],
        &["eu-stack", "-p", &process],
    ];
    for command in debuggers {
        let mut command = (Command::new(command[0]), &command[1..]);
        command.0.args(command.1).stdin(Stdio::null());
        command.0.stdout(std::io::stderr()).stderr(std::io::stderr());
        let Ok(mut debugger) = command.0.spawn() else { continue };
        // It may wait for a server of its own, or for ever.
        for _ in 0..600 {
            match debugger.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(100)),
                _ => return,
            }
        }
        debugger.kill().ok();
        debugger.wait().ok();
        return;
    }
    write("  no stacks: neither gdb nor eu-stack is there\n");
}
