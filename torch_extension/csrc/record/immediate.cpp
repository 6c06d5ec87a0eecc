#include "record/immediate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "aten/copy.h"
#include "record/dispatch.h"
#include "record/stopwatch.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

std::atomic<uint64_t> g_runs{0};
std::atomic<uint64_t> g_copies{0};
std::atomic<uint64_t> g_nanoseconds{0};

bool is_mask(const c10::IValue& index) {
  if (!index.isTensor() || !index.toTensor().defined()) return true;
  const c10::ScalarType type = index.toTensor().scalar_type();
  return type == at::kBool || type == at::kByte;
}

// The native device, if the call's kernel runs there instead of on copies on the CPU. PyTorch's own
// kernels do if they bear all values. A user's operator does if it has a kernel there: one that
// launches Triton kernels cannot read the CPU's memory.
std::optional<c10::Device> place_of(const OperatorInfo& info, const torch::jit::Stack& stack) {
  if (info.users) {
    const auto key = native_key();
    const bool has_one =
        key.has_value() && info.generator < 0 && info.handle.hasComputedKernelForDispatchKey(*key);
    return has_one ? native_device() : std::nullopt;
  }
  bool is_safe = info.has(TORCHACC_FACT_BEARS_VALUES);
  if (info.has(TORCHACC_FACT_SHAPED_BY_MASKS)) {
    const auto indices = stack[stack.size() - info.parameters.size() + 1].toListRef();
    is_safe = std::all_of(indices.begin(), indices.end(), is_mask);
  }
  return is_safe ? native_device() : std::nullopt;
}

// The memory that a tensor covers, each element once.
at::Tensor elements_of(const at::Tensor& tensor) {
  const auto extent = static_cast<int64_t>(
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), /*itemsize=*/1));
  return tensor.as_strided({extent}, {1});
}

// Whether an argument may be on another device. PyTorch's kernels for other devices want tensors of
// sizes on the CPU.
bool may_be_elsewhere(const OperatorInfo& info, size_t index) {
  const std::string& name = info.handle.schema().arguments()[index].name();
  constexpr std::string_view kSuffix = "lengths";
  const bool is_size = name.size() >= kSuffix.size() &&
                       name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
  return info.users || is_size || info.parameters[index].role == Role::OptionalList;
}

template <class Visit>
void for_each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor() && value.toTensor().defined()) return visit(value.toTensor());
  if (!value.isTensorList()) return;
  for (const c10::IValue& one : value.toListRef()) visit(one.toTensor());
}

// Throws PyTorch's error if tensors of other devices are mixed with those of this one.
void check_devices(const OperatorInfo& info, c10::ArrayRef<c10::IValue> inputs) {
  std::optional<c10::Device> device;
  for (const c10::IValue& value : inputs) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (!device.has_value() && is_acc(tensor)) device = tensor.device();
    });
  }
  if (!device.has_value()) return;
  for (size_t index = 0; index < inputs.size(); ++index) {
    if (may_be_elsewhere(info, index)) continue;
    for_each_tensor(inputs[index], [&](const at::Tensor& tensor) {
      if (tensor.device() == *device || (tensor.is_cpu() && tensor.dim() == 0)) return;
      fail_devices(info, index, *device, tensor.device());
    });
  }
}

// The stand-ins for a call's device tensors where the kernel runs.
class Copies {
 public:
  explicit Copies(std::optional<c10::Device> native) : native_(native) {}

  at::Tensor to_place(const at::Tensor& tensor, const Parameter& parameter) {
    if (!is_acc(tensor)) return tensor;
    device_ = tensor.device().index();
    const bool written = parameter.written || parameter.out;
    for (Pair& pair : pairs_) {
      if (!pair.device.is_same(tensor)) continue;
      pair.written |= written;
      return pair.there;
    }
    pairs_.push_back({tensor, copied(tensor), written});
    return pairs_.back().there;
  }

  at::Tensor to_device(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    for (const Pair& pair : pairs_) {
      if (pair.there.is_same(tensor)) return pair.device;
    }
    if (!native_.has_value()) return upload(tensor, device());
    const CleanDispatch guard;
    const c10::Device acc(c10::DeviceType::PrivateUse1, device());
    return at::empty(tensor.sizes(), tensor.options().device(acc)).copy_(tensor);
  }

  void write_back() {
    for (const Pair& pair : pairs_) {
      if (!pair.written) continue;
      c10::TensorImpl& tensor = *pair.device.unsafeGetTensorImpl();
      if (tensor.sizes() != pair.there.sizes()) {
        tensor.set_sizes_and_strides(pair.there.sizes(), pair.there.strides(),
                                     tensor.storage_offset());
        grow_storage(tensor);
      }
      if (at::has_internal_overlap(pair.device) == at::MemOverlap::Yes) {
        copy_from(elements_of(pair.there), elements_of(pair.device), false);
      } else {
        copy_from(pair.there, pair.device, false);
      }
    }
  }

  c10::Device place() const { return native_.value_or(c10::Device(at::kCPU)); }

  void use_device(c10::DeviceIndex index) {
    if (device_ < 0) device_ = normalize_device(index);
  }
  c10::DeviceIndex device() const { return device_ >= 0 ? device_ : current_device(); }

