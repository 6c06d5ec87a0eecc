// torch.ops.acc.*: arrays that cross between libraries without a copy.
#include <ATen/DLConvertor.h>
#include <torch/library.h>

#include <tuple>

#include "record/recorder.h"
#include "runtime/allocator.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

torchacc_device opened_device() {
  torchacc_device device{};
  device.struct_size = sizeof device;
  check(torchacc_context_device(context(), &device));
  return device;
}

// DLPack's type and number of the device in whose memory tensors are.
std::tuple<int64_t, int64_t> dlpack_device() {
  const torchacc_device device = opened_device();
  return {device.device_type, device.device_id};
}

// Address of a read-only DLManagedTensorVersioned that shares the tensor's memory.
int64_t to_dlpack(const at::Tensor& tensor) {
  const torchacc_view view = view_of(*tensor.unsafeGetTensorImpl());
  torchacc_tensor* handle = nullptr;
  check(torchacc_tensor_from_view(&view, &handle));
  DLManagedTensorVersioned* managed = nullptr;
  torchacc_error* error = torchacc_tensor_to_dlpack(handle, false, &managed);
  torchacc_tensor_release(handle);
  check(error);
  return reinterpret_cast<intptr_t>(managed);
}

// Orders the work that computes the borrowed values before the work that reads them.
torchacc_error* follow_lender(void*, const torchacc_device* device, void*, size_t) noexcept {
  return guarded("acc::borrow", [&] { follow_caller(*device); });
}

// A tensor over the memory of one of PyTorch's other devices if that is the context's, else over a
// copy. The memory must not change.
at::Tensor borrow(const at::Tensor& tensor) {
  torchacc_context* owner = context();
  DLManagedTensorVersioned* managed = at::toDLPackVersioned(tensor);
  torchacc_tensor* handle = nullptr;
  check(torchacc_tensor_from_dlpack(owner, managed, &handle));
  torchacc_view view{};
  torchacc_error* error = torchacc_tensor_view(handle, &view);
  if (error == nullptr && native_device() == tensor.device()) {
    error = torchacc_buffer_look(view.buffer, callback(&follow_lender), nullptr);
  }
  at::Tensor made;
  if (error == nullptr) {
    made = adopt_tensor(torchacc_buffer_retain(view.buffer), {view.sizes, view.rank},
                        {view.strides, view.rank}, view.offset, to_scalar_type(view.dtype),
                        current_device());
  }
  torchacc_tensor_release(handle);
  check(error);
  return made;
}

TORCH_LIBRARY_FRAGMENT(acc, m) {
  m.def("dlpack_device() -> (int, int)", &dlpack_device);
  m.def("to_dlpack(Tensor tensor) -> int", &to_dlpack);
  m.def("borrow(Tensor tensor) -> Tensor", &borrow);
}

}  // namespace
}  // namespace torchacc
