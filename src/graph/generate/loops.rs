//! Loops of a few rounds.

use super::{Generator, any};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;
use crate::graph::math::{Math, V};
use crate::graph::module::body_of;
use crate::op::{Attr, Op, Ty};
use smallvec::smallvec;
use std::sync::Arc;

/// `(count, y, z, x)` → `(count, y, z)`: a new `y` is computed from the values, and the old one becomes `z`. After at most four
/// rounds the count is not negative and large enough, whatever it was.
pub fn while_loop(g: &mut Generator) -> Result<()> {
    let y = any(g, 0, |dtype| dtype.has_arithmetic() && dtype != DType::Bool)?;
    let ty = g.builder.ty(y).clone();
    let number = Ty::new(DType::I64, &[]);
    let operands = [g.of_type(&number)?, y, g.of_type(&ty)?, g.of_type(&ty)?];
    let types = [number, ty.clone(), ty.clone(), ty];
    let (last, how) = (g.rng.below(4) as f64, g.rng.below(5));

    let body = |results: &dyn Fn([V<'_>; 4]) -> Vec<ValueId>| -> Result<Attr> {
        let math = Math::default();
        let inputs: Vec<V> = (types.iter().enumerate())
            .map(|(i, ty)| math.build(|b| b.input(i as u32, ty.clone())))
            .collect();
        let outputs = results([inputs[0], inputs[1], inputs[2], inputs[3]]);
        math.check()?;
        let graph = math.into_builder().finish(outputs);
        Ok(Attr::Body(Arc::new(body_of(&graph, types.len()))))
    };
    let condition = body(&|[count, ..]| vec![count.lt(last).id])?;
    let round = body(&|[count, y, z, x]| {
        let next = match how {
            0 => -y,
            1 => y.binary(Op::Max, x),
            2 => x - y,
            3 => y.binary(Op::Min, z),
            _ => x,
        };
        vec![(count.max(0.0) + 1.0).id, next.id, y.id]
    })?;
    g.node(Op::While, &operands, smallvec![condition, round])?;
    Ok(())
}
