// The library's callbacks for the collectives of a communicator, on its lane or the launch thread.
// They use c10d backends for the CPU's tensors and, if PyTorch has the device, for the device's.
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

// Waits for sends in order, on a thread that the first one starts: such a backend's send completes
// only when the other rank receives, which may be after a receive of this one.
class SendQueue {
 public:
  ~SendQueue();
  // Throws the failure of an earlier send.
  void push(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory);
  // Waits for all sends; throws their failure.
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
  // `device`: for tensors of `native_device`, or NULL: then all go through the host. `words`:
  // shared by the transports of a group, of which there may be several.
  Transport(BackendPtr host, BackendPtr device, std::shared_ptr<LastWords> words, std::string name);

  // The library's description of the communicator; its `user` is the transport, which the library
  // then owns.
  static torchacc_communicator describe(std::unique_ptr<Transport> transport);

  Carrier& host() { return host_; }
  Carrier& device() { return *device_; }
  void drain_sends() { sends_.drain(); }

  // For host tensors.
  void send(int64_t rank, int64_t tag, const at::Tensor& input);
  void receive(int64_t rank, int64_t tag, at::Tensor output);
  // Sends from this rank to itself, which involve no other rank.
  bool is_own(int64_t rank) const { return rank == host_.rank(); }
  void keep(int64_t tag, const at::Tensor& input);
  void take(int64_t tag, at::Tensor output);

  // "all_reduce of process group "0" on its rank 1 of 2", for messages.
  std::string title(const char* kind) const;
  // Number of leading `calls` that all ranks have in common. Throws if there are none.
  size_t agree(at::ArrayRef<Alike> calls);
  Messages& messages() { return messages_; }
  LastWords& words() { return *words_; }
  // Number of collectives of the whole group that were begun.
  uint64_t count() const { return agreement_.count(); }

 private:
  Carrier host_;
  std::optional<Carrier> device_;
  const std::string name_;
  Agreement agreement_;
  std::string difference_;  // in the next collective, between this rank and others
  Messages messages_;
  const std::shared_ptr<LastWords> words_;
  SendQueue sends_;
  std::map<int64_t, std::deque<at::Tensor>> to_itself_;  // by tag
};

}  // namespace torchacc
