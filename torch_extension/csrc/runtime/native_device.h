// The native device: the PyTorch device, if any, in whose memory the context computes ("cuda" for
// the CUDA backend). Both then take memory from PyTorch's allocator, PyTorch's kernels run on the
// context's memory, and tensors cross without the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>
#include <c10/util/FunctionRef.h>
#include <torchacc.h>

#include <optional>

namespace torchacc {

// Makes a new context allocate by PyTorch's allocator if there is a native device.
void open_native_device(torchacc_context* context);

// Empty for contexts that compute on the host, whose memory needs no native device, and if this
// PyTorch does not know the context's device.
const std::optional<c10::Device>& native_device();

// The dispatch key of the native device's kernels.
std::optional<c10::DispatchKey> native_key();

// Runs `work` with the context's stream as the native device's current one.
void on_stream(const torchacc_device& device, c10::function_ref<void()> work);

// Like `on_stream`, but ordered after the work already queued on the caller's current stream, and
// before work queued there later.
void in_order(const torchacc_device& device, c10::function_ref<void()> work);

// Makes later work on the context's stream wait for the work already queued on the caller's current
// stream.
void follow_caller(const torchacc_device& device);

// A tensor of the native device over memory of the context.
at::Tensor native_tensor(void* memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                         int64_t offset, c10::ScalarType dtype);

// Calls `work` and converts its exceptions to errors, prefixed by `where` unless that is empty.
torchacc_error* guarded(std::string_view where, c10::function_ref<void()> work) noexcept;

}  // namespace torchacc
