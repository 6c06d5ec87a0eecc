// Moments in the stream of recorded operations, for events.
#pragma once

#include <cstdint>

namespace torchacc {

// This moment; 0 while the device is unused.
uint64_t recorded_position();

// Whether everything recorded before `position` is done. Does not wait, but sees to it that it gets
// done.
bool has_reached(uint64_t position);

// Waits until it is; raises the errors that were not reported yet.
void wait_for(uint64_t position);

// Nanoseconds for which the device has worked: in programs, and in operators that ran at once on
// the host.
uint64_t busy_ns();

}  // namespace torchacc
