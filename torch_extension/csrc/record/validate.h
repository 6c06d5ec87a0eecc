// Errors in PyTorch's own words. Meta kernels written in Python phrase them differently from the
// CPU kernels that users know, and miss some.
#pragma once

#include "record/arguments.h"

namespace torchacc {

// Runs the call's CPU kernel on zeros of the same shapes and throws what it throws; returns if it
// accepts them.
void raise_as_cpu(const Call& call);

// Throws for element types that the operator refuses though its Meta kernel may accept them.
void check_types(const Call& call);

// Throws where the operator would write over what it reads, or one element several times.
void check_overlaps(const Call& call);

// Throws for numbers that are no parameters of the operator's distribution. They are not in the
// call's key: to be asked for every call.
void check_numbers(const Call& call);

}  // namespace torchacc
