#include "record/validate.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <array>
#include <exception>
#include <numeric>

#include "record/dry_run.h"
#include "runtime/native_device.h"

namespace torchacc {
namespace {

// The kernel's refusal of stand-ins.
struct Refusal {
  std::exception_ptr error;
  std::string words;
};

std::optional<Refusal> refusal_of(const Call& call, StandIn stand_in) {
  try {
    dry_run(call, stand_in);
  } catch (const c10::Error& error) {
    return Refusal{std::current_exception(), error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return Refusal{std::current_exception(), error.what()};
  }
  return std::nullopt;
}

template <class Test>
bool any_type(const Call& call, Test test) {
  const auto tensors = call.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [&](const TensorUse& use) {
    return use.tensor != nullptr && test(type_of(*use.tensor));
  });
}

// Throws the refusal if it is the same for zeros and for ones: refusals that depend on values
// differ for other values, or do not occur.
template <class Ask>
void raise_if_certain(Ask refusal_of_filled) {
  const std::optional<Refusal> zeros = refusal_of_filled(0);
  if (!zeros.has_value()) return;
  const std::optional<Refusal> ones = refusal_of_filled(1);
  if (ones.has_value() && ones->words == zeros->words) std::rethrow_exception(zeros->error);
}

// The CPU reports missing kernels in such words; not all of these errors have the type.
bool lacks_kernel(const Refusal& refusal) {
  return refusal.words.find("not implemented for") != std::string::npos;
}

// Whether the CPU's kernel accepts elements of these types, refuses them, or is missing.
enum class TypeSupport : uint8_t { Accepted, Refused, Unknown };

TypeSupport type_support(const Call& call, int64_t value, bool halves) {
  const Sketch sketch(call, value, halves);
  const auto refusal = refusal_of(call, sketch);
  if (!refusal.has_value()) return TypeSupport::Accepted;
  return lacks_kernel(*refusal) ? TypeSupport::Unknown : TypeSupport::Refused;
}

bool names_half(const Call& call) {
  const auto inputs = call.inputs();
  for (size_t index = 0; index < inputs.size(); ++index) {
    if (call.info().parameters[index].role == Role::Dtype && inputs[index].isInt() &&
        is_half(static_cast<at::ScalarType>(inputs[index].toInt()))) {
      return true;
    }
  }
  return false;
}

// Whether a call has statistics of halves, which are f32 here, as on CUDA: the CPU's kernels want
// halves back.
bool has_own_statistics(const Call& call) {
  return call.info().has(TORCHACC_FACT_F32_STATISTICS) && any_type(call, is_half);
}

// Whether the CPU's kernel refuses these types for all values: both for 0, which is no divisor, and
// for 1, which is not a valid index everywhere. A device may have kernels for half types that the
// CPU lacks, so f32 then stands for these, unless an attribute could name one.
bool refuses_types(const Call& call) {
  const OperatorInfo& info = call.info();
  if (!info.dry_runnable || info.seeded || any_type(call, at::isFloat8Type)) return false;
  const auto refuses = [&call](bool halves) {
    for (const int64_t value : {0, 1}) {
      const TypeSupport support = type_support(call, value, halves);
      if (support != TypeSupport::Refused) return support;
    }
    return TypeSupport::Refused;
  };
  const TypeSupport support = refuses(/*halves=*/true);
  if (support != TypeSupport::Unknown) return support == TypeSupport::Refused;
  if (names_half(call)) return false;
  if (!any_type(call, is_half)) return true;
  const auto& parameters = info.parameters;
  const bool may_name =
      std::any_of(parameters.begin(), parameters.end(), [](const Parameter& parameter) {
        return parameter.role == Role::Bool || parameter.role == Role::Dtype;
      });
  return !may_name && refuses(/*halves=*/false) == TypeSupport::Refused;
}

// The call's tensors on the CPU, laid out as on the device, in storages of their own.
class Layout {
 public:
  Layout(const Call& call, int64_t value)
      : call_(call), value_(value), extents_(call.storages().size()) {
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
        storages_.push_back(at::full({extent}, value_, at::kByte).storage());
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
  int64_t value_;
  std::vector<int64_t> extents_;
  std::vector<c10::Storage> storages_;
};

// Most operators may write over an operand at exactly the same place, but not all may as out=.
bool is_in_question(const TensorUse& written, const TensorUse& other) {
  if (other.tensor == nullptr || other.storage != written.storage || &other == &written)
    return false;
  const auto status = at::get_overlap_status(written.tensor, other.tensor);
  return status == at::MemOverlapStatus::Partial ||
         (written.out && status == at::MemOverlapStatus::Full);
}

bool writes_over_operands(const Call& call) {
  const auto tensors = call.tensors();
  if (call.storages().size() == tensors.size()) return false;
  return std::any_of(tensors.begin(), tensors.end(), [&tensors](const TensorUse& written) {
    return written.written &&
           std::any_of(tensors.begin(), tensors.end(), [&written](const TensorUse& other) {
             return is_in_question(written, other);
           });
  });
}

// Bool and integers, floats, complex numbers: an in-place result may not fall back to an earlier
// category.
int category(at::ScalarType type) {
  return at::isComplexType(type) ? 2 : at::isFloatingType(type) ? 1 : 0;
}

int category(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? category(value.toTensor().scalar_type()) : 0;
  }
  return value.isComplexDouble() ? 2 : value.isDouble() ? 1 : 0;
}

// Whether an in-place operator has operands of a higher category than the tensor it writes over.
// Tensors in lists and out= tensors are left to the Meta kernel.
bool falls_back(const Call& call) {
  const auto tensors = call.tensors();
  const auto inputs = call.inputs();
  if (inputs.empty() || !inputs[0].isTensor() || tensors.empty() || !tensors[0].written ||
      inputs[0].toTensor().unsafeGetTensorImpl() != tensors[0].tensor) {
    return false;
  }
  const auto type = inputs[0].toTensor().scalar_type();
  if (call.info().has(TORCHACC_FACT_LEAVES_BOOLS) && type == at::kBool) return true;
  if (call.info().has(TORCHACC_FACT_LEAVES_INTEGERS) && category(type) == 0) return true;
  const int own = category(type);
  return std::any_of(inputs.begin() + 1, inputs.end(),
                     [own](const c10::IValue& value) { return category(value) > own; });
}

// Whether an operator that requires floats of one type got several.
bool mixes_floats(const Call& call) {
  if (!call.info().has(TORCHACC_FACT_ONE_FLOAT)) return false;
  std::optional<at::ScalarType> first;
  return any_type(call, [&first](at::ScalarType type) {
    if (!at::isFloatingType(type)) return false;
    if (!first.has_value()) first = type;
    return type != *first;
  });
}

// Whether results go to out= tensors of another type than an operand's: most operators convert, and
// Meta kernels do not know which do not.
bool converts_results(const Call& call) {
  if (trusts_operands(call)) return false;
  const auto tensors = call.tensors();
  for (const TensorUse& out : tensors) {
    if (!out.out) continue;
    const auto differs = [&out](const TensorUse& use) {
      return use.tensor != nullptr && !use.out && use.tensor->dtype() != out.tensor->dtype();
    };
    if (std::any_of(tensors.begin(), tensors.end(), differs)) return true;
  }
  return false;
}

// Whether the operands of a product have unequal numbers of terms; the library leaves this check to
// the run.
bool has_unequal_terms(const Call& call) {
  if (!call.info().has(TORCHACC_FACT_COUNTS_TERMS_LATE)) return false;
  const auto tensors = call.tensors();
  return tensors[0].tensor->sizes()[1] != tensors[1].tensor->sizes()[0];
}

// Whether strides may lead to one element twice. Nested dimensions, each stepping over the extent
// of all within it, do not.
bool may_overlap(const c10::TensorImpl& tensor) {
  if (tensor.is_non_overlapping_and_dense() || tensor.numel() == 0) return false;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.size(d) != 1) dims.emplace_back(tensor.stride(d), tensor.size(d));
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

}  // namespace

void raise_as_cpu(const Call& call) {
  const bool has_kernel = call.info().handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  if (!has_kernel || has_own_statistics(call) || nbytes_of(call) > kLargestDryRun) return;
  raise_if_certain([&call](int64_t value) {
    return refusal_of(call, [value](const c10::TensorImpl& tensor) {
      return in_full(tensor, type_of(tensor), value);
    });
  });
}

void check_types(const Call& call) {
  if (falls_back(call) || mixes_floats(call) || has_unequal_terms(call) || converts_results(call) ||
      refuses_types(call)) {
    raise_as_cpu(call);
  }
}

void check_kernel(const Call& call) {
  const OperatorInfo& info = call.info();
  const bool on_cpu = info.by_cpu || !native_device().has_value();
  const auto is_rare = [](at::ScalarType type) {
    return type != at::kFloat && type != at::kDouble;
  };
  if (!on_cpu || info.users || trusts_operands(call) || !any_type(call, is_rare)) return;
  // Only types matter here: calls that are too large are left to their run.
  if (nbytes_of(call) > kLargestDryRun >> 6) return;
  const auto refusal = refusal_of(
      call, [](const c10::TensorImpl& tensor) { return in_full(tensor, type_of(tensor), 0); });
  if (refusal.has_value() && lacks_kernel(*refusal)) std::rethrow_exception(refusal->error);
}

void check_overlaps(const Call& call) {
  if (!writes_over_operands(call)) return;
  if (Layout(call, 0).nbytes() > kLargestDryRun) return;
  raise_if_certain([&call](int64_t value) {
    Layout layout(call, value);
    return refusal_of(call, layout);
  });
}

bool writes_as_the_cpu(const Call& call) {
  const auto tensors = call.tensors();
  return call.writes_twice() ||
         std::any_of(tensors.begin(), tensors.end(), [](const TensorUse& use) {
           return use.written &&
                  (may_overlap(*use.tensor) || (!use.out && has_other_bools(*use.tensor)));
         });
}

void check_numbers(const Call& call) {
  if (!call.info().dry_runnable) return;
  // The keys that this thread has accepted lately, at the indices given by their hashes.
  constexpr size_t kRecent = 16;
  static thread_local std::array<KeyWords, kRecent> accepted;
  KeyWords words = call.key_with_numbers();
  KeyWords& place = accepted[hash_of(words) % kRecent];
  if (place == words) return;
  const auto refusal = refusal_of(call, Sketch(call, 0, /*halves=*/true));
  if (refusal.has_value()) {
    try {
      raise_as_cpu(call);
    } catch (const c10::NotImplementedError&) {
      // A device may support half types that a CPU lacks.
      if (!any_type(call, is_half)) throw;
    }
  }
  place = std::move(words);
}

}  // namespace torchacc
