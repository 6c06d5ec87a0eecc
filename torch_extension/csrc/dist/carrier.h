// Performs a communicator's collectives by a c10d backend, also for types that it does not reduce,
// and averages, which not every backend has.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

namespace torchacc {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

// The bytes of a contiguous tensor: moving data needs no other type.
at::Tensor bytes_of(const at::Tensor& tensor);

// Reduces the ranks' values element by element, in the order of the ranks: halves in f32, rounded
// once. `parts` and `output` are rows of one type, on the host, and do not overlap.
void reduce_in_order(int64_t reduction, at::ArrayRef<at::Tensor> parts, const at::Tensor& output);

// Makes a backend for the host known to PyTorch's flight recorder. That looks a backend up at each
// collective, and at the first one enters it, in a map without a lock (`recordWithResetEnabled` in
// PyTorch 2.11): when two backends begin at once, the process may crash. So backends that threads
// use beside others are entered here.
void enter_flight_recorder(c10d::Backend& backend);

// Held while a backend for the host starts a collective, which looks it up.
std::mutex& flight_recorder_mutex();

// Waits for the collective that `start` starts on tensors of `device`.
template <class Start>
void perform(c10::Device device, Start start) {
  const auto work = [&] {
    std::unique_lock<std::mutex> lock(flight_recorder_mutex(), std::defer_lock);
    // One on a GPU may wait for other ranks before it has started.
    if (device.is_cpu()) lock.lock();
    return start();
  }();
  work->wait();
}

// Collectives of contiguous tensors on the backend's device. Each fills `output`, or enqueues that
// on the current stream; a reduction is one of TORCHACC_REDUCE_*.
class Carrier {
 public:
  explicit Carrier(BackendPtr backend) : backend_(std::move(backend)) {}

  c10d::Backend& backend() const { return *backend_; }
  int rank() const { return backend_->getRank(); }
  int size() const { return backend_->getSize(); }

  void all_reduce(int64_t reduction, const at::Tensor& input, at::Tensor output);
  void reduce(int64_t reduction, int64_t root, const at::Tensor& input, at::Tensor output);
  void all_gather(const at::Tensor& input, at::Tensor output);
  void reduce_scatter(int64_t reduction, const at::Tensor& input, at::Tensor output);
  void broadcast(int64_t root, const at::Tensor& input, at::Tensor output);
  // `there` and `back`: number of rows for each rank and from each; equal parts if empty.
  void exchange(std::vector<int64_t> there, std::vector<int64_t> back, const at::Tensor& input,
                at::Tensor output);

 private:
  const BackendPtr backend_;
};

}  // namespace torchacc
