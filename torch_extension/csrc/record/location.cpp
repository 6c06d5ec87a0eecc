#include "record/location.h"

#include <c10/util/FunctionRef.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/runtime.h"

namespace torchacc {
namespace {

thread_local const std::string* t_operator = nullptr;
thread_local bool t_symbolizing = false;

struct Site {
  uint64_t id = 0;
  std::string recorded;  // name of the operator
  std::shared_ptr<torch::CapturedTraceback> stack;
  std::string backward;  // name of the autograd node, when the backward pass recorded the operation
  uint64_t line = 0;     // number of its line; 0 until it is asked for
};

// A ring: a program has few call sites, and losing the line of one recorded long ago only shortens
// a message.
class Sites {
 public:
  // By reference, so that an evicted stack is released by the caller, outside the lock.
  uint64_t add(Site& site) {
    std::lock_guard<std::mutex> lock(mutex_);
    site.id = ++last_;
    std::swap(slot(last_), site);
    return last_;
  }
  Site find(uint64_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Site& found = slot(id);
    return found.id == id ? found : Site();
  }
  // The site and those after it whose lines are unknown.
  std::vector<Site> unplaced(uint64_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Site> found;
    for (const uint64_t end = std::min(last_ + 1, id + kAtOnce); id < end; ++id) {
      if (slot(id).id == id && slot(id).line == 0) found.push_back(slot(id));
    }
    return found;
  }
  void place(const Site& site, uint64_t line) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (slot(site.id).id == site.id) slot(site.id).line = line;
  }

 private:
  static constexpr size_t kCapacity = 16384;
  // Most have frames in common, each of which is looked up once.
  static constexpr uint64_t kAtOnce = 512;
  Site& slot(uint64_t id) { return ring_[id % kCapacity]; }

  std::mutex mutex_;
  uint64_t last_ = 0;
  std::array<Site, kCapacity> ring_;
};

Sites& sites() {
  static auto* instance = new Sites();  // leaked: captured frames must not be released at exit
  return *instance;
}

// The lines on which sites were found, kept for ever: there are no more than the program has. Their
// numbers are distinct from those of sites, so that a line is a site too.
class Lines {
 public:
  uint64_t number(const std::string& line) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [found, is_new] = numbers_.emplace(line, lines_.size());
    if (is_new) lines_.push_back(line);
    return found->second | kLine;
  }
  std::string text(uint64_t site) {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines_.at(site & ~kLine);
  }
  static bool is_line(uint64_t site) { return (site & kLine) != 0; }

 private:
  static constexpr uint64_t kLine = uint64_t{1} << 63;

  std::mutex mutex_;
  std::unordered_map<std::string, uint64_t> numbers_;
  std::vector<std::string> lines_;
};

Lines& lines() {
  static auto* instance = new Lines();  // leaked, as the sites are
  return *instance;
}

// Frames of PyTorch, and of its context managers, lie between the user's line and the operator; the
// user cannot change them. Code in no file was generated, unless the user typed it.
bool is_library_frame(std::string_view file) {
  if (file.empty()) return true;
  if (file[0] == '<') {
    for (const std::string_view typed :
         {"<string>", "<stdin>", "<console>", "<python-input-", "<ipython-input-"}) {
      if (file.substr(0, typed.size()) == typed) return false;
    }
    return true;
  }
  for (const std::string_view library :
       {"-packages/torch/", "/pytorch/torch/", "-packages/torchacc/", "/torch_extension/torchacc/",
        "/contextlib.py"}) {
    if (file.find(library) != std::string_view::npos) return true;
  }
  return false;
}

std::string file_and_line(const torch::unwind::Frame& frame) {
  return frame.filename + ":" + std::to_string(frame.lineno);
}

struct Line {
  std::string where;
  std::string function;
};

