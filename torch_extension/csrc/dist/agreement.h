// Checks that all ranks of a group call the same collectives: the transport would otherwise combine
// unrelated data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace torchacc {

// The properties that must be equal on all ranks: `kind` is a name of static lifetime, `how` the
// reduction or the root.
struct Alike {
  const char* kind;
  at::ScalarType type;
  int64_t elements;
  int64_t how;
};

// The first of several collectives in which the ranks differ.
struct Difference {
  size_t index;
  std::string text;
};

class Agreement {
 public:
  // Compares this rank's next collectives with those of the other ranks. The first ones are all
  // compared, as are those after many bytes; of the others one of many, which covers all before it.
  // Every rank learns of a difference before the data is sent.
  std::optional<Difference> check(c10d::Backend& backend, at::ArrayRef<Alike> calls);
  // Number of collectives begun.
  uint64_t count() const { return count_; }

 private:
  uint64_t count_ = 0;
  uint64_t history_ = 0;  // hash of all collectives
  uint64_t bytes_ = 0;    // since the last comparison
};

}  // namespace torchacc
