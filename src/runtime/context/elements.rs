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
use crate::shape::{Layout, numel};
use crate::trace::{ArgRef, BufferId, Call, Content, TensorRef};
use std::borrow::Cow;
use std::sync::Arc;

/// A temporary buffer of the runtime's own.
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

/// The bytes of a view's elements in its buffer: the first one, and their number.
pub(super) fn span(view: &View) -> (usize, usize) {
    let (size, layout) = (view.dtype.size(), &view.layout);
    let start = layout.offset as usize * size;
    (start, (layout.end() as usize * size).saturating_sub(start))
}

/// Copies the elements of a view to `elements`, in row-major order; directly, if they lie in the host's memory. Errors: the
/// device's, `OutOfMemory`.
pub(super) fn read_elements(bytes: &dyn Bytes, view: &View, elements: &mut [u8]) -> Result<()> {
    let (start, len) = span(view);
    if view.layout.is_contiguous() {
        return bytes.read(start, elements);
    }
    if let Some(memory) = bytes.on_host() {
        gather(view, &memory[start..start + len], elements);
        return Ok(());
    }
    let mut copy = zeros(len)?;
    bytes.read(start, &mut copy)?;
    gather(view, &copy, elements);
    Ok(())
}

/// The same, from the bytes of the [`span`].
fn gather(view: &View, bytes: &[u8], elements: &mut [u8]) {
    let (size, layout) = (view.dtype.size(), &view.layout);
    // The dimensions from `split` on are contiguous.
    let inner = |d: usize| Layout {
        sizes: layout.sizes[d..].into(),
        strides: layout.strides[d..].into(),
        offset: 0,
    };
    let split = (0..layout.rank()).find(|&d| inner(d).is_contiguous()).unwrap_or(layout.rank());
    let run = numel(&layout.sizes[split..]) as usize * size;
    let outer = Layout {
        sizes: layout.sizes[..split].into(),
        strides: layout.strides[..split].into(),
        offset: 0,
    };
    if elements.is_empty() {
        return;
    }
    for (index, elements) in outer.indices().zip(elements.chunks_exact_mut(run)) {
        let at = index as usize * size;
        elements.copy_from_slice(&bytes[at..at + run]);
    }
}

/// Whether the bytes are valid elements of a type: those of bools are 0 or 1.
pub fn is_canonical(dtype: DType, bytes: &[u8]) -> bool {
    dtype != DType::Bool || bytes.iter().all(|&byte| byte <= 1)
}

/// The bytes as elements that kernels may rely on.
fn canonical(dtype: DType, bytes: &[u8]) -> Cow<'_, [u8]> {
    if is_canonical(dtype, bytes) {
        return Cow::Borrowed(bytes);
    }
    Cow::Owned(bytes.iter().map(|&byte| (byte != 0) as u8).collect())
}

impl Context {
    /// The elements of a view in row-major order; cuts and waits as [`Context::read`].
    pub fn read_view(&self, id: BufferId, view: &View) -> Result<Vec<u8>> {
        let mut elements = zeros(view.layout.numel() as usize * view.dtype.size())?;
        self.read_view_into(id, view, &mut elements)?;
        Ok(elements)
    }

    /// As [`Context::read_view`], into memory of the caller's, of just that size.
    pub fn read_view_into(&self, id: BufferId, view: &View, elements: &mut [u8]) -> Result<()> {
        let (start, len) = span(view);
        self.check_range(id, start, len)?;
        self.look(id, |bytes| match bytes {
            Some(bytes) => read_elements(bytes, view, elements),
            None => {
                elements.fill(0);
                Ok(())
            }
        })
    }

