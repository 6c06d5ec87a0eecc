#include "dist/backend.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <limits>

#include "dist/reduction.h"
#include "dist/work.h"
#include "record/dispatch.h"
#include "record/location.h"
#include "runtime/allocator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using c10d::OpType;

// Of messages that belong to a gather or a scatter: no program numbers its own so.
constexpr int64_t kGatherTag = std::numeric_limits<int>::max() - 1;
constexpr int64_t kScatterTag = std::numeric_limits<int>::max();

// While it lives what is recorded belongs to this call of c10d, and no gradient flows.
class Recording {
 public:
  explicit Recording(const char* name) : name_(std::string("c10d::") + name), scope_(name_) {}

 private:
  const std::string name_;
  const RecordingScope scope_;
  const DispatchBelowAutograd below_;
  const at::NoGradGuard no_grad_;
};

bool on_host(const at::Tensor& tensor) { return tensor.defined() && tensor.is_cpu(); }
bool on_host(const Tensors& tensors) { return !tensors.empty() && on_host(tensors.front()); }

// A contiguous tensor that becomes `target` in the end: that itself, if it is contiguous.
class Target {
 public:
  // For what comes, of the type of `summand` if that is given.
  explicit Target(const at::Tensor& target, const at::Tensor& summand = at::Tensor())
      : target_(target) {
    const auto type = summand.defined() ? summand.scalar_type() : target.scalar_type();
    const bool is_it = target.is_contiguous() && type == target.scalar_type();
    memory_ = is_it ? target : at::empty(target.sizes(), target.options().dtype(type));
  }
  // For what is changed in place: at first it is `summand`, which may be `target`.
  static Target of(const at::Tensor& target, const at::Tensor& summand) {
    Target made(target, summand);
    if (!made.memory_.is_same(target)) {
      made.memory_ = summand.is_same(target) ? target.contiguous() : summand;
    } else if (!summand.is_same(target)) {
      target.copy_(summand);
    }
    return made;
  }
  const at::Tensor& memory() const { return memory_; }
  void finish() const {
    if (!memory_.is_same(target_)) target_.copy_(memory_);
  }

 private:
  at::Tensor target_;
  at::Tensor memory_;
};

int64_t numel_of(const Tensors& tensors) {
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.numel();
  return total;
}

std::vector<int64_t> numels_of(const Tensors& tensors) {
  std::vector<int64_t> numels;
  for (const at::Tensor& tensor : tensors) numels.push_back(tensor.numel());
  return numels;
}

bool are_equal(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t value) { return value == values.front(); });
}

// All elements of several tensors, one after the other.
at::Tensor joined(const Tensors& tensors) {
  Tensors rows;
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.reshape({-1}));
  return at::cat(rows);
}

void spread(const at::Tensor& row, const Tensors& targets) {
  int64_t offset = 0;
  for (const at::Tensor& target : targets) {
    target.copy_(row.narrow(0, offset, target.numel()).view(target.sizes()));
    offset += target.numel();
  }
}

void check_sizes(const at::Tensor& whole, const at::Tensor& part, int ranks, const char* what) {
  TORCH_CHECK(whole.numel() == part.numel() * ranks, what, ": ", part.numel(),
              " elements of each of ", ranks, " ranks are not the ", whole.numel(),
              " of the whole tensor");
  TORCH_CHECK(whole.scalar_type() == part.scalar_type(), what, ": tensors of types ",
              whole.scalar_type(), " and ", part.scalar_type());
}

void check_count(size_t count, size_t expected, const char* what) {
  TORCH_CHECK(count == expected, what, ": ", count, " tensors where ", expected, " belong");
}

const at::Tensor& only(const Tensors& tensors, const char* what) {
  check_count(tensors.size(), 1, what);
  return tensors.front();
}

// Everything that was recorded has run: what follows is called by this thread.
template <class Call>
WorkPtr on_cpu(Call call) {
  synchronize();
  return call();
}

}  // namespace

AccBackend::AccBackend(CpuBackend cpu, c10::intrusive_ptr<c10d::Store> store, std::string name)
    : Backend(cpu->getRank(), cpu->getSize()),
      cpu_(std::move(cpu)),
      name_(std::move(name)),
      communicator_(cpu_, std::move(store), name_) {}

void AccBackend::check_one_place(const Tensors& tensors) const {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(is_acc(tensor) && tensor.layout() == at::kStrided, "process group \"", name_,
                "\" takes dense tensors of acc together, or of the CPU; there is one on ",
                tensor.device(), " with layout ", tensor.layout());
  }
}

