//! A plan on a device: launches in the order of its steps, and the host's work between them.

use super::actions::{Action, Actions};
use super::custom_op;
use super::device::{Device, Launch};
use super::emit::{KernelArg, Shape, Source, Task};
use super::graphs::Graphs;
use super::horizontal_fusion::{self, LaunchGroup};
use super::host_fallback;
use super::lanes::{Lanes, Run, Waiters};
use super::lower;
use super::on_device::{OnDevice, Work};
use crate::backend::memory::{Memory, Pool};
use crate::backend::run::{explain, run_some_steps};
use crate::backend::{Call, Executable, Failure, Outcome};
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::index::out_of_range;
use crate::op::{Op, expect};
use crate::plan::{Kernel, LaneId, MemRef, Operand, Plan};
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes of the status block, before the argument block.
const STATUS: usize = 32;

pub struct CudaExecutable {
    /// `None` where captures are not wanted, or not possible. Dropped before the kernels that they contain.
    graphs: Option<Graphs>,
    plan: Arc<Plan>,
    device: Arc<dyn Device>,
    pool: Arc<Pool>,
    steps: Vec<Vec<Ready>>,
    /// The launch groups of a whole run.
    groups: Vec<LaunchGroup<Queued>>,
    table: Vec<KernelArg>,
    scratch_bytes: u64,
    /// Allocated when first needed.
    memory: Mutex<Option<RunMemory>>,
    /// Whether some step is computed on the host.
    on_host: bool,
    lanes: Lanes,
}

/// An action that is ready to run.
enum Ready {
    Launch(Queued),
    Other(Action),
}

struct Queued {
    kernel: Arc<dyn Launch>,
    kernel_args: Vec<KernelArg>,
    shape: Shape,
}

/// The program's own memory.
struct RunMemory {
    /// The status block and the argument block behind it.
    block: Memory,
    scratch: Memory,
    table: Memory,
    /// The addresses that the table was written for.
    addresses: Vec<usize>,
}

/// The addresses of that memory.
#[derive(Clone, Copy)]
struct BaseAddresses {
    status: usize,
    scratch: usize,
    table: usize,
    /// Whether collectives run on device memory.
    collectives: bool,
}

impl CudaExecutable {
    pub fn new(
        plan: Arc<Plan>,
        device: Arc<dyn Device>,
        pool: Arc<Pool>,
        captures: bool,
    ) -> Result<CudaExecutable> {
        let lowered = (plan.steps.iter().enumerate())
            .map(|(index, step)| lower::step(&plan, index, &*device).map_err(|e| e.at(step.site)));
        let mut lowered: Vec<Actions> = lowered.collect::<Result<_>>()?;
        let (groups, table) = horizontal_fusion::fuse_horizontally(&plan, &mut lowered);
        let scratch_bytes = lowered.iter().map(|actions| actions.scratch).max().unwrap_or(0);
        let together = groups.iter().flat_map(|group| match group {
            LaunchGroup::Step(_) => &[][..],
            LaunchGroup::Fused(_, tasks) => tasks,
        });
        let sources = lowered.iter().flat_map(Actions::sources);
        let sources: Vec<Source> =
            sources.chain(together.map(|task| &task.source)).cloned().collect();
        let loaded = device.load(&sources);
        let explained = |error| custom_op::explained(&*device, &plan, &lowered, error);
        let mut kernels = loaded.map_err(explained)?.into_iter();
        let mut queued = |Task { kernel_args, shape, .. }: Task| match kernels.next() {
            Some(kernel) => Ok(Queued { kernel, kernel_args, shape }),
            None => internal!("a kernel was left unloaded"),
        };
        let mut ready = |action: Action| match action {
            Action::Launch(task) => queued(task).map(Ready::Launch),
            other => Ok(Ready::Other(other)),
        };
        let is_host = |action: &Action| matches!(action, Action::Host(_));
        let on_host = lowered.iter().flat_map(|actions| &actions.actions).any(is_host);
        let steps = lowered
            .into_iter()
            .map(|actions| actions.actions.into_iter().map(&mut ready).collect())
            .collect::<Result<_>>()?;
        let group = |group| match group {
            LaunchGroup::Step(index) => Ok(LaunchGroup::Step(index)),
            LaunchGroup::Fused(steps, tasks) => {
                let launches = tasks.into_iter().map(&mut queued).collect::<Result<_>>()?;
                Ok(LaunchGroup::Fused(steps, launches))
            }
        };
        let groups: Vec<_> = groups.into_iter().map(group).collect::<Result<_>>()?;
        let lanes = Lanes::new(&plan, &groups);
        // Work on side streams is not captured.
        let graphs = (captures && lanes.are_empty()).then(Graphs::default);
        let memory = Mutex::new(None);
        Ok(CudaExecutable {
            graphs,
            plan,
            device,
            pool,
            steps,
            groups,
            table,
            scratch_bytes,
            memory,
            on_host,
            lanes,
        })
    }