 private:
  struct Pair {
    at::Tensor device;
    at::Tensor there;
    bool written;
  };

  at::Tensor copied(const at::Tensor& tensor) const {
    if (native_.has_value()) {
      const CleanDispatch guard;
      return at::empty(tensor.sizes(), tensor.options().device(*native_)).copy_(tensor);
    }
    g_copies.fetch_add(1, std::memory_order_relaxed);
    return download(tensor);
  }

  std::optional<c10::Device> native_;
  std::vector<Pair> pairs_;
  c10::DeviceIndex device_ = -1;
};

c10::IValue to_place(const c10::IValue& value, const Parameter& parameter, Copies& copies) {
  if (value.isTensor() && value.toTensor().defined())
    return copies.to_place(value.toTensor(), parameter);
  if (parameter.role == Role::TensorList && !value.isNone()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& one : value.toListRef())
      list.push_back(copies.to_place(one.toTensor(), parameter));
    return list;
  }
  if (parameter.role == Role::OptionalList && !value.isNone()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& one : value.toListRef()) {
      const bool present = one.isTensor() && one.toTensor().defined();
      list.push_back(present ? std::optional(copies.to_place(one.toTensor(), parameter))
                             : std::nullopt);
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) {
    copies.use_device(value.toDevice().index());
    return copies.place();
  }
  return value;
}

c10::IValue to_device(const c10::IValue& value, Copies& copies) {
  if (value.isTensor()) return copies.to_device(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& one : value.toListRef())
      list.push_back(copies.to_device(one.toTensor()));
    return list;
  }
  return value;
}

void call_kernel(const OperatorInfo& info, torch::jit::Stack& stack,
                 const std::optional<at::Generator>& given, c10::DeviceIndex device,
                 const std::optional<c10::Device>& native) {
  const CleanDispatch guard;
  // A kernel of another device has only been launched when it returns.
  std::optional<Stopwatch> timed;
  if (!native.has_value()) timed.emplace(g_nanoseconds);
  // Kernels written in Python start on the device that is current.
  const c10::OptionalDeviceGuard current(native);
  if (!info.seeded) return info.handle.callBoxed(&stack);
  const RandomState state = draw(given, device, 4);
  const uint64_t seed = state.seed * 0x9E3779B97F4A7C15ull + state.offset;
  if (info.generator >= 0) {
    stack[static_cast<size_t>(info.generator)] = at::make_generator<at::CPUGeneratorImpl>(seed);
    return info.handle.callBoxed(&stack);
  }
  // The kernel draws from PyTorch's generator for its device: seed that one from ours, so that the
  // acc generator determines the numbers.
  at::Generator shared =
      at::globalContext().defaultGenerator(native.value_or(c10::Device(at::kCPU)));
  const at::Tensor saved = shared.get_state();
  struct Restore {
    at::Generator& generator;
    const at::Tensor& state;
    ~Restore() { generator.set_state(state); }
  } restore{shared, saved};
  shared.set_current_seed(seed);
  info.handle.callBoxed(&stack);
}

void run_at(std::optional<c10::Device> native, const OperatorInfo& info, torch::jit::Stack& stack) {
  const size_t count = info.parameters.size();
  const size_t first = stack.size() - count;
  Copies copies(native);
  std::optional<at::Generator> generator;
  torch::jit::Stack inputs;  // keeps the arguments alive: kernels return references to them
  for (size_t index = 0; index < count; ++index) {
    const c10::IValue& value = stack[first + index];
    if (value.isGenerator()) generator = value.toGenerator();
    inputs.push_back(to_place(value, info.parameters[index], copies));
  }
  torch::jit::Stack call = inputs;
  try {
    call_kernel(info, call, generator, copies.device(), native);
  } catch (const c10::NotImplementedError&) {
    // The CPU's kernels take types that other devices' kernels do not.
    if (!native.has_value()) throw;
    return run_at(std::nullopt, info, stack);
  }
  copies.write_back();
  torch::jit::drop(stack, count);
  for (const c10::IValue& result : call) stack.push_back(to_device(result, copies));
}

// Operators that return and write nothing are called for their side effects. These come after
// everything recorded before, and are left out if that has failed.
bool is_effect(const OperatorInfo& info) {
  return info.handle.schema().returns().empty() &&
         std::none_of(info.parameters.begin(), info.parameters.end(),
                      [](const Parameter& parameter) { return parameter.written; });
}

}  // namespace

void run_immediately(const OperatorInfo& info, torch::jit::Stack& stack) {
  if (is_effect(info)) synchronize();
  g_runs.fetch_add(1, std::memory_order_relaxed);
  const size_t count = info.parameters.size();
  check_devices(info, c10::ArrayRef<c10::IValue>(stack.data() + stack.size() - count, count));
  run_at(place_of(info, stack), info, stack);
}

uint64_t immediate_runs() { return g_runs.load(std::memory_order_relaxed); }
uint64_t immediate_copies() { return g_copies.load(std::memory_order_relaxed); }
void reset_immediate_runs() {
  g_runs.store(0, std::memory_order_relaxed);
  g_copies.store(0, std::memory_order_relaxed);
}
uint64_t immediate_ns() { return g_nanoseconds.load(std::memory_order_relaxed); }

}  // namespace torchacc
