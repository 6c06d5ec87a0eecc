#include "record/operator.h"

#include <ATen/core/jit_type.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include "record/recorder.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using c10::TypeKind;

// Whether a parameter's values may be invalid: a GPU kernel that meets such a value ends the
// process's use of the GPU.
bool is_judged(const std::string& parameter) {
  static const auto* names =
      new std::unordered_set<std::string>{"index", "indices", "target", "targets", "mask"};
  return names->count(parameter) != 0;
}

bool is_tensor_list(const c10::Type& type) {
  return type.kind() == TypeKind::ListType &&
         type.expectRef<c10::ListType>().getElementType()->kind() == TypeKind::TensorType;
}

Role list_role(const c10::Type& element) {
  switch (element.kind()) {
    case TypeKind::TensorType:
      return Role::TensorList;
    case TypeKind::OptionalType:
      return element.expectRef<c10::OptionalType>().getElementType()->kind() == TypeKind::TensorType
                 ? Role::OptionalList
                 : Role::Unsupported;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return Role::IntList;
    case TypeKind::FloatType:
      return Role::FloatList;
    case TypeKind::BoolType:
      return Role::BoolList;
    default:
      return Role::Unsupported;
  }
}

Role role_of(const c10::Type& real_type) {
  switch (real_type.kind()) {
    case TypeKind::OptionalType:
      return role_of(*real_type.expectRef<c10::OptionalType>().getElementType());
    case TypeKind::ListType:
      return list_role(*real_type.expectRef<c10::ListType>().getElementType());
    case TypeKind::TensorType:
      return Role::Tensor;
    case TypeKind::NumberType:
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return Role::Scalar;
    case TypeKind::ScalarTypeType:
      return Role::Dtype;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
      return Role::Int;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return Role::Bool;
    case TypeKind::StringType:
      return Role::String;
    case TypeKind::GeneratorType:
    case TypeKind::DeviceObjType:
      return Role::Dropped;
    default:
      return Role::Unsupported;
  }
}

bool is_float_type(const c10::Type& real_type) {
  if (real_type.kind() == TypeKind::OptionalType) {
    return is_float_type(*real_type.expectRef<c10::OptionalType>().getElementType());
  }
  return real_type.kind() == TypeKind::FloatType || real_type.kind() == TypeKind::SymFloatType;
}

