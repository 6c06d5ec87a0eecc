#include "record/recorder.h"

#include <ATen/ops/nonzero.h>
#include <ATen/ops/unbind.h>

#include <algorithm>
#include <cmath>

#include "record/activity.h"
#include "record/cpu_fallback.h"
#include "record/dry_run.h"
#include "record/immediate.h"
#include "record/location.h"
#include "record/shape_cache.h"
#include "record/torch_versions.h"
#include "record/validate.h"
#include "runtime/generator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using Views = c10::SmallVector<torchacc_view, 16>;

at::Tensor view_of_storage(c10::StorageImpl* storage, const OutputShape& output) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(output.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(output.sizes, output.strides, output.offset);
  return tensor;
}

Tensors make_results(const Call& call, const Shapes& shapes) {
  Tensors results;
  for (const OutputShape& output : shapes.outputs) {
    switch (output.kind) {
      case OutputShape::Kind::Fresh:
        results.push_back(
            make_tensor(output.sizes, output.strides, output.dtype, output.nbytes, call.device()));
        break;
      case OutputShape::Kind::Argument: {
        c10::TensorImpl* same = call.tensors()[output.index].tensor;
        results.push_back(at::Tensor(
            c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(same)));
        break;
      }
      case OutputShape::Kind::View:
        results.push_back(view_of_storage(call.storages()[output.index], output));
        break;
      case OutputShape::Kind::Undefined:
        results.emplace_back();
        break;
    }
  }
  return results;
}

void resize_arguments(const Call& call, const Shapes& shapes) {
  for (const ResizedArgument& resized : shapes.resized) {
    c10::TensorImpl& tensor = *call.tensors()[resized.use].tensor;
    tensor.set_sizes_and_strides(resized.sizes, resized.strides,
                                 resized.offset.value_or(tensor.storage_offset()));
    grow_storage(tensor);
  }
}

Views output_views(const Call& call, const Shapes& shapes, const Tensors& results) {
  Views outputs;
  for (size_t index = 0; index < results.size(); ++index) {
    if (shapes.outputs[index].kind == OutputShape::Kind::Fresh) {
      outputs.push_back(view_of(*results[index].unsafeGetTensorImpl()));
    }
  }
  for (const TensorUse& use : call.tensors()) {
    if (use.written) outputs.push_back(view_of(*use.tensor));
  }
  return outputs;
}

torchacc_op host_operator_of(const Call& call, const Shapes& shapes) {
  int64_t op = shapes.host_op.load(std::memory_order_acquire);
  if (op < 0) {
    op = host_operator(call, shapes);
    shapes.host_op.store(op, std::memory_order_release);
  }
  return static_cast<torchacc_op>(op);
}

// Whether integers and a number are compared in f64, the default dtype, which no result's type
// tells.
bool compares_in_f64(const Call& call, const Views& outputs) {
  if (c10::get_default_dtype_as_scalartype() != at::kDouble || !call.has_float_number())
    return false;
  const auto tensors = call.tensors();
  const bool counts = std::any_of(tensors.begin(), tensors.end(), [](const TensorUse& use) {
    return use.tensor != nullptr &&
           at::isIntegralType(c10::typeMetaToScalarType(use.tensor->dtype()),
                              /*includeBool=*/false);
  });
  return counts && std::any_of(outputs.begin(), outputs.end(), [](const torchacc_view& view) {
           return view.dtype == TORCHACC_BOOL;
         });
}

// Whether a row computes the call. A complex number, passed as its two parts, is read only by rows
// that compute with complex tensors.
bool has_native_form(const Call& call, const Views& outputs) {
  if (!call.info().native.has_value() || compares_in_f64(call, outputs)) return false;
  if (!call.has_complex_number()) return true;
  const auto is_complex = [](const torchacc_view& view) {
    return view.dtype == TORCHACC_C64 || view.dtype == TORCHACC_C128;
  };
  const auto tensors = argument_views(call);
  return std::any_of(outputs.begin(), outputs.end(), is_complex) ||
         std::any_of(tensors.begin(), tensors.end(), is_complex);
}

