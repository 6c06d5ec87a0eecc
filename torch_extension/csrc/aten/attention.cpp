// Scaled dot-product attention as one operation, forward and backward.
#include <ATen/ExpandUtils.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/strides.h>

#include <cmath>

#include "aten/kernels.h"
#include "record/arguments.h"
#include "record/dispatch.h"
#include "record/operator.h"
#include "record/recorder.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

struct Natives {
  std::optional<torchacc_op> forward;
  std::optional<torchacc_op> backward;
};

const Natives& natives() {
  static const Natives found = [] {
    if (host_forced("torchacc::attention")) return Natives{};
    return Natives{find_native("torchacc::attention"), find_native("torchacc::attention_backward")};
  }();
  return found;
}

// The arguments of an attention operation; owns the views to which they point.
class Arguments {
 public:
  void tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return arguments_.push_back({TORCHACC_ARG_NONE, 0, {}});
    TORCH_INTERNAL_ASSERT(views_.size() < kTensors);
    views_.push_back(view_of(*tensor.unsafeGetTensorImpl()));
    arguments_.push_back(view_argument(views_.back()));
  }
  void parameters(double dropout_p, bool is_causal, double scale, RandomState random) {
    arguments_.push_back(float_argument(TORCHACC_ARG_FLOAT, dropout_p));
    arguments_.push_back(integer_argument(TORCHACC_ARG_BOOL, is_causal));
    arguments_.push_back(float_argument(TORCHACC_ARG_FLOAT, scale));
    for (const uint64_t state : {random.seed, random.offset}) {
      arguments_.push_back(integer_argument(TORCHACC_ARG_SCALAR_INT, static_cast<int64_t>(state)));
    }
  }
  c10::ArrayRef<torchacc_arg> get() const { return arguments_; }

 private:
  static constexpr size_t kTensors = 8;
  // Never grows past its inline storage, so that the pointers stay valid.
  c10::SmallVector<torchacc_view, kTensors> views_;
  c10::SmallVector<torchacc_arg, 16> arguments_;
};

double scale_or_default(const at::Tensor& query, std::optional<double> scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

// Broadcast to [batch, heads, queries, keys] by strides of zero, so that the operation has one form
// of mask.
at::Tensor expanded_bias(const std::optional<at::Tensor>& bias, const at::Tensor& query,
                         const at::Tensor& key) {
  if (!bias.has_value() || !bias->defined()) return {};
  return bias->expand({query.size(0), query.size(1), query.size(2), key.size(2)});
}

// [batch, heads, queries, width], [batch, groups, keys, width] and [batch, groups, keys, any].
bool fitting_shapes(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  return query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && query.size(0) == key.size(0) &&
         query.size(0) == value.size(0) && key.size(1) == value.size(1) &&
         key.size(2) == value.size(2) && query.size(3) == key.size(3) && query.numel() != 0 &&
         key.numel() != 0 && value.numel() != 0 && query.size(1) % key.size(1) == 0;
}

bool plain_mask(const std::optional<at::Tensor>& mask) {
  if (!mask.has_value() || !mask->defined()) return true;
  return is_acc(*mask) && !(mask->requires_grad() && at::GradMode::is_enabled()) &&
         mask->dim() <= 4;
}

// Nested tensors and other wrappers have sizes of their own kind.
bool plain_tensors(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    if (!is_acc(*tensor) || tensor->is_nested() || tensor->layout() != at::kStrided) return false;
  }
  const c10::ScalarType type = query.scalar_type();
  const bool computed =
      type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble;
  return computed && key.scalar_type() == type && value.scalar_type() == type;
}

at::Tensor random_tensor(uint64_t value) {
  return at::scalar_tensor(static_cast<int64_t>(value),
                           at::TensorOptions().dtype(at::kLong).device(at::kCPU));
}

}  // namespace

