// torch.ops.acc.*: values offloaded to the host's memory while the device's memory is needed for
// others.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "record/recorder.h"
#include "runtime/allocator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

at::Tensor moved(const at::Tensor& self, std::string_view name) {
  const auto native = find_native(name);
  TORCH_CHECK(native.has_value(), name, " is not there: the library is of another version");
  const at::Tensor made = at::empty_like(self);
  record_native(*native, view_argument(view_of(*self.unsafeGetTensorImpl())),
                view_of(*made.unsafeGetTensorImpl()));
  return made;
}

at::Tensor offload(const at::Tensor& self) { return moved(self, "offload"); }
at::Tensor reload(const at::Tensor& self) { return moved(self, "reload"); }

TORCH_LIBRARY_FRAGMENT(acc, m) {
  m.def("offload(Tensor self) -> Tensor");
  m.def("reload(Tensor self) -> Tensor");
}

TORCH_LIBRARY_IMPL(acc, PrivateUse1, m) {
  m.impl("offload", &offload);
  m.impl("reload", &reload);
}

}  // namespace
}  // namespace torchacc
