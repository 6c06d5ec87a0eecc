// Device storages: a PyTorch StorageImpl whose DataPtr context is a DeviceBuffer.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>
#include <torchacc.h>

#include <cstdint>

namespace torchacc {

struct AddressRange;

// The DataPtr context of a device storage.
struct DeviceBuffer {
  torchacc_buffer* handle;
  AddressRange* range;  // null for an empty buffer
  uintptr_t address;    // unique while alive, never dereferenceable; 0 for an empty buffer
  size_t nbytes;
  c10::DeviceIndex device;
  // Whether it was viewed both as bool and as another type, so that true may be any non-zero byte.
  bool has_other_bools = false;
};

// The location of a storage's bytes. The offset is non-zero only for storages that were rebuilt
// from an interior pointer (at::from_blob on a device address).
struct BufferSlice {
  DeviceBuffer* buffer;
  int64_t byte_offset;
};

c10::DeviceAllocator& allocator();

BufferSlice buffer_of(const c10::StorageImpl& storage);
c10::Device device_of_pointer(const void* pointer);

inline bool is_acc(const at::TensorImpl& tensor) {
  return tensor.device_type() == c10::DeviceType::PrivateUse1;
}
inline bool is_acc(const at::Tensor& tensor) {
  return tensor.defined() && is_acc(*tensor.unsafeGetTensorImpl());
}

// Whether a device tensor's bools may be bytes other than 0 and 1.
inline bool has_other_bools(const c10::TensorImpl& tensor) {
  return tensor.dtype() == c10::ScalarType::Bool && tensor.has_storage() &&
         buffer_of(*tensor.unsafe_storage().unsafeGetStorageImpl()).buffer->has_other_bools;
}
inline bool has_other_bools(const at::Tensor& tensor) {
  return is_acc(tensor) && has_other_bools(*tensor.unsafeGetTensorImpl());
}

// A new tensor over a new buffer of `nbytes`, without the dispatcher.
at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype,
                       size_t nbytes, c10::DeviceIndex device);
at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype,
                       c10::DeviceIndex device);

// A tensor over `handle`; takes ownership of one reference to it.
at::Tensor adopt_tensor(torchacc_buffer* handle, at::IntArrayRef sizes, at::IntArrayRef strides,
                        int64_t offset, c10::ScalarType dtype, c10::DeviceIndex device);

// Changes the size of a storage, keeping the common prefix. The address changes too.
void resize_storage(c10::StorageImpl& storage, size_t nbytes);
// Makes the storage large enough for the tensor's sizes, strides and offset.
void grow_storage(at::TensorImpl& tensor);

}  // namespace torchacc
