#include "runtime/pinned.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace torchacc {
namespace {

struct Ranges {
  std::mutex mutex;
  std::map<uintptr_t, size_t> sizes;
};

Ranges& ranges() {
  static auto* instance = new Ranges();
  return *instance;
}

void free_pinned(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(ranges().mutex);
    ranges().sizes.erase(reinterpret_cast<uintptr_t>(pointer));
  }
  std::free(pointer);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t nbytes) override {
    constexpr size_t kAlignment = 64;
    const size_t size =
        (nbytes + kAlignment) / kAlignment * kAlignment;  // never zero: the pointer is the key
    void* pointer = std::aligned_alloc(kAlignment, size);
    TORCH_CHECK_WITH(OutOfMemoryError, pointer != nullptr, "acc: cannot allocate ", nbytes,
                     " bytes of pinned memory");
    std::lock_guard<std::mutex> lock(ranges().mutex);
    ranges().sizes.emplace(reinterpret_cast<uintptr_t>(pointer), size);
    return {pointer, pointer, &free_pinned, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, std::size_t nbytes) const override {
    std::memcpy(to, from, nbytes);
  }
};

}  // namespace

c10::Allocator& pinned_allocator() {
  static auto* instance = new PinnedAllocator();
  return *instance;
}

bool is_pinned(const void* pointer) {
  // `torch.empty(pin_memory=True)` uses CUDA's allocator if there is CUDA.
  if (at::globalContext().hasCUDA() && at::detail::getCUDAHooks().isPinnedPtr(pointer)) return true;
  std::lock_guard<std::mutex> lock(ranges().mutex);
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto after = ranges().sizes.upper_bound(address);
  if (after == ranges().sizes.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return address < start + size;
}

}  // namespace torchacc
