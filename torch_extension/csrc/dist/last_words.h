// What ranks whose collective failed tell one another, by the store of their group: of two that did
// not do the same each learns what the other did, and where.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace torchacc {

// What a rank does.
struct Doing {
  const char* kind;
  std::optional<uint64_t> number;  // of the group's collectives, from 0 on
  at::ScalarType type;
  int64_t elements;
};

class LastWords {
 public:
  LastWords(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

  // Says that this rank goes no further than `doing`, and gives what others say: lines for a
  // message. Waits for them, a second at most.
  std::string exchange(const Doing& doing) noexcept;

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
};

}  // namespace torchacc
