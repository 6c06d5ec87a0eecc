// Reductions of c10d in the library's words, on what the transport can reduce.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace torchacc {

// Throws for one that is not known.
std::string_view reduction_name(const c10d::ReduceOp& operation);

// What is to be reduced in place of `tensor`: itself, or a new tensor, in a wider type, or
// multiplied by this rank's factor. Throws for what cannot be reduced so.
at::Tensor summand(const c10d::ReduceOp& operation, const at::Tensor& tensor);

}  // namespace torchacc
