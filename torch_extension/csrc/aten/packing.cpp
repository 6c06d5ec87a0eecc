#include "aten/packing.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/_pack_padded_sequence_backward_native.h>
#include <ATen/ops/_pack_padded_sequence_native.h>
#include <ATen/ops/_pad_packed_sequence_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "aten/kernels.h"

namespace torchacc {
namespace {

template <typename T>
struct Table {
  at::Tensor tensor;
  T* at;

  template <typename... Size>
  explicit Table(Size... sizes)
      : tensor(at::empty({sizes...}, c10::CppTypeToScalarType<T>::value)),
        at(tensor.mutable_data_ptr<T>()) {}
};

}  // namespace

std::optional<Packing> Packing::of(const at::Tensor& batch_sizes, c10::Device device,
                                   bool both_directions) {
  if (!batch_sizes.is_cpu() || at::isTensorSubclassLike(batch_sizes) ||
      batch_sizes.scalar_type() != at::kLong || batch_sizes.dim() != 1 || batch_sizes.numel() == 0)
    return std::nullopt;
  const at::Tensor dense = batch_sizes.contiguous();
  const at::ArrayRef<int64_t> sizes{dense.const_data_ptr<int64_t>(),
                                    static_cast<size_t>(dense.numel())};
  const auto time = static_cast<int64_t>(sizes.size()), batch = sizes[0];
  if (sizes.back() < 1 || !std::is_sorted(sizes.rbegin(), sizes.rend())) return std::nullopt;
  Packing result;
  auto &starts = result.starts_, &lengths = result.lengths_;
  starts.push_back(0);
  lengths.resize(batch);
  for (int64_t t = 0; t < time; ++t) {
    starts.push_back(starts[t] + sizes[t]);
    std::fill_n(lengths.begin(), sizes[t], t + 1);
  }
  result.is_even_ = sizes.back() == batch;
  if (result.is_even_) return result;
  const auto rows = [&](bool mirrored) {
    Table<int64_t> of_packed(time, batch), of_batch(starts[time]);
    for (int64_t t = 0; t < time; ++t) {
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t step = std::min(t, lengths[b] - 1);
        const int64_t row = starts[mirrored ? lengths[b] - 1 - step : step] + b;
        of_packed.at[t * batch + b] = row;
        if (t == step) of_batch.at[row] = t * batch + b;
      }
    }
    return Rows{of_packed.tensor.to(device), of_batch.tensor.to(device)};
  };
  result.rows_ = rows(false);
  if (both_directions) result.mirrored_ = rows(true);
  Table<int64_t> ends(batch);
  Table<bool> behind(time, batch);
  for (int64_t b = 0; b < batch; ++b) {
    ends.at[b] = (lengths[b] - 1) * batch + b;
    for (int64_t t = 0; t < time; ++t) behind.at[t * batch + b] = t >= lengths[b];
  }
  result.ends_ = ends.tensor.to(device);
  result.behind_ = behind.tensor.to(device);
  return result;
}

at::Tensor Packing::to_batch(const at::Tensor& packed, bool mirrored) const {
  if (is_even_ && !mirrored) return packed.unflatten(0, {time(), batch()});
  return at::index(packed, {(mirrored ? mirrored_ : rows_).of_packed});
}

at::Tensor Packing::to_packed(const at::Tensor& batch, bool mirrored) const {
  if (is_even_ && !mirrored) return batch.flatten(0, 1);
  return at::index(batch.flatten(0, 1), {(mirrored ? mirrored_ : rows_).of_batch});
}

at::Tensor Packing::ends(const at::Tensor& batch) const {
  return at::index(batch.flatten(0, 1), {ends_});
}

at::Tensor Packing::filled(const at::Tensor& batch, const at::Tensor& value) const {
  if (is_even_) return batch;
  at::Tensor behind = behind_;
  while (behind.dim() < batch.dim()) behind = behind.unsqueeze(-1);
  return at::where(behind, value, batch);
}