    /// Clears the status, and writes the scalars and the table.
    fn begin(&self, call: &Call) -> Result<BaseAddresses> {
        let mut memory = self.memory.lock();
        if memory.is_none() {
            *memory = Some(RunMemory {
                block: self.pool.allocate(STATUS + 8 * self.plan.scalars.len())?,
                scratch: self.pool.allocate(self.scratch_bytes as usize)?,
                table: self.pool.allocate(8 * self.table.len())?,
                addresses: Vec::new(),
            });
        }
        let Some(run_memory) = memory.as_mut() else {
            return internal!("memory that was just made is gone");
        };
        // After the allocations: uploads to this memory by its previous owner come before.
        self.device.begin()?;
        let [status, scratch, table] =
            [&run_memory.block, &run_memory.scratch, &run_memory.table].map(|memory| memory.addr());
        let collectives = self.lanes.are_on_device(call);
        let bases = BaseAddresses { status, scratch, table, collectives };
        let mut bytes = vec![0u8; STATUS];
        bytes.extend(call.scalars.iter().flat_map(|bits| bits.to_le_bytes()));
        self.device.write(&bytes, status)?;
        let addresses = addresses(call);
        if !self.table.is_empty() && run_memory.addresses != addresses {
            let kernel_args = self.table.iter().map(|kernel_arg| resolve(*kernel_arg, call, bases));
            let bytes: Vec<u8> = kernel_args.flat_map(u64::to_le_bytes).collect();
            self.device.write(&bytes, table)?;
            run_memory.addresses = addresses;
        }
        Ok(bases)
    }

    /// Queues all steps, with those that overlap others. Returns the collective that failed and ended the run.
    fn run_groups(
        &self,
        call: &Call,
        bases: BaseAddresses,
        run: &mut Run,
    ) -> Result<Option<(usize, Error)>> {
        for (n, group) in self.groups.iter().enumerate() {
            run.join(self.lanes.before(n))?;
            match group {
                LaunchGroup::Step(index) => match self.run_step(*index, call, bases, run) {
                    Err(error) if self.is_collective(*index) => {
                        let error = explain(&self.plan.steps[*index], error);
                        return run.join_all().map(|()| Some((*index, error)));
                    }
                    done => done?,
                },
                LaunchGroup::Fused(_, launches) => {
                    launches.iter().try_for_each(|l| l.queue(call, bases))?;
                }
            }
        }
        run.join_all().map(|()| None)
    }

    /// Runs the steps one after the other, but for those on lanes.
    fn run_one_by_one(&self, call: &Call, bases: BaseAddresses, run: &mut Run) -> Outcome {
        let (mut steps, mut waiters) = (0..self.plan.steps.len(), Waiters::default());
        run_some_steps(&self.plan, call, &mut |_| steps.next(), |index, _| {
            self.run_step(index, call, bases, run)?;
            let step = &self.plan.steps[index];
            if let (Some(_), Some(lane)) = (step.done, self.plan.lane(step, call.scalars))
                && let Some(number) = run.take(index)
            {
                match waiters.put(lane, (&self.device, number)) {
                    Ok(ticket) => return Ok(Some(ticket)),
                    Err(_) => self.device.join(number)?,
                }
            }
            run.join_all()?;
            // A watch shows each step's own time.
            call.watch.map_or(Ok(()), |_| self.device.synchronize()).map(|()| None)
        })
    }

    fn is_collective(&self, step: usize) -> bool {
        let is_collective =
            |ready: &Ready| matches!(ready, Ready::Other(Action::Collective { .. }));
        self.steps[step].iter().any(is_collective)
    }

