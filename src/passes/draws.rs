//! Makes the states of random number generators inputs and results.

use super::rebuild::rebuild;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Builder, Graph, ValueId};
use crate::op::arg::ScalarKind;
use crate::op::{Attr, Op, Ty};
use smallvec::smallvec;

/// The numbers that a generator gave during a recording: those of `seed`, from offset `begin` up to `end`.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    pub seed: u64,
    pub begin: u64,
    pub end: u64,
}

impl Draws {
    /// The type of the state that a program takes and returns: seed and offset.
    pub fn state() -> Ty {
        Ty::new(DType::I64, &[2])
    }
}

/// For a program that is called without numbers, as `settle`: `numbers` are its scalars by slot. The states of `draws` become
/// inputs from `at` on, by which later inputs move, and results after all others. A node that draws with any other seed keeps
/// its numbers.
///
/// ```text
/// %0: i64[] = scalar() {slot=0, dtype=i64}     →     %0: i64[2] = input() {index=0, type=(i64[2])}
/// %1: i64[] = scalar() {slot=1, dtype=i64}           %1: i64[] = …element 0 of %0
/// %2: f32[9] = random(%0, %1) {sizes=[9]}            %2: i64[] = …element 1 of %0, plus the count drawn before
/// return %2                                          %3: f32[9] = random(%1, %2) {sizes=[9]}
///                                                    return %3, …(element 0, element 1 plus the count of all drawn)
/// ```
pub fn draws(
    graph: &Graph,
    numbers: &[(ScalarKind, u64)],
    draws: &[Draws],
    at: usize,
) -> Result<Graph> {
    let (mut states, mut after) = (Vec::new(), Vec::new());
    let mut begin = |b: &mut Builder, states: &mut Vec<ValueId>| -> Result<()> {
        for (k, generator) in draws.iter().enumerate().skip(states.len()) {
            let state = b.input((at + k) as u32, Draws::state())?;
            let drawn = generator.end.wrapping_sub(generator.begin);
            let parts = [element(b, state, 0, 0)?, element(b, state, 1, drawn)?];
            let parts = [b.reshape(parts[0], &[1])?, b.reshape(parts[1], &[1])?];
            after.push(b.op(Op::Concat, &parts, smallvec![Attr::Int(0)])?);
            states.push(state);
        }
        Ok(())
    };
    let with_states = rebuild(graph, |b, item| {
        begin(b, &mut states)?;
        if let (Op::Input, [Attr::Int(index), Attr::Types(types)]) = (item.op, &item.attrs[..])
            && *index as usize >= at
        {
            let moved = *index as u32 + draws.len() as u32;
            return Ok(Some(smallvec![b.input(moved, types[0].clone())?]));
        }
        let Some(seed) = seed(item.op) else { return Ok(None) };
        let drawn = [seed, seed + 1].map(|k| number(b.graph(), item.inputs[k], numbers));
        let [Some(of), Some(offset)] = drawn else { return Ok(None) };
        let Some(k) = draws.iter().position(|generator| generator.seed == of) else {
            return Ok(None);
        };
        let mut inputs = item.inputs.clone();
        inputs[seed] = element(b, states[k], 0, 0)?;
        inputs[seed + 1] = element(b, states[k], 1, offset.wrapping_sub(draws[k].begin))?;
        Ok(Some(b.ops(item.op, &inputs, item.attrs.clone())?))
    })?;
    let mut graph = match graph.nodes.is_empty() {
        false => with_states.into_owned(),
        true => {
            let mut b = Builder::new();
            begin(&mut b, &mut states)?;
            b.finish(Vec::new())
        }
    };
    graph.outputs.extend(after);
    Ok(graph)
}

/// The position of an operation's seed, which its offset follows.
fn seed(op: Op) -> Option<usize> {
    match op {
        op if op.draws() => Some(0),
        Op::Attention => Some(3),
        Op::AttentionGrad => Some(6),
        _ => None,
    }
}

/// The number of a scalar of the program.
fn number(graph: &Graph, v: ValueId, numbers: &[(ScalarKind, u64)]) -> Option<u64> {
    let node = graph.maker(v);
    let slot = (node.op == Op::Scalar).then(|| node.attrs[0].int())?;
    numbers.get(slot as usize).map(|(_, bits)| *bits)
}

/// An element of a state, plus `more`.
fn element(b: &mut Builder, state: ValueId, index: i64, more: u64) -> Result<ValueId> {
    let one = b.slice(state, &[index], &[1], &[1])?;
    let one = b.reshape(one, &[])?;
    if more == 0 {
        return Ok(one);
    }
    let more = b.constant_int(more as i64, DType::I64)?;
    b.binary(Op::Add, one, more)
}
