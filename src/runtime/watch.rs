//! Watches the steps of a run whose times somebody wants.

use super::Shared;
use super::clock::{now, since_start};
use super::code::Compiled;
use super::compile::{CompiledTrace, name_of};
use super::explain::{Collective, Spent, State};
use super::json::{self, Object, quoted};
use super::profile::Span;
use crate::backend::Watch;
use crate::op::collective::{self, Kind};
use crate::op::lane::Ended;
use crate::op::{Ty, host};
use crate::plan::{Kernel, Operand, Step};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Steps run one after the other, though not on one thread; collectives on lanes beside them.
pub struct Steps<'a> {
    shared: &'a Shared,
    program: &'a CompiledTrace,
    code: &'a Compiled,
    scalars: &'a [u64],
    /// When the step that runs began, or the wait for a lane.
    started: AtomicU64,
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
    wanted.then_some(Steps { shared, program, code, scalars, started: AtomicU64::new(0) })
}

impl Watch for Steps<'_> {
    fn begin(&self, index: usize) {
        self.shared.watchdog.as_ref().inspect(|dog| dog.begins(index));
        let began_ns = now();
        self.started.store(began_ns, Relaxed);
        let step = &self.code.plan.steps[index];
        host::set_running_site(step.site);
        if let Some(kind) = step.kernel.collective() {
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
            self.shared.explain.collectives.lock().begin(&self.communicator(step), new);
        }
    }

    fn was_copied(&self) {
        self.shared.stats.host_copies.add(1);
    }

    fn end(&self, index: usize, failed: bool) {
        let (begin, end) = (self.started.load(Relaxed), now());
        host::set_running_site(0);
        let step = &self.code.plan.steps[index];
        if let Some(kind) = step.kernel.collective() {
            self.shared.stats.collective_exposed_ns.add(end - begin);
            self.shared.stats.collective_ns.add(end - begin);
            return self.collective_ended((index, kind), (begin, end), failed);
        }
        let is_host = self.shared.backend.calls_host(&step.kernel);
        if is_host {
            let name = name_of(&self.program.operators, step.record);
            let spent = Spent { count: 1, time_ns: end - begin };
            self.shared.stats.host_calls.add(1);
            self.shared.explain.fallbacks.lock().add(&name, step.site, spent);
            self.shared.check_fallback(&name, step.site);
        }
        let category = if is_host { "CPU fallback" } else { "kernel" };
        self.span(index, category, (begin, end), None);
    }

    fn goes_on(&self, _: usize) {
        host::set_running_site(0);
    }

    fn waits(&self, index: usize) {
        self.shared.watchdog.as_ref().inspect(|dog| dog.begins(index));
        self.started.store(now(), Relaxed);
    }

    fn landed(&self, index: usize, ended: &Ended) {
        self.shared.stats.collective_exposed_ns.add(now() - self.started.load(Relaxed));
        if ended.was_skipped {
            let communicator = self.communicator(&self.code.plan.steps[index]);
            return self.shared.explain.collectives.lock().withdraw(&communicator);
        }
        self.shared.stats.overlapped_collectives.add(1);
        self.shared.stats.merged_collectives.add(ended.was_merged.into());
        let times = (since_start(ended.began_at), since_start(ended.ended_at));
        // A message's time counts once.
        let took_ns = if ended.was_merged { 0 } else { times.1 - times.0 };
        self.shared.stats.collective_ns.add(took_ns);
        if let Some(kind) = self.code.plan.steps[index].kernel.collective() {
            self.collective_ended((index, kind), times, ended.result.is_err());
        }
    }
}

impl Steps<'_> {
    fn collective_ended(
        &self,
        (index, kind): (usize, Kind),
        (begin, end): (u64, u64),
        failed: bool,
    ) {
        let step = &self.code.plan.steps[index];
        let communicator = self.communicator(step);
        self.shared.explain.collectives.lock().end(&communicator, (begin, end), failed);
        self.shared.stats.collectives.add(1);
        self.shared.stats.collective_bytes.add(given(step, kind).map_or(0, bytes));
        let lane = step.done.map(|_| communicator);
        self.span(index, "collective", (begin, end), lane.as_deref());
    }

    /// Puts a step into the timeline; `lane`: that of this communicator, not this thread.
    fn span(
        &self,
        index: usize,
        category: &'static str,
        (begin, end): (u64, u64),
        lane: Option<&str>,
    ) {
        if !self.shared.profile.is_active() {
            return;
        }
        let step = &self.code.plan.steps[index];
        let name = name_of(&self.program.operators, step.record);
        let all_bytes = |list: &[Operand]| list.iter().map(bytes).sum::<u64>();
        let types = |list: &[Operand]| json::list(list.iter().map(|one| quoted(&type_of(one))));
        let details = Object::default()
            .text("kernel", kernel_name(&step.kernel))
            .raw("step", index)
            .raw("reads", types(&step.reads))
            .raw("writes", types(&step.writes))
            .raw("bytes_read", all_bytes(&step.reads))
            .raw("bytes_written", all_bytes(&step.writes));
        let span = Span { name: &name, category, begin, end, site: step.site, details };
        match lane {
            Some(communicator) => self.shared.profile.span_of(communicator, span),
            None => self.shared.profile.span(span),
        }
    }

    /// The name of a collective's communicator; it may be gone by now.
    fn communicator(&self, step: &Step) -> String {
        let name = step.communicator(self.scalars).and_then(collective::name);
        name.unwrap_or_else(|| "not registered any more".into())
    }
}

/// What a collective takes from this rank.
fn given(step: &Step, kind: Kind) -> Option<&Operand> {
    step.reads.get(collective::operands(kind).given?)
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
