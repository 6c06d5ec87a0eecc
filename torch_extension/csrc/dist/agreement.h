// Whether all ranks of a group do the same collectives: such a transport would add up what does not
// belong together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace torchacc {

// What all ranks must have alike: `kind` is a name that lives, `how` its reduction, or its root.
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
  // This rank's next collectives, of which the others' are to be the same. Every one of the first
  // ones is compared, and that after many bytes; of the others one of many, with all before it.
  // Every rank learns of a difference, before the data is sent.
  std::optional<Difference> check(c10d::Backend& backend, at::ArrayRef<Alike> calls);
  // Of those that were begun.
  uint64_t count() const { return count_; }

 private:
  uint64_t count_ = 0;
  uint64_t history_ = 0;  // of all of them
  uint64_t bytes_ = 0;    // since the last comparison
};

}  // namespace torchacc
