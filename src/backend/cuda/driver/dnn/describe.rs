//! `CudnnGraph`s as cuDNN's operation graphs, with the numbers of cuDNN's enums and attributes.

use super::super::super::cudnn_graph::{
    CudnnGraph, Fold, Id, Mode, Node, Part, Residency, Tensor, Window,
};
use super::api::Library;
use super::descriptor::{Descriptor, Enum, Kind};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use std::ffi::c_int;
use std::sync::Arc;

/// `cudnnDataType_t`.
const FLOAT: c_int = 0;
const HALF: c_int = 2;
const INT32: c_int = 4;
const BFLOAT16: c_int = 9;
const BOOLEAN: c_int = 11;

/// `cudnnPointwiseMode_t` of [`Node::Index`].
const GEN_INDEX: c_int = 501;
/// `cudnnConvolutionMode_t`: the kernel is not flipped.
const CROSS_CORRELATION: c_int = 1;

/// The unique id of a tensor in a plan.
pub fn name_of(id: Id) -> i64 {
    id as i64 + 1
}

/// The descriptor of a graph. Errors: the library's.
pub fn describe(library: &Arc<Library>, cudnn_graph: &CudnnGraph) -> Result<Descriptor> {
    let describe = Describe { library, cudnn_graph };
    let tensors: Vec<Descriptor> = (0..cudnn_graph.tensors.len())
        .map(|id| describe.tensor(id, &cudnn_graph.tensors[id]))
        .collect::<Result<_>>()?;
    let nodes: Vec<Descriptor> = cudnn_graph
        .nodes
        .iter()
        .map(|node| describe.node(node, &tensors))
        .collect::<Result<_>>()?;
    let nodes: Vec<&Descriptor> = nodes.iter().collect();
    describe.made(Kind::OperationGraph)?.with_descriptors(801, &nodes)?.finalized()
}

struct Describe<'a> {
    library: &'a Arc<Library>,
    cudnn_graph: &'a CudnnGraph,
}

