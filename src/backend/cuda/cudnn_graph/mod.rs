//! Computations that a library may do in place of our kernels, as graphs of its operations: attention and convolution.
//!
//! **Invariant:** a graph is plain data that describes its computation completely: where there is no library, tests compute
//! it node by node (`emulated`). A request has exactly the primitive's meaning, random numbers included; where a library would
//! compute something else, there is no request.

mod attention;
mod conv;

use super::emit::KernelArg;
use crate::dtype::DType;
use crate::op::{Attr, Op};
use crate::plan::{Operand, Step};
use crate::shape::{Dims, Layout};

/// Operations in topological order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CudnnGraph {
    pub tensors: Vec<Tensor>,
    pub nodes: Vec<Node>,
    /// Whether a library may add numbers in any order, even a different one in each run.
    pub any_order: bool,
}

/// Index of a tensor.
pub type Id = usize;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// The type that elements are rounded to.
    pub dtype: DType,
    pub sizes: Dims,
    /// In elements.
    pub strides: Dims,
    pub residency: Residency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Residency {
    /// In memory of the device. Addresses are passed in the order of these tensors, aligned to 16 bytes.
    Memory,
    /// Nowhere: it is never materialized.
    Virtual,
    /// One number: its bits as f32.
    Number(u32),
}

/// Dimensions of size 1 are broadcast to those of the result, and groups of heads to all heads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// Product of the matrices in the last two dimensions, summed in f32.
    Matmul {
        a: Id,
        b: Id,
        c: Id,
    },
    Map {
        mode: Mode,
        operands: Vec<Id>,
        y: Id,
    },
    /// Index of each element of y along `axis`.
    Index {
        axis: usize,
        like: Id,
        y: Id,
    },
    /// Reduces the dimensions in which y is smaller than x; each element of y combines neighbours.
    Reduce {
        mode: Fold,
        x: Id,
        y: Id,
    },
    /// y is x with the last two dimensions exchanged.
    Transpose {
        x: Id,
        y: Id,
    },
    /// As `Op::Conv`; `made` says which of the three tensors is computed.
    Conv {
        made: Part,
        x: Id,
        w: Id,
        y: Id,
        window: Window,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    Same,
    Add,
    Sub,
    Mul,
    Div,
    Exp,
    Log,
    /// Whether the first operand is at least the second.
    AtLeast,
    /// The first operand where the third holds, else the second.
    Select,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    Sum,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Y,
    X,
    W,
}

/// Parameters of each spatial dimension; padding is equal before and after.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    pub stride: Dims,
    pub padding: Dims,
    pub dilation: Dims,
}

/// A graph and the memory that it operates on.
#[derive(Default)]
pub struct Request {
    pub cudnn_graph: CudnnGraph,
    pub kernel_args: Vec<KernelArg>,
    /// Bytes of scratch memory among the arguments.
    pub scratch: u64,
}

/// The request to a library in place of a step's kernels, if one is possible.
pub fn request(op: Op, attrs: &[Attr], step: &Step) -> Option<Request> {
    let (reads, writes) = (&step.reads, &step.writes);
    match op {
        Op::Attention => attention::attention(attrs, reads, writes),
        Op::AttentionGrad => attention::attention_grad(attrs, reads, writes),
        Op::Conv | Op::ConvGradInput | Op::ConvGradWeight => {
            conv::conv(op, attrs, reads, &writes[0])
        }
        _ => None,
    }
}

impl Request {
    fn tensor(&mut self, dtype: DType, layout: &Layout, residency: Residency) -> Id {
        let (sizes, strides) = (layout.sizes.clone(), layout.strides.clone());
        self.cudnn_graph.tensors.push(Tensor { dtype, sizes, strides, residency });
        self.cudnn_graph.tensors.len() - 1
    }

    /// An operand, viewed in another layout.
    fn seen(&mut self, operand: &Operand, layout: &Layout) -> Id {
        self.kernel_args.push(KernelArg::of(operand));
        self.tensor(operand.dtype, layout, Residency::Memory)
    }

