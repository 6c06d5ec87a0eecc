#include "dist/carrier.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <torchacc.h>

#include <algorithm>

namespace torchacc {
namespace {

using c10d::ReduceOp;

ReduceOp operation(int64_t reduction) {
  switch (reduction) {
    case TORCHACC_REDUCE_PRODUCT:
      return ReduceOp::PRODUCT;
    case TORCHACC_REDUCE_MIN:
      return ReduceOp::MIN;
    case TORCHACC_REDUCE_MAX:
      return ReduceOp::MAX;
    case TORCHACC_REDUCE_BAND:
      return ReduceOp::BAND;
    case TORCHACC_REDUCE_BOR:
      return ReduceOp::BOR;
    case TORCHACC_REDUCE_BXOR:
      return ReduceOp::BXOR;
    default:  // averages are divided afterwards: not every backend has them
      return ReduceOp::SUM;
  }
}

void divide(int64_t reduction, int64_t ranks, at::Tensor& output) {
  if (reduction != TORCHACC_REDUCE_AVG) return;
  if (output.is_floating_point()) {
    output.div_(ranks);
  } else {
    output.div_(ranks, "trunc");
  }
}

// Bools are reduced as bytes that are 0 or 1.
ReduceOp operation_on_bools(int64_t reduction) {
  switch (reduction) {
    case TORCHACC_REDUCE_PRODUCT:
    case TORCHACC_REDUCE_BAND:
      return ReduceOp::MIN;
    case TORCHACC_REDUCE_SUM:
    case TORCHACC_REDUCE_BOR:
      return ReduceOp::MAX;
    default:
      return operation(reduction);
  }
}

// The type in which the backend reduces `type`.
at::ScalarType reduced_as(at::ScalarType type) {
  return type == at::kBool ? at::kByte : type == at::kShort ? at::kInt : type;
}

// Calls `work` with both tensors in a type that the backend reduces.
template <class Work>
void in_wider_type(const at::Tensor& input, at::Tensor& output, Work work) {
  const at::ScalarType type = reduced_as(input.scalar_type());
  if (type == input.scalar_type()) return work(input, output);
  at::Tensor wide = at::empty(output.sizes(), output.options().dtype(type));
  work(input.to(type), wide);
  output.copy_(wide);
}

}  // namespace

void enter_flight_recorder(c10d::Backend& backend) {
  // Without elements nothing is sent.
  std::vector<at::Tensor> tensors{at::empty({0})};
  perform(at::kCPU, [&] { return backend.allreduce(tensors); });
}

std::mutex& flight_recorder_mutex() {
  static auto* mutex = new std::mutex();  // lanes may outlive every static destructor
  return *mutex;
}

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.flatten().view(at::kByte); }

namespace {

// Elements of a piece: it stays in the first caches, and is too small for other threads to take
// part.
constexpr int64_t kPiece = 16 << 10;

void fold(ReduceOp::RedOpType op, at::Tensor& all, const at::Tensor& part) {
  switch (op) {
    case ReduceOp::PRODUCT:
      all.mul_(part);
      break;
    case ReduceOp::MIN:
      at::minimum_out(all, all, part.to(all.scalar_type()));
      break;
    case ReduceOp::MAX:
      at::maximum_out(all, all, part.to(all.scalar_type()));
      break;
    case ReduceOp::BAND:
      all.bitwise_and_(part);
      break;
    case ReduceOp::BOR:
      all.bitwise_or_(part);
      break;
    case ReduceOp::BXOR:
      all.bitwise_xor_(part);
      break;
    default:
      all.add_(part);
  }
}

}  // namespace

void reduce_in_order(int64_t reduction, at::ArrayRef<at::Tensor> parts, const at::Tensor& output) {
  const at::ScalarType type = output.scalar_type();
  const ReduceOp::RedOpType op =
      type == at::kBool ? operation_on_bools(reduction) : operation(reduction);
  const at::ScalarType wide = at::isReducedFloatingType(type) ? at::kFloat : reduced_as(type);
  for (int64_t begin = 0; begin < output.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, output.numel() - begin);
    at::Tensor to = output.narrow(0, begin, count);
    at::Tensor all = wide == type ? to : at::empty({count}, output.options().dtype(wide));
    all.copy_(parts[0].narrow(0, begin, count));
    for (const at::Tensor& part : parts.slice(1)) {
      fold(op, all, part.narrow(0, begin, count));
    }
    divide(reduction, static_cast<int64_t>(parts.size()), all);
    if (wide != type) to.copy_(all);
  }
}

