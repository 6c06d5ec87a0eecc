#include "dist/reduction.h"

#include <ATen/ops/mul.h>

namespace torchacc {
namespace {

using Kind = c10d::ReduceOp::RedOpType;

Kind kind_of(const c10d::ReduceOp& operation) { return operation; }

// Unsigned integers are reduced in a wider type. Those that have none are reduced only where the
// signed type gives the same result.
at::ScalarType reduced_as(at::ScalarType type, Kind kind) {
  if (type == at::kUInt16) return at::kInt;
  if (type == at::kUInt32) return at::kLong;
  const bool is_ordered = kind == Kind::MIN || kind == Kind::MAX || kind == Kind::AVG;
  TORCH_CHECK_NOT_IMPLEMENTED(type != at::kUInt64 || !is_ordered,
                              "minima, maxima and averages of uint64 are not taken over ranks: "
                              "cast to int64 before");
  TORCH_CHECK_NOT_IMPLEMENTED(
      !c10::isFloat8Type(type),
      "8-bit floats are not reduced over ranks: cast to bfloat16 before, or gather them");
  return type;
}

void check_meaning(at::ScalarType type, Kind kind) {
  const bool is_bitwise = kind == Kind::BAND || kind == Kind::BOR || kind == Kind::BXOR;
  TORCH_CHECK_VALUE(!is_bitwise || c10::isIntegralType(type, /*includeBool=*/true),
                    "bits of floating-point numbers are not reduced over ranks");
  TORCH_CHECK_VALUE(type != at::kBool || kind != Kind::AVG,
                    "there is no average of booleans over ranks: cast to a float before");
  TORCH_CHECK_NOT_IMPLEMENTED(
      !c10::isComplexType(type) || kind == Kind::SUM || kind == Kind::AVG ||
          kind == Kind::PREMUL_SUM,
      "of complex numbers only sums and averages are taken over ranks: gather them instead");
}

}  // namespace

std::string_view reduction_name(const c10d::ReduceOp& operation) {
  switch (kind_of(operation)) {
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

at::Tensor summand(const c10d::ReduceOp& operation, const at::Tensor& tensor) {
  const Kind kind = kind_of(operation);
  check_meaning(tensor.scalar_type(), kind);
  const at::ScalarType type = reduced_as(tensor.scalar_type(), kind);
  if (kind != Kind::PREMUL_SUM)
    return type == tensor.scalar_type() ? tensor : tensor.to(type).contiguous();
  const auto* factor =
      dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(operation.supplement_.get());
  TORCH_CHECK(factor != nullptr, "ReduceOp.PREMUL_SUM comes without its factor");
  const at::Tensor product = factor->tensor_factor.defined()
                                 ? at::mul(tensor, factor->tensor_factor)
                                 : at::mul(tensor, factor->double_factor);
  return product.to(type).contiguous();
}

}  // namespace torchacc
