#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace torchacc {

// Adds its lifetime, in nanoseconds, to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<uint64_t>& sum) : sum_(sum) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    const auto passed = std::chrono::steady_clock::now() - start_;
    sum_.fetch_add(static_cast<uint64_t>(std::chrono::nanoseconds(passed).count()),
                   std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t>& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace torchacc
