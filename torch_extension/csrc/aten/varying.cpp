// Integers that vary from call to call: shifts of a roll, positions from which a batch is
// assembled.
//
// While they are fixed they are part of the program, which copies slices. If they vary (random
// shifts, lags that a model reads, samples of a data set on the device), each would be another
// program; then elements are selected by an index computed from them.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/select_backward_native.h>
#include <ATen/ops/slice_backward_native.h>
#include <ATen/ops/stack_native.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "aten/copy.h"
#include "aten/kernels.h"
#include "record/arguments.h"
#include "record/recorder.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

uint64_t word(int64_t number) { return static_cast<uint64_t>(number); }

// Whether a number, or a hash of several, changes from run to run at this place of the program.
bool varies(const KeyWords& kind, uint64_t number) {
  bool changes = false;
  check(torchacc_integer_changes(context(), hash_of(kind), static_cast<int64_t>(number), &changes));
  return changes;
}

enum Operator : uint64_t { kRoll, kStack, kSliceBackward, kCat };

at::Tensor recorded_roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::roll", "");
  return record(op, self, shifts, dims)[0].toTensor();
}

at::Tensor numbered(int64_t size, const at::Tensor& like) {
  return at::arange(size, like.options().dtype(at::kLong));
}

at::Tensor rolled(const at::Tensor& self, int64_t shift, int64_t dim) {
  const int64_t size = self.size(dim);
  // Nothing moves; PyTorch then concatenates everything and nothing, which makes the result dense.
  const auto format =
      shift % size == 0 ? at::MemoryFormat::Contiguous : self.suggest_memory_format();
  if (!varies({kRoll, word(size), word(self.stride(dim))}, word(shift)))
    return recorded_roll(self, {shift}, {dim}).contiguous(format);
  const at::Tensor index = at::remainder(at::sub(numbered(size, self), shift % size), size);
  return at::index_select(self, dim, index).contiguous(format);
}

// Whether these are equally shaped windows of one tensor at varying offsets; at least two, for one
// alone is an operand whose offset may vary anyway.
bool are_varying_windows(at::TensorList tensors) {
  if (tensors.size() < 2 || !is_acc(tensors[0]) || tensors[0].numel() == 0) return false;
  const at::Tensor& first = tensors[0];
  const auto is_another = [&](const at::Tensor& other) {
    return other.is_alias_of(first) && other.dtype() == first.dtype() &&
           other.sizes() == first.sizes() && other.strides() == first.strides() && is_plain(other);
  };
  if (!std::all_of(tensors.begin(), tensors.end(), is_another)) return false;
  KeyWords key{kStack, tensors.size()}, offsets;
  for (int64_t dim = 0; dim < first.dim(); ++dim) {
    key.push_back(word(first.size(dim)));
    key.push_back(word(first.stride(dim)));
  }
  for (const at::Tensor& window : tensors) offsets.push_back(word(window.storage_offset()));
  return varies(key, hash_of(offsets));
}

// Shorter lists are not examined: that takes longer than their share of the program.
constexpr size_t kLongList = 8;

// Whether a tensor is of `like`'s type and contiguous in the concatenation along `dim`.
bool is_part(const at::Tensor& tensor, const at::Tensor& like, int64_t dim) {
  if (!is_acc(tensor) || tensor.device() != like.device() || tensor.dtype() != like.dtype() ||
      tensor.has_names() || tensor.dim() != like.dim() || tensor.numel() == 0 ||
      !is_plain(tensor) || tensor.suggest_memory_format() != at::MemoryFormat::Contiguous) {
    return false;
  }
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d < dim ? tensor.size(d) != 1 : d > dim && tensor.size(d) != like.size(d)) return false;
  }
  return true;
}

