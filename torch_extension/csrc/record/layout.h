// Corrections of the Meta kernels' results by the CPU's kernels.
#pragma once

#include "record/shape_cache.h"

namespace torchacc {

// Gives fresh results the types that the CPU's kernel gives them. Where operands are floats of
// several types, Meta kernels promote them by their formulas, some CPU kernels do not. Where all
// floats are halves, some CPU kernels keep f32 results.
void correct_types(const Call& call, Shapes& shapes);

// Makes the input's gradient, the first result, undefined if a backward operator's mask does not
// ask for it, as in the CPU's kernels; some Meta kernels return it.
void leave_out_unasked(const Call& call, Shapes& shapes);

// Gives fresh results, and out= tensors that get elements, the strides that the CPU's kernel gives
// them, where these may differ from the Meta kernel's: Meta kernels are formulas of their own, some
// of them wrong.
void correct_strides(const Call& call, Shapes& shapes);

// Notes results of the CPU's kernel that differ from `shapes`. Only with TORCHACC_VERIFY_SHAPES=1
// in the environment: each distinct call runs a kernel for it.
void verify_shapes(const Call& call, const Shapes& shapes);

// The notes of verify_shapes since the last call, a line each.
std::string wrong_shapes();

}  // namespace torchacc
