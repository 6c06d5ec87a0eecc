// Views and storage surgery: PyTorch metadata only, nothing is recorded.
#include <ATen/CPUFunctions.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "aten/kernels.h"
#include "runtime/allocator.h"

namespace torchacc {

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> storage_offset) {
  return at::cpu::as_strided_symint(self, size, stride, std::move(storage_offset));
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor view_dtype(const at::Tensor& self, at::ScalarType dtype) {
  at::Tensor viewed = at::native::view_dtype(self, dtype);
  if ((dtype == at::kBool) != (self.scalar_type() == at::kBool)) {
    buffer_of(*self.storage().unsafeGetStorageImpl()).buffer->has_other_bools = true;
  }
  return viewed;
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size,
                         c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size),
                                    C10_AS_INTARRAYREF_SLOW(stride));
}

at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return at::native::unfold(self, dimension, size, step);
}

at::Tensor view_as_real(const at::Tensor& self) { return at::native::view_as_real(self); }

at::Tensor view_as_complex(const at::Tensor& self) { return at::native::view_as_complex(self); }

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size,
                          std::optional<at::MemoryFormat> memory_format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(size);
  if (impl->sizes() == sizes && !memory_format.has_value()) return self;
  impl->set_sizes_contiguous(sizes);
  if (memory_format.has_value() && *memory_format != at::MemoryFormat::Preserve) {
    impl->empty_tensor_restride(*memory_format);
  }
  grow_storage(*impl);
  return self;
}

at::Tensor& set_source_storage_offset(at::Tensor& self, at::Storage source,
                                      c10::SymInt storage_offset, c10::SymIntArrayRef size,
                                      c10::SymIntArrayRef stride) {
  const int64_t offset = storage_offset.guard_int(__FILE__, __LINE__);
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(size);
  const at::IntArrayRef strides = C10_AS_INTARRAYREF_SLOW(stride);
  at::native::checkSetStorage(self, std::move(source), offset, sizes, strides);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (strides.data() != nullptr) {
    impl->set_sizes_and_strides(sizes, strides);
  } else {
    impl->set_sizes_contiguous(sizes);
  }
  grow_storage(*impl);
  return self;
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_source_storage_offset(self, std::move(source), 0,
                                   c10::SymIntArrayRef(c10::SymInt(count)), {});
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_source_storage_offset(self, source.storage(), source.sym_storage_offset(),
                                   source.sym_sizes(), source.sym_strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  const at::Tensor none = make_tensor({0}, {1}, self.scalar_type(), self.device().index());
  return set_source_tensor(self, none);
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return at::native::is_set_to(self, other);
}

// Lets `parameter.data = ...` and Module.to() move a tensor between the CPU and the device in
// place, which keeps tied weights tied.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || is_acc(tensor));
  };
  return plain(self) && plain(from);
}

// All streams share one order, so a storage is never used by a stream that could run ahead.
void record_stream(at::Tensor&, at::Stream) {}

}  // namespace torchacc
