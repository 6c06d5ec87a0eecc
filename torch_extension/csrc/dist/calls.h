// Building blocks of the backend's calls.
#pragma once

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dist/backend.h"
#include "dist/work.h"
#include "record/dispatch.h"
#include "record/location.h"
#include "runtime/allocator.h"
#include "runtime/runtime.h"

namespace torchacc {

using c10d::OpType;

// During its lifetime, recorded operations belong to this call of c10d, and no gradient flows.
class Recording {
 public:
  explicit Recording(const char* name) : name_(std::string("c10d::") + name), scope_(name_) {}

 private:
  const std::string name_;
  const RecordingScope scope_;
  const DispatchBelowAutograd below_;
  const at::NoGradGuard no_grad_;
};

inline bool on_host(const at::Tensor& tensor) { return tensor.defined() && tensor.is_cpu(); }
inline bool on_host(const Tensors& tensors) { return !tensors.empty() && on_host(tensors.front()); }

// A contiguous tensor whose value `target` gets in the end: `target` itself if that is contiguous.
class Target {
 public:
  // For received values, of the type of `summand` if that is given.
  explicit Target(const at::Tensor& target, const at::Tensor& summand = at::Tensor())
      : target_(target) {
    const auto type = summand.defined() ? summand.scalar_type() : target.scalar_type();
    const bool is_it = target.is_contiguous() && type == target.scalar_type();
    memory_ = is_it ? target : at::empty(target.sizes(), target.options().dtype(type));
  }
  // For values changed in place: initially `summand`, which may be `target`.
  static Target of(const at::Tensor& target, const at::Tensor& summand) {
    Target made(target, summand);
    if (!made.memory_.is_same(target)) {
      made.memory_ = summand.is_same(target) ? target.contiguous() : summand;
    } else if (!summand.is_same(target)) {
      target.copy_(summand);
    }
    return made;
  }
  const at::Tensor& memory() const { return memory_; }
  void finish() const {
    if (!memory_.is_same(target_)) target_.copy_(memory_);
  }

 private:
  at::Tensor target_;
  at::Tensor memory_;
};

inline int64_t numel_of(const Tensors& tensors) {
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.numel();
  return total;
}

inline std::vector<int64_t> numels_of(const Tensors& tensors) {
  std::vector<int64_t> numels;
  for (const at::Tensor& tensor : tensors) numels.push_back(tensor.numel());
  return numels;
}

inline bool are_equal(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t value) { return value == values.front(); });
}

// All elements of several tensors, one after another.
inline at::Tensor joined(const Tensors& tensors) {
  Tensors rows;
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.reshape({-1}));
  return at::cat(rows);
}

inline void spread(const at::Tensor& row, const Tensors& targets) {
  int64_t offset = 0;
  for (const at::Tensor& target : targets) {
    target.copy_(row.narrow(0, offset, target.numel()).view(target.sizes()));
    offset += target.numel();
  }
}

inline void check_sizes(const at::Tensor& whole, const at::Tensor& part, int ranks,
                        const char* what) {
  TORCH_CHECK(whole.numel() == part.numel() * ranks, what, ": ", part.numel(),
              " elements of each of ", ranks, " ranks are not the ", whole.numel(),
              " of the whole tensor");
  TORCH_CHECK(whole.scalar_type() == part.scalar_type(), what, ": tensors of types ",
              whole.scalar_type(), " and ", part.scalar_type());
}

inline void check_count(size_t count, size_t expected, const char* what) {
  TORCH_CHECK(count == expected, what, ": ", count, " tensors where ", expected, " belong");
}

inline const at::Tensor& only(const Tensors& tensors, const char* what) {
  check_count(tensors.size(), 1, what);
  return tensors.front();
}

// Runs everything recorded, then `call` on this thread.
template <class Call>
WorkPtr on_cpu(Call call) {
  synchronize();
  return call();
}

}  // namespace torchacc
