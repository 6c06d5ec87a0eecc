// Recurrent layers over whole sequences: one recorded operation per direction of a layer, where
// PyTorch goes step by step on devices that it does not know.
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "aten/kernels.h"
#include "aten/packing.h"
#include "record/arguments.h"
#include "record/operator.h"
#include "record/recorder.h"
#include "runtime/allocator.h"

namespace torchacc {
namespace {

enum class Cell : int64_t { kTanh, kRelu, kLstm, kGru };
constexpr std::array<std::string_view, 4> kNames{"tanh", "relu", "lstm", "gru"};

int64_t gates_of(Cell cell) {
  switch (cell) {
    case Cell::kLstm:
      return 4;
    case Cell::kGru:
      return 3;
    default:
      return 1;
  }
}

int64_t saved_of(Cell cell) {
  switch (cell) {
    case Cell::kLstm:
      return 5;
    case Cell::kGru:
      return 4;
    default:
      return 0;
  }
}

bool has_more(Cell cell) { return cell == Cell::kLstm || cell == Cell::kGru; }

struct Natives {
  std::optional<torchacc_op> forward, backward;
};

const Natives& natives() {
  static const Natives found{find_native("recurrent"), find_native("recurrent_grad")};
  return found;
}

using Tensors = std::array<at::Tensor, 3>;

// Records `op` with three results of these sizes.
Tensors record_layer(torchacc_op op, std::initializer_list<at::Tensor> operands, Cell cell,
                     bool reverse, std::array<c10::SmallVector<int64_t, 3>, 3> sizes) {
  c10::SmallVector<torchacc_view, 7> views;
  c10::SmallVector<torchacc_arg, 9> arguments;
  for (const at::Tensor& operand : operands) {
    if (operand.defined()) views.push_back(view_of(*operand.unsafeGetTensorImpl()));
  }
  for (const torchacc_view& view : views) arguments.push_back(view_argument(view));
  arguments.push_back(text_argument(kNames[static_cast<size_t>(cell)]));
  arguments.push_back(integer_argument(TORCHACC_ARG_BOOL, reverse));
  const at::Tensor& first = *operands.begin();
  Tensors results;
  c10::SmallVector<torchacc_view, 3> outputs;
  for (size_t n = 0; n < results.size(); ++n) {
    results[n] = make_tensor(sizes[n], c10::contiguous_strides(sizes[n]), first.scalar_type(),
                             first.device().index());
    outputs.push_back(view_of(*results[n].unsafeGetTensorImpl()));
  }
  record_native(op, arguments, outputs);
  return results;
}

struct State {
  at::Tensor hidden, more;  // the cell of an LSTM; for a GRU the bias multiplied by the reset gate
};

// A layer step by step, in differentiable operators: its outputs, and its final state.
std::pair<at::Tensor, State> steps(const at::Tensor& gates, const at::Tensor& weights, State state,
                                   Cell cell, bool reverse) {
  const auto given = gates.unbind(0);
  std::vector<at::Tensor> outputs(given.size());
  for (size_t step = 0; step < given.size(); ++step) {
    const size_t time = reverse ? given.size() - 1 - step : step;
    const at::Tensor products = at::linear(state.hidden, weights);
    switch (cell) {
      case Cell::kTanh:
        state.hidden = at::tanh(at::add(given[time], products));
        break;
      case Cell::kRelu:
        state.hidden = at::relu(at::add(given[time], products));
        break;
      case Cell::kLstm:
        std::tie(state.hidden, state.more, std::ignore) =
            lstm_cell(given[time], products, state.more, std::nullopt, std::nullopt);
        break;
      case Cell::kGru: {
        const at::Tensor none = at::zeros({2 * state.more.size(0)}, state.more.options());
        std::tie(state.hidden, std::ignore) = gru_cell(given[time], products, state.hidden,
                                                       std::nullopt, at::cat({none, state.more}));
        break;
      }
    }
    outputs[time] = state.hidden;
  }
  return {at::stack(outputs), state};
}

// Takes gates [time, batch, gates * units] of the input, weights [gates * units, units], the states
// [batch, units] before the first step, and for a GRU the bias [units] that its reset gate
// multiplies. Returns outputs [time, batch, units], and the last cell of an LSTM.
class Layer : public torch::autograd::Function<Layer> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& gates, const at::Tensor& weights,
                                                const at::Tensor& hidden, const at::Tensor& more,
                                                int64_t kind, bool reverse) {
    const Cell cell{kind};
    const int64_t time = gates.size(0), batch = gates.size(1), units = weights.size(1);
    const auto [output, last, saved] =
        record_layer(*natives().forward,
                     {gates, weights, hidden, has_more(cell) ? more : at::Tensor()}, cell, reverse,
                     {{{time, batch, units},
                       {batch, cell == Cell::kLstm ? units : 0},
                       {time, batch, saved_of(cell) * units}}});
    context->save_for_backward({gates, weights, hidden, more, output, saved});
    context->saved_data["cell"] = kind;
    context->saved_data["reverse"] = reverse;
    return {output, last};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gates = saved[0], &weights = saved[1], &hidden = saved[2], &more = saved[3],
                     &output = saved[4];
    const Cell cell{context->saved_data["cell"].toInt()};
    const bool reverse = context->saved_data["reverse"].toBool();
    const bool is_transformed =
        std::any_of(gradients.begin(), gradients.end(), [](const at::Tensor& gradient) {
          return gradient.defined() && at::isTensorSubclassLike(gradient);
        });
    if (is_transformed || at::GradMode::is_enabled())
      return step_by_step(saved, gradients, cell, reverse);
    const int64_t time = gates.size(0), batch = gates.size(1), units = weights.size(1);
    const at::Tensor of_output = gradients[0].defined() ? gradients[0] : at::zeros_like(output);
    at::Tensor of_last;
    if (cell == Cell::kLstm) {
      of_last = gradients[1].defined() ? gradients[1] : at::zeros_like(more);
    }
    c10::SmallVector<int64_t, 3> third{batch, cell == Cell::kLstm ? units : 0};
    if (cell == Cell::kGru) third = {time, batch, units};
    const auto [of_gates, of_hidden, of_more] = record_layer(
        *natives().backward,
        {of_output, weights, hidden, output, saved[5], cell == Cell::kLstm ? more : at::Tensor(),
         of_last},
        cell, reverse, {{{time, batch, gates_of(cell) * units}, {batch, units}, third}});
    at::Tensor of_products = of_gates;
    if (cell == Cell::kGru) {
      of_products = at::cat({of_gates.narrow(2, 0, 2 * units), of_more}, 2);
    }
    const at::Tensor first = hidden.unsqueeze(0);
    const at::Tensor before = reverse ? at::cat({output.narrow(0, 1, time - 1), first}, 0)
                                      : at::cat({first, output.narrow(0, 0, time - 1)}, 0);
    const at::Tensor of_weights = of_products.flatten(0, 1).t().mm(before.flatten(0, 1));
    at::Tensor of_state;
    if (cell == Cell::kLstm) of_state = of_more;
    if (cell == Cell::kGru) of_state = of_more.sum(at::IntArrayRef{0, 1});
    return {of_gates, of_weights, of_hidden, of_state, at::Tensor(), at::Tensor()};
  }

