// The older profiler, torch.autograd.profiler.profile(use_device="acc"), with the device time of
// each operator. Recorded operators are computed at once, so that they have a time.
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/progress.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

class Stubs final : public torch::profiler::impl::ProfilerStubs {
 public:
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    // Does not synchronize: that would raise errors here, where they would be lost.
    const uint64_t position = recorded_position();
    while (!has_reached(position)) std::this_thread::sleep_for(std::chrono::microseconds(1));
    if (device != nullptr) *device = 0;
    if (cpu_ns != nullptr) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      *cpu_ns = std::chrono::nanoseconds(now).count();
    }
    *event = std::make_shared<uint64_t>(busy_ns());
  }

  // In microseconds.
  float elapsed(const ProfilerVoidEventStub* start,
                const ProfilerVoidEventStub* end) const override {
    const uint64_t from = *std::static_pointer_cast<uint64_t>(*start);
    const uint64_t to = *std::static_pointer_cast<uint64_t>(*end);
    return static_cast<float>(to - from) / 1000;
  }

  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> op) const override { op(0); }
  void synchronize() const override { torchacc::synchronize(); }

  // Marks and ranges are for other vendors' profilers.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
};

const bool g_registered = [] {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  return true;
}();

}  // namespace
}  // namespace torchacc
