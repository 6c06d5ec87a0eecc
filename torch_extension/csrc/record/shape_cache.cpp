#include "record/shape_cache.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "record/layout.h"
#include "record/shape_rule.h"
#include "record/validate.h"

namespace torchacc {
namespace {

// A call's key and its shapes. The hash only finds an entry; equal words decide. A collision costs
// a miss.
struct Entry {
  std::vector<uint64_t> key;
  std::shared_ptr<const Shapes> shapes;

  bool matches(const KeyWords& other) const {
    return key.size() == other.size() && std::equal(key.begin(), key.end(), other.begin());
  }
};
using EntryPointer = std::shared_ptr<const Entry>;

// Bounded by two generations: when the young one is full, in entries or in words of their keys, it
// becomes the old one; entries that are not asked for while the next one fills up are dropped.
// Lookups of entries in use stay a single probe.
class ShapeCache {
 public:
  EntryPointer find(uint64_t hash, const KeyWords& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto found = young_.find(hash); found != young_.end() && found->second->matches(key)) {
      return found->second;
    }
    if (auto found = old_.find(hash); found != old_.end() && found->second->matches(key)) {
      EntryPointer entry = std::move(found->second);
      old_.erase(found);
      insert(hash, entry);
      return entry;
    }
    return nullptr;
  }

  void add(uint64_t hash, EntryPointer entry) {
    std::lock_guard<std::mutex> lock(mutex_);
    insert(hash, std::move(entry));
  }

 private:
  static constexpr size_t kGeneration = 16384;
  // Operators on long lists of tensors have long keys.
  static constexpr size_t kWords = size_t{4} << 20;

  void insert(uint64_t hash, EntryPointer entry) {
    if (young_.size() >= kGeneration || words_ >= kWords) {
      old_ = std::move(young_);
      young_ = {};
      words_ = 0;
    }
    words_ += entry->key.size();
    young_[hash] = std::move(entry);
  }

  std::mutex mutex_;
  size_t words_ = 0;
  ska::flat_hash_map<uint64_t, EntryPointer> young_;
  ska::flat_hash_map<uint64_t, EntryPointer> old_;
};

std::atomic<uint64_t> g_hits{0};
std::atomic<uint64_t> g_misses{0};

// Recent entries of this thread, at the index given by their hash, so that not every call takes the
// lock.
EntryPointer& recent(uint64_t hash) {
  constexpr size_t kRecent = 1024;
  static thread_local std::array<EntryPointer, kRecent> entries;
  return entries[hash % kRecent];
}

ShapeCache& cache() {
  static auto* instance = new ShapeCache();
  return *instance;
}

bool cacheable(const Call& call, const Shapes& shapes) {
  // Tensors that get another geometry, except out= arguments, may lie elsewhere next time, and so
  // may views.
  return std::all_of(shapes.resized.begin(), shapes.resized.end(),
                     [&call](const ResizedArgument& resized) {
                       return call.tensors()[resized.use].out && !resized.offset;
                     }) &&
         std::none_of(shapes.outputs.begin(), shapes.outputs.end(),
                      [](const auto& output) { return output.kind == OutputShape::Kind::View; });
}

}  // namespace

std::shared_ptr<const Shapes> infer_shapes(Call& call) {
  const uint64_t hash = hash_of(call.key());
  EntryPointer& last = recent(hash);
  if (last != nullptr && last->matches(call.key())) {
    g_hits.fetch_add(1, std::memory_order_relaxed);
    return last->shapes;
  }
  if (EntryPointer found = cache().find(hash, call.key())) {
    g_hits.fetch_add(1, std::memory_order_relaxed);
    last = std::move(found);
    return last->shapes;
  }
  g_misses.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<const Shapes> shapes = rule_shapes(call);
  if (shapes == nullptr) shapes = asked_shapes(call);
  if (shapes != nullptr) {
    if (!call.info().native.has_value()) check_kernel(call);
    verify_shapes(call, *shapes);
  }
  if (shapes != nullptr && cacheable(call, *shapes)) {
    std::vector<uint64_t> key(call.key().begin(), call.key().end());
    cache().add(hash, std::make_shared<Entry>(Entry{std::move(key), shapes}));
  }
  return shapes;
}

ShapeCacheCounters shape_cache_counters() {
  return {g_hits.load(std::memory_order_relaxed), g_misses.load(std::memory_order_relaxed)};
}
void reset_shape_cache_counters() {
  g_hits.store(0, std::memory_order_relaxed);
  g_misses.store(0, std::memory_order_relaxed);
}

}  // namespace torchacc