int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double, bool, std::optional<double>,
                         bool enable_gqa) {
  const bool fused = plain_tensors(query, key, value) && fitting_shapes(query, key, value) &&
                     (enable_gqa || query.size(1) == key.size(1)) && plain_mask(mask) &&
                     natives().forward.has_value() && natives().backward.has_value();
  return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
           at::Tensor, at::Tensor>
attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const std::optional<at::Tensor>& bias, double dropout_p, bool is_causal, bool,
          std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      natives().forward.has_value() && fitting_shapes(query, key, value),
      "acc: fused attention needs query, key and value of the form [batch, heads, length, width]");
  const DispatchBelowAutograd guard;
  const int64_t batch = query.size(0), heads = query.size(1), length = query.size(2),
                width = value.size(3);
  // Laid out like the query, so that heads split from one width merge back by a view; row-major
  // where the query's rows are scattered, as in PyTorch's formula for that case.
  const c10::SmallVector<int64_t, 4> sizes{batch, heads, length, width};
  c10::DimVector strides = c10::contiguous_strides(sizes);
  if (query.stride(3) == 1 || query.size(3) == 1) {
    const auto dense = at::infer_dense_strides(sizes, query.strides());
    strides.assign(dense.begin(), dense.end());
  }
  const at::Tensor out = make_tensor(sizes, strides, query.scalar_type(), query.device().index());
  const c10::ScalarType statistic = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor logsumexp = make_tensor({batch, heads, length}, {heads * length, length, 1},
                                           statistic, query.device().index());
  RandomState random{0, 0};
  if (dropout_p > 0)
    random = draw(std::nullopt, query.device().index(), batch * heads * length * key.size(2));
  const at::Tensor mask = expanded_bias(bias, query, key);
  Arguments arguments;
  for (const at::Tensor* tensor : {&query, &key, &value, &mask}) arguments.tensor(*tensor);
  arguments.parameters(dropout_p, is_causal, scale_or_default(query, scale), random);
  const std::array<torchacc_view, 2> outputs{view_of(*out.unsafeGetTensorImpl()),
                                             view_of(*logsumexp.unsafeGetTensorImpl())};
  record_native(*natives().forward, arguments.get(), outputs);
  // Also without dropout: PyTorch's compiler has the two among the tensors that it keeps.
  return {out,
          logsumexp,
          at::Tensor(),
          at::Tensor(),
          length,
          key.size(2),
          random_tensor(random.seed),
          random_tensor(random.offset),
          at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& bias, std::array<bool, 4> grad_input_mask,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor&, const at::Tensor&,
    c10::SymInt, c10::SymInt, double dropout_p, bool is_causal, const at::Tensor& philox_seed,
    const at::Tensor& philox_offset, std::optional<double> scale) {
  if (!grad_out.defined()) return {};
  TORCH_CHECK_NOT_IMPLEMENTED(
      !grad_input_mask[3],
      "acc: fused attention has no gradient for its mask; use the math backend of attention");
  const DispatchBelowAutograd guard;
  // Laid out as on PyTorch's CPU, so that the heads' widths merge back by a view.
  const auto by_heads = [](const at::Tensor& tensor) {
    return at::empty_like(tensor.transpose(1, 2), at::MemoryFormat::Contiguous).transpose(1, 2);
  };
  const std::array<at::Tensor, 3> gradients{by_heads(query), by_heads(key), by_heads(value)};
  RandomState random{0, 0};
  if (dropout_p > 0) {
    random = {static_cast<uint64_t>(*philox_seed.const_data_ptr<int64_t>()),
              static_cast<uint64_t>(*philox_offset.const_data_ptr<int64_t>())};
  }
  const at::Tensor mask = expanded_bias(bias, query, key);
  Arguments arguments;
  for (const at::Tensor* tensor : {&grad_out, &query, &key, &value, &mask, &out, &logsumexp})
    arguments.tensor(*tensor);
  arguments.parameters(dropout_p, is_causal, scale_or_default(query, scale), random);
  c10::SmallVector<torchacc_view, 3> outputs;
  for (const at::Tensor& gradient : gradients)
    outputs.push_back(view_of(*gradient.unsafeGetTensorImpl()));
  record_native(*natives().backward, arguments.get(), outputs);
  const auto wanted = [&](size_t index) {
    return grad_input_mask[index] ? gradients[index] : at::Tensor();
  };
  return {wanted(0), wanted(1), wanted(2), at::Tensor()};
}

}  // namespace torchacc

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torchacc::fused_sdp_choice)

}  // namespace at::native
