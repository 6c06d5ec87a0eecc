// Whether the program records: for who must not disturb it.
#pragma once

#include <cstdint>

namespace torchacc {

// Changes with every operation that is recorded. Threads that record at once may count as one.
uint64_t recorder_activity() noexcept;

}  // namespace torchacc
