//! A loop that can be called.
#![expect(unsafe_code, reason = "machine code that is given addresses")]

use super::super::isa::Isa;
use super::assemble::{assemble, lanes};
use super::memory::Executable;
use super::trace::{Element, Node};
use crate::error::Result;
use crate::internal;
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

/// The loops of programs in use: layers of one model share them, and programs for other sizes.
static LOOPS: LazyLock<Mutex<Loops>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Loops {
    by_nodes: HashMap<Isa, HashMap<Box<[Node]>, Weak<JitLoop>>>,
    /// Number of loops beyond which unused ones are looked for.
    room: usize,
}

/// A loop over streams of elements.
pub struct JitLoop {
    code: Executable,
    /// Number of operations on a vector, to estimate the time.
    pub operations: usize,
    /// Elements of a vector, if the code takes whole vectors only; 1 if it masks those past the end.
    whole: usize,
    streams: Vec<Stream>,
}

/// How a loop uses a stream.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// Bytes of an element.
    size: usize,
    is_read: bool,
    is_written: bool,
}

impl JitLoop {
    /// The loop of the recorded nodes, in instructions of `isa`; `None` if it cannot be assembled or put in executable memory.
    pub fn of(nodes: &[Node], isa: Isa) -> Result<Option<Arc<JitLoop>>> {
        let mut loops = LOOPS.lock();
        if let Some(known) = loops.find(nodes, isa) {
            return Ok(Some(known));
        }
        let new = JitLoop::new(nodes, isa)?.map(Arc::new);
        new.iter().for_each(|one| loops.add(nodes, isa, one));
        Ok(new)
    }

    fn new(nodes: &[Node], isa: Isa) -> Result<Option<JitLoop>> {
        let (bytes, start) = match assemble(nodes, isa) {
            Ok(Some(assembled)) => assembled,
            Ok(None) => return Ok(None),
            Err(error) => return internal!("machine code of {nodes:?}: {error}"),
        };
        let is_operation = |n: &&Node| !matches!(n, Node::Constant(_) | Node::Number(_));
        let operations = nodes.iter().filter(is_operation).count();
        let whole = if isa == Isa::Avx512 { 1 } else { lanes(isa) };
        let code = Executable::new(&bytes, start);
        Ok(code.map(|code| JitLoop { code, operations, whole, streams: streams(nodes) }))
    }

    /// Runs the loop.
    ///
    /// # Safety
    /// There are as many streams and numbers as were recorded. `len` elements at every address are readable, and nobody else
    /// writes them meanwhile; at addresses that the loop stores to, they are also writable, and nobody else accesses them.
    pub unsafe fn run(&self, streams: &[usize], numbers: &[f32], len: usize) {
        let rest = len % self.whole;
        if len > rest {
            // SAFETY: the caller's promise.
            unsafe { self.code.run(streams, numbers, len - rest) };
        }
        if rest > 0 {
            // SAFETY: as above.
            unsafe { self.run_remainder(streams, numbers, len - rest, rest) };
        }
    }

    /// Runs the loop for the `rest` elements from `done` on, by way of a whole vector in memory for each stream.
    ///
    /// # Safety
    /// As for [`JitLoop::run`].
    unsafe fn run_remainder(&self, streams: &[usize], numbers: &[f32], done: usize, rest: usize) {
        let mut vectors: SmallVec<[[f32; 8]; 16]> = smallvec![[0.0; 8]; streams.len()];
        let each = || self.streams.iter().zip(streams).enumerate();
        let first = vectors.as_mut_ptr();
        // SAFETY: no element is larger than an f32, and `rest` elements fit into a vector.
        unsafe {
            for (n, (stream, address)) in each().filter(|(_, (stream, _))| stream.is_read) {
                let from = std::ptr::with_exposed_provenance(address + done * stream.size);
                first.add(n).cast::<u8>().copy_from_nonoverlapping(from, rest * stream.size);
            }
            let own: SmallVec<[usize; 16]> =
                (0..streams.len()).map(|n| first.add(n).expose_provenance()).collect();
            self.code.run(&own, numbers, self.whole);
            for (n, (stream, address)) in each().filter(|(_, (stream, _))| stream.is_written) {
                let to: *mut u8 =
                    std::ptr::with_exposed_provenance_mut(address + done * stream.size);
                to.copy_from_nonoverlapping(first.add(n).cast(), rest * stream.size);
            }
        }
    }
}

impl Loops {
    /// Up to this number, it is not worth looking for unused loops.
    const ROOM: usize = 256;

    fn find(&self, nodes: &[Node], isa: Isa) -> Option<Arc<JitLoop>> {
        self.by_nodes.get(&isa)?.get(nodes)?.upgrade()
    }

    fn add(&mut self, nodes: &[Node], isa: Isa, new: &Arc<JitLoop>) {
        let loops = self.by_nodes.entry(isa).or_default();
        loops.insert(nodes.into(), Arc::downgrade(new));
        if loops.len() > self.room.max(Loops::ROOM) {
            loops.retain(|_, one| one.strong_count() > 0);
            self.room = 2 * loops.len();
        }
    }
}

fn streams(nodes: &[Node]) -> Vec<Stream> {
    let mut streams = Vec::new();
    for node in nodes {
        let (n, element, is_read) = match *node {
            Node::Load(n, element) => (n as usize, element, true),
            Node::Store(n, element, _) => (n as usize, element, false),
            _ => continue,
        };
        if streams.len() <= n {
            streams.resize(n + 1, Stream::default());
        }
        let stream = &mut streams[n];
        stream.size = match element {
            Element::F32 => 4,
            Element::F16 | Element::BF16 => 2,
            Element::Bool => 1,
        };
        stream.is_read |= is_read;
        stream.is_written |= !is_read;
    }
    streams
}
