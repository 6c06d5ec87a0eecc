#include "runtime/allocator.h"

#include <ATen/EmptyTensor.h>

#include <array>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/address_space.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

void release_buffer(void* context);

class Allocator final : public c10::DeviceAllocator {
 public:
  at::DataPtr allocate(size_t nbytes) override { return allocate_on(nbytes, current_device()); }

  at::DataPtr allocate_on(size_t nbytes, c10::DeviceIndex device) {
    torchacc_buffer* handle = nullptr;
    check(torchacc_buffer_new(context(), nbytes, &handle));
    return adopt(handle, nbytes, device);
  }

  // Takes ownership of one reference to `handle`.
  at::DataPtr adopt(torchacc_buffer* handle, size_t nbytes, c10::DeviceIndex device) {
    auto buffer = std::make_unique<DeviceBuffer>(DeviceBuffer{handle, nullptr, 0, nbytes, device});
    try {
      std::lock_guard<std::mutex> lock(mutex_);
      if (nbytes != 0) {
        buffer->range = addresses_.take(nbytes, buffer.get());
        buffer->address = buffer->range->address;
      }
      count(device,
            [nbytes](c10::CachingAllocator::Stat& number, c10::CachingAllocator::Stat& bytes) {
              number.increase(1);
              bytes.increase(nbytes);
            });
    } catch (...) {
      torchacc_buffer_release(handle);
      throw;
    }
    void* address = reinterpret_cast<void*>(buffer->address);
    return {address, buffer.release(), &release_buffer,
            c10::Device(c10::DeviceType::PrivateUse1, device)};
  }

  void release(DeviceBuffer* buffer) {
    // In a forked child, any lock may have been held by another thread of the parent at the fork.
    if (in_bad_fork()) return;
    std::unique_ptr<DeviceBuffer> owned(buffer);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (buffer->range != nullptr) addresses_.give_back(buffer->range);
      count(buffer->device,
            [buffer](c10::CachingAllocator::Stat& number, c10::CachingAllocator::Stat& bytes) {
              number.decrease(1);
              bytes.decrease(buffer->nbytes);
            });
    }
    torchacc_buffer_release(buffer->handle);
  }

  DeviceBuffer* owner_of(const void* pointer) {
    std::lock_guard<std::mutex> lock(mutex_);
    return addresses_.owner_of(reinterpret_cast<uintptr_t>(pointer));
  }

  // libtorchacc plans memory and keeps it for reuse.
  bool initialized() override { return context_if_created() != nullptr; }
  void emptyCache(c10::MempoolId_t) override {
    if (torchacc_context* used = context_if_created()) check(torchacc_context_trim(used));
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    DeviceStats stats = storages(device);
    torchacc_memory_stats memory{};
    memory.struct_size = sizeof memory;
    if (torchacc_context* used = context_if_created())
      check(torchacc_context_memory_stats(used, &memory));
    constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);
    const auto set = [](c10::CachingAllocator::Stat& stat, uint64_t current, uint64_t peak) {
      stat.current = static_cast<int64_t>(current);
      stat.peak = static_cast<int64_t>(peak);
    };
    // `requested_bytes` counts the storages; they have no memory before something is computed.
    set(stats.allocated_bytes[kAll], memory.allocated_bytes, memory.peak_allocated_bytes);
    stats.active_bytes[kAll] = stats.allocated_bytes[kAll];
    set(stats.reserved_bytes[kAll], memory.reserved_bytes, memory.peak_reserved_bytes);
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    std::lock_guard<std::mutex> lock(mutex_);
    count(normalize_device(device),
          [](c10::CachingAllocator::Stat& number, c10::CachingAllocator::Stat& bytes) {
            number.reset_accumulated();
            bytes.reset_accumulated();
          });
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    std::lock_guard<std::mutex> lock(mutex_);
    count(normalize_device(device),
          [](c10::CachingAllocator::Stat& number, c10::CachingAllocator::Stat& bytes) {
            number.reset_peak();
            bytes.reset_peak();
          });
    torchacc_context_reset_peak_memory(context_if_created());
  }

  // For a GPU, PyTorch's figures; for the host, the memory available to programs, which includes
  // the file cache that the system gives up on demand.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    context();
    if (const auto& native = native_device(); native.has_value() && !native->is_cpu())
      return c10::getDeviceAllocator(native->type())->getMemoryInfo(native->index());
    std::ifstream file("/proc/meminfo");
    size_t available = 0, total = 0, kilobytes = 0;
    for (std::string name, rest; file >> name >> kilobytes && std::getline(file, rest);) {
      if (name == "MemAvailable:") available = kilobytes << 10;
      if (name == "MemTotal:") total = kilobytes << 10;
    }
    TORCH_CHECK(total != 0, "acc: /proc/meminfo does not say how much memory there is");
    return {available, total};
  }

  // PyTorch calls raw_allocate only if this is non-null; a raw pointer could not be released by
  // address.
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "acc storages have no host-visible bytes; copy the tensor instead");
  }

 private:
  // Counts of the device's storages and their requested bytes.
  DeviceStats storages(c10::DeviceIndex device) {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_[normalize_device(device)];
  }

  // Counts storages and their requested bytes, which differ from the bytes in memory.
  template <class Change>
  void count(c10::DeviceIndex device, Change change) {
    DeviceStats& stats = stats_[device];
    constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);
    change(stats.allocation[kAll], stats.requested_bytes[kAll]);
    stats.active[kAll] = stats.allocation[kAll];
  }

  std::mutex mutex_;
  AddressSpace addresses_;
  std::array<DeviceStats, kMaxDevices> stats_;
};

