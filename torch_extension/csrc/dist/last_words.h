// Failure of a group: after a failed collective its ranks report to one another through its store,
// so that each of two ranks that disagree learns what the other did, and where.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace torchacc {

// An operation of a rank.
struct Doing {
  const char* kind;
  std::optional<uint64_t> number;  // among the group's collectives, from 0 on
  at::ScalarType type;
  int64_t elements;
};

class LastWords {
 public:
  LastWords(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

  // Throws if a collective has failed: no rank knows the values or the next steps of the others.
  void check_usable() const;
  // Marks the group as failed and throws `failure` with the other ranks' reports; throws the
  // earlier failure if there was one.
  [[noreturn]] void fail(const std::string& failure, const Doing& doing);

 private:
  // Reports that this rank stops at `doing`, and returns the reports of the others as lines for a
  // message. Waits for them for five seconds at most.
  std::string exchange(const Doing& doing) noexcept;

  mutable std::mutex mutex_;  // guards state shared by several lanes
  std::string failure_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
};

}  // namespace torchacc
