// Operators that do more than they return, for the tests.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

static std::vector<double> noted;

static void note(const at::Tensor& x, double factor) { noted.push_back(x.item<double>() * factor); }
static void threads(const at::Tensor&) { noted.push_back(at::get_num_threads()); }
static std::vector<double> take() { return std::exchange(noted, {}); }
// Until a byte comes from the file of this handle, or its end.
static void hold(const at::Tensor&, int64_t handle) {
  char byte;
  while (read(static_cast<int>(handle), &byte, 1) < 0 && errno == EINTR) {
  }
}
static void add_to(at::Tensor& x, const at::Tensor& y) { x.add_(y); }

TORCH_LIBRARY(test_effects, m) {
  m.def("note(Tensor x, float factor) -> ()");
  m.def("threads(Tensor x) -> ()");
  m.def("hold(Tensor x, int handle) -> ()");
  m.def("add_to(Tensor(a!) x, Tensor y) -> ()");
  m.def("take() -> float[]");
  m.impl("take", take);
}
TORCH_LIBRARY_IMPL(test_effects, CPU, m) {
  m.impl("note", note);
  m.impl("threads", threads);
  m.impl("hold", hold);
  m.impl("add_to", add_to);
}
TORCH_LIBRARY_IMPL(test_effects, Meta, m) {
  m.impl("note", [](const at::Tensor&, double) {});
  m.impl("threads", [](const at::Tensor&) {});
  m.impl("hold", [](const at::Tensor&, int64_t) {});
  m.impl("add_to", [](at::Tensor&, const at::Tensor&) {});
}
