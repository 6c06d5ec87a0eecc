//! Watches the steps of a run whose times somebody wants.

use super::Shared;
use super::clock::now;
use super::code::Compiled;
use super::compile::{CompiledTrace, name_of};
use super::explain::{Collective, Spent, State};
use super::json::{self, Object, quoted};
use super::profile::Span;
use crate::backend::Watch;
use crate::op::collective::{self, Kind};
use crate::op::{Op, Ty, host};
use crate::plan::{Kernel, MemRef, Operand, Step};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Steps run one after the other, though not on one thread.
pub struct Steps<'a> {
    shared: &'a Shared,
    program: &'a CompiledTrace,
    code: &'a Compiled,
    scalars: &'a [u64],
    started: AtomicU64,
    /// The name of the communicator of the collective that runs.
    communicator: Mutex<Option<String>>,
}

/// `None` when nobody needs to know: then a step costs nothing.
pub fn steps<'a>(
    shared: &'a Shared,
    program: &'a CompiledTrace,
    code: &'a Compiled,
    scalars: &'a [u64],
) -> Option<Steps<'a>> {
    let is_watched = shared.watchdog.is_some() && shared.backend.location().is_host;
    let wanted = code.has_fallbacks || shared.profile.is_active() || is_watched;
    let (started, communicator) = (AtomicU64::new(0), Mutex::new(None));
    wanted.then_some(Steps { shared, program, code, scalars, started, communicator })
}

impl Watch for Steps<'_> {
    fn begin(&self, index: usize) {
        self.shared.watchdog.as_ref().inspect(|dog| dog.begins(index));
        let began_ns = now();
        self.started.store(began_ns, Relaxed);
        let step = &self.code.plan.steps[index];
        host::set_running_site(step.site);
        if let Some(kind) = collective_kind(&step.kernel) {
            let communicator = self.communicator(step, kind);
            let given = given(step, kind);
            let new = Collective {
                number: 0,
                name: name_of(&self.program.operators, step.record),
                tensor: given.map(type_of).unwrap_or_default(),
                bytes: given.map_or(0, bytes),
                site: step.site,
                began_ns,
                took_ns: 0,
                state: State::Running,
            };
            self.shared.explain.collectives.lock().begin(&communicator, new);
            *self.communicator.lock() = Some(communicator);
        }
    }

    fn was_copied(&self) {
        self.shared.stats.host_copies.add(1);
    }

    fn end(&self, index: usize, failed: bool) {
        let (begin, end) = (self.started.load(Relaxed), now());
        host::set_running_site(0);
        let step = &self.code.plan.steps[index];
        let is_host = self.shared.backend.calls_host(&step.kernel);
        if !is_host && !self.shared.profile.is_active() {
            return;
        }
        let name = name_of(&self.program.operators, step.record);
        let kind = collective_kind(&step.kernel);
        if let Some(kind) = kind {
            if let Some(communicator) = self.communicator.lock().take() {
                self.shared.explain.collectives.lock().end(&communicator, failed);
            }
            self.shared.stats.collectives.add(1);
            self.shared.stats.collective_bytes.add(given(step, kind).map_or(0, bytes));
            self.shared.stats.collective_ns.add(end - begin);
        } else if is_host {
            let spent = Spent { count: 1, time_ns: end - begin };
            self.shared.stats.host_calls.add(1);
            self.shared.explain.fallbacks.lock().add(&name, step.site, spent);
            self.shared.check_fallback(&name, step.site);
        }
        let all_bytes = |list: &[Operand]| list.iter().map(bytes).sum::<u64>();
        let types = |list: &[Operand]| json::list(list.iter().map(|one| quoted(&type_of(one))));
        let details = Object::default()
            .text("kernel", kernel_name(&step.kernel))
            .raw("step", index)
            .raw("reads", types(&step.reads))
            .raw("writes", types(&step.writes))
            .raw("bytes_read", all_bytes(&step.reads))
            .raw("bytes_written", all_bytes(&step.writes));
        let category = match is_host {
            _ if kind.is_some() => "collective",
            true => "CPU fallback",
            false => "kernel",
        };
        let span = Span { name: &name, category, begin, end, site: step.site, details };
        self.shared.profile.span(span);
    }
}

impl Steps<'_> {
    /// The name of a collective's communicator; it may be gone by now.
    fn communicator(&self, step: &Step, kind: Kind) -> String {
        // It comes after what is given.
        let number = step.reads.get(usize::from(given(step, kind).is_some()));
        let name = match number.map(|read| read.mem) {
            Some(MemRef::Scalar(slot)) => collective::name(self.scalars[slot as usize]),
            _ => None,
        };
        name.unwrap_or_else(|| "not registered any more".into())
    }
}

fn collective_kind(kernel: &Kernel) -> Option<Kind> {
    match kernel {
        Kernel::Node { op: Op::Host, attrs } => Some(collective::of(attrs)?.0),
        _ => None,
    }
}

/// What a collective takes from this rank.
fn given(step: &Step, kind: Kind) -> Option<&Operand> {
    step.reads.first().filter(|_| kind != Kind::Receive)
}

/// Of the elements of an operand's view, each counted once for every time it is there.
fn bytes(operand: &Operand) -> u64 {
    (operand.layout.numel() * operand.dtype.size() as i64) as u64
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
