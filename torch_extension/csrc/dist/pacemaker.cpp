#include "dist/pacemaker.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "record/activity.h"
#include "runtime/progress.h"

namespace torchacc {
namespace {

// A recording program continues within microseconds; after this much silence it waits for something
// else. The silence is the sum of several looks, any of which may be late if the processor is busy.
constexpr auto kLook = std::chrono::milliseconds(50);
constexpr auto kSilence = std::chrono::milliseconds(250);

class Pacemaker {
 public:
  void recorded() {
    const uint64_t position = recorded_position();
    std::lock_guard<std::mutex> lock(mutex_);
    if (position == position_) return;
    position_ = position;
    if (!has_thread_) std::thread([this] { run(); }).detach();
    has_thread_ = true;
    changed_.notify_one();
  }

 private:
  void run() {
    uint64_t seen = 0;
    while (true) {
      uint64_t position = 0;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return position_ != seen; });
        position = position_;
      }
      try {
        wait_for_silence();
        // Cuts only if it is still in the trace.
        has_reached(position);
      } catch (const std::exception& error) {
        TORCH_WARN("a trace with collectives could not be cut: ", error.what());
      }
      seen = position;
    }
  }

  static void wait_for_silence() {
    uint64_t before = recorder_activity();
    RecordingThreads threads;
    for (std::chrono::nanoseconds silent{}; silent < kSilence;) {
      std::this_thread::sleep_for(kLook);
      silent += threads.look(kLook);
      const uint64_t now = recorder_activity();
      if (now != before) silent = {};
      before = now;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t position_ = 0;  // position of the last collective
  bool has_thread_ = false;
};

}  // namespace

void keep_pace() {
  static auto* pacemaker = new Pacemaker();  // its thread may outlive every static destructor
  pacemaker->recorded();
}

}  // namespace torchacc
