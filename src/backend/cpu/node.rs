//! Whole primitives: each has a kernel, or is computed slowly by the meaning in its row.

use super::access::{Bound, Source};
use super::dense::{Dense, as_it_is, dense};
use super::sink::Sink;
use super::{
    assemble, attention, conv, fft, grouped, index, norm, order, pooling, recurrent, scan, softmax,
};
use crate::backend::memory::Pool;
use crate::dtype::DType;
use crate::error::{Result, Site};
use crate::internal;
use crate::op::array::Array;
use crate::op::collective::{Kind, Pending};
use crate::op::evaluate::evaluate;
use crate::op::fallback::{host_args, operator, scalar_operands};
use crate::op::host::{HostArg, HostOp, HostTensor};
use crate::op::{Attr, Attrs, Op, Ty};
use std::sync::Arc;

/// Computes one primitive: `reads` are its operands, `writes` its dense results.
pub fn run(
    op: Op,
    attrs: &Attrs,
    reads: &[Bound],
    writes: &[Bound],
    pool: &Arc<Pool>,
) -> Result<()> {
    if op == Op::Host {
        return PreparedCall::new(attrs, reads, writes, pool)?.run();
    }
    if op == Op::Check {
        return Ok(());
    }
    if !has_kernel(op, attrs, reads, writes) {
        return by_meaning(op, attrs, reads, writes, pool);
    }
    match op {
        Op::Concat => return assemble::concat(attrs, reads, &writes[0]),
        Op::AsStridedScatter => return assemble::as_strided_scatter(attrs, reads, &writes[0]),
        Op::GroupedMatmul => return grouped::grouped_matmul(reads, &writes[0], (None, pool)),
        _ => {}
    }
    // The other kernels need dense operands; in plans they are dense already, except for numbers and indices.
    let rows = matches!(op, Op::Attention | Op::AttentionGrad);
    let suits = |r: &Bound| {
        r.layout.is_contiguous() && matches!(r.source, Source::Memory(_))
            || rows && has_dense_rows(r)
    };
    let dense: Vec<Dense> = reads
        .iter()
        .map(|r| if suits(r) { Ok(as_it_is(r)) } else { dense(r, pool) })
        .collect::<Result<_>>()?;
    let reads: Vec<Bound> = dense.iter().map(|d| (**d).clone()).collect();
    match op {
        Op::LogSumExp => softmax::log_sum_exp(&reads[0], writes),
        Op::Attention => attention::attention(attrs, &reads, writes),
        Op::AttentionGrad => attention::attention_grad(attrs, &reads, writes),
        Op::Take => index::take(attrs, &reads, writes),
        Op::Gather => index::gather(attrs, &reads, writes),
        Op::IndexAdd => index::index_add(attrs, &reads, writes),
        Op::Scatter => index::scatter(attrs, &reads, writes),
        Op::ArgMax | Op::ArgMin => scan::arg(op, attrs, &reads, &writes[0]),
        Op::CumSum | Op::CumProd | Op::CumMax => scan::running(op, attrs, &reads, &writes[0]),
        Op::Fft => fft::fft(attrs, &reads[0], &writes[0]),
        Op::TopK => order::top_k(attrs, &reads[0], &writes[0], &writes[1]),
        Op::Conv | Op::ConvGradInput | Op::ConvGradWeight => {
            conv::run(op, attrs, &reads, &writes[0])
        }
        Op::MaxPool => pooling::max_pool(attrs, &reads[0], writes),
        Op::MaxPoolGrad => pooling::max_pool_grad(&reads, &writes[0]),
        Op::SumPool => pooling::sum_pool(attrs, &reads[0], &writes[0]),
        Op::SumPoolGrad => pooling::sum_pool_grad(attrs, &reads[0], &writes[0]),
        Op::Recurrent => recurrent::recurrent(attrs, &reads, writes),
        Op::RecurrentGrad => recurrent::recurrent_grad(attrs, &reads, writes),
        _ => by_rows(op, attrs, &reads, &Sink::Memory(&writes[0]), &writes[1..]),
    }
}

/// Computes a primitive over dense rows, with its first result in `first` and the others in `others`.
pub fn by_rows(
    op: Op,
    attrs: &[Attr],
    reads: &[Bound],
    first: &Sink,
    others: &[Bound],
) -> Result<()> {
    match op {
        Op::Softmax | Op::LogSoftmax | Op::SoftmaxGrad | Op::LogSoftmaxGrad => {
            softmax::run(op, reads, first)
        }
        Op::LayerNorm => norm::layer_norm(attrs, reads, first, others),
        Op::LayerNormGrad => norm::layer_norm_grad(reads, first, others),
        Op::RmsNorm => norm::rms_norm(attrs, reads, first, others),
        Op::RmsNormGrad => norm::rms_norm_grad(reads, first, others),
        other => internal!("no kernel for {}", other.name()),
    }
}