// If the list differs in each run (values collected so far, or samples of them), replaces its first
// tensors, as far as they are in memory, by their concatenation.
void join_stored(std::vector<at::Tensor>& list, int64_t dim) {
  const at::Tensor like = list[0];
  const auto fits = [&](const at::Tensor& tensor) { return is_part(tensor, like, dim); };
  if (!std::all_of(list.begin(), list.end(), fits)) return;
  std::vector<torchacc_view> views;
  KeyWords kind{kCat, word(dim), static_cast<uint64_t>(like.scalar_type())};
  for (int64_t d = dim + 1; d < like.dim(); ++d) kind.push_back(word(like.size(d)));
  c10::DimVector sizes(like.sizes());
  for (const at::Tensor& part : list) views.push_back(view_of(*part.unsafeGetTensorImpl()));
  size_t stored = 0;
  check(torchacc_list_changes(context(), hash_of(kind), views.data(), views.size(), &stored));
  if (stored < 2) return;
  auto& size = sizes[static_cast<size_t>(dim)];
  size = 0;
  for (size_t part = 0; part < stored; ++part) size += list[part].size(dim);
  at::Tensor joined = at::empty(sizes, like.options());
  const torchacc_view out = view_of(*joined.unsafeGetTensorImpl());
  // Another thread may have recorded a write in place: then this is recorded, too.
  if (torchacc_error* error = torchacc_concatenate(context(), views.data(), stored, &out)) {
    if (torchacc_error_code(error) != TORCHACC_INVALID_ARGUMENT) check(error);
    return torchacc_error_free(error);
  }
  list.erase(list.begin() + 1, list.begin() + static_cast<std::ptrdiff_t>(stored));
  list[0] = std::move(joined);
}

// Selects elements, or rows of the storage if the windows are rows.
at::Tensor selected(at::TensorList tensors) {
  const at::Tensor& window = tensors[0];
  std::vector<int64_t> offsets;
  for (const at::Tensor& tensor : tensors) offsets.push_back(tensor.storage_offset());
  const auto elements = static_cast<int64_t>(window.storage().nbytes() / window.dtype().itemsize());
  const int64_t row = window.numel();
  const auto is_row = [&](int64_t offset) { return offset % row == 0; };
  const bool are_rows = window.is_contiguous() && elements % row == 0 &&
                        std::all_of(offsets.begin(), offsets.end(), is_row);
  if (are_rows) {
    for (int64_t& offset : offsets) offset /= row;
  }
  const auto count = static_cast<int64_t>(offsets.size());
  const at::Tensor places =
      at::from_blob(offsets.data(), {count}, at::kLong).clone().to(window.device());
  c10::DimVector sizes{count};
  sizes.append(window.sizes().begin(), window.sizes().end());
  if (are_rows) {
    const at::Tensor rows = window.as_strided({elements / row, row}, {row, 1}, 0);
    return at::index_select(rows, 0, places).view(sizes);
  }
  at::Tensor index = places.view(c10::DimVector(1, count));
  for (int64_t dim = 0; dim < window.dim(); ++dim) {
    const at::Tensor steps = at::mul(numbered(window.size(dim), window), window.stride(dim));
    index = at::add(index.unsqueeze(-1), steps);
  }
  const at::Tensor flat = window.as_strided({elements}, {1}, 0);
  return at::index_select(flat, 0, index.reshape({-1})).view(sizes);
}

// Zeros of `size` along `dim`, with `part` starting at `place`.
at::Tensor placed(const at::Tensor& part, int64_t size, int64_t dim, int64_t place) {
  const int64_t length = part.size(dim);
  const at::Tensor from_place = at::sub(numbered(size, part), place);
  c10::DimVector along(static_cast<size_t>(part.dim()), 1);
  along[static_cast<size_t>(dim)] = size;
  const at::Tensor is_inside =
      at::logical_and(at::ge(from_place, 0), at::lt(from_place, length)).view(along);
  const at::Tensor rows =
      length == 1 ? part : at::index_select(part, dim, at::clamp(from_place, 0, length - 1));
  return at::where(is_inside, rows, at::scalar_tensor(0, part.options())).contiguous();
}

}  // namespace

// Without dims, the elements move in one line.
at::Tensor roll(const at::Tensor& self, c10::SymIntArrayRef symbolic_shifts, at::IntArrayRef dims) {
  const at::IntArrayRef shifts = C10_AS_INTARRAYREF_SLOW(symbolic_shifts);
  // Errors, and calls that move nothing, are left to the recorder.
  if (self.numel() == 0 || self.dim() == 0 || shifts.size() != std::max<size_t>(dims.size(), 1)) {
    return recorded_roll(self, shifts, dims);
  }
  if (dims.empty()) return rolled(self.reshape({-1}), shifts[0], 0).view(self.sizes());
  at::Tensor result = self;
  for (size_t at = 0; at < dims.size(); ++at)
    result = rolled(result, shifts[at], at::maybe_wrap_dim(dims[at], self.dim()));
  return result;
}

