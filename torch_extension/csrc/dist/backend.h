// The c10d backend "acc": records the operations of a process group on device tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "dist/communicator.h"

namespace torchacc {

using c10d::Work;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<Work>;

// Operations on device tensors are recorded; those on CPU tensors go to `cpu`, once everything
// recorded before has run, so the two never mix their messages.
class AccBackend final : public c10d::Backend {
 public:
  // `gathers`: a second backend like `cpu`, for large gathers only, or NULL.
  AccBackend(BackendPtr cpu, BackendPtr device, BackendPtr gathers,
             c10::intrusive_ptr<c10d::Store> store, std::string name);

  const std::string getBackendName() const override { return "acc"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return cpu_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int rank, int tag) override;
  WorkPtr recv(Tensors& tensors, int rank, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // Operations of the host: they cut, and wait for everything recorded before.
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool all_ranks) override;

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  void abort() override;
  void shutdown() override;

 private:
  WorkPtr recorded(c10d::OpType type, Tensors results);
  void check_one_place(const Tensors& tensors) const;
  Communicator& gathering(const at::Tensor& output);
  void receive_until(uint64_t number);
  void launch_sends();
  void gather_to(int64_t root, const Tensors* outputs, const at::Tensor& input);
  void scatter_from(int64_t root, const at::Tensor& output, const Tensors* inputs);

  // A requested receive that is not recorded yet.
  struct Receive {
    at::Tensor tensor;
    int rank;
    int tag;
  };

  const BackendPtr cpu_;
  const BackendPtr device_;   // or NULL
  const BackendPtr gathers_;  // or NULL
  const std::string name_;
  const std::shared_ptr<LastWords> words_;
  Communicator communicator_;
  // A separate lane lets the scheduler start gathers before the collectives that precede them.
  std::optional<Communicator> gatherer_;
  std::deque<Receive> receives_;
  uint64_t first_receive_ = 0;   // the number of the first entry
  uint64_t after_receives_ = 0;  // recorder_activity() after the last recorded receive
  uint64_t sequence_ = 0;
  bool coalesces_ = false;
  bool sends_ = false;  // whether the open trace has sends to other ranks
  Tensors coalesced_;
};

}  // namespace torchacc