/// Whether a kernel computes this; the rest, and operands without elements, are left to the row.
fn has_kernel(op: Op, attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> bool {
    let nothing = |b: &Bound| b.sizes().contains(&0);
    match op {
        Op::Concat | Op::GroupedMatmul => true,
        Op::AsStridedScatter => assemble::overwritten(attrs, &writes[0]).is_injective(),
        Op::CumSum | Op::CumProd | Op::CumMax => {
            reads[0].dtype == writes[0].dtype && !nothing(&writes[0])
        }
        op if op.row().by_rows > 0 => true,
        Op::Recurrent | Op::RecurrentGrad => writes[0].dtype == DType::F32 && !nothing(&writes[0]),
        Op::LogSumExp | Op::Attention | Op::AttentionGrad => !reads.iter().any(nothing),
        Op::Conv
        | Op::ConvGradInput
        | Op::ConvGradWeight
        | Op::MaxPool
        | Op::MaxPoolGrad
        | Op::SumPool
        | Op::SumPoolGrad => writes[0].dtype.is_float() && !reads.iter().chain(writes).any(nothing),
        Op::Take
        | Op::Gather
        | Op::IndexAdd
        | Op::Scatter
        | Op::ArgMax
        | Op::ArgMin
        | Op::TopK
        | Op::Fft => !reads.iter().chain(writes).any(nothing),
        _ => false,
    }
}

/// Whether the layout of the operand is one that attention reads.
fn has_dense_rows(operand: &Bound) -> bool {
    let memory = matches!(operand.source, Source::Memory(_));
    memory && operand.layout.rank() == 4 && operand.layout.strides[3] == 1
}

/// Computes a primitive by the meaning in its row.
pub fn by_meaning(
    op: Op,
    attrs: &[Attr],
    reads: &[Bound],
    writes: &[Bound],
    pool: &Arc<Pool>,
) -> Result<()> {
    let inputs: Vec<Array> =
        reads.iter().map(|r| Ok(to_array(&*dense(r, pool)?))).collect::<Result<_>>()?;
    let outs: Vec<Ty> = writes.iter().map(|w| Ty::new(w.dtype, w.sizes())).collect();
    let results = evaluate(op, &inputs.iter().collect::<Vec<_>>(), attrs, &outs)?;
    for (write, result) in writes.iter().zip(&results) {
        write.fill_from(&result.bytes);
    }
    Ok(())
}

fn to_array(operand: &Bound) -> Array {
    Array { ty: Ty::new(operand.dtype, operand.sizes()), bytes: operand.bytes_of_dense().to_vec() }
}

/// A call of a host operator on the operands' memory, which may be made by any thread.
pub struct PreparedCall {
    operator: Arc<HostOp>,
    args: Vec<HostArg>,
    targets: Vec<HostTensor>,
    /// Copies of operands, which `args` point into.
    operands: Vec<Dense>,
}

impl PreparedCall {
    pub fn new(
        attrs: &Attrs,
        reads: &[Bound],
        writes: &[Bound],
        pool: &Arc<Pool>,
    ) -> Result<PreparedCall> {
        let Attr::Args(args) = &attrs[2] else {
            return internal!("a CPU fallback without arguments");
        };
        let reads: Vec<Dense> = (reads.iter().zip(scalar_operands(args)))
            .map(|(read, is_scalar)| match read.source {
                Source::Slot(_) if is_scalar => Ok(as_it_is(read)),
                _ => dense(read, pool),
            })
            .collect::<Result<_>>()?;
        let tensor =
            |b: &Bound| HostTensor { data: b.start(), dtype: b.dtype, sizes: b.sizes().into() };
        let bits = |n: usize| match (reads[n].source, reads[n].dtype) {
            (Source::Slot(bits), _) => bits,
            (_, DType::Bool) => reads[n].slice::<u8>(reads[n].layout.offset, 1)[0] as u64,
            _ => reads[n].slice::<u64>(reads[n].layout.offset, 1)[0],
        };
        let args = host_args(args, |n| tensor(&reads[n]), bits);
        let targets = writes.iter().map(tensor).collect();
        Ok(PreparedCall { operator: operator(attrs)?, args, targets, operands: reads })
    }

    pub fn run(&self) -> Result<()> {
        (self.operator.function)(&self.args, &self.targets)
    }

    /// As a collective of that kind, recorded at `site`.
    pub fn into_collective(self, kind: Kind, site: Site) -> Result<Pending> {
        let kept = Box::new(self.operands);
        Pending::new(kind, (&self.args, &self.targets), site, kept)
    }
}
