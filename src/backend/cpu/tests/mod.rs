//! Every kernel against its row's meaning (by the reference backend), with generated operands.

pub mod cases;
mod cast;
mod chain;
mod packed_weights;
mod panels;
mod large;
mod jit;
mod map;
mod math;
pub mod node;
mod product;
mod reduce;
mod rows;
mod uniform;

use super::onednn::Search;
use super::{Cpu, jit as code};
use crate::backend::reference::Reference;
use crate::backend::{Backend, Call, Executable};
use crate::buffer::Bytes;
use crate::dtype::DType;
use crate::error::Error;
use crate::op::array::Array;
use crate::op::cases::compare;
pub use crate::op::cases::data::*;
use crate::op::{Attrs, Op, Ty};
use crate::plan::{Kernel, MemRef, Operand, Plan, Step};
use crate::shape::{Dims, Layout};
use std::sync::{Arc, LazyLock};

/// One kernel with its operands' values.
pub struct Case {
    pub kernel: Kernel,
    pub reads: Vec<(Operand, Array)>,
    pub writes: Vec<(DType, Dims)>,
    pub scalars: Vec<u64>,
    /// The memory of the first operand is donated to the first result.
    pub in_place: bool,
}

/// Bytes behind every result that nobody may touch.
const BEHIND: usize = 64;

impl Case {
    pub fn node(op: Op, attrs: Attrs, reads: Vec<Array>, outs: &[Ty]) -> Case {
        let operand = |(n, a): (usize, Array)| {
            let layout = Layout::contiguous(&a.ty.sizes);
            (Operand { mem: MemRef::Input(n as u32), dtype: a.ty.dtype, layout }, a)
        };
        Case {
            kernel: Kernel::Node { op, attrs },
            reads: reads.into_iter().enumerate().map(operand).collect(),
            writes: outs.iter().map(|t| (t.dtype, t.sizes.clone())).collect(),
            scalars: Vec::new(),
            in_place: false,
        }
    }

    pub fn plan(&self) -> Plan {
        let write = |(n, (dtype, sizes)): (usize, &(DType, Dims))| Operand {
            mem: MemRef::Output(n as u32),
            dtype: *dtype,
            layout: Layout::contiguous(sizes),
        };
        let step = Step {
            kernel: self.kernel.clone(),
            reads: self.reads.iter().map(|(o, _)| o.clone()).collect(),
            writes: self.writes.iter().enumerate().map(write).collect(),
            reads_of: Vec::new(),
            results_of: Vec::new(),
            workspace: None,
            done: None,
            site: 0,
            record: 0,
        };
        Plan {
            steps: vec![step],
            inputs: self.reads.iter().map(|(_, a)| a.ty.clone()).collect(),
            outputs: self.writes.iter().map(|(d, s)| Ty::new(*d, s)).collect(),
            donors: (0..self.writes.len())
                .map(|k| (self.in_place && k == 0).then_some(0))
                .collect(),
            ..Plan::default()
        }
    }

    /// Results on `backend`, or its error, in which case nothing was written.
    pub fn run(&self, backend: &dyn Backend) -> Result<Vec<Array>, Error> {
        let (results, is_untouched) = self.attempt(backend)?;
        if results.is_err() {
            assert!(is_untouched, "a failed step leaves its results unwritten");
        }
        results
    }

    /// Results on `backend`, or why the step failed; and whether their memory is as it was. Error: it does not compile.
    pub fn attempt(
        &self,
        backend: &dyn Backend,
    ) -> Result<(Result<Vec<Array>, Error>, bool), Error> {
        self.attempt_in(backend, self.in_place)
    }

