//! Dense arrays in host memory for the reference interpreter: one element at a time, no tricks.

use super::Ty;
use crate::dtype::{DType, Float8};
use crate::error::{Code, Error};
use half::{bf16, f16};
use std::panic::panic_any;

/// `count` times the value. Panics as [`reserved`].
pub fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    let mut list = reserved(count);
    list.resize(count, value);
    list
}

/// All items of an iterator that knows their number. Panics as [`reserved`].
pub fn collected<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut list = reserved(items.size_hint().0);
    list.extend(items);
    list
}

/// An empty list with room for `count` values. Panics with the error `OutOfMemory` if the system gives
/// no memory: evaluations and kernels have no other way out, and callers that run one on a program's
/// sizes catch it.
pub fn reserved<T>(count: usize) -> Vec<T> {
    let mut list = Vec::new();
    make_room(&mut list, count);
    list
}

/// Reserves room for `count` values in an empty list. Panics as [`reserved`].
pub fn make_room<T>(list: &mut Vec<T>, count: usize) {
    if list.try_reserve_exact(count).is_err() {
        refuse::<T>(count);
    }
}

/// Panics with the error `OutOfMemory`, for `count` values.
pub fn refuse<T>(count: usize) -> ! {
    let nbytes = count.saturating_mul(size_of::<T>());
    panic_any(Error::new(Code::OutOfMemory, format!("cannot allocate {nbytes} bytes")));
}

/// A number as a bool or, rounded towards zero, as an integer, whose low bits a narrower dtype keeps. NaN and numbers out of
/// range become the result of this machine's conversion, since PyTorch's kernels are C++, which leaves them undefined: that to
/// 32 bits for signed integers of up to 32, else that to 64.
#[inline(always)]
pub fn as_integer(value: f64, dtype: DType) -> i64 {
    let is_x86 = cfg!(any(target_arch = "x86_64", target_arch = "x86"));
    match dtype {
        DType::Bool => (value != 0.0) as i64,
        DType::I8 | DType::I16 | DType::I32 => {
            let fits = value > -2147483649.0 && value < 2147483648.0;
            if is_x86 && !fits { i32::MIN as i64 } else { value as i32 as i64 }
        }
        _ => {
            let fits = (-9223372036854775808.0..9223372036854775808.0).contains(&value);
            if is_x86 && !fits { i64::MIN } else { value as i64 }
        }
    }
}

/// The least and the greatest number of an integer dtype, of `Bool` too.
pub fn integer_range(dtype: DType) -> (i64, i64) {
    let unused = 64 - 8 * dtype.size() as u32;
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, u8::MAX as i64),
        _ => (i64::MIN >> unused, i64::MAX >> unused),
    }
}

/// A dense row-major array.
#[derive(Debug, PartialEq)]
pub struct Array {
    pub ty: Ty,
    pub bytes: Vec<u8>,
}

impl Clone for Array {
    fn clone(&self) -> Array {
        let mut bytes = filled(0, self.bytes.len());
        bytes.copy_from_slice(&self.bytes);
        Array { ty: self.ty.clone(), bytes }
    }
}

impl Array {
    /// Panics as [`filled`].
    pub fn zeros(ty: &Ty) -> Array {
        Array { ty: ty.clone(), bytes: filled(0, ty.nbytes()) }
    }

    pub fn from_f64(dtype: DType, sizes: &[i64], values: &[f64]) -> Array {
        let mut a = Array::zeros(&Ty::new(dtype, sizes));
        assert_eq!(values.len(), a.len(), "one value per element");
        values.iter().enumerate().for_each(|(i, &v)| a.set_f64(i, v));
        a
    }

    pub fn len(&self) -> usize {
        self.ty.numel() as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of element `i`, of any dtype.
    pub fn raw(&self, i: usize) -> &[u8] {
        let size = self.ty.dtype.size();
        &self.bytes[i * size..(i + 1) * size]
    }

    pub fn set_raw(&mut self, i: usize, bytes: &[u8]) {
        let size = self.ty.dtype.size();
        self.bytes[i * size..(i + 1) * size].copy_from_slice(bytes);
    }

    fn chunk<const N: usize>(&self, i: usize) -> [u8; N] {
        self.raw(i).try_into().expect("element size is that of the dtype")
    }

    /// Element `i` as f64: exact for floats; integers as if converted.
    pub fn f64(&self, i: usize) -> f64 {
        if let Some(format) = Float8::of(self.ty.dtype) {
            return format.decode(self.raw(i)[0]) as f64;
        }
        match self.ty.dtype {
            DType::F16 => f16::from_le_bytes(self.chunk(i)).to_f64(),
            DType::BF16 => bf16::from_le_bytes(self.chunk(i)).to_f64(),
            DType::F32 => f32::from_le_bytes(self.chunk(i)) as f64,
            DType::F64 => f64::from_le_bytes(self.chunk(i)),
            _ => self.i64(i) as f64,
        }
    }

    /// Element `i` as i64; floats are truncated, as C casts do.
    pub fn i64(&self, i: usize) -> i64 {
        match self.ty.dtype {
            DType::Bool => (self.raw(i)[0] != 0) as i64,
            DType::U8 => self.raw(i)[0] as i64,
            DType::I8 => self.raw(i)[0] as i8 as i64,
            DType::I16 => i16::from_le_bytes(self.chunk(i)) as i64,
            DType::I32 => i32::from_le_bytes(self.chunk(i)) as i64,
            DType::I64 => i64::from_le_bytes(self.chunk(i)),
            d if d.is_float() => self.f64(i) as i64,
            d => panic!("no arithmetic on {d}"),
        }
    }

    /// Rounds `v` to the dtype (floats; half types by way of f32, the dtype of their computation), or stores it as
    /// [`Array::set_i64`] would after truncation.
    pub fn set_f64(&mut self, i: usize, v: f64) {
        if let Some(format) = Float8::of(self.ty.dtype) {
            return self.set_raw(i, &[format.encode(v as f32)]);
        }
        match self.ty.dtype {
            DType::F16 => self.set_raw(i, &f16::from_f32(v as f32).to_le_bytes()),
            DType::BF16 => self.set_raw(i, &bf16::from_f32(v as f32).to_le_bytes()),
            DType::F32 => self.set_raw(i, &(v as f32).to_le_bytes()),
            DType::F64 => self.set_raw(i, &v.to_le_bytes()),
            dtype => self.set_i64(i, as_integer(v, dtype)),
        }
    }

    /// Wraps `v` to the width of an integer dtype; `Bool` becomes `v != 0`; floats are rounded.
    pub fn set_i64(&mut self, i: usize, v: i64) {
        match self.ty.dtype {
            DType::Bool => self.set_raw(i, &[(v != 0) as u8]),
            DType::U8 | DType::I8 => self.set_raw(i, &[v as u8]),
            DType::I16 => self.set_raw(i, &(v as i16).to_le_bytes()),
            DType::I32 => self.set_raw(i, &(v as i32).to_le_bytes()),
            DType::I64 => self.set_raw(i, &v.to_le_bytes()),
            d if d.is_float() => self.set_f64(i, v as f64),
            d => panic!("no arithmetic on {d}"),
        }
    }

    /// Stores a slot of an argument block: `bits` are an f64 for a float dtype, else an i64.
    pub fn set_scalar(&mut self, i: usize, bits: u64) {
        if self.ty.dtype.is_float() {
            self.set_f64(i, f64::from_bits(bits));
        } else {
            self.set_i64(i, bits as i64);
        }
    }

    pub fn to_f64s(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.f64(i)).collect()
    }
}
