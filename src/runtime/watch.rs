//! Watches the steps of a run whose times somebody wants.

use super::Shared;
use super::clock::now;
use super::code::Compiled;
use super::compile::{CompiledTrace, name_of};
use super::explain::Spent;
use super::json::{self, Object, quoted};
use super::profile::Span;
use crate::backend::Watch;
use crate::op::{Op, Ty, collective};
use crate::plan::{Kernel, Operand};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Steps run one after the other, though not on one thread.
pub struct Steps<'a> {
    shared: &'a Shared,
    program: &'a CompiledTrace,
    code: &'a Compiled,
    started: AtomicU64,
}

/// `None` when nobody needs to know: then a step costs nothing.
pub fn steps<'a>(
    shared: &'a Shared,
    program: &'a CompiledTrace,
    code: &'a Compiled,
) -> Option<Steps<'a>> {
    let is_watched = shared.watchdog.is_some() && shared.backend.location().is_host;
    let wanted = code.has_fallbacks || shared.profile.is_active() || is_watched;
    wanted.then(|| Steps { shared, program, code, started: AtomicU64::new(0) })
}

impl Watch for Steps<'_> {
    fn begin(&self, index: usize) {
        self.shared.watchdog.as_ref().inspect(|dog| dog.begins(index));
        self.started.store(now(), Relaxed);
    }

    fn was_copied(&self) {
        self.shared.stats.host_copies.add(1);
    }

    fn end(&self, index: usize) {
        let (begin, end) = (self.started.load(Relaxed), now());
        let step = &self.code.plan.steps[index];
        let is_host = self.shared.backend.calls_host(&step.kernel);
        if !is_host && !self.shared.profile.is_active() {
            return;
        }
        let name = name_of(&self.program.operators, step.record);
        let bytes = |list: &[Operand]| list.iter().map(bytes).sum::<i64>();
        let is_collective = is_collective(&step.kernel);
        if is_collective {
            self.shared.stats.collectives.add(1);
            self.shared.stats.collective_bytes.add(bytes(&step.reads) as u64);
            self.shared.stats.collective_ns.add(end - begin);
        } else if is_host {
            let spent = Spent { count: 1, time_ns: end - begin };
            self.shared.stats.host_calls.add(1);
            self.shared.explain.fallbacks.lock().add(&name, step.site, spent);
            self.shared.check_fallback(&name, step.site);
        }
        let types = |list: &[Operand]| json::list(list.iter().map(|one| quoted(&type_of(one))));
        let details = Object::default()
            .text("kernel", kernel_name(&step.kernel))
            .raw("step", index)
            .raw("reads", types(&step.reads))
            .raw("writes", types(&step.writes))
            .raw("bytes_read", bytes(&step.reads))
            .raw("bytes_written", bytes(&step.writes));
        let category = match is_host {
            _ if is_collective => "collective",
            true => "CPU fallback",
            false => "kernel",
        };
        let span = Span { name: &name, category, begin, end, site: step.site, details };
        self.shared.profile.span(span);
    }
}

fn is_collective(kernel: &Kernel) -> bool {
    matches!(kernel, Kernel::Node { op: Op::Host, attrs } if collective::of(attrs).is_some())
}

/// Of the elements of an operand's view, each counted once for every time it is there.
fn bytes(operand: &Operand) -> i64 {
    operand.layout.numel() * operand.dtype.size() as i64
}

/// `f32[2,3]`: what it shows.
fn type_of(operand: &Operand) -> String {
    Ty::new(operand.dtype, &operand.layout.sizes).to_string()
}

fn kernel_name(kernel: &Kernel) -> &'static str {
    match kernel {
        Kernel::Map(_) => "map",
        Kernel::Reduce { op, .. } | Kernel::Fused { op, .. } | Kernel::Node { op, .. } => op.name(),
    }
}
