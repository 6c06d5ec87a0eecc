//! The meaning of a graph: every node in order through its row of the table. The reference that plans and backends are
//! compared with.

use super::Graph;
use crate::error::Result;
use crate::invalid;
use crate::op::array::Array;
use crate::op::evaluate::evaluate;
use crate::op::{Op, Ty};

/// The outputs of `graph`. `inputs` are the program's inputs by index, `scalars` the argument block: 8 bytes a slot, an
/// f64, i64 or bool (0 or 1) as the graph declares. Errors: those of the rows, at the node's site; an input of another
/// type than declared.
pub fn interpret(graph: &Graph, inputs: &[Array], scalars: &[u64]) -> Result<Vec<Array>> {
    let mut values: Vec<Array> = Vec::with_capacity(graph.values.len());
    for node in &graph.nodes {
        let outs: Vec<Ty> = node.outputs().map(|v| graph.ty(v).clone()).collect();
        let operands: Vec<&Array> = node.inputs.iter().map(|v| &values[v.0 as usize]).collect();
        let results = match node.op {
            Op::Input => input(inputs, node.attrs[0].int(), &outs[0]).map(|a| vec![a]),
            Op::Scalar => scalar(scalars, node.attrs[0].int(), &outs[0]).map(|a| vec![a]),
            op => evaluate(op, &operands, &node.attrs, &outs),
        };
        values.extend(results.map_err(|e| e.within(node.op.name()).at(node.site))?);
    }
    Ok(graph.outputs.iter().map(|v| values[v.0 as usize].clone()).collect())
}

fn input(inputs: &[Array], index: i64, ty: &Ty) -> Result<Array> {
    match inputs.get(index as usize) {
        Some(array) if array.ty == *ty => Ok(array.clone()),
        Some(array) => invalid!("input {index} is declared as {ty:?}, but is {:?}", array.ty),
        None => invalid!("input {index} of {} is missing", inputs.len()),
    }
}

fn scalar(scalars: &[u64], slot: i64, ty: &Ty) -> Result<Array> {
    let Some(&bits) = scalars.get(slot as usize) else {
        return invalid!("scalar {slot} of {} is missing", scalars.len());
    };
    let mut array = Array::zeros(ty);
    array.set_scalar(0, bits);
    Ok(array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::error::Code;
    use crate::graph::Builder;
    use smallvec::smallvec;

    /// `(input 0 * scalar 1, take(input 0, input 1))`
    fn example() -> Graph {
        let mut b = Builder::new();
        let x = b.input(0, Ty::new(DType::F64, &[3])).unwrap();
        let index = b.input(1, Ty::new(DType::I64, &[2])).unwrap();
        let scalar = b.scalar(1, DType::F64).unwrap();
        let scalar = b.broadcast(scalar, &[3]).unwrap();
        let scaled = b.binary(Op::Mul, x, scalar).unwrap();
        b.site = 12;
        let taken = b.op(Op::Take, &[x, index], smallvec![crate::op::Attr::Int(0)]).unwrap();
        b.finish(vec![scaled, taken])
    }

    #[test]
    fn outputs_or_the_error_of_the_node_to_blame() {
        let graph = example();
        let x = Array::from_f64(DType::F64, &[3], &[1.0, 2.0, 3.0]);
        let index = |last: f64| Array::from_f64(DType::I64, &[2], &[2.0, last]);
        let scalars = [0, 0.5f64.to_bits()];
        let y = interpret(&graph, &[x.clone(), index(0.0)], &scalars).unwrap();
        assert_eq!(y[0].to_f64s(), [0.5, 1.0, 1.5]);
        assert_eq!(y[1].to_f64s(), [3.0, 1.0]);

        let error = interpret(&graph, &[x.clone(), index(3.0)], &scalars).unwrap_err();
        assert_eq!((error.code, error.site), (Code::IndexError, 12));
        assert!(error.message.starts_with("take: index out of range in self"), "{error}");
        let fails = |inputs: &[Array], scalars: &[u64], message: &str| {
            let error = interpret(&graph, inputs, scalars).unwrap_err();
            assert!(error.message.contains(message), "{error}");
        };
        fails(std::slice::from_ref(&x), &scalars, "input 1 of 1 is missing");
        fails(&[index(0.0), index(0.0)], &scalars, "input 0 is declared as");
        fails(&[x, index(0.0)], &scalars[..1], "scalar 1 of 1 is missing");
    }
}
