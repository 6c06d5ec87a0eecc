// Errors for operators on tensors that are not dense, which PyTorch would only report as not
// runnable.
#include <ATen/NestedTensorImpl.h>
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

// The sizes of a nested tensor that a copy to the device or a view has made. Autograd asks for
// them, where an error ends the process.
at::Tensor nested_sizes(const at::Tensor& self) {
  return at::native::get_nested_tensor_impl(self)->get_nested_sizes();
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("_nested_tensor_size", &nested_sizes);
}

// Operators that make compressed tensors of dense ones: dispatched by the requested layout, not by
// their operands'.
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  for (const char* name :
       {"sparse_compressed_tensor.comp_plain_value_size",
        "sparse_compressed_tensor.comp_plain_value", "_sparse_compressed_tensor_unsafe",
        "_sparse_csr_tensor_unsafe", "_sparse_csc_tensor_unsafe", "_sparse_bsr_tensor_unsafe",
        "_sparse_bsc_tensor_unsafe"}) {
    m.impl(name, refusal<kNoSparse>());
  }
}

// Operators that make nested tensors of dense ones.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"_nested_from_padded", "_nested_from_padded_and_nested_example",
                           "_nested_tensor_from_mask", "_nested_tensor_from_tensor_list",
                           "_nested_view_from_buffer", "_nested_view_from_buffer_copy"}) {
    m.impl(name, refusal<kNoNested>());
  }
}

}  // namespace
}  // namespace torchacc
