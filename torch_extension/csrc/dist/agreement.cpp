#include "dist/agreement.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/hash.h>

#include <array>
#include <cstring>
#include <vector>

#include "dist/carrier.h"

namespace torchacc {
namespace {

constexpr uint64_t kFirst = 64;
constexpr uint64_t kEvery = 64;
// Bytes since the last comparison from which the next one is due: moving them takes many times as
// long as comparing.
constexpr uint64_t kBytes = 1 << 20;

// A collective in a form that can be sent to other ranks.
struct Description {
  uint64_t history;
  int64_t type;
  int64_t count;
  int64_t how;
  std::array<char, 32> kind;

  std::string text() const {
    return c10::str(kind.data(), " (", how, ") of ", count, " elements of type ",
                    static_cast<at::ScalarType>(type));
  }
};

uint64_t mixed(uint64_t history, const Description& one) {
  return c10::get_hash(history, one.type, one.count, one.how, std::string(one.kind.data()));
}

at::Tensor bytes_of(void* data, size_t size) {
  return at::for_blob(data, {static_cast<int64_t>(size)}).options(at::kByte).make_tensor();
}

}  // namespace

std::optional<Difference> Agreement::check(c10d::Backend& backend, at::ArrayRef<Alike> calls) {
  const uint64_t first = count_;
  std::vector<Description> mine(calls.size());
  bool is_due = false;
  for (size_t index = 0; index < calls.size(); ++index) {
    Description& one = mine[index];
    one.type = static_cast<int64_t>(calls[index].type);
    one.count = calls[index].elements;
    one.how = calls[index].how;
    std::strncpy(one.kind.data(), calls[index].kind, one.kind.size() - 1);
    one.history = history_ = mixed(history_, one);
    // Depends on earlier collectives only: ranks may disagree about this one.
    const bool is_this_due = count_ < kFirst || count_ % kEvery == 0 || bytes_ >= kBytes;
    bytes_ = (is_this_due ? 0 : bytes_) + one.count * c10::elementSize(calls[index].type);
    is_due |= is_this_due;
    ++count_;
  }
  if (!is_due) return std::nullopt;

  const size_t size = mine.size() * sizeof(Description);
  std::vector<Description> all(backend.getSize() * mine.size());
  at::Tensor from = bytes_of(mine.data(), size);
  at::Tensor to = bytes_of(all.data(), backend.getSize() * size);
  perform(at::kCPU, [&] { return backend._allgather_base(to, from, {}); });
  for (size_t index = 0; index < mine.size(); ++index) {
    for (int rank = 0; rank < backend.getSize(); ++rank) {
      const Description& other = all[rank * mine.size() + index];
      if (other.history == mine[index].history) continue;
      const bool is_this = other.text() != mine[index].text();
      return Difference{
          index,
          c10::str("the ranks of the group do not do the same: collective ", first + index, " is ",
                   mine[index].text(), " on rank ", backend.getRank(),
                   is_this ? c10::str(", but ", other.text(), " on rank ", rank)
                           : c10::str(", as on rank ", rank, ", but one of those before differs"),
                   ". All ranks must call the same collectives in the same order")};
    }
  }
  return std::nullopt;
}

}  // namespace torchacc
