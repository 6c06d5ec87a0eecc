// The library's own shape rules, in place of Meta kernels where these have confirmed them: a new
// length in a training loop must not cost a run of Python code for every operator.
#pragma once

#include <memory>
#include <string>

#include "record/shape_cache.h"

namespace torchacc {

// The shapes of a call that differs only in sizes from calls for which the operator's rule gave
// what PyTorch's Meta kernel gave; null for others, and when the rule refuses the call: then the
// Meta kernel says why.
std::shared_ptr<const Shapes> rule_shapes(Call& call);

// What PyTorch's Meta kernel says, or null where it cannot; the rule is compared with it. Where
// they differ the CPU's kernel is asked: then what that gives, where it can be found out.
std::shared_ptr<const Shapes> asked_shapes(Call& call);

// How long that took, in nanoseconds: most Meta kernels are Python code.
uint64_t shape_function_ns();
uint64_t shape_rule_uses();
// Operators whose rule once gave something else than the Meta kernel, separated by spaces: it is
// not used any more.
std::string refuted_shape_rules();
void reset_shape_rule_uses();

}  // namespace torchacc
