// What Meta kernels say of results, corrected by the CPU's kernels.
#pragma once

#include "record/shape_cache.h"

namespace torchacc {

// Gives fresh results the types that the CPU's kernel gives them, where operands are floats of
// several types: Meta kernels promote these as their formulas do, some kernels do not. And where
// all floats are halves, the f32 that it keeps of them.
void correct_types(const Call& call, Shapes& shapes);

// The input's gradient, the first result, is undefined where a backward operator's mask does not
// ask for it, as the CPU's kernels have it; some Meta kernels give it.
void leave_out_unasked(const Call& call, Shapes& shapes);

// Gives fresh results, and out= tensors that get elements, the strides that the CPU's kernel gives
// them, where they may differ from the rows that Meta kernels say: these are formulas of their own,
// some of them wrong.
void correct_strides(const Call& call, Shapes& shapes);

// Notes where a kernel of the CPU returns something else for the call than `shapes`. Only where the
// environment says TORCHACC_VERIFY_SHAPES=1: each distinct call runs a kernel for it.
void verify_shapes(const Call& call, const Shapes& shapes);

// What verify_shapes has noted since it was asked last, a line each.
std::string wrong_shapes();

}  // namespace torchacc
