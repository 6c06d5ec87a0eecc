//! Tuples, in which PyTorch/XLA returns several results, are replaced by their elements.

use super::attribute::Attribute;
use super::cursor::error_at;
use super::tree::{Name, Operation, Region};
use crate::error::Result;
use std::collections::HashMap;

/// The most elements that all uses of tuples in a function are replaced by: a short text must not fill the memory.
const MAX_TAKEN: usize = 1 << 20;

#[derive(Default)]
struct Tuples<'a> {
    /// Elements by the names of tuples.
    tuples: HashMap<&'a str, Vec<Name<'a>>>,
    taken: usize,
}

/// Removes tuples from a function's body: an operation that takes one takes its elements.
pub fn flatten<'a>(body: &mut Region<'a>) -> Result<()> {
    flatten_region(body, &mut Tuples::default())
}

fn flatten_region<'a>(region: &mut Region<'a>, known: &mut Tuples<'a>) -> Result<()> {
    for mut op in std::mem::take(&mut region.body) {
        let is_of_tuple = op.operands.iter().any(|x| known.tuples.contains_key(x.name));
        if is_of_tuple {
            let mut operands = Vec::new();
            for x in &op.operands {
                match known.tuples.get(x.name) {
                    Some(elements) if known.taken + elements.len() > MAX_TAKEN => {
                        let text = format!("more than {MAX_TAKEN} elements of tuples are taken");
                        return Err(error_at(x.at, text));
                    }
                    Some(elements) => {
                        known.taken += elements.len();
                        operands.extend(elements);
                    }
                    None => operands.push(*x),
                }
            }
            op.operands = operands;
        }
        let made = op.results.first().map(|result| result.0);
        match (op.name, made) {
            ("stablehlo.tuple", Some(name)) => {
                if op.operands.len() != op.types.len() {
                    return Err(error_at(op.at, "a tuple of other elements than its type says"));
                }
                known.tuples.insert(name, op.operands);
            }
            ("stablehlo.get_tuple_element", Some(name)) => {
                let index = index(&op).filter(|_| is_of_tuple);
                let Some(&element) = index.and_then(|index| op.operands.get(index)) else {
                    return Err(error_at(op.at, "there is no such element of a tuple here"));
                };
                known.tuples.insert(name, vec![element]);
            }
            _ => {
                if let (true, Some(name)) = (op.is_tuple, made) {
                    let element = |index: usize| Name { name, index, at: op.at };
                    known.tuples.insert(name, (0..op.types.len()).map(element).collect());
                    op.results = vec![(name, op.types.len())];
                }
                for inner in &mut op.regions {
                    flatten_region(inner, known)?;
                }
                region.body.push(op);
            }
        }
    }
    Ok(())
}

/// `%0[1]`, or `{index = 1 : i32}`.
fn index(op: &Operation) -> Option<usize> {
    let find = |wanted: &str| op.attrs.iter().find(|(name, _)| *name == wanted);
    match find("index").or_else(|| find("ranges")) {
        Some((_, Attribute::Int(index))) => usize::try_from(*index).ok(),
        Some((_, Attribute::List(list))) => match &list[..] {
            [Attribute::Int(index)] => usize::try_from(*index).ok(),
            _ => None,
        },
        _ => None,
    }
}
