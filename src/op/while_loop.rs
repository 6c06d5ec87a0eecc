//! The primitive of loops whose number of rounds depends on data.

use super::array::Array;
use super::module::{Body, computed, results_of};
use super::{Attr, Eval, Ty, Tys, check};
use crate::dtype::DType;
use crate::error::Result;
use crate::{internal, invalid};
use std::sync::Arc;

pub const WHILE: Eval = Eval::Whole(run);

/// The condition and the round in a node's attributes.
pub fn parts(attrs: &[Attr]) -> Option<[&Arc<Body>; 2]> {
    match attrs {
        [Attr::Body(condition), Attr::Body(round)] => Some([condition, round]),
        _ => None,
    }
}

pub fn while_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let Some([condition, round]) = parts(attrs) else {
        return check::wrong_attrs("condition: body, round: body", attrs);
    };
    let goes_on = results_of(condition, inputs)?;
    if goes_on[..] != [Ty::new(DType::Bool, &[])] {
        return invalid!("its condition is not one bool");
    }
    let carried = results_of(round, inputs)?;
    let is_same = |(to, from): (&Ty, &&Ty)| to == *from;
    if carried.len() > inputs.len() || !carried.iter().zip(inputs).all(is_same) {
        return invalid!("a round gives values of other types than it takes");
    }
    Ok(carried)
}

fn run(inputs: &[&Array], attrs: &[Attr], outputs: &[Ty]) -> Result<Vec<Array>> {
    let Some([condition, round]) = parts(attrs) else { return internal!("a loop without bodies") };
    let mut values: Vec<Array> = inputs.iter().map(|&array| array.clone()).collect();
    while computed(condition, values.clone())?[0].i64(0) != 0 {
        let next = computed(round, values.clone())?;
        values.splice(..outputs.len(), next);
    }
    values.truncate(outputs.len());
    Ok(values)
}
