#include "dist/backend.h"

#include "dist/calls.h"

namespace torchacc {

namespace {

// Bytes from which on a gather has a lane of its own. Ranks whose gathers differ fail at once if
// these are on one lane, and at the timeout if they are on two.
constexpr size_t kLargeGather = 1 << 16;

}  // namespace

AccBackend::AccBackend(BackendPtr cpu, BackendPtr device, BackendPtr gathers,
                       c10::intrusive_ptr<c10d::Store> store, std::string name)
    : Backend(cpu->getRank(), cpu->getSize()),
      cpu_(std::move(cpu)),
      device_(std::move(device)),
      gathers_(std::move(gathers)),
      name_(std::move(name)),
      words_(std::make_shared<LastWords>(std::move(store), getRank(), getSize())),
      communicator_(cpu_, device_, words_, name_) {
  enter_flight_recorder(*cpu_);
  if (gathers_ == nullptr) return;
  enter_flight_recorder(*gathers_);
  gatherer_.emplace(gathers_, nullptr, words_, name_ + " (gathers)");
}

Communicator& AccBackend::gathering(const at::Tensor& output) {
  const bool has_own = gatherer_.has_value() && output.nbytes() >= kLargeGather;
  return has_own ? *gatherer_ : communicator_;
}

void AccBackend::setTimeout(std::chrono::milliseconds timeout) {
  cpu_->setTimeout(timeout);
  if (device_ != nullptr) device_->setTimeout(timeout);
  if (gathers_ != nullptr) gathers_->setTimeout(timeout);
}

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

WorkPtr AccBackend::barrier(const c10d::BarrierOptions& options) {
  // The other ranks wait for this one, even if its recorded operations have failed.
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
  launch_sends();
  if (receives_.empty()) {
    return c10::make_intrusive<RecordedWork>(OpType::COALESCED, std::move(coalesced_));
  }
  const uint64_t last = first_receive_ + receives_.size() - 1;
  auto self = c10::intrusive_ptr<AccBackend>::reclaim_copy(this);
  return c10::make_intrusive<RecordedWork>(OpType::COALESCED, std::move(coalesced_),
                                           [self, last] { self->receive_until(last); });
}

void AccBackend::abort() {
  cpu_->abort();
  if (device_ != nullptr) device_->abort();
  if (gathers_ != nullptr) gathers_->abort();
}

void AccBackend::shutdown() {
  std::exception_ptr failure;
  const auto attempt = [&failure](auto work) {
    try {
      work();
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  // Runs everything requested, so that no other rank waits for it.
  attempt([&] {
    if (!receives_.empty()) receive_until(first_receive_ + receives_.size() - 1);
  });
  attempt([] { synchronize(); });
  attempt([&] { communicator_.drain_sends(); });
  attempt([&] { communicator_.close(); });
  attempt([&] {
    if (gatherer_.has_value()) gatherer_->close();
  });
  attempt([&] {
    if (device_ != nullptr) device_->shutdown();
  });
  attempt([&] {
    if (gathers_ != nullptr) gathers_->shutdown();
  });
  attempt([&] { cpu_->shutdown(); });
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace torchacc
