//! Handles: opaque pointers to objects, distinguishable from handles that were released and from those of other kinds.
//!
//! An object lives in a cell, which is reused by other objects but never returned to the allocator. A handle is the cell's
//! address, with the number of the object's life there in the low bits. So a handle that was released leads to a cell that says
//! so, whichever object lives there now. Numbers repeat after 128 lives, and a thread uses the cell that has been free for
//! longest: two thousand objects come and go before a handle can be mistaken for another.

use super::bad;
use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::cell::{RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::mem::{MaybeUninit, forget};
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Alignment of cells, and so the number of distinct life numbers.
const LIVES: u64 = 128;
/// Bits of a cell's state: the number of its life, its kind, and below these the number of owners.
const LIFE: u32 = 48;
const KIND: u32 = 32;
const OWNERS: u64 = (1 << KIND) - 1;

/// A kind of object that C programs hold.
pub trait Handle: Send + Sync + Sized + 'static {
    /// A number of 16 bits that no other kind has, so that a handle of another kind is an error and not a crash.
    const TAG: u16;
    const NAME: &'static str;
    /// The cells of all objects of this kind.
    fn cells() -> &'static Cells<Self>;
    /// Calls `body` with this thread's cells; with an empty list on a thread that is about to end.
    fn spare<R>(body: impl Fn(&Spare<Self>) -> R) -> R;
}

/// Implements [`Handle`] for a type. The tag is two bytes that no other kind has.
macro_rules! kind {
    ($kind:ident, $tag:literal) => {
        impl $crate::capi::handle::Handle for $kind {
            const TAG: u16 = u16::from_le_bytes(*$tag);
            const NAME: &'static str = stringify!($kind);

            fn cells() -> &'static $crate::capi::handle::Cells<$kind> {
                static CELLS: $crate::capi::handle::Cells<$kind> =
                    $crate::capi::handle::Cells::new();
                &CELLS
            }

            fn spare<R>(body: impl Fn(&$crate::capi::handle::Spare<$kind>) -> R) -> R {
                use $crate::capi::handle::Spare;
                thread_local! {
                    static SPARE: Spare<$kind> = const { Spare::new() };
                }
                SPARE.try_with(&body).unwrap_or_else(|_| body(&Spare::new()))
            }
        }
    };
}
pub(super) use kind;

#[repr(C, align(128))]
pub struct Cell<T> {
    state: AtomicU64,
    /// Initialized while the cell has owners.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: owners reach the value as `&T`; whoever removed the last owner, or adds the first, has exclusive access.
unsafe impl<T: Send + Sync> Sync for Cell<T> {}

impl<T: Handle> Cell<T> {
    fn empty() -> Cell<T> {
        let value = UnsafeCell::new(MaybeUninit::uninit());
        Cell { state: AtomicU64::new(identity::<T>(0)), value }
    }

    /// A cell with more owners than will ever release it.
    pub const fn immortal(value: T) -> Cell<T> {
        let value = UnsafeCell::new(MaybeUninit::new(value));
        Cell { state: AtomicU64::new(identity::<T>(0) + OWNERS / 2), value }
    }

    /// The state of the present life with no owners.
    fn life(&self) -> u64 {
        self.state.load(Ordering::Relaxed) & !OWNERS
    }

    pub fn handle(&'static self) -> *mut T {
        let number = (self.life() >> LIFE) as usize;
        ptr::from_ref(self).map_addr(|address| address | number).cast::<T>().cast_mut()
    }

    /// # Safety
    /// The cell has an owner for as long as the result is used.
    unsafe fn value<'a>(&'static self) -> &'a T {
        // SAFETY: a value with an owner is initialized, and nobody has exclusive access.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// Changes the number of a life's owners, unless it is 0, and returns the old state; `None` when that life is over.
    fn count(&self, life: u64, change: impl Fn(u64) -> u64) -> Option<u64> {
        let changed = |state| has_owners(state, life).then(|| change(state));
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed).ok()
    }

    /// Removes an owner; does nothing if the life is over. The last one frees the cell for another object.
    fn leave(&'static self, life: u64) {
        let last = |state: u64| state & OWNERS == 1;
        let fewer = |state: u64| match last(state) {
            true => identity::<T>((life >> LIFE) + 1),
            false => state - 1,
        };
        if self.count(life, fewer).is_some_and(last) {
            // SAFETY: it was initialized until now, and whoever ends the life has exclusive access.
            unsafe { (*self.value.get()).assume_init_drop() };
            T::spare(|spare| spare.push(self));
        }
    }
}

/// The state of a cell in the life that a handle names, without owners.
const fn identity<T: Handle>(handle: u64) -> u64 {
    (handle % LIVES) << LIFE | (T::TAG as u64) << KIND
}

fn has_owners(state: u64, life: u64) -> bool {
    (1..=OWNERS).contains(&state.wrapping_sub(life))
}

/// The cells of a kind, shared by all threads.
pub struct Cells<T: 'static>(Mutex<Lists<T>>);

struct Lists<T: 'static> {
    free: Vec<&'static Cell<T>>,
    /// Keeps every cell reachable for leak checkers.
    all: Vec<&'static [Cell<T>]>,
}

