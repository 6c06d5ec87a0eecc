//! Products of a block of rows on one thread, whose right operand has been packed into the layout of the library's kernels.
//! Its products of plain operands pack at every call, which is half of their time where there are few rows.
#![expect(unsafe_code, reason = "a C library, loaded at run time")]

use super::api::{self, Engine, Handle, Owned};
use super::primitive::{Layout, Primitive};
use super::primitive_cache::PrimitiveCache;
use super::{Element, Raw};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// A right operand as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plain {
    pub rows: usize,
    pub columns: usize,
    pub strides: (usize, usize),
    pub element: c_int,
}

/// Rows of the left operand for which the layout of the right one is chosen.
const TYPICAL: usize = 256;

/// How a right operand is packed.
pub struct Packing {
    engine: &'static Engine,
    pub plain: Plain,
    reorder: Primitive,
    /// Length of the packed operand, in elements of f32.
    pub len: usize,
    /// Scratch memory that packing and a product need, likewise.
    pub room: usize,
}

/// A block of rows that is multiplied by a packed operand. There is no kernel for results that are not dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rows {
    count: usize,
    /// Elements from row to row of the left operand.
    pitch: usize,
}

pub struct Product {
    primitive: Primitive,
    rows: Rows,
}

/// Packings and products by their problems.
pub struct Products {
    engine: &'static Engine,
    packings: PrimitiveCache<Plain, Packing>,
    products: PrimitiveCache<(Plain, Rows), Product>,
}

impl Products {
    pub fn new(engine: &'static Engine) -> Products {
        Products {
            engine,
            packings: PrimitiveCache::default(),
            products: PrimitiveCache::default(),
        }
    }

    /// `None` if the library has no kernel that gains by packing.
    pub fn packing(&self, plain: Plain) -> Option<Arc<Packing>> {
        self.packings.find(plain, || Packing::new(self.engine, plain))
    }

    /// The product for `count` rows. `None` as for [`Products::packing`].
    pub fn product(&self, packing: &Packing, count: usize, pitch: usize) -> Option<Arc<Product>> {
        let rows = Rows { count, pitch };
        self.products.find((packing.plain, rows), || Product::new(packing, rows))
    }
}

/// The library's description of the product of such rows and a right operand of layout `right`; `None` if it would pack
/// at every call, or not compute it at all.
fn describe(engine: &Engine, plain: &Plain, rows: Rows, right: &Layout) -> Option<Owned> {
    let matrix = |columns: usize, pitch: usize| {
        let sizes = [rows.count as i64, columns as i64];
        Layout::of(engine, plain.element, &sizes, Some(&[pitch as i64, 1]))
    };
    let left = matrix(plain.rows, rows.pitch)?;
    let result = matrix(plain.columns, plain.columns)?;
    let [left, right, result] = [&left, right, &result].map(Layout::handle);
    // SAFETY: a description, of three layouts and no bias.
    let description = unsafe {
        Owned::new(engine.api.destroy_description, |out| {
            let (device, with) = (engine.handle, engine.attributes);
            (engine.api.describe_product)(out, device, left, right, null_mut(), result, with)
        })?
    };
    let is_packed = engine.name(&description)?.to_bytes().starts_with(b"brg");
    is_packed.then_some(description)
}

const OPERANDS: [(c_int, c_int); 3] = [
    (api::ARG_SOURCE, api::SOURCE),
    (api::ARG_WEIGHTS, api::WEIGHTS),
    (api::ARG_RESULT, api::RESULT),
];

impl Packing {
    fn new(engine: &'static Engine, plain: Plain) -> Option<Packing> {
        let sizes = [plain.rows as i64, plain.columns as i64];
        let any = Layout::of(engine, plain.element, &sizes, None)?;
        let typical = Rows { count: TYPICAL, pitch: plain.rows };
        let description = describe(engine, &plain, typical, &any)?;
        let product = Primitive::new(engine, &description, &OPERANDS)?;
        let strides = [plain.strides.0 as i64, plain.strides.1 as i64];
        let lies = Layout::of(engine, plain.element, &sizes, Some(&strides))?;
        let reorder = Primitive::reorder(engine, &lies, product.layout(1))?;
        let len = product.layout(1).nbytes.div_ceil(size_of::<f32>());
        let room = reorder.room().max(product.room());
        Some(Packing { engine, plain, reorder, len, room })
    }

    /// Packs an operand.
    ///
    /// # Safety
    /// `from` must be valid memory for all its elements.
    pub unsafe fn pack<T: Element>(&self, from: *const T, packed: &mut [f32], room: &mut [f32]) {
        assert!(T::CODE == self.plain.element && packed.len() >= self.len);
        let operands: [Handle; 2] = [from as Handle, packed.as_mut_ptr().cast()];
        // SAFETY: the caller's promise; `packed` has as many elements as the layout.
        unsafe { self.reorder.execute(&operands, room) };
    }
}

impl Product {
    fn new(packing: &Packing, rows: Rows) -> Option<Product> {
        let engine = packing.engine;
        let description = describe(engine, &packing.plain, rows, packing.reorder.layout(1))?;
        let primitive = Primitive::new(engine, &description, &OPERANDS)?;
        (primitive.room() <= packing.room).then_some(Product { primitive, rows })
    }

    /// Number of rows of the left operand and of the result.
    pub fn rows(&self) -> usize {
        self.rows.count
    }

    /// Computes `c = a b`, where b is packed and c dense.
    ///
    /// # Safety
    /// `a` must be valid memory for the rows of the product, at its pitch.
    pub unsafe fn run<T: Element>(
        &self,
        packing: &Packing,
        a: Raw<T>,
        b: &[f32],
        c: &mut [T],
        room: &mut [f32],
    ) {
        assert!(T::CODE == packing.plain.element && b.len() >= packing.len);
        assert!(a.1 == (self.rows.pitch as isize, 1));
        assert!(c.len() >= self.rows.count * packing.plain.columns);
        let operands: [Handle; 3] = [a.0 as Handle, b.as_ptr() as Handle, c.as_mut_ptr().cast()];
        // SAFETY: the caller's promise; the others have as many elements as their layouts.
        unsafe { self.primitive.execute(&operands, room) };
    }
}