// Whether an argument has one of the names that PyTorch's schemas use for sizes.
bool names_sizes(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames{
      "size",  "output_size", "input_size",       "self_size", "sizes", "input_sizes",
      "shape", "num_weights", "normalized_shape", "N",         "C",     "HxW"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

Parameter parameter_of(const c10::Argument& argument) {
  const c10::Type& type = *argument.real_type();
  Parameter parameter{role_of(type), false, argument.is_out(), is_float_type(type),
                      names_sizes(argument.name())};
  if (argument.name() == "pin_memory") parameter.role = Role::Dropped;
  parameter.written =
      !parameter.out && argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  return parameter;
}

// Kernels written in Python need the GIL, which the launch thread must never take. Unlike compiled
// ones, they have no C++ signature; PyTorch lists that for each registration, with its source
// location. A registration that is not listed may be anything.
bool has_python_kernel(const c10::OperatorHandle& handle, c10::DispatchKey key) {
  if (!handle.hasComputedKernelForDispatchKey(key)) return false;
  const std::string place = handle.getComputedKernelForDispatchKey(key).debug() + " :: (";
  std::istringstream registrations(handle.dumpState());
  for (std::string line; std::getline(registrations, line);) {
    const size_t at = line.find(place);
    if (at != std::string::npos && line.compare(at + place.size(), 5, "none)") != 0) return false;
  }
  return true;
}

// Library operators for which `record_whole` was called.
struct WholeOperators {
  std::mutex mutex;
  std::unordered_set<std::string> names;

  bool has(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex);
    return names.count(name) != 0;
  }
};

WholeOperators& whole_operators() {
  static auto* const all = new WholeOperators;
  return *all;
}

bool has_native_python_kernel(const c10::OperatorHandle& handle) {
  const auto key = native_key();
  return key.has_value() && has_python_kernel(handle, *key);
}

Immediate immediate_mode(const c10::OperatorHandle& handle, const OperatorInfo& info) {
  for (const c10::Argument& result : handle.schema().returns()) {
    if (result.type()->kind() != TypeKind::TensorType && !is_tensor_list(*result.type()))
      return Immediate::Always;
  }
  for (const Parameter& parameter : info.parameters) {
    if (parameter.role == Role::Unsupported) return Immediate::Always;
  }
  if (info.has(TORCHACC_FACT_SHAPED_BY_MASKS)) return Immediate::WithMask;
  if (info.has(TORCHACC_FACT_SHAPED_BY_VALUES) || handle.hasTag(at::Tag::data_dependent_output) ||
      handle.hasTag(at::Tag::dynamic_output_shape)) {
    return Immediate::Always;
  }
  // Without a generator argument the kernel would draw from PyTorch's global CPU generator,
  // concurrently with the program's own draws. Dropout has a host implementation that takes a
  // generator.
  if (info.seeded && info.generator < 0 && !info.native.has_value() &&
      !info.has(TORCHACC_FACT_DROPOUT)) {
    return Immediate::Always;
  }
  if (whole_operators().has(info.name)) return Immediate::Never;
  const bool in_python = has_python_kernel(handle, c10::DispatchKey::CPU) ||
                         (info.users && has_native_python_kernel(handle));
  return in_python ? Immediate::Always : Immediate::Never;
}

// Whether the CPU's kernel computes the operator on every backend. Random numbers are the same
// everywhere: those of the CPU's kernels, which also report invalid values. And they replace
// PyTorch's own GPU kernels that are written in Python, which could not be recorded.
bool is_the_cpus(const c10::OperatorHandle& handle, const OperatorInfo& info) {
  if (!handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return false;
  if (info.seeded) return true;
  if (info.users) return false;
  const auto& arguments = handle.schema().arguments();
  return has_native_python_kernel(handle) ||
         std::any_of(arguments.begin(), arguments.end(),
                     [](const c10::Argument& argument) { return is_judged(argument.name()); });
}

// Attributes that hold for tensors of any size; other lists and integers may count elements.
bool fits_any_size(const std::string& name) {
  return name == "dim" || name == "reduction" || name == "ignore_index" || name == "padding_idx" ||
         name == "from" || name == "to";
}

// The bounds of random integers determine no shape, and differ from step to step.
void let_bounds_vary(OperatorInfo& info) {
  const auto& arguments = info.handle.schema().arguments();
  for (size_t index = 0; index < arguments.size(); ++index) {
    const std::string& name = arguments[index].name();
    Parameter& parameter = info.parameters[index];
    if (parameter.role == Role::Int && (name == "from" || name == "to"))
      parameter.role = Role::Scalar;
  }
}

// Excludes kernels that trust their operands: LAPACK's access memory where pivots say.
bool is_dry_runnable(const c10::OperatorHandle& handle, const OperatorInfo& info) {
  if (!info.native.has_value() && !info.seeded && !handle.hasTag(at::Tag::pointwise) &&
      !info.has(TORCHACC_FACT_CHECKS_INTEGERS)) {
    return false;
  }
  const auto& arguments = handle.schema().arguments();
  for (size_t index = 0; index < arguments.size(); ++index) {
    const Role role = info.parameters[index].role;
    const bool counts = role == Role::Int || role == Role::IntList;
    if (counts && !fits_any_size(arguments[index].name())) return false;
  }
  return handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
}

std::shared_ptr<const OperatorInfo> describe(const c10::OperatorHandle& handle) {
  static std::atomic<uint64_t> next_id{1};
  auto info = std::make_shared<OperatorInfo>(
      OperatorInfo{handle, c10::toString(handle.operator_name()), next_id++});
  info->facts = torchacc_op_facts(to_str(info->name));
  const auto& arguments = handle.schema().arguments();
  for (size_t index = 0; index < arguments.size(); ++index) {
    info->parameters.push_back(parameter_of(arguments[index]));
    const c10::Type* type = arguments[index].real_type().get();
    if (type->kind() == TypeKind::OptionalType)
      type = type->expectRef<c10::OptionalType>().getElementType().get();
    if (type->kind() == TypeKind::GeneratorType) info->generator = static_cast<int>(index);
    if (arguments[index].name() == "indices") info->lists_from_cpu = true;
    // The schema does not say that these are updated.
    if (info->has(TORCHACC_FACT_UPDATES_STATISTICS) &&
        arguments[index].name().rfind("running_", 0) == 0)
      info->parameters.back().written = true;
  }
  info->users = handle.operator_name().getNamespace() != "aten";
  info->seeded = info->generator >= 0 || handle.hasTag(at::Tag::nondeterministic_seeded);
  if (info->seeded && !info->users) let_bounds_vary(*info);
  if (!host_forced(info->name)) info->native = find_native(info->name);
  info->by_cpu = is_the_cpus(handle, *info);
  info->immediate = immediate_mode(handle, *info);
  info->dry_runnable = is_dry_runnable(handle, *info);
  info->clamps = info->name == "aten::clamp" || info->name == "aten::clamp_" ||
                 info->name == "aten::clamp.out";
  return info;
}

class Registry final : public c10::OpRegistrationListener {
 public:
  std::shared_ptr<const OperatorInfo> find(const c10::OperatorHandle& handle) {
    const void* identity = &handle.schema();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (auto found = infos_.find(identity); found != infos_.end()) return found->second;
    }
    auto info = describe(handle);
    std::lock_guard<std::mutex> lock(mutex_);
    return infos_.emplace(identity, std::move(info)).first->second;
  }

  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  // Another operator may get the same address later.
  void onOperatorDeregistered(const c10::OperatorHandle& handle) override {
    std::lock_guard<std::mutex> lock(mutex_);
    infos_.erase(&handle.schema());
    generation_.fetch_add(1, std::memory_order_release);
  }

  // Changes whenever an operator is removed.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> generation_{0};
  ska::flat_hash_map<const void*, std::shared_ptr<const OperatorInfo>> infos_;
};

Registry& registry() {
  static Registry* instance = [] {
    auto owned = std::make_unique<Registry>();
    Registry* made = owned.get();
    // The handle that would remove the listener is leaked with it.
    new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::move(owned)));
    return made;
  }();
  return *instance;
}

}  // namespace

