// Reductions of c10d in the library's words.
#pragma once

#include <ATen/ops/mul.h>

#include <string_view>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace torchacc {

inline std::string_view reduction_name(const c10d::ReduceOp& operation) {
  using Kind = c10d::ReduceOp::RedOpType;
  switch (static_cast<Kind>(operation)) {
    case Kind::SUM:
    case Kind::PREMUL_SUM:
      return "sum";
    case Kind::AVG:
      return "avg";
    case Kind::PRODUCT:
      return "product";
    case Kind::MIN:
      return "min";
    case Kind::MAX:
      return "max";
    case Kind::BAND:
      return "band";
    case Kind::BOR:
      return "bor";
    case Kind::BXOR:
      return "bxor";
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "the acc backend does not know this ReduceOp");
  }
}

// What is summed: a factor of this rank comes before.
inline at::Tensor premultiplied(const c10d::ReduceOp& operation, const at::Tensor& tensor) {
  if (static_cast<c10d::ReduceOp::RedOpType>(operation) != c10d::ReduceOp::PREMUL_SUM)
    return tensor;
  const auto* factor =
      dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(operation.supplement_.get());
  TORCH_CHECK(factor != nullptr, "ReduceOp.PREMUL_SUM comes without its factor");
  if (factor->tensor_factor.defined()) return at::mul(tensor, factor->tensor_factor);
  return at::mul(tensor, factor->double_factor);
}

}  // namespace torchacc