impl Describe<'_> {
    fn made(&self, kind: Kind) -> Result<Descriptor> {
        Descriptor::new(self.library, kind)
    }

    fn tensor(&self, id: Id, tensor: &Tensor) -> Result<Descriptor> {
        let described = self
            .made(Kind::Tensor)?
            .with_ints(906, &[name_of(id)])?
            .with(901, Enum::DataType, data_type(tensor.dtype)?)?
            .with_ints(902, &tensor.sizes)?
            .with_ints(903, &tensor.strides)?
            .with_ints(900, &[16])?;
        match tensor.residency {
            Residency::Memory => described,
            Residency::Virtual => described.with_bool(907, true)?,
            Residency::Number(_) => described.with_bool(908, true)?,
        }
        .finalized()
    }

    fn node(&self, node: &Node, tensors: &[Descriptor]) -> Result<Descriptor> {
        let of = |id: &Id| &tensors[*id];
        match node {
            Node::Matmul { a, b, c } => {
                let how =
                    self.made(Kind::Matmul)?.with(1500, Enum::DataType, FLOAT)?.finalized()?;
                self.made(Kind::MatmulOperation)?
                    .with_descriptors(1520, &[of(a)])?
                    .with_descriptors(1521, &[of(b)])?
                    .with_descriptors(1522, &[of(c)])?
                    .with_descriptors(1523, &[&how])?
                    .finalized()
            }
            Node::Map { mode, operands, y } => {
                let in_type = match self.cudnn_graph.tensors[*y].dtype {
                    DType::Bool => BOOLEAN,
                    _ => FLOAT,
                };
                let how = self.pointwise(pointwise_mode(*mode), in_type)?.finalized()?;
                let mut operation = self.made(Kind::PointwiseOperation)?;
                // Attributes of the first operand, the second operand and the predicate.
                for (attribute, id) in [751, 752, 758].into_iter().zip(operands) {
                    operation = operation.with_descriptors(attribute, &[of(id)])?;
                }
                operation
                    .with_descriptors(750, &[&how])?
                    .with_descriptors(753, &[of(y)])?
                    .finalized()
            }
            Node::Index { axis, like, y } => {
                let how = self.pointwise(GEN_INDEX, FLOAT)?;
                let how = how.with_ints(9, &[*axis as i64])?.finalized()?;
                self.made(Kind::PointwiseOperation)?
                    .with_descriptors(750, &[&how])?
                    .with_descriptors(751, &[of(like)])?
                    .with_descriptors(753, &[of(y)])?
                    .finalized()
            }
            Node::Reduce { mode, x, y } => {
                let operator = match mode {
                    Fold::Sum => 0,
                    Fold::Max => 3,
                };
                let how = self
                    .made(Kind::Reduction)?
                    .with(1600, Enum::ReductionOperator, operator)?
                    .with(1601, Enum::DataType, FLOAT)?
                    .finalized()?;
                self.made(Kind::ReductionOperation)?
                    .with_descriptors(1610, &[of(x)])?
                    .with_descriptors(1611, &[of(y)])?
                    .with_descriptors(1612, &[&how])?
                    .finalized()
            }
            // The strides describe the transposition.
            Node::Transpose { x, y } => self
                .made(Kind::Reshape)?
                .with_descriptors(2200, &[of(x)])?
                .with_descriptors(2201, &[of(y)])?
                .finalized(),
            Node::Conv { made, x, w, y, window } => {
                let how = self.convolution(window)?;
                // Each kind's attributes: alpha, beta, the convolution, and its three tensors.
                let (kind, first, of_tensors) = match made {
                    Part::Y => (Kind::ConvForward, 700, [w, x, y]),
                    Part::X => (Kind::ConvBackwardData, 706, [w, x, y]),
                    Part::W => (Kind::ConvBackwardFilter, 712, [w, x, y]),
                };
                let mut operation = self
                    .made(kind)?
                    .with_float(first, 1.0)?
                    .with_float(first + 1, 0.0)?
                    .with_descriptors(first + 2, &[&how])?;
                for (attribute, id) in (first + 3..).zip(of_tensors) {
                    operation = operation.with_descriptors(attribute, &[of(id)])?;
                }
                operation.finalized()
            }
        }
    }

    fn pointwise(&self, mode: c_int, in_type: c_int) -> Result<Descriptor> {
        self.made(Kind::Pointwise)?.with(0, Enum::PointwiseMode, mode)?.with(
            1,
            Enum::DataType,
            in_type,
        )
    }

    fn convolution(&self, window: &Window) -> Result<Descriptor> {
        self.made(Kind::Convolution)?
            .with(100, Enum::DataType, FLOAT)?
            .with(101, Enum::ConvolutionMode, CROSS_CORRELATION)?
            .with_ints(102, &window.dilation)?
            .with_ints(103, &window.stride)?
            .with_ints(104, &window.padding)?
            .with_ints(105, &window.padding)?
            .with_ints(106, &[window.stride.len() as i64])?
            .finalized()
    }
}

fn data_type(dtype: DType) -> Result<c_int> {
    Ok(match dtype {
        DType::F32 => FLOAT,
        DType::F16 => HALF,
        DType::BF16 => BFLOAT16,
        DType::I32 => INT32,
        DType::Bool => BOOLEAN,
        _ => return internal!("a network of {dtype}"),
    })
}

/// `cudnnPointwiseMode_t`.
fn pointwise_mode(mode: Mode) -> c_int {
    match mode {
        Mode::Same => 21,
        Mode::Add => 0,
        Mode::Sub => 9,
        Mode::Mul => 1,
        Mode::Div => 6,
        Mode::Exp => 13,
        Mode::Log => 15,
        Mode::AtLeast => 303,
        Mode::Select => 601,
    }
}