 private:
  // For second derivatives, and for several gradients at once: differentiates the steps, which are
  // computed again.
  static torch::autograd::variable_list step_by_step(
      const torch::autograd::variable_list& saved, const torch::autograd::variable_list& gradients,
      Cell cell, bool reverse) {
    const bool is_differentiable = at::GradMode::is_enabled();
    const at::AutoGradMode graph(true);
    const auto [output, last] = steps(saved[0], saved[1], {saved[2], saved[3]}, cell, reverse);
    torch::autograd::variable_list results, of_results, inputs;
    const auto add = [&](const at::Tensor& result, const at::Tensor& gradient) {
      if (!gradient.defined()) return;
      results.push_back(result);
      of_results.push_back(gradient);
    };
    add(output, gradients[0]);
    if (cell == Cell::kLstm) add(last.more, gradients[1]);
    std::vector<size_t> places;
    for (size_t n = 0; n < (has_more(cell) ? 4 : 3); ++n) {
      if (!saved[n].requires_grad()) continue;
      places.push_back(n);
      inputs.push_back(saved[n]);
    }
    torch::autograd::variable_list all(6);
    if (results.empty() || inputs.empty()) return all;
    const auto found = torch::autograd::grad(results, inputs, of_results, /*retain_graph=*/true,
                                             is_differentiable, /*allow_unused=*/true);
    for (size_t n = 0; n < places.size(); ++n) all[places[n]] = found[n];
    return all;
  }
};