    fn run_step(
        &self,
        index: usize,
        call: &Call,
        bases: BaseAddresses,
        run: &mut Run,
    ) -> Result<()> {
        for action in &self.steps[index] {
            match action {
                Ready::Launch(launch) => launch.queue(call, bases)?,
                Ready::Other(Action::Multiply { product, at, scales }) => {
                    let address = |kernel_arg| resolve(kernel_arg, call, bases) as usize;
                    let scales = scales.map(|scales| scales.map(address));
                    self.device.multiply(product, at.map(address), scales)?;
                }
                Ready::Other(Action::CudnnGraph { prepared, kernel_args, workspace }) => {
                    let addresses: Vec<u64> = kernel_args
                        .iter()
                        .map(|kernel_arg| resolve(*kernel_arg, call, bases))
                        .collect();
                    prepared.queue(&addresses, resolve(*workspace, call, bases))?;
                }
                Ready::Other(Action::Collective { call: collective, overwrites_donor })
                    if bases.collectives =>
                {
                    if *overwrites_donor && let Some((_, error)) = self.stopped(bases)? {
                        return Err(error);
                    }
                    let (device, step) = (&*self.device, &self.plan.steps[index]);
                    let address =
                        |operand: &Operand| resolve(KernelArg::of(operand), call, bases) as usize;
                    let Some(communicator) = step.communicator(call.scalars) else {
                        return internal!("a collective without a communicator");
                    };
                    let stream = self.lanes.stream_of(LaneId::Communicator(communicator));
                    let queue = |work: &mut Work| device.on_side_stream(stream, work);
                    run.put(index, collective.call(device, step, call, address, queue)?);
                }
                Ready::Other(Action::HostCopy { lane, from, to, nbytes }) => {
                    let ends = [*from, *to].map(|end| resolve(end, call, bases) as usize);
                    run.put(index, self.device.copy_aside(*lane, ends, *nbytes)?);
                }
                Ready::Other(Action::Collective { .. }) => {
                    self.call_host(None, index, call, bases)?
                }
                Ready::Other(Action::Host(function)) => {
                    self.call_host(function.as_ref(), index, call, bases)?;
                }
                Ready::Other(Action::Launch(_)) => return internal!("a launch without a kernel"),
            }
        }
        Ok(())
    }

    /// Computes a step on the host, after all previous work is done.
    fn call_host(
        &self,
        function: Option<&OnDevice>,
        index: usize,
        call: &Call,
        bases: BaseAddresses,
    ) -> Result<()> {
        if let Some((_, error)) = self.stopped(bases)? {
            return Err(error);
        }
        let (device, step) = (&*self.device, &self.plan.steps[index]);
        let address = |operand: &Operand| resolve(KernelArg::of(operand), call, bases) as usize;
        let is_done = match function {
            Some(function) => function.run(device, step, call, address)?,
            None => false,
        };
        if !is_done {
            call.watch.inspect(|watch| watch.was_copied());
            host_fallback::run(device, step, call)?;
        }
        Ok(())
    }

    /// Waits. Returns the step that stopped the run, and its error.
    fn stopped(&self, bases: BaseAddresses) -> Result<Option<(usize, Error)>> {
        let mut bytes = [0u8; STATUS];
        self.device.read(bases.status, &mut bytes)?;
        let status = |n: usize| {
            let status: [u8; 8] = std::array::from_fn(|i| bytes[8 * n + i]);
            u64::from_le_bytes(status)
        };
        if status(0) == 0 {
            return Ok(None);
        }
        let step = (status(0) & 0xffff_ffff) as usize - 1;
        let error = match status(0) >> 32 {
            1 => index_error(&self.plan.steps[step].kernel, status(1) as i64, status(2) as i64),
            3 => unmet(&self.plan.steps[step].kernel),
            _ => Error::new(Code::InvalidArgument, "ZeroDivisionError: integer division by zero"),
        };
        Ok(Some((step, explain(&self.plan.steps[step], error))))
    }

    /// Marks every output of step `first` or a later one as failed. Only a reduction or a collective may have written some of
    /// its results before it stopped.
    fn failed_from(&self, first: usize, error: &Error, outcome: &mut Outcome) {
        for (index, step) in self.plan.steps.iter().enumerate().skip(first) {
            let torn = index == first
                && (matches!(step.kernel, Kernel::Reduce { .. }) || self.is_collective(index));
            for write in &step.writes {
                let MemRef::Output(output) = write.mem else { continue };
                outcome.failed.retain(|failure| failure.output != output);
                let step = Some(first as u32);
                outcome.failed.push(Failure { output, step, error: error.clone(), torn });
            }
        }
        if outcome.failed.is_empty() {
            outcome.unseen.push((Some(first as u32), error.clone()));
        }
    }

