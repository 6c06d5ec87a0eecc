// Device, stream and event switching.
//
// All streams of the device share one order: the order of recording. So a stream is only a number,
// waiting for an event on a stream is a no-op, and an event has happened once everything recorded
// before it has run.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>

#include "record/activity.h"
#include "runtime/progress.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

thread_local std::array<c10::StreamId, kMaxDevices> t_streams{};

struct Event {
  uint64_t position;  // position in the recording
  uint64_t activity;  // changes with every recorded operation
  uint64_t busy_ns;   // device time so far; only for events with timing
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
  // Bits are indexed by ScalarType.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    uint64_t known = 0;
    capability.forEachSupportedScalarType([&known](c10::ScalarType type) {
      if (find_dtype(type).has_value()) known |= uint64_t{1} << static_cast<int>(type);
    });
    capability.capability_data.capability_bits = known;
    return capability;
  }

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
    // Everything recorded before has run by then, and nothing else. Programs are timed rarely and
    // on purpose, so an event with timing waits here; other events cost nothing.
    const bool timed = flag == c10::EventFlag::BACKEND_DEFAULT;
    if (timed) synchronize();
    *static_cast<Event*>(*event) = {recorded_position(), recorder_activity(),
                                    timed ? busy_ns() : 0};
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
  // The device time of the operations recorded between the two events; recording, compiling and
  // waiting for either are not included.
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    constexpr double kNanosecondsPerMillisecond = 1e6;
    const auto& first = *static_cast<Event*>(start);
    const auto& last = *static_cast<Event*>(end);
    const auto span = static_cast<int64_t>(last.busy_ns - first.busy_ns);
    if (span == 0 && first.activity != last.activity) {
      TORCH_WARN_ONCE(
          "the time between these events is 0, since nothing of what was recorded between them "
          "ran: a result that nobody holds when a step ends is never computed. Keep the results "
          "until the second event is recorded, or use torch.utils.benchmark.Timer, which keeps "
          "them");
    }
    return static_cast<double>(span) / kNanosecondsPerMillisecond;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace
}  // namespace torchacc