WorkPtr AccBackend::recorded(OpType type, Tensors results) {
  ++sequence_;
  if (coalesces_) coalesced_.insert(coalesced_.end(), results.begin(), results.end());
  return c10::make_intrusive<RecordedWork>(type, std::move(results));
}

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
    // Ranks that are not the root keep what they have.
    const at::Tensor part = summand(options.reduceOp, tensor);
    const at::Tensor memory = part.contiguous();
    communicator_.reduce(memory, reduction, options.rootRank);
    if (!memory.is_same(tensor) && options.rootRank == getRank()) tensor.copy_(memory);
  }
  return recorded(OpType::REDUCE, tensors);
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
      communicator_.all_gather(row, inputs[index]);
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
  // Here the lists are by rank, there by tensor.
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
    communicator_.all_gather(target.memory(), inputs[index]);
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
    // Such a backend has the form for one tensor only.
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

WorkPtr AccBackend::send(Tensors& tensors, int rank, int tag) {
  if (on_host(tensors)) return on_cpu([&] { return cpu_->send(tensors, rank, tag); });
  check_one_place(tensors);
  const Recording recording("send");
  communicator_.send(only(tensors, "send"), rank, tag);
  return recorded(OpType::SEND, tensors);
}

// Recorded when somebody asks for the result, after the sends that come meanwhile: of two ranks
// that ask each other first and send then, neither would get as far as its send.
WorkPtr AccBackend::recv(Tensors& tensors, int rank, int tag) {
  if (on_host(tensors)) return on_cpu([&] { return cpu_->recv(tensors, rank, tag); });
  check_one_place(tensors);
  receives_.push_back({only(tensors, "recv"), rank, tag});
  const uint64_t number = first_receive_ + receives_.size() - 1;
  ++sequence_;
  if (coalesces_) coalesced_.push_back(tensors.front());
  auto self = c10::intrusive_ptr<AccBackend>::reclaim_copy(this);
  return c10::make_intrusive<RecordedWork>(OpType::RECV, tensors,
                                           [self, number] { self->receive_until(number); });
}

// In the order in which they were asked for: messages of one tag come in order.
void AccBackend::receive_until(uint64_t number) {
  const Recording recording("recv_");
  while (first_receive_ <= number && !receives_.empty()) {
    const Receive next = std::move(receives_.front());
    receives_.pop_front();
    ++first_receive_;
    const Target target(next.tensor);
    communicator_.receive(target.memory(), next.rank, next.tag);
    target.finish();
  }
}

// Whoever asks wants to know from whom it came: a question to the host.
WorkPtr AccBackend::recvAnysource(Tensors& tensors, int tag) {
  return on_cpu([&]() -> WorkPtr {
    if (on_host(tensors)) return cpu_->recvAnysource(tensors, tag);
    check_one_place(tensors);
    const at::Tensor& tensor = only(tensors, "recv");
    Tensors memory{at::empty(tensor.sizes(), tensor.options().device(at::kCPU))};
    const WorkPtr work = cpu_->recvAnysource(memory, tag);
    work->wait();
    tensor.copy_(memory.front());
    ++sequence_;
    return c10::make_intrusive<RecordedWork>(OpType::RECVANYSOURCE, tensors, nullptr,
                                             work->sourceRank());
  });
}

WorkPtr AccBackend::barrier(const c10d::BarrierOptions& options) {
  // The others wait for this rank, whatever became of what it recorded.
  std::exception_ptr failure;
  try {
    synchronize();
  } catch (...) {
    failure = std::current_exception();
  }
  WorkPtr work = cpu_->barrier(options);
  if (failure != nullptr) {
    work->wait();
    std::rethrow_exception(failure);
  }
  return work;
}

void AccBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool all_ranks) {
  synchronize();
  cpu_->monitoredBarrier(options, all_ranks);
}

void AccBackend::startCoalescing() {
  coalesces_ = true;
  coalesced_.clear();
}

WorkPtr AccBackend::endCoalescing() {
  coalesces_ = false;
  if (receives_.empty()) {
    return c10::make_intrusive<RecordedWork>(OpType::COALESCED, std::move(coalesced_));
  }
  const uint64_t last = first_receive_ + receives_.size() - 1;
  auto self = c10::intrusive_ptr<AccBackend>::reclaim_copy(this);
  return c10::make_intrusive<RecordedWork>(OpType::COALESCED, std::move(coalesced_),
                                           [self, last] { self->receive_until(last); });
}

void AccBackend::abort() { cpu_->abort(); }

void AccBackend::shutdown() {
  std::exception_ptr failure;
  const auto attempt = [&failure](auto work) {
    try {
      work();
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  // What was asked for runs, so that no other rank waits for it.
  attempt([&] {
    if (!receives_.empty()) receive_until(first_receive_ + receives_.size() - 1);
  });
  attempt([] { synchronize(); });
  attempt([&] { communicator_.drain_sends(); });
  attempt([&] { communicator_.close(); });
  attempt([&] { cpu_->shutdown(); });
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace torchacc
