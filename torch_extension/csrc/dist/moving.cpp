// The backend's data movement between all ranks of a group.
#include <limits>

#include "dist/calls.h"

namespace torchacc {
namespace {

// Tags for the messages of gathers and scatters, which no program uses for its own.
constexpr int64_t kGatherTag = std::numeric_limits<int>::max() - 1;
constexpr int64_t kScatterTag = std::numeric_limits<int>::max();

}  // namespace

WorkPtr AccBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (on_host(tensors)) return on_cpu([&] { return cpu_->broadcast(tensors, options); });
  check_one_place(tensors);
  const Recording recording("broadcast_");
  for (const at::Tensor& tensor : tensors) {
    const Target target = Target::of(tensor, tensor);
    communicator_.broadcast(target.memory(), options.rootRank);
    target.finish();
  }
  return recorded(OpType::BROADCAST, tensors);
}

WorkPtr AccBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) {
  if (on_host(inputs)) return on_cpu([&] { return cpu_->allgather(outputs, inputs, options); });
  check_one_place(inputs);
  check_count(outputs.size(), inputs.size(), "all_gather");
  const Recording recording("allgather_");
  Tensors results;
  for (size_t index = 0; index < inputs.size(); ++index) {
    const Tensors& targets = outputs[index];
    check_one_place(targets);
    check_count(targets.size(), getSize(), "all_gather");
    results.insert(results.end(), targets.begin(), targets.end());
    if (are_equal(numels_of(targets))) {
      const at::Tensor row = at::empty({numel_of(targets)}, inputs[index].options());
      check_sizes(row, inputs[index], getSize(), "all_gather");
      gathering(row).all_gather(row, inputs[index]);
      spread(row, targets);
      continue;
    }
    for (int rank = 0; rank < getSize(); ++rank) {
      const Target target(targets[rank]);
      if (rank == getRank()) target.memory().copy_(inputs[index]);
      communicator_.broadcast(target.memory(), rank);
      target.finish();
    }
  }
  return recorded(OpType::ALLGATHER, std::move(results));
}

WorkPtr AccBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) {
  // These lists are by rank, those of `allgather` by tensor.
  check_count(outputs.size(), getSize(), "all_gather_coalesced");
  std::vector<Tensors> by_tensor(inputs.size());
  for (const Tensors& of_rank : outputs) {
    check_count(of_rank.size(), inputs.size(), "all_gather_coalesced");
    for (size_t index = 0; index < inputs.size(); ++index)
      by_tensor[index].push_back(of_rank[index]);
  }
  return allgather(by_tensor, inputs, options);
}

WorkPtr AccBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions& options) {
  if (on_host(input)) return on_cpu([&] { return cpu_->_allgather_base(output, input, options); });
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPtr AccBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  if (on_host(inputs)) {
    return on_cpu([&] { return cpu_->allgather_into_tensor_coalesced(outputs, inputs, options); });
  }
  check_one_place(inputs);
  check_one_place(outputs);
  check_count(outputs.size(), inputs.size(), "all_gather_into_tensor");
  const Recording recording("_allgather_base_");
  for (size_t index = 0; index < inputs.size(); ++index) {
    check_sizes(outputs[index], inputs[index], getSize(), "all_gather_into_tensor");
    const Target target(outputs[index]);
    gathering(target.memory()).all_gather(target.memory(), inputs[index]);
    target.finish();
  }
  return recorded(OpType::_ALLGATHER_BASE, outputs);
}

void AccBackend::gather_to(int64_t root, const Tensors* outputs, const at::Tensor& input) {
  if (root != getRank()) return communicator_.send(input, root, kGatherTag);
  for (int rank = 0; rank < getSize(); ++rank) {
    const at::Tensor& output = outputs->at(rank);
    if (rank == root) {
      output.copy_(input);
      continue;
    }
    const Target target(output);
    communicator_.receive(target.memory(), rank, kGatherTag);
    target.finish();
  }
}

