#include "dist/parameters.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_compat.h>

#include <string_view>

namespace torchacc {
namespace {

// PyTorch's files that gather parameters, the newer API's and the older one's.
bool gathers_parameters(std::string_view file) {
  for (const std::string_view own : {"/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py",
                                     "/torch/distributed/fsdp/_flat_param.py"}) {
    if (file.size() >= own.size() && file.substr(file.size() - own.size()) == own) return true;
  }
  return false;
}

// Whether one of them is on the Python stack, of which `kDeepest` frames suffice: it calls
// torch.distributed's function, which may be wrapped.
bool is_asked_by_sharding() {
  constexpr int kDeepest = 8;
  const pybind11::gil_scoped_acquire gil;
  auto frame = pybind11::reinterpret_borrow<pybind11::object>(
      reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  for (int depth = 0; depth < kDeepest && frame && !frame.is_none(); ++depth) {
    const auto file = frame.attr("f_code").attr("co_filename");
    if (gathers_parameters(pybind11::cast<std::string_view>(file))) return true;
    frame = frame.attr("f_back");
  }
  return false;
}

}  // namespace

Gathered what_is_gathered() {
  if (!is_asked_by_sharding()) return Gathered::kAnything;
  const bool in_backward = torch::autograd::get_current_graph_task_id() != -1;
  return in_backward ? Gathered::kParametersAgain : Gathered::kParameters;
}

}  // namespace torchacc