// The parameters of one direction of one layer.
struct Weights {
  at::Tensor input, hidden;
  std::optional<at::Tensor> input_bias, hidden_bias;
};

// The parameters of direction `index`, counted over all layers.
Weights weights_of(at::TensorList parameters, bool has_biases, int64_t index) {
  const int64_t each = has_biases ? 4 : 2, first = index * each;
  Weights weights{parameters[first], parameters[first + 1], std::nullopt, std::nullopt};
  if (has_biases) {
    weights.input_bias = parameters[first + 2];
    weights.hidden_bias = parameters[first + 3];
  }
  return weights;
}

// Whether the layer can be one operation: if all tensors are plain and without transforms.
bool whole(const at::Tensor& input, at::TensorList states, at::TensorList parameters) {
  if (!natives().forward || !natives().backward) return false;
  const auto is_plain = [&](const at::Tensor& tensor) {
    return tensor.device() == input.device() && tensor.scalar_type() == input.scalar_type() &&
           !at::isTensorSubclassLike(tensor) && !tensor._fw_grad(/*level=*/0).defined();
  };
  return at::isFloatingType(input.scalar_type()) && is_plain(input) &&
         std::all_of(states.begin(), states.end(), is_plain) &&
         std::all_of(parameters.begin(), parameters.end(), is_plain);
}

// LSTM gates that keep the cell as it is.
at::Tensor keeping_gates(int64_t units, const at::TensorOptions& options) {
  const auto infinity = std::numeric_limits<double>::infinity();
  return at::cat({at::full({units}, -infinity, options), at::full({units}, infinity, options),
                  at::zeros({2 * units}, options)});
}

// One direction of one layer over input [time, batch, width], or packed steps [steps, width]: its
// outputs, and its final state. All steps share one product with the input, and one in its
// gradient.
std::pair<at::Tensor, State> one_direction(const at::Tensor& input, State state,
                                           const Weights& weights, Cell cell, bool reverse,
                                           bool is_whole, const Packing* packing) {
  std::optional<at::Tensor> bias = weights.input_bias;
  if (cell == Cell::kGru) {
    const int64_t units = weights.hidden.size(1);
    if (weights.hidden_bias) {
      const at::Tensor& of_hidden = *weights.hidden_bias;
      state.more = of_hidden.narrow(0, 2 * units, units);
      bias = at::add(*bias, at::cat({of_hidden.narrow(0, 0, 2 * units),
                                     at::zeros({units}, of_hidden.options())}));
    } else {
      state.more = at::zeros({units}, weights.hidden.options());
    }
  } else if (bias) {
    bias = at::add(*bias, *weights.hidden_bias);
  }
  at::Tensor gates = at::linear(input, weights.input, bias);
  if (packing != nullptr) {
    gates = packing->to_batch(gates, reverse);
    if (cell == Cell::kLstm) {
      gates = packing->filled(gates, keeping_gates(weights.hidden.size(1), gates.options()));
    }
  }
  if (!is_whole) return steps(gates, weights.hidden, state, cell, reverse);
  const c10::ScalarType given = gates.scalar_type();
  const c10::ScalarType dtype = given == at::kDouble ? at::kDouble : at::kFloat;
  // If the cell has no such state, another tensor takes its place: autograd does not take undefined
  // tensors.
  const at::Tensor& more = has_more(cell) ? state.more : state.hidden;
  auto results =
      Layer::apply(gates.to(dtype), weights.hidden.to(dtype), state.hidden.to(dtype),
                   more.to(dtype), static_cast<int64_t>(cell), reverse && packing == nullptr);
  at::Tensor output = results[0].to(given);
  const at::Tensor last = results[1].to(given);
  if (packing != nullptr)
    return {packing->to_packed(output, reverse), {packing->ends(output), last}};
  // The gradient reads the outputs, which the program may write to, as with the outputs of steps.
  // If the gradient is in the same program, the copy is the same value.
  if (output.is_same(results[0]) && output.requires_grad()) output = output.clone();
  return {output, {output.select(0, reverse ? 0 : output.size(0) - 1), last}};
}

