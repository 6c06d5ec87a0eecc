// The backend's reductions.
#include "dist/calls.h"
#include "dist/reduction.h"

namespace torchacc {

WorkPtr AccBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (on_host(tensors)) return on_cpu([&] { return cpu_->allreduce(tensors, options); });
  check_one_place(tensors);
  const Recording recording("allreduce_");
  const auto reduction = reduction_name(options.reduceOp);
  for (const at::Tensor& tensor : tensors) {
    const Target target = Target::of(tensor, summand(options.reduceOp, tensor));
    communicator_.all_reduce(target.memory(), reduction);
    target.finish();
  }
  return recorded(OpType::ALLREDUCE, tensors);
}

WorkPtr AccBackend::allreduce_coalesced(Tensors& tensors,
                                        const c10d::AllreduceCoalescedOptions& options) {
  if (on_host(tensors)) return on_cpu([&] { return cpu_->allreduce_coalesced(tensors, options); });
  return allreduce(tensors, options);
}

WorkPtr AccBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  if (on_host(tensors)) return on_cpu([&] { return cpu_->reduce(tensors, options); });
  check_one_place(tensors);
  const Recording recording("reduce_");
  const auto reduction = reduction_name(options.reduceOp);
  for (const at::Tensor& tensor : tensors) {
    // Ranks other than the root keep their values.
    const at::Tensor part = summand(options.reduceOp, tensor);
    const at::Tensor memory = part.contiguous();
    communicator_.reduce(memory, reduction, options.rootRank);
    if (!memory.is_same(tensor) && options.rootRank == getRank()) tensor.copy_(memory);
  }
  return recorded(OpType::REDUCE, tensors);
}

WorkPtr AccBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                   const c10d::ReduceScatterOptions& options) {
  if (on_host(outputs)) {
    return on_cpu([&] { return cpu_->reduce_scatter(outputs, inputs, options); });
  }
  check_one_place(outputs);
  check_count(inputs.size(), outputs.size(), "reduce_scatter");
  const Recording recording("reduce_scatter_");
  const auto reduction = reduction_name(options.reduceOp);
  for (size_t index = 0; index < outputs.size(); ++index) {
    const Tensors& parts = inputs[index];
    check_one_place(parts);
    check_count(parts.size(), getSize(), "reduce_scatter");
    TORCH_CHECK(parts[getRank()].numel() == outputs[index].numel(),
                "reduce_scatter: ", parts[getRank()].numel(), " elements come to a tensor of ",
                outputs[index].numel());
    if (are_equal(numels_of(parts))) {
      const at::Tensor whole = summand(options.reduceOp, joined(parts));
      const Target target(outputs[index], whole);
      communicator_.reduce_scatter(target.memory(), whole, reduction);
      target.finish();
      continue;
    }
    for (int rank = 0; rank < getSize(); ++rank) {
      const at::Tensor part =
          summand(options.reduceOp, parts[rank]).clone(at::MemoryFormat::Contiguous);
      communicator_.reduce(part, reduction, rank);
      if (rank == getRank()) outputs[index].copy_(part.view(outputs[index].sizes()));
    }
  }
  return recorded(OpType::REDUCE_SCATTER, outputs);
}

WorkPtr AccBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                         const c10d::ReduceScatterOptions& options) {
  if (on_host(input)) {
    return on_cpu([&] { return cpu_->_reduce_scatter_base(output, input, options); });
  }
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPtr AccBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::ReduceScatterOptions& options) {
  if (on_host(inputs)) {
    return on_cpu([&] { return cpu_->reduce_scatter_tensor_coalesced(outputs, inputs, options); });
  }
  check_one_place(inputs);
  check_one_place(outputs);
  check_count(outputs.size(), inputs.size(), "reduce_scatter_tensor");
  const Recording recording("_reduce_scatter_base_");
  const auto reduction = reduction_name(options.reduceOp);
  for (size_t index = 0; index < inputs.size(); ++index) {
    check_sizes(inputs[index], outputs[index], getSize(), "reduce_scatter_tensor");
    const at::Tensor whole = summand(options.reduceOp, inputs[index]);
    const Target target(outputs[index], whole);
    communicator_.reduce_scatter(target.memory(), whole, reduction);
    target.finish();
  }
  return recorded(OpType::_REDUCE_SCATTER_BASE, outputs);
}

}  // namespace torchacc
