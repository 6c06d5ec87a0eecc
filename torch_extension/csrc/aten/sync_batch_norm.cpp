// The operators of `nn.SyncBatchNorm`, which PyTorch has for CUDA alone, as compositions. Channels
// are dimension 1; statistics of half types are f32.
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

namespace torchacc {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool is_given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

Tensor precise(const Tensor& tensor) { return tensor.to(at::toOpMathType(tensor.scalar_type())); }

// All dimensions but the channels.
std::vector<int64_t> within_channels(const Tensor& input) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim != 1) dims.push_back(dim);
  }
  return dims;
}

// One number per channel, in a shape that broadcasts to `input`.
Tensor along(const Tensor& numbers, const Tensor& input) {
  std::vector<int64_t> sizes(input.dim(), 1);
  sizes[1] = numbers.numel();
  return numbers.reshape(sizes);
}

std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  const Tensor x = precise(input);
  const auto dims = within_channels(input);
  const Tensor mean = x.mean(dims);
  const Tensor variance = (x - along(mean, x)).square().mean(dims);
  return {mean, at::rsqrt(variance + eps)};
}

// `mean`, `invstd`: a row for each rank; `counts`: elements per channel, by rank. Running
// statistics are those of all ranks.
std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(
    const Tensor&, const Tensor& mean, const Tensor& invstd, const OptionalTensor& running_mean,
    const OptionalTensor& running_var, double momentum, double eps, const Tensor& counts) {
  const Tensor weights = counts.to(mean.scalar_type()).reshape({-1, 1});
  const Tensor total = weights.sum();
  const Tensor common = (mean * weights).sum(0) / total;
  const Tensor own = invstd.square().reciprocal() - eps;
  const Tensor squares = ((own + (mean - common).square()) * weights).sum(0);
  if (is_given(running_mean)) running_mean->lerp_(common.to(running_mean->scalar_type()), momentum);
  if (is_given(running_var)) {
    const Tensor unbiased = squares / (total - 1);
    running_var->lerp_(unbiased.to(running_var->scalar_type()), momentum);
  }
  return {common, at::rsqrt(squares / total + eps)};
}

Tensor batch_norm_elemt(const Tensor& input, const OptionalTensor& weight,
                        const OptionalTensor& bias, const Tensor& mean, const Tensor& invstd,
                        double) {
  Tensor y = (precise(input) - along(mean, input)) * along(invstd, input);
  if (is_given(weight)) y = y * along(precise(*weight), input);
  if (is_given(bias)) y = y + along(precise(*bias), input);
  return y.to(input.scalar_type());
}

// Per channel, the sums of the gradient, and of its product with the distance from the mean; the
// gradients of weight and bias, in the weight's type.
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(
    const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
    const OptionalTensor& weight, bool input_g, bool weight_g, bool bias_g) {
  const auto dims = within_channels(input);
  const Tensor dy = precise(grad_out);
  const Tensor sum_dy = dy.sum(dims);
  const Tensor sum_dy_xmu = (dy * (precise(input) - along(mean, input))).sum(dims);
  const auto type = is_given(weight) ? weight->scalar_type() : sum_dy.scalar_type();
  return {input_g ? sum_dy : Tensor(), input_g ? sum_dy_xmu : Tensor(),
          weight_g ? (sum_dy_xmu * invstd).to(type) : Tensor(),
          bias_g ? sum_dy.to(type, /*non_blocking=*/false, /*copy=*/true) : Tensor()};
}

Tensor batch_norm_backward_elemt(const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                 const Tensor& invstd, const OptionalTensor& weight,
                                 const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                                 const Tensor& count) {
  const Tensor total = count.sum().to(mean.scalar_type());
  const Tensor slope = invstd.square() * (sum_dy_xmu / total);
  const Tensor centered = precise(input) - along(mean, input);
  Tensor dx = precise(grad_out) - along(sum_dy / total, input) - centered * along(slope, input);
  const Tensor scale = is_given(weight) ? invstd * precise(*weight) : invstd;
  return (dx * along(scale, input)).to(input.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_stats", &batch_norm_stats);
  m.impl("batch_norm_gather_stats_with_counts", &batch_norm_gather_stats_with_counts);
  m.impl("batch_norm_elemt", &batch_norm_elemt);
  m.impl("batch_norm_backward_reduce", &batch_norm_backward_reduce);
  m.impl("batch_norm_backward_elemt", &batch_norm_backward_elemt);
}

}  // namespace torchacc
