#include "dist/transport.h"

#include <ATen/ops/from_blob.h>

#include "record/dispatch.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using c10d::ReduceOp;

at::Tensor wrap(const torchacc_host_tensor& tensor) {
  const at::IntArrayRef sizes(tensor.sizes, tensor.rank);
  const auto options = at::TensorOptions().dtype(to_scalar_type(tensor.dtype));
  return at::for_blob(tensor.data, sizes).options(options).make_tensor();
}

// Its bytes: what only moves has no other type.
at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::for_blob(tensor.data_ptr(), {static_cast<int64_t>(tensor.nbytes())})
      .options(at::kByte)
      .make_tensor();
}

ReduceOp operation(int64_t reduction) {
  switch (reduction) {
    case TORCHACC_REDUCE_PRODUCT:
      return ReduceOp::PRODUCT;
    case TORCHACC_REDUCE_MIN:
      return ReduceOp::MIN;
    case TORCHACC_REDUCE_MAX:
      return ReduceOp::MAX;
    case TORCHACC_REDUCE_BAND:
      return ReduceOp::BAND;
    case TORCHACC_REDUCE_BOR:
      return ReduceOp::BOR;
    case TORCHACC_REDUCE_BXOR:
      return ReduceOp::BXOR;
    default:  // averages are divided afterwards: not every backend has them
      return ReduceOp::SUM;
  }
}

// Bits of truth are reduced as bytes that are 0 or 1.
ReduceOp operation_on_bools(int64_t reduction) {
  switch (reduction) {
    case TORCHACC_REDUCE_PRODUCT:
    case TORCHACC_REDUCE_BAND:
      return ReduceOp::MIN;
    case TORCHACC_REDUCE_SUM:
    case TORCHACC_REDUCE_BOR:
      return ReduceOp::MAX;
    default:
      return operation(reduction);
  }
}

// The type in which the backend reduces.
at::ScalarType reduced_as(at::ScalarType type) {
  return type == at::kBool ? at::kByte : type == at::kShort ? at::kInt : type;
}

// Calls `work` with both in a type that the backend reduces.
template <class Work>
void in_wider_type(const at::Tensor& input, at::Tensor& output, Work work) {
  const at::ScalarType type = reduced_as(input.scalar_type());
  if (type == input.scalar_type()) return work(input, output);
  at::Tensor wide = at::empty(output.sizes(), output.options().dtype(type));
  work(input.to(type), wide);
  output.copy_(wide);
}

using Tensor = const torchacc_host_tensor*;

template <class Work>
torchacc_error* titled(const Transport& transport, const char* kind, Work work) noexcept {
  std::string title;
  try {
    title = transport.title(kind);
  } catch (...) {  // without memory: the message lacks it
  }
  return guarded(title, [&] {
    const CleanDispatch guard;
    work();
  });
}

