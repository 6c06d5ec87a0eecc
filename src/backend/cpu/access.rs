//! Operands at run time: slices of memory from addresses. The one place where numbers become references.
//!
//! **Invariant:** every slice lies within the range that the operand's layout covers. That the memory exists, is
//! initialised as far as it is read, and is nobody else's while a step runs is the contract of [`Call`]; that the
//! writes of a step overlap neither each other nor its reads (but for in-place operands) is proved by `plan::check`.
#![expect(unsafe_code, reason = "slices from the addresses of a call")]

use crate::backend::Call;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::array::{filled, refuse};
use crate::plan::{MemRef, Operand};
use crate::shape::Layout;

/// Types for which any bytes of their size are a valid value.
pub trait Plain: Copy + Default + Send + Sync + 'static {}
impl Plain for u8 {}
impl Plain for i8 {}
impl Plain for u16 {}
impl Plain for i16 {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for u64 {}
impl Plain for i64 {}
impl Plain for u128 {}
impl Plain for f32 {}
impl Plain for f64 {}

/// `count` zeros. Of many, those that are never touched take no memory: the system gives pages of zeros. Panics as
/// [`reserved`](crate::op::array::reserved).
pub fn zeroed<T: Plain>(count: usize) -> Vec<T> {
    let Ok(layout) = std::alloc::Layout::array::<T>(count) else { refuse::<T>(count) };
    if layout.size() == 0 {
        return filled(T::default(), count);
    }
    // SAFETY: the layout has a size.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        refuse::<T>(count);
    }
    // SAFETY: allocated by the global allocator with the layout of `count` values of `T`, for which zeros are valid.
    unsafe { Vec::from_raw_parts(memory.cast(), count, count) }
}

/// Where the elements of an operand come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Address of flat element 0.
    Memory(usize),
    /// The eight bytes of a slot of the argument block.
    Slot(u64),
    /// Element `i` is `i`.
    Index,
}

/// An operand and where its elements are in this call.
#[derive(Clone, Debug)]
pub struct Bound {
    pub source: Source,
    pub dtype: DType,
    pub layout: Layout,
    /// Flat indices that may be touched: from, to (exclusive).
    range: (i64, i64),
}

impl Bound {
    pub fn new(operand: &Operand, call: &Call) -> Result<Bound> {
        let source = match operand.mem {
            MemRef::Input(i) => Source::Memory(call.inputs[i as usize]),
            MemRef::Output(i) => Source::Memory(call.outputs[i as usize]),
            MemRef::Arena(offset) => Source::Memory(call.arena + offset as usize),
            MemRef::Host(offset) => Source::Memory(call.host + offset as usize),
            MemRef::Results(offset) => Source::Memory(call.results + offset as usize),
            MemRef::Scalar(slot) => Source::Slot(call.scalars[slot as usize]),
            MemRef::Index => Source::Index,
        };
        Bound::at(source, operand.dtype, operand.layout.clone())
    }

    pub fn at(source: Source, dtype: DType, layout: Layout) -> Result<Bound> {
        let range = covered(&layout);
        if let Source::Memory(addr) = source {
            let align = dtype.size().min(8);
            if (addr == 0 || !addr.is_multiple_of(align)) && range.1 > range.0 {
                return internal!(
                    "operand of {dtype} at address {addr:#x}, which is not aligned to {align}"
                );
            }
            if range.0 < 0 {
                return internal!("layout {layout:?} reaches below its memory");
            }
        }
        Ok(Bound { source, dtype, layout, range })
    }

    /// Address of the first element of a dense operand.
    pub fn start(&self) -> usize {
        match self.source {
            Source::Memory(base) => base + self.layout.offset as usize * self.dtype.size(),
            _ => 0,
        }
    }

    pub fn numel(&self) -> usize {
        self.layout.numel() as usize
    }

    pub fn sizes(&self) -> &[i64] {
        &self.layout.sizes
    }

    /// `len` flat elements from index `at`.
    ///
    /// # Panics
    /// If they are not within the range that the layout covers, or the operand is not memory.
    #[inline]
    pub fn slice<T: Plain>(&self, at: i64, len: usize) -> &[T] {
        if len == 0 {
            return &[];
        }
        let start = self.address::<T>(at, len);
        // SAFETY: `address` checked the range, `at` the alignment; the call's contract makes the memory valid and unchanged.
        unsafe { std::slice::from_raw_parts(start as *const T, len) }
    }

