// The device's part of torch.profiler.
#pragma once

#include <torchacc.h>

namespace torchacc {

// To be called with the context as soon as there is one: a profile that began before notes what it
// does from now on.
void follow_profile(torchacc_context* context);

}  // namespace torchacc
