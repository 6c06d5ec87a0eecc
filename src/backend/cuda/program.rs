//! A plan on a device: launches in the order of its steps, and what is done on the host between them.

use super::bounce;
use super::device::{Device, Launch, Shape};
use super::emit::{Source, Task, Word};
use super::exchange::{Exchanges, Run};
use super::gather::{self, Turn};
use super::graphs::Graphs;
use super::lower::{self, Action};
use super::own::{self, OnDevice};
use crate::backend::memory::{Memory, Pool};
use crate::backend::run::{explain, run_steps};
use crate::backend::{Call, Executable, Failure, Outcome};
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::Op;
use crate::plan::{Kernel, Operand, Place, Plan};
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes of the status block, before the argument block.
const STATUS: usize = 32;

pub struct Program {
    /// `None` where nobody wants runs to be captured, or they cannot be. They go before the kernels in them.
    graphs: Option<Graphs>,
    plan: Arc<Plan>,
    device: Arc<dyn Device>,
    pool: Arc<Pool>,
    steps: Vec<Vec<Ready>>,
    /// What a whole run does.
    turns: Vec<Turn<Queued>>,
    table: Vec<Word>,
    scratch_bytes: u64,
    /// Made when first needed.
    memory: Mutex<Option<Held>>,
    /// Whether some step is computed on the host.
    on_host: bool,
    exchanges: Exchanges,
}

/// An action, ready to be done.
enum Ready {
    Launch(Queued),
    Other(Action),
}

struct Queued {
    kernel: Arc<dyn Launch>,
    words: Vec<Word>,
    shape: Shape,
}

/// The program's own memory.
struct Held {
    /// The status block and the argument block behind it.
    block: Memory,
    scratch: Memory,
    table: Memory,
    /// The addresses that the table was written for.
    addresses: Vec<usize>,
}

/// Where it is.
#[derive(Clone, Copy)]
struct Own {
    status: usize,
    scratch: usize,
    table: usize,
    /// Whether collectives are on the device's memory.
    exchanges: bool,
}

