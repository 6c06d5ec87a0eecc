#include "record/immediate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/List.h>

#include <atomic>
#include <mutex>

#include "aten/copy.h"
#include "record/dispatch.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

std::atomic<uint64_t> g_runs{0};

// The CPU stand-ins of a call's device tensors.
class Copies {
 public:
  at::Tensor to_cpu(const at::Tensor& tensor, const Parameter& parameter) {
    if (!is_acc(tensor)) return tensor;
    device_ = tensor.device().index();
    for (const Pair& pair : pairs_) {
      if (pair.device.is_same(tensor)) return pair.cpu;
    }
    pairs_.push_back({tensor, download(tensor), parameter.written || parameter.out});
    return pairs_.back().cpu;
  }

  at::Tensor to_device(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    for (const Pair& pair : pairs_) {
      if (pair.cpu.is_same(tensor)) return pair.device;
    }
    return upload(tensor, device());
  }

  void write_back() {
    for (const Pair& pair : pairs_) {
      if (!pair.written) continue;
      c10::TensorImpl& tensor = *pair.device.unsafeGetTensorImpl();
      if (tensor.sizes() != pair.cpu.sizes()) {
        tensor.set_sizes_and_strides(pair.cpu.sizes(), pair.cpu.strides(), tensor.storage_offset());
        grow_storage(tensor);
      }
      copy_from(pair.cpu, pair.device, false);
    }
  }

  void use_device(c10::DeviceIndex index) {
    if (device_ < 0) device_ = normalize_device(index);
  }
  c10::DeviceIndex device() const { return device_ >= 0 ? device_ : current_device(); }

 private:
  struct Pair {
    at::Tensor device;
    at::Tensor cpu;
    bool written;
  };
  std::vector<Pair> pairs_;
  c10::DeviceIndex device_ = -1;
};

c10::IValue to_cpu(const c10::IValue& value, const Parameter& parameter, Copies& copies) {
  if (value.isTensor() && value.toTensor().defined())
    return copies.to_cpu(value.toTensor(), parameter);
  if (parameter.role == Role::TensorList && !value.isNone()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& one : value.toListRef())
      list.push_back(copies.to_cpu(one.toTensor(), parameter));
    return list;
  }
  if (parameter.role == Role::OptionalList && !value.isNone()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& one : value.toListRef()) {
      const bool present = one.isTensor() && one.toTensor().defined();
      list.push_back(present ? std::optional(copies.to_cpu(one.toTensor(), parameter))
                             : std::nullopt);
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) {
    copies.use_device(value.toDevice().index());
    return c10::Device(at::kCPU);
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

void call_on_cpu(const OperatorInfo& info, torch::jit::Stack& stack,
                 const std::optional<at::Generator>& given, c10::DeviceIndex device) {
  const CleanDispatch guard;
  if (!info.seeded) return info.handle.callBoxed(&stack);
  const RandomState state = draw(given, device, 4);
  at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(state.seed * 0x9E3779B97F4A7C15ull + state.offset);
  if (info.generator >= 0) {
    stack[static_cast<size_t>(info.generator)] = generator;
    return info.handle.callBoxed(&stack);
  }
  // The kernel draws from PyTorch's CPU generator: lend it our state, so that the device's seed
  // decides.
  at::Generator shared = at::detail::getDefaultCPUGenerator();
  const at::Tensor saved = shared.get_state();
  struct Restore {
    at::Generator& generator;
    const at::Tensor& state;
    ~Restore() { generator.set_state(state); }
  } restore{shared, saved};
  shared.set_state(generator.get_state());
  info.handle.callBoxed(&stack);
}

}  // namespace

void run_immediately(const OperatorInfo& info, torch::jit::Stack& stack) {
  g_runs.fetch_add(1, std::memory_order_relaxed);
  const size_t count = info.parameters.size();
  const size_t first = stack.size() - count;
  Copies copies;
  std::optional<at::Generator> generator;
  torch::jit::Stack inputs;  // keeps the arguments alive: kernels return references to them
  for (size_t index = 0; index < count; ++index) {
    const c10::IValue& value = stack[first + index];
    if (value.isGenerator()) generator = value.toGenerator();
    inputs.push_back(to_cpu(value, info.parameters[index], copies));
  }
  torch::jit::Stack cpu_stack = inputs;
  call_on_cpu(info, cpu_stack, generator, copies.device());
  copies.write_back();
  torch::jit::drop(stack, count);
  for (const c10::IValue& result : cpu_stack) stack.push_back(to_device(result, copies));
}

uint64_t immediate_runs() { return g_runs.load(std::memory_order_relaxed); }
void reset_immediate_runs() { g_runs.store(0, std::memory_order_relaxed); }

}  // namespace torchacc
