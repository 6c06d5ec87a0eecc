#include "record/validate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/List.h>
#include <ATen/ops/full.h>
#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_set>

#include "record/dispatch.h"

namespace torchacc {
namespace {

// Beyond this an error message is not worth the memory.
constexpr size_t kLargestRehearsal = size_t{1} << 30;

// What lies on the CPU in place of a device tensor.
using StandIn = c10::function_ref<at::Tensor(const c10::TensorImpl&)>;

at::ScalarType type_of(const c10::TensorImpl& tensor) {
  return c10::typeMetaToScalarType(tensor.dtype());
}

at::Tensor filled(at::IntArrayRef sizes, at::ScalarType type, int64_t value) {
  return at::full(sizes, value, at::TensorOptions().dtype(type).device(at::kCPU));
}

c10::IValue rehearsed(const c10::IValue& value, Role role, StandIn stand_in) {
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

// Runs the call's CPU kernel on other tensors.
void rehearse(const Call& call, StandIn stand_in) {
  const OperatorInfo& info = call.info();
  const CleanDispatch guard;
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  torch::jit::Stack inputs;  // keeps the arguments alive: kernels return references to them
  for (size_t index = 0; index < info.parameters.size(); ++index) {
    inputs.push_back(rehearsed(call.inputs()[index], info.parameters[index].role, stand_in));
  }
  // A throwaway generator: a rehearsal must not take numbers from the program's.
  if (info.generator >= 0) {
    inputs[static_cast<size_t>(info.generator)] = at::make_generator<at::CPUGeneratorImpl>();
  }
  torch::jit::Stack stack = inputs;
  info.handle.callBoxed(&stack);
}

// No dimension longer than this tells sizes apart as far as broadcasting does.
at::Tensor sketch(const c10::TensorImpl& tensor, at::ScalarType type, int64_t value) {
  c10::SmallVector<int64_t, 8> sizes(tensor.sizes().begin(), tensor.sizes().end());
  for (int64_t& size : sizes) size = std::min<int64_t>(size, 2);
  return filled(sizes, type, value);
}

bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

template <class Test>
bool any_type(const Call& call, Test test) {
  const auto tensors = call.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [&](const TensorUse& use) {
    return use.tensor != nullptr && test(type_of(*use.tensor));
  });
}

bool refuses_filled(const Call& call, int64_t value) {
  try {
    rehearse(call, [value](const c10::TensorImpl& tensor) {
      const auto type = type_of(tensor);
      return sketch(tensor, is_half(type) ? at::kFloat : type, value);
    });
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

// Whether the CPU's kernel takes these types for no values: not 0, which divides nothing, and not
// 1, which is no index everywhere.
bool refuses_types(const Call& call) {
  const OperatorInfo& info = call.info();
  if (!info.rehearsable || info.seeded) return false;
  if (any_type(call, at::isFloat8Type)) return false;
  // What a CPU lacks for half types a device may have, so f32 stands for them; where an attribute
  // could name one, nothing can be said.
  const auto& parameters = info.parameters;
  const bool names_types =
      std::any_of(parameters.begin(), parameters.end(), [](const Parameter& parameter) {
        return parameter.role == Role::Bool || parameter.role == Role::Dtype;
      });
  if (names_types && any_type(call, is_half)) return false;
  const auto inputs = call.inputs();
  const auto names_half = [](const c10::IValue& value) {
    return value.isInt() && is_half(static_cast<at::ScalarType>(value.toInt()));
  };
  for (size_t index = 0; index < inputs.size(); ++index) {
    if (parameters[index].role == Role::Dtype && names_half(inputs[index])) return false;
  }
  return refuses_filled(call, 0) && refuses_filled(call, 1);
}

// The call's tensors on the CPU as they lie on the device, in storages of their own.
class Layout {
 public:
  explicit Layout(const Call& call) : call_(call), extents_(call.storages().size()) {
    for (const TensorUse& use : call.tensors()) {
      if (use.tensor == nullptr) continue;
      int64_t& extent = extents_[use.storage];
      extent = std::max<int64_t>(extent, at::detail::computeStorageNbytes(
                                             use.tensor->sizes(), use.tensor->strides(),
                                             use.tensor->itemsize(), use.tensor->storage_offset()));
    }
  }

  size_t nbytes() const { return std::accumulate(extents_.begin(), extents_.end(), size_t{0}); }

  at::Tensor operator()(const c10::TensorImpl& tensor) {
    if (storages_.empty()) {
      for (const int64_t extent : extents_)
        storages_.push_back(filled({extent}, at::kByte, 0).storage());
    }
    const auto uses = call_.tensors();
    const auto use = std::find_if(uses.begin(), uses.end(), [&tensor](const TensorUse& other) {
      return other.tensor == &tensor;
    });
    TORCH_INTERNAL_ASSERT(use != uses.end());
    auto placed = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storages_[use->storage]), c10::DispatchKeySet(c10::DispatchKey::CPU),
        tensor.dtype());
    placed.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                        tensor.storage_offset());
    return placed;
  }

