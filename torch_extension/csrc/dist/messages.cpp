#include "dist/messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torchacc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace torchacc {
namespace {

// Larger collectives go alone: their bytes cost more than their latency, and a backend's own ring
// may be faster.
constexpr int64_t kLargest = 256 << 10;
// Most bytes of a message from each rank. A wait for its first collective is one for all of it.
constexpr int64_t kMessage = 1 << 20;
// Most bytes that a rank receives if all data goes to all ranks, which takes half as many messages.
constexpr int64_t kGathered = 512 << 10;
// Alignment of the parts of a message, enough for elements of any type.
constexpr int64_t kAlign = 16;

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// A header holds the number of collectives that the rank has ready.
constexpr int64_t kHeader = kAlign;

bool reduces_everywhere(const HostCollective& call) {
  return call.kind == TORCHACC_COLLECTIVE_ALL_REDUCE;
}
bool is_gathered(const HostCollective& call) { return call.kind == TORCHACC_COLLECTIVE_ALL_GATHER; }
bool is_scattered(const HostCollective& call) { return !is_gathered(call); }

int64_t bytes_of(const HostCollective& call) { return static_cast<int64_t>(call.input.nbytes()); }

// Elements that one rank computes at most: the last ranks have fewer of an all_reduce, or none.
int64_t part_elements(const HostCollective& call, int ranks) {
  return (call.input.numel() + ranks - 1) / ranks;
}

int64_t part_bytes(const HostCollective& call, int ranks) {
  return part_elements(call, ranks) * static_cast<int64_t>(call.input.element_size());
}

// The first element of rank `rank`'s part, and the number of its elements.
std::pair<int64_t, int64_t> part_of(const HostCollective& call, int rank, int ranks) {
  const int64_t each = part_elements(call, ranks), all = call.input.numel();
  const int64_t first = std::min(rank * each, all);
  return {first, std::min(each, all - first)};
}

char* bytes_at(const at::Tensor& tensor, int64_t element) {
  return static_cast<char*>(tensor.data_ptr()) +
         element * static_cast<int64_t>(tensor.element_size());
}

void copy(char* to, const char* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// The first bytes of `memory`, which grows if it is too small.
at::Tensor bytes_in(at::Tensor& memory, int64_t bytes) {
  if (!memory.defined() || memory.numel() < bytes) {
    memory = at::empty({bytes}, at::TensorOptions().dtype(at::kByte));
  }
  return memory.narrow(0, 0, bytes);
}

char* start_of(const at::Tensor& memory) { return static_cast<char*>(memory.data_ptr()); }

// Reduces the elements that each rank sent, `stride` bytes apart.
void reduce_to(char* to, const HostCollective& call, const char* from, int64_t stride, int ranks,
               int64_t count) {
  if (count == 0) return;
  const auto tensor_at = [&](const char* data) {
    return at::for_blob(const_cast<char*>(data), {count})
        .options(call.input.options())
        .make_tensor();
  };
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back(tensor_at(from + rank * stride));
  reduce_in_order(call.how[0], parts, tensor_at(to));
}

}  // namespace

bool Messages::takes(uint32_t kind, int64_t bytes, int ranks) {
  switch (kind) {
    case TORCHACC_COLLECTIVE_ALL_GATHER:
      return bytes * ranks <= kLargest;
    case TORCHACC_COLLECTIVE_ALL_REDUCE:
    case TORCHACC_COLLECTIVE_REDUCE_SCATTER:
    case TORCHACC_COLLECTIVE_ALL_TO_ALL:
      return bytes <= kLargest;
    default:
      return false;
  }
}

size_t Messages::room(at::ArrayRef<HostCollective> calls, int ranks) {
  size_t count = 0;
  for (int64_t bytes = 0; count < calls.size(); ++count) {
    bytes += bytes_of(calls[count]) * (is_gathered(calls[count]) ? ranks : 1);
    if (bytes > kMessage) break;
  }
  return count;
}

void Messages::exchange(Carrier& by, at::ArrayRef<HostCollective> calls, uint64_t ready) {
  static const bool merges = [] {
    const char* asked = std::getenv("TORCHACC_MERGE");
    return asked == nullptr || std::string_view(asked) != "0";
  }();
  if (!merges) ready = 0;
  bool scatters = false, gathers = false;
  int64_t bytes = kHeader;
  for (const HostCollective& call : calls) {
    scatters |= is_scattered(call);
    gathers |= is_gathered(call) || reduces_everywhere(call);
    bytes += aligned(bytes_of(call));
  }
  if (scatters && gathers && bytes * by.size() <= kGathered) return gather_all(by, calls, ready);
  if (scatters) scatter(by, calls, ready);
  if (gathers) gather(by, calls, ready, !scatters);
}

void Messages::gather_all(Carrier& by, at::ArrayRef<HostCollective> calls, uint64_t ready) {
  const int ranks = by.size();
  int64_t stride = kHeader;
  for (const HostCollective& call : calls) stride += aligned(bytes_of(call));
  at::Tensor from = bytes_in(from_, stride), to = bytes_in(to_, stride * ranks);
  copy(start_of(from), reinterpret_cast<const char*>(&ready), sizeof ready);
  int64_t at = kHeader;
  for (const HostCollective& call : calls) {
    copy(start_of(from) + at, bytes_at(call.input, 0), bytes_of(call));
    at += aligned(bytes_of(call));
  }
  by.all_gather(from, to);
  read_ready(start_of(to), stride, ranks);
  at = kHeader;
  for (const HostCollective& call : calls) {
    const char* theirs = start_of(to) + at;
    at += aligned(bytes_of(call));
    const auto [first, count] = part_of(call, by.rank(), ranks);
    const int64_t offset = first * static_cast<int64_t>(call.input.element_size());
    switch (call.kind) {
      case TORCHACC_COLLECTIVE_ALL_REDUCE:
        reduce_to(bytes_at(call.output, 0), call, theirs, stride, ranks, call.input.numel());
        break;
      case TORCHACC_COLLECTIVE_REDUCE_SCATTER:
        reduce_to(bytes_at(call.output, 0), call, theirs + offset, stride, ranks, count);
        break;
      case TORCHACC_COLLECTIVE_ALL_TO_ALL:
        for (int rank = 0; rank < ranks; ++rank) {
          copy(bytes_at(call.output, rank * count), theirs + rank * stride + offset,
               part_bytes(call, ranks));
        }
        break;
      default:
        for (int rank = 0; rank < ranks; ++rank) {
          copy(bytes_at(call.output, rank * call.input.numel()), theirs + rank * stride,
               bytes_of(call));
        }
    }
  }
}

void Messages::scatter(Carrier& by, at::ArrayRef<HostCollective> calls, uint64_t ready) {
  const int ranks = by.size();
  int64_t stride = kHeader, reduced = 0;
  for (const HostCollective& call : calls) {
    if (is_scattered(call)) stride += aligned(part_bytes(call, ranks));
    if (reduces_everywhere(call)) reduced += aligned(part_bytes(call, ranks));
  }
  at::Tensor from = bytes_in(from_, stride * ranks), to = bytes_in(to_, stride * ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    char* theirs = start_of(from) + rank * stride;
    copy(theirs, reinterpret_cast<const char*>(&ready), sizeof ready);
    theirs += kHeader;
    for (const HostCollective& call : calls) {
      if (!is_scattered(call)) continue;
      const auto [first, count] = part_of(call, rank, ranks);
      copy(theirs, bytes_at(call.input, first),
           count * static_cast<int64_t>(call.input.element_size()));
      theirs += aligned(part_bytes(call, ranks));
    }
  }
  by.exchange({}, {}, from, to);
  read_ready(start_of(to), stride, ranks);
  const char* theirs = start_of(to) + kHeader;
  char* part = start_of(bytes_in(reduced_, reduced));
  for (const HostCollective& call : calls) {
    if (!is_scattered(call)) continue;
    const int64_t count = part_of(call, by.rank(), ranks).second;
    if (reduces_everywhere(call)) {
      reduce_to(part, call, theirs, stride, ranks, count);
      part += aligned(part_bytes(call, ranks));
    } else if (call.kind == TORCHACC_COLLECTIVE_REDUCE_SCATTER) {
      reduce_to(bytes_at(call.output, 0), call, theirs, stride, ranks, count);
    } else {
      for (int rank = 0; rank < ranks; ++rank) {
        copy(bytes_at(call.output, rank * count), theirs + rank * stride, part_bytes(call, ranks));
      }
    }
    theirs += aligned(part_bytes(call, ranks));
  }
}

void Messages::gather(Carrier& by, at::ArrayRef<HostCollective> calls, uint64_t ready,
                      bool is_first) {
  const int ranks = by.size();
  const auto bytes_from_each = [&](const HostCollective& call) {
    if (reduces_everywhere(call)) return part_bytes(call, ranks);
    return is_gathered(call) ? bytes_of(call) : int64_t{0};
  };
  int64_t stride = kHeader;
  for (const HostCollective& call : calls) stride += aligned(bytes_from_each(call));
  at::Tensor from = bytes_in(from_, stride), to = bytes_in(to_, stride * ranks);
  copy(start_of(from), reinterpret_cast<const char*>(&ready), sizeof ready);
  int64_t at = kHeader;
  const char* part = reduced_.defined() ? start_of(reduced_) : nullptr;
  for (const HostCollective& call : calls) {
    const int64_t bytes = bytes_from_each(call);
    copy(start_of(from) + at, reduces_everywhere(call) ? part : bytes_at(call.input, 0), bytes);
    if (reduces_everywhere(call)) part += aligned(bytes);
    at += aligned(bytes);
  }
  by.all_gather(from, to);
  if (is_first) read_ready(start_of(to), stride, ranks);
  const char* theirs = start_of(to) + kHeader;
  for (const HostCollective& call : calls) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (reduces_everywhere(call)) {
        const auto [first, count] = part_of(call, rank, ranks);
        copy(bytes_at(call.output, first), theirs + rank * stride,
             count * static_cast<int64_t>(call.input.element_size()));
      } else if (is_gathered(call)) {
        copy(bytes_at(call.output, rank * call.input.numel()), theirs + rank * stride,
             bytes_of(call));
      }
    }
    theirs += aligned(bytes_from_each(call));
  }
}

void Messages::read_ready(const char* from, int64_t stride, int ranks) {
  agreed_ = UINT64_MAX;
  for (int rank = 0; rank < ranks; ++rank) {
    uint64_t ready = 0;
    std::memcpy(&ready, from + rank * stride, sizeof ready);
    agreed_ = std::min(agreed_, ready);
  }
  agreed_ = std::max<uint64_t>(agreed_, 1);
}

}  // namespace torchacc