    /// As [`Bound::slice`], to be written.
    ///
    /// # Safety
    /// No other slice of these elements may be alive.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "tasks write disjoint parts of one operand")]
    pub unsafe fn slice_mut<T: Plain>(&self, at: i64, len: usize) -> &mut [T] {
        if len == 0 {
            return &mut [];
        }
        let start = self.address::<T>(at, len);
        // SAFETY: as in `slice`; exclusiveness is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start as *mut T, len) }
    }

    /// Elements from the first to the last that the layout covers.
    pub fn covered<T: Plain>(&self) -> &[T] {
        self.slice(self.range.0, (self.range.1 - self.range.0) as usize)
    }

    /// The elements of a dense operand, in order.
    pub fn dense<T: Plain>(&self) -> &[T] {
        assert!(self.layout.is_contiguous(), "not a dense operand");
        self.slice(self.layout.offset, self.numel())
    }

    /// The elements of a dense result, to be written. A kernel takes each of its results once, and reads none of its
    /// memory through an operand meanwhile.
    #[allow(clippy::mut_from_ref, reason = "a bound operand is a description, not the memory")]
    pub fn result<T: Plain>(&self) -> &mut [T] {
        assert!(self.layout.is_contiguous(), "not a dense operand");
        // SAFETY: steps follow each other, and the kernel has no other access to its result (see above).
        unsafe { self.slice_mut(self.layout.offset, self.numel()) }
    }

    /// The bytes of a dense operand in memory.
    ///
    /// # Panics
    /// If it is not dense or not in memory.
    pub fn bytes_of_dense(&self) -> &[u8] {
        let (start, len) = self.dense_bytes();
        if len == 0 {
            return &[];
        }
        // SAFETY: the bytes of the elements that the layout covers; see `slice`.
        unsafe { std::slice::from_raw_parts(start as *const u8, len) }
    }

    /// The bytes of a dense result, to be written; as [`Bound::result`].
    #[allow(clippy::mut_from_ref, reason = "a bound operand is a description, not the memory")]
    pub fn result_bytes(&self) -> &mut [u8] {
        let (start, len) = self.dense_bytes();
        if len == 0 {
            return &mut [];
        }
        // SAFETY: as in `result`.
        unsafe { std::slice::from_raw_parts_mut(start as *mut u8, len) }
    }

    /// Overwrites a dense operand with `bytes`, as many as it has.
    pub fn fill_from(&self, bytes: &[u8]) {
        let (start, len) = self.dense_bytes();
        assert_eq!(len, bytes.len(), "a result has as many bytes as its memory");
        if len > 0 {
            // SAFETY: as in `bytes_of_dense`; `bytes` is other memory, and no slice of this one is alive: the steps
            // of a run follow each other, and a kernel that calls this has no other access to its result.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, len) }
        }
    }

    fn dense_bytes(&self) -> (usize, usize) {
        assert!(self.layout.is_contiguous(), "not a dense operand");
        let Source::Memory(base) = self.source else { panic!("not an operand in memory") };
        (base + self.layout.offset as usize * self.dtype.size(), self.numel() * self.dtype.size())
    }

    #[inline]
    fn address<T>(&self, at: i64, len: usize) -> usize {
        let Source::Memory(base) = self.source else { panic!("not an operand in memory") };
        assert!(size_of::<T>() == self.dtype.size(), "access to {} by another size", self.dtype);
        let inside = at >= self.range.0 && at + len as i64 <= self.range.1;
        assert!(inside, "elements {at}..{} of {:?}", at + len as i64, self.range);
        base + at as usize * size_of::<T>()
    }
}

/// Smallest and one past the largest flat index of a layout; (0, 0) when it has no elements.
fn covered(layout: &Layout) -> (i64, i64) {
    if layout.sizes.contains(&0) {
        return (0, 0);
    }
    let low = layout.sizes.iter().zip(&layout.strides).map(|(n, s)| (n - 1) * s.min(&0));
    (layout.offset + low.sum::<i64>(), layout.end())
}
