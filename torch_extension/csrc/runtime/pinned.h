// Page-locked host memory as PyTorch sees it. The host backends read any memory, so "pinned" only
// has to be consistent: memory from this allocator, and from CUDA's if there is one, is reported as
// pinned, all other memory is not.
#pragma once

#include <c10/core/Allocator.h>

namespace torchacc {

c10::Allocator& pinned_allocator();
bool is_pinned(const void* pointer);

}  // namespace torchacc
