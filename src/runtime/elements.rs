//! The elements of strided views: read, written, lent and shared without a copy.

use super::Context;
use crate::aten;
use crate::backend::borrowed::Borrowed;
use crate::backend::bytes::HostBytes;
use crate::backend::memory::Pool;
use crate::backend::supplied::Supplied;
use crate::buffer::{Bytes, Location, Storage, zeros};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::record::{Operator, View};
use crate::trace::{BufferId, Call, Content, Given, Located};
use std::borrow::Cow;
use std::sync::Arc;

/// A buffer of the runtime's own, for as long as it is needed.
pub(super) struct Temporary<'a>(&'a Context, pub BufferId);

impl Temporary<'_> {
    pub fn new(context: &Context, nbytes: usize) -> Temporary<'_> {
        Temporary(context, context.new_buffer(nbytes))
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        self.0.drop_buffer(self.1);
    }
}

/// Where the elements of a view lie in its buffer: first byte, and how many from there.
pub(super) fn span(view: &View) -> (usize, usize) {
    let (size, layout) = (view.dtype.size(), &view.layout);
    let start = layout.offset as usize * size;
    (start, (layout.end() as usize * size).saturating_sub(start))
}

/// The elements in row-major order; `bytes` are those of the [`span`]. Error: `OutOfMemory`.
pub(super) fn dense(view: &View, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    let (size, layout) = (view.dtype.size(), &view.layout);
    let nbytes = layout.numel() as usize * size;
    if layout.is_contiguous() {
        bytes.truncate(nbytes);
        return Ok(bytes);
    }
    let mut elements = zeros(nbytes)?;
    for (index, element) in layout.indices().zip(elements.chunks_exact_mut(size)) {
        let at = (index - layout.offset) as usize * size;
        element.copy_from_slice(&bytes[at..at + size]);
    }
    Ok(elements)
}

/// Whether the bytes are what elements of a type look like: those of bools are 0 or 1.
pub fn is_canonical(dtype: DType, bytes: &[u8]) -> bool {
    dtype != DType::Bool || bytes.iter().all(|&byte| byte <= 1)
}

/// What kernels may take for elements of a type.
fn canonical(dtype: DType, bytes: &[u8]) -> Cow<'_, [u8]> {
    if is_canonical(dtype, bytes) {
        return Cow::Borrowed(bytes);
    }
    Cow::Owned(bytes.iter().map(|&byte| (byte != 0) as u8).collect())
}

impl Context {
    /// The elements of a view in row-major order; cuts and waits as [`Context::read`].
    pub fn read_view(&self, id: BufferId, view: &View) -> Result<Vec<u8>> {
        let (start, len) = span(view);
        let mut bytes = zeros(len)?;
        self.read(id, start, &mut bytes)?;
        dense(view, bytes)
    }

    /// As [`Context::read_view`], into memory of the caller's, of just that size.
    pub fn read_view_into(&self, id: BufferId, view: &View, elements: &mut [u8]) -> Result<()> {
        if view.layout.is_contiguous() {
            return self.read(id, span(view).0, elements);
        }
        elements.copy_from_slice(&self.read_view(id, view)?);
        Ok(())
    }

    /// As [`Context::write`], of elements of a type.
    pub fn write_elements(&self, id: BufferId, dtype: DType, data: &[u8]) -> Result<()> {
        self.write(id, &canonical(dtype, data))
    }

