// Operators for which PyTorch has separate names on devices like this one.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/index.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/one_hot_native.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tanh.h>

#include "aten/kernels.h"
#include "record/immediate.h"
#include "record/recorder.h"

namespace torchacc {
namespace {

c10::OperatorHandle find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

void check_factor(const at::Scalar& factor, const char* name, const at::Tensor& self,
                  const at::Tensor& vec1, const at::Tensor& vec2) {
  const auto type = c10::promoteTypes(c10::promoteTypes(vec1.scalar_type(), vec2.scalar_type()),
                                      self.scalar_type());
  TORCH_CHECK(!factor.isBoolean() || type == at::kBool, "Boolean ", name,
              " only supported for Boolean results.");
  TORCH_CHECK(at::isFloatingType(type) || at::isComplexType(type) || factor.isIntegral(true),
              "For integral input tensors, argument ", name,
              " must not be a floating point number.");
}

at::Tensor biased(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return bias.has_value() && bias->defined() ? at::add(gates, *bias) : gates;
}

}  // namespace

// A composition, whose parts do not make the checks of the CPU's kernel.
at::Tensor addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2,
                const at::Scalar& beta, const at::Scalar& alpha) {
  check_factor(beta, "beta", self, vec1, vec2);
  check_factor(alpha, "alpha", self, vec1, vec2);
  return at::native::math_addr(self, vec1, vec2, beta, alpha);
}

at::Tensor& addr_out(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2,
                     const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  check_factor(beta, "beta", self, vec1, vec2);
  check_factor(alpha, "alpha", self, vec1, vec2);
  return at::native::math_addr_out(self, vec1, vec2, beta, alpha, out);
}

// PyTorch leaves negative classes to the scatter, which finds no index out of range if all are
// negative: the largest then says that there are no classes. One read gets both ends.
at::Tensor one_hot(const at::Tensor& self, int64_t num_classes) {
  if (num_classes == -1 && self.scalar_type() == at::kLong && self.numel() != 0) {
    const auto [least, most] = at::aminmax(self);
    const at::Tensor ends = at::stack({least, most}).cpu();
    const int64_t* const values = ends.const_data_ptr<int64_t>();
    TORCH_CHECK(values[0] >= 0, "Class values must be non-negative.");
    num_classes = values[1] + 1;
  }
  return at::native::one_hot(self, num_classes);
}

// The device has no nested tensors, and PyTorch's encoder would make one of an aligned batch
// without `torchacc/adapters/encoder.py`.
bool is_left_aligned(const at::Tensor&, const at::Tensor&) { return false; }

// (self, mask). Reads the mask, not the tensor from which it selects.
void masked_select(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor self = torch::jit::peek(*stack, 0, 2).toTensor();
  const at::Tensor mask = torch::jit::peek(*stack, 1, 2).toTensor();
  if (mask.scalar_type() != at::kBool || mask.device() != self.device() || self.has_names() ||
      mask.has_names()) {
    return record_boxed(op, stack);
  }
  const auto [where, from] = at::expand_outplace(mask, self, "masked_select");
  torch::jit::drop(*stack, 2);
  // A number has no dimension along which to select.
  const auto lined = [](const at::Tensor& one) { return one.dim() == 0 ? one.view({1}) : one; };
  stack->emplace_back(at::index(lined(*from), {lined(*where)}));
}

// (self, other). Two integers do not tell the default dtype, which is the result's.
void ldexp(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor self = torch::jit::peek(*stack, 0, 2).toTensor();
  const at::Tensor other = torch::jit::peek(*stack, 1, 2).toTensor();
  const auto is_whole = [](const at::Tensor& one) {
    return c10::isIntegralType(one.scalar_type(), /*includeBool=*/true);
  };
  if (is_whole(self) && is_whole(other) && c10::get_default_dtype_as_scalartype() != at::kFloat) {
    torch::jit::peek(*stack, 0, 2) = self.to(c10::get_default_dtype());
    // Beside a bool, PyTorch takes only a bool.
    if (other.scalar_type() == at::kBool) torch::jit::peek(*stack, 1, 2) = other.to(at::kInt);
  }
  record_boxed(op, stack);
}

// (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
// mode, sparse, per_sample_weights, padding_idx). By frequency, the CPU's kernel divides in a way
// of its own; a sparse gradient cannot be a result of a program.
void embedding_bag_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr size_t kArguments = 12, kByFrequency = 7, kSparse = 9;
  if (torch::jit::peek(*stack, kByFrequency, kArguments).toBool() ||
      torch::jit::peek(*stack, kSparse, kArguments).toBool()) {
    return run_immediately(*operator_info(op), *stack);
  }
  record_boxed(op, stack);
}

void convolution_overrideable(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const auto op = find("aten::convolution");
  record_boxed(op, stack);
}

void convolution_backward_overrideable(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const auto op = find("aten::convolution_backward");
  // (grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups,
  // output_mask); convolution_backward takes the bias' size after the weight.
  constexpr size_t kArguments = 10;
  const size_t first = stack->size() - kArguments;
  const at::Tensor weight = (*stack)[first + 2].toTensor();
  const bool transposed = (*stack)[first + 6].toBool();
  const int64_t groups = (*stack)[first + 8].toInt();
  const std::vector<int64_t> bias_sizes{transposed ? weight.size(1) * groups : weight.size(0)};
  stack->insert(stack->begin() + static_cast<std::ptrdiff_t>(first) + 3, c10::IValue(bias_sizes));
  record_boxed(op, stack);
}

// The fused cells exist only as CUDA kernels. Written in differentiable operators, they need no
// workspace and no backward of their own.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cell,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  const at::Tensor gates =
      at::add(biased(input_gates, input_bias), biased(hidden_gates, hidden_bias));
  const auto parts = at::chunk(gates, 4, 1);  // input, forget, candidate, output
  const at::Tensor next = at::add(at::mul(at::sigmoid(parts[1]), cell),
                                  at::mul(at::sigmoid(parts[0]), at::tanh(parts[2])));
  return {at::mul(at::sigmoid(parts[3]), at::tanh(next)), next, at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates,
                                            const at::Tensor& hidden_gates,
                                            const at::Tensor& hidden,
                                            const std::optional<at::Tensor>& input_bias,
                                            const std::optional<at::Tensor>& hidden_bias) {
  const auto input = at::chunk(biased(input_gates, input_bias), 3, 1);  // reset, update, candidate
  const auto recurrent = at::chunk(biased(hidden_gates, hidden_bias), 3, 1);
  const at::Tensor reset = at::sigmoid(at::add(input[0], recurrent[0]));
  const at::Tensor update = at::sigmoid(at::add(input[1], recurrent[1]));
  const at::Tensor candidate = at::tanh(at::add(input[2], at::mul(reset, recurrent[2])));
  return {at::add(candidate, at::mul(update, at::sub(hidden, candidate))), at::Tensor()};
}

}  // namespace torchacc
