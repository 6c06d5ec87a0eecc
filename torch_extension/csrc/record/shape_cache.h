// The shapes of an operator's results, cached, because PyTorch's own answer (its Meta kernels) is
// mostly Python code that costs 10 µs to 30 ms a call.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "record/arguments.h"

namespace torchacc {

using Dims = c10::SmallVector<int64_t, 6>;

struct OutputShape {
  enum class Kind : uint8_t {
    Fresh,     // a new tensor
    Argument,  // tensors()[index] itself
    View,      // another view of storages()[index]
    Undefined,
  };
  Kind kind = Kind::Undefined;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  int32_t index = -1;
  int64_t offset = 0;
  size_t nbytes = 0;
  Dims sizes;
  Dims strides;
};

// One return value: a tensor, or a list of `count` tensors.
struct ReturnShape {
  bool is_list = false;
  size_t count = 1;
};

// An out= argument that the operator gives another geometry.
struct ResizedArgument {
  size_t use;
  Dims sizes;
  Dims strides;
  std::optional<int64_t> offset;  // new offset in its storage; none for an out= argument
};

struct Shapes {
  std::vector<ReturnShape> returns;
  std::vector<OutputShape> outputs;  // of all returns, lists flattened
  std::vector<ResizedArgument> resized;
  int64_t random_numel = 0;  // elements that a random operator fills
  size_t fresh = 0;

  // The operator to record: the native one, or a host operator registered on demand. Kept here
  // because a native operator may turn out not to support these types.
  mutable std::atomic<bool> use_host{false};
  mutable std::atomic<int64_t> host_op{-1};
};

struct ShapeCacheCounters {
  uint64_t hits;
  uint64_t misses;
};

// The shapes of this call's results, or null when PyTorch cannot tell them without running the
// operator. Throws the operator's errors for invalid arguments. May run Python: call without locks.
std::shared_ptr<const Shapes> infer_shapes(Call& call);

ShapeCacheCounters shape_cache_counters();
void reset_shape_cache_counters();

}  // namespace torchacc
