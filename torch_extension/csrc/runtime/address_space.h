// Virtual addresses for device storages.
//
// PyTorch identifies a storage by its address: FSDP and serialization compare and sort addresses,
// and the legacy pickle path rebuilds a storage from nothing but one. So each storage gets a range
// of its own out of a reservation that is never backed by memory: distinct ranges never overlap,
// interior pointers lead back to their owner, and host code that dereferences one faults at once
// instead of reading garbage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace torchacc {

struct DeviceBuffer;

// A range of addresses, used by one storage after another.
struct AddressRange {
  uintptr_t address;
  uint32_t size_class;
  DeviceBuffer* owner;  // null while unused
};

// Segregated free lists, four size classes per power of two: constant time, at most 25 % of address
// space lost to rounding, and addresses are reused so that the reservation never runs out in a long
// run. Not synchronized: the allocator's lock covers it.
class AddressSpace {
 public:
  AddressRange* take(size_t nbytes, DeviceBuffer* owner);
  void give_back(AddressRange* range);
  // Owner of the range that contains `address`, or null.
  DeviceBuffer* owner_of(uintptr_t address) const;

 private:
  void reserve();

  static constexpr size_t kClasses = 4 * 64;
  uintptr_t next_ = 0;
  uintptr_t end_ = 0;
  std::array<std::vector<AddressRange*>, kClasses> free_;
  // Sorted by address, because the reservation is cut from its beginning on; ranges never move or
  // vanish.
  std::deque<AddressRange> ranges_;
};

}  // namespace torchacc
