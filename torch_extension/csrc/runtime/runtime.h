// The process-wide connection to libtorchacc: one context for every device index, the conversion of
// its errors to PyTorch's exceptions, and the numbering of element types on both sides of the ABI.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <torchacc.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace torchacc {

inline torchacc_str to_str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string to_string(torchacc_str text) { return {text.data, text.len}; }

// A function for the library to call. The library's frames do not support exceptions, so one that
// may throw does not compile.
template <class Result, class... Arguments>
constexpr auto callback(Result (*function)(Arguments...) noexcept) {
  return static_cast<Result (*)(Arguments...)>(function);
}

// The context, created on first use. Throws in a child that was forked after its parent had used
// the device: the launch thread did not survive the fork, so anything recorded there would wait for
// ever.
torchacc_context* context();

// Creates the context on this backend (`torchacc_options.backend`). Throws if it exists already and
// was created by another name.
void set_backend(std::string_view name);

// Null while the device is unused; lets queries and synchronization stay free of side effects.
torchacc_context* context_if_created() noexcept;

// True in a forked child of a process that had already used the device.
bool in_bad_fork() noexcept;

// Throws the exception that PyTorch users expect for `error` (and frees it); does nothing for null.
// The message ends with the Python line that recorded the failing operation if that is known.
void check(torchacc_error* error);

// The ABI's number of the dtype, or nothing for types a buffer cannot hold (quantized, sub-byte).
std::optional<torchacc_dtype> find_dtype(c10::ScalarType type) noexcept;
torchacc_dtype to_dtype(c10::ScalarType type);
c10::ScalarType to_scalar_type(torchacc_dtype type);

constexpr c10::DeviceIndex kMaxDevices = 16;
c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device() noexcept;
void set_current_device(c10::DeviceIndex index);
// `index`, or the current device if it is -1, by which PyTorch leaves it open.
c10::DeviceIndex normalize_device(c10::DeviceIndex index);

// Hands everything recorded to the device and waits for it; raises all failures not yet reported.
void synchronize();
void cut();

// True when TORCHACC_FORCE_HOST or TORCHACC_HOST_OPS asks for the ATen kernel of `name`
// ("aten::mm").
bool host_forced(std::string_view name);

}  // namespace torchacc
