//! Products by cuBLASLt: one algorithm for every product, the fastest of those that the library ranks best.
//!
//! **Invariant:** the algorithm of a product does not change while the device is open, nor, where there is a folder, from
//! process to process; so neither do its bits.
#![expect(unsafe_code, reason = "calls of a C library with addresses on the device")]

use super::super::device::Product;
use super::Options;
use super::api::Handle;
use super::blas::{Algorithm, Blas, Blocks, Choice, Described, MOST_BATCH};
use super::context::{Context, StreamLock};
use crate::cache::disk::{Disk, Entry};
use crate::cache::key::Key;
use crate::dtype::DType;
use crate::error::Result;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes of workspace that cuBLASLt's algorithms on Hopper are written for.
const WORKSPACE: usize = 32 << 20;
/// Number of algorithms that are measured, where that is allowed.
const CANDIDATES: usize = 8;
/// The most products whose algorithms are remembered in memory.
const KNOWN: usize = 4096;
/// A candidate is run for about `MEASURED` milliseconds, at least once and at most `MOST_RUNS` times.
const MEASURED: f32 = 0.5;
const MOST_RUNS: usize = 20;

/// A product, and alignments of its operands (first, second, result) in bytes, at most 256.
type Aligned = (Product, [u32; 3]);

pub struct Products {
    blas: Blas,
    allow_tf32: bool,
    /// Number of algorithms to choose from; a single one is not measured.
    candidates: usize,
    /// Part of the keys of choices on disk.
    fingerprint: String,
    disk: Option<Arc<Disk>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The library's handle and the address of its workspace, made for the first product.
    opened: Option<(Handle, usize)>,
    known: HashMap<Aligned, Choice>,
}

/// One product, ready to be queued.
struct Job<'a> {
    context: &'a Context,
    blas: &'a Blas,
    stream_lock: &'a StreamLock<'a>,
    described: Described<'a>,
    handle: Handle,
    workspace: usize,
    candidates: usize,
    /// 1 and 0 in the type of alpha and beta.
    scales: &'static [Scale; 2],
    /// Those of the first operand, the second operand and the result.
    addresses: [u64; 3],
}

/// Bits of an f32 or f64 number, read by its address.
#[repr(transparent)]
struct Scale(u64);

static SINGLE: [Scale; 2] = [Scale(1f32.to_bits() as u64), Scale(0)];
static DOUBLE: [Scale; 2] = [Scale(1f64.to_bits()), Scale(0)];

impl Products {
    pub fn new(
        blas: Blas,
        options: &Options,
        fingerprint: String,
        disk: Option<Arc<Disk>>,
    ) -> Products {
        let candidates = if options.deterministic { 1 } else { CANDIDATES };
        let allow_tf32 = options.allow_tf32;
        Products { blas, allow_tf32, candidates, fingerprint, disk, state: Mutex::default() }
    }

    /// See [`super::super::device::Device::multiply`]. Measures a product's algorithms the first time, and waits for that.
    pub fn multiply(
        &self,
        context: &Context,
        product: &Product,
        at: [usize; 3],
        scales: Option<[usize; 2]>,
    ) -> Result<()> {
        // Locked before the state, since a thread that captures already holds it.
        let stream_lock = context.lock_stream()?;
        let mut state = self.state.lock();
        pieces(product, at).try_for_each(|(part, at)| {
            self.piece(context, &stream_lock, &mut state, (&part, at), scales)
        })
    }

    fn piece(
        &self,
        context: &Context,
        stream_lock: &StreamLock,
        state: &mut State,
        (product, [a, b, c]): (&Product, [usize; 3]),
        scales: Option<[usize; 2]>,
    ) -> Result<()> {
        let (handle, workspace) = match state.opened {
            Some(opened) => opened,
            None => *state.opened.insert(self.open(context)?),
        };
        let ordered =
            |[a, b]: [usize; 2]| if Blocks::of(product).a_first { [a, b] } else { [b, a] };
        let [first, second] = ordered([a, b]);
        let addresses = [first, second, c];
        let alignment = addresses.map(|address| 1 << address.trailing_zeros().min(8));
        let job = Job {
            context,
            blas: &self.blas,
            stream_lock,
            described: Described::new(&self.blas, product, scales.map(ordered), self.allow_tf32)?,
            handle,
            workspace,
            candidates: self.candidates,
            scales: if product.dtypes[2] == DType::F64 { &DOUBLE } else { &SINGLE },
            addresses: addresses.map(|address| address as u64),
        };
        let key = (*product, alignment);
        let choice = match state.known.get(&key) {
            Some(choice) => *choice,
            // Nothing can be measured during a capture, and a choice that was not measured is not kept.
            None if stream_lock.is_capturing() => {
                job.described.choices(handle, WORKSPACE, alignment, self.candidates)?[0]
            }
            None => {
                let choice = self.choose(&job, &key)?;
                if state.known.len() >= KNOWN {
                    state.known.clear();
                }
                state.known.insert(key, choice);
                choice
            }
        };
        job.queue(&choice)
    }

    fn open(&self, context: &Context) -> Result<(Handle, usize)> {
        let mut handle = 0;
        // SAFETY: as `cublasLt.h` says; the stream lock, which the caller holds, has entered the context.
        self.blas.check(unsafe { (self.blas.api.create)(&mut handle) }, "starting")?;
        match context.allocate(WORKSPACE) {
            Ok(workspace) => Ok((handle, workspace)),
            Err(error) => {
                // SAFETY: just made.
                unsafe { (self.blas.api.destroy)(handle) };
                Err(error)
            }
        }
    }

