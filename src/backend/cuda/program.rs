//! A plan on a device: launches in the order of its steps, and what is done on the host between them.

use super::bounce;
use super::device::{Device, Launch, Shape};
use super::emit::{Source, Word};
use super::graphs::Graphs;
use super::lower::{self, Action};
use super::own;
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
    plan: Arc<Plan>,
    device: Arc<dyn Device>,
    pool: Arc<Pool>,
    steps: Vec<Vec<Ready>>,
    scratch_bytes: u64,
    /// The status block and the argument block behind it; scratch memory. Made when first needed.
    memory: Mutex<Option<(Memory, Memory)>>,
    /// `None` where runs are not captured: something is done on the host, or nobody wants it.
    graphs: Option<Graphs>,
}

/// An action, ready to be done.
enum Ready {
    Launch { kernel: Arc<dyn Launch>, words: Vec<Word>, shape: Shape },
    Other(Action),
}

/// Where the program's own memory is.
#[derive(Clone, Copy)]
struct Own {
    status: usize,
    scratch: usize,
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
        let lowered: Vec<lower::Actions> = lowered.collect::<Result<_>>()?;
        let scratch_bytes = lowered.iter().map(|actions| actions.scratch).max().unwrap_or(0);
        let sources: Vec<Source> =
            lowered.iter().flat_map(lower::Actions::sources).cloned().collect();
        let loaded = device.load(&sources);
        let explained = |error| own::explained(&*device, &plan, &lowered, error);
        let mut kernels = loaded.map_err(explained)?.into_iter();
        let mut ready = |action: Action| match action {
            Action::Launch(task) => match kernels.next() {
                Some(kernel) => Ready::Launch { kernel, words: task.words, shape: task.shape },
                None => Ready::Other(Action::Host(None)),
            },
            other => Ready::Other(other),
        };
        let is_host = |action: &Action| matches!(action, Action::Host(_));
        let on_host = lowered.iter().flat_map(|actions| &actions.actions).any(is_host);
        let graphs = (captures && !on_host).then(Graphs::default);
        let steps = lowered
            .into_iter()
            .map(|actions| actions.actions.into_iter().map(&mut ready).collect())
            .collect();
        Ok(Program { plan, device, pool, steps, scratch_bytes, memory: Mutex::new(None), graphs })
    }

    /// Clears the status and hands the scalars over.
    fn begin(&self, call: &Call) -> Result<Own> {
        let mut memory = self.memory.lock();
        if memory.is_none() {
            let block = self.pool.allocate(STATUS + 8 * self.plan.scalars.len())?;
            *memory = Some((block, self.pool.allocate(self.scratch_bytes as usize)?));
        }
        let Some((block, scratch)) = memory.as_ref() else {
            return internal!("memory that was just made is gone");
        };
        let mut bytes = vec![0u8; STATUS];
        bytes.extend(call.scalars.iter().flat_map(|bits| bits.to_le_bytes()));
        self.device.write(&bytes, block.addr())?;
        Ok(Own { status: block.addr(), scratch: scratch.addr() })
    }

    fn run_step(&self, index: usize, call: &Call, own: Own) -> Result<()> {
        for action in &self.steps[index] {
            match action {
                Ready::Launch { kernel, words, shape } => {
                    let words: Vec<u64> =
                        words.iter().map(|word| resolve(*word, call, own)).collect();
                    kernel.launch(*shape, &words)?;
                }
                Ready::Other(Action::Multiply { product, a, b, c }) => {
                    let [a, b, c] = [a, b, c].map(|word| resolve(*word, call, own) as usize);
                    self.device.multiply(product, a, b, c)?;
                }
                Ready::Other(Action::Network { prepared, words, workspace }) => {
                    let addresses: Vec<u64> =
                        words.iter().map(|word| resolve(*word, call, own)).collect();
                    prepared.queue(&addresses, resolve(*workspace, call, own))?;
                }
                Ready::Other(Action::Host(function)) => {
                    if let Some((_, error)) = self.stopped(own)? {
                        return Err(error);
                    }
                    let (device, step) = (&*self.device, &self.plan.steps[index]);
                    let address =
                        |operand: &Operand| resolve(Word::of(operand), call, own) as usize;
                    let is_done = match function {
                        Some(function) => function.run(device, step, call, address)?,
                        None => false,
                    };
                    if !is_done {
                        call.watch.inspect(|watch| watch.was_copied());
                        bounce::run(device, step, call)?;
                    }
                }
                Ready::Other(Action::Launch(_)) => return internal!("a launch without a kernel"),
            }
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

    fn stopped_at(&self, step: usize, error: Error) -> Outcome {
        let mut outcome = Outcome::default();
        self.failed_from(step, &error, &mut outcome);
        outcome
    }

    /// Every output that is made by step `first` or a later one failed. Only a reduction may have written some of its
    /// results before it met what stopped it.
    fn failed_from(&self, first: usize, error: &Error, outcome: &mut Outcome) {
        for (index, step) in self.plan.steps.iter().enumerate().skip(first) {
            let torn = index == first && matches!(step.kernel, Kernel::Reduce { .. });
            for write in &step.writes {
                let Place::Output(output) = write.place else { continue };
                outcome.failed.retain(|failure| failure.output != output);
                let step = Some(first as u32);
                outcome.failed.push(Failure { output, step, error: error.clone(), torn });
            }
        }
    }

    /// With `torn`, nobody knows what was written.
    fn all_failed(&self, error: Error, torn: bool) -> Outcome {
        let fail = |output| Failure { output, step: None, error: error.clone(), torn };
        Outcome { failed: (0..self.plan.outputs.len() as u32).map(fail).collect() }
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

fn resolve(word: Word, call: &Call, own: Own) -> u64 {
    let address = match word {
        Word::Number(number) => return number,
        Word::Status => own.status,
        Word::Scratch(offset) => own.scratch + offset as usize,
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
        let own = match self.begin(call) {
            Ok(own) => own,
            Err(error) => return self.all_failed(error, false),
        };
        let whole = call.poisoned.is_empty()
            && call.watch.is_none()
            && !call.outputs.contains(&0)
            && (call.arena != 0 || self.plan.arena_bytes == 0);
        if let Some(graphs) = self.graphs.as_ref().filter(|_| whole) {
            let addresses = [call.inputs, call.outputs, &[call.arena]].concat();
            let mut work =
                || (0..self.steps.len()).try_for_each(|index| self.run_step(index, call, own));
            let queued = graphs.run(&*self.device, addresses, &mut work);
            return match queued.and_then(|()| self.stopped(own)) {
                Ok(None) => Outcome::default(),
                Ok(Some((step, error))) => self.stopped_at(step, error),
                Err(error) => self.all_failed(error, true),
            };
        }
        let mut outcome = run_steps(&self.plan, call, |index| {
            self.run_step(index, call, own)?;
            // Who watches wants to see each step's own time.
            if call.watch.is_some() { self.device.synchronize() } else { Ok(()) }
        });
        match self.stopped(own) {
            Ok(None) => {}
            Ok(Some((step, error))) => self.failed_from(step, &error, &mut outcome),
            Err(error) => return self.all_failed(error, true),
        }
        outcome
    }
}
