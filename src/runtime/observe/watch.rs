//! Watches the steps of a run when their times are needed.

use super::clock::{now, since_start};
use super::explain::{Collective, Hiding, Spent, State};
use super::json::{self, Object, quoted};
use super::observed::Observed;
use super::profile::Span;
use crate::backend::{Backend, Watch};
use crate::op::collective::{self, Kind};
use crate::op::lane::Ended;
use crate::op::{Ty, host};
use crate::plan::{Kernel, LaneId, Operand, Plan, Step};
use crate::record::Operator;
use crate::trace::name_of;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Steps run one after the other, though not on one thread; those on lanes beside them.
pub struct Steps<'a> {
    observed: &'a Observed,
    backend: &'a dyn Backend,
    run: Run<'a>,
    /// When the step that runs began, or the wait for a lane.
    started: AtomicU64,
}

/// The program that runs.
pub struct Run<'a> {
    pub plan: &'a Plan,
    /// Whether a step of it calls a CPU fallback.
    pub has_fallbacks: bool,
    pub operators: &'a [Operator],
    pub scalars: &'a [u64],
}

/// `None` when no times are needed: then a step costs nothing.
pub fn steps<'a>(
    observed: &'a Observed,
    backend: &'a dyn Backend,
    run: Run<'a>,
) -> Option<Steps<'a>> {
    let is_watched = observed.watchdog.is_some() && backend.location().is_host;
    let wanted = run.has_fallbacks || observed.profile.is_active() || is_watched;
    wanted.then_some(Steps { observed, backend, run, started: AtomicU64::new(0) })
}

impl Watch for Steps<'_> {
    fn begin(&self, index: usize) {
        self.observed.watchdog.as_ref().inspect(|dog| dog.begins(index));
        let began_ns = now();
        self.started.store(began_ns, Relaxed);
        let step = &self.run.plan.steps[index];
        host::set_running_site(step.site);
        if let Some(kind) = step.kernel.collective() {
            let given = given(step, kind);
            let new = Collective {
                number: 0,
                name: name_of(self.run.operators, step.record),
                tensor: given.map(type_of).unwrap_or_default(),
                bytes: given.map_or(0, bytes),
                site: step.site,
                began_ns,
                took_ns: 0,
                state: State::Running,
                hiding: Hiding::default(),
            };
            self.observed.explain.collectives.lock().begin(&self.communicator(step), new);
        }
    }

    fn was_copied(&self) {
        self.observed.stats.host_copies.add(1);
    }

    fn end(&self, index: usize, failed: bool) {
        let (begin, end) = (self.started.load(Relaxed), now());
        host::set_running_site(0);
        let step = &self.run.plan.steps[index];
        if let Some(kind) = step.kernel.collective() {
            self.observed.stats.collective_exposed_ns.add(end - begin);
            self.observed.stats.collective_ns.add(end - begin);
            let hiding = Hiding { exposed_ns: end - begin, ..Hiding::default() };
            return self.collective_ended((index, kind), (begin, end), hiding, failed);
        }
        let is_host = self.backend.calls_host(&step.kernel);
        if is_host {
            let name = name_of(self.run.operators, step.record);
            let spent = Spent { count: 1, time_ns: end - begin };
            self.observed.stats.host_calls.add(1);
            self.observed.explain.fallbacks.lock().add(&name, step.site, spent);
            self.observed.check_fallback(&name, step.site);
        }
        let category = if is_host { "CPU fallback" } else { "kernel" };
        self.span(index, category, (begin, end), None);
    }

    fn goes_on(&self, _: usize) {
        host::set_running_site(0);
    }

    fn waits(&self, index: usize) {
        self.observed.watchdog.as_ref().inspect(|dog| dog.begins(index));
        self.started.store(now(), Relaxed);
    }

    fn landed(&self, index: usize, ended: &Ended) {
        let exposed_ns = now() - self.started.load(Relaxed);
        let times = (since_start(ended.began_at), since_start(ended.ended_at));
        let Some(kind) = self.run.plan.steps[index].kernel.collective() else {
            return self.span(index, "copy", times, Some(self.copy_lane(index)));
        };
        self.observed.stats.collective_exposed_ns.add(exposed_ns);
        if ended.was_skipped {
            let communicator = self.communicator(&self.run.plan.steps[index]);
            return self.observed.explain.collectives.lock().withdraw(&communicator);
        }
        self.observed.stats.overlapped_collectives.add(1);
        self.observed.stats.merged_collectives.add(ended.was_merged.into());
        // A message's time counts once.
        let took_ns = if ended.was_merged { 0 } else { times.1 - times.0 };
        self.observed.stats.collective_ns.add(took_ns);
        // The wait for earlier collectives is theirs.
        let exposed_ns = exposed_ns.min(times.1 - times.0);
        let hiding = Hiding { exposed_ns, ..self.hiding(index) };
        self.collective_ended((index, kind), times, hiding, ended.result.is_err());
    }
}

