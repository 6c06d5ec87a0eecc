#include "record/dry_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/List.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "record/dispatch.h"
#include "record/torch_versions.h"

namespace torchacc {
namespace {

c10::IValue dry_run_value(const c10::IValue& value, Role role, StandIn stand_in) {
  const auto replace = [&](const at::Tensor& tensor) {
    return is_acc(tensor) ? stand_in(*tensor.unsafeGetTensorImpl()) : tensor;
  };
  if (value.isTensor()) return replace(value.toTensor());
  if (role == Role::TensorList && !value.isNone()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& one : value.toListRef()) list.push_back(replace(one.toTensor()));
    return list;
  }
  if (role == Role::OptionalList && !value.isNone()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& one : value.toListRef()) {
      const bool present = one.isTensor() && one.toTensor().defined();
      list.push_back(present ? std::optional(replace(one.toTensor())) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice()) return c10::Device(at::kCPU);
  return value;
}

class Silence final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Restores the state of PyTorch's own CPU generator, for kernels that take no other.
class SavedGenerator {
 public:
  ~SavedGenerator() { generator_.set_state(state_); }

 private:
  at::Generator generator_ = at::globalContext().defaultGenerator(at::kCPU);
  at::Tensor state_ = generator_.get_state();
};

Tensors flattened(const torch::jit::Stack& results) {
  Tensors tensors;
  for (const c10::IValue& value : results) {
    if (value.isTensorList()) {
      for (const c10::IValue& one : value.toListRef()) tensors.push_back(one.toTensor());
    } else {
      tensors.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
    }
  }
  return tensors;
}

std::optional<Tensors> attempt(const Call& call, StandIn stand_in) {
  try {
    return dry_run(call, stand_in);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

at::Tensor filled(at::IntArrayRef sizes, at::IntArrayRef strides, const c10::TensorImpl& like,
                  at::ScalarType type, int64_t value) {
  const auto extent = static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, 1));
  const at::Tensor memory =
      at::full({extent}, value, at::TensorOptions().dtype(type).device(at::kCPU));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(memory.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), memory.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(sizes, strides);
  if (like.is_wrapped_number()) impl->set_wrapped_number(true);
  if (is_named(like)) copy_names(tensor, like);
  return tensor;
}

}  // namespace

Tensors dry_run(const Call& call, StandIn stand_in) {
  const OperatorInfo& info = call.info();
  const CleanDispatch guard;
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  torch::jit::Stack inputs;  // keeps the arguments alive: kernels return references to them
  for (size_t index = 0; index < info.parameters.size(); ++index) {
    inputs.push_back(dry_run_value(call.inputs()[index], info.parameters[index].role, stand_in));
  }
  // A throwaway generator: a dry run must not take numbers from the program's.
  if (info.generator >= 0) {
    inputs[static_cast<size_t>(info.generator)] = at::make_generator<at::CPUGeneratorImpl>();
  }
  torch::jit::Stack stack = inputs;
  if (info.seeded && info.generator < 0) {
    const SavedGenerator saved;
    info.handle.callBoxed(&stack);
  } else {
    info.handle.callBoxed(&stack);
  }
  return flattened(stack);
}

std::optional<Tensors> dry_run_in_full(const Call& call) {
  if (call.info().users || nbytes_of(call) > kLargestDryRun) return std::nullopt;
  return attempt(call,
                 [](const c10::TensorImpl& tensor) { return in_full(tensor, type_of(tensor), 0); });
}

std::optional<Tensors> dry_run_sketch(const Call& call, bool halves) {
  if (!call.info().dry_runnable) return std::nullopt;
  return attempt(call, Sketch(call, 0, halves));
}

bool trusts_operands(const Call& call) {
  const auto tensors = call.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorUse& use) {
    return use.tensor != nullptr && at::isIntegralType(type_of(*use.tensor), /*includeBool=*/false);
  });
}

size_t nbytes_of(const Call& call) {
  size_t nbytes = 0;
  for (const TensorUse& use : call.tensors()) {
    if (use.tensor != nullptr) nbytes += use.tensor->numel() * use.tensor->itemsize();
  }
  return nbytes;
}

at::ScalarType type_of(const c10::TensorImpl& tensor) {
  return c10::typeMetaToScalarType(tensor.dtype());
}

at::Tensor in_full(const c10::TensorImpl& tensor, at::ScalarType type, int64_t value) {
  // With the original strides, elements that lie far apart would take more memory than they need.
  const auto strides = strides_in_order(tensor.sizes(), tensor.strides());
  return filled(tensor.sizes(), strides, tensor, type, value);
}

Sketch::Sketch(const Call& call, int64_t value, bool halves) : value_(value), halves_(halves) {
  for (const TensorUse& use : call.tensors()) {
    if (use.tensor == nullptr) continue;
    for (const int64_t size : use.tensor->sizes()) {
      if (size > 2) sizes_.emplace_back(size, 0);
    }
  }
  std::sort(sizes_.begin(), sizes_.end());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
  int64_t last = 2;
  for (auto& [size, stand_in] : sizes_) {
    last += (last + size) % 2 == 0 ? 2 : 1;
    stand_in = last;
  }
  // Many different sizes make many elements: then all beyond 2 become 2, enough for broadcasting.
  constexpr int64_t kLargest = int64_t{1} << 14;
  int64_t numel = 0;
  for (const TensorUse& use : call.tensors()) {
    if (use.tensor != nullptr) numel += c10::multiply_integers(sizes_of(*use.tensor));
  }
  if (numel > kLargest) sizes_.clear();
}

c10::SmallVector<int64_t, 8> Sketch::sizes_of(const c10::TensorImpl& tensor) const {
  c10::SmallVector<int64_t, 8> sizes(tensor.sizes().begin(), tensor.sizes().end());
  for (int64_t& size : sizes) {
    const auto found = std::lower_bound(sizes_.begin(), sizes_.end(), std::pair(size, int64_t{0}));
    size =
        found != sizes_.end() && found->first == size ? found->second : std::min<int64_t>(size, 2);
  }
  return sizes;
}

at::Tensor Sketch::operator()(const c10::TensorImpl& tensor) const {
  const auto type = type_of(tensor);
  const auto sizes = sizes_of(tensor);
  return filled(sizes, strides_in_order(sizes, tensor.strides()), tensor,
                is_half(type) && !halves_ ? at::kFloat : type, value_);
}

c10::SmallVector<int64_t, 8> strides_in_order(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  c10::SmallVector<int64_t, 8> dense(sizes.size(), 0);
  int64_t next = 1;
  for (size_t start = 0, end = 0; start < order.size(); start = end) {
    const int64_t stride = strides[order[start]];
    int64_t extent = 1;
    for (; end < order.size() && strides[order[end]] == stride; ++end) {
      if (stride != 0) dense[order[end]] = next;
      extent = std::max({extent, sizes[order[end]], int64_t{1}});
    }
    if (stride != 0) next *= extent;
  }
  return dense;
}

}  // namespace torchacc
