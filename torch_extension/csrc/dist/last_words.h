// What becomes of a group whose collective failed, and what its ranks tell one another then, by its
// store: of two that did not do the same each learns what the other did, and where.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
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

  // Throws if a collective has failed: no rank knows what the others have, or do next.
  void check_usable() const;
  // That is so from now on: throws it, with what the other ranks say, or what failed before.
  [[noreturn]] void fail(const std::string& failure, const Doing& doing);

 private:
  // Says that this rank goes no further than `doing`, and gives what others say: lines for a
  // message. Waits for them, five seconds at most.
  std::string exchange(const Doing& doing) noexcept;

  mutable std::mutex mutex_;  // of what several lanes ask for
  std::string failure_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
};

}  // namespace torchacc
