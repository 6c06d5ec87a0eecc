// Conversions to 8-bit floats, as the installed PyTorch does them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace torchacc {

// The tensor to convert to `type` instead of `source`. Numbers beyond the largest are clamped if
// PyTorch saturates them: the library makes NaN of them.
at::Tensor saturated(const at::Tensor& source, c10::ScalarType type);

// aten::_scaled_mm and aten::_scaled_mm_v2, and their out= forms.
void scaled_product(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace torchacc
