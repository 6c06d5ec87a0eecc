// Reductions of c10d by the library's names, on tensors that the transport can reduce.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace torchacc {

// Throws for an unknown reduction.
std::string_view reduction_name(const c10d::ReduceOp& operation);

// The tensor to reduce in place of `tensor`: itself, or a new tensor in a wider type, or multiplied
// by this rank's factor. Throws for types that cannot be reduced so.
at::Tensor summand(const c10d::ReduceOp& operation, const at::Tensor& tensor);

}  // namespace torchacc