// Leaked: storages are released after static destructors have run.
Allocator& the_allocator() {
  static auto* instance = new Allocator();
  return *instance;
}

void release_buffer(void* context) { the_allocator().release(static_cast<DeviceBuffer*>(context)); }

const bool g_registered = [] {
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &the_allocator());
  return true;
}();

}  // namespace

c10::DeviceAllocator& allocator() { return the_allocator(); }

BufferSlice buffer_of(const c10::StorageImpl& storage) {
  const at::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() == &release_buffer)
    return {static_cast<DeviceBuffer*>(data.get_context()), 0};
  DeviceBuffer* owner = the_allocator().owner_of(data.get());
  TORCH_CHECK(owner != nullptr, "acc: the storage at ", data.get(),
              " was not allocated by the acc device");
  return {owner, static_cast<int64_t>(reinterpret_cast<uintptr_t>(data.get()) - owner->address)};
}

c10::Device device_of_pointer(const void* pointer) {
  DeviceBuffer* owner = the_allocator().owner_of(pointer);
  TORCH_CHECK(owner != nullptr, "acc: ", pointer, " is not an address of the acc device");
  return {c10::DeviceType::PrivateUse1, owner->device};
}

namespace {

at::Tensor tensor_on(at::DataPtr data, size_t nbytes, c10::ScalarType dtype) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), nbytes,
                                                       std::move(data), &the_allocator(), true);
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
}

}  // namespace

at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype,
                       size_t nbytes, c10::DeviceIndex device) {
  auto tensor = tensor_on(the_allocator().allocate_on(nbytes, device), nbytes, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor adopt_tensor(torchacc_buffer* handle, at::IntArrayRef sizes, at::IntArrayRef strides,
                        int64_t offset, c10::ScalarType dtype, c10::DeviceIndex device) {
  const size_t nbytes = torchacc_buffer_nbytes(handle);
  auto tensor = tensor_on(the_allocator().adopt(handle, nbytes, device), nbytes, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype,
                       c10::DeviceIndex device) {
  return make_tensor(sizes, strides, dtype,
                     at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype)),
                     device);
}

void resize_storage(c10::StorageImpl& storage, size_t nbytes) {
  if (nbytes == storage.nbytes()) return;
  const auto [buffer, offset] = buffer_of(storage);
  TORCH_CHECK(offset == 0 && buffer->nbytes == storage.nbytes(),
              "acc: a storage made from a raw pointer cannot be resized");
  check(torchacc_buffer_resize(buffer->handle, nbytes));
  // A new range for the same buffer: the old one is too short, and must not alias its successor.
  auto data = the_allocator().adopt(torchacc_buffer_retain(buffer->handle), nbytes, buffer->device);
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(nbytes);
}

void grow_storage(at::TensorImpl& tensor) {
  if (tensor.numel() == 0) return;
  const size_t needed = at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.itemsize(), tensor.storage_offset());
  c10::StorageImpl& storage = *tensor.unsafe_storage().unsafeGetStorageImpl();
  if (needed > storage.nbytes()) resize_storage(storage, needed);
}

}  // namespace torchacc
