// Dry runs of a call's CPU kernel on stand-ins for its device tensors: they show whether the kernel
// refuses the call, and the results it returns.
#pragma once

#include <c10/util/FunctionRef.h>

#include "record/arguments.h"

namespace torchacc {

// The CPU tensor that stands in for a device tensor.
using StandIn = c10::function_ref<at::Tensor(const c10::TensorImpl&)>;

using Tensors = c10::SmallVector<at::Tensor, 4>;

// The kernel's results, lists flattened; throws the kernel's errors. Warnings are not shown, and
// the program's generators do not advance.
Tensors dry_run(const Call& call, StandIn stand_in);

// The kernel's results for zeros of the call's sizes, and for its sketch; nothing if the kernel
// refuses them or they are too large.
std::optional<Tensors> dry_run_in_full(const Call& call);
std::optional<Tensors> dry_run_sketch(const Call& call, bool halves);
// Whether the kernel may access memory where its operands say: they hold integers, which may be
// indices.
bool trusts_operands(const Call& call);

// Largest total size of stand-ins, in bytes: beyond it an answer is not worth the memory.
constexpr size_t kLargestDryRun = size_t{1} << 30;
// Bytes of the stand-ins for all the call's tensors.
size_t nbytes_of(const Call& call);

at::ScalarType type_of(const c10::TensorImpl& tensor);
inline bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

// A tensor of the same geometry, its strides in the same order.
at::Tensor in_full(const c10::TensorImpl& tensor, at::ScalarType type, int64_t value);

// Small stand-ins for a call's tensors, filled with one value. Equal sizes stay equal, different
// ones different, even ones even, and 0, 1 and 2 stay as they are. Strides are in the same order.
// Without `halves`, f32 stands for half types.
class Sketch {
 public:
  Sketch(const Call& call, int64_t value, bool halves);
  at::Tensor operator()(const c10::TensorImpl& tensor) const;

 private:
  c10::SmallVector<int64_t, 8> sizes_of(const c10::TensorImpl& tensor) const;

  int64_t value_;
  bool halves_;
  // The call's sizes beyond 2, in order, and their stand-ins.
  c10::SmallVector<std::pair<int64_t, int64_t>, 8> sizes_;
};

// Dense strides for `sizes` in the order of `strides`; dimensions that repeat themselves stay so.
c10::SmallVector<int64_t, 8> strides_in_order(at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace torchacc
