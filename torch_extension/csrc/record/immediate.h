// Operators that run at once, on the recording thread, on copies (on the CPU, or on the device
// whose memory the tensors are in), because the shapes of their results depend on values, or their
// kernels are Python.
#pragma once

#include <ATen/core/stack.h>

#include "record/operator.h"

namespace torchacc {

void run_immediately(const OperatorInfo& info, torch::jit::Stack& stack);

// Number of such runs since the last reset.
uint64_t immediate_runs();
// Number of tensors copied to the CPU for them.
uint64_t immediate_copies();
void reset_immediate_runs();

// Nanoseconds that their kernels took on the host; never reset.
uint64_t immediate_ns();

}  // namespace torchacc