void Carrier::all_reduce(int64_t reduction, const at::Tensor& input, at::Tensor output) {
  if (output.numel() == 0) return;
  const bool bools = input.scalar_type() == at::kBool;
  in_wider_type(input, output, [&](const at::Tensor& from, at::Tensor& to) {
    to.copy_(from);
    std::vector<at::Tensor> tensors{to};
    c10d::AllreduceOptions options;
    options.reduceOp = bools ? operation_on_bools(reduction) : operation(reduction);
    perform(to.device(), [&] { return backend_->allreduce(tensors, options); });
    divide(reduction, size(), to);
  });
}

void Carrier::reduce(int64_t reduction, int64_t root, const at::Tensor& input, at::Tensor output) {
  if (output.numel() == 0) return;
  const bool bools = input.scalar_type() == at::kBool;
  in_wider_type(input, output, [&](const at::Tensor& from, at::Tensor& to) {
    to.copy_(from);
    std::vector<at::Tensor> tensors{to};
    c10d::ReduceOptions options;
    options.reduceOp = bools ? operation_on_bools(reduction) : operation(reduction);
    options.rootRank = root;
    perform(to.device(), [&] { return backend_->reduce(tensors, options); });
    divide(reduction, size(), to);
  });
  // On other ranks the backend may have used the output for intermediate values.
  if (root != rank()) output.copy_(input);
}

void Carrier::all_gather(const at::Tensor& input, at::Tensor output) {
  if (output.numel() == 0) return;
  at::Tensor from = bytes_of(input), to = bytes_of(output);
  perform(to.device(), [&] { return backend_->_allgather_base(to, from, {}); });
}

void Carrier::reduce_scatter(int64_t reduction, const at::Tensor& input, at::Tensor output) {
  if (output.numel() == 0) return;
  if (input.is_cpu()) {
    // A backend for the host may have no better way than to reduce everything on all ranks.
    at::Tensor all = at::empty_like(input);
    exchange({}, {}, input, all);
    const std::vector<at::Tensor> parts = all.view({size(), output.numel()}).unbind();
    return reduce_in_order(reduction, parts, output.flatten());
  }
  const bool bools = input.scalar_type() == at::kBool;
  in_wider_type(input, output, [&](const at::Tensor& from, at::Tensor& to) {
    at::Tensor source = from;
    c10d::ReduceScatterOptions options;
    options.reduceOp = bools ? operation_on_bools(reduction) : operation(reduction);
    perform(to.device(), [&] { return backend_->_reduce_scatter_base(to, source, options); });
    divide(reduction, size(), to);
  });
}

void Carrier::broadcast(int64_t root, const at::Tensor& input, at::Tensor output) {
  if (output.numel() == 0) return;
  if (root == rank()) output.copy_(input);
  std::vector<at::Tensor> tensors{bytes_of(output)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  perform(output.device(), [&] { return backend_->broadcast(tensors, options); });
}

void Carrier::exchange(std::vector<int64_t> there, std::vector<int64_t> back,
                       const at::Tensor& input, at::Tensor output) {
  const auto row_bytes = [](const at::Tensor& tensor) {
    return tensor.size(0) == 0 ? 0 : static_cast<int64_t>(tensor.nbytes()) / tensor.size(0);
  };
  // A rank that has no rows need not know their size.
  for (int64_t& rows : there) rows *= row_bytes(input);
  for (int64_t& rows : back) rows *= row_bytes(output);
  at::Tensor from = bytes_of(input), to = bytes_of(output);
  perform(to.device(), [&] { return backend_->alltoall_base(to, from, back, there, {}); });
}

}  // namespace torchacc
