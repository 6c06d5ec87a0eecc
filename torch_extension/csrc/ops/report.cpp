// torch.ops.acc.*: reports of the runtime's actions and their reasons, as JSON with Python lines
// instead of sites.
#include <torch/library.h>

#include <cstdio>
#include <string>

#include "record/immediate.h"
#include "record/layout.h"
#include "record/location.h"
#include "record/shape_cache.h"
#include "record/shape_rule.h"
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
  const std::pair<const char*, uint64_t> counters[] = {
      {"immediate_runs", immediate_runs()},   {"immediate_copies", immediate_copies()},
      {"shape_cache_hits", shapes.hits},      {"shape_cache_misses", shapes.misses},
      {"shape_rule_uses", shape_rule_uses()}, {"shape_function_ns", shape_function_ns()}};
  for (const auto& [name, value] : counters) {
    const bool empty = json.find(':') == std::string::npos;
    json += (empty ? "\"" : ",\"") + std::string(name) + "\":" + std::to_string(value);
  }
  return json + "}";
}

void metrics_reset() {
  if (torchacc_context* existing = context_if_created()) torchacc_metrics_reset(existing);
  reset_shape_cache_counters();
  reset_shape_rule_uses();
  reset_immediate_runs();
}

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      // Code compiled from a string may claim any file name.
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      json += escaped;
      continue;
    }
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json + "\"";
}

// Replaces sites, the locator's numbers, by their lines. The names of fields with a site end in
// "site".
std::string with_lines(const std::string& json) {
  const std::string field = "site\": ";
  std::string named;
  size_t position = 0;
  for (size_t at = json.find(field); at != std::string::npos; at = json.find(field, position)) {
    const size_t start = at + field.size();
    size_t end = start;
    while (end < json.size() && json[end] >= '0' && json[end] <= '9') ++end;
    named.append(json, position, start - position);
    if (end > start) named += quoted(site_line(std::stoull(json.substr(start, end - start))));
    position = end;
  }
  return named + json.substr(position);
}

TORCH_LIBRARY_FRAGMENT(acc, m) {
  m.def("version() -> str", [] { return to_string(torchacc_version()); });
  m.def("metrics() -> str", &metrics);
  m.def("metric_docs() -> str", [] { return to_string(torchacc_metric_docs()); });
  m.def("metrics_reset() -> ()", &metrics_reset);
  m.def("refuted_shape_rules() -> str", &refuted_shape_rules);
  m.def("wrong_shapes() -> str", &wrong_shapes);
  m.def("last_program() -> str", [] { return read_text(&torchacc_last_program, ""); });
  m.def("host_call_report() -> str",
        [] { return with_lines(read_text(&torchacc_host_call_report, "[]")); });
  m.def("memory_report() -> str",
        [] { return with_lines(read_text(&torchacc_memory_report, "{}")); });
  m.def("progress() -> str", [] { return with_lines(read_text(&torchacc_progress, "{}")); });
  m.def("explain() -> str", [] { return with_lines(read_text(&torchacc_explain, "{}")); });
  m.def("profile_start() -> ()", [] { check(torchacc_profile_start(context())); });
  m.def("profile_stop() -> str",
        [] { return with_lines(read_text(&torchacc_profile_stop, "{}")); });
  m.def("set_recompile_limit(int limit) -> ()", [](int64_t limit) {
    check(torchacc_set_recompile_limit(context(), static_cast<uint64_t>(limit)));
  });
  m.def("set_strict(bool recompiles, bool host_calls) -> ()", [](bool recompiles, bool host_calls) {
    check(torchacc_set_strict(context(), (recompiles ? TORCHACC_STRICT_RECOMPILES : 0) |
                                             (host_calls ? TORCHACC_STRICT_HOST_CALLS : 0)));
  });
}

}  // namespace
}  // namespace torchacc
