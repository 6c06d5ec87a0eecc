// Operators that run at once, on the recording thread, on copies (of the CPU, or of the device
// whose memory is the tensors'): their results' shapes depend on values, or their kernels are
// Python.
#pragma once

#include <ATen/core/stack.h>

#include "record/operator.h"

namespace torchacc {

void run_immediately(const OperatorInfo& info, torch::jit::Stack& stack);

// How often since the last reset.
uint64_t immediate_runs();
// How many tensors came to the CPU for them.
uint64_t immediate_copies();
void reset_immediate_runs();

// How long their kernels on the host have taken; never reset.
uint64_t immediate_ns();

}  // namespace torchacc
