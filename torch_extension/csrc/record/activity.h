// Whether the program records: for who must not disturb it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

namespace torchacc {

// This thread records an operation.
void note_activity();

// Changes with every operation that is recorded. Threads that record at once may count as one.
uint64_t recorder_activity() noexcept;

// Tells a program that has nothing to record from one that has no processor: where many processes
// share few, what takes milliseconds of work between two operations may take a second.
class RecordingThreads {
 public:
  RecordingThreads() { look(); }

  // How much of the time since the last look, which was so long, every thread that ever recorded
  // has computed something else or waited, but not for a processor.
  std::chrono::nanoseconds look(std::chrono::nanoseconds passed = {});

 private:
  std::map<int, std::chrono::nanoseconds> computed_;  // by thread, since it began
};

}  // namespace torchacc
