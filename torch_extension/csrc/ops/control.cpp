// torch.ops.acc.*: the C++ functions that the Python package needs. They are operators instead of
// bindings, so that one library serves every CPython.
#include <c10/util/Exception.h>
#include <c10/util/FunctionRef.h>
#include <torch/library.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "aten/copy.h"
#include "record/location.h"
#include "record/operator.h"
#include "record/recorder.h"
#include "runtime/generator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

c10::DeviceIndex checked_index(int64_t device) {
  TORCH_CHECK(device < kMaxDevices, "acc device ", device, " does not exist");
  return normalize_device(static_cast<c10::DeviceIndex>(device));
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

// Collects the warnings issued during its lifetime. For operators that Python calls by name,
// nothing else converts warnings to Python's.
class Warnings : public c10::WarningHandler {
 public:
  Warnings() : outer_(c10::WarningUtils::get_warning_handler()) {
    c10::WarningUtils::set_warning_handler(this);
  }
  ~Warnings() override { c10::WarningUtils::set_warning_handler(outer_); }
  void process(const c10::Warning& warning) override { messages_.push_back(warning.msg()); }
  std::vector<std::string> take() { return std::move(messages_); }

 private:
  c10::WarningHandler* outer_;
  std::vector<std::string> messages_;
};

std::vector<std::string> warnings_of(c10::function_ref<void()> work) {
  Warnings warnings;
  work();
  return warnings.take();
}

void mark_dynamic(const at::Tensor& tensor, int64_t dim, int64_t least, int64_t most) {
  TORCH_CHECK(is_acc(tensor), "mark_dynamic takes a tensor on acc, got one on ", tensor.device());
  const torchacc_view view = view_of(*tensor.unsafeGetTensorImpl());
  torchacc_tensor* handle = nullptr;
  check(torchacc_tensor_from_view(&view, &handle));
  torchacc_error* error =
      torchacc_tensor_mark_dynamic(handle, static_cast<uint32_t>(dim), least, most);
  torchacc_tensor_release(handle);
  check(error);
}

TORCH_LIBRARY(acc, m) {
  m.def("set_device(int device) -> ()",
        [](int64_t device) { set_current_device(checked_index(device)); });
  m.def("get_device() -> int", []() -> int64_t { return current_device(); });
  m.def("device_count() -> int", []() -> int64_t { return device_count(); });
  m.def("bad_fork() -> bool", [] { return in_bad_fork(); });
  m.def("set_backend(str name) -> str[]",
        [](std::string name) { return warnings_of([&] { set_backend(name); }); });
  m.def("manual_seed(int device, int seed) -> ()", &manual_seed);
  m.def("get_rng_state(int device) -> Tensor", &get_rng_state);
  m.def("set_rng_state(int device, Tensor state) -> ()", &set_rng_state);
  m.def("initial_seed(int device) -> int", &initial_seed);
  m.def("default_generator(int device) -> Generator?",
        [](int64_t device) { return default_generator(checked_index(device)); });
  m.def("set_memory_limit(int nbytes) -> ()", [](int64_t nbytes) {
    check(torchacc_context_set_memory_limit(context(), static_cast<uint64_t>(nbytes)));
  });
  m.def("sync() -> str[]", [] { return warnings_of(&synchronize); });
  m.def("cut() -> str[]", [] { return warnings_of(&cut); });
  m.def("is_symbolizing() -> bool", [] { return is_symbolizing(); });
  m.def("request(Tensor self) -> ()", &request);
  m.def("read_after_cut(Tensor self) -> Tensor", &download_after_cut);
  m.def("record_whole(str name) -> ()", &record_whole);
  m.def("mark_dynamic(Tensor tensor, int dim, int least, int most) -> ()");
}

TORCH_LIBRARY_IMPL(acc, PrivateUse1, m) { m.impl("mark_dynamic", &mark_dynamic); }
TORCH_LIBRARY_IMPL(acc, CPU, m) { m.impl("mark_dynamic", &mark_dynamic); }

}  // namespace
}  // namespace torchacc