    /// Replaces the elements of a view by `data`, in row-major order. Cuts nothing, waits for nothing.
    /// Errors: `InvalidArgument` when the length differs, `OutOfMemory`.
    pub fn write_view(&self, id: BufferId, view: &View, data: &[u8]) -> Result<()> {
        let nbytes = view.layout.numel() as usize * view.dtype.size();
        if data.len() != nbytes {
            return crate::invalid!("{} bytes of data, {nbytes} needed", data.len());
        }
        if view.layout.is_contiguous() && view.covers(self.nbytes(id)).is_some() {
            return self.write_elements(id, view.dtype, data);
        }
        let source = Temporary::new(self, nbytes);
        self.write_elements(source.1, view.dtype, data)?;
        let layout = crate::shape::Layout::contiguous(&view.layout.sizes);
        let whole = View { dtype: view.dtype, layout };
        let Some(copy) = aten::find("torchacc::copy") else { return internal!("no row copies") };
        let args = [Given::Tensor(Located::new(source.1, &whole))];
        let outs = [Located::new(id, view)];
        self.record(&Call { op: Operator::Native(copy), args: &args, outs: &outs })
    }

    /// Makes `bytes`, which nobody may write, the content of a buffer of their length.
    pub fn lend(&self, id: BufferId, memory: Borrowed) -> Result<()> {
        let storage = Arc::new(Storage::ready(self.shared.backend.borrow(memory)));
        storage.share();
        self.trace.lock()?.store(id, storage);
        Ok(())
    }

    /// The memory that holds what the buffer holds now, and will hold just that for as long as it is kept; `None` for
    /// zeros. Cuts the trace if it still computes the value; does not wait for it.
    pub fn share(&self, id: BufferId) -> Result<Option<Arc<Storage>>> {
        // Another thread may have something written to the buffer between the cut and the look.
        for _ in 0..1000 {
            self.settled(id)?;
            let trace = self.trace.lock()?;
            match trace.content(id) {
                Content::Zeros => return Ok(None),
                Content::Stored(storage) => {
                    storage.share();
                    return Ok(Some(storage));
                }
                Content::Traced(_) => {}
            }
        }
        Err(crate::trace::lost())
    }

    /// As [`Context::share`]; zeros are written first. Errors: `OutOfMemory`, the device's.
    pub fn share_written(&self, id: BufferId) -> Result<Arc<Storage>> {
        if let Some(storage) = self.share(id)? {
            return Ok(storage);
        }
        self.write(id, &zeros(self.nbytes(id))?)?;
        self.share(id)?.ok_or_else(crate::trace::lost)
    }

    /// A dense copy of a view in host memory of its own.
    pub fn copy_of(&self, id: BufferId, view: &View) -> Result<Box<dyn Bytes>> {
        let elements = self.read_view(id, view)?;
        let mut copy: Box<dyn Bytes> = match self.is_host() {
            true => self.shared.allocate(elements.len())?,
            false => Box::new(HostBytes(Pool::new().allocate(elements.len())?)),
        };
        copy.write(0, &elements)?;
        Ok(copy)
    }

    /// Whether what buffers hold is memory of the host.
    pub fn is_host(&self) -> bool {
        self.location().is_host
    }

    /// Where what buffers hold is.
    pub fn location(&self) -> Location {
        self.shared.backend.location()
    }

    /// Replaces the content by what `work` writes to new memory, at the address that it is told, on the location's queue. Cuts
    /// nothing. Errors: `OutOfMemory`, those of `work`: then the content stays.
    pub fn fill(&self, id: BufferId, mut work: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let memory = self.shared.allocate(self.nbytes(id))?;
        self.shared.backend.queue(&mut || work(memory.address()))?;
        self.trace.lock()?.store(id, Arc::new(Storage::ready(memory)));
        Ok(())
    }

    /// Lets `work` read what a buffer holds, at the address that it is told (0 for zeros), on the location's queue. Cuts, waits
    /// and fails as [`Context::read`].
    pub fn visit(&self, id: BufferId, mut work: impl FnMut(usize) -> Result<()>) -> Result<()> {
        self.look(id, |bytes| {
            let address = bytes.map_or(0, |bytes| bytes.address());
            self.shared.backend.queue(&mut || work(address))
        })
    }

    /// Takes memory from the program's allocator. Errors: `InvalidArgument` when some was taken already.
    pub fn set_supply(&self, supply: Supplied) -> Result<()> {
        self.shared.backend.pool().replace(Box::new(supply))
    }
}