// With other ranks. `of`: what this rank gives, or gets.
template <class Work>
torchacc_error* carried(Transport& transport, const char* kind, Tensor of, Work work) noexcept {
  return titled(transport, kind, [&] {
    transport.check_usable();
    const uint64_t number = transport.count();
    std::string failure;
    try {
      return work();
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    // Point to point is not the whole group's, and has no number there.
    const bool is_counted = transport.count() != number;
    const at::Tensor tensor = wrap(*of);
    transport.fail(failure, {kind, is_counted ? std::optional(number) : std::nullopt,
                             tensor.scalar_type(), tensor.numel()});
  });
}

Transport& transport_of(void* user) { return *static_cast<Transport*>(user); }

torchacc_error* all_reduce(void* user, int64_t how, Tensor input, Tensor output) noexcept {
  Transport& transport = transport_of(user);
  return carried(transport, "all_reduce", input,
                 [&] { transport.all_reduce(how, wrap(*input), wrap(*output)); });
}

torchacc_error* all_gather(void* user, int64_t, Tensor input, Tensor output) noexcept {
  Transport& transport = transport_of(user);
  return carried(transport, "all_gather", input,
                 [&] { transport.all_gather(wrap(*input), wrap(*output)); });
}

torchacc_error* reduce_scatter(void* user, int64_t how, Tensor input, Tensor output) noexcept {
  Transport& transport = transport_of(user);
  return carried(transport, "reduce_scatter", input,
                 [&] { transport.reduce_scatter(how, wrap(*input), wrap(*output)); });
}

torchacc_error* broadcast(void* user, int64_t root, Tensor input, Tensor output) noexcept {
  Transport& transport = transport_of(user);
  return carried(transport, "broadcast", input,
                 [&] { transport.broadcast(root, wrap(*input), wrap(*output)); });
}

torchacc_error* all_to_all(void* user, int64_t, Tensor input, Tensor output) noexcept {
  Transport& transport = transport_of(user);
  return carried(transport, "all_to_all", input,
                 [&] { transport.exchange({}, {}, wrap(*input), wrap(*output)); });
}

torchacc_error* reduce(void* user, const int64_t* numbers, size_t, Tensor input,
                       Tensor output) noexcept {
  Transport& transport = transport_of(user);
  return carried(transport, "reduce", input,
                 [&] { transport.reduce(numbers[0], numbers[1], wrap(*input), wrap(*output)); });
}

torchacc_error* exchange(void* user, const int64_t* numbers, size_t count, Tensor input,
                         Tensor output) noexcept {
  Transport& transport = transport_of(user);
  const int64_t* middle = numbers + count / 2;
  return carried(transport, "all_to_all", input, [&] {
    transport.exchange({numbers, middle}, {middle, numbers + count}, wrap(*input), wrap(*output));
  });
}

torchacc_error* send(void* user, const int64_t* numbers, size_t, Tensor input, Tensor) noexcept {
  Transport& transport = transport_of(user);
  if (transport.is_own(numbers[0]))
    return titled(transport, "send", [&] { transport.keep(numbers[1], wrap(*input)); });
  return carried(transport, "send", input,
                 [&] { transport.send(numbers[0], numbers[1], wrap(*input)); });
}

torchacc_error* receive(void* user, const int64_t* numbers, size_t, Tensor,
                        Tensor output) noexcept {
  Transport& transport = transport_of(user);
  if (transport.is_own(numbers[0]))
    return titled(transport, "receive", [&] { transport.take(numbers[1], wrap(*output)); });
  return carried(transport, "receive", output,
                 [&] { transport.receive(numbers[0], numbers[1], wrap(*output)); });
}

void drop_transport(void* user) noexcept { delete &transport_of(user); }

}  // namespace

SendQueue::~SendQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void SendQueue::rethrow() {
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void SendQueue::push(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  rethrow();
  pending_.push_back({std::move(work), std::move(memory)});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void SendQueue::drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return pending_.empty(); });
  rethrow();
}

void SendQueue::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stops_ || !pending_.empty(); });
    if (pending_.empty()) return;
    const c10::intrusive_ptr<c10d::Work> work = pending_.front().work;
    lock.unlock();
    std::exception_ptr failure;
    try {
      work->wait();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure_ == nullptr) failure_ = failure;
    pending_.pop_front();
    changed_.notify_all();
  }
}

Transport::Transport(CpuBackend backend, c10::intrusive_ptr<c10d::Store> store, std::string name)
    : backend_(std::move(backend)),
      name_(std::move(name)),
      last_words_(std::move(store), backend_->getRank(), backend_->getSize()) {}

torchacc_communicator Transport::describe(std::unique_ptr<Transport> transport) {
  torchacc_communicator made{};
  made.struct_size = sizeof made;
  made.rank = static_cast<uint32_t>(transport->backend_->getRank());
  made.size = static_cast<uint32_t>(transport->backend_->getSize());
  made.all_reduce = callback(&torchacc::all_reduce);
  made.all_gather = callback(&torchacc::all_gather);
  made.reduce_scatter = callback(&torchacc::reduce_scatter);
  made.broadcast = callback(&torchacc::broadcast);
  made.all_to_all = callback(&torchacc::all_to_all);
  made.reduce = callback(&torchacc::reduce);
  made.all_to_all_v = callback(&torchacc::exchange);
  made.send = callback(&torchacc::send);
  made.receive = callback(&torchacc::receive);
  made.drop = callback(&drop_transport);
  made.user = transport.release();
  return made;
}

std::string Transport::title(const char* kind) const {
  return c10::str(kind, " of process group \"", name_, "\" on its rank ", rank(), " of ",
                  backend_->getSize());
}

void Transport::check_usable() const {
  if (!failure_.empty())
    C10_THROW_ERROR(DistBackendError, "the group failed before, and is of no use: " + failure_);
}

void Transport::fail(const std::string& failure, const Doing& doing) {
  failure_ = failure;
  C10_THROW_ERROR(DistBackendError, failure + last_words_.exchange(doing));
}

void Transport::divide(int64_t reduction, at::Tensor& output) const {
  if (reduction != TORCHACC_REDUCE_AVG) return;
  if (output.is_floating_point()) {
    output.div_(backend_->getSize());
  } else {
    output.div_(backend_->getSize(), "trunc");
  }
}

