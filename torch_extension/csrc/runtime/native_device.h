// The device of PyTorch's own, if it has one, whose memory the context computes in: "cuda" for the
// CUDA backend. Both then take memory from PyTorch's allocator, PyTorch's kernels run on the
// context's memory, and tensors cross without the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>
#include <c10/util/FunctionRef.h>
#include <torchacc.h>

#include <optional>

namespace torchacc {

// Takes memory of a new context from PyTorch's allocator where there is a native device.
void open_native_device(torchacc_context* context);

// Nothing for contexts that compute on the host, whose memory needs no neighbour, and where this
// PyTorch does not know the context's device.
const std::optional<c10::Device>& native_device();

// What its kernels are registered for.
std::optional<c10::DispatchKey> native_key();

// Runs `work` with the context's stream as the native device's current one.
void on_stream(const torchacc_device& device, c10::function_ref<void()> work);

// The same, after what was queued on the caller's current stream and before what will be.
void in_order(const torchacc_device& device, c10::function_ref<void()> work);

// What is queued on the context's stream from now on comes after what was queued on the caller's
// current one.
void follow_caller(const torchacc_device& device);

// A tensor of the native device on memory of the context's.
at::Tensor native_tensor(void* memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                         int64_t offset, c10::ScalarType dtype);

// Calls `work`, whose exceptions it gives as errors that have `where`, if not empty, in front.
torchacc_error* guarded(std::string_view where, c10::function_ref<void()> work) noexcept;

}  // namespace torchacc
