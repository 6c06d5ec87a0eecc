#include "record/meta.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <string_view>

#include "record/dispatch.h"
#include "record/dry_run.h"
#include "record/layout.h"
#include "record/validate.h"
#include "runtime/absent.h"

namespace torchacc {
namespace {

void check_dense(const Call& call, const at::Tensor& result) {
  TORCH_CHECK_NOT_IMPLEMENTED(!result.defined() || result.layout() == at::kStrided,
                              call.info().name, ": ", kNoSparse);
}

// Whether a value stands in for a device tensor: see Call::read_number.
bool is_number(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu();
}

OutputShape fresh(const at::Tensor& result) {
  OutputShape output;
  output.kind = OutputShape::Kind::Fresh;
  output.dtype = result.scalar_type();
  output.sizes.assign(result.sizes().begin(), result.sizes().end());
  output.strides.assign(result.strides().begin(), result.strides().end());
  output.nbytes = at::detail::computeStorageNbytes(output.sizes, output.strides, result.itemsize());
  return output;
}

// Mirrors of the call's tensors on the Meta device. Tensors that share a storage share one here
// too, so that an output can be traced back to an argument or a storage by identity, whatever the
// schema claims.
class Mirror {
 public:
  explicit Mirror(const Call& call) : call_(call) {
    c10::Allocator* allocator = c10::GetAllocator(at::kMeta);
    for (const c10::StorageImpl* storage : call.storages()) {
      storages_.emplace_back(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), storage->nbytes(), allocator->allocate(0), allocator,
          true));
    }
    for (const TensorUse& use : call.tensors())
      tensors_.push_back(use.tensor != nullptr ? mirror(use) : at::Tensor());
  }

  // The call's stack with mirrors in place of its device tensors and, if `numbers` is set, of
  // numbers in CPU tensors.
  torch::jit::Stack inputs(bool numbers) {
    torch::jit::Stack stack;
    size_t next = 0;
    const auto values = call_.inputs();
    for (size_t index = 0; index < values.size(); ++index) {
      stack.push_back(convert(values[index], call_.info().parameters[index].role, numbers, next));
    }
    return stack;
  }

  OutputShape describe(const at::Tensor& result) const {
    OutputShape output;
    if (!result.defined()) return output;
    check_dense(call_, result);
    for (size_t index = 0; index < tensors_.size(); ++index) {
      if (tensors_[index].is_same(result)) {
        output.kind = OutputShape::Kind::Argument;
        output.index = static_cast<int32_t>(index);
        return output;
      }
    }
    for (size_t index = 0; index < storages_.size(); ++index) {
      if (storages_[index].unsafeGetStorageImpl() == result.storage().unsafeGetStorageImpl()) {
        output = fresh(result);
        output.kind = OutputShape::Kind::View;
        output.index = static_cast<int32_t>(index);
        output.offset = result.storage_offset();
        return output;
      }
    }
    return fresh(result);
  }

  std::vector<ResizedArgument> resized() const {
    std::vector<ResizedArgument> changed;
    const auto uses = call_.tensors();
    for (size_t index = 0; index < uses.size(); ++index) {
      if (!uses[index].written) continue;
      const at::Tensor& now = tensors_[index];
      const c10::TensorImpl& before = *uses[index].tensor;
      if (now.sizes() == before.sizes() && now.strides() == before.strides() &&
          now.storage_offset() == before.storage_offset()) {
        continue;
      }
      std::optional<int64_t> offset;
      if (now.storage_offset() != before.storage_offset()) offset = now.storage_offset();
      changed.push_back({index, Dims(now.sizes().begin(), now.sizes().end()),
                         Dims(now.strides().begin(), now.strides().end()), offset});
    }
    return changed;
  }

