// A communicator of the runtime: collectives become records of the trace.
#pragma once

#include <ATen/core/Tensor.h>
#include <torchacc.h>

#include <string>

#include "dist/transport.h"

namespace torchacc {

// Device tensors that are written must be contiguous, what is read is made so. Elements count in
// the order of memory, whatever the shape. Nothing here waits.
class Communicator {
 public:
  // By these backends, as of `Transport`. `name` says to people which group of processes it is.
  Communicator(BackendPtr host, BackendPtr device, std::shared_ptr<LastWords> words,
               const std::string& name);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // `reduction`: a name of the library's ("sum"). Complex numbers are reduced part by part,
  // unsigned ones of more than a byte as if they had a sign.
  void all_reduce(const at::Tensor& tensor, std::string_view reduction);
  void reduce(const at::Tensor& tensor, std::string_view reduction, int64_t root);
  void all_gather(const at::Tensor& output, const at::Tensor& input);
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                      std::string_view reduction);
  void broadcast(const at::Tensor& tensor, int64_t root);
  void all_to_all(const at::Tensor& output, const at::Tensor& input);
  // Elements for each rank, and from each.
  void exchange(const at::Tensor& output, const at::Tensor& input, at::IntArrayRef there,
                at::IntArrayRef back);
  void send(const at::Tensor& tensor, int64_t rank, int64_t tag);
  void receive(const at::Tensor& tensor, int64_t rank, int64_t tag);

  // Waits until what was sent has arrived.
  void drain_sends() {
    if (is_open_) transport_->drain_sends();
  }
  // No collective may follow.
  void close();

 private:
  torchacc_arg name() const;

  const std::string name_;
  Transport* transport_;  // the library's, while it is open
  bool is_open_ = true;
};

}  // namespace torchacc
