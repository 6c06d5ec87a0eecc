#include "runtime/native_device.h"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/TensorOptions.h>

#include "record/dispatch.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

std::optional<c10::Device> g_native;

// PyTorch's device for a DLPack device.
std::optional<c10::Device> torch_device(const torchacc_device& device) {
  constexpr int32_t kHost = 1;
  constexpr int32_t kCuda = 2;
  if (device.is_host != 0) return std::nullopt;
  if (device.device_type == kHost) return c10::Device(at::kCPU);
  if (device.device_type != kCuda) return std::nullopt;
  if (!at::hasCUDA()) {
    TORCH_WARN(
        "acc computes on a GPU that PyTorch cannot use: operators without a form of acc's own run "
        "on the CPU. Install PyTorch with CUDA, or use the backend cpu (TORCHACC_BACKEND=cpu)");
    return std::nullopt;
  }
  at::globalContext().lazyInitDevice(at::kCUDA);
  return c10::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.device_id));
}

// The number of a stream that PyTorch did not make is its address: see getStreamFromExternal in
// CUDAStream.cpp.
c10::Stream stream_of(const torchacc_device& device) {
  return c10::Stream(c10::Stream::UNSAFE, *g_native, reinterpret_cast<intptr_t>(device.stream));
}

c10::Stream callers_stream() {
  return c10::impl::VirtualGuardImpl(g_native->type()).getStream(*g_native);
}

void follow(const c10::Stream& later, const c10::Stream& earlier) {
  c10::Event event(later.device_type());
  event.record(earlier);
  event.block(later);
}

// The library itself reports the failed allocation.
void* allocate(void*, const torchacc_device* device, size_t nbytes) noexcept {
  void* memory = nullptr;
  try {
    on_stream(*device, [&] { memory = c10::GetAllocator(g_native->type())->raw_allocate(nbytes); });
  } catch (...) {
  }
  return memory;
}

void deallocate(void*, const torchacc_device*, void* memory, size_t) noexcept {
  try {
    c10::GetAllocator(g_native->type())->raw_deallocate(memory);
  } catch (...) {
    // A lost device takes its memory with it.
  }
}

}  // namespace

void open_native_device(torchacc_context* context) {
  torchacc_device device{};
  device.struct_size = sizeof device;
  check(torchacc_context_device(context, &device));
  g_native = torch_device(device);
  if (!g_native.has_value()) return;
  torchacc_allocator allocator{};
  allocator.struct_size = sizeof allocator;
  allocator.allocate = callback(&allocate);
  allocator.free = callback(&deallocate);
  check(torchacc_context_set_allocator(context, &allocator));
}

const std::optional<c10::Device>& native_device() { return g_native; }

std::optional<c10::DispatchKey> native_key() {
  if (!g_native.has_value()) return std::nullopt;
  return c10::computeDispatchKey(std::nullopt, at::kStrided, *g_native);
}

void on_stream(const torchacc_device& device, c10::function_ref<void()> work) {
  if (device.stream == nullptr) return work();
  const c10::StreamGuard guard(stream_of(device));
  work();
}

void in_order(const torchacc_device& device, c10::function_ref<void()> work) {
  follow_caller(device);
  on_stream(device, work);
  if (device.stream != nullptr) follow(callers_stream(), stream_of(device));
}

void follow_caller(const torchacc_device& device) {
  if (device.stream != nullptr) follow(stream_of(device), callers_stream());
}

at::Tensor native_tensor(void* memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                         int64_t offset, c10::ScalarType dtype) {
  return at::for_blob(memory, sizes)
      .strides(strides)
      .storage_offset(offset)
      .options(at::TensorOptions().dtype(dtype).device(*g_native))
      .target_device(*g_native)
      .make_tensor();
}

namespace {

torchacc_error* failure(torchacc_code code, std::string_view where, const char* what) {
  return torchacc_error_new(code, to_str(where.empty() ? what : std::string(where) + ": " + what));
}

torchacc_error* attempt(std::string_view where, c10::function_ref<void()> work) {
  try {
    work();
    return nullptr;
  } catch (const c10::IndexError& error) {
    return failure(TORCHACC_INDEX_ERROR, where, error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    return failure(TORCHACC_VALUE_ERROR, where, error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    return failure(TORCHACC_TYPE_ERROR, where, error.what_without_backtrace());
  } catch (const c10::LinAlgError& error) {
    return failure(TORCHACC_LINALG_ERROR, where, error.what_without_backtrace());
  } catch (const c10::OutOfMemoryError& error) {
    return failure(TORCHACC_OUT_OF_MEMORY, where, error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    return failure(TORCHACC_UNSUPPORTED, where, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return failure(TORCHACC_OPERATOR_ERROR, where, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    return failure(TORCHACC_OUT_OF_MEMORY, where, error.what());
  } catch (const std::exception& error) {
    return failure(TORCHACC_OPERATOR_ERROR, where, error.what());
  } catch (...) {
    return failure(TORCHACC_OPERATOR_ERROR, where, "unknown exception");
  }
}

}  // namespace

torchacc_error* guarded(std::string_view where, c10::function_ref<void()> work) noexcept {
  try {
    return attempt(where, work);
  } catch (...) {
    // There was no memory for the error message.
    return torchacc_error_new(TORCHACC_OUT_OF_MEMORY, to_str("no memory for a message"));
  }
}

}  // namespace torchacc
