// The backend's point-to-point operations.
#include "dist/calls.h"
#include "record/activity.h"

namespace torchacc {

WorkPtr AccBackend::send(Tensors& tensors, int rank, int tag) {
  if (on_host(tensors)) return on_cpu([&] { return cpu_->send(tensors, rank, tag); });
  check_one_place(tensors);
  const Recording recording("send");
  communicator_.send(only(tensors, "send"), rank, tag);
  sends_ = true;
  if (!coalesces_) launch_sends();
  return recorded(OpType::SEND, tensors);
}

// Cuts if there are sends: another rank waits for them.
void AccBackend::launch_sends() {
  if (std::exchange(sends_, false)) cut();
}

// Recorded when the result is asked for, after any sends recorded meanwhile: if two ranks first
// receive from each other and then send, neither would get as far as its send.
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

// Records receives in the order of their requests: messages with one tag arrive in order. The
// operations recorded before are computed while this rank waits: with the cuts after sends, each
// action of a pipeline's schedule is a program, the same for each part of a batch.
void AccBackend::receive_until(uint64_t number) {
  if (recorder_activity() != after_receives_) cut();
  const Recording recording("recv_");
  while (first_receive_ <= number && !receives_.empty()) {
    const Receive next = std::move(receives_.front());
    receives_.pop_front();
    ++first_receive_;
    const Target target(next.tensor);
    communicator_.receive(target.memory(), next.rank, next.tag);
    target.finish();
  }
  after_receives_ = recorder_activity();
}

// The caller wants to know the sender: a question for the host.
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

}  // namespace torchacc
