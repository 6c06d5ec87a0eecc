// The library's own shape rules, in place of Meta kernels where these have confirmed them: a new
// length in a training loop must not cost a run of Python code for every operator.
#pragma once

#include <memory>
#include <string>

#include "record/shape_cache.h"

namespace torchacc {

// The shapes of a call that differs only in sizes from calls for which the operator's rule agreed
// with PyTorch's Meta kernel; null for other calls, and when the rule refuses the call: then the
// Meta kernel says why.
std::shared_ptr<const Shapes> rule_shapes(Call& call);

// The shapes of PyTorch's Meta kernel, or null if it has none; the rule is compared with them. If
// they differ, the shapes of the CPU's kernel, if these can be determined.
std::shared_ptr<const Shapes> asked_shapes(Call& call);

// Nanoseconds taken by asked_shapes: most Meta kernels are Python code.
uint64_t shape_function_ns();
uint64_t shape_rule_uses();
// Operators whose rule once differed from the Meta kernel, separated by spaces: the rule is not
// used any more.
std::string refuted_shape_rules();
void reset_shape_rule_uses();

}  // namespace torchacc