// The user's line of each site.
std::vector<Line> user_lines(c10::ArrayRef<Site> sites) {
  std::vector<torch::CapturedTraceback*> stacks;
  for (const Site& site : sites) {
    if (site.stack != nullptr) stacks.push_back(site.stack.get());
  }
  if (stacks.empty()) return std::vector<Line>(sites.size());
  const auto done = c10::make_scope_exit([] { t_symbolizing = false; });
  t_symbolizing = true;
  const auto symbolized = torch::symbolize(stacks);
  std::vector<Line> lines;
  size_t next = 0;
  for (const Site& site : sites) {
    const torch::unwind::Frame* shown = nullptr;
    if (site.stack != nullptr) {
      for (const uint64_t index : symbolized.tracebacks.at(next++)) {
        const torch::unwind::Frame& frame = symbolized.all_frames.at(index);
        const bool is_users = !is_library_frame(frame.filename);
        if (shown == nullptr || is_users) shown = &frame;
        if (is_users) break;
      }
    }
    lines.push_back(shown != nullptr ? Line{file_and_line(*shown), shown->funcname} : Line());
  }
  return lines;
}

std::string place_of(const Site& site, const Line& line) {
  if (!line.where.empty()) return line.where;
  return site.backward.empty() ? std::string() : "backward:" + site.backward;
}

}  // namespace

RecordingScope::RecordingScope(const std::string& name) : outer_(t_operator) { t_operator = &name; }
RecordingScope::~RecordingScope() { t_operator = outer_; }

namespace {

// The library's callbacks must not throw: its frames do not support exceptions. A call site that
// cannot be named (no memory, a warning that is an error) becomes none.
template <class Result>
Result or_nothing(c10::function_ref<Result()> work) noexcept {
  try {
    return work();
  } catch (...) {
    return Result();
  }
}

uint64_t new_site() {
  Site site;
  if (t_operator != nullptr) site.recorded = *t_operator;
  site.stack = torch::CapturedTraceback::gather(/*python=*/true, /*script=*/false, /*cpp=*/false);
  if (const auto node = torch::autograd::get_current_node()) site.backward = node->name();
  return sites().add(site);
}

}  // namespace

uint64_t capture_site(void*) noexcept { return or_nothing<uint64_t>(&new_site); }

bool is_symbolizing() { return t_symbolizing; }

std::string site_line(uint64_t site) {
  if (site == 0) return {};
  if (Lines::is_line(site)) return lines().text(site);
  const Site found = sites().find(site);
  return place_of(found, user_lines(found)[0]);
}

uint64_t line_of(void*, uint64_t site) noexcept {
  return or_nothing<uint64_t>([&]() -> uint64_t {
    if (site == 0 || Lines::is_line(site)) return site;
    if (const uint64_t line = sites().find(site).line) return line;
    const std::vector<Site> unplaced = sites().unplaced(site);
    const std::vector<Line> found = user_lines(unplaced);
    uint64_t asked = 0;
    for (size_t index = 0; index < found.size(); ++index) {
      const std::string place = place_of(unplaced[index], found[index]);
      if (place.empty()) continue;
      const uint64_t line = lines().number(place);
      sites().place(unplaced[index], line);
      if (unplaced[index].id == site) asked = line;
    }
    return asked;
  });
}

void warn_about(void*, torchacc_str message, uint64_t site) noexcept {
  or_nothing<void>([&] {
    const std::string line = site_line(site);
    TORCH_WARN(line.empty() ? "torchacc" : line, ": ", to_string(message));
  });
}

std::string describe_site(uint64_t site) {
  if (site == 0) return {};
  if (Lines::is_line(site)) return "\n  recorded at " + lines().text(site);
  const Site found = sites().find(site);
  const Line line = user_lines(found)[0];
  std::string text;
  if (!found.recorded.empty()) text += "\n  in " + found.recorded;
  if (!found.backward.empty()) text += "\n  in the backward pass, by " + found.backward;
  if (!line.where.empty()) text += "\n  recorded at " + line.where + " in " + line.function;
  return text;
}

}  // namespace torchacc