// ---- torch.nn.utils.rnn

namespace {

// A batch extended to `time` steps by `value`.
at::Tensor lengthened(const at::Tensor& batch, int64_t time, const at::Tensor& value) {
  if (batch.size(0) == time) return batch;
  auto sizes = batch.sizes().vec();
  sizes[0] = time - sizes[0];
  return at::cat({batch, value.expand(sizes)});
}

// Whether a tensor is on the device and has no transform.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_privateuseone() && !at::isTensorSubclassLike(tensor);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> pack_padded_sequence(const at::Tensor& input,
                                                        const at::Tensor& lengths,
                                                        bool batch_first) {
  const auto elsewhere = [&] {
    return at::native::_pack_padded_sequence(input, lengths, batch_first);
  };
  if (!is_plain(input) || input.dim() < 2 || input.numel() == 0 || !lengths.is_cpu() ||
      lengths.scalar_type() != at::kLong || lengths.dim() != 1)
    return elsewhere();
  const at::Tensor dense = lengths.contiguous();
  const at::ArrayRef<int64_t> all{dense.const_data_ptr<int64_t>(),
                                  static_cast<size_t>(dense.numel())};
  const int64_t batch = input.size(batch_first ? 0 : 1), time = input.size(batch_first ? 1 : 0);
  if (dense.numel() != batch || all.back() < 1 || all[0] > time ||
      !std::is_sorted(all.rbegin(), all.rend()))
    return elsewhere();
  Table<int64_t> batch_sizes(all[0]);
  for (int64_t t = 0; t < all[0]; ++t) {
    batch_sizes.at[t] = std::count_if(all.begin(), all.end(), [&](int64_t n) { return n > t; });
  }
  const auto packing = Packing::of(batch_sizes.tensor, input.device());
  const at::Tensor steps = batch_first ? input.transpose(0, 1) : input;
  return {packing->to_packed(steps.narrow(0, 0, all[0]), false), batch_sizes.tensor};
}

at::Tensor pack_padded_sequence_backward(const at::Tensor& grad, c10::SymIntArrayRef input_size,
                                         const at::Tensor& batch_sizes, bool batch_first) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW_ALLOC(input_size);
  const auto packing = is_plain(grad) ? Packing::of(batch_sizes, grad.device()) : std::nullopt;
  if (!packing || packing->steps() != grad.size(0)) {
    return at::native::_pack_padded_sequence_backward_symint(grad, input_size, batch_sizes,
                                                             batch_first);
  }
  const at::Tensor zero = at::zeros({}, grad.options());
  const at::Tensor batch = packing->filled(packing->to_batch(grad, false), zero);
  const at::Tensor steps = lengthened(batch, sizes[batch_first ? 1 : 0], zero);
  return batch_first ? steps.transpose(0, 1) : steps;
}

std::tuple<at::Tensor, at::Tensor> pad_packed_sequence(const at::Tensor& data,
                                                       const at::Tensor& batch_sizes,
                                                       bool batch_first,
                                                       const at::Scalar& padding_value,
                                                       int64_t total_length) {
  const auto packing = is_plain(data) ? Packing::of(batch_sizes, data.device()) : std::nullopt;
  if (!packing || packing->steps() != data.size(0) ||
      (total_length > 0 && total_length < packing->time())) {
    return at::native::_pad_packed_sequence(data, batch_sizes, batch_first, padding_value,
                                            total_length);
  }
  const at::Tensor value = at::full({}, padding_value, data.options());
  const at::Tensor batch = packing->filled(packing->to_batch(data, false), value);
  const at::Tensor steps = lengthened(batch, std::max(total_length, packing->time()), value);
  Table<int64_t> lengths(packing->batch());
  std::copy(packing->lengths().begin(), packing->lengths().end(), lengths.at);
  return {batch_first ? steps.transpose(0, 1) : steps, lengths.tensor};
}

}  // namespace torchacc
