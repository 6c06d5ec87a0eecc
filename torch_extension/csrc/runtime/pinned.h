// Page-locked host memory as PyTorch sees it. The host backends read any memory, so "pinned" only
// has to be consistent: memory from this allocator, and from CUDA's where there is one, says it is
// pinned, all other memory says it is not.
#pragma once

#include <c10/core/Allocator.h>

namespace torchacc {

c10::Allocator& pinned_allocator();
bool is_pinned(const void* pointer);

}  // namespace torchacc
