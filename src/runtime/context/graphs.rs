//! A graph as part of a trace: every node recorded as a call of its primitive. So a program that came as text is compiled,
//! cached and combined with the operations recorded around it like any other.

use super::Context;
use super::elements::Temporary;
use crate::aten;
use crate::error::Result;
use crate::graph::text::body_text;
use crate::graph::{Graph, Node, ValueId};
use crate::op::arg::{Arg, NodeArg, ScalarKind};
use crate::op::{Arity, Attr, Class, Op, Ty, choices};
use crate::record::{Operator, View};
use crate::shape::Layout;
use crate::trace::{ArgRef, Call, TensorRef};
use crate::{internal, invalid};

/// A number of the argument block.
pub type Number = (ScalarKind, u64);

/// The tensor that stands for a value of the graph.
enum GraphValue<'a> {
    Input(TensorRef<'a>),
    Made(Temporary<'a>),
}

struct Recorder<'a> {
    context: &'a Context,
    graph: &'a Graph,
    /// Dense views of the values' types.
    views: Vec<View>,
    inputs: &'a [TensorRef<'a>],
    numbers: &'a [Number],
    made: Vec<Option<GraphValue<'a>>>,
    /// The first output that a value is written to, if any.
    outs: Vec<Option<TensorRef<'a>>>,
}

impl Context {
    /// Records the graph on `inputs` and `numbers` (its scalars, by slot); results are written to `outs`, which have the
    /// types of its outputs. Errors: `InvalidArgument` for other types, kinds or counts.
    pub fn record_graph(
        &self,
        graph: &Graph,
        inputs: &[TensorRef],
        numbers: &[Number],
        outs: &[TensorRef],
    ) -> Result<()> {
        check(graph, inputs, numbers)?;
        let view = |ty: &Ty| View { dtype: ty.dtype, layout: Layout::contiguous(&ty.sizes) };
        let count = graph.values.len();
        let mut recorder = Recorder {
            context: self,
            graph,
            views: graph.values.iter().map(|value| view(&value.ty)).collect(),
            inputs,
            numbers,
            made: (0..count).map(|_| None).collect(),
            outs: vec![None; count],
        };
        for (value, out) in graph.outputs.iter().zip(outs) {
            if graph.maker(*value).op != Op::Input {
                recorder.outs[value.0 as usize].get_or_insert(*out);
            }
        }
        // Tensors borrow the views, which are not touched again.
        let views = std::mem::take(&mut recorder.views);
        for node in &graph.nodes {
            recorder.node(node, &views)?;
        }
        for (value, out) in graph.outputs.iter().zip(outs) {
            recorder.copy(*value, out, &views)?;
        }
        Ok(())
    }

    /// Whether a tensor lies in its buffer.
    pub fn fits(&self, tensor: &TensorRef) -> Result<bool> {
        Ok(self.trace.lock()?.fits(tensor))
    }

    /// Records a copy from one tensor to another one of its type.
    pub fn copy(&self, from: TensorRef, to: TensorRef) -> Result<()> {
        let Some(copy) = aten::find("torchacc::copy") else { return internal!("no row copies") };
        let (op, args) = (Operator::Native(copy), [ArgRef::Tensor(from)]);
        self.record(&Call { op, args: &args, outs: &[to] })
    }
}

fn check(graph: &Graph, given: &[TensorRef], numbers: &[Number]) -> Result<()> {
    for node in graph.nodes.iter().filter(|node| node.op == Op::Input) {
        let [Attr::Int(index), Attr::Types(types)] = &node.attrs[..] else {
            return internal!("an input has an index and a type");
        };
        let tensor = usize::try_from(*index).ok().and_then(|index| given.get(index));
        let Some(tensor) = tensor else {
            return invalid!("the graph has an input {index}, {} tensors given", given.len());
        };
        let (wanted, given) = (&types[0], Ty::new(tensor.dtype, tensor.sizes));
        if *wanted != given {
            return invalid!("input {index} of the graph is {wanted}, given {given}");
        }
    }
    check_numbers(graph, numbers)
}

