// Errors in PyTorch's own words. Meta kernels written in Python phrase them differently from the
// CPU kernels that users know, and miss some.
#pragma once

#include "record/arguments.h"

namespace torchacc {

// Runs the call's CPU kernel on zeros of the same shapes and throws what it throws; returns if it
// accepts them.
void raise_as_cpu(const Call& call);

// Whether the Meta kernel is known to accept element types or sizes that the operator refuses.
bool has_doubtful_operands(const Call& call);

}  // namespace torchacc
