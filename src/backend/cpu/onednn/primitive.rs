//! A primitive of the library with the layouts of its operands.
#![expect(unsafe_code, reason = "a C library's functions")]

use super::api::{self, Argument, Dims, Engine, Handle, Owned};
use std::cell::RefCell;
use std::ffi::c_int;
use std::ptr::null_mut;

/// `dnnl_memory_desc_t`: where in memory the elements of a tensor are.
pub struct Layout {
    owned: Owned,
    /// By the library's count, which includes the gap after the last row.
    pub nbytes: usize,
}

impl Layout {
    /// # Safety
    /// As [`Owned::new`], of a layout.
    unsafe fn new(
        engine: &Engine,
        create: impl FnOnce(*mut Handle) -> api::Status,
    ) -> Option<Layout> {
        // SAFETY: the caller's promise.
        unsafe {
            let owned = Owned::new(engine.api.destroy_layout, create)?;
            let nbytes = (engine.api.size_of_layout)(owned.handle);
            Some(Layout { owned, nbytes })
        }
    }

    /// A layout of elements of type `element` with the given sizes and strides; any layout if `strides` is `None`.
    pub fn of(
        engine: &Engine,
        element: c_int,
        sizes: &[i64],
        strides: Option<&[i64]>,
    ) -> Option<Layout> {
        let (count, sizes) = (sizes.len() as c_int, filled(sizes));
        let strides = strides.map(filled);
        let api = &engine.api;
        // SAFETY: lists of the length that the header demands.
        unsafe {
            Layout::new(engine, |out| match &strides {
                Some(strides) => {
                    (api.create_strided)(out, count, sizes.as_ptr(), element, strides.as_ptr())
                }
                None => (api.create_layout)(out, count, sizes.as_ptr(), element, api::ANY),
            })
        }
    }

    /// The first of this tensor's `sizes[0]` equal parts.
    pub fn first_part(&self, engine: &Engine, sizes: &[i64]) -> Option<Layout> {
        let parts = sizes[0] as usize;
        let (mut sizes, offsets) = (filled(sizes), [0; 12]);
        sizes[0] = 1;
        // SAFETY: lists of the length that the header demands.
        let part = unsafe {
            Layout::new(engine, |out| {
                (engine.api.create_part)(out, self.handle(), sizes.as_ptr(), offsets.as_ptr())
            })?
        };
        (part.nbytes * parts == self.nbytes).then_some(part)
    }

    pub fn is(&self, other: &Layout, engine: &Engine) -> bool {
        // SAFETY: two layouts.
        unsafe { (engine.api.equal_layouts)(self.handle(), other.handle()) != 0 }
    }

    pub fn handle(&self) -> Handle {
        self.owned.handle
    }
}

/// The list, padded with zeros to the length of all lists.
pub fn filled(list: &[i64]) -> Dims {
    let mut all = [0; 12];
    all[..list.len()].copy_from_slice(list);
    all
}

thread_local! {
    /// This thread's stream, with the library that it belongs to.
    static STREAM: RefCell<Option<(&'static Engine, Owned)>> = const { RefCell::new(None) };
}

/// An executable primitive and its operands, the last of which is scratch memory.
pub struct Primitive {
    engine: &'static Engine,
    owned: Owned,
    operands: Vec<(c_int, Layout)>,
}

impl Primitive {
    /// The primitive of `description`. `operands`: for each, its argument in an execution, and the query for its layout in
    /// the description.
    pub fn new(
        engine: &'static Engine,
        description: &Owned,
        operands: &[(c_int, c_int)],
    ) -> Option<Primitive> {
        let api = &engine.api;
        let layout = |&(arg, name): &(c_int, c_int)| {
            // SAFETY: a description answers with a layout of its own, or with null, which cannot be cloned.
            let layout = unsafe {
                let its = (api.query_layout)(description.handle, name, 0);
                Layout::new(engine, |out| (api.clone_layout)(out, its))
            };
            Some((arg, layout?))
        };
        let scratch = (api::ARG_SCRATCHPAD, api::SCRATCHPAD);
        let operands = operands.iter().chain([&scratch]).map(layout).collect::<Option<_>>()?;
        // SAFETY: a primitive.
        let owned = unsafe {
            let create = |out: *mut Handle| (api.create_primitive)(out, description.handle);
            Owned::new(api.destroy_primitive, create)?
        };
        Some(Primitive { engine, owned, operands })
    }

    /// A primitive that converts a tensor from one layout to another.
    pub fn reorder(engine: &'static Engine, from: &Layout, to: &Layout) -> Option<Primitive> {
        let (api, device) = (&engine.api, engine.handle);
        // SAFETY: a description, of two layouts.
        let description = unsafe {
            Owned::new(api.destroy_description, |out| {
                let (from, to) = (from.handle(), to.handle());
                (api.describe_reorder)(out, from, device, to, device, engine.attributes)
            })?
        };
        let operands = [(api::ARG_SOURCE, api::SOURCE), (api::ARG_RESULT, api::RESULT)];
        Primitive::new(engine, &description, &operands)
    }

    pub fn engine(&self) -> &'static Engine {
        self.engine
    }

    pub fn layout(&self, operand: usize) -> &Layout {
        &self.operands[operand].1
    }

    /// Scratch memory that an execution needs, in elements of f32.
    pub fn room(&self) -> usize {
        self.operands.last().map_or(0, |(_, scratch)| scratch.nbytes.div_ceil(size_of::<f32>()))
    }

    /// Executes on the memory of the operands.
    ///
    /// # Safety
    /// There must be as many operands as were named, each valid memory for all elements of its layout; nobody else may
    /// access those that are written.
    pub unsafe fn execute(&self, operands: &[Handle], room: &mut [f32]) {
        assert!(room.len() >= self.room() && operands.len() + 1 == self.operands.len());
        let api = &self.engine.api;
        let starts = operands.iter().copied().chain([room.as_mut_ptr().cast()]);
        let memory = |((arg, layout), start): (&(c_int, Layout), Handle)| {
            // SAFETY: an object that refers to memory and does not own it.
            let object = unsafe {
                let create = |out: *mut Handle| {
                    (api.create_memory)(out, layout.handle(), self.engine.handle, start)
                };
                Owned::new(api.destroy_memory, create)
            };
            (*arg, object.expect("memory for an object of oneDNN"))
        };
        let objects: smallvec::SmallVec<[(c_int, Owned); 4]> = self
            .operands
            .iter()
            .zip(starts)
            .filter(|((_, layout), _)| layout.nbytes > 0)
            .map(memory)
            .collect();
        let mut arguments = [Argument { arg: 0, memory: null_mut() }; 4];
        for (argument, (arg, object)) in arguments.iter_mut().zip(&objects) {
            *argument = Argument { arg: *arg, memory: object.handle };
        }
        let count = objects.len() as c_int;
        let status = STREAM.with_borrow_mut(|kept| {
            let its = kept.take().filter(|(engine, _)| std::ptr::eq(*engine, self.engine));
            let its = its.or_else(|| Some((self.engine, self.engine.stream()?)));
            let (_, stream) = kept.insert(its.expect("a stream of oneDNN"));
            // SAFETY: the arguments are the primitive's; the memory is as the caller promises.
            unsafe { (api.execute)(self.owned.handle, stream.handle, count, arguments.as_ptr()) }
        });
        assert_eq!(status, 0, "oneDNN does not execute what it made");
    }
}