void Transport::all_reduce(int64_t reduction, const at::Tensor& input, at::Tensor output) {
  agree("all_reduce", input, reduction);
  if (output.numel() == 0) return;
  const bool bools = input.scalar_type() == at::kBool;
  in_wider_type(input, output, [&](const at::Tensor& from, at::Tensor& to) {
    to.copy_(from);
    std::vector<at::Tensor> tensors{to};
    c10d::AllreduceOptions options;
    options.reduceOp = bools ? operation_on_bools(reduction) : operation(reduction);
    backend_->allreduce(tensors, options)->wait();
    divide(reduction, to);
  });
}

void Transport::reduce(int64_t reduction, int64_t root, const at::Tensor& input,
                       at::Tensor output) {
  agree("reduce", input, reduction | root << 8);
  if (output.numel() == 0) return;
  const bool bools = input.scalar_type() == at::kBool;
  in_wider_type(input, output, [&](const at::Tensor& from, at::Tensor& to) {
    to.copy_(from);
    std::vector<at::Tensor> tensors{to};
    c10d::ReduceOptions options;
    options.reduceOp = bools ? operation_on_bools(reduction) : operation(reduction);
    options.rootRank = root;
    backend_->reduce(tensors, options)->wait();
    divide(reduction, to);
  });
  // Elsewhere the backend may have used it for what came on the way.
  if (root != rank()) output.copy_(input);
}

void Transport::all_gather(const at::Tensor& input, at::Tensor output) {
  agree("all_gather", input);
  if (output.numel() == 0) return;
  at::Tensor from = bytes_of(input), to = bytes_of(output);
  backend_->_allgather_base(to, from, {})->wait();
}

void Transport::reduce_scatter(int64_t reduction, const at::Tensor& input, at::Tensor output) {
  agree("reduce_scatter", input, reduction);
  if (output.numel() == 0) return;
  const bool bools = input.scalar_type() == at::kBool;
  in_wider_type(input, output, [&](const at::Tensor& from, at::Tensor& to) {
    at::Tensor source = from;
    c10d::ReduceScatterOptions options;
    options.reduceOp = bools ? operation_on_bools(reduction) : operation(reduction);
    backend_->_reduce_scatter_base(to, source, options)->wait();
    divide(reduction, to);
  });
}

void Transport::broadcast(int64_t root, const at::Tensor& input, at::Tensor output) {
  agree("broadcast", input, root);
  if (output.numel() == 0) return;
  if (root == rank()) output.copy_(input);
  std::vector<at::Tensor> tensors{bytes_of(output)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  backend_->broadcast(tensors, options)->wait();
}

void Transport::exchange(std::vector<int64_t> there, std::vector<int64_t> back,
                         const at::Tensor& input, at::Tensor output) {
  // How much goes to whom is each rank's own affair, if the parts are not equal.
  agree("all_to_all", there.empty() ? input : input.narrow(0, 0, 0));
  const auto row_bytes = [](const at::Tensor& tensor) {
    return tensor.size(0) == 0 ? 0 : static_cast<int64_t>(tensor.nbytes()) / tensor.size(0);
  };
  // Who has no rows of his own takes no part in how long they are.
  for (int64_t& rows : there) rows *= row_bytes(input);
  for (int64_t& rows : back) rows *= row_bytes(output);
  at::Tensor from = bytes_of(input), to = bytes_of(output);
  backend_->alltoall_base(to, from, back, there, {})->wait();
}

void Transport::send(int64_t rank, int64_t tag, const at::Tensor& input) {
  // The program's memory is not its own when the other rank comes for it.
  at::Tensor memory = bytes_of(input).clone();
  std::vector<at::Tensor> tensors{memory};
  auto work = backend_->send(tensors, static_cast<int>(rank), static_cast<int>(tag));
  sends_.push(std::move(work), std::move(memory));
}

void Transport::receive(int64_t rank, int64_t tag, at::Tensor output) {
  std::vector<at::Tensor> tensors{bytes_of(output)};
  backend_->recv(tensors, static_cast<int>(rank), static_cast<int>(tag))->wait();
}

void Transport::keep(int64_t tag, const at::Tensor& input) {
  to_itself_[tag].push_back(bytes_of(input).clone());
}

void Transport::take(int64_t tag, at::Tensor output) {
  auto& sent = to_itself_[tag];
  TORCH_CHECK(!sent.empty(), "a receive from itself, with tag ", tag,
              ", comes before the send that it waits for");
  bytes_of(output).copy_(sent.front());
  sent.pop_front();
}

}  // namespace torchacc