void submit(const Call& call, const Shapes& shapes, c10::ArrayRef<torchacc_arg> arguments,
            const Views& outputs) {
  if (has_native_form(call, outputs) && !shapes.use_host.load(std::memory_order_relaxed)) {
    torchacc_error* error = torchacc_record(context(), *call.info().native, arguments.data(),
                                            arguments.size(), outputs.data(), outputs.size());
    note_activity();
    if (error == nullptr) return;
    if (torchacc_error_code(error) != TORCHACC_UNSUPPORTED) check(error);
    // There is a native operator, but not for these types: PyTorch accepted the call, so run
    // PyTorch's kernel.
    torchacc_error_free(error);
    shapes.use_host.store(true, std::memory_order_relaxed);
  }
  record_native(host_operator_of(call, shapes), arguments, outputs);
}

// Tensors with the names of the results: the CPU's kernels know them, Meta kernels do not.
Tensors dry_run_names(const Call& call) {
  raise_as_cpu(call);
  auto named = dry_run_in_full(call);
  TORCH_CHECK_NOT_IMPLEMENTED(named.has_value(), call.info().name,
                              " does not say the names of its results on the acc device. Drop "
                              "the operands' names before with tensor.rename(None).");
  return *named;
}

void take_names(at::Tensor& result, const at::Tensor& named) {
  if (!result.defined() || !named.defined()) return;
  propagate_names(result, named);
}

void return_results(torch::jit::Stack& stack, const Call& call, const Shapes& shapes,
                    Tensors& results) {
  torch::jit::drop(stack, call.info().parameters.size());
  size_t next = 0;
  for (const ReturnShape& result : shapes.returns) {
    if (!result.is_list) {
      stack.emplace_back(std::move(results[next++]));
      continue;
    }
    c10::List<at::Tensor> list;
    list.reserve(result.count);
    for (size_t index = 0; index < result.count; ++index)
      list.push_back(std::move(results[next++]));
    stack.emplace_back(std::move(list));
  }
}

// The library's clamp ignores NaN as its only bound, and respects it as one of two.
void clamp_as_pytorch(torch::jit::Stack& stack, const OperatorInfo& info) {
  c10::IValue* const bounds = &stack[stack.size() - info.parameters.size() + 1];
  for (c10::IValue* bound : {&bounds[0], &bounds[1]}) {
    c10::IValue& other = bound == bounds ? bounds[1] : bounds[0];
    const bool is_nan = bound->isDouble() && std::isnan(bound->toDouble());
    if (is_nan && other.isNone() && lone_nan_clamps()) other = *bound;
  }
}

// Replaces masks among the indices of PyTorch's own operators by the positions of their true
// elements, so that the host reads the masks and not the indexed tensor. Leaves masks that do not
// fit, and byte masks, about which PyTorch has something to say.
bool number_masks(const OperatorInfo& info, torch::jit::Stack& stack) {
  if (info.users) return false;
  c10::IValue* const values = &stack[stack.size() - info.parameters.size()];
  size_t at = 0;
  while (at < info.parameters.size() && info.parameters[at].role != Role::OptionalList) ++at;
  if (at == info.parameters.size() || !values[0].isTensor()) return false;
  const at::IntArrayRef sizes = values[0].toTensor().sizes();
  std::vector<std::optional<at::Tensor>> indices;
  bool has_mask = false;
  size_t dim = 0;
  for (const c10::IValue& value : values[at].toListRef()) {
    const bool present = value.isTensor() && value.toTensor().defined();
    indices.push_back(present ? std::optional(value.toTensor()) : std::nullopt);
    const auto type = present ? value.toTensor().scalar_type() : at::kLong;
    const bool is_mask = type == at::kBool;
    const auto rank = static_cast<size_t>(is_mask ? value.toTensor().dim() : 1);
    if (type == at::kByte || rank == 0 || dim + rank > sizes.size()) return false;
    if (is_mask && value.toTensor().sizes() != sizes.slice(dim, rank)) return false;
    has_mask |= is_mask;
    dim += rank;
  }
  if (!has_mask) return false;
  c10::List<std::optional<at::Tensor>> numbers;
  for (const std::optional<at::Tensor>& index : indices) {
    if (!index.has_value() || index->scalar_type() != at::kBool) {
      numbers.push_back(index);
      continue;
    }
    for (const at::Tensor& places : at::unbind(at::nonzero(*index), 1)) numbers.push_back(places);
  }
  values[at] = std::move(numbers);
  return true;
}

