// Device, stream and event switching.
//
// All streams of the device share one order: the order of recording. So a stream is only a number,
// waiting for an event on a stream needs nothing, and an event has happened once everything
// recorded before it has.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>

#include "runtime/progress.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

thread_local std::array<c10::StreamId, kMaxDevices> t_streams{};

struct Event {
  uint64_t position;  // how much had been recorded when the event was
  std::chrono::steady_clock::time_point time;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    set_current_device(device.index());
    return previous;
  }
  c10::Device getDevice() const override { return {type(), current_device()}; }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() < device_count()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device device) const override {
    const c10::DeviceIndex index = normalize_device(device.index());
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(type(), index), t_streams[index]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(type(), normalize_device(device.index())));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<c10::StreamId> next{0};
    constexpr c10::StreamId kPoolSize = 32;
    const c10::StreamId id = 1 + next.fetch_add(1, std::memory_order_relaxed) % kPoolSize;
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(type(), normalize_device(device.index())),
                       id);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return getStreamFromGlobalPool(device, false);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream previous = getStream(stream.device());
    t_streams[normalize_device(stream.device_index())] = stream.id();
    return previous;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<intptr_t>(stream.id()));
  }
  bool queryStream(const c10::Stream&) const override { return has_reached(recorded_position()); }
  void synchronizeStream(const c10::Stream&) const override { synchronize(); }
  void synchronizeDevice(const c10::DeviceIndex) const override { synchronize(); }

  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    if (*event == nullptr) *event = new Event();
    // A time is only meaningful once the work before it is done. Programs are timed rarely and on
    // purpose, so a timing event waits here; the others cost nothing.
    if (flag == c10::EventFlag::BACKEND_DEFAULT) synchronize();
    *static_cast<Event*>(*event) = {recorded_position(), std::chrono::steady_clock::now()};
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    return event == nullptr || has_reached(static_cast<Event*>(event)->position);
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) wait_for(static_cast<Event*>(event)->position);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    const auto span = static_cast<Event*>(end)->time - static_cast<Event*>(start)->time;
    return std::chrono::duration<double, std::milli>(span).count();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace
}  // namespace torchacc
