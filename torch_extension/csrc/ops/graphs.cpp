// torch.classes.acc.Graph: programs of the IR and of StableHLO, as functions of tensors.
#include <torch/custom_class.h>
#include <torch/library.h>

#include <memory>
#include <string>
#include <vector>

#include "record/arguments.h"
#include "record/recorder.h"
#include "runtime/allocator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

struct Release {
  void operator()(torchacc_graph* graph) const { torchacc_graph_free(graph); }
  void operator()(torchacc_tensor* tensor) const { torchacc_tensor_release(tensor); }
};

// Tensors as arguments; the arguments point into this object.
struct Views {
  Views(const char* what, const std::vector<at::Tensor>& tensors) {
    views.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) {
      TORCH_CHECK(is_acc(tensor), what, " ", views.size(), " of the module is on ",
                  tensor.device().str(), ", and not on acc");
      views.push_back(view_of(*tensor.unsafeGetTensorImpl()));
    }
    for (const torchacc_view& view : views) arguments.push_back(view_argument(view));
  }
  std::vector<torchacc_view> views;
  std::vector<torchacc_arg> arguments;
};

class Graph : public torch::CustomClassHolder {
 public:
  explicit Graph(const std::string& text) {
    torchacc_graph* graph = nullptr;
    check(torchacc_graph_parse(to_str(text), &graph));
    graph_.reset(graph);
  }

  // The operations recorded since `capture_begin`, as a function. `draws`: for each generator whose
  // state it takes, the seed, and the offsets at its beginning and end.
  static c10::intrusive_ptr<Graph> capture(int64_t number, const std::vector<at::Tensor>& inputs,
                                           const std::vector<at::Tensor>& outputs,
                                           const std::vector<int64_t>& draws) {
    const Views from("input", inputs), to("result", outputs);
    std::vector<torchacc_draws> drawn;
    for (size_t at = 0; at + 2 < draws.size(); at += 3) {
      const auto number_at = [&](size_t k) { return static_cast<uint64_t>(draws[at + k]); };
      drawn.push_back({number_at(0), number_at(1), number_at(2)});
    }
    torchacc_graph* graph = nullptr;
    check(torchacc_graph_capture_random(context(), number, from.arguments.data(),
                                        from.arguments.size(), to.arguments.data(),
                                        to.arguments.size(), drawn.data(), drawn.size(), &graph));
    return c10::make_intrusive<Graph>(graph);
  }

  explicit Graph(torchacc_graph* graph) : graph_(graph) {}

  std::string stablehlo() const {
    torchacc_string* text = nullptr;
    check(torchacc_graph_stablehlo(graph_.get(), &text));
    std::string copied = to_string(torchacc_string_view(text));
    torchacc_string_free(text);
    return copied;
  }

  int64_t results() const { return static_cast<int64_t>(torchacc_graph_outputs(graph_.get())); }

  // Records the program. `out` has an entry for each result: the tensor that the result goes into,
  // or none. Results of the latter become new tensors, which are returned.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& inputs,
                               const std::vector<std::optional<at::Tensor>>& out) const {
    const Views from("input", inputs);
    std::vector<torchacc_tensor*> made(torchacc_graph_outputs(graph_.get()), nullptr);
    TORCH_CHECK(out.size() == made.size(), "the module has ", made.size(), " results, and `out` ",
                out.size(), " tensors");
    std::vector<at::Tensor> given;
    for (const auto& one : out) {
      if (!one.has_value()) continue;
      TORCH_CHECK(!one->is_conj() && !one->is_neg(), "a conjugate in `out`: resolve_conj() first");
      given.push_back(*one);
    }
    const Views to("`out`", given);
    std::vector<torchacc_arg> into(out.size(), torchacc_arg{});
    for (size_t result = 0, next = 0; result < out.size(); ++result) {
      if (out[result].has_value()) into[result] = to.arguments[next++];
    }
    check(torchacc_graph_apply_into(context(), graph_.get(), from.arguments.data(),
                                    from.arguments.size(), into.data(), made.data(), made.size()));
    for (const at::Tensor& one : given) one.unsafeGetTensorImpl()->bump_version();
    return adopted(made);
  }

  // Runs the program now, by the given plugin, or that of TORCHACC_OPENXLA.
  std::vector<at::Tensor> run_on_openxla(const std::vector<at::Tensor>& inputs,
                                         const std::string& plugin) const {
    const Views from("input", inputs);
    std::vector<torchacc_tensor*> made(torchacc_graph_outputs(graph_.get()), nullptr);
    check(torchacc_graph_run_on_openxla(context(), graph_.get(), to_str(plugin),
                                        from.arguments.data(), from.arguments.size(), made.data(),
                                        made.size()));
    return adopted(made);
  }

 private:
  static std::vector<at::Tensor> adopted(const std::vector<torchacc_tensor*>& made) {
    std::vector<std::unique_ptr<torchacc_tensor, Release>> owned;
    for (torchacc_tensor* tensor : made) {
      if (tensor != nullptr) owned.emplace_back(tensor);
    }
    std::vector<at::Tensor> results;
    for (const auto& tensor : owned) {
      torchacc_view view{};
      check(torchacc_tensor_view(tensor.get(), &view));
      results.push_back(adopt_tensor(torchacc_buffer_retain(view.buffer), {view.sizes, view.rank},
                                     {view.strides, view.rank}, view.offset,
                                     to_scalar_type(view.dtype), current_device()));
    }
    return results;
  }

  std::unique_ptr<torchacc_graph, Release> graph_;
};

int64_t capture_begin() {
  uint64_t number = 0;
  check(torchacc_capture_begin(context(), &number));
  return static_cast<int64_t>(number);
}

TORCH_LIBRARY_FRAGMENT(acc, m) {
  m.def("capture_begin() -> int", &capture_begin);
  m.class_<Graph>("Graph")
      .def(torch::init<const std::string&>())
      .def_static("capture", &Graph::capture)
      .def("stablehlo", &Graph::stablehlo)
      .def("results", &Graph::results)
      .def("call", &Graph::call)
      .def("run_on_openxla", &Graph::run_on_openxla);
}

}  // namespace
}  // namespace torchacc
