// Makes recorded collectives run even if their program turns to something else: another rank waits
// for them, perhaps the one that this program is waiting for.
#pragma once

namespace torchacc {

// Called when a collective was recorded. If it is still in the trace when nothing has been recorded
// for a while, the trace is cut, on a separate thread that the first call starts.
void keep_pace();

}  // namespace torchacc