impl Steps<'_> {
    /// The steps that may run beside a collective on its lane: until it is waited for, those that are no collectives themselves.
    fn hiding(&self, index: usize) -> Hiding {
        let steps = &self.run.plan.steps;
        let done = steps[index].done.map_or(index + 1, |done| done as usize).min(steps.len());
        let mut hiding = Hiding::default();
        for step in steps[index + 1..done].iter().filter(|s| s.kernel.collective().is_none()) {
            hiding.sites = [if hiding.steps == 0 { step.site } else { hiding.sites[0] }, step.site];
            hiding.steps += 1;
        }
        hiding
    }

    fn collective_ended(
        &self,
        (index, kind): (usize, Kind),
        (begin, end): (u64, u64),
        hiding: Hiding,
        failed: bool,
    ) {
        let step = &self.run.plan.steps[index];
        let communicator = self.communicator(step);
        let mut collectives = self.observed.explain.collectives.lock();
        collectives.end(&communicator, (begin, end), hiding, failed);
        drop(collectives);
        self.observed.stats.collectives.add(1);
        self.observed.stats.collective_bytes.add(given(step, kind).map_or(0, bytes));
        let lane = step.done.map(|_| communicator);
        self.span(index, "collective", (begin, end), lane.as_deref());
    }

    /// Puts a step into the timeline; `lane`: on that of this communicator, or of copies, not on this thread.
    fn span(
        &self,
        index: usize,
        category: &'static str,
        (begin, end): (u64, u64),
        lane: Option<&str>,
    ) {
        if !self.observed.profile.is_active() {
            return;
        }
        let step = &self.run.plan.steps[index];
        let name = name_of(self.run.operators, step.record);
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
            Some(lane) => self.observed.profile.span_of(lane, span),
            None => self.observed.profile.span(span),
        }
    }

    fn copy_lane(&self, index: usize) -> &'static str {
        match self.run.plan.lane(&self.run.plan.steps[index], self.run.scalars) {
            Some(LaneId::FromHost) => "copies from the host",
            _ => "copies to the host",
        }
    }

    /// The name of a collective's communicator; it may be gone by now.
    fn communicator(&self, step: &Step) -> String {
        let name = step.communicator(self.run.scalars).and_then(collective::name);
        name.unwrap_or_else(|| "not registered any more".into())
    }
}

/// The tensor that a collective takes from this rank.
fn given(step: &Step, kind: Kind) -> Option<&Operand> {
    step.reads.get(collective::operands(kind).given?)
}

/// Bytes of an operand's view, in which an element counts as often as it occurs.
fn bytes(operand: &Operand) -> u64 {
    (operand.layout.numel() * operand.dtype.size() as i64) as u64
}

/// The type that an operand shows: `f32[2,3]`.
fn type_of(operand: &Operand) -> String {
    Ty::new(operand.dtype, &operand.layout.sizes).to_string()
}

fn kernel_name(kernel: &Kernel) -> &'static str {
    match kernel {
        Kernel::Map(_) => "map",
        Kernel::Reduce { op, .. } | Kernel::Fused { op, .. } | Kernel::Node { op, .. } => op.name(),
    }
}