    /// With `torn`, it is unknown which bytes were written.
    fn all_failed(&self, error: Error, torn: bool) -> Outcome {
        let fail = |output| Failure { output, step: None, error: error.clone(), torn };
        let failed: Vec<Failure> = (0..self.plan.outputs.len() as u32).map(fail).collect();
        let unseen = if failed.is_empty() { vec![(None, error.clone())] } else { Vec::new() };
        Outcome { failed, unseen }
    }
}

fn unmet(kernel: &Kernel) -> Error {
    let Kernel::Node { attrs, .. } = kernel else {
        return Error::new(Code::Internal, "something is expected by no node");
    };
    expect::unmet(attrs)
}

/// The error in PyTorch's words.
fn index_error(kernel: &Kernel, index: i64, size: i64) -> Error {
    let text = match kernel {
        Kernel::Node { op: op @ (Op::Gather | Op::Scatter | Op::Take | Op::IndexAdd), attrs } => {
            return out_of_range(*op, index, attrs[0].int() as usize, size);
        }
        Kernel::Node { op: Op::MaxPoolGrad, .. } => "index out of range in max_pool_grad",
        _ => "index out of range in self",
    };
    Error::new(Code::IndexError, text)
}

impl Queued {
    fn queue(&self, call: &Call, bases: BaseAddresses) -> Result<()> {
        let kernel_args: Vec<u64> =
            self.kernel_args.iter().map(|kernel_arg| resolve(*kernel_arg, call, bases)).collect();
        self.kernel.launch(self.shape, &kernel_args)
    }
}

/// The addresses that determine those of all operands.
fn addresses(call: &Call) -> Vec<usize> {
    [call.inputs, call.outputs, &[call.arena, call.host, call.results]].concat()
}

fn resolve(kernel_arg: KernelArg, call: &Call, bases: BaseAddresses) -> u64 {
    let address = match kernel_arg {
        KernelArg::Number(number) => return number,
        KernelArg::Status => bases.status,
        KernelArg::Scratch(offset) => bases.scratch + offset as usize,
        KernelArg::Table(offset) => bases.table + offset as usize,
        KernelArg::At(mem, offset) => {
            let start = match mem {
                MemRef::Input(n) => call.inputs[n as usize],
                MemRef::Output(n) => call.outputs[n as usize],
                MemRef::Arena(start) => call.arena + start as usize,
                MemRef::Host(start) => call.host + start as usize,
                MemRef::Results(start) => call.results + start as usize,
                MemRef::Scalar(slot) => bases.status + STATUS + 8 * slot as usize,
                MemRef::Index => 0,
            };
            start + offset as usize
        }
    };
    address as u64
}

impl Executable for CudaExecutable {
    fn run(&self, call: &Call) -> Outcome {
        let mut run = Run::new(&*self.device);
        let bases = match self.begin(call) {
            Ok(bases) => bases,
            Err(error) => return self.all_failed(error, false),
        };
        let whole = !self.on_host
            && bases.collectives
            && call.poisoned.is_empty()
            && call.watch.is_none()
            && !call.outputs.contains(&0)
            && (call.arena != 0 || self.plan.arena_bytes == 0)
            && (call.host != 0 || self.plan.host_bytes == 0)
            && (call.results != 0 || self.plan.results_bytes == 0);
        let mut outcome = Outcome::default();
        if whole {
            let mut failed = None;
            let mut work = || {
                failed = self.run_groups(call, bases, &mut run)?;
                Ok(())
            };
            let queued = match &self.graphs {
                Some(graphs) => graphs.run(&*self.device, addresses(call), &mut work),
                None => work(),
            };
            if let Err(error) = queued {
                return self.all_failed(error, true);
            }
            if let Some((step, error)) = failed {
                self.failed_from(step, &error, &mut outcome);
            }
        } else {
            outcome = self.run_one_by_one(call, bases, &mut run);
        }
        let stopped = self.stopped(bases);
        run.is_done = stopped.is_ok();
        match stopped {
            Ok(None) => {}
            Ok(Some((step, error))) => self.failed_from(step, &error, &mut outcome),
            Err(error) => return self.all_failed(error, true),
        }
        outcome
    }
}
