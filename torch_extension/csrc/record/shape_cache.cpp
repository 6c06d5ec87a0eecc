#include "record/shape_cache.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <mutex>

#include "record/meta.h"

namespace torchacc {
namespace {

uint64_t hash_words(const KeyWords& words) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  uint64_t hash = words.size();
  for (const uint64_t word : words) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * kMultiplier;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    hash += word;
  }
  return hash;
}

// Bounded by two generations: when the young one is full it becomes the old one, and whatever is
// not asked for again while the next fills up is forgotten. Lookups stay a single probe for all
// that is in use.
class ShapeCache {
 public:
  std::shared_ptr<const Shapes> find(uint64_t hash, const KeyWords& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto found = young_.find(hash); found != young_.end() && found->second.matches(key)) {
      ++counters_.hits;
      return found->second.shapes;
    }
    if (auto found = old_.find(hash); found != old_.end() && found->second.matches(key)) {
      ++counters_.hits;
      Entry entry = found->second;
      old_.erase(found);
      auto shapes = entry.shapes;
      insert(hash, std::move(entry));
      return shapes;
    }
    ++counters_.misses;
    return nullptr;
  }

  void add(uint64_t hash, const KeyWords& key, std::shared_ptr<const Shapes> shapes) {
    Entry entry{std::vector<uint64_t>(key.begin(), key.end()), std::move(shapes)};
    std::lock_guard<std::mutex> lock(mutex_);
    insert(hash, std::move(entry));
  }

  ShapeCacheCounters counters() {
    std::lock_guard<std::mutex> lock(mutex_);
    return counters_;
  }
  void reset_counters() {
    std::lock_guard<std::mutex> lock(mutex_);
    counters_ = {};
  }

 private:
  struct Entry {
    std::vector<uint64_t> key;
    std::shared_ptr<const Shapes> shapes;
    // The hash only finds the entry; equal bytes decide. A collision costs a miss.
    bool matches(const KeyWords& other) const {
      return key.size() == other.size() && std::equal(key.begin(), key.end(), other.begin());
    }
  };

  static constexpr size_t kGeneration = 16384;

  void insert(uint64_t hash, Entry entry) {
    if (young_.size() >= kGeneration) {
      old_ = std::move(young_);
      young_ = {};
    }
    young_[hash] = std::move(entry);
  }

  std::mutex mutex_;
  ska::flat_hash_map<uint64_t, Entry> young_;
  ska::flat_hash_map<uint64_t, Entry> old_;
  ShapeCacheCounters counters_{};
};

ShapeCache& cache() {
  static auto* instance = new ShapeCache();
  return *instance;
}

bool cacheable(const Shapes& shapes) {
  // A view's offset and an argument's new geometry hold for this call only.
  return shapes.resized.empty() &&
         std::none_of(shapes.outputs.begin(), shapes.outputs.end(),
                      [](const auto& output) { return output.kind == OutputShape::Kind::View; });
}

}  // namespace

std::shared_ptr<const Shapes> infer_shapes(const Call& call) {
  const uint64_t hash = hash_words(call.key());
  if (auto found = cache().find(hash, call.key())) return found;
  std::shared_ptr<const Shapes> shapes = run_meta(call);
  if (shapes != nullptr && cacheable(*shapes)) cache().add(hash, call.key(), shapes);
  return shapes;
}

ShapeCacheCounters shape_cache_counters() { return cache().counters(); }
void reset_shape_cache_counters() { cache().reset_counters(); }

}  // namespace torchacc