/// Errors: a scalar of the graph is missing, or of another kind.
pub(super) fn check_numbers(graph: &Graph, numbers: &[Number]) -> Result<()> {
    for node in graph.nodes.iter().filter(|node| node.op == Op::Scalar) {
        let [Attr::Int(slot), Attr::DType(dtype)] = node.attrs[..] else {
            return internal!("a scalar has a slot and a dtype");
        };
        let given = usize::try_from(slot).ok().and_then(|slot| numbers.get(slot));
        if given.is_none_or(|number| number.0.dtype() != dtype) {
            return invalid!("scalar {slot} of the graph is {dtype}, which is not given");
        }
    }
    Ok(())
}

impl<'a> Recorder<'a> {
    fn located<'b>(&'b self, value: ValueId, views: &'b [View]) -> Result<TensorRef<'b>> {
        match &self.made[value.0 as usize] {
            Some(GraphValue::Input(tensor)) => Ok(*tensor),
            Some(GraphValue::Made(buffer)) => {
                Ok(TensorRef::new(buffer.1, &views[value.0 as usize]))
            }
            None => internal!("a value is used before it is made"),
        }
    }

    fn node(&mut self, node: &Node, views: &[View]) -> Result<()> {
        if let (Op::Input, Some(Attr::Int(index))) = (node.op, node.attrs.first()) {
            self.made[node.first.0 as usize] =
                Some(GraphValue::Input(self.inputs[*index as usize]));
            return Ok(());
        }
        let mut written = Written::default();
        let (op, args) = self.call(node, views, &mut written)?;
        // Values that are no outputs of the graph get new buffers.
        let made: Vec<GraphValue> = node
            .outputs()
            .map(|value| match self.outs[value.0 as usize] {
                Some(out) => GraphValue::Input(out),
                None => {
                    GraphValue::Made(Temporary::new(self.context, self.graph.ty(value).nbytes()))
                }
            })
            .collect();
        let outs: Vec<TensorRef> = made
            .iter()
            .zip(node.outputs())
            .map(|(result, value)| match result {
                GraphValue::Input(tensor) => *tensor,
                GraphValue::Made(buffer) => TensorRef::new(buffer.1, &views[value.0 as usize]),
            })
            .collect();
        self.context.record(&Call { op, args: &args, outs: &outs })?;
        drop(args);
        for (result, value) in made.into_iter().zip(node.outputs()) {
            self.made[value.0 as usize] = Some(result);
        }
        Ok(())
    }

