//! cuDNN's descriptors: objects whose attributes are set, which are then finalized and queried for other attributes.
//!
//! **Invariant:** attributes are written and read with the C types that their type numbers stand for.
#![expect(unsafe_code, reason = "a C library, loaded at run time")]

use super::super::api::Handle;
use super::api::Library;
use crate::error::Result;
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

/// `cudnnBackendDescriptorType_t`.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Pointwise = 0,
    Convolution = 1,
    Engine = 2,
    EngineConfig = 3,
    Heuristics = 4,
    Plan = 5,
    ConvForward = 10,
    ConvBackwardFilter = 11,
    ConvBackwardData = 12,
    PointwiseOperation = 13,
    OperationGraph = 15,
    VariantPack = 16,
    Tensor = 17,
    Matmul = 18,
    MatmulOperation = 19,
    Reduction = 21,
    ReductionOperation = 22,
    Reshape = 31,
    Device = 38,
}

/// `cudnnBackendAttributeType_t` of enums, which are C ints.
#[derive(Clone, Copy, Debug)]
pub enum Enum {
    DataType = 1,
    ConvolutionMode = 7,
    HeuristicsMode = 8,
    NumericalNote = 11,
    PointwiseMode = 14,
    ReductionOperator = 18,
}

/// `cudnnBackendAttributeType_t` of other types.
const HANDLE: c_int = 0;
const BOOLEAN: c_int = 2;
const INT64: c_int = 3;
const FLOAT: c_int = 4;
const POINTER: c_int = 6;
const DESCRIPTOR: c_int = 15;
const CHAR: c_int = 24;

pub struct Descriptor {
    library: Arc<Library>,
    kind: Kind,
    raw: Handle,
}

impl Descriptor {
    pub fn new(library: &Arc<Library>, kind: Kind) -> Result<Descriptor> {
        let mut raw = 0;
        // SAFETY (all calls of this file): as `cudnn_graph.h` says, with the types that the invariant promises.
        let status = unsafe { (library.api.create_descriptor)(kind as c_int, &mut raw) };
        library.check(status, format_args!("making a descriptor of kind {kind:?}"))?;
        Ok(Descriptor { library: library.clone(), kind, raw })
    }

    fn set<T>(&self, attribute: c_int, ty: c_int, values: &[T]) -> Result<()> {
        let (count, values) = (values.len() as i64, values.as_ptr().cast());
        let status = unsafe { (self.library.api.set)(self.raw, attribute, ty, count, values) };
        let what = format_args!("attribute {attribute} of a descriptor of kind {:?}", self.kind);
        self.library.check(status, what)
    }

    /// Reads at most `values.len()` values; returns the number of values that there are.
    fn get<T>(&self, attribute: c_int, ty: c_int, values: &mut [T]) -> Result<usize> {
        let mut count = 0;
        let room = values.len() as i64;
        let to = if room == 0 { ptr::null_mut() } else { values.as_mut_ptr().cast() };
        let get = self.library.api.get;
        let status = unsafe { get(self.raw, attribute, ty, room, &mut count, to) };
        let what = format_args!("asking a descriptor of kind {:?} for {attribute}", self.kind);
        self.library.check(status, what)?;
        Ok(count.max(0) as usize)
    }

    pub fn with(self, attribute: c_int, ty: Enum, value: c_int) -> Result<Descriptor> {
        self.set(attribute, ty as c_int, &[value])?;
        Ok(self)
    }

    pub fn with_bool(self, attribute: c_int, value: bool) -> Result<Descriptor> {
        self.set(attribute, BOOLEAN, &[value])?;
        Ok(self)
    }

    pub fn with_ints(self, attribute: c_int, values: &[i64]) -> Result<Descriptor> {
        self.set(attribute, INT64, values)?;
        Ok(self)
    }

    pub fn with_float(self, attribute: c_int, value: f32) -> Result<Descriptor> {
        self.set(attribute, FLOAT, &[value])?;
        Ok(self)
    }

    pub fn with_text(self, attribute: c_int, text: &[u8]) -> Result<Descriptor> {
        self.set(attribute, CHAR, text)?;
        Ok(self)
    }

    pub fn with_handle(self, attribute: c_int, handle: Handle) -> Result<Descriptor> {
        self.set(attribute, HANDLE, &[handle])?;
        Ok(self)
    }

    /// Addresses on the device or the host, as the attribute requires.
    pub fn with_addresses(self, attribute: c_int, addresses: &[u64]) -> Result<Descriptor> {
        self.set(attribute, POINTER, addresses)?;
        Ok(self)
    }

    pub fn with_descriptors(self, attribute: c_int, of: &[&Descriptor]) -> Result<Descriptor> {
        let raw: Vec<Handle> = of.iter().map(|descriptor| descriptor.raw).collect();
        self.set(attribute, DESCRIPTOR, &raw)?;
        Ok(self)
    }

    pub fn finalized(self) -> Result<Descriptor> {
        let status = unsafe { (self.library.api.finalize)(self.raw) };
        self.library
            .check(status, format_args!("finishing a descriptor of kind {:?}", self.kind))?;
        Ok(self)
    }

    pub fn int(&self, attribute: c_int) -> Result<i64> {
        let mut value = [0];
        self.get(attribute, INT64, &mut value).map(|_| value[0])
    }

    pub fn enums(&self, attribute: c_int, ty: Enum) -> Result<Vec<c_int>> {
        let mut values = [0; 32];
        let count = self.get(attribute, ty as c_int, &mut values)?;
        Ok(values[..count.min(32)].to_vec())
    }

    pub fn text(&self, attribute: c_int) -> Result<Vec<u8>> {
        let mut text = vec![0; self.get::<u8>(attribute, CHAR, &mut [])?];
        let length = self.get(attribute, CHAR, &mut text)?;
        text.truncate(length);
        Ok(text)
    }

    /// The first `most` descriptors of a kind in an attribute.
    pub fn descriptors(
        &self,
        attribute: c_int,
        kind: Kind,
        most: usize,
    ) -> Result<Vec<Descriptor>> {
        let room = self.get::<Handle>(attribute, DESCRIPTOR, &mut [])?.clamp(1, most);
        let mut made: Vec<Descriptor> =
            (0..room).map(|_| Descriptor::new(&self.library, kind)).collect::<Result<_>>()?;
        // The library fills these descriptors; it does not replace them.
        let mut raw: Vec<Handle> = made.iter().map(|descriptor| descriptor.raw).collect();
        let count = self.get(attribute, DESCRIPTOR, &mut raw)?;
        made.truncate(count);
        Ok(made)
    }

    /// Queues this descriptor, which is a plan.
    pub fn execute(&self, handle: Handle, pack: &Descriptor) -> Result<()> {
        let status = unsafe { (self.library.api.execute)(handle, self.raw, pack.raw) };
        self.library.check(status, "queueing a network")
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        unsafe { (self.library.api.destroy_descriptor)(self.raw) };
    }
}
