#include "runtime/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/dlpack.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <vector>

#include "profile/kineto.h"
#include "record/location.h"
#include "runtime/absent.h"
#include "runtime/native_device.h"

namespace torchacc {
namespace {

std::atomic<torchacc_context*> g_context{nullptr};
// Whether the context exists or is being created.
std::atomic<bool> g_started{false};
std::atomic<bool> g_bad_fork{false};
std::mutex g_context_mutex;
thread_local c10::DeviceIndex t_device = 0;

// Runs in every forked child. Only a child of a process whose launch thread may exist is unusable:
// a DataLoader worker forked before the device was touched can still use it.
void after_fork_in_child() {
  if (g_started.load(std::memory_order_relaxed)) {
    g_bad_fork.store(true, std::memory_order_relaxed);
  }
}

const bool g_fork_handler = [] {
  pthread_atfork(nullptr, nullptr, &after_fork_in_child);
  return true;
}();

// The directories of the Python environment's own shared libraries, in the format of PATH, found
// from PyTorch's (lib/python3.x/site-packages/torch/lib): wheels of C libraries install into lib,
// those of NVIDIA into site-packages/nvidia/NAME/lib, OpenXLA plugins into
// site-packages/xla_plugins/NAME.
std::string environment_libraries() {
  namespace fs = std::filesystem;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&c10::GetCPUAllocator), &info) == 0) {
    return {};
  }
  const fs::path packages = fs::path(info.dli_fname).parent_path().parent_path().parent_path();
  std::string folders = packages.parent_path().parent_path();
  std::error_code error;
  std::vector<fs::path> wheels;
  for (const fs::directory_entry& wheel : fs::directory_iterator(packages / "nvidia", error)) {
    wheels.push_back(wheel.path() / "lib");
  }
  for (const fs::directory_entry& wheel : fs::directory_iterator(packages / "xla_plugins", error)) {
    wheels.push_back(wheel.path());
  }
  std::sort(wheels.begin(), wheels.end());
  for (const fs::path& folder : wheels) {
    if (fs::is_directory(folder, error)) folders += ':' + folder.string();
  }
  return folders;
}

// Marks the creation of the context: a child forked by another thread meanwhile would find it half
// made and locked.
class Starting {
 public:
  Starting() { g_started.store(true, std::memory_order_relaxed); }
  ~Starting() { g_started.store(g_context.load() != nullptr, std::memory_order_relaxed); }
};

struct Release {
  void operator()(torchacc_context* context) const { torchacc_context_release(context); }
};

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void check_fork() {
  TORCH_CHECK(
      !in_bad_fork(),
      "Cannot use the acc device in a forked subprocess: its runtime threads exist only in the "
      "parent. "
      "Use the 'spawn' start method of multiprocessing, or touch the device only after forking.");
}

// The name of the backend that a context chose without configuration.
std::string default_backend(torchacc_context* context) {
  torchacc_device device{};
  device.struct_size = sizeof device;
  check(torchacc_context_device(context, &device));
  return device.device_type == kDLCPU ? "cpu" : "cuda";
}

// The context, created on first use: on `backend`, else as the environment says, else on a GPU that
// PyTorch has.
torchacc_context* create_context(std::optional<std::string_view> backend) {
  static std::string chosen;
  std::lock_guard<std::mutex> lock(g_context_mutex);
  if (torchacc_context* existing = g_context.load(std::memory_order_relaxed)) {
    TORCH_CHECK(!backend.has_value() || *backend == chosen, "the backend cannot become \"",
                *backend, "\", as the device acc is in use: choose before anything else of acc");
    return existing;
  }
  const Starting starting;
  TORCH_CHECK(torchacc_abi_version() == TORCHACC_ABI, "libtorchacc has ABI ",
              torchacc_abi_version(), " but the PyTorch extension was built for ABI ", TORCHACC_ABI,
              "; rebuild the extension");
  const std::string folders = environment_libraries();
  torchacc_options options{};
  options.struct_size = sizeof options;
  options.library_path = to_str(folders);
  chosen = backend.value_or(variable("TORCHACC_BACKEND"));
  // If PyTorch has no GPU, acc uses none unless it is named: fallbacks run where PyTorch does.
  if (chosen.empty() && !at::hasCUDA()) chosen = "cpu";
  options.backend = to_str(chosen);
  if (std::getenv("TORCHACC_NUM_THREADS") == nullptr) {
    options.num_threads = static_cast<uint32_t>(at::get_num_threads());
  }
  torchacc_context* made = nullptr;
  check(torchacc_context_new(&options, &made));
  std::unique_ptr<torchacc_context, Release> owned(made);
  open_native_device(made);
  check(torchacc_context_set_locator(made, callback(&capture_site), nullptr, nullptr));
  check(torchacc_context_set_observer(made, callback(&line_of), callback(&warn_about), nullptr,
                                      nullptr));
  if (chosen.empty()) chosen = default_backend(made);
  // Never released from here on: tensors may outlive every static destructor.
  g_context.store(owned.release(), std::memory_order_release);
  follow_profile(made);
  return made;
}