    /// As [`Context::write`], for elements of a type.
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
        let layout = Layout::contiguous(&view.layout.sizes);
        let whole = View { dtype: view.dtype, layout };
        let Some(copy) = aten::find("torchacc::copy") else { return internal!("no row copies") };
        let args = [ArgRef::Tensor(TensorRef::new(source.1, &whole))];
        let outs = [TensorRef::new(id, view)];
        self.record(&Call { op: Operator::Native(copy), args: &args, outs: &outs })
    }

    /// Makes `memory`, which nobody may write, the content of a buffer of its length.
    pub fn lend(&self, id: BufferId, memory: Borrowed) -> Result<()> {
        let storage = Arc::new(Storage::ready(self.shared.backend.borrow(memory)));
        storage.share();
        self.trace.lock()?.store(id, storage);
        Ok(())
    }

    /// The memory of the buffer's present value, which stays unchanged for as long as the result is kept; `None` for zeros. Cuts
    /// the trace if it still computes the value; does not wait for it.
    pub fn share(&self, id: BufferId) -> Result<Option<Arc<Storage>>> {
        self.stored(id, Storage::share)
    }

    /// The memory of the buffer's present value, passed to `note` before a program that takes it over can be recorded; `None`
    /// for zeros. Cuts as [`Context::share`].
    pub fn stored(
        &self,
        id: BufferId,
        note: impl FnOnce(&Storage),
    ) -> Result<Option<Arc<Storage>>> {
        // Another thread may record a write to the buffer between the cut and the look.
        for _ in 0..1000 {
            self.settled(id, false)?;
            let trace = self.trace.lock()?;
            match trace.content(id) {
                Content::Zeros => return Ok(None),
                Content::Stored(storage) => {
                    note(&storage);
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

    /// Whether buffers are in the host's memory.
    pub fn is_host(&self) -> bool {
        self.location().is_host
    }

    /// The location of buffers.
    pub fn location(&self) -> Location {
        self.shared.backend.location()
    }

    /// Replaces the content: `work` writes to new memory, at the address that it is passed, on the location's queue. Cuts
    /// nothing. Errors: `OutOfMemory`, those of `work`: then the content stays.
    pub fn fill(&self, id: BufferId, mut work: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let memory = self.shared.allocate(self.nbytes(id))?;
        self.shared.backend.queue(&mut || work(memory.address()))?;
        self.trace.lock()?.store(id, Arc::new(Storage::ready(memory)));
        Ok(())
    }

    /// Lets `work` read a buffer's content, at the address that it is passed (0 for zeros), on the location's queue. Cuts, waits
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Mutex;

    /// Counts what is copied from it. `Err`: on a device.
    struct Counted(std::result::Result<Vec<u8>, Vec<u8>>, Mutex<Cell<usize>>);

    impl Bytes for Counted {
        fn address(&self) -> usize {
            unreachable!("nobody asks where it is")
        }
        fn len(&self) -> usize {
            self.0.as_ref().unwrap_or_else(|device| device).len()
        }
        fn read(&self, offset: usize, destination: &mut [u8]) -> Result<()> {
            let copied = self.1.lock().unwrap();
            copied.set(copied.get() + destination.len());
            let bytes = self.0.as_ref().unwrap_or_else(|device| device);
            destination.copy_from_slice(&bytes[offset..offset + destination.len()]);
            Ok(())
        }
        fn on_host(&self) -> Option<&[u8]> {
            self.0.as_deref().ok()
        }
        fn write(&mut self, _: usize, _: &[u8]) -> Result<()> {
            unreachable!("it is read only")
        }
    }

    /// The elements, and the bytes that were copied to elsewhere before.
    fn read(bytes: &Counted, layout: &Layout) -> (Vec<i16>, usize) {
        let view = View { dtype: DType::I16, layout: layout.clone() };
        let mut elements = vec![0xff; 2 * layout.numel() as usize];
        bytes.1.lock().unwrap().set(0);
        read_elements(bytes, &view, &mut elements).unwrap();
        let found = elements.chunks(2).map(|two| i16::from_le_bytes([two[0], two[1]])).collect();
        (found, bytes.1.lock().unwrap().get())
    }

    #[test]
    fn elements_are_copied_once_from_the_hosts_memory_and_in_order() {
        let numbers: Vec<u8> = (0..120i16).flat_map(i16::to_le_bytes).collect();
        let count = || Mutex::new(Cell::new(0));
        let (host, device) =
            (Counted(Ok(numbers.clone()), count()), Counted(Err(numbers), count()));
        let dense = Layout::contiguous(&[4, 5, 6]);
        let row =
            Layout { sizes: [6].as_slice().into(), strides: [1].as_slice().into(), offset: 7 };
        let layouts = [
            dense.transpose(&[2, 0, 1]),
            dense.transpose(&[1, 0, 2]),
            dense.slice(&[1, 2, 3], &[2, 2, 1], &[2, 2, 1]),
            dense.slice(&[1, 1, 0], &[3, 2, 6], &[1, 1, 1]),
            dense.slice(&[0, 0, 5], &[4, 5, 0], &[1, 1, 1]),
            row.broadcast(&[3, 6]),
        ];
        for layout in layouts {
            let wanted: Vec<i16> = layout.indices().map(|n| n as i16).collect();
            assert_eq!(read(&host, &layout), (wanted.clone(), 0), "{layout:?}");
            let view = View { dtype: DType::I16, layout: layout.clone() };
            assert_eq!(read(&device, &layout), (wanted, span(&view).1), "{layout:?}");
        }
        // What has no gaps goes the usual way.
        assert_eq!(read(&host, &dense), ((0..120).collect(), 240));
    }
}