    /// The choice from disk, else the one measured fastest.
    fn choose(&self, job: &Job, key: &Aligned) -> Result<Choice> {
        let Some(disk) = &self.disk else { return job.fastest(key.1) };
        let stored = Key::new(vec![
            ("product", format!("{key:?}").into_bytes()),
            ("device", self.fingerprint.clone().into_bytes()),
        ]);
        let restore = |bytes: &[u8]| job.described.restored(job.handle, decode(bytes)?, WORKSPACE);
        match disk.find(&stored, restore).0 {
            Entry::Found(choice) => Ok(choice),
            Entry::Closed(_) => job.fastest(key.1),
            Entry::Absent(claim) => {
                let choice = job.fastest(key.1)?;
                disk.store(&stored, &encode(&choice.algorithm), claim).ok();
                Ok(choice)
            }
        }
    }

    /// Releases everything. The context's work must be done.
    pub fn close(&self, context: &Context) {
        if let (Some((handle, workspace)), Ok(_lock)) =
            (self.state.lock().opened.take(), context.lock_stream())
        {
            context.free(workspace);
            // SAFETY: the handle is from `create`; none of its work is queued any more.
            unsafe { (self.blas.api.destroy)(handle) };
        }
    }
}

/// The parts of a product, each of at most [`MOST_BATCH`] matrices, and the addresses of their operands.
fn pieces(product: &Product, at: [usize; 3]) -> impl Iterator<Item = (Product, [usize; 3])> {
    let (whole, sides) = (*product, [product.a, product.b, product.c]);
    (0..whole.batch.div_ceil(MOST_BATCH)).map(move |piece| {
        let first = piece * MOST_BATCH;
        let part = Product { batch: MOST_BATCH.min(whole.batch - first), ..whole };
        let moved = |n: usize| first * sides[n].batch * whole.dtypes[n].size() as u64;
        (part, [0, 1, 2].map(|n| at[n] + moved(n) as usize))
    })
}

impl Job<'_> {
    fn queue(&self, choice: &Choice) -> Result<()> {
        let [first, second, c] = self.addresses;
        let [a, b, d] = self.described.layouts;
        let [one, zero] = self.scales;
        let pointer = |scale: &Scale| (scale as *const Scale).cast::<c_void>();
        // SAFETY: the caller's memory of the device is as the product says; the numbers are static.
        let status = unsafe {
            (self.blas.api.multiply)(
                self.handle,
                self.described.product,
                pointer(one),
                first,
                a,
                second,
                b,
                pointer(zero),
                c,
                d,
                c,
                d,
                &choice.algorithm,
                self.workspace as u64,
                choice.workspace,
                self.context.stream,
            )
        };
        self.blas.check(status, "queueing a product")
    }

    /// Runs the candidates on the operands themselves: the result of each is the product.
    fn fastest(&self, alignment: [u32; 3]) -> Result<Choice> {
        let choices = self.described.choices(self.handle, WORKSPACE, alignment, self.candidates)?;
        if let [only] = choices[..] {
            return Ok(only);
        }
        let [begin, end] = [self.context.new_event(0)?, self.context.new_event(0)?];
        let mut best: Option<(f32, Choice)> = None;
        let mut failure = None;
        for choice in choices {
            match self.measure(&choice, begin, end) {
                Ok(time) if best.is_none_or(|(other, _)| time < other) => {
                    best = Some((time, choice))
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        self.context.drop_event(begin);
        self.context.drop_event(end);
        match (best, failure) {
            (Some((_, choice)), _) => Ok(choice),
            (None, Some(error)) => Err(error),
            (None, None) => crate::internal!("no algorithm of a product was measured"),
        }
    }

    /// Milliseconds that a choice takes.
    fn measure(&self, choice: &Choice, begin: Handle, end: Handle) -> Result<f32> {
        // The first run loads code.
        self.time(choice, 1, begin, end)?;
        let once = self.time(choice, 1, begin, end)?;
        let runs = (MEASURED / once.max(1e-3)) as usize;
        match runs.min(MOST_RUNS) {
            0 | 1 => Ok(once),
            runs => Ok(self.time(choice, runs, begin, end)? / runs as f32),
        }
    }

    fn time(&self, choice: &Choice, runs: usize, begin: Handle, end: Handle) -> Result<f32> {
        let (context, mut milliseconds) = (self.context, 0.0);
        context.record(begin, context.stream, self.stream_lock)?;
        for _ in 0..runs {
            self.queue(choice)?;
        }
        context.record(end, context.stream, self.stream_lock)?;
        context.wait(end, "measuring a product")?;
        // SAFETY: as `cuda.h` says; both events have happened.
        let status = unsafe { (context.api.elapsed)(&mut milliseconds, begin, end) };
        context.api.check(status, "measuring a product")?;
        Ok(milliseconds)
    }
}

fn encode(algorithm: &Algorithm) -> Vec<u8> {
    algorithm.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Option<Algorithm> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    rest.is_empty().then_some(words.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::super::device::Matrix;
    use super::*;

    #[test]
    fn a_large_batch_is_several_products() {
        let side = |batch| Matrix { transposed: false, leading: 4, batch };
        let dtypes = [DType::BF16, DType::BF16, DType::F32];
        let (a, b, c) = (side(32), side(0), side(16));
        let product = Product { dtypes, batch: 2 * MOST_BATCH + 7, m: 4, n: 4, k: 8, a, b, c };
        let found: Vec<_> =
            pieces(&product, [1000, 2000, 3000]).map(|(part, at)| (part.batch, at)).collect();
        let n = MOST_BATCH as usize;
        let at = |piece: usize| [1000 + piece * n * 64, 2000, 3000 + piece * n * 64];
        assert_eq!(found, [(MOST_BATCH, at(0)), (MOST_BATCH, at(1)), (7, at(2))]);
        assert_eq!(pieces(&Product { batch: 1, ..product }, [0; 3]).count(), 1);
    }
}