struct DtypePair {
  c10::ScalarType torch;
  torchacc_dtype abi;
};

constexpr std::array<DtypePair, 21> kDtypes{{
    {c10::ScalarType::Bool, TORCHACC_BOOL},
    {c10::ScalarType::Byte, TORCHACC_U8},
    {c10::ScalarType::Char, TORCHACC_I8},
    {c10::ScalarType::Short, TORCHACC_I16},
    {c10::ScalarType::Int, TORCHACC_I32},
    {c10::ScalarType::Long, TORCHACC_I64},
    {c10::ScalarType::Half, TORCHACC_F16},
    {c10::ScalarType::BFloat16, TORCHACC_BF16},
    {c10::ScalarType::Float, TORCHACC_F32},
    {c10::ScalarType::Double, TORCHACC_F64},
    {c10::ScalarType::ComplexFloat, TORCHACC_C64},
    {c10::ScalarType::ComplexDouble, TORCHACC_C128},
    {c10::ScalarType::UInt16, TORCHACC_U16},
    {c10::ScalarType::UInt32, TORCHACC_U32},
    {c10::ScalarType::UInt64, TORCHACC_U64},
    {c10::ScalarType::ComplexHalf, TORCHACC_C32},
    {c10::ScalarType::Float8_e4m3fn, TORCHACC_F8E4M3FN},
    {c10::ScalarType::Float8_e5m2, TORCHACC_F8E5M2},
    {c10::ScalarType::Float8_e4m3fnuz, TORCHACC_F8E4M3FNUZ},
    {c10::ScalarType::Float8_e5m2fnuz, TORCHACC_F8E5M2FNUZ},
    {c10::ScalarType::Float8_e8m0fnu, TORCHACC_F8E8M0FNU},
}};

constexpr uint8_t kNoDtype = 255;

constexpr auto kDtypeByScalarType = [] {
  std::array<uint8_t, static_cast<size_t>(c10::ScalarType::NumOptions) + 1> table{};
  for (auto& entry : table) entry = kNoDtype;
  for (const DtypePair& pair : kDtypes) {
    table[static_cast<size_t>(pair.torch)] = static_cast<uint8_t>(pair.abi);
  }
  return table;
}();

}  // namespace

torchacc_context* context() {
  check_fork();
  torchacc_context* existing = g_context.load(std::memory_order_acquire);
  return existing != nullptr ? existing : create_context(std::nullopt);
}

void set_backend(std::string_view name) {
  TORCH_CHECK_VALUE(!name.empty(),
                    "set_backend wants the name of a backend: cpu, cuda, cuda:1, ...");
  check_fork();
  create_context(name);
}

torchacc_context* context_if_created() noexcept {
  return g_context.load(std::memory_order_acquire);
}

bool in_bad_fork() noexcept { return g_bad_fork.load(std::memory_order_relaxed); }

namespace {

// Replaces sites, which messages name as "<site 12>", by their lines. In a message of several
// errors, the site of each is replaced by its full description.
std::string with_lines(const std::string& message) {
  constexpr std::string_view kBegin = "<site ", kRecorded = "\n  recorded at ";
  const auto ends_with = [](std::string_view whole, std::string_view end) {
    return whole.size() >= end.size() && whole.substr(whole.size() - end.size()) == end;
  };
  std::string text;
  size_t done = 0;
  for (size_t at = message.find(kBegin); at != std::string::npos; at = message.find(kBegin, done)) {
    const size_t end = message.find('>', at);
    if (end == std::string::npos) break;
    const uint64_t site = std::strtoull(message.c_str() + at + kBegin.size(), nullptr, 10);
    text.append(message, done, at - done);
    const std::string description = describe_site(site);
    if (!description.empty() && ends_with(text, kRecorded)) {
      text.resize(text.size() - kRecorded.size());
      text += description;
    } else {
      const std::string line = site_line(site);
      text += line.empty() ? "in an unknown line" : line;
    }
    done = end + 1;
  }
  return text.append(message, done);
}

}  // namespace

