// Small collectives, several of them in one message: their cost is latency, not bytes. Sums are
// computed here, in the order of the ranks, so their bits depend neither on the grouping nor on the
// way they are sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dist/carrier.h"

namespace torchacc {

// A collective on contiguous host tensors.
struct HostCollective {
  uint32_t kind;  // TORCHACC_COLLECTIVE_*
  at::IntArrayRef how;
  at::Tensor input, output;
};

class Messages {
 public:
  // Whether a collective of this many bytes goes by message; every rank gets the same answer.
  static bool takes(uint32_t kind, int64_t bytes, int ranks);
  // Number of leading `calls` that fit one message.
  static size_t room(at::ArrayRef<HostCollective> calls, int ranks);

  // Number of collectives in the next message. It is the same on every rank: in the last message
  // each told how many it had ready.
  uint64_t agreed() const { return agreed_; }

  // Performs the collectives. `ready`: number of collectives that this rank could do in the next
  // message.
  void exchange(Carrier& by, at::ArrayRef<HostCollective> calls, uint64_t ready);

 private:
  // Sends everything to all ranks.
  void gather_all(Carrier& by, at::ArrayRef<HostCollective> calls, uint64_t ready);
  // `scatter` sends each rank its part of the tensors to be reduced or exchanged; `gather` then
  // sends all ranks the gathered tensors, and the sums of `scatter`, which are in `reduced_`.
  void scatter(Carrier& by, at::ArrayRef<HostCollective> calls, uint64_t ready);
  void gather(Carrier& by, at::ArrayRef<HostCollective> calls, uint64_t ready, bool is_first);
  // Reads the headers of all ranks.
  void read_ready(const char* from, int64_t stride, int ranks);

  uint64_t agreed_ = 1;
  // Kept from message to message.
  at::Tensor from_, to_, reduced_;
};

}  // namespace torchacc
