// Errors in PyTorch's own words. Meta kernels written in Python phrase them differently from the
// CPU kernels that users know, and miss some.
#pragma once

#include "record/arguments.h"

namespace torchacc {

// Throws the error of the call's CPU kernel for tensors of the same shapes if it does not depend on
// their values; returns if the kernel may accept them.
void raise_as_cpu(const Call& call);

// Throws for element types that the operator refuses though its Meta kernel may accept them.
void check_types(const Call& call);

// Throws if the call runs the CPU's kernel and there is none for these types, so that the error
// names the line of the call and not a later one.
void check_kernel(const Call& call);

// Throws if the operator would write over an operand.
void check_overlaps(const Call& call);

// Whether the effect of a call's writes is that of the CPU's kernel. A written tensor may show one
// element in several places, such as an expanded one: the kernel decides which of several writes
// stays, and whether any are allowed. Or it has bools of other bytes, which stay where the kernel
// does not write. Or it is in a list twice, and is updated twice.
bool writes_as_the_cpu(const Call& call);

// Throws for numbers that are not valid parameters of the operator's distribution. Must be called
// for every call: the numbers are not in the call's key.
void check_numbers(const Call& call);

}  // namespace torchacc
