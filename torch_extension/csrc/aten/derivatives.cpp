// Products: PyTorch's derivatives of these read whether an element is 0. Second and forward-mode
// derivatives, and those of complex numbers, are PyTorch's.
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cumprod_backward.h>
#include <ATen/ops/cumprod_backward_native.h>
#include <ATen/ops/prod.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "aten/kernels.h"
#include "record/arguments.h"
#include "record/operator.h"
#include "record/recorder.h"
#include "runtime/allocator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return !at::isComplexType(tensor.scalar_type()) && !at::isTensorSubclassLike(tensor) &&
         !tensor.has_names();
}

bool has_tangent(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }

bool is_differentiated(const at::Tensor& tensor) {
  return (at::GradMode::is_enabled() && tensor.requires_grad()) || has_tangent(tensor);
}

// PyTorch's own autograd kernel, the one of all devices.
c10::DispatchKeySet with_pytorchs_autograd(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradOther);
}

// The dimension over which elements are multiplied, or all.
struct Factors {
  std::optional<int64_t> dim;
  bool keepdim;
  std::optional<c10::ScalarType> dtype;

  at::Tensor product(c10::DispatchKeySet keys, const at::Tensor& x) const {
    return dim ? at::_ops::prod_dim_int::redispatch(keys, x, *dim, keepdim, dtype)
               : at::_ops::prod::redispatch(keys, x, dtype);
  }
};

const std::optional<torchacc_op>& native_derivative() {
  static const std::optional<torchacc_op> found = host_forced("torchacc::prod_backward")
                                                      ? std::nullopt
                                                      : find_native("torchacc::prod_backward");
  return found;
}

class Product : public torch::autograd::Function<Product> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const Factors& factors, c10::DispatchKeySet keys) {
    context->save_for_backward({x});
    context->saved_data["dim"] = factors.dim;
    context->saved_data["keepdim"] = factors.keepdim;
    context->saved_data["keys"] = static_cast<int64_t>(keys.raw_repr());
    return factors.product(keys & c10::after_autograd_keyset, x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const std::optional<int64_t> dim = context->saved_data["dim"].toOptional<int64_t>();
    const bool keepdim = context->saved_data["keepdim"].toBool();
    at::Tensor of_product = gradients[0];
    const bool is_differentiable = at::GradMode::is_enabled();
    if (is_differentiable || !is_plain(of_product)) {
      const at::AutoGradMode graph(true);
      const Factors factors{dim, keepdim, of_product.scalar_type()};
      // The tensor's own keys may include some that this operator falls through.
      const auto keys = static_cast<uint64_t>(context->saved_data["keys"].toInt());
      const at::Tensor product = factors.product(
          with_pytorchs_autograd(c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys)), x);
      return {torch::autograd::grad({product}, {x}, {of_product}, /*retain_graph=*/true,
                                    is_differentiable)[0],
              at::Tensor(), at::Tensor()};
    }
    if (dim && keepdim) of_product = of_product.squeeze(*dim);
    of_product = of_product.resolve_neg();
    const at::Tensor factors = x.resolve_neg();
    const at::Tensor result = make_tensor(x.sizes(), c10::contiguous_strides(x.sizes()),
                                          x.scalar_type(), x.device().index());
    const torchacc_view operands[] = {view_of(*of_product.unsafeGetTensorImpl()),
                                      view_of(*factors.unsafeGetTensorImpl())};
    c10::SmallVector<torchacc_arg, 3> arguments{view_argument(operands[0]),
                                                view_argument(operands[1])};
    if (dim) arguments.push_back(integer_argument(TORCHACC_ARG_INT, *dim));
    const torchacc_view output = view_of(*result.unsafeGetTensorImpl());
    record_native(*native_derivative(), arguments, output);
    return {result, at::Tensor(), at::Tensor()};
  }
};

at::Tensor product(c10::DispatchKeySet keys, const at::Tensor& x, const Factors& factors) {
  const bool is_ours = at::GradMode::is_enabled() && x.requires_grad() && !has_tangent(x) &&
                       is_plain(x) && x.dim() > 0 && x.numel() > 0 &&
                       at::isFloatingType(factors.dtype.value_or(x.scalar_type())) &&
                       native_derivative();
  if (is_ours) return Product::apply(x, factors, keys);
  return factors.product(with_pytorchs_autograd(keys), x);
}

}  // namespace

at::Tensor prod(c10::DispatchKeySet keys, const at::Tensor& self,
                std::optional<c10::ScalarType> dtype) {
  return product(keys, self, {std::nullopt, false, dtype});
}

at::Tensor prod_dim(c10::DispatchKeySet keys, const at::Tensor& self, int64_t dim, bool keepdim,
                    std::optional<c10::ScalarType> dtype) {
  return product(keys, self, {dim, keepdim, dtype});
}

at::Tensor cumprod_backward(const at::Tensor& grad, const at::Tensor& input, int64_t dim,
                            const at::Tensor& output) {
  // PyTorch returns the gradient itself for a product of one element.
  bool is_pytorchs = input.numel() <= 1 || input.size(dim) == 1;
  for (const at::Tensor* one : {&grad, &input, &output})
    is_pytorchs |= is_differentiated(*one) || !is_plain(*one);
  if (is_pytorchs) return at::native::cumprod_backward(grad, input, dim, output);
  const at::AutoDispatchBelowADInplaceOrView guard;
  return at::cumprod_backward(grad, input, dim, output);
}

}  // namespace torchacc