WorkPtr AccBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::GatherOptions& options) {
  if (on_host(inputs)) return on_cpu([&] { return cpu_->gather(outputs, inputs, options); });
  check_one_place(inputs);
  const Recording recording("gather_");
  const bool is_root = options.rootRank == getRank();
  check_count(outputs.size(), is_root ? 1 : 0, "gather");
  if (is_root) check_count(outputs[0].size(), getSize(), "gather");
  gather_to(options.rootRank, is_root ? &outputs[0] : nullptr, only(inputs, "gather"));
  return recorded(OpType::GATHER, is_root ? outputs[0] : Tensors());
}

void AccBackend::scatter_from(int64_t root, const at::Tensor& output, const Tensors* inputs) {
  if (root != getRank()) {
    const Target target(output);
    communicator_.receive(target.memory(), root, kScatterTag);
    return target.finish();
  }
  for (int rank = 0; rank < getSize(); ++rank) {
    if (rank == root) {
      output.copy_(inputs->at(rank));
    } else {
      communicator_.send(inputs->at(rank), rank, kScatterTag);
    }
  }
}

WorkPtr AccBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                            const c10d::ScatterOptions& options) {
  if (on_host(outputs)) return on_cpu([&] { return cpu_->scatter(outputs, inputs, options); });
  check_one_place(outputs);
  const Recording recording("scatter_");
  const bool is_root = options.rootRank == getRank();
  check_count(inputs.size(), is_root ? 1 : 0, "scatter");
  if (is_root) {
    check_count(inputs[0].size(), getSize(), "scatter");
    check_one_place(inputs[0]);
  }
  scatter_from(options.rootRank, only(outputs, "scatter"), is_root ? &inputs[0] : nullptr);
  return recorded(OpType::SCATTER, outputs);
}

WorkPtr AccBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                  std::vector<int64_t>& output_splits,
                                  std::vector<int64_t>& input_splits,
                                  const c10d::AllToAllOptions& options) {
  if (on_host(input)) {
    return on_cpu(
        [&] { return cpu_->alltoall_base(output, input, output_splits, input_splits, options); });
  }
  check_one_place({input, output});
  TORCH_CHECK(input.scalar_type() == output.scalar_type(), "all_to_all_single: tensors of types ",
              input.scalar_type(), " and ", output.scalar_type());
  c10d::checkSplitSizes(input_splits, input, getSize());
  c10d::checkSplitSizes(output_splits, output, getSize());
  const Recording recording("alltoall_base_");
  const Target target(output);
  if (input_splits.empty() && output_splits.empty()) {
    TORCH_CHECK(input.numel() == output.numel(), "all_to_all_single: ", input.numel(),
                " elements go and ", output.numel(), " come");
    communicator_.all_to_all(target.memory(), input);
  } else {
    const auto elements = [this](std::vector<int64_t> splits, const at::Tensor& tensor) {
      const int64_t rows = tensor.size(0);
      if (splits.empty()) splits.assign(getSize(), rows / getSize());
      for (int64_t& split : splits) split *= rows == 0 ? 0 : tensor.numel() / rows;
      return splits;
    };
    communicator_.exchange(target.memory(), input, elements(input_splits, input),
                           elements(output_splits, output));
  }
  target.finish();
  return recorded(OpType::ALLTOALL_BASE, {output});
}

WorkPtr AccBackend::alltoall(Tensors& outputs, Tensors& inputs,
                             const c10d::AllToAllOptions& options) {
  if (on_host(inputs)) {
    // Such a backend only has the single-tensor form.
    return on_cpu([&] {
      const at::Tensor from = joined(inputs);
      at::Tensor source = from, row = at::empty({numel_of(outputs)}, from.options());
      auto there = numels_of(inputs), back = numels_of(outputs);
      cpu_->alltoall_base(row, source, back, there, options)->wait();
      spread(row, outputs);
      return recorded(OpType::ALLTOALL, outputs);
    });
  }
  check_one_place(inputs);
  check_one_place(outputs);
  check_count(inputs.size(), getSize(), "all_to_all");
  check_count(outputs.size(), getSize(), "all_to_all");
  const Recording recording("alltoall_");
  const at::Tensor row = at::empty({numel_of(outputs)}, outputs[0].options());
  const auto there = numels_of(inputs), back = numels_of(outputs);
  communicator_.exchange(row, joined(inputs), there, back);
  spread(row, outputs);
  return recorded(OpType::ALLTOALL, outputs);
}

}  // namespace torchacc