std::shared_ptr<const OperatorInfo> operator_info(const c10::OperatorHandle& handle) {
  // Operators that this thread has asked for before, so that not every call takes the lock.
  struct Seen {
    uint64_t generation = 0;
    ska::flat_hash_map<const void*, std::shared_ptr<const OperatorInfo>> infos;
  };
  static thread_local Seen seen;
  Registry& all = registry();
  if (const uint64_t now = all.generation(); seen.generation != now) {
    seen.infos.clear();
    seen.generation = now;
  }
  const void* identity = &handle.schema();
  if (auto found = seen.infos.find(identity); found != seen.infos.end()) return found->second;
  return seen.infos.emplace(identity, all.find(handle)).first->second;
}

void record_whole(const std::string& name) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto op = dispatcher.findSchemaOrThrow(name.c_str(), "");
  TORCH_CHECK(op.hasKernelForDispatchKey(c10::DispatchKey::CPU), name,
              " has no kernel for the CPU that it could be recorded as.");
  if (op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return;
  {
    WholeOperators& all = whole_operators();
    std::lock_guard<std::mutex> lock(all.mutex);
    all.names.insert(name);
  }
  // Lives as long as the process, like the device's other kernels.
  new c10::RegistrationHandleRAII(
      dispatcher.registerImpl({name, ""}, c10::DispatchKey::PrivateUse1,
                              c10::KernelFunction::makeFromBoxedFunction<&record_boxed>(),
                              std::nullopt, nullptr, "registered by torchacc"));
}

void fail_devices(const OperatorInfo& info, size_t index, c10::Device expected, c10::Device found) {
  const auto& arguments = info.handle.schema().arguments();
  const std::string which =
      index < arguments.size() ? " (argument '" + arguments[index].name() + "')" : "";
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              expected, " and ", found, "! In ", info.name, which);
}

std::optional<torchacc_op> find_native(std::string_view name) {
  torchacc_op op = 0;
  torchacc_error* error = torchacc_op_find(to_str(name), &op);
  if (error == nullptr) return op;
  if (torchacc_error_code(error) != TORCHACC_NOT_FOUND) check(error);
  torchacc_error_free(error);
  return std::nullopt;
}

}  // namespace torchacc
