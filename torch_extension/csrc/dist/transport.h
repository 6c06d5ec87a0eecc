// What carries the collectives of a communicator between processes: a c10d backend for CPU tensors,
// called on the launch thread.
#pragma once

#include <torchacc.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "dist/agreement.h"
#include "dist/last_words.h"

namespace torchacc {

using CpuBackend = c10::intrusive_ptr<c10d::Backend>;

// Waits for sends, in their order, on a thread of its own from the first one on: such a backend's
// send is over only when the other rank receives, which may be after a receive of this one's.
class SendQueue {
 public:
  ~SendQueue();
  // Throws what became of an earlier send.
  void push(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory);
  // Waits for all; throws what became of them.
  void drain();

 private:
  struct Pending {
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor memory;
  };
  void run();
  void rethrow();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;  // the first one is being waited for
  std::exception_ptr failure_;
  std::thread thread_;
  bool stops_ = false;
};

class Transport {
 public:
  Transport(CpuBackend backend, c10::intrusive_ptr<c10d::Store> store, std::string name);

  // What the library calls; `user` is a Transport, given over to the library.
  static torchacc_communicator describe(std::unique_ptr<Transport> transport);

  const CpuBackend& backend() const { return backend_; }
  void drain_sends() { sends_.drain(); }

  // Each fills `output`. A reduction is one of TORCHACC_REDUCE_*.
  void all_reduce(int64_t reduction, const at::Tensor& input, at::Tensor output);
  void reduce(int64_t reduction, int64_t root, const at::Tensor& input, at::Tensor output);
  void all_gather(const at::Tensor& input, at::Tensor output);
  void reduce_scatter(int64_t reduction, const at::Tensor& input, at::Tensor output);
  void broadcast(int64_t root, const at::Tensor& input, at::Tensor output);
  void exchange(std::vector<int64_t> there, std::vector<int64_t> back, const at::Tensor& input,
                at::Tensor output);
  void send(int64_t rank, int64_t tag, const at::Tensor& input);
  void receive(int64_t rank, int64_t tag, at::Tensor output);
  // From this rank to itself, which concerns no other.
  bool is_own(int64_t rank) const { return rank == this->rank(); }
  void keep(int64_t tag, const at::Tensor& input);
  void take(int64_t tag, at::Tensor output);

  // "all_reduce of the group "0" on rank 1 of 2", for messages.
  std::string title(const char* kind) const;
  // Throws if a collective has failed: no rank knows what the others have, or do next.
  void check_usable() const;
  // That is so from now on. Throws it, with what the other ranks say.
  [[noreturn]] void fail(const std::string& failure, const Doing& doing);
  // Collectives of the whole group that were begun.
  uint64_t count() const { return agreement_.count(); }

 private:
  int rank() const { return backend_->getRank(); }
  // The other ranks come with the same.
  void agree(const char* kind, const at::Tensor& tensor, int64_t how = 0) {
    agreement_.check(*backend_, kind, tensor, how);
  }
  void divide(int64_t reduction, at::Tensor& output) const;

  const CpuBackend backend_;
  const std::string name_;
  Agreement agreement_;
  LastWords last_words_;
  std::string failure_;
  SendQueue sends_;
  std::map<int64_t, std::deque<at::Tensor>> to_itself_;  // by tag
};

}  // namespace torchacc
