// torch.ops.acc.*: what the Python package needs from C++. Operators instead of bindings, so that
// one library serves every CPython.
#include <torch/library.h>

#include <mutex>
#include <string>

#include "record/immediate.h"
#include "record/location.h"
#include "record/shape_cache.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

std::string take(torchacc_string* text) {
  std::string copied = to_string(torchacc_string_view(text));
  torchacc_string_free(text);
  return copied;
}

std::string read_text(torchacc_error* (*query)(torchacc_context*, torchacc_string**),
                      const char* if_unused) {
  if (context_if_created() == nullptr) return if_unused;
  torchacc_string* text = nullptr;
  check(query(context(), &text));
  return take(text);
}

// The library's counters and the recorder's, as one flat JSON object.
std::string metrics() {
  std::string json = read_text(&torchacc_metrics, "{}");
  const size_t end = json.rfind('}');
  if (end == std::string::npos) return json;
  json.erase(end);
  const ShapeCacheCounters shapes = shape_cache_counters();
  const std::pair<const char*, uint64_t> counters[] = {{"immediate_runs", immediate_runs()},
                                                       {"shape_cache_hits", shapes.hits},
                                                       {"shape_cache_misses", shapes.misses}};
  for (const auto& [name, value] : counters) {
    const bool empty = json.find(':') == std::string::npos;
    json += (empty ? "\"" : ",\"") + std::string(name) + "\":" + std::to_string(value);
  }
  return json + "}";
}

void metrics_reset() {
  if (torchacc_context* existing = context_if_created()) torchacc_metrics_reset(existing);
  reset_shape_cache_counters();
  reset_immediate_runs();
}

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json + "\"";
}

// The library knows sites as numbers that the locator gave out; readers want lines.
std::string host_call_report() {
  const std::string json = read_text(&torchacc_host_call_report, "[]");
  const std::string field = "\"site\":";
  std::string named;
  size_t position = 0;
  for (size_t at = json.find(field); at != std::string::npos; at = json.find(field, position)) {
    size_t start = at + field.size();
    while (start < json.size() && json[start] == ' ') ++start;
    size_t end = start;
    while (end < json.size() && json[end] >= '0' && json[end] <= '9') ++end;
    named.append(json, position, start - position);
    named += end > start ? quoted(site_line(std::stoull(json.substr(start, end - start))))
                         : std::string();
    position = end;
  }
  return named + json.substr(position);
}

c10::DeviceIndex checked_index(int64_t device) {
  TORCH_CHECK(device < kMaxDevices, "acc device ", device, " does not exist");
  return normalize_device(static_cast<c10::DeviceIndex>(device));
}

std::string memory_stats(int64_t device) {
  const auto stats = allocator().getDeviceStats(checked_index(device));
  const auto& bytes = stats.allocated_bytes[0];
  const auto& count = stats.allocation[0];
  const std::pair<const char*, int64_t> values[] = {
      {"live_bytes", bytes.current},        {"peak_bytes", bytes.peak},
      {"allocated_bytes", bytes.allocated}, {"freed_bytes", bytes.freed},
      {"live_storages", count.current},     {"peak_storages", count.peak},
  };
  std::string json = "{";
  for (const auto& [name, value] : values) {
    json += (json.size() > 1 ? ",\"" : "\"") + std::string(name) + "\":" + std::to_string(value);
  }
  return json + "}";
}

void manual_seed(int64_t device, int64_t seed) {
  at::Generator generator = default_generator(checked_index(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(seed));
}

at::Tensor get_rng_state(int64_t device) {
  at::Generator generator = default_generator(checked_index(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_rng_state(int64_t device, const at::Tensor& state) {
  at::Generator generator = default_generator(checked_index(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

int64_t initial_seed(int64_t device) {
  at::Generator generator = default_generator(checked_index(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  return static_cast<int64_t>(generator.current_seed());
}

TORCH_LIBRARY(acc, m) {
  m.def("set_device(int device) -> ()",
        [](int64_t device) { set_current_device(checked_index(device)); });
  m.def("get_device() -> int", []() -> int64_t { return current_device(); });
  m.def("device_count() -> int", []() -> int64_t { return device_count(); });
  m.def("bad_fork() -> bool", [] { return in_bad_fork(); });
  m.def("manual_seed(int device, int seed) -> ()", &manual_seed);
  m.def("get_rng_state(int device) -> Tensor", &get_rng_state);
  m.def("set_rng_state(int device, Tensor state) -> ()", &set_rng_state);
  m.def("initial_seed(int device) -> int", &initial_seed);
  m.def("sync() -> ()", &synchronize);
  m.def("cut() -> ()", &cut);
  m.def("metrics() -> str", &metrics);
  m.def("metrics_reset() -> ()", &metrics_reset);
  m.def("last_program() -> str", [] { return read_text(&torchacc_last_program, ""); });
  m.def("host_call_report() -> str", &host_call_report);
  m.def("memory_stats(int device) -> str", &memory_stats);
}

}  // namespace
}  // namespace torchacc
