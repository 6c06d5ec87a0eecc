// Asks PyTorch's Meta kernels for the results of a call.
#pragma once

#include <memory>

#include "record/shape_cache.h"

namespace torchacc {

// Null when PyTorch has no Meta kernel for the operator, or the kernel says that it depends on
// values.
std::shared_ptr<const Shapes> run_meta(const Call& call);

// What the CPU's kernel returns, where that can be found out: null for calls that write, and where
// a kernel might go where its operands say.
std::shared_ptr<const Shapes> shapes_of_cpu(const Call& call);

// How many random numbers a call draws at most: as its first result has elements, or its first
// operand, or the tensor that it is told to write.
int64_t random_numel(const Call& call, const Shapes& shapes);

}  // namespace torchacc