 private:
  const Call& call_;
  std::vector<int64_t> extents_;
  std::vector<c10::Storage> storages_;
};

bool overlap_partly(const TensorUse& written, const TensorUse& other) {
  return other.tensor != nullptr && other.storage == written.storage &&
         at::get_overlap_status(written.tensor, other.tensor) == at::MemOverlapStatus::Partial;
}

bool writes_over_operands(const Call& call) {
  const auto tensors = call.tensors();
  if (call.storages().size() == tensors.size()) return false;
  return std::any_of(tensors.begin(), tensors.end(), [&tensors](const TensorUse& written) {
    return written.written &&
           std::any_of(tensors.begin(), tensors.end(), [&written](const TensorUse& other) {
             return overlap_partly(written, other);
           });
  });
}

// Bool and integers, floats, complex numbers: an in-place result may not fall back to an earlier
// one.
int category(at::ScalarType type) {
  return at::isComplexType(type) ? 2 : at::isFloatingType(type) ? 1 : 0;
}

int category(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? category(value.toTensor().scalar_type()) : 0;
  }
  return value.isComplexDouble() ? 2 : value.isDouble() ? 1 : 0;
}

// Whether an in-place operator meets numbers of a higher category than those it writes over. What a
// list or an out= tensor holds is left to the Meta kernel.
bool falls_back(const Call& call) {
  const auto tensors = call.tensors();
  const auto inputs = call.inputs();
  if (inputs.empty() || !inputs[0].isTensor() || tensors.empty() || !tensors[0].written ||
      inputs[0].toTensor().unsafeGetTensorImpl() != tensors[0].tensor) {
    return false;
  }
  const auto type = inputs[0].toTensor().scalar_type();
  // The results of these are of another category by themselves.
  const c10::OperatorName& name = call.info().handle.operator_name();
  if (name.name == "aten::mul_" && type == at::kBool) return true;
  const bool divides =
      name.name == "aten::div_" && name.overload_name.find("mode") == std::string::npos;
  if (divides && category(type) == 0) return true;
  const int own = category(type);
  return std::any_of(inputs.begin() + 1, inputs.end(),
                     [own](const c10::IValue& value) { return category(value) > own; });
}

// Whether an operator that wants floats of one type got several.
bool mixes_floats(const Call& call) {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::index_put",  "aten::index_put_",  "aten::_index_put_impl_",
      "aten::index_copy", "aten::index_copy_", "aten::mm",
      "aten::bmm",        "aten::addmm",       "aten::addmm_",
      "aten::baddbmm",    "aten::baddbmm_",    "aten::addbmm",
      "aten::addbmm_",    "aten::mv",          "aten::addmv",
      "aten::addmv_",     "aten::dot",         "aten::vdot",
  };
  if (names->count(call.info().handle.operator_name().name) == 0) return false;
  std::optional<at::ScalarType> first;
  return any_type(call, [&first](at::ScalarType type) {
    if (!at::isFloatingType(type)) return false;
    if (!first.has_value()) first = type;
    return type != *first;
  });
}

// What the library's product leaves to its run.
bool has_unequal_terms(const Call& call) {
  if (call.info().handle.operator_name().name != "aten::_scaled_mm") return false;
  const auto tensors = call.tensors();
  return tensors[0].tensor->sizes()[1] != tensors[1].tensor->sizes()[0];
}

}  // namespace

void raise_as_cpu(const Call& call) {
  size_t nbytes = 0;
  for (const TensorUse& use : call.tensors()) {
    if (use.tensor != nullptr) nbytes += use.tensor->numel() * use.tensor->itemsize();
  }
  if (nbytes > kLargestRehearsal) return;
  rehearse(call, [](const c10::TensorImpl& tensor) {
    return filled(tensor.sizes(), type_of(tensor), 0);
  });
}

void check_types(const Call& call) {
  if (falls_back(call) || mixes_floats(call) || has_unequal_terms(call) || refuses_types(call)) {
    raise_as_cpu(call);
  }
}

void check_overlaps(const Call& call) {
  if (!call.info().overlap_allowed) {
    for (const TensorUse& use : call.tensors()) {
      if (use.written) at::assert_no_internal_overlap(use.tensor);
    }
  }
  if (!writes_over_operands(call)) return;
  Layout layout(call);
  if (layout.nbytes() <= kLargestRehearsal) rehearse(call, layout);
}

void check_numbers(const Call& call) {
  if (!call.info().rehearsable) return;
  // What this thread has found right lately, at the places that the hashes say.
  constexpr size_t kRecent = 16;
  static thread_local std::array<KeyWords, kRecent> accepted;
  KeyWords words = call.key_with_numbers();
  KeyWords& place = accepted[hash_of(words) % kRecent];
  if (place == words) return;
  try {
    rehearse(call,
             [](const c10::TensorImpl& tensor) { return sketch(tensor, type_of(tensor), 0); });
  } catch (const c10::NotImplementedError&) {
    // A device may have what a CPU lacks for half types.
    if (!any_type(call, is_half)) throw;
  }
  place = std::move(words);
}

}  // namespace torchacc
