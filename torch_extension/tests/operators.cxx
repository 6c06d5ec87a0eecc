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

// Running sums, written in the second operand: a loop, whose registration has no signature as those
// of the stable ABI, and a composition.
static void sum_up(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const at::Tensor sums = torch::jit::pop(*stack).toTensor();
  const at::Tensor x = torch::jit::pop(*stack).toTensor();
  float sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i) sums.data_ptr<float>()[i] = sum += x.data_ptr<float>()[i];
  stack->emplace_back(sums);
}
static at::Tensor sum_up_by_operators(const at::Tensor& x, at::Tensor& sums) {
  for (int64_t i = 0; i < x.numel(); ++i) sums.slice(0, i).add_(x[i]);
  return sums;
}

TORCH_LIBRARY(test_effects, m) {
  m.def("note(Tensor x, float factor) -> ()");
  m.def("threads(Tensor x) -> ()");
  m.def("hold(Tensor x, int handle) -> ()");
  m.def("add_to(Tensor(a!) x, Tensor y) -> ()");
  m.def("sum_up(Tensor x, Tensor(a!) sums) -> Tensor(a!)");
  m.def("take() -> float[]");
  m.impl("take", take);
}
TORCH_LIBRARY_IMPL(test_effects, CPU, m) {
  m.impl("note", note);
  m.impl("threads", threads);
  m.impl("hold", hold);
  m.impl("add_to", add_to);
  m.impl("sum_up", torch::CppFunction::makeFromBoxedFunction<&sum_up>());
}
TORCH_LIBRARY_IMPL(test_effects, CompositeExplicitAutograd, m) {
  m.impl("sum_up", sum_up_by_operators);
}
TORCH_LIBRARY_IMPL(test_effects, Meta, m) {
  m.impl("note", [](const at::Tensor&, double) {});
  m.impl("threads", [](const at::Tensor&) {});
  m.impl("hold", [](const at::Tensor&, int64_t) {});
  m.impl("add_to", [](at::Tensor&, const at::Tensor&) {});
}
