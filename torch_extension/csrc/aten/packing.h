// Packed sequences of torch.nn.utils.rnn, the longest first: the steps of all of them in the order
// of time, without padding. One operation takes them beside each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace torchacc {

// Between packed steps [steps, ...] and a batch [time, batch, ...] of them. Behind the end of a
// sequence stands its own last step again.
class Packing {
 public:
  // Of batch_sizes [time], on the CPU; nothing where they are none. Tensors will be on `device`.
  // With `both_directions` sequences may be mirrored: from the last step of each to its first.
  static std::optional<Packing> of(const at::Tensor& batch_sizes, c10::Device device,
                                   bool both_directions = false);

  int64_t time() const { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t batch() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t steps() const { return starts_.back(); }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  // All are of one length: packed ones are a batch.
  bool is_even() const { return is_even_; }

  at::Tensor to_batch(const at::Tensor& packed, bool mirrored) const;
  at::Tensor to_packed(const at::Tensor& batch, bool mirrored) const;
  // [batch, ...]: each sequence's row at its end.
  at::Tensor ends(const at::Tensor& batch) const;
  // `batch` with `value`, which broadcasts to its last dimensions, behind the ends.
  at::Tensor filled(const at::Tensor& batch, const at::Tensor& value) const;

 private:
  std::vector<int64_t> starts_, lengths_;  // of times among the packed steps; of sequences
  bool is_even_ = false;
  struct Rows {
    at::Tensor of_packed;  // [time, batch]
    at::Tensor of_batch;   // [steps], of its first two dimensions joined
  };
  Rows rows_, mirrored_;
  at::Tensor ends_;    // [batch], of the same
  at::Tensor behind_;  // [time, batch], of bools
};

}  // namespace torchacc
