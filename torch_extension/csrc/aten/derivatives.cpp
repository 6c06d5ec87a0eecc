// Products, whose derivatives PyTorch has in a form that reads whether an element is 0.
#include <ATen/RedispatchFunctions.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumprod_backward.h>
#include <ATen/ops/cumprod_backward_native.h>

#include "aten/kernels.h"

namespace torchacc {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return !at::isComplexType(tensor.scalar_type()) && !at::isTensorSubclassLike(tensor) &&
         !tensor.has_names();
}

bool is_differentiated(const at::Tensor& tensor) {
  return (at::GradMode::is_enabled() && tensor.requires_grad()) ||
         tensor._fw_grad(/*level=*/0).defined();
}

// Whether there is a derivative of products of so many elements to be taken that PyTorch would read
// for. That of a running product of one element has no derivative, not even 0.
bool would_read(const at::Tensor& self, int64_t count) {
  return is_differentiated(self) && is_plain(self) && self.numel() != 0 && count != 1;
}

// PyTorch's own kernel for gradients stands at the keys of other devices.
c10::DispatchKeySet pytorchs(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset) | c10::DispatchKeySet(c10::DispatchKey::AutogradOther);
}

}  // namespace

// The gradient itself is a recorded operation; that of the gradient is PyTorch's, which is right at
// 0, too.
at::Tensor cumprod_backward(const at::Tensor& grad, const at::Tensor& input, int64_t dim,
                            const at::Tensor& output) {
  // PyTorch's gives a product of one element its gradient as it is.
  bool is_pytorchs = input.numel() <= 1 || input.size(dim) == 1;
  for (const at::Tensor* one : {&grad, &input, &output})
    is_pytorchs |= is_differentiated(*one) || !is_plain(*one);
  if (is_pytorchs) return at::native::cumprod_backward(grad, input, dim, output);
  const at::AutoDispatchBelowADInplaceOrView guard;
  return at::cumprod_backward(grad, input, dim, output);
}

// The last running product, whose derivative reads nothing.
at::Tensor prod(c10::DispatchKeySet keys, const at::Tensor& self,
                std::optional<at::ScalarType> dtype) {
  if (!would_read(self, self.numel())) return at::redispatch::prod(pytorchs(keys), self, dtype);
  return at::cumprod(self.reshape(-1), 0, dtype).select(0, -1).clone();
}

at::Tensor prod_dim(c10::DispatchKeySet keys, const at::Tensor& self, int64_t dim, bool keepdim,
                    std::optional<at::ScalarType> dtype) {
  if (self.dim() == 0 || !would_read(self, self.size(dim)))
    return at::redispatch::prod(pytorchs(keys), self, dim, keepdim, dtype);
  const at::Tensor last = at::cumprod(self, dim, dtype).narrow(dim, self.size(dim) - 1, 1);
  return (keepdim ? last : last.squeeze(dim)).clone();
}

}  // namespace torchacc