struct Results {
  at::Tensor output, hidden, cell;
};

// The arguments of PyTorch's operators besides the input.
struct Layers {
  std::vector<at::Tensor> states, parameters;
  bool has_biases;
  int64_t count;
  double dropout;
  bool train, bidirectional;
};

// Whether the call is neither one for PyTorch to refuse, with better messages than ours, nor has
// projections.
bool are_known(const Layers& layers, int64_t batch) {
  const int64_t rows = layers.count * (layers.bidirectional ? 2 : 1);
  const auto& parameters = layers.parameters;
  return parameters.size() == static_cast<size_t>(rows * (layers.has_biases ? 4 : 2)) &&
         std::all_of(layers.states.begin(), layers.states.end(), [&](const at::Tensor& state) {
           return state.dim() == 3 && state.size(0) == rows && state.size(1) == batch &&
                  state.size(2) == parameters[1].size(1);
         });
}

// Casts to the autocast type if autocast is on, like cuDNN.
std::optional<c10::impl::ExcludeDispatchKeyGuard> converted(at::Tensor& input, Layers& layers) {
  const c10::DeviceType device = input.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(device);
  const auto convert = [&](at::Tensor& tensor) {
    tensor = at::autocast::cached_cast(dtype, tensor, device);
  };
  convert(input);
  std::for_each(layers.states.begin(), layers.states.end(), convert);
  std::for_each(layers.parameters.begin(), layers.parameters.end(), convert);
  return std::make_optional<c10::impl::ExcludeDispatchKeyGuard>(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
}

// All layers over [time, batch, width], or over packed steps.
Results results_of(Cell cell, at::Tensor x, const Layers& layers, bool is_whole,
                   const Packing* packing) {
  const int64_t directions = layers.bidirectional ? 2 : 1;
  std::vector<at::Tensor> hidden, cells;
  for (int64_t layer = 0; layer < layers.count; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t index = layer * directions + direction;
      State state{layers.states[0][index], {}};
      if (cell == Cell::kLstm) state.more = layers.states[1][index];
      auto [output, left] =
          one_direction(x, state, weights_of(layers.parameters, layers.has_biases, index), cell,
                        direction, is_whole, packing);
      outputs.push_back(output);
      hidden.push_back(left.hidden);
      if (cell == Cell::kLstm) cells.push_back(left.more);
    }
    x = layers.bidirectional ? at::cat(outputs, -1) : outputs[0];
    if (layers.dropout > 0 && layers.train && layer + 1 < layers.count) {
      x = at::dropout(x, layers.dropout, layers.train);
    }
  }
  return {x, at::stack(hidden), cells.empty() ? at::Tensor() : at::stack(cells)};
}

// Nothing for calls left to PyTorch, such as those on empty sequences.
std::optional<Results> layers_of(Cell cell, at::Tensor input, Layers layers, bool batch_first) {
  if (input.dim() != 3 || input.numel() == 0 || !are_known(layers, input.size(batch_first ? 0 : 1)))
    return std::nullopt;
  const auto guard = converted(input, layers);
  const bool is_whole = whole(input, layers.states, layers.parameters);
  if (batch_first) input = input.transpose(0, 1);
  Results results = results_of(cell, input, layers, is_whole, nullptr);
  if (batch_first) results.output = results.output.transpose(0, 1);
  return results;
}

