// Operators on tensors that are not dense, which PyTorch would say could not run.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "runtime/absent.h"

namespace torchacc {
namespace {

template <const char* why>
void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), ": ", why);
}

template <const char* why>
auto refusal() {
  return torch::CppFunction::makeFromBoxedFunction<&refuse<why>>();
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(refusal<kNoSparse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(refusal<kNoSparse>()); }
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) { m.fallback(refusal<kNoNested>()); }
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) { m.fallback(refusal<kNoQuantized>()); }

}  // namespace
}  // namespace torchacc
