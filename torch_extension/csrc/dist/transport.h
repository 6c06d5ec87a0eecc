// What the library calls for the collectives of a communicator, on its lane or the launch thread:
// c10d backends for the CPU's tensors, and where PyTorch has the device, too, for the device's.
#pragma once

#include <torchacc.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "dist/agreement.h"
#include "dist/carrier.h"
#include "dist/last_words.h"
#include "dist/messages.h"

namespace torchacc {

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
  // `device`: for tensors of `native_device`, or NULL: then all go by way of the host. `words`: of
  // the group, which may have several transports.
  Transport(BackendPtr host, BackendPtr device, std::shared_ptr<LastWords> words, std::string name);

  // What the library calls; `user` is a Transport, given over to the library.
  static torchacc_communicator describe(std::unique_ptr<Transport> transport);

  Carrier& host() { return host_; }
  Carrier& device() { return *device_; }
  void drain_sends() { sends_.drain(); }

  // The host's tensors.
  void send(int64_t rank, int64_t tag, const at::Tensor& input);
  void receive(int64_t rank, int64_t tag, at::Tensor output);
  // From this rank to itself, which concerns no other.
  bool is_own(int64_t rank) const { return rank == host_.rank(); }
  void keep(int64_t tag, const at::Tensor& input);
  void take(int64_t tag, at::Tensor output);

  // "all_reduce of the group "0" on rank 1 of 2", for messages.
  std::string title(const char* kind) const;
  // How many of these, the first ones, the other ranks come with, too. Throws if that is none.
  size_t agree(at::ArrayRef<Alike> calls);
  Messages& messages() { return messages_; }
  LastWords& words() { return *words_; }
  // Collectives of the whole group that were begun.
  uint64_t count() const { return agreement_.count(); }

 private:
  Carrier host_;
  std::optional<Carrier> device_;
  const std::string name_;
  Agreement agreement_;
  std::string difference_;  // in the next collective, from those of other ranks
  Messages messages_;
  const std::shared_ptr<LastWords> words_;
  SendQueue sends_;
  std::map<int64_t, std::deque<at::Tensor>> to_itself_;  // by tag
};

}  // namespace torchacc
