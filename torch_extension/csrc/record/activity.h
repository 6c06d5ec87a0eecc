// Whether the program is recording, for code that must not disturb it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

namespace torchacc {

// This thread records an operation.
void note_activity();

// Changes with every recorded operation. Threads that record at once may count as one.
uint64_t recorder_activity() noexcept;

// Distinguishes a program that has nothing to record from one that has no processor: where many
// processes share few, milliseconds of work between two operations may take a second.
class RecordingThreads {
 public:
  RecordingThreads() { look(); }

  // The part of `passed`, the time since the last look, in which every thread that ever recorded
  // has computed something else, or waited, but not for a processor.
  std::chrono::nanoseconds look(std::chrono::nanoseconds passed = {});

 private:
  std::map<int, std::chrono::nanoseconds> computed_;  // processor time of each thread
};

}  // namespace torchacc
