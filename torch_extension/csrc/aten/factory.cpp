// New tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "aten/kernels.h"
#include "record/recorder.h"
#include "runtime/absent.h"
#include "runtime/allocator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// Does the checks that all factory functions share; returns the device to allocate on.
c10::Device device_for(std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                       std::optional<at::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == at::kStrided, kNoSparse);
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
  to_dtype(c10::dtype_or_default(dtype));
  const c10::DeviceIndex index = device.has_value() ? device->index() : c10::DeviceIndex{-1};
  return {c10::DeviceType::PrivateUse1, normalize_device(index)};
}

// Lets `fill` write `size` numbers into `out`, which keeps its shape if it has that many elements,
// as on the CPU.
template <class Fill>
at::Tensor& fill_in_order(at::Tensor& out, int64_t size, Fill fill) {
  if (out.numel() != size) out.resize_({size});
  if (out.dim() == 1) {
    fill(out);
  } else if (out.is_contiguous()) {
    at::Tensor flat = out.view({size});
    fill(flat);
  } else {
    at::Tensor flat = at::empty({size}, out.options());
    fill(flat);
    out.copy_(flat.view(out.sizes()));
  }
  return out;
}

// As on the CPU: the integers between whole ends. The end is included.
template <class Number, class Wide = Number>
int64_t range_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step) {
  const Wide each = step.to<Number>();
  TORCH_CHECK(each != 0, "step must be nonzero");
  const Wide size = (Wide{end.to<Number>()} - Wide{start.to<Number>()}) / each + 1;
  constexpr auto kMost = static_cast<Wide>(int64_t{1} << 62);
  TORCH_CHECK(size >= -kMost && size <= kMost, "invalid size, possible overflow?");
  return static_cast<int64_t>(size);
}

}  // namespace

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  const c10::DeviceGuard guard(device_for(dtype, layout, device, pin_memory));
  return at::detail::empty_generic(size, &allocator(), kKeys, c10::dtype_or_default(dtype),
                                   memory_format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
  const c10::DeviceGuard guard(device_for(dtype, layout, device, pin_memory));
  return at::detail::empty_strided_generic(size, stride, &allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

// A tensor that is only marked as zero would reach CPU kernels as a null pointer.
at::Tensor efficient_zero_tensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                                 std::optional<bool> pin_memory) {
  return at::zeros(size, dtype, layout, device, pin_memory);
}

// The size depends on the values, so the out= tensor is resized here; the recorder then sees an
// operator whose shapes are those of its arguments.
at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                       at::Tensor& out) {
  // As on the CPU: from whole ends if the elements have 64 bits.
  const int64_t size = out.scalar_type() == at::kLong
                           ? at::native::compute_arange_size<int64_t>(start, end, step)
                           : at::native::compute_arange_size<double>(start, end, step);
  if (out.numel() != size && out.numel() > 0) {
    TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ",
               out.numel(), " which does not match the computed number of elements ", size,
               ". Note that this may occur as a result of rounding error. "
               "The out tensor will be resized to a tensor of shape (",
               size, ",).");
  }
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::arange", "start_out");
  return fill_in_order(out, size, [&](at::Tensor& flat) { record(op, start, end, step, flat); });
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                      at::Tensor& out) {
  at::native::arange_check_bounds(start, end, step);
  const c10::ScalarType dtype = out.scalar_type();
  int64_t size = 0;
  if (at::isIntegralType(dtype, /*includeBool=*/true)) {
    size = range_size<int64_t, __int128>(start, end, step);
  } else if (at::isReducedFloatingType(dtype)) {
    size = range_size<float>(start, end, step);
  } else {
    size = range_size<double>(start, end, step);
  }
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::range", "out");
  return fill_in_order(out, size, [&](at::Tensor& flat) { record(op, start, end, step, flat); });
}

at::Tensor& range_out_by_one(const at::Scalar& start, const at::Scalar& end, at::Tensor& out) {
  return range_out(start, end, 1, out);
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps,
                         at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::linspace", "out");
  return fill_in_order(out, steps, [&](at::Tensor& flat) { record(op, start, end, steps, flat); });
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
                         at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::logspace", "out");
  return fill_in_order(out, steps,
                       [&](at::Tensor& flat) { record(op, start, end, steps, base, flat); });
}

}  // namespace torchacc
