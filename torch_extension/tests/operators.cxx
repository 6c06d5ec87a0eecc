// Operators that do more than they return, for the tests.
#include <torch/library.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

static std::vector<double> noted;

static void note(const at::Tensor& x, double factor) { noted.push_back(x.item<double>() * factor); }
static std::vector<double> take() { return std::exchange(noted, {}); }
static void nap(const at::Tensor&, double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}
static void add_to(at::Tensor& x, const at::Tensor& y) { x.add_(y); }

TORCH_LIBRARY(test_effects, m) {
  m.def("note(Tensor x, float factor) -> ()");
  m.def("nap(Tensor x, float seconds) -> ()");
  m.def("add_to(Tensor(a!) x, Tensor y) -> ()");
  m.def("take() -> float[]");
  m.impl("take", take);
}
TORCH_LIBRARY_IMPL(test_effects, CPU, m) {
  m.impl("note", note);
  m.impl("nap", nap);
  m.impl("add_to", add_to);
}
TORCH_LIBRARY_IMPL(test_effects, Meta, m) {
  m.impl("note", [](const at::Tensor&, double) {});
  m.impl("nap", [](const at::Tensor&, double) {});
  m.impl("add_to", [](at::Tensor&, const at::Tensor&) {});
}
