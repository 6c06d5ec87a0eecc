// The recorder: one boxed kernel for every operator of the device.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>
#include <torchacc.h>

#include "record/arguments.h"

namespace torchacc {

// Takes the operator's arguments off the stack and leaves its results, which are recorded, not
// computed.
void record_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Calls record_boxed with C++ arguments, for kernels that stand for another operator.
template <class... Arguments>
torch::jit::Stack record(const c10::OperatorHandle& op, Arguments&&... arguments) {
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Arguments>(arguments)...);
  record_boxed(op, &stack);
  return stack;
}

// One view for each entry of the call's tensors(), in order.
c10::SmallVector<torchacc_view, 16> argument_views(const Call& call);

// A view of a device tensor for the C ABI. It points to the tensor's sizes and strides.
torchacc_view view_of(const c10::TensorImpl& tensor);

// Records an operation of the library itself, outside any schema.
void record_native(torchacc_op op, c10::ArrayRef<torchacc_arg> arguments,
                   c10::ArrayRef<torchacc_view> outputs);

}  // namespace torchacc
