#include "record/validate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/List.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <unordered_set>

#include "record/dispatch.h"

namespace torchacc {
namespace {

// Beyond this an error message is not worth the memory.
constexpr size_t kLargestRehearsal = size_t{1} << 30;

at::Tensor zeros_like(const c10::TensorImpl& tensor) {
  const auto type = c10::typeMetaToScalarType(tensor.dtype());
  return at::zeros(tensor.sizes(), at::TensorOptions().dtype(type).device(at::kCPU));
}

c10::IValue rehearse(const c10::IValue& value, Role role) {
  const auto stand_in = [](const at::Tensor& tensor) {
    return is_acc(tensor) ? zeros_like(*tensor.unsafeGetTensorImpl()) : tensor;
  };
  if (value.isTensor()) return stand_in(value.toTensor());
  if (role == Role::TensorList && !value.isNone()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& one : value.toListRef()) list.push_back(stand_in(one.toTensor()));
    return list;
  }
  if (role == Role::OptionalList && !value.isNone()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& one : value.toListRef()) {
      const bool present = one.isTensor() && one.toTensor().defined();
      list.push_back(present ? std::optional(stand_in(one.toTensor())) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice()) return c10::Device(at::kCPU);
  return value;
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

}  // namespace

void raise_as_cpu(const Call& call) {
  size_t nbytes = 0;
  for (const TensorUse& use : call.tensors()) {
    if (use.tensor != nullptr) nbytes += use.tensor->numel() * use.tensor->itemsize();
  }
  if (nbytes > kLargestRehearsal) return;
  const OperatorInfo& info = call.info();
  const CleanDispatch guard;
  torch::jit::Stack inputs;  // keeps the arguments alive: kernels return references to them
  for (size_t index = 0; index < info.parameters.size(); ++index) {
    inputs.push_back(rehearse(call.inputs()[index], info.parameters[index].role));
  }
  // A throwaway generator: a rehearsal must not take numbers from the program's.
  if (info.generator >= 0) {
    inputs[static_cast<size_t>(info.generator)] = at::make_generator<at::CPUGeneratorImpl>();
  }
  torch::jit::Stack stack = inputs;
  info.handle.callBoxed(&stack);
}

bool has_doubtful_operands(const Call& call) {
  static const auto* products = new std::unordered_set<std::string>{
      "aten::mm",       "aten::bmm",    "aten::addmm",   "aten::addmm_", "aten::baddbmm",
      "aten::baddbmm_", "aten::addbmm", "aten::addbmm_", "aten::mv",     "aten::addmv",
      "aten::addmv_",   "aten::dot",    "aten::vdot",
  };
  const std::string& name = call.info().handle.operator_name().name;
  if (name == "aten::_scaled_mm") {
    const auto tensors = call.tensors();
    return tensors[0].tensor->sizes()[1] != tensors[1].tensor->sizes()[0];
  }
  if (falls_back(call)) return true;
  if (products->count(name) == 0) return false;
  for (const TensorUse& use : call.tensors()) {
    if (use.tensor->dtype() != call.tensors()[0].tensor->dtype()) return true;
  }
  return false;
}

}  // namespace torchacc
