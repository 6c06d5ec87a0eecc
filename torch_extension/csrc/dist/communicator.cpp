#include "dist/communicator.h"

#include <atomic>

#include "dist/pacemaker.h"
#include "record/recorder.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

// How a collective represents an element of a type: as `count` elements of `dtype`.
struct Elements {
  torchacc_dtype dtype;
  int64_t count;
};

// Complex numbers are two real ones, for sums as well as for copies. Values that are only moved, or
// reduced in two's complement, need not have their own type.
Elements elements_of(at::ScalarType type) {
  switch (type) {
    case at::kComplexHalf:
      return {TORCHACC_F16, 2};
    case at::kComplexFloat:
      return {TORCHACC_F32, 2};
    case at::kComplexDouble:
      return {TORCHACC_F64, 2};
    case at::kUInt16:
      return {TORCHACC_I16, 1};
    case at::kUInt32:
      return {TORCHACC_I32, 1};
    case at::kUInt64:
      return {TORCHACC_I64, 1};
    default:
      return {c10::isFloat8Type(type) ? torchacc_dtype{TORCHACC_U8} : to_dtype(type), 1};
  }
}

// A contiguous device tensor as one row. The view points into this object.
class Row {
 public:
  explicit Row(const at::Tensor& tensor)
      : tensor_(tensor), view_(view_of(*tensor.unsafeGetTensorImpl())) {
    const Elements elements = elements_of(tensor.scalar_type());
    size_ = tensor.numel() * elements.count;
    view_.dtype = elements.dtype;
    view_.offset *= elements.count;
    view_.rank = 1;
    view_.sizes = &size_;
    view_.strides = &kOne;
  }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  const torchacc_view& view() const { return view_; }
  int64_t size() const { return size_; }

 private:
  static constexpr int64_t kOne = 1;
  const at::Tensor tensor_;
  torchacc_view view_;
  int64_t size_;
};

torchacc_op operator_number(const char* name) {
  const auto found = find_native(name);
  TORCH_INTERNAL_ASSERT(found.has_value(), "the library has no ", name);
  return *found;
}

torchacc_arg integers_argument(at::IntArrayRef values) {
  torchacc_arg argument{TORCHACC_ARG_INTS, static_cast<uint32_t>(values.size()), {}};
  argument.v.p = values.data();
  return argument;
}

torchacc_arg int_argument(int64_t value) { return integer_argument(TORCHACC_ARG_INT, value); }

// Records a collective. The program may turn to something else after it.
void submit(torchacc_op op, c10::ArrayRef<torchacc_arg> arguments,
            c10::ArrayRef<torchacc_view> outputs) {
  record_native(op, arguments, outputs);
  keep_pace();
}

}  // namespace

Communicator::Communicator(BackendPtr host, BackendPtr device, std::shared_ptr<LastWords> words,
                           const std::string& name)
    : name_([&] {
        static std::atomic<uint64_t> next{0};
        return name + " #" + std::to_string(next++);
      }()) {
  auto transport =
      std::make_unique<Transport>(std::move(host), std::move(device), std::move(words), name);
  transport_ = transport.get();
  torchacc_communicator description = Transport::describe(std::move(transport));
  description.name = to_str(name_);
  check(torchacc_communicator_register(context(), &description));
}

Communicator::~Communicator() {
  if (is_open_) torchacc_error_free(torchacc_communicator_unregister(context(), to_str(name_)));
}

void Communicator::close() {
  if (!std::exchange(is_open_, false)) return;
  check(torchacc_communicator_unregister(context(), to_str(name_)));
}

torchacc_arg Communicator::name() const {
  TORCH_CHECK(is_open_, "the process group is shut down");
  torchacc_arg argument{TORCHACC_ARG_COMMUNICATOR, static_cast<uint32_t>(name_.size()), {}};
  argument.v.p = name_.data();
  return argument;
}

void Communicator::all_reduce(const at::Tensor& tensor, std::string_view reduction) {
  static const torchacc_op op = operator_number("torchacc::all_reduce");
  const Row row(tensor);
  submit(op, {view_argument(row.view()), text_argument(reduction), name()}, {row.view()});
}

void Communicator::reduce(const at::Tensor& tensor, std::string_view reduction, int64_t root) {
  static const torchacc_op op = operator_number("torchacc::reduce");
  const Row row(tensor);
  submit(op, {view_argument(row.view()), text_argument(reduction), int_argument(root), name()},
         {row.view()});
}

void Communicator::all_gather(const at::Tensor& output, const at::Tensor& input) {
  static const torchacc_op op = operator_number("torchacc::all_gather");
  const Row from(input.contiguous()), to(output);
  submit(op, {view_argument(from.view()), name()}, {to.view()});
}

void Communicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                                  std::string_view reduction) {
  static const torchacc_op op = operator_number("torchacc::reduce_scatter");
  const Row from(input.contiguous()), to(output);
  submit(op, {view_argument(from.view()), text_argument(reduction), name()}, {to.view()});
}

void Communicator::broadcast(const at::Tensor& tensor, int64_t root) {
  static const torchacc_op op = operator_number("torchacc::broadcast");
  const Row row(tensor);
  submit(op, {view_argument(row.view()), int_argument(root), name()}, {row.view()});
}

void Communicator::all_to_all(const at::Tensor& output, const at::Tensor& input) {
  static const torchacc_op op = operator_number("torchacc::all_to_all");
  const Row from(input.contiguous()), to(output);
  submit(op, {view_argument(from.view()), name()}, {to.view()});
}

void Communicator::exchange(const at::Tensor& output, const at::Tensor& input,
                            at::IntArrayRef there, at::IntArrayRef back) {
  static const torchacc_op op = operator_number("torchacc::all_to_all_v");
  const Row from(input.contiguous()), to(output);
  const int64_t count = elements_of(input.scalar_type()).count;
  auto there_rows = there.vec(), back_rows = back.vec();
  for (int64_t& rows : there_rows) rows *= count;
  for (int64_t& rows : back_rows) rows *= count;
  submit(op,
         {view_argument(from.view()), integers_argument(there_rows), integers_argument(back_rows),
          name()},
         {to.view()});
}

void Communicator::send(const at::Tensor& tensor, int64_t rank, int64_t tag) {
  static const torchacc_op op = operator_number("torchacc::send");
  const Row row(tensor.contiguous());
  submit(op, {view_argument(row.view()), int_argument(rank), int_argument(tag), name()}, {});
}

void Communicator::receive(const at::Tensor& tensor, int64_t rank, int64_t tag) {
  static const torchacc_op op = operator_number("torchacc::receive");
  const Row row(tensor);
  const int64_t size = row.size();
  const auto type = integer_argument(TORCHACC_ARG_DTYPE, row.view().dtype);
  submit(op, {integers_argument(size), type, int_argument(rank), int_argument(tag), name()},
         {row.view()});
}

}  // namespace torchacc
