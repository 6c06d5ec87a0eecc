#include "dist/last_words.h"

#include <torchacc.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "record/location.h"

namespace torchacc {
namespace {

using std::chrono::milliseconds;
using Store = c10::intrusive_ptr<c10d::Store>;

// Ranks that disagree fail at one time, those that wait for another one after the same timeout.
constexpr milliseconds kPatience{500};
constexpr milliseconds kPause{10};
// The store's rank may be stopped, and does not answer then.
constexpr milliseconds kLimit{1000};

std::string key_of(int rank) { return "acc/failed/" + std::to_string(rank); }

std::string text_of(const Doing& doing, uint64_t site) {
  const std::string line = site_line(site);
  return c10::str(doing.kind, " of ", doing.elements, " elements of type ", doing.type,
                  ", collective ", doing.number, " of the group",
                  line.empty() ? "" : ", recorded at ", line);
}

std::string exchanged(const Store& store, int rank, int size, const std::string& text) {
  std::vector<std::string> keys;
  for (int each = 0; each < size; ++each) keys.push_back(key_of(each));
  store->set(keys[rank], text);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!store->check(keys) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kPause);
  std::string said;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    const bool is_there = store->check({keys[other]});
    said += c10::str("\n  rank ", other, is_there ? " gave up " : " has given up nothing yet",
                     is_there ? store->get_to_str(keys[other]) : "");
  }
  return said;
}

}  // namespace

std::string LastWords::exchange(const Doing& doing) noexcept {
  try {
    // On a thread that may stay behind: neither the store nor the interpreter, which knows the
    // line, need ever answer.
    auto answer = std::make_shared<std::promise<std::string>>();
    auto said = answer->get_future();
    const uint64_t site = torchacc_running_site();
    std::thread([=, store = store_, rank = rank_, size = size_] {
      try {
        answer->set_value(exchanged(store, rank, size, text_of(doing, site)));
      } catch (...) {  // the rank that keeps the store is gone
        answer->set_value({});
      }
    }).detach();
    return said.wait_for(kLimit) == std::future_status::ready ? said.get() : std::string();
  } catch (...) {  // no memory, or no thread: the message lacks it
    return {};
  }
}

}  // namespace torchacc
