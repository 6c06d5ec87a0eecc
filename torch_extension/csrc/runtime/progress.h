// Positions in the stream of recorded operations, for events.
#pragma once

#include <cstdint>

namespace torchacc {

// The current position; 0 while the device is unused.
uint64_t recorded_position();

// Whether everything recorded before `position` is done. Does not wait, but makes sure that it will
// get done.
bool has_reached(uint64_t position);

// Waits until `has_reached(position)`; raises errors that were not reported yet.
void wait_for(uint64_t position);

// Nanoseconds for which the device has worked: in programs, and in operators that ran at once on
// the host.
uint64_t busy_ns();

}  // namespace torchacc