at::Tensor stack(at::TensorList tensors, int64_t dim) {
  if (!are_varying_windows(tensors)) return at::native::stack(tensors, dim);
  return selected(tensors).movedim(0, at::maybe_wrap_dim(dim, tensors[0].dim() + 1)).contiguous();
}

// (tensors, dim)
void cat(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (torch::jit::peek(*stack, 0, 2).toListRef().size() >= kLongList) {
    auto tensors = torch::jit::peek(*stack, 0, 2).toTensorVector();
    const int64_t along = torch::jit::peek(*stack, 1, 2).toInt(), rank = tensors[0].dim();
    if (-rank <= along && along < rank) join_stored(tensors, at::maybe_wrap_dim(along, rank));
    if (tensors.size() == 1) {
      torch::jit::drop(*stack, 2);
      stack->emplace_back(std::move(tensors[0]));
      return;
    }
    torch::jit::peek(*stack, 0, 2) = std::move(tensors);
  }
  const auto list = torch::jit::peek(*stack, 0, 2).toListRef();
  if (list.size() < 2 || !list[1].toTensor().is_alias_of(list[0].toTensor()))
    return record_boxed(op, stack);
  const auto windows = torch::jit::peek(*stack, 0, 2).toTensorVector();
  if (windows[0].dim() == 0 || !are_varying_windows(windows)) return record_boxed(op, stack);
  const int64_t dim = at::maybe_wrap_dim(torch::jit::peek(*stack, 1, 2).toInt(), windows[0].dim());
  torch::jit::drop(*stack, 2);
  const at::Tensor joined = selected(windows).movedim(0, dim).flatten(dim, dim + 1);
  stack->emplace_back(joined.contiguous(windows[0].suggest_memory_format()));
}

void cat_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor out = torch::jit::peek(*stack, 2, 3).toTensor();
  for (const at::Tensor& tensor : torch::jit::peek(*stack, 0, 3).toTensorVector())
    at::assert_no_overlap(out, tensor);
  record_boxed(op, stack);
}

at::Tensor select_backward(const at::Tensor& grad, c10::SymIntArrayRef input_sizes, int64_t dim,
                           c10::SymInt symbolic_index) {
  // PyTorch refuses this.
  if (input_sizes.empty())
    return at::native::select_backward_symint(grad, input_sizes, dim, symbolic_index);
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(input_sizes);
  const int64_t index = symbolic_index.guard_int(__FILE__, __LINE__);
  const int64_t at = at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  const int64_t size = sizes[static_cast<size_t>(at)];
  const int64_t place = index < 0 ? index + size : index;
  if (grad.numel() == 0 || !varies({kSliceBackward, word(at), sizes.size(), 1}, word(place)))
    return at::native::select_backward_symint(grad, input_sizes, dim, symbolic_index);
  return placed(grad.unsqueeze(at), size, at, place);
}

at::Tensor slice_backward(const at::Tensor& grad, c10::SymIntArrayRef input_sizes, int64_t dim,
                          c10::SymInt symbolic_start, c10::SymInt end, c10::SymInt step) {
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(input_sizes);
  const int64_t start = symbolic_start.guard_int(__FILE__, __LINE__);
  const int64_t last = end.guard_int(__FILE__, __LINE__);
  const int64_t stride = step.guard_int(__FILE__, __LINE__);
  // PyTorch refuses this.
  if (sizes.empty()) return at::native::slice_backward(grad, sizes, dim, start, last, stride);
  const int64_t at = at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  const int64_t size = sizes[static_cast<size_t>(at)], length = grad.size(at);
  const int64_t place = start < 0 ? std::max<int64_t>(start + size, 0) : start;
  const KeyWords key{kSliceBackward, word(at), sizes.size(), word(length)};
  if (stride != 1 || grad.numel() == 0 || length == size || !varies(key, word(place)))
    return at::native::slice_backward(grad, sizes, dim, start, last, stride);
  return placed(grad, size, at, place);
}

}  // namespace torchacc
