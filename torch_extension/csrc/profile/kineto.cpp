// A plug-in of Kineto, the library behind torch.profiler: with ProfilerActivity.PrivateUse1 among
// the activities, every kernel and CPU fallback of the runtime's timeline is an event of the
// device, and every compile an event of the host.
//
// A profile does not start the device: by default torch.profiler asks for all available activities,
// also in programs that only use the CPU.
#include "profile/kineto.h"

// Formatting for Kineto's headers, without PyTorch's copy of the fmt library.
#define FMT_HEADER_ONLY
#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "record/location.h"
#include "record/torch_versions.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using libkineto::ActivityType;
using libkineto::CpuTraceBuffer;

class Session;

std::mutex g_mutex;
Session* g_session = nullptr;

// Kineto's clock: nanoseconds since 1970.
int64_t clock_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// The value of "kernel" in the details of a span: a name, or empty.
std::string_view kernel_of(std::string_view details) {
  constexpr std::string_view kField = "\"kernel\": \"";
  const size_t field = details.find(kField);
  if (field == std::string_view::npos) return {};
  const std::string_view value = details.substr(field + kField.size());
  return value.substr(0, value.find('"'));
}

// "aten::mm (matmul, train.py:12)": events are aggregated by name, so those of one line are a row.
std::string title(const torchacc_span& span, std::string_view category, const std::string& line) {
  std::string text = to_string(span.name) + " (";
  text += category == "kernel" ? kernel_of({span.details.data, span.details.len}) : category;
  if (!line.empty()) text += ", " + line.substr(line.rfind('/') + 1);
  return text + ")";
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  ~Session() override { leave(); }

  void start() override {
    status_ = libkineto::TraceStatus::RECORDING;
    std::lock_guard<std::mutex> lock(g_mutex);
    g_session = this;
    torchacc_context* used = in_bad_fork() ? nullptr : context_if_created();
    if (used != nullptr) begin(used);
  }

  // Requires the mutex.
  void begin(torchacc_context* context) {
    if (begun_) return;
    begun_ = true;
    origin_ = clock_now();
    note(torchacc_profile_start(context));
  }

  // PyTorch has synchronized the device before.
  void stop() override {
    leave();
    status_ = libkineto::TraceStatus::PROCESSING;
    if (!begun_ || in_bad_fork()) return;
    trace_->span = libkineto::TraceSpan(origin_, clock_now(), "acc");
    uint64_t lost = 0;
    note(torchacc_profile_visit(context_if_created(), callback(&take_span), this, &lost));
    if (lost != 0) errors_.push_back("acc: " + std::to_string(lost) + " events were not kept");
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    for (const auto& activity : trace_->activities) activity->log(logger);
    status_ = libkineto::TraceStatus::READY;
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return device_info<libkineto::DeviceInfo>(kDevice, libkineto::kExceedMaxPid, "acc");
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return {resource_info<libkineto::ResourceInfo>(kDevice, kQueue, "programs")};
  }
  std::unique_ptr<CpuTraceBuffer> getTraceBuffer() override { return std::move(trace_); }

 private:
  // All device indices are one device, which runs one program after another.
  static constexpr int32_t kDevice = 0;
  static constexpr int32_t kQueue = 0;

  static void take_span(void* session, const torchacc_span* span) noexcept {
    auto* self = static_cast<Session*>(session);
    try {
      self->add(*span);
    } catch (const std::bad_alloc&) {
      // The event is lost; there is no memory to report that either.
    }
  }

  void add(const torchacc_span& span) {
    const std::string_view category(span.category.data, span.category.len);
    const bool on_device = category == "kernel" || category == "CPU fallback";
    if (!on_device && !(category == "phase" && to_string(span.name) == "compile")) return;
    const std::string line = site_line(span.site);
    trace_->emplace_activity(
        trace_->span,
        on_device ? ActivityType::CONCURRENT_KERNEL : ActivityType::PRIVATEUSE1_RUNTIME,
        on_device ? title(span, category, line) : "torchacc::compile");
    libkineto::GenericTraceActivity& activity = *trace_->activities.back();
    activity.startTime = origin_ + static_cast<int64_t>(span.begin_ns);
    activity.endTime = origin_ + static_cast<int64_t>(span.end_ns);
    activity.device = on_device ? kDevice : static_cast<int32_t>(getpid());
    activity.resource = on_device ? kQueue : static_cast<int32_t>(span.thread);
    if (!on_device) return;
    activity.addMetadataQuoted("site", line);
    // The details are JSON already.
    activity.addMetadata("details", to_string(span.details));
  }

  void leave() {
    std::lock_guard<std::mutex> lock(g_mutex);
    if (g_session == this) g_session = nullptr;
  }

  // Keeps the error for `errors`: Kineto calls from code that does not support exceptions.
  void note(torchacc_error* error) {
    if (error == nullptr) return;
    errors_.push_back("acc: " + to_string(torchacc_error_message(error)));
    torchacc_error_free(error);
  }

  bool begun_ = false;
  int64_t origin_ = 0;
  std::unique_ptr<CpuTraceBuffer> trace_ = std::make_unique<CpuTraceBuffer>();
  std::vector<std::string> errors_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "torchacc";
    return name;
  }

  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types{ActivityType::CONCURRENT_KERNEL,
                                              ActivityType::PRIVATEUSE1_RUNTIME};
    return types;
  }

  // Null if no device was asked for: runtime types are requested with the CPU's. A request for
  // CUDA's kernels cannot be told from one for this device's.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types, const libkineto::Config&) override {
    if (types.count(ActivityType::CONCURRENT_KERNEL) == 0) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }
};

const bool g_registered = [] {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
  return true;
}();

}  // namespace

void follow_profile(torchacc_context* context) {
  std::lock_guard<std::mutex> lock(g_mutex);
  if (g_session != nullptr) g_session->begin(context);
}

}  // namespace torchacc
