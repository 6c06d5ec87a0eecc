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
  // Whether what has so many bytes here goes by message: on every rank or on none.
  static bool takes(uint32_t kind, int64_t bytes, int ranks);
  // How many of these, the first ones, one message has room for.
  static size_t room(at::ArrayRef<HostCall> calls, int ranks);

  // How many collectives the next message has: as many on every rank, since by the last message
  // each said how many it had ready.
  uint64_t agreed() const { return agreed_; }

  // Does them. `ready`: how many this rank could do as the message after it.
  void exchange(Carrier& by, at::ArrayRef<HostCall> calls, uint64_t ready);

 private:
  // Everything to everybody.
  void gather_all(Carrier& by, at::ArrayRef<HostCall> calls, uint64_t ready);
  // To each rank its part of what is reduced or exchanged; then what is gathered to everybody, with
  // the sums of the first, which are in `reduced_`.
  void scatter(Carrier& by, at::ArrayRef<HostCall> calls, uint64_t ready);
  void gather(Carrier& by, at::ArrayRef<HostCall> calls, uint64_t ready, bool is_first);
  // From the first bytes of what each rank sent.
  void read_ready(const char* from, int64_t stride, int ranks);

  uint64_t agreed_ = 1;
  // Kept from one message to the next.
  at::Tensor from_, to_, reduced_;
};

}  // namespace torchacc
