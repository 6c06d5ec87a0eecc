// Running products, whose derivative PyTorch has in a form that reads whether an element is 0.
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
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

}  // namespace torchacc
