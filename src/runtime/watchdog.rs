//! `TORCHACC_WATCHDOG=60`: when nothing of a program that is compiled or run has ended for 60 seconds, says what that is (the
//! step, its operator, the line that recorded it) and where all threads are, once for each time that it gets stuck, and
//! goes on: what is slow is not wrong, and who waits gets its value or error as always. `TORCHACC_WATCHDOG=60,abort` ends the
//! process after that (SIGABRT), for what is better started again than left hanging: a rank of several, a test.
//!
//! Off, which is the default, it costs nothing. On, every step on the host is timed; a program on a GPU counts as one step.

use super::Context;
use super::clock::now;
use super::code::Compiled;
use super::compile::{CompiledTrace, name_of};
use crate::error::{Result, Site};
use crate::invalid;
use parking_lot::Mutex;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Once, OnceLock, Weak};
use std::thread;
use std::time::Duration;

/// How long nothing may end, and whether that ends the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    pub limit: Duration,
    pub abort: bool,
    /// Whether a debugger says where the threads are: it stops them all for that.
    pub stacks: bool,
}

impl Patience {
    /// Errors: `InvalidArgument` for what is neither seconds nor seconds and `,abort`.
    pub fn parse(text: &str) -> Result<Patience> {
        let (seconds, abort) = match text.split_once(',') {
            Some((seconds, "abort")) => (seconds, true),
            _ => (text, false),
        };
        match seconds.parse().ok().map(Duration::try_from_secs_f64) {
            Some(Ok(limit)) if !limit.is_zero() => Ok(Patience { limit, abort, stacks: true }),
            _ => invalid!(
                "TORCHACC_WATCHDOG={text} is not a number of seconds, or one and \",abort\""
            ),
        }
    }
}

pub struct Watchdog {
    patience: Patience,
    /// Beginnings and ends of programs, compiles and steps.
    progress: AtomicU64,
    work: Mutex<Option<Work>>,
    started: Once,
    context: OnceLock<Weak<Context>>,
}

/// What the launch thread is at.
#[derive(Clone)]
enum Work {
    Compile,
    Run { program: Arc<CompiledTrace>, code: Arc<Compiled>, step: Option<usize> },
}

