// Packed sequences of torch.nn.utils.rnn, the longest first: the steps of all sequences in the
// order of time, without padding. One operation computes them side by side.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace torchacc {

// Converts between packed steps [steps, ...] and a batch [time, batch, ...] of them. Beyond its end
// a sequence repeats its own last step.
class Packing {
 public:
  // For batch_sizes [time] on the CPU; nothing if these are invalid. Its tensors are on `device`.
  // With `both_directions`, sequences can be mirrored: from the last step of each to its first.
  static std::optional<Packing> of(const at::Tensor& batch_sizes, c10::Device device,
                                   bool both_directions = false);

  int64_t time() const { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t batch() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t steps() const { return starts_.back(); }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  // Whether all sequences have one length: then the packed steps are a batch.
  bool is_even() const { return is_even_; }

  at::Tensor to_batch(const at::Tensor& packed, bool mirrored) const;
  at::Tensor to_packed(const at::Tensor& batch, bool mirrored) const;
  // [batch, ...]: the last step of each sequence.
  at::Tensor ends(const at::Tensor& batch) const;
  // `batch` with `value`, which broadcasts to its last dimensions, beyond the ends.
  at::Tensor filled(const at::Tensor& batch, const at::Tensor& value) const;

 private:
  std::vector<int64_t> starts_, lengths_;  // first packed step of each time; of sequences
  bool is_even_ = false;
  struct Rows {
    at::Tensor of_packed;  // [time, batch], the packed step
    at::Tensor of_batch;   // [steps], the index into both dimensions joined
  };
  Rows rows_, mirrored_;
  at::Tensor ends_;    // [batch], indices likewise
  at::Tensor behind_;  // [time, batch], bools
};

}  // namespace torchacc