    /// As [`Case::attempt`]; where results are granted an operand's memory, that is theirs only if `in_place`.
    pub fn attempt_in(
        &self,
        backend: &dyn Backend,
        in_place: bool,
    ) -> Result<(Result<Vec<Array>, Error>, bool), Error> {
        let plan = Arc::new(self.plan());
        let executable = backend.compile(plan.clone())?;
        let holding = |bytes: &[u8]| {
            let mut memory = backend.allocate(bytes.len() + BEHIND).expect("a little memory");
            memory.write(0, bytes).expect("memory of its own");
            memory
        };
        let inputs: Vec<Box<dyn Bytes>> =
            self.reads.iter().map(|(_, array)| holding(&array.bytes)).collect();
        let empty = |(k, ty): (usize, &Ty)| match (in_place, k, self.reads.first()) {
            (true, 0, Some((_, array))) => [&array.bytes[..], &[0x55; BEHIND]].concat(),
            _ => vec![0x55; ty.nbytes() + BEHIND],
        };
        let before: Vec<Vec<u8>> = plan.outputs.iter().enumerate().map(empty).collect();
        let outputs: Vec<Box<dyn Bytes>> = before.iter().map(|bytes| holding(bytes)).collect();
        let addresses = |memory: &[Box<dyn Bytes>]| -> Vec<usize> {
            memory.iter().map(|bytes| bytes.address()).collect()
        };
        let (mut sources, targets) = (addresses(&inputs), addresses(&outputs));
        if in_place {
            sources[0] = targets[0];
        }
        let (scalars, arena) = (&self.scalars, 0);
        let call = Call {
            inputs: &sources,
            poisoned: &[],
            derived: &[],
            outputs: &targets,
            arena,
            host: 0,
            results: 0,
            scalars,
            watch: None,
        };
        let outcome = executable.run(&call);
        let content = |memory: &dyn Bytes, before: &[u8]| {
            let mut bytes = vec![0; before.len()];
            memory.read(0, &mut bytes).expect("the program has run");
            bytes
        };
        let after: Vec<Vec<u8>> = outputs
            .iter()
            .zip(&before)
            .map(|(memory, before)| content(&**memory, before))
            .collect();
        if let Some(failure) = outcome.failed.into_iter().next() {
            return Ok((Err(failure.error), before == after));
        }
        for ((before, after), ty) in before.iter().zip(&after).zip(&plan.outputs) {
            assert!(before[ty.nbytes()..] == after[ty.nbytes()..], "wrote behind the result");
        }
        let array = |(bytes, ty): (&Vec<u8>, &Ty)| Array {
            ty: ty.clone(),
            bytes: bytes[..ty.nbytes()].to_vec(),
        };
        Ok((Ok(after.iter().zip(&plan.outputs).map(array).collect()), before == after))
    }

    /// Runs on 1, 2 and 4 threads, demands the same bits, and returns them with those of the reference.
    pub fn both(&self) -> (Vec<Array>, Vec<Array>) {
        let expected = self.run(&Reference::default()).expect("the reference computes it");
        let got = self.run(cpu(1)).expect("the backend computes it");
        for threads in [2, 4] {
            assert!(
                self.run(cpu(threads)).unwrap() == got,
                "{threads} threads give other bits: {:?}",
                self.kernel
            );
        }
        if self.in_place {
            let apart = || self.attempt_in(cpu(1), false).expect("it compiles").0.unwrap();
            assert!(apart() == got, "not in place the bits are others: {:?}", self.kernel);
            self.compare(&code::without(apart), &got, |_, _| 0.0);
        }
        if let Kernel::Map(_) = self.kernel {
            let plain = code::without(|| self.run(cpu(1))).expect("the backend computes it");
            self.compare(&plain, &got, |_, _| 0.0);
        }
        (got, expected)
    }

    /// Exactly the reference's results; NaNs are equal.
    pub fn check_exact(&self) {
        let (got, expected) = self.both();
        self.compare(&got, &expected, |_, _| 0.0);
    }

    /// `allowed(result, element)` is the largest difference from the reference.
    pub fn compare(
        &self,
        got: &[Array],
        expected: &[Array],
        allowed: impl Fn(usize, usize) -> f64,
    ) {
        let lays: Vec<&Operand> = self.reads.iter().map(|(o, _)| o).collect();
        compare(format_args!("{:?}\n{lays:?}", self.kernel), got, expected, allowed);
    }
}

/// oneDNN as `make test` names it, else where it is found.
pub fn onednn() -> Search {
    match std::env::var_os("TORCHACC_ONEDNN").filter(|file| !file.is_empty()) {
        Some(file) => Search::File(file.into()),
        None => Search::Folders(Vec::new()),
    }
}

/// One backend for each number of threads, so that threads start once.
pub fn cpu(threads: usize) -> &'static Cpu {
    static BACKENDS: LazyLock<[Cpu; 5]> =
        LazyLock::new(|| [0, 1, 2, 3, 4].map(|n| Cpu::new(n, onednn())));
    &BACKENDS[threads]
}

/// Without a vendor's library.
pub fn portable() -> &'static Cpu {
    static BACKEND: LazyLock<Cpu> = LazyLock::new(|| Cpu::new(2, Search::Off));
    &BACKEND
}

#[test]
fn no_thread_before_the_first_run() {
    let backend = Cpu::new(2, Search::Off);
    assert!(!backend.threads.started());
    backend.allocate(100).unwrap();
    assert!(!backend.threads.started());
    assert!(backend.fingerprint().starts_with("cpu "));
}
