#include "dist/transport.h"

#include <ATen/DimVector.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include <type_traits>

#include "record/dispatch.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using Tensor = const torchacc_host_tensor*;
using Numbers = at::IntArrayRef;

at::Tensor wrap(const torchacc_host_tensor& tensor) {
  const at::IntArrayRef sizes(tensor.sizes, tensor.rank);
  const auto options = at::TensorOptions().dtype(to_scalar_type(tensor.dtype));
  return at::for_blob(tensor.data, sizes).options(options).make_tensor();
}

at::Tensor wrap_native(const torchacc_host_tensor& tensor) {
  const at::IntArrayRef sizes(tensor.sizes, tensor.rank);
  const at::DimVector strides = c10::contiguous_strides(sizes);
  return native_tensor(tensor.data, sizes, strides, 0, to_scalar_type(tensor.dtype));
}

template <class Work>
torchacc_error* titled(const Transport& transport, const char* kind, Work work) noexcept {
  std::string title;
  try {
    title = transport.title(kind);
  } catch (...) {  // without memory, the message lacks the title
  }
  return guarded(title, [&] {
    const CleanDispatch guard;
    work();
  });
}

// Runs `work`, which involves other ranks. `of`: the tensor that this rank sends or receives.
template <class Work>
torchacc_error* carried(Transport& transport, const char* kind, Tensor of, Work work) noexcept {
  return titled(transport, kind, [&] {
    transport.words().check_usable();
    const uint64_t number = transport.count();
    std::string failure;
    try {
      return work();
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    // Point-to-point operations do not involve the whole group, and have no number in it.
    const bool is_counted = transport.count() != number;
    const at::Tensor tensor = wrap(*of);
    transport.words().fail(failure, {kind, is_counted ? std::optional(number) : std::nullopt,
                                     tensor.scalar_type(), tensor.numel()});
  });
}

Transport& transport_of(void* user) { return *static_cast<Transport*>(user); }

// The kinds of collectives: how each reads the library's numbers, and which number all ranks must
// have alike besides the tensor.
struct AllReduce {
  static constexpr auto kName = "all_reduce";
  static constexpr uint32_t kNumber = TORCHACC_COLLECTIVE_ALL_REDUCE;
  static int64_t alike(Numbers how) { return how[0]; }
  static void run(Carrier& by, Numbers how, const at::Tensor& input, at::Tensor output) {
    by.all_reduce(how[0], input, std::move(output));
  }
};

struct AllGather {
  static constexpr auto kName = "all_gather";
  static constexpr uint32_t kNumber = TORCHACC_COLLECTIVE_ALL_GATHER;
  static int64_t alike(Numbers) { return 0; }
  static void run(Carrier& by, Numbers, const at::Tensor& input, at::Tensor output) {
    by.all_gather(input, std::move(output));
  }
};

struct ReduceScatter {
  static constexpr auto kName = "reduce_scatter";
  static constexpr uint32_t kNumber = TORCHACC_COLLECTIVE_REDUCE_SCATTER;
  static int64_t alike(Numbers how) { return how[0]; }
  static void run(Carrier& by, Numbers how, const at::Tensor& input, at::Tensor output) {
    by.reduce_scatter(how[0], input, std::move(output));
  }
};

struct Broadcast {
  static constexpr auto kName = "broadcast";
  static constexpr uint32_t kNumber = TORCHACC_COLLECTIVE_BROADCAST;
  static int64_t alike(Numbers how) { return how[0]; }
  static void run(Carrier& by, Numbers how, const at::Tensor& input, at::Tensor output) {
    by.broadcast(how[0], input, std::move(output));
  }
};

struct AllToAll {
  static constexpr auto kName = "all_to_all";
  static constexpr uint32_t kNumber = TORCHACC_COLLECTIVE_ALL_TO_ALL;
  static int64_t alike(Numbers) { return 0; }
  static void run(Carrier& by, Numbers, const at::Tensor& input, at::Tensor output) {
    by.exchange({}, {}, input, std::move(output));
  }
};

struct Reduce {
  static constexpr auto kName = "reduce";
  static constexpr uint32_t kNumber = TORCHACC_COLLECTIVE_REDUCE;
  static int64_t alike(Numbers how) { return how[0] | how[1] << 8; }
  static void run(Carrier& by, Numbers how, const at::Tensor& input, at::Tensor output) {
    by.reduce(how[0], how[1], input, std::move(output));
  }
};

// The sizes of the parts are each rank's own affair.
struct AllToAllV {
  static constexpr auto kName = "all_to_all";
  static constexpr uint32_t kNumber = TORCHACC_COLLECTIVE_ALL_TO_ALL_V;
  static int64_t alike(Numbers) { return 0; }
  static void run(Carrier& by, Numbers rows, const at::Tensor& input, at::Tensor output) {
    const Numbers there = rows.slice(0, rows.size() / 2), back = rows.slice(rows.size() / 2);
    by.exchange(there.vec(), back.vec(), input, std::move(output));
  }
};

// `device`: the device of the tensors, null for the host.
template <class Kind>
torchacc_error* collective(void* user, const torchacc_device* device, Numbers how, Tensor input,
                           Tensor output) noexcept {
  Transport& transport = transport_of(user);
  return carried(transport, Kind::kName, input, [&] {
    const HostCollective call{Kind::kNumber, how, wrap(*input), wrap(*output)};
    const bool is_uneven = std::is_same_v<Kind, AllToAllV>;
    transport.agree(Alike{Kind::kName, call.input.scalar_type(), is_uneven ? 0 : call.input.numel(),
                          Kind::alike(how)});
    if (device != nullptr) {
      return on_stream(*device, [&] {
        Kind::run(transport.device(), how, wrap_native(*input), wrap_native(*output));
      });
    }
    const auto bytes = static_cast<int64_t>(call.input.nbytes());
    if (Messages::takes(call.kind, bytes, transport.host().size()))
      return transport.messages().exchange(transport.host(), call, 0);
    Kind::run(transport.host(), how, call.input, call.output);
  });
}

template <class Kind>
torchacc_error* on_host(void* user, int64_t how, Tensor input, Tensor output) noexcept {
  return collective<Kind>(user, nullptr, how, input, output);
}

template <class Kind>
torchacc_error* on_device(void* user, const torchacc_device* device, int64_t how, Tensor input,
                          Tensor output) noexcept {
  return collective<Kind>(user, device, how, input, output);
}

template <class Kind>
torchacc_error* on_host_by_numbers(void* user, const int64_t* how, size_t count, Tensor input,
                                   Tensor output) noexcept {
  return collective<Kind>(user, nullptr, {how, count}, input, output);
}

template <class Kind>
torchacc_error* on_device_by_numbers(void* user, const torchacc_device* device, const int64_t* how,
                                     size_t count, Tensor input, Tensor output) noexcept {
  return collective<Kind>(user, device, {how, count}, input, output);
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

// Performs a collective that does not go by message.
torchacc_error* alone(void* user, const torchacc_pending_collective& one) noexcept {
  const Numbers how(one.numbers, one.n_numbers);
  switch (one.kind) {
    case TORCHACC_COLLECTIVE_ALL_REDUCE:
      return collective<AllReduce>(user, nullptr, how, one.input, one.output);
    case TORCHACC_COLLECTIVE_ALL_GATHER:
      return collective<AllGather>(user, nullptr, how, one.input, one.output);
    case TORCHACC_COLLECTIVE_REDUCE_SCATTER:
      return collective<ReduceScatter>(user, nullptr, how, one.input, one.output);
    case TORCHACC_COLLECTIVE_BROADCAST:
      return collective<Broadcast>(user, nullptr, how, one.input, one.output);
    case TORCHACC_COLLECTIVE_ALL_TO_ALL:
      return collective<AllToAll>(user, nullptr, how, one.input, one.output);
    case TORCHACC_COLLECTIVE_REDUCE:
      return collective<Reduce>(user, nullptr, how, one.input, one.output);
    case TORCHACC_COLLECTIVE_ALL_TO_ALL_V:
      return collective<AllToAllV>(user, nullptr, how, one.input, one.output);
    case TORCHACC_COLLECTIVE_SEND:
      return send(user, one.numbers, one.n_numbers, one.input, one.output);
    default:
      return receive(user, one.numbers, one.n_numbers, one.input, one.output);
  }
}

// The name of a kind that goes by message.
const char* name_of(uint32_t kind) {
  switch (kind) {
    case TORCHACC_COLLECTIVE_ALL_REDUCE:
      return AllReduce::kName;
    case TORCHACC_COLLECTIVE_ALL_GATHER:
      return AllGather::kName;
    case TORCHACC_COLLECTIVE_REDUCE_SCATTER:
      return ReduceScatter::kName;
    default:
      return AllToAll::kName;
  }
}

bool goes_by_message(const torchacc_pending_collective& one, int ranks) {
  const at::IntArrayRef sizes(one.input->sizes, one.input->rank);
  const auto size = static_cast<int64_t>(c10::elementSize(to_scalar_type(one.input->dtype)));
  return one.kind <= TORCHACC_COLLECTIVE_ALL_TO_ALL &&
         Messages::takes(one.kind, c10::multiply_integers(sizes) * size, ranks);
}

// The collectives waiting on this rank that go by message, up to the first that does not; `from`
// counts those that may go as one message, from `begin` on.
struct Ready {
  Ready(const torchacc_pending_collective* waiting, size_t count, int ranks)
      : waiting(waiting), ranks(ranks) {
    for (const auto& one : at::ArrayRef(waiting, count)) {
      if (!goes_by_message(one, ranks)) break;
      const Numbers how(one.numbers, one.n_numbers);
      calls.push_back({one.kind, how, wrap(*one.input), wrap(*one.output)});
    }
  }

  size_t from(size_t begin) const {
    size_t end = begin;
    while (end < calls.size() && waiting[end].after <= begin) ++end;
    return Messages::room(at::ArrayRef(calls).slice(begin, end - begin), ranks);
  }

  const torchacc_pending_collective* waiting;
  int ranks;
  std::vector<HostCollective> calls;
};

torchacc_error* together(void* user, const torchacc_pending_collective* waiting, size_t count,
                         size_t* done) noexcept {
  Transport& transport = transport_of(user);
  Carrier& by = transport.host();
  if (!goes_by_message(waiting[0], by.size())) return alone(user, waiting[0]);
  return carried(transport, name_of(waiting[0].kind), waiting[0].input, [&] {
    const Ready ready(waiting, count, by.size());
    const uint64_t agreed = transport.messages().agreed();
    TORCH_CHECK(agreed <= ready.from(0), "this rank said that ", agreed,
                " collectives were ready, of which ", ready.from(0), " are there");
    const auto message = at::ArrayRef(ready.calls).slice(0, agreed);
    std::vector<Alike> descriptions;
    for (const HostCollective& call : message) {
      descriptions.push_back(
          {name_of(call.kind), call.input.scalar_type(), call.input.numel(), call.how[0]});
    }
    *done = transport.agree(descriptions);
    transport.messages().exchange(by, message.slice(0, *done), ready.from(*done));
  });
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

Transport::Transport(BackendPtr host, BackendPtr device, std::shared_ptr<LastWords> words,
                     std::string name)
    : host_(std::move(host)), name_(std::move(name)), words_(std::move(words)) {
  if (device != nullptr) device_.emplace(std::move(device));
}

torchacc_communicator Transport::describe(std::unique_ptr<Transport> transport) {
  torchacc_communicator made{};
  made.struct_size = sizeof made;
  made.rank = static_cast<uint32_t>(transport->host_.rank());
  made.size = static_cast<uint32_t>(transport->host_.size());
  made.all_reduce = callback(&on_host<AllReduce>);
  made.all_gather = callback(&on_host<AllGather>);
  made.reduce_scatter = callback(&on_host<ReduceScatter>);
  made.broadcast = callback(&on_host<Broadcast>);
  made.all_to_all = callback(&on_host<AllToAll>);
  made.reduce = callback(&on_host_by_numbers<Reduce>);
  made.all_to_all_v = callback(&on_host_by_numbers<AllToAllV>);
  made.send = callback(&torchacc::send);
  made.receive = callback(&torchacc::receive);
  if (transport->device_.has_value()) {
    made.device_all_reduce = callback(&on_device<AllReduce>);
    made.device_all_gather = callback(&on_device<AllGather>);
    made.device_reduce_scatter = callback(&on_device<ReduceScatter>);
    made.device_broadcast = callback(&on_device<Broadcast>);
    made.device_all_to_all = callback(&on_device<AllToAll>);
    made.device_reduce = callback(&on_device_by_numbers<Reduce>);
    made.device_all_to_all_v = callback(&on_device_by_numbers<AllToAllV>);
  }
  made.concurrent = 1;
  made.together = callback(&torchacc::together);
  made.drop = callback(&drop_transport);
  made.user = transport.release();
  return made;
}

std::string Transport::title(const char* kind) const {
  return c10::str(kind, " of process group \"", name_, "\" on its rank ", host_.rank(), " of ",
                  host_.size());
}

size_t Transport::agree(at::ArrayRef<Alike> calls) {
  TORCH_CHECK(difference_.empty(), difference_);
  const std::optional<Difference> difference = agreement_.check(host_.backend(), calls);
  if (!difference.has_value()) return calls.size();
  difference_ = difference->text;
  // The collectives before it are alike: they are done, and the next one fails.
  TORCH_CHECK(difference->index > 0, difference_);
  return difference->index;
}

void Transport::send(int64_t rank, int64_t tag, const at::Tensor& input) {
  // The program may have reused its memory by the time the other rank receives.
  at::Tensor memory = bytes_of(input).clone();
  std::vector<at::Tensor> tensors{memory};
  auto work = host_.backend().send(tensors, static_cast<int>(rank), static_cast<int>(tag));
  sends_.push(std::move(work), std::move(memory));
}

void Transport::receive(int64_t rank, int64_t tag, at::Tensor output) {
  std::vector<at::Tensor> tensors{bytes_of(output)};
  host_.backend().recv(tensors, static_cast<int>(rank), static_cast<int>(tag))->wait();
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
