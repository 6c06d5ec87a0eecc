// Differences between the versions of PyTorch that this is compiled with, from 2.11 to 2.15. The
// C++ dialect is in build.mk.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "record/dispatch.h"

#if __has_include(<ATen/NamedTensorUtils.h>)
#include <ATen/NamedTensorUtils.h>
#endif

namespace torchacc {

// Whether `clamp` gives NaN everywhere if that is its only bound. 2.11 ignores it there, 2.15 does
// not (https://github.com/pytorch/pytorch/pull/172200).
inline bool lone_nan_clamps() {
  static const bool answer = [] {
    const CleanDispatch guard;
    return at::ones({1}).clamp(std::numeric_limits<double>::quiet_NaN()).isnan().item<bool>();
  }();
  return answer;
}

// Whether numbers beyond the largest float8_e4m3fn become that one: in 2.13 and newer; NaN in 2.11.
inline bool float8_saturates() {
  static const bool answer = [] {
    const CleanDispatch guard;
    const auto large = at::full({1}, 1e6).to(c10::ScalarType::Float8_e4m3fn);
    return !large.to(at::kFloat).isnan().item<bool>();
  }();
  return answer;
}

// Kineto's descriptions of a device, and of a queue on one. They are aggregates from 2.13 on;
// before, their constructors took a queue's fields in another order.
template <typename Info>
std::unique_ptr<Info> device_info(int64_t id, int64_t sort_index, const char* name) {
  return std::unique_ptr<Info>(new Info{id, sort_index, name, name});
}

template <typename Info>
Info resource_info(int64_t device, int64_t id, const char* name) {
  const int64_t sort_index = 0;
  if constexpr (std::is_aggregate_v<Info>) {
    return {id, sort_index, device, name};
  } else {
    return {device, id, sort_index, name};
  }
}

// Named tensors: 2.15 has none.
#if __has_include(<ATen/NamedTensorUtils.h>)

inline bool is_named(const c10::TensorImpl& tensor) { return tensor.has_named_tensor_meta(); }

// Gives a tensor without names those of `named`, which has the same number of dimensions.
inline void copy_names(at::Tensor& tensor, const c10::TensorImpl& named) {
  at::impl::internal_set_names_inplace(tensor.unsafeGetTensorImpl(), at::impl::get_names(&named),
                                       /*validate_names=*/false);
}

// Gives `tensor` the names of `named` if that has any; if both do, they must be the same.
inline void propagate_names(const at::Tensor& tensor, const at::Tensor& named) {
  at::namedinference::propagate_names(tensor, named);
}

#else

inline bool is_named(const c10::TensorImpl&) { return false; }
inline void copy_names(at::Tensor&, const c10::TensorImpl&) {}
inline void propagate_names(const at::Tensor&, const at::Tensor&) {}

#endif

}  // namespace torchacc
