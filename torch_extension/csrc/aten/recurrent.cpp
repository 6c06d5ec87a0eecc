// Long short-term memory over whole sequences, as a composition of differentiable operators.
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/stack.h>

#include "aten/kernels.h"

namespace torchacc {
namespace {

struct Weights {
  at::Tensor input, hidden;
  std::optional<at::Tensor> bias;  // of both products
};

// Number `index` among the layers and their directions.
Weights weights_of(at::TensorList parameters, bool has_biases, int64_t index) {
  const int64_t each = has_biases ? 4 : 2, first = index * each;
  Weights weights{parameters[first], parameters[first + 1], std::nullopt};
  if (has_biases) weights.bias = at::add(parameters[first + 2], parameters[first + 3]);
  return weights;
}

struct State {
  at::Tensor hidden, cell;
};

// One direction of one layer over input [time, batch, width]: its outputs and the state it leaves.
// PyTorch multiplies inputs with their weights step by step on devices with fused cells; all steps
// at once are one large product, and its gradient another.
std::pair<at::Tensor, State> one_direction(const at::Tensor& input, State state,
                                           const Weights& weights, bool backwards) {
  const auto gates = at::linear(input, weights.input, weights.bias).unbind(0);
  std::vector<at::Tensor> outputs(gates.size());
  for (size_t step = 0; step < gates.size(); ++step) {
    const size_t time = backwards ? gates.size() - 1 - step : step;
    std::tie(state.hidden, state.cell, std::ignore) =
        lstm_cell(gates[time], at::linear(state.hidden, weights.hidden), state.cell, std::nullopt,
                  std::nullopt);
    outputs[time] = state.hidden;
  }
  return {at::stack(outputs), state};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(const at::Tensor& input, at::TensorList states,
                                                    at::TensorList parameters, bool has_biases,
                                                    int64_t layers, double dropout, bool train,
                                                    bool bidirectional, bool batch_first) {
  const int64_t directions = bidirectional ? 2 : 1;
  const auto expected = static_cast<size_t>(layers * directions * (has_biases ? 4 : 2));
  // Projections, empty sequences, and calls that PyTorch refuses with better words than ours.
  const bool plain = states.size() == 2 && parameters.size() == expected && input.dim() == 3 &&
                     input.numel() != 0 && states[0].dim() == 3 &&
                     states[0].sizes() == states[1].sizes() &&
                     states[0].size(0) == layers * directions &&
                     states[0].size(1) == input.size(batch_first ? 0 : 1);
  if (!plain) {
    return at::native::lstm(input, states, parameters, has_biases, layers, dropout, train,
                            bidirectional, batch_first);
  }
  at::Tensor x = batch_first ? input.transpose(0, 1) : input;
  std::vector<at::Tensor> hidden, cells;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t index = layer * directions + direction;
      auto [output, state] = one_direction(x, {states[0][index], states[1][index]},
                                           weights_of(parameters, has_biases, index), direction);
      outputs.push_back(output);
      hidden.push_back(state.hidden);
      cells.push_back(state.cell);
    }
    x = bidirectional ? at::cat(outputs, -1) : outputs[0];
    if (dropout > 0 && train && layer + 1 < layers) x = at::dropout(x, dropout, train);
  }
  return {batch_first ? x.transpose(0, 1) : x, at::stack(hidden), at::stack(cells)};
}

}  // namespace torchacc
