// The timer that DDP asks for times of forward, backward and communication; without one it warns
// that the device has none. The parts of a step have no times of their own: the step runs as one
// program, later.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

namespace torchacc {
namespace {

class AccTimer : public c10d::Timer {
 public:
  explicit AccTimer(c10::Device) {}
  std::optional<int64_t> measureDifference(Event, Event) override { return std::nullopt; }
};

}  // namespace
}  // namespace torchacc

namespace c10d {

C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, torchacc::AccTimer)

}  // namespace c10d
