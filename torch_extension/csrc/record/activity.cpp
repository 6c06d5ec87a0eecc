#include "record/activity.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <string>

namespace torchacc {
namespace {

std::atomic<uint64_t> g_activity{0};

struct Threads {
  std::mutex mutex;
  std::map<int, pthread_t> alive;
};

Threads& threads() {
  static auto* all = [] {
    // A child inherits the lock as it was at the fork, but not the thread that would release it.
    pthread_atfork([] { threads().mutex.lock(); }, [] { threads().mutex.unlock(); },
                   [] { threads().mutex.unlock(); });
    return new Threads();  // threads may end after every static destructor
  }();
  return *all;
}

// Registers the thread that creates it, for its lifetime.
struct Registered {
  const int number = static_cast<int>(syscall(SYS_gettid));
  Registered() {
    std::lock_guard<std::mutex> lock(threads().mutex);
    threads().alive[number] = pthread_self();
  }
  ~Registered() {
    std::lock_guard<std::mutex> lock(threads().mutex);
    threads().alive.erase(number);
  }
};

// Whether a thread runs, or would if there were a processor for it.
bool is_runnable(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_ends = line.rfind(") ");
  return name_ends != std::string::npos && line[name_ends + 2] == 'R';
}

std::chrono::nanoseconds processor_time(pthread_t thread) {
  clockid_t clock;
  timespec time{};
  if (pthread_getcpuclockid(thread, &clock) == 0) clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

void note_activity() {
  static thread_local const Registered registered;
  // Without a locked instruction: a lost count does not matter.
  g_activity.store(g_activity.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

uint64_t recorder_activity() noexcept { return g_activity.load(std::memory_order_relaxed); }

std::chrono::nanoseconds RecordingThreads::look(std::chrono::nanoseconds passed) {
  auto least = passed;
  std::map<int, std::chrono::nanoseconds> computed;
  std::lock_guard<std::mutex> lock(threads().mutex);
  for (const auto& [number, thread] : threads().alive) {
    const auto now = computed[number] = processor_time(thread);
    const auto before = computed_.find(number);
    if (before != computed_.end() && is_runnable(number))
      least = std::min(least, now - before->second);
  }
  computed_ = std::move(computed);
  return least;
}

}  // namespace torchacc
