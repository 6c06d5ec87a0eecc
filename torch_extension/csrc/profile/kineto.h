// The device's part of torch.profiler.
#pragma once

#include <torchacc.h>

namespace torchacc {

// Must be called with the context as soon as it exists: a profile that began earlier then starts
// recording it.
void follow_profile(torchacc_context* context);

}  // namespace torchacc
