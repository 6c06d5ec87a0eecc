#include "runtime/progress.h"

#include <atomic>

#include "runtime/runtime.h"

namespace torchacc {
namespace {

std::atomic<uint64_t> g_recorded{0};
std::atomic<uint64_t> g_finished{0};

}  // namespace

void advance_position() noexcept { g_recorded.fetch_add(1, std::memory_order_relaxed); }

uint64_t recorded_position() noexcept { return g_recorded.load(std::memory_order_relaxed); }

bool wait_for(uint64_t position) {
  if (g_finished.load(std::memory_order_acquire) >= position) return true;
  const uint64_t reached = recorded_position();
  synchronize();
  uint64_t seen = g_finished.load(std::memory_order_relaxed);
  while (seen < reached &&
         !g_finished.compare_exchange_weak(seen, reached, std::memory_order_release)) {
  }
  return true;
}

}  // namespace torchacc
