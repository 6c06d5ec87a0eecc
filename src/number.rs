//! The numbers in a piece of data, which may differ between two programs of the same structure.

use crate::shape::{Dims, Layout};

/// A number in a piece of data.
pub enum Number<'a> {
    Int(&'a mut i64),
    /// Number of elements of a dimension.
    Size(&'a mut i64),
    Bytes(&'a mut u64),
    Float(&'a mut f64),
}

/// Data whose numbers can be visited, always in the same order. Two pieces of data have the same structure if they are
/// equal with all their numbers set to 0.
pub trait Numbers {
    fn numbers(&mut self, f: &mut dyn FnMut(Number));
}

impl Numbers for Dims {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        self.iter_mut().for_each(|n| f(Number::Size(n)));
    }
}

impl Numbers for Layout {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        self.sizes.numbers(f);
        self.strides.iter_mut().for_each(|n| f(Number::Int(n)));
        f(Number::Int(&mut self.offset));
    }
}
