// A communicator of the runtime: collectives become records of the trace.
#pragma once

#include <ATen/core/Tensor.h>
#include <torchacc.h>

#include <string>

#include "dist/transport.h"

namespace torchacc {

// Device tensors that are written must be contiguous; those that are read are made so. Elements are
// in the order of memory, whatever the shape. Nothing here waits.
class Communicator {
 public:
  // For the backends, see `Transport`. `name` identifies the process group in messages to users.
  Communicator(BackendPtr host, BackendPtr device, std::shared_ptr<LastWords> words,
               const std::string& name);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // `reduction`: one of the library's names ("sum"). Complex numbers are reduced part by part,
  // unsigned integers of more than a byte as signed ones.
  void all_reduce(const at::Tensor& tensor, std::string_view reduction);
  void reduce(const at::Tensor& tensor, std::string_view reduction, int64_t root);
  void all_gather(const at::Tensor& output, const at::Tensor& input);
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                      std::string_view reduction);
  void broadcast(const at::Tensor& tensor, int64_t root);
  void all_to_all(const at::Tensor& output, const at::Tensor& input);
  // `there` and `back`: number of elements for each rank and from each.
  void exchange(const at::Tensor& output, const at::Tensor& input, at::IntArrayRef there,
                at::IntArrayRef back);
  void send(const at::Tensor& tensor, int64_t rank, int64_t tag);
  void receive(const at::Tensor& tensor, int64_t rank, int64_t tag);

  // Waits until all sends have arrived.
  void drain_sends() {
    if (is_open_) transport_->drain_sends();
  }
  // No collective may follow this.
  void close();

 private:
  torchacc_arg name() const;

  const std::string name_;
  Transport* transport_;  // owned by the library, valid while open
  bool is_open_ = true;
};

}  // namespace torchacc