void check(torchacc_error* error) {
  if (error == nullptr) return;
  const torchacc_code code = torchacc_error_code(error);
  std::string message = to_string(torchacc_error_message(error));
  const uint64_t site = torchacc_error_site(error);
  torchacc_error_free(error);
  // A message of several errors contains the site of each.
  const bool says_where = message.find("<site " + std::to_string(site) + ">") != std::string::npos;
  message = with_lines(message);
  if (!says_where) message += describe_site(site);
  switch (code) {
    case TORCHACC_INDEX_ERROR:
      TORCH_CHECK_INDEX(false, message);
    case TORCHACC_VALUE_ERROR:
      TORCH_CHECK_VALUE(false, message);
    case TORCHACC_TYPE_ERROR:
      TORCH_CHECK_TYPE(false, message);
    case TORCHACC_LINALG_ERROR:
      TORCH_CHECK_LINALG(false, message);
    case TORCHACC_OUT_OF_MEMORY:
      TORCH_CHECK_WITH(OutOfMemoryError, false, message);
    case TORCHACC_UNSUPPORTED:
      TORCH_CHECK_NOT_IMPLEMENTED(false, message);
    default:
      TORCH_CHECK(false, message);
  }
}

std::optional<torchacc_dtype> find_dtype(c10::ScalarType type) noexcept {
  const uint8_t found = kDtypeByScalarType[static_cast<size_t>(type)];
  if (found == kNoDtype) return std::nullopt;
  return found;
}

torchacc_dtype to_dtype(c10::ScalarType type) {
  const uint8_t found = kDtypeByScalarType[static_cast<size_t>(type)];
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isQIntType(type), kNoQuantized);
  TORCH_CHECK_NOT_IMPLEMENTED(found != kNoDtype, "The acc device does not support tensors of type ",
                              type);
  return found;
}

c10::ScalarType to_scalar_type(torchacc_dtype type) {
  TORCH_INTERNAL_ASSERT(type < kDtypes.size() && kDtypes[type].abi == type);
  return kDtypes[type].torch;
}

c10::DeviceIndex device_count() noexcept {
  static const c10::DeviceIndex count = [] {
    const char* text = std::getenv("TORCHACC_DEVICES");
    const int asked = text != nullptr ? std::atoi(text) : 1;
    return static_cast<c10::DeviceIndex>(asked < 1 ? 1 : asked > kMaxDevices ? kMaxDevices : asked);
  }();
  return count;
}

c10::DeviceIndex current_device() noexcept { return t_device; }

static void check_device(c10::DeviceIndex index) {
  if (index < device_count()) return;
  const char* advice = "";
  if (std::getenv("LOCAL_RANK") != nullptr) {
    advice = ". Every process of a job has devices of its own: name it \"acc\" on all ranks";
  }
  TORCH_CHECK(false, "acc device ", static_cast<int>(index), " does not exist: there are ",
              static_cast<int>(device_count()), " (0..", device_count() - 1, ")", advice);
}

void set_current_device(c10::DeviceIndex index) {
  if (index < 0) return;  // PyTorch passes -1 to mean "leave it as it is"
  check_device(index);
  t_device = index;
}

c10::DeviceIndex normalize_device(c10::DeviceIndex index) {
  if (index < 0) return t_device;
  check_device(index);
  return index;
}

void synchronize() {
  if (context_if_created() != nullptr) check(torchacc_sync(context()));
}

void cut() {
  if (context_if_created() != nullptr) check(torchacc_cut(context()));
}

bool host_forced(std::string_view name) {
  static const bool all = [] {
    const char* text = std::getenv("TORCHACC_FORCE_HOST");
    return text != nullptr && *text != '\0' && *text != '0';
  }();
  static const auto* names = [] {
    auto* set = new std::unordered_set<std::string>();
    const char* text = std::getenv("TORCHACC_HOST_OPS");
    std::string_view rest = text != nullptr ? text : "";
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      std::string one(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      if (one.find("::") == std::string::npos) one.insert(0, "aten::");
      set->insert(std::move(one));
    }
    return set;
  }();
  return all || (!names->empty() && names->count(std::string(name)) != 0);
}

}  // namespace torchacc