// The same for packed sequences.
std::optional<Results> packed_layers_of(Cell cell, at::Tensor steps, const at::Tensor& batch_sizes,
                                        Layers layers) {
  if (steps.dim() != 2 || steps.numel() == 0) return std::nullopt;
  const auto guard = converted(steps, layers);
  if (!whole(steps, layers.states, layers.parameters)) return std::nullopt;
  const auto packing = Packing::of(batch_sizes, steps.device(), layers.bidirectional);
  if (!packing || packing->steps() != steps.size(0) || !are_known(layers, packing->batch()))
    return std::nullopt;
  if (!packing->is_even()) return results_of(cell, steps, layers, true, &*packing);
  Results results = results_of(cell, packing->to_batch(steps, false), layers, true, nullptr);
  results.output = results.output.flatten(0, 1);
  return results;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(const at::Tensor& input, at::TensorList states,
                                                    at::TensorList parameters, bool has_biases,
                                                    int64_t layers, double dropout, bool train,
                                                    bool bidirectional, bool batch_first) {
  if (states.size() == 2) {
    const Layers all{states.vec(), parameters.vec(), has_biases, layers, dropout,
                     train,        bidirectional};
    if (auto found = layers_of(Cell::kLstm, input, all, batch_first))
      return {found->output, found->hidden, found->cell};
  }
  return at::native::lstm(input, states, parameters, has_biases, layers, dropout, train,
                          bidirectional, batch_first);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> packed_lstm(
    const at::Tensor& data, const at::Tensor& batch_sizes, at::TensorList states,
    at::TensorList parameters, bool has_biases, int64_t layers, double dropout, bool train,
    bool bidirectional) {
  if (states.size() == 2) {
    const Layers all{states.vec(), parameters.vec(), has_biases, layers, dropout,
                     train,        bidirectional};
    if (auto found = packed_layers_of(Cell::kLstm, data, batch_sizes, all))
      return {found->output, found->hidden, found->cell};
  }
  return at::native::lstm(data, batch_sizes, states, parameters, has_biases, layers, dropout, train,
                          bidirectional);
}

#define TORCHACC_RECURRENT(name, cell)                                                          \
  std::tuple<at::Tensor, at::Tensor> name(const at::Tensor& input, const at::Tensor& hidden,    \
                                          at::TensorList parameters, bool has_biases,           \
                                          int64_t layers, double dropout, bool train,           \
                                          bool bidirectional, bool batch_first) {               \
    const Layers all{                                                                           \
        {hidden}, parameters.vec(), has_biases, layers, dropout, train, bidirectional};         \
    if (auto found = layers_of(cell, input, all, batch_first))                                  \
      return {found->output, found->hidden};                                                    \
    return at::native::name(input, hidden, parameters, has_biases, layers, dropout, train,      \
                            bidirectional, batch_first);                                        \
  }                                                                                             \
  std::tuple<at::Tensor, at::Tensor> packed_##name(                                             \
      const at::Tensor& data, const at::Tensor& batch_sizes, const at::Tensor& hidden,          \
      at::TensorList parameters, bool has_biases, int64_t layers, double dropout, bool train,   \
      bool bidirectional) {                                                                     \
    const Layers all{                                                                           \
        {hidden}, parameters.vec(), has_biases, layers, dropout, train, bidirectional};         \
    if (auto found = packed_layers_of(cell, data, batch_sizes, all))                            \
      return {found->output, found->hidden};                                                    \
    return at::native::name(data, batch_sizes, hidden, parameters, has_biases, layers, dropout, \
                            train, bidirectional);                                              \
  }

TORCHACC_RECURRENT(gru, Cell::kGru)
TORCHACC_RECURRENT(rnn_tanh, Cell::kTanh)
TORCHACC_RECURRENT(rnn_relu, Cell::kRelu)

#undef TORCHACC_RECURRENT

}  // namespace torchacc