bool writes(const Call& call) {
  const auto tensors = call.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorUse& use) { return use.written; });
}

}  // namespace

Views argument_views(const Call& call) {
  Views views;
  for (const TensorUse& use : call.tensors()) {
    views.push_back(use.tensor != nullptr ? view_of(*use.tensor) : torchacc_view{});
  }
  return views;
}

torchacc_view view_of(const c10::TensorImpl& tensor) {
  const auto [buffer, byte_offset] = buffer_of(*tensor.unsafe_storage().unsafeGetStorageImpl());
  torchacc_view view;
  view.buffer = buffer->handle;
  view.sizes = tensor.sizes().data();
  view.strides = tensor.strides().data();
  view.offset = tensor.storage_offset() +
                (byte_offset != 0 ? byte_offset / static_cast<int64_t>(tensor.itemsize()) : 0);
  view.rank = static_cast<uint32_t>(tensor.dim());
  view.dtype = to_dtype(c10::typeMetaToScalarType(tensor.dtype()));
  return view;
}

void record_native(torchacc_op op, c10::ArrayRef<torchacc_arg> arguments,
                   c10::ArrayRef<torchacc_view> outputs) {
  note_activity();
  check(torchacc_record(context(), op, arguments.data(), arguments.size(), outputs.data(),
                        outputs.size()));
}

void record_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto info = operator_info(op);
  if (info->immediate == Immediate::Always) return run_immediately(*info, *stack);
  if (info->clamps) clamp_as_pytorch(*stack, *info);
  Call call(info, *stack);
  // The number of elements that a mask selects, and so the shapes that fit beside it, depend on
  // values.
  if (call.has_mask_among_indices() || (info->immediate == Immediate::WithMask && call.has_mask()))
    return number_masks(*info, *stack) ? record_boxed(op, stack) : run_immediately(*info, *stack);
  if (writes_as_the_cpu(call) || call.has_large_number()) return run_immediately(*info, *stack);
  if (info->seeded) check_numbers(call);
  const auto shapes = infer_shapes(call);
  if (shapes == nullptr) return run_immediately(*info, *stack);

  const auto names = call.has_names() ? dry_run_names(call) : Tensors();
  const RecordingScope scope(info->name);
  resize_arguments(call, *shapes);
  Tensors results = make_results(call, *shapes);
  // Nothing is computed if all results are arguments, as in PyTorch for some empty ones.
  if (!info->users && !shapes->outputs.empty() && shapes->fresh == 0 && !writes(call)) {
    return return_results(*stack, call, *shapes, results);
  }
  if (info->seeded) {
    const RandomState state = draw(call.generator(), call.device(), shapes->random_numel);
    call.append_scalar(static_cast<int64_t>(state.seed));
    call.append_scalar(static_cast<int64_t>(state.offset));
  }
  const Views views = argument_views(call);
  submit(call, *shapes, call.arguments(views.data()), output_views(call, *shapes, results));
  for (size_t index = 0; index < names.size(); ++index) take_names(results[index], names[index]);
  return_results(*stack, call, *shapes, results);
}

}  // namespace torchacc