impl Program {
    pub fn new(
        plan: Arc<Plan>,
        device: Arc<dyn Device>,
        pool: Arc<Pool>,
        captures: bool,
    ) -> Result<Program> {
        let lowered = (plan.steps.iter().enumerate())
            .map(|(index, step)| lower::step(&plan, index, &*device).map_err(|e| e.at(step.site)));
        let mut lowered: Vec<lower::Actions> = lowered.collect::<Result<_>>()?;
        let (turns, table) = gather::gather(&plan, &mut lowered);
        let scratch_bytes = lowered.iter().map(|actions| actions.scratch).max().unwrap_or(0);
        let together = turns.iter().flat_map(|turn| match turn {
            Turn::Step(_) => &[][..],
            Turn::Together(_, tasks) => tasks,
        });
        let sources = lowered.iter().flat_map(lower::Actions::sources);
        let sources: Vec<Source> =
            sources.chain(together.map(|task| &task.source)).cloned().collect();
        let loaded = device.load(&sources);
        let explained = |error| own::explained(&*device, &plan, &lowered, error);
        let mut kernels = loaded.map_err(explained)?.into_iter();
        let mut queued = |Task { words, shape, .. }: Task| match kernels.next() {
            Some(kernel) => Ok(Queued { kernel, words, shape }),
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
        let turn = |turn| match turn {
            Turn::Step(index) => Ok(Turn::Step(index)),
            Turn::Together(steps, tasks) => {
                let launches = tasks.into_iter().map(&mut queued).collect::<Result<_>>()?;
                Ok(Turn::Together(steps, launches))
            }
        };
        let turns: Vec<_> = turns.into_iter().map(turn).collect::<Result<_>>()?;
        let exchanges = Exchanges::new(&plan, &turns);
        // What a communicator does cannot be kept.
        let graphs = (captures && exchanges.is_empty()).then(Graphs::default);
        let memory = Mutex::new(None);
        Ok(Program {
            graphs,
            plan,
            device,
            pool,
            steps,
            turns,
            table,
            scratch_bytes,
            memory,
            on_host,
            exchanges,
        })
    }

    /// Clears the status, and hands over the scalars and the table.
    fn begin(&self, call: &Call) -> Result<Own> {
        let mut memory = self.memory.lock();
        if memory.is_none() {
            *memory = Some(Held {
                block: self.pool.allocate(STATUS + 8 * self.plan.scalars.len())?,
                scratch: self.pool.allocate(self.scratch_bytes as usize)?,
                table: self.pool.allocate(8 * self.table.len())?,
                addresses: Vec::new(),
            });
        }
        let Some(held) = memory.as_mut() else {
            return internal!("memory that was just made is gone");
        };
        // Now: what was uploaded to this memory while it was another's comes before.
        self.device.begin()?;
        let [status, scratch, table] =
            [&held.block, &held.scratch, &held.table].map(|memory| memory.addr());
        let exchanges = self.exchanges.are_on_device(call);
        let own = Own { status, scratch, table, exchanges };
        let mut bytes = vec![0u8; STATUS];
        bytes.extend(call.scalars.iter().flat_map(|bits| bits.to_le_bytes()));
        self.device.write(&bytes, status)?;
        let addresses = addresses(call);
        if !self.table.is_empty() && held.addresses != addresses {
            let words = self.table.iter().map(|word| resolve(*word, call, own));
            let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            self.device.write(&bytes, table)?;
            held.addresses = addresses;
        }
        Ok(own)
    }

    /// All steps, with the collectives beside them. The collective that failed, after which there is nothing.
    fn run_turns(&self, call: &Call, own: Own, run: &mut Run) -> Result<Option<(usize, Error)>> {
        for (n, turn) in self.turns.iter().enumerate() {
            run.join(self.exchanges.before(n))?;
            match turn {
                Turn::Step(index) => match self.run_step(*index, call, own, run) {
                    Err(error) if self.is_exchange(*index) => {
                        let error = explain(&self.plan.steps[*index], error);
                        return run.join_all().map(|()| Some((*index, error)));
                    }
                    done => done?,
                },
                Turn::Together(_, launches) => {
                    launches.iter().try_for_each(|l| l.queue(call, own))?;
                }
            }
        }
        run.join_all().map(|()| None)
    }

    fn is_exchange(&self, step: usize) -> bool {
        let is_exchange = |ready: &Ready| matches!(ready, Ready::Other(Action::Exchange { .. }));
        self.steps[step].iter().any(is_exchange)
    }

    fn run_step(&self, index: usize, call: &Call, own: Own, run: &mut Run) -> Result<()> {
        for action in &self.steps[index] {
            match action {
                Ready::Launch(launch) => launch.queue(call, own)?,
                Ready::Other(Action::Multiply { product, at, scales }) => {
                    let address = |word| resolve(word, call, own) as usize;
                    let scales = scales.map(|scales| scales.map(address));
                    self.device.multiply(product, at.map(address), scales)?;
                }
                Ready::Other(Action::Network { prepared, words, workspace }) => {
                    let addresses: Vec<u64> =
                        words.iter().map(|word| resolve(*word, call, own)).collect();
                    prepared.queue(&addresses, resolve(*workspace, call, own))?;
                }
                Ready::Other(Action::Exchange { call: exchange, keeps }) if own.exchanges => {
                    if *keeps && let Some((_, error)) = self.stopped(own)? {
                        return Err(error);
                    }
                    let (device, step) = (&*self.device, &self.plan.steps[index]);
                    let address =
                        |operand: &Operand| resolve(Word::of(operand), call, own) as usize;
                    let number =
                        exchange.call(device, step, call, address, |work| device.beside(work))?;
                    run.put(index, number);
                }
                Ready::Other(Action::Exchange { .. }) => self.call_host(None, index, call, own)?,
                Ready::Other(Action::Host(function)) => {
                    self.call_host(function.as_ref(), index, call, own)?;
                }
                Ready::Other(Action::Launch(_)) => return internal!("a launch without a kernel"),
            }
        }
        Ok(())
    }

    /// Computes a step on the host, when all before it is done.
    fn call_host(
        &self,
        function: Option<&OnDevice>,
        index: usize,
        call: &Call,
        own: Own,
    ) -> Result<()> {
        if let Some((_, error)) = self.stopped(own)? {
            return Err(error);
        }
        let (device, step) = (&*self.device, &self.plan.steps[index]);
        let address = |operand: &Operand| resolve(Word::of(operand), call, own) as usize;
        let is_done = match function {
            Some(function) => function.run(device, step, call, address)?,
            None => false,
        };
        if !is_done {
            call.watch.inspect(|watch| watch.was_copied());
            bounce::run(device, step, call)?;
        }
        Ok(())
    }

    /// Waits. The step that stopped the run, and why.
    fn stopped(&self, own: Own) -> Result<Option<(usize, Error)>> {
        let mut bytes = [0u8; STATUS];
        self.device.read(own.status, &mut bytes)?;
        let word = |n: usize| {
            let word: [u8; 8] = std::array::from_fn(|i| bytes[8 * n + i]);
            u64::from_le_bytes(word)
        };
        if word(0) == 0 {
            return Ok(None);
        }
        let step = (word(0) & 0xffff_ffff) as usize - 1;
        let error = match word(0) >> 32 {
            1 => index_error(&self.plan.steps[step].kernel, word(1) as i64, word(2) as i64),
            _ => Error::new(Code::InvalidArgument, "ZeroDivisionError: integer division by zero"),
        };
        Ok(Some((step, explain(&self.plan.steps[step], error))))
    }

    /// Every output that is made by step `first` or a later one failed. Only a reduction or a collective may have written some of
    /// its results before it met what stopped it.
    fn failed_from(&self, first: usize, error: &Error, outcome: &mut Outcome) {
        for (index, step) in self.plan.steps.iter().enumerate().skip(first) {
            let torn = index == first
                && (matches!(step.kernel, Kernel::Reduce { .. }) || self.is_exchange(index));
            for write in &step.writes {
                let Place::Output(output) = write.place else { continue };
                outcome.failed.retain(|failure| failure.output != output);
                let step = Some(first as u32);
                outcome.failed.push(Failure { output, step, error: error.clone(), torn });
            }
        }
        if outcome.failed.is_empty() {
            outcome.unseen.push((Some(first as u32), error.clone()));
        }
    }

    /// With `torn`, nobody knows what was written.
    fn all_failed(&self, error: Error, torn: bool) -> Outcome {
        let fail = |output| Failure { output, step: None, error: error.clone(), torn };
        let failed: Vec<Failure> = (0..self.plan.outputs.len() as u32).map(fail).collect();
        let unseen = if failed.is_empty() { vec![(None, error.clone())] } else { Vec::new() };
        Outcome { failed, unseen }
    }
}

/// In PyTorch's words.
fn index_error(kernel: &Kernel, index: i64, size: i64) -> Error {
    let text = match kernel {
        Kernel::Node { op: Op::Gather | Op::Scatter, attrs } => {
            let axis = attrs[0].int();
            format!("index {index} is out of bounds for dimension {axis} with size {size}")
        }
        Kernel::Node { op: Op::MaxPoolGrad, .. } => "index out of range in max_pool_grad".into(),
        _ => "index out of range in self".into(),
    };
    Error::new(Code::IndexError, text)
}

impl Queued {
    fn queue(&self, call: &Call, own: Own) -> Result<()> {
        let words: Vec<u64> = self.words.iter().map(|word| resolve(*word, call, own)).collect();
        self.kernel.launch(self.shape, &words)
    }
}

/// What decides where everything is.
fn addresses(call: &Call) -> Vec<usize> {
    [call.inputs, call.outputs, &[call.arena]].concat()
}

fn resolve(word: Word, call: &Call, own: Own) -> u64 {
    let address = match word {
        Word::Number(number) => return number,
        Word::Status => own.status,
        Word::Scratch(offset) => own.scratch + offset as usize,
        Word::Table(offset) => own.table + offset as usize,
        Word::At(place, offset) => {
            let start = match place {
                Place::Input(n) => call.inputs[n as usize],
                Place::Output(n) => call.outputs[n as usize],
                Place::Arena(start) => call.arena + start as usize,
                Place::Scalar(slot) => own.status + STATUS + 8 * slot as usize,
                Place::Index => 0,
            };
            start + offset as usize
        }
    };
    address as u64
}

impl Executable for Program {
    fn run(&self, call: &Call) -> Outcome {
        let mut run = Run::new(&*self.device);
        let own = match self.begin(call) {
            Ok(own) => own,
            Err(error) => return self.all_failed(error, false),
        };
        let whole = !self.on_host
            && (own.exchanges || self.exchanges.is_empty())
            && call.poisoned.is_empty()
            && call.watch.is_none()
            && !call.outputs.contains(&0)
            && (call.arena != 0 || self.plan.arena_bytes == 0);
        let mut outcome = Outcome::default();
        if whole {
            let mut failed = None;
            let mut work = || {
                failed = self.run_turns(call, own, &mut run)?;
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
            outcome = run_steps(&self.plan, call, |index| {
                self.run_step(index, call, own, &mut run)?;
                run.join_all()?;
                // Who watches wants to see each step's own time.
                if call.watch.is_some() { self.device.synchronize() } else { Ok(()) }
            });
        }
        let stopped = self.stopped(own);
        run.is_done = stopped.is_ok();
        match stopped {
            Ok(None) => {}
            Ok(Some((step, error))) => self.failed_from(step, &error, &mut outcome),
            Err(error) => return self.all_failed(error, true),
        }
        outcome
    }
}
