#include "runtime/address_space.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>

#include "runtime/allocator.h"

namespace torchacc {
namespace {

constexpr size_t kUnit = 512;  // the alignment PyTorch's device allocators give
constexpr size_t kReservation = size_t{1} << 44;
constexpr size_t kSmallestReservation = size_t{1} << 36;

struct SizeClass {
  size_t index;
  size_t nbytes;
};

int floor_log2(size_t value) { return 63 - __builtin_clzll(value); }

SizeClass size_class(size_t nbytes) {
  size_t units = std::max<size_t>(1, (nbytes + kUnit - 1) / kUnit);
  if (const int log = floor_log2(units); log > 2) {
    const size_t step = size_t{1} << (log - 2);
    units = (units + step - 1) & ~(step - 1);
  }
  const int log = floor_log2(units);
  const size_t index = log < 2 ? units - 1 : (log - 2) * 4 + (units >> (log - 2)) - 1;
  return {index, units * kUnit};
}

}  // namespace

void AddressSpace::reserve() {
  // Containers may limit address space, so ask for less until the kernel agrees.
  for (size_t size = kReservation; size >= kSmallestReservation; size /= 2) {
    void* base = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED) {
      next_ = reinterpret_cast<uintptr_t>(base);
      end_ = next_ + size;
      return;
    }
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, "acc: cannot reserve ", kSmallestReservation,
                   " bytes of address space (see ulimit -v)");
}

AddressRange* AddressSpace::take(size_t nbytes, DeviceBuffer* owner) {
  if (end_ == 0) reserve();
  const SizeClass wanted = size_class(nbytes);
  AddressRange* range = nullptr;
  if (auto& list = free_[wanted.index]; !list.empty()) {
    range = list.back();
    list.pop_back();
  } else {
    TORCH_CHECK_WITH(OutOfMemoryError, wanted.nbytes <= end_ - next_,
                     "acc: address space exhausted while allocating ", nbytes, " bytes");
    range =
        &ranges_.emplace_back(AddressRange{next_, static_cast<uint32_t>(wanted.index), nullptr});
    next_ += wanted.nbytes;
  }
  range->owner = owner;
  return range;
}

void AddressSpace::give_back(AddressRange* range) {
  range->owner = nullptr;
  free_[range->size_class].push_back(range);
}

DeviceBuffer* AddressSpace::owner_of(uintptr_t address) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), address,
      [](uintptr_t wanted, const AddressRange& range) { return wanted < range.address; });
  if (after == ranges_.begin()) return nullptr;
  const AddressRange& range = *std::prev(after);
  if (range.owner == nullptr) return nullptr;
  return address < range.address + range.owner->nbytes ? range.owner : nullptr;
}

}  // namespace torchacc
