// Errors in PyTorch's own words. Meta kernels written in Python phrase them differently from the
// CPU kernels that users know, and miss some.
#pragma once

#include "record/arguments.h"

namespace torchacc {

// Throws what the call's CPU kernel says to tensors of the same shapes if it says so whatever their
// values are; returns if it may accept them.
void raise_as_cpu(const Call& call);

// Throws for element types that the operator refuses though its Meta kernel may accept them.
void check_types(const Call& call);

// Throws where the call's kernel is the CPU's and there is none for these types, so that the line
// of the call is told and not a later one.
void check_kernel(const Call& call);

// Throws where the operator would write over what it reads.
void check_overlaps(const Call& call);

// Whether a tensor that is written to may show one element in several places, such as an expanded
// one: which of several writes stays is the CPU's kernel's affair, and whether it allows any. Or
// has bools of other bytes, of which those stay that the kernel does not write. Or is in a list
// twice, and updated as often.
bool writes_as_the_cpu(const Call& call);

// Throws for numbers that are no parameters of the operator's distribution. They are not in the
// call's key: to be asked for every call.
void check_numbers(const Call& call);

}  // namespace torchacc