    /// An operand in its own layout.
    fn operand(&mut self, operand: &Operand) -> Id {
        self.seen(operand, &operand.layout)
    }

    /// An operand with the last two dimensions exchanged.
    fn turned(&mut self, operand: &Operand) -> Id {
        let mut layout = operand.layout.clone();
        let rank = layout.rank();
        layout.sizes.swap(rank - 2, rank - 1);
        layout.strides.swap(rank - 2, rank - 1);
        self.seen(operand, &layout)
    }

    /// An f32 tensor in scratch memory of its own.
    fn scratch(&mut self, sizes: &[i64]) -> Id {
        let base = self.scratch.next_multiple_of(256);
        let layout = Layout::contiguous(sizes);
        self.scratch = base + 4 * layout.numel() as u64;
        self.kernel_args.push(KernelArg::Scratch(base));
        self.tensor(DType::F32, &layout, Residency::Memory)
    }

    fn number(&mut self, value: f32) -> Id {
        let one = Layout::contiguous(&[1; 4]);
        self.tensor(DType::F32, &one, Residency::Number(value.to_bits()))
    }

    fn made(&mut self, dtype: DType, sizes: &[i64]) -> Id {
        self.tensor(dtype, &Layout::contiguous(sizes), Residency::Virtual)
    }

    fn sizes(&self, id: Id) -> Dims {
        self.cudnn_graph.tensors[id].sizes.clone()
    }

    fn add(&mut self, node: Node) {
        self.cudnn_graph.nodes.push(node);
    }

    fn matmul_to(&mut self, a: Id, b: Id, c: Id) {
        self.add(Node::Matmul { a, b, c });
    }

    /// With a virtual f32 result.
    fn matmul(&mut self, a: Id, b: Id, sizes: &[i64]) -> Id {
        let c = self.made(DType::F32, sizes);
        self.matmul_to(a, b, c);
        c
    }

    fn map_to(&mut self, mode: Mode, operands: &[Id], y: Id) {
        self.add(Node::Map { mode, operands: operands.into(), y });
    }

    /// The result has the first operand's sizes.
    fn map_as(&mut self, dtype: DType, mode: Mode, operands: &[Id]) -> Id {
        let sizes = self.sizes(operands[0]);
        let y = self.made(dtype, &sizes);
        self.map_to(mode, operands, y);
        y
    }

    fn map(&mut self, mode: Mode, operands: &[Id]) -> Id {
        self.map_as(DType::F32, mode, operands)
    }

    fn index(&mut self, axis: usize, like: Id) -> Id {
        let y = self.made(DType::I32, &self.sizes(like));
        self.add(Node::Index { axis, like, y });
        y
    }

    /// Reduces the last dimension, in f32.
    fn reduce(&mut self, mode: Fold, x: Id) -> Id {
        let mut sizes = self.sizes(x);
        if let Some(last) = sizes.last_mut() {
            *last = 1;
        }
        let y = self.made(DType::F32, &sizes);
        self.add(Node::Reduce { mode, x, y });
        y
    }

    /// x with the last two dimensions exchanged, in the memory order of x.
    fn transpose(&mut self, dtype: DType, x: Id) -> Id {
        let mut layout = Layout::contiguous(&self.sizes(x));
        let tensor = &self.cudnn_graph.tensors[x];
        if tensor.residency == Residency::Memory {
            layout.strides = tensor.strides.clone();
        }
        let rank = layout.rank();
        layout.sizes.swap(rank - 2, rank - 1);
        layout.strides.swap(rank - 2, rank - 1);
        let y = self.tensor(dtype, &layout, Residency::Virtual);
        self.add(Node::Transpose { x, y });
        y
    }
}

/// The operand's layout with a dimension of size 1 appended.
fn column(operand: &Operand) -> Layout {
    let mut layout = operand.layout.clone();
    layout.sizes.push(1);
    layout.strides.push(1);
    layout
}
