#include "dist/agreement.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/hash.h>

#include <array>
#include <cstring>
#include <vector>

namespace torchacc {
namespace {

constexpr uint64_t kFirst = 64;
constexpr uint64_t kEvery = 64;
// Bytes since the last comparison: moving them takes many times as long as comparing.
constexpr uint64_t kBytes = 1 << 20;

// A collective in a form that can be sent.
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

void Agreement::check(c10d::Backend& backend, const char* kind, at::ScalarType type,
                      int64_t elements, int64_t how) {
  Description mine{};
  mine.type = static_cast<int64_t>(type);
  mine.count = elements;
  mine.how = how;
  std::strncpy(mine.kind.data(), kind, mine.kind.size() - 1);
  mine.history = history_ = mixed(history_, mine);
  const uint64_t number = count_++;
  // By what was before: of this one ranks may think differently.
  const bool is_due = number < kFirst || number % kEvery == 0 || bytes_ >= kBytes;
  bytes_ = (is_due ? 0 : bytes_) + elements * c10::elementSize(type);
  if (!is_due) return;

  std::vector<Description> all(backend.getSize());
  at::Tensor from = bytes_of(&mine, sizeof mine);
  at::Tensor to = bytes_of(all.data(), all.size() * sizeof mine);
  backend._allgather_base(to, from, {})->wait();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Description& other = all[rank];
    if (other.history == mine.history) continue;
    const bool is_this = other.text() != mine.text();
    TORCH_CHECK(false, "the ranks of the group do not do the same: collective ", number, " is ",
                mine.text(), " on rank ", backend.getRank(),
                is_this ? c10::str(", but ", other.text(), " on rank ", rank)
                        : c10::str(", as on rank ", rank, ", but one of those before differs"),
                ". All ranks must call the same collectives in the same order");
  }
}

}  // namespace torchacc
