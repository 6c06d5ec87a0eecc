#include "dist/last_words.h"

#include <cxxabi.h>
#include <torchacc.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "record/location.h"

namespace torchacc {
namespace {

using std::chrono::milliseconds;
using Store = c10::intrusive_ptr<c10d::Store>;

// For finding the line that recorded the collective, which the interpreter knows.
constexpr milliseconds kForLine{1000};
// For the other ranks. Ranks that disagree fail at the same time, those that wait for another one
// after the same timeout; on a busy machine some are a second behind.
constexpr milliseconds kForOthers{3000};
// For the whole exchange.
constexpr milliseconds kLimit{5000};
constexpr milliseconds kFirstPause{5}, kLongestPause{100};
// Most ranks that a message quotes.
constexpr size_t kQuoted = 16;

// Store keys: the number of ranks that have reported, and the report of each.
const char* const kCount = "acc/failed/count";
std::string key_of(int rank) { return "acc/failed/" + std::to_string(rank); }

// The result of `work`, on a thread that may be left behind: neither the rank of the store, which
// may be stopped, nor the interpreter need ever answer. Empty after `limit`, or if `work` throws.
template <class Work>
std::string within(milliseconds limit, Work work) {
  auto answer = std::make_shared<std::promise<std::string>>();
  auto given = answer->get_future();
  std::thread([answer, work = std::move(work)] {
    try {
      answer->set_value(work());
    } catch (const abi::__forced_unwind&) {  // the interpreter ends threads that want it
      throw;
    } catch (...) {
      answer->set_value({});
    }
  }).detach();
  return given.wait_for(limit) == std::future_status::ready ? given.get() : std::string();
}

std::string text_of(const Doing& doing, const std::string& line) {
  std::string text = c10::str(doing.kind, " of ", doing.elements, " elements of type ", doing.type);
  if (doing.number.has_value()) text += c10::str(", collective ", *doing.number, " of the group");
  return line.empty() ? text : text + ", recorded at " + line;
}

// Appends the ranks from `begin` to `end` that have reported. Takes few queries if all or nearly
// all have.
void add_heard(const Store& store, int begin, int end, std::vector<int>& heard) {
  std::vector<std::string> keys;
  for (int rank = begin; rank < end; ++rank) keys.push_back(key_of(rank));
  if (store->check(keys)) {
    for (int rank = begin; rank < end; ++rank) heard.push_back(rank);
  } else if (end - begin > 1) {
    const int middle = begin + (end - begin) / 2;
    add_heard(store, begin, middle, heard);
    add_heard(store, middle, end, heard);
  }
}

// The reports in time, by rank; empty for the other ranks. Waiting polls one key, however many
// ranks there are.
std::vector<std::string> said(const Store& store, int size) {
  const auto until = std::chrono::steady_clock::now() + kForOthers;
  milliseconds pause = kFirstPause;
  while (store->add(kCount, 0) < size && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  std::vector<int> heard;
  add_heard(store, 0, size, heard);
  std::vector<std::string> texts(size);
  for (const int rank : heard) texts[rank] = store->get_to_str(key_of(rank));
  return texts;
}

std::string message_of(const std::vector<std::string>& texts, int rank) {
  std::string message, silent;
  size_t quoted = 0, others = 0;
  // Ranks that did something else come first.
  for (const bool same : {false, true}) {
    for (size_t other = 0; other < texts.size(); ++other) {
      if (static_cast<int>(other) == rank || texts[other].empty()) continue;
      if ((texts[other] == texts[rank]) != same) continue;
      if (++quoted > kQuoted) {
        ++others;
      } else {
        message += c10::str("\n  rank ", other, " gave up ", texts[other]);
      }
    }
  }
  if (others > 0) message += c10::str("\n  ", others, " more gave up");
  for (size_t other = 0; other < texts.size(); ++other) {
    if (texts[other].empty()) silent += c10::str(silent.empty() ? "" : ", ", other);
  }
  return silent.empty() ? message : message + "\n  nothing was heard from rank " + silent;
}

}  // namespace

LastWords::LastWords(Store store, int rank, int size)
    : store_(std::move(store)), rank_(rank), size_(size) {
  // Removes the reports that an earlier group of this name left. Rank 0 does so: nothing fails
  // before, as everything that might needs this rank.
  if (rank != 0) return;
  try {
    if (!store_->check({kCount})) return;
    store_->deleteKey(kCount);
    for (int other = 0; other < size; ++other) store_->deleteKey(key_of(other));
  } catch (const std::exception&) {  // a store that cannot delete
  }
}

void LastWords::check_usable() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.empty())
    C10_THROW_ERROR(DistBackendError, "the group failed before, and is of no use: " + failure_);
}

void LastWords::fail(const std::string& failure, const Doing& doing) {
  // Of lanes that fail at once, one is the first.
  const bool is_first = [&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool is_free = failure_.empty();
    if (is_free) failure_ = failure;
    return is_free;
  }();
  if (!is_first) check_usable();
  C10_THROW_ERROR(DistBackendError, failure + exchange(doing));
}

std::string LastWords::exchange(const Doing& doing) noexcept {
  try {
    const uint64_t site = torchacc_running_site();
    return within(kLimit, [=, store = store_, rank = rank_, size = size_] {
      const std::string line = within(kForLine, [site] { return site_line(site); });
      store->set(key_of(rank), text_of(doing, line));
      store->add(kCount, 1);
      return message_of(said(store, size), rank);
    });
  } catch (...) {  // without memory or a thread, the message lacks the reports
    return {};
  }
}

}  // namespace torchacc
