#include "dist/parameters.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <utility>

namespace torchacc {
namespace {

thread_local bool t_gathers_parameters = false;

TORCH_LIBRARY_FRAGMENT(acc, m) {
  m.def("gathers_parameters(bool on) -> bool",
        [](bool on) { return std::exchange(t_gathers_parameters, on); });
}

}  // namespace

Gathered what_is_gathered() {
  if (!t_gathers_parameters) return Gathered::kAnything;
  const bool in_backward = torch::autograd::get_current_graph_task_id() != -1;
  return in_backward ? Gathered::kParametersAgain : Gathered::kParameters;
}

}  // namespace torchacc
