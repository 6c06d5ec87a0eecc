// Positions in the stream of recorded operations, for events.
#pragma once

#include <cstdint>

namespace torchacc {

// Counts one recorded operation.
void advance_position() noexcept;
uint64_t recorded_position() noexcept;

// Waits until everything recorded before `position` is done; returns true. Work that nobody has cut
// would never finish by itself, so a query has to hand it over and wait rather than answer "not
// yet" for ever.
bool wait_for(uint64_t position);

}  // namespace torchacc
