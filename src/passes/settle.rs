//! Makes the numbers of the argument block constants.

use super::rebuild::{Values, rebuild};
use crate::error::Result;
use crate::graph::Graph;
use crate::internal;
use crate::op::arg::ScalarKind;
use crate::op::{Attr, Op};
use smallvec::smallvec;
use std::borrow::Cow;

/// For a program that is called without scalars: `numbers` are these by slot, as kind and bits.
///
/// ```text
/// %0: f64[] = scalar() {slot=0, dtype=f64}     →     %0: f64[] = const() {value=0.1, dtype=f64}
/// return %0                                          return %0
/// ```
pub fn settle<'g>(graph: &'g Graph, numbers: &[(ScalarKind, u64)]) -> Result<Cow<'g, Graph>> {
    rebuild(graph, |b, item| {
        let (Op::Scalar, &[Attr::Int(slot), Attr::DType(dtype)]) = (item.op, &item.attrs[..])
        else {
            return Ok(None);
        };
        let number = usize::try_from(slot).ok().and_then(|slot| numbers.get(slot));
        let Some(&(kind, bits)) = number.filter(|(kind, _)| kind.dtype() == dtype) else {
            return internal!("there is no scalar {slot} of {dtype}");
        };
        let made: Values = smallvec![match kind {
            ScalarKind::Float => b.constant(f64::from_bits(bits), dtype)?,
            ScalarKind::Int | ScalarKind::Bool => b.constant_int(bits as i64, dtype)?,
        }];
        Ok(Some(made))
    })
}
