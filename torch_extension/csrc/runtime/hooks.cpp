// The hooks that PyTorch's device-independent code calls on a PrivateUse1 device.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/pinned.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return context_if_created() != nullptr; }
  void init() const override { context(); }

  at::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(at::DeviceIndex index) const override { set_current_device(index); }
  at::DeviceIndex getCurrentDevice() const override { return current_device(); }
  at::DeviceIndex exchangeDevice(at::DeviceIndex index) const override {
    const at::DeviceIndex previous = current_device();
    set_current_device(index);
    return previous;
  }
  at::DeviceIndex maybeExchangeDevice(at::DeviceIndex index) const override {
    return exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(at::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(at::DeviceIndex index) const override {
    return new_generator(index);
  }

  at::Device getDeviceFromPtr(void* pointer) const override { return device_of_pointer(pointer); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), nbytes);
  }
};

const bool g_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

}  // namespace
}  // namespace torchacc