 private:
  at::Tensor mirror(const TensorUse& use) {
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storages_[use.storage]), c10::DispatchKeySet(c10::DispatchKey::Meta),
        use.tensor->dtype());
    c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(use.tensor->sizes(), use.tensor->strides(),
                                use.tensor->storage_offset());
    if (use.tensor->is_wrapped_number()) impl->set_wrapped_number(true);
    return tensor;
  }

  c10::IValue convert(const c10::IValue& value, Role role, bool numbers, size_t& next) {
    if (role == Role::Tensor && value.isTensor() && is_acc(value.toTensor()))
      return tensors_[next++];
    if (numbers && is_number(value)) return value.toTensor().to(at::kMeta);
    if (role == Role::TensorList && !value.isNone()) {
      c10::List<at::Tensor> list;
      for (size_t count = value.toListRef().size(); count > 0; --count)
        list.push_back(tensors_[next++]);
      return list;
    }
    if (role == Role::OptionalList && !value.isNone()) {
      c10::List<std::optional<at::Tensor>> list;
      for (size_t count = value.toListRef().size(); count > 0; --count, ++next) {
        list.push_back(tensors_[next].defined() ? std::optional(tensors_[next]) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice()) return c10::Device(c10::DeviceType::Meta);
    if (value.isGenerator()) return {};
    return value;
  }

  const Call& call_;
  std::vector<c10::Storage> storages_;
  std::vector<at::Tensor> tensors_;
};

// Meta kernels written in Python report "not possible without data" in several ways, by their
// messages.
bool means_no_meta(std::string_view what) {
  for (const std::string_view text :
       {"NotImplementedError", "data-dependent", "DynamicOutputShape", "DataDependent",
        "Cannot access data", "meta tensor", "Meta tensor"}) {
    if (what.find(text) != std::string_view::npos) return true;
  }
  return false;
}

bool call_meta(const Call& call, torch::jit::Stack& stack) {
  const DispatchBelowAutograd guard;
  // A Python Meta kernel must not be redirected by the program's function modes, such as `with
  // torch.device(...)`.
  const at::impl::PythonTorchFunctionTLS saved = at::impl::PythonTorchFunctionTLS::get_state();
  struct Restore {
    const at::impl::PythonTorchFunctionTLS& state;
    ~Restore() { at::impl::PythonTorchFunctionTLS::set_state(state); }
  } restore{saved};
  at::impl::PythonTorchFunctionTLS::set_disabled_state(
      at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  try {
    call.info().handle.callBoxed(&stack);
  } catch (const c10::NotImplementedError&) {
    return false;
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception& error) {
    if (means_no_meta(error.what())) return false;
    throw;
  }
  return true;
}

// Operators that return nothing and only change arguments in place need no inference; some have no
// Meta kernel.
bool changes_in_place_only(const OperatorInfo& info) {
  return info.handle.schema().returns().empty() &&
         std::none_of(info.parameters.begin(), info.parameters.end(),
                      [](const Parameter& parameter) { return parameter.out; });
}

int64_t numel_of(const Dims& sizes) { return c10::multiply_integers(sizes.begin(), sizes.end()); }

bool writes(const Call& call) {
  const auto tensors = call.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorUse& use) { return use.written; });
}

// Whether all results are new tensors.
bool returns_fresh(const Call& call) {
  const auto& returns = call.info().handle.schema().returns();
  return !writes(call) &&
         std::all_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
           return result.type()->kind() == c10::TypeKind::TensorType &&
                  result.alias_info() == nullptr;
         });
}

std::shared_ptr<const Shapes> shapes_of(const Call& call, const Tensors& results) {
  auto shapes = std::make_shared<Shapes>();
  for (const at::Tensor& result : results) {
    check_dense(call, result);
    shapes->outputs.push_back(result.defined() ? fresh(result) : OutputShape{});
    shapes->returns.push_back({});
    shapes->fresh += result.defined();
  }
  shapes->random_numel = random_numel(call, *shapes);
  return shapes;
}

// Whether results have no elements though operands have: some kernels refuse such calls, and no
// result is ever read that could raise the error.
bool gives_nothing(const Call& call, const Shapes& shapes) {
  const auto tensors = call.tensors();
  const bool has_elements = std::any_of(tensors.begin(), tensors.end(), [](const TensorUse& use) {
    return use.tensor != nullptr && use.tensor->numel() != 0;
  });
  return has_elements && !trusts_operands(call) &&
         std::any_of(shapes.outputs.begin(), shapes.outputs.end(), [](const OutputShape& output) {
           return output.kind == OutputShape::Kind::Fresh && numel_of(output.sizes) == 0;
         });
}

