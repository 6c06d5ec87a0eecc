// CPU fallbacks: operators that run as ATen CPU kernels inside the program, on the launch thread.
#pragma once

#include "record/shape_cache.h"

namespace torchacc {

// The host operator for this call's structure; its attributes and scalars come with each call.
torchacc_op host_operator(const Call& call, const Shapes& shapes);

}  // namespace torchacc