/// For as long as the launch thread is at a program.
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
            context: OnceLock::new(),
        }
    }

    /// Whom its reports go to.
    pub fn belongs_to(&self, context: &Arc<Context>) {
        self.context.set(Arc::downgrade(context)).ok();
    }

    /// The launch thread looks for a program, or compiles it. From the first one on there is a thread that watches.
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

    pub fn runs(&self, program: &Arc<CompiledTrace>, code: &Arc<Compiled>) {
        self.is_at(Some(Work::Run { program: program.clone(), code: code.clone(), step: None }));
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
        if let Some(context) = self.context.get().and_then(Weak::upgrade) {
            // The line of a site may want the interpreter's lock, which who is stuck may hold.
            let (done, is_done) = channel();
            thread::spawn(move || {
                context.warn(&message, site);
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
            // Owned by nobody else but for a report: a program keeps memory, which a context gives back when it ends.
            let work = dog.work.lock().clone();
            is_notified = true;
            work.iter().for_each(|work| dog.report(work));
        }
        drop(dog);
        thread::sleep((limit / 4).min(Duration::from_secs(1)));
    }
}

fn described(work: &Work) -> (String, Site) {
    let Work::Run { program, code, step } = work else {
        return ("a program is compiled".into(), 0);
    };
    let count = code.plan.steps.len();
    match step.and_then(|step| Some((step, code.plan.steps.get(step)?))) {
        Some((index, step)) => {
            let name = name_of(&program.operators, step.record);
            (format!("step {index} of {count} of a program runs, {name}: {step}"), step.site)
        }
        None => (format!("a program of {count} steps runs"), 0),
    }
}

/// To the error stream: who asked for a watchdog reads it there, whatever else is stuck.
fn write(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// Name, state and, where the system says it, what in the kernel each thread waits for.
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

/// The stacks of all threads, from the debugger that there is, on the error stream.
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
        // It may wait for a debugger's server or for ever.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::host::{HostArg, HostOp, HostTensor, register};
    use crate::record::Operator;
    use crate::runtime::config::{Asked, Options};
    use crate::runtime::tests::view;
    use crate::trace::{ArgRef, Call, TensorRef};

    #[test]
    fn patience_is_seconds_and_perhaps_the_end() {
        let patience = |text: &str| Patience::parse(text).ok();
        let of = |seconds: f64, abort| {
            Some(Patience { limit: Duration::from_secs_f64(seconds), abort, stacks: true })
        };
        assert_eq!((patience("60"), patience("0.5,abort")), (of(60.0, false), of(0.5, true)));
        for wrong in ["", "0", "-1", "soon", "60,kill", "nan", "inf", "1e300"] {
            assert_eq!(patience(wrong), None, "{wrong}");
        }
    }

    /// A context whose launch thread runs `function` when it is `asked`.
    struct Watched {
        context: Arc<Context>,
        op: Operator,
    }

    impl Watched {
        fn new(
            name: &str,
            limit: Duration,
            function: impl Fn() + Send + Sync + 'static,
        ) -> Watched {
            let function = move |_: &[HostArg], _: &[HostTensor]| {
                function();
                Ok(())
            };
            let op = Operator::Host(register(HostOp {
                name: name.into(),
                key: format!("watchdog {name}"),
                function: Box::new(function),
                shape: None,
                cuda: None,
                device_function: None,
            }));
            let asked = Asked { backend: "cpu", cache_folder: "off", ..Asked::default() };
            let patience = Patience { limit, abort: false, stacks: false };
            let options = Options { watchdog: Some(patience), ..Options::resolve(asked).unwrap() };
            Watched { context: Context::new(options).unwrap(), op }
        }

        fn run(&self) {
            let x = self.context.new_buffer(16);
            let view = view(4);
            let args = [ArgRef::Tensor(TensorRef::new(x, &view))];
            self.context.record(&Call { op: self.op, args: &args, outs: &[] }).unwrap();
            self.context.sync().unwrap();
        }
    }

    /// The operator goes on when the report is there, so it comes while the operator runs, and once.
    #[test]
    fn a_step_that_does_not_end_is_reported_once_and_goes_on() {
        let (notified, is_notified) = channel();
        let (notified, is_notified) = (Mutex::new(notified), Mutex::new(is_notified));
        let watched = Watched::new("tests::stuck", Duration::from_millis(20), move || {
            is_notified.lock().recv().ok();
        });
        let messages = Arc::new(Mutex::new(Vec::new()));
        let ours = messages.clone();
        // On a busy machine a compile may take as long: that is told, too, and not what is looked for.
        watched.context.set_log(Box::new(move |_, message, _| {
            if message.contains("tests::stuck") {
                ours.lock().push(message.to_string());
                notified.lock().send(()).ok();
            }
        }));
        for turn in 1..3 {
            watched.run();
            let messages = messages.lock();
            assert_eq!(messages.len(), turn);
            let message = &messages[turn - 1];
            assert!(message.starts_with("nothing has ended for 0.02 s: step "), "{message}");
            assert!(message.contains("of a program runs, tests::stuck: "), "{message}");
        }
    }

    /// A thread that looked at a program may not keep it: its memory would outlive the context.
    #[test]
    fn what_was_watched_ends_with_its_context() {
        // Long enough for the first look.
        let look = || thread::sleep(Duration::from_millis(100));
        let watched = Watched::new("tests::slow", Duration::from_secs(60), look);
        watched.run();
        let shared = &watched.context.shared;
        let program = shared.last_program.lock().as_ref().map(Arc::downgrade).unwrap();
        drop(watched);
        assert!(program.upgrade().is_none());
    }
}