    /// The operator and arguments of the call for a node.
    fn call<'b>(
        &'b self,
        node: &'b Node,
        views: &'b [View],
        written: &'b mut Written,
    ) -> Result<(Operator, Vec<ArgRef<'b>>)> {
        match (node.op, &node.attrs[..]) {
            // A number becomes a tensor of rank 0, so that it is not promoted differently next to tensors.
            (Op::Scalar, &[Attr::Int(slot), Attr::DType(dtype)]) => {
                let (kind, bits) = self.numbers[slot as usize];
                Ok((
                    primitive(Op::Cast)?,
                    vec![ArgRef::Scalar { kind, bits }, ArgRef::DType(dtype)],
                ))
            }
            (Op::Host, [Attr::Int(id), _, Attr::Args(args)]) => {
                written.bools = args.iter().map(bytes).collect();
                let mut operands = node.inputs.iter().copied();
                let given = args
                    .iter()
                    .zip(written.bools.iter())
                    .map(|(arg, bools)| self.argument(arg, bools, &mut operands, views));
                Ok((Operator::Host(*id as u32), given.collect::<Result<_>>()?))
            }
            (op, attrs) => {
                let operands = node.inputs.iter().map(|&value| self.located(value, views));
                let operands = operands.collect::<Result<Vec<_>>>()?;
                let mut args: Vec<ArgRef> = match op.row().arity {
                    Arity::AtLeast(_) => {
                        vec![ArgRef::Tensors(operands.into_iter().map(Some).collect())]
                    }
                    _ => operands.into_iter().map(ArgRef::Tensor).collect(),
                };
                written.bodies = attrs.iter().map(body).collect();
                let named = attrs.iter().zip(&written.bodies).zip(op.row().attrs);
                let attrs = named.map(|((attr, body), name)| attribute(attr, body, name));
                args.extend(attrs.collect::<Result<Vec<_>>>()?);
                Ok((primitive(op)?, args))
            }
        }
    }

    /// One argument of a CPU fallback; tensors and numbers are the node's operands in order.
    fn argument<'b>(
        &'b self,
        arg: &'b NodeArg,
        bools: &'b [u8],
        operands: &mut impl Iterator<Item = ValueId>,
        views: &'b [View],
    ) -> Result<ArgRef<'b>> {
        let mut next = || match operands.next() {
            Some(value) => Ok(value),
            None => internal!("a CPU fallback has too few operands"),
        };
        Ok(match arg {
            Arg::Tensor(_) => ArgRef::Tensor(self.located(next()?, views)?),
            Arg::Tensors(reads) => {
                let mut list = Vec::new();
                for is_there in reads {
                    let tensor = is_there.map(|()| self.located(next()?, views));
                    list.push(tensor.transpose()?);
                }
                ArgRef::Tensors(list)
            }
            Arg::Scalar { .. } => {
                let maker = self.graph.maker(next()?);
                let (Op::Scalar, Some(Attr::Int(slot))) = (maker.op, maker.attrs.first()) else {
                    return invalid!("a number of a CPU fallback must be a scalar of the graph");
                };
                let (kind, bits) = self.numbers[*slot as usize];
                ArgRef::Scalar { kind, bits }
            }
            Arg::None => ArgRef::None,
            Arg::Int(n) => ArgRef::Int(*n),
            Arg::Float(x) => ArgRef::Float(*x),
            Arg::Bool(b) => ArgRef::Bool(*b),
            Arg::Ints(list) => ArgRef::Ints(list),
            Arg::Floats(list) => ArgRef::Floats(list),
            Arg::Bools(_) => ArgRef::Bools(bools),
            Arg::DType(dtype) => ArgRef::DType(*dtype),
            Arg::Str(text) => ArgRef::Str(text),
        })
    }

    /// Copies a value to an output, unless it was written there: it is an input, or occurs twice among the outputs.
    fn copy(&self, value: ValueId, out: &TensorRef, views: &[View]) -> Result<()> {
        let tensor = self.located(value, views)?;
        if tensor.buffer == out.buffer {
            return Ok(());
        }
        self.context.copy(tensor, *out)
    }
}

/// Data that arguments borrow and that is not in the graph.
#[derive(Default)]
struct Written {
    /// Bools of a CPU fallback, by argument.
    bools: Vec<Vec<u8>>,
    /// Programs as text, by attribute.
    bodies: Vec<String>,
}

fn body(attr: &Attr) -> String {
    match attr {
        Attr::Body(body) => body_text(body),
        _ => String::new(),
    }
}

fn bytes(arg: &NodeArg) -> Vec<u8> {
    match arg {
        Arg::Bools(list) => list.iter().map(|&b| b as u8).collect(),
        _ => Vec::new(),
    }
}

fn primitive(op: Op) -> Result<Operator> {
    match aten::find(op.row().name).filter(|_| op.class() != Class::Host) {
        Some(row) => Ok(Operator::Native(row)),
        None => internal!("{} cannot be recorded", op.row().name),
    }
}

fn attribute<'a>(attr: &'a Attr, body: &'a str, name: &str) -> Result<ArgRef<'a>> {
    Ok(match attr {
        Attr::Int(n) if let Some(choices) = choices(name) => ArgRef::Str(choices[*n as usize]),
        Attr::Int(n) => ArgRef::Int(*n),
        Attr::Float(x) => ArgRef::Float(*x),
        Attr::Bool(b) => ArgRef::Bool(*b),
        Attr::Ints(list) => ArgRef::Ints(list),
        Attr::DType(dtype) => ArgRef::DType(*dtype),
        Attr::Body(_) => ArgRef::Str(body),
        other => return internal!("{other:?} is not an attribute of a primitive"),
    })
}
