// Dry runs of a call's CPU kernel on stand-ins for its device tensors: what the kernel refuses, and
// what it returns.
#pragma once

#include <c10/util/FunctionRef.h>

#include "record/arguments.h"

namespace torchacc {

// What lies on the CPU in place of a device tensor.
using StandIn = c10::function_ref<at::Tensor(const c10::TensorImpl&)>;

using Tensors = c10::SmallVector<at::Tensor, 4>;

// The kernel's results, lists flattened; throws what the kernel throws. Warnings are not shown, and
// no numbers are taken from the program's generators.
Tensors dry_run(const Call& call, StandIn stand_in);

// The kernel's results for zeros of the call's sizes, and for its sketch; nothing if it refuses
// them or there are too many.
std::optional<Tensors> dry_run_in_full(const Call& call);
std::optional<Tensors> dry_run_sketch(const Call& call, bool halves);
// Whether the kernel may go where its operands say: they hold integers, which may be indices.
bool trusts_operands(const Call& call);

// Beyond this an answer is not worth the memory.
constexpr size_t kLargestDryRun = size_t{1} << 30;
// What stand-ins of all the call's tensors take.
size_t nbytes_of(const Call& call);

at::ScalarType type_of(const c10::TensorImpl& tensor);
inline bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

// A tensor of the same geometry, its strides in the same order.
at::Tensor in_full(const c10::TensorImpl& tensor, at::ScalarType type, int64_t value);

// Small stand-ins for a call's tensors, filled with one value. Sizes that are equal stay so, those
// that differ differ, the even ones are even, and 0, 1 and 2 are what they are. Strides are in the
// same order. Without `halves` f32 stands for half types.
class Sketch {
 public:
  Sketch(const Call& call, int64_t value, bool halves);
  at::Tensor operator()(const c10::TensorImpl& tensor) const;

 private:
  c10::SmallVector<int64_t, 8> sizes_of(const c10::TensorImpl& tensor) const;

  int64_t value_;
  bool halves_;
  // The call's sizes beyond 2, in order, and what stands for them.
  c10::SmallVector<std::pair<int64_t, int64_t>, 8> sizes_;
};

// Dense strides for `sizes` that lie in the order of `strides`; dimensions that repeat themselves
// stay so.
c10::SmallVector<int64_t, 8> strides_in_order(at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace torchacc