/// A thread's own free cells, so that it rarely locks the shared list. The first has been free for longest.
pub struct Spare<T: Handle>(RefCell<VecDeque<&'static Cell<T>>>);

/// Number of cells that move between a thread and the shared list at a time. A thread that uses any keeps once to twice as many,
/// which stay in its cache.
const BATCH: usize = 16;

impl<T: Handle> Cells<T> {
    pub const fn new() -> Cells<T> {
        Cells(Mutex::new(Lists { free: Vec::new(), all: Vec::new() }))
    }

    fn take(&self, to: &mut VecDeque<&'static Cell<T>>) {
        let mut lists = self.0.lock();
        if lists.free.is_empty() {
            let more: Vec<Cell<T>> = (0..BATCH).map(|_| Cell::empty()).collect();
            let more: &'static [Cell<T>] = more.leak();
            lists.all.push(more);
            lists.free.extend(more);
        }
        let rest = lists.free.len().saturating_sub(BATCH);
        to.extend(lists.free.drain(rest..));
    }
}

impl<T: Handle> Spare<T> {
    pub const fn new() -> Spare<T> {
        Spare(RefCell::new(VecDeque::new()))
    }

    fn pop(&self) -> &'static Cell<T> {
        let mut free = self.0.borrow_mut();
        while free.len() < BATCH {
            T::cells().take(&mut free);
        }
        free.pop_front().expect("there are some")
    }

    fn push(&self, cell: &'static Cell<T>) {
        let mut free = self.0.borrow_mut();
        if free.len() >= 2 * BATCH {
            T::cells().0.lock().free.extend(free.drain(..BATCH));
        }
        free.push_back(cell);
    }
}

impl<T: Handle> Drop for Spare<T> {
    fn drop(&mut self) {
        T::cells().0.lock().free.extend(self.0.get_mut().drain(..));
    }
}

/// One owner of an object.
pub struct Owned<T: Handle>(&'static Cell<T>);

impl<T: Handle> Owned<T> {
    pub fn new(value: T) -> Owned<T> {
        let cell = T::spare(Spare::pop);
        // SAFETY: a cell that was taken is nobody else's.
        unsafe { (*cell.value.get()).write(value) };
        cell.state.store(cell.life() + 1, Ordering::Release);
        Owned(cell)
    }

    pub fn handle(&self) -> *mut T {
        self.0.handle()
    }

    /// Hands the ownership over to a C caller.
    pub fn give(self) -> *mut T {
        let handle = self.handle();
        forget(self);
        handle
    }
}

impl<T: Handle> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this is an owner.
        unsafe { self.0.value() }
    }
}

impl<T: Handle> Clone for Owned<T> {
    fn clone(&self) -> Owned<T> {
        self.0.state.fetch_add(1, Ordering::Relaxed);
        Owned(self.0)
    }
}

impl<T: Handle> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.leave(self.0.life());
    }
}

/// The cell of a handle, if the handle's object is alive.
///
/// # Safety
/// `handle` is NULL or was made by this library, for an object of any kind, which may be gone.
unsafe fn cell_of<T: Handle>(handle: *const T) -> Result<&'static Cell<T>> {
    let cell = handle.map_addr(|bits| bits & !(LIVES as usize - 1)).cast::<Cell<T>>();
    if cell.is_null() {
        return Err(refused::<T>("is NULL"));
    }
    // SAFETY: every cell starts with its state (`repr(C)`), and is never freed.
    let state = unsafe { &*cell.cast::<AtomicU64>() }.load(Ordering::Acquire);
    let life = identity::<T>(handle.addr() as u64);
    match has_owners(state, life) {
        // SAFETY: the state says that it is a cell of this kind.
        true => Ok(unsafe { &*cell }),
        false if (state >> KIND) as u16 == T::TAG => Err(refused::<T>("was released before")),
        false => Err(refused::<T>("is wanted, not a handle of another kind")),
    }
}

#[cold]
fn refused<T: Handle>(why: &str) -> Error {
    bad(format!("{} {why}", T::NAME))
}

/// Borrows the object of a handle.
///
/// # Safety
/// As [`cell_of`]; if the object is alive, it stays so for as long as the result is used.
pub unsafe fn borrow<'a, T: Handle>(handle: *const T) -> Result<&'a T> {
    // SAFETY (both): the caller's promise.
    Ok(unsafe { cell_of(handle)?.value() })
}

/// Adds an owner; NULL for handles that [`borrow`] refuses.
///
/// # Safety
/// As [`cell_of`].
pub unsafe fn retain<T: Handle>(handle: *const T) -> *mut T {
    // SAFETY: the caller's promise.
    unsafe { owner(handle) }.map_or(ptr::null_mut(), Owned::give)
}

/// Adds an owner. Errors: as [`borrow`].
///
/// # Safety
/// As [`cell_of`].
pub unsafe fn owner<T: Handle>(handle: *const T) -> Result<Owned<T>> {
    // SAFETY: the caller's promise.
    let cell = unsafe { cell_of(handle)? };
    let more = cell.count(identity::<T>(handle.addr() as u64), |state| state + 1);
    more.map(|_| Owned(cell)).ok_or_else(|| refused::<T>("was released before"))
}

/// Removes an owner; does nothing for handles that [`borrow`] refuses.
///
/// # Safety
/// As [`cell_of`]; the caller owned one reference, unless all are gone.
pub unsafe fn release<T: Handle>(handle: *mut T) {
    // SAFETY: the caller's promise.
    if let Ok(cell) = unsafe { cell_of(handle) } {
        cell.leave(identity::<T>(handle.addr() as u64));
    }
}

/// A new object with one owner: the C caller.
pub fn give<T: Handle>(value: T) -> *mut T {
    Owned::new(value).give()
}
