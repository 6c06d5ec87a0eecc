// Whether all ranks of a group do the same collectives: such a transport would add up what does not
// belong together.
#pragma once

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace torchacc {

class Agreement {
 public:
  // This rank's next collective, of which the others' is to be the same. Every one of the first
  // ones is compared, and that after many bytes; of the others one of many, with all before it.
  // Throws on every rank where they differ, before the data is sent. `kind` is a name that lives;
  // `how` its reduction, or its root.
  void check(c10d::Backend& backend, const char* kind, at::ScalarType type, int64_t elements,
             int64_t how);
  // Of those that were begun.
  uint64_t count() const { return count_; }

 private:
  uint64_t count_ = 0;
  uint64_t history_ = 0;  // of all of them
  uint64_t bytes_ = 0;    // since the last comparison
};

}  // namespace torchacc
