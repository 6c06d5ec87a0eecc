// Sees to it that recorded collectives run though their program goes on to something else: another
// rank waits for them, maybe the one that this program is waiting for.
#pragma once

namespace torchacc {

// A collective was recorded. If it is still in the trace when nothing has been recorded for a
// while, the trace is cut, on a thread of its own from the first call on.
void keep_pace();

}  // namespace torchacc
