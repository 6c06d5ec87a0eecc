// Small collectives, several as one message: what each costs is latency, not its bytes. Sums are
// made here, in the order of the ranks, so their bits depend neither on what goes together nor on
// how it goes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dist/carrier.h"

namespace torchacc {

// A collective on the host's tensors, which are contiguous.
struct HostCall {
  uint32_t kind;  // TORCHACC_COLLECTIVE_*
  at::IntArrayRef how;
  at::Tensor input, output;
};

class Messages {
 public:
  Messages();

  // Whether it goes by message: by its kind and size alone, so on every rank or on none.
  static bool takes(const HostCall& call, int ranks);

  // How many of those that wait on this rank, the first ones, are the next message: as many on every
  // rank, since by the last message each said how many it had ready.
  size_t due(at::ArrayRef<HostCall> waiting, int ranks) const;

  // Does them. `ready`: how many this rank could do as the message after it.
  void exchange(Carrier& by, at::ArrayRef<HostCall> calls, uint64_t ready);

 private:
  // Everything to everybody.
  void gather_all(Carrier& by, at::ArrayRef<HostCall> calls, uint64_t ready);
  // To each rank its part of what is reduced or exchanged, and what is gathered to everybody.
  void scatter(Carrier& by, at::ArrayRef<HostCall> calls, uint64_t ready);
  void gather(Carrier& by, at::ArrayRef<HostCall> calls, uint64_t ready, bool is_first);
  // From the first bytes of what each rank sent.
  void read_ready(const char* from, int64_t stride, int ranks);

  const bool merges_;
  uint64_t agreed_ = 1;
  // Kept from one message to the next.
  at::Tensor from_, to_, reduced_;
};

}  // namespace torchacc
