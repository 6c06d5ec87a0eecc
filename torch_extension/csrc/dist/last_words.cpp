#include "dist/last_words.h"

#include <torchacc.h>

#include <chrono>
#include <thread>
#include <vector>

#include "record/location.h"

namespace torchacc {
namespace {

// Ranks that disagree fail at one time, those that wait for another one after the same timeout.
constexpr std::chrono::milliseconds kPatience{500};
constexpr std::chrono::milliseconds kPause{10};

std::string key_of(int rank) { return "acc/failed/" + std::to_string(rank); }

std::string text_of(const Doing& doing) {
  const std::string line = site_line(torchacc_running_site());
  return c10::str(doing.kind, " of ", doing.elements, " elements of type ", doing.type,
                  ", collective ", doing.number, " of the group",
                  line.empty() ? "" : ", recorded at ", line);
}

}  // namespace

std::string LastWords::exchange(const Doing& doing) noexcept {
  try {
    store_->set(key_of(rank_), text_of(doing));
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) keys.push_back(key_of(rank));
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!store_->check(keys) && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(kPause);
    std::string text;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      const bool is_there = store_->check({key_of(rank)});
      text += c10::str("\n  rank ", rank, is_there ? " gave up " : " has given up nothing yet",
                       is_there ? store_->get_to_str(key_of(rank)) : "");
    }
    return text;
  } catch (...) {  // the rank that keeps the store is gone
    return {};
  }
}

}  // namespace torchacc
