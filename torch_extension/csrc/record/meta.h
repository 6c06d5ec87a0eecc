// Asks PyTorch's Meta kernels for the results of a call.
#pragma once

#include <memory>

#include "record/shape_cache.h"

namespace torchacc {

// Null when PyTorch has no Meta kernel for the operator, or the kernel says that it depends on
// values.
std::shared_ptr<const Shapes> run_meta(const Call& call);

// The CPU kernel's results, if a dry run can tell; null for calls that write, and for kernels that
// may access memory where their operands say.
std::shared_ptr<const Shapes> shapes_of_cpu(const Call& call);

// An upper bound of the random numbers that a call draws: the elements of its first result, its
// first operand, or the tensor that it writes.
int64_t random_numel(const Call& call, const Shapes& shapes);

}  // namespace torchacc
