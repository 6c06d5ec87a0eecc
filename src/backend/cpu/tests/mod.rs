//! Every kernel against its row's meaning (by the reference backend), with generated operands.

mod cast;
mod chain;
pub mod conv;
mod packed_weights;
mod panels;
mod large;
mod jit;
mod map;
mod math;
pub mod node;
pub mod product;
pub mod reduce;
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
use crate::op::{Attrs, Op, Ty};
use crate::plan::{Kernel, MemRef, Operand, Plan, Step};
use crate::shape::{Dims, Layout};
use std::sync::{Arc, LazyLock};

/// xorshift64*: small, and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 33) as usize % n
    }

    /// At least 1, of at most so many bits: small ones as likely as large ones.
    pub fn size(&mut self, bits: usize) -> usize {
        1 + (self.bits() >> (63 - self.below(bits))) as usize
    }

    /// In [-1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

pub const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
pub const INTS: [DType; 5] = [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64];

/// `n` elements: small numbers, and with `special` now and then NaN, an infinity, a denormal or an extreme.
pub fn numbers(random: &mut Random, dtype: DType, n: usize, special: bool) -> Array {
    let mut a = Array::zeros(&Ty::new(dtype, &[n as i64]));
    for i in 0..n {
        let odd = special && random.below(8) == 0;
        if dtype.is_float() {
            let odds = [
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                0.0,
                -0.0,
                1e-41,
                3e38,
                -60000.0,
                100.5,
            ];
            let v = if odd { *random.pick(&odds) } else { random.unit() * 4.0 };
            a.set_f64(i, v);
        } else if dtype.has_arithmetic() {
            a.set_i64(i, if odd { random.bits() as i64 } else { random.below(200) as i64 - 100 });
        } else {
            let bytes: Vec<u8> = (0..dtype.size()).map(|_| random.bits() as u8).collect();
            a.set_raw(i, &bytes);
        }
    }
    a
}

/// How an operand may lie in memory.
#[derive(Clone, Copy, Debug)]
pub enum Lay {
    Dense,
    Reversed,
    Spaced,
    /// Every other dimension is repeated.
    Repeated,
    Row,
    /// One number everywhere.
    One,
}

pub const LAYS: [Lay; 5] = [Lay::Dense, Lay::Reversed, Lay::Spaced, Lay::Repeated, Lay::Row];

/// A layout of `sizes` and how many elements of memory it needs.
pub fn layout(lay: Lay, sizes: &[i64]) -> (Layout, usize) {
    let rank = sizes.len();
    let l = match lay {
        Lay::Dense => Layout::contiguous(sizes),
        Lay::Reversed => {
            let backwards: Dims = (0..rank as i64).rev().collect();
            let reversed: Dims = sizes.iter().rev().copied().collect();
            Layout::contiguous(&reversed).transpose(&backwards)
        }
        Lay::Spaced => {
            let wide: Dims = sizes.iter().map(|s| 2 * s + 1).collect();
            let (ones, twos) = (vec![1; rank], vec![2; rank]);
            Layout::contiguous(&wide).slice(&ones, sizes, &twos)
        }
        Lay::Repeated => {
            let some: Dims = (0..rank).map(|d| if d % 2 == 0 { sizes[d] } else { 1 }).collect();
            Layout::contiguous(&some).broadcast(sizes)
        }
        Lay::One => Layout::contiguous(&[]).broadcast(sizes),
        Lay::Row => Layout::contiguous(&sizes[rank.saturating_sub(1)..]).broadcast(sizes),
    };
    let n = l.end().max(0) as usize;
    (l, n)
}

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
        for (k, (g, e)) in got.iter().zip(expected).enumerate() {
            for i in 0..e.len() {
                if g.raw(i) == e.raw(i) {
                    continue;
                }
                let (x, y) =
                    if e.ty.dtype.is_float() { (g.f64(i), e.f64(i)) } else { (f64::NAN, 0.0) };
                let close = x.is_nan() && y.is_nan() || (x - y).abs() <= allowed(k, i);
                let lays: Vec<&Operand> = self.reads.iter().map(|(o, _)| o).collect();
                assert!(
                    close,
                    "{:?}\n{lays:?}\nresult {k}[{i}] of {}: {:?} instead of {:?} (f64 {x:e}, {y:e}; allowed {:e})",
                    self.kernel,
                    e.ty.dtype,
                    g.raw(i),
                    e.raw(i),
                    allowed(k, i)
                );
            }
        }
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

/// Half the distance between neighbouring numbers of a float dtype, relative.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 0.5f64.powi(11),
        DType::BF16 => 0.5f64.powi(8),
        DType::F32 => 0.5f64.powi(24),
        _ => 0.5f64.powi(53),
    }
}

/// Rounding error of the arithmetic: half types are computed in f32.
pub fn compute_epsilon(dtype: DType) -> f64 {
    epsilon(if dtype == DType::F64 { DType::F64 } else { DType::F32 })
}

/// Smallest positive number: what rounding near 0 may cost.
pub fn tiny(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 0.5f64.powi(24),
        DType::BF16 => 1e-40,
        DType::F32 => 2e-45,
        _ => 0.0,
    }
}

#[test]
fn no_thread_before_the_first_run() {
    let backend = Cpu::new(2, Search::Off);
    assert!(!backend.threads.started());
    backend.allocate(100).unwrap();
    assert!(!backend.threads.started());
    assert!(backend.fingerprint().starts_with("cpu "));
}
