//! What a watchdog says of a step that does not end.

use super::view;
use crate::op::host::{HostArg, HostOp, HostTensor, register};
use crate::record::Operator;
use crate::runtime::Context;
use crate::runtime::options::{Asked, Options, Patience};
use crate::trace::{ArgRef, Call, TensorRef};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// A context whose launch thread runs `function` when it is `asked`.
struct Watched {
    context: Arc<Context>,
    op: Operator,
}

impl Watched {
    fn new(name: &str, limit: Duration, function: impl Fn() + Send + Sync + 'static) -> Watched {
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