// Whether a Meta kernel's answer cannot be right: a new tensor where the schema returns an
// argument, or an out= tensor that stays empty though an operand has elements. The same goes for a
// tensor that a CPU kernel updates, which may get elements too (quantization observers).
bool misses_out(const Call& call, const Shapes& shapes) {
  const auto& returns = call.info().handle.schema().returns();
  if (returns.size() == shapes.outputs.size()) {
    for (size_t index = 0; index < returns.size(); ++index) {
      const bool fresh = shapes.outputs[index].kind == OutputShape::Kind::Fresh;
      if (fresh && returns[index].alias_info() != nullptr) return true;
    }
  }
  const auto tensors = call.tensors();
  const bool has_elements = std::any_of(tensors.begin(), tensors.end(), [](const TensorUse& use) {
    return use.tensor != nullptr && !use.out && use.tensor->numel() != 0;
  });
  const bool by_cpu = !call.info().native.has_value();
  const auto stays_empty = [&shapes, &tensors, by_cpu](const TensorUse& use) {
    const auto index = static_cast<size_t>(&use - tensors.begin());
    return (use.out || (use.written && by_cpu)) && use.tensor->numel() == 0 &&
           std::none_of(shapes.resized.begin(), shapes.resized.end(),
                        [index](const ResizedArgument& one) { return one.use == index; });
  };
  return has_elements && std::any_of(tensors.begin(), tensors.end(), stays_empty);
}

// Whether an out= tensor that has elements would get other sizes.
bool gives_another_geometry(const Call& call, const Shapes& shapes) {
  return std::any_of(shapes.resized.begin(), shapes.resized.end(),
                     [&call](const ResizedArgument& resized) {
                       const TensorUse& use = call.tensors()[resized.use];
                       return use.out && use.tensor->numel() != 0;
                     });
}

}  // namespace

int64_t random_numel(const Call& call, const Shapes& shapes) {
  int64_t most = 0;
  for (const ResizedArgument& resized : shapes.resized)
    most = std::max(most, numel_of(resized.sizes));
  for (const OutputShape& output : shapes.outputs) {
    if (output.kind != OutputShape::Kind::Fresh) continue;
    most = std::max(most, numel_of(output.sizes));
    break;
  }
  bool first = true;
  for (const TensorUse& use : call.tensors()) {
    if (use.tensor == nullptr) continue;
    if (first || use.out) most = std::max(most, use.tensor->numel());
    first = false;
  }
  return most;
}

std::shared_ptr<const Shapes> run_meta(const Call& call) {
  check_overlaps(call);
  if (changes_in_place_only(call.info())) {
    check_types(call);
    return std::make_shared<Shapes>();
  }
  Mirror mirror(call);
  torch::jit::Stack inputs;  // kept alive: kernels return references
  torch::jit::Stack stack;
  const auto infer = [&](bool numbers) {
    inputs = mirror.inputs(numbers);
    stack = inputs;
    return call_meta(call, stack);
  };
  bool known = false;
  try {
    known = infer(false);
  } catch (const std::exception&) {
    raise_as_cpu(call);
    // The Meta kernel refuses a call that the CPU's kernel accepts.
    const auto results = dry_run_in_full(call);
    if (results.has_value() && returns_fresh(call)) return shapes_of(call, *results);
    // Some Meta kernels want numbers in tensors to lie where the other tensors do; others read
    // them.
    const auto values = call.inputs();
    if (std::any_of(values.begin(), values.end(), is_number)) {
      try {
        known = infer(true);
      } catch (const std::exception&) {
        if (!results.has_value()) throw;
      }
    } else if (!results.has_value()) {
      throw;
    }
  }
  if (!known) return nullptr;
  check_types(call);
  auto shapes = std::make_shared<Shapes>();
  for (const c10::IValue& value : stack) {
    if (value.isTensorList()) {
      const auto elements = value.toListRef();
      shapes->returns.push_back({true, elements.size()});
      for (const c10::IValue& one : elements)
        shapes->outputs.push_back(mirror.describe(one.toTensor()));
    } else {
      shapes->returns.push_back({});
      shapes->outputs.push_back(mirror.describe(value.isNone() ? at::Tensor() : value.toTensor()));
    }
  }
  for (const OutputShape& output : shapes->outputs)
    shapes->fresh += output.kind == OutputShape::Kind::Fresh;
  leave_out_unasked(call, *shapes);
  shapes->resized = mirror.resized();
  // PyTorch's CPU kernels leave some of these arguments as they are, where Meta kernels do not.
  if (misses_out(call, *shapes) || gives_another_geometry(call, *shapes)) return nullptr;
  if (gives_nothing(call, *shapes)) raise_as_cpu(call);
  correct_types(call, *shapes);
  correct_strides(call, *shapes);
  shapes->random_numel = random_numel(call, *shapes);
  return shapes;
}

std::shared_ptr<const Shapes> shapes_of_cpu(const Call& call) {
  if (!returns_fresh(call) || trusts_operands(call)) return nullptr;
  const auto results = dry_run_in_full(call);
  return results.has_value() ? shapes_of(call, *results) : nullptr;
}

}  // namespace torchacc
