#include "dist/communicator.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <vector>

#include "dist/pacemaker.h"
#include "dist/parameters.h"
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

// Elements of a row that a collective takes at once.
struct Part {
  int64_t first, count;
};

// A contiguous device tensor as one row, or a part of each of the rows that it is divided into. The
// view points into this object.
class Row {
 public:
  explicit Row(const at::Tensor& tensor) : Row(tensor, 1, {0, tensor.numel()}) {
    view_.rank = 1;
    view_.sizes = &sizes_[1];
    view_.strides = &strides_[1];
  }
  Row(const at::Tensor& tensor, int64_t rows, Part part)
      : tensor_(tensor), view_(view_of(*tensor.unsafeGetTensorImpl())) {
    const Elements elements = elements_of(tensor.scalar_type());
    sizes_ = {rows, part.count * elements.count};
    strides_ = {tensor.numel() * elements.count / rows, 1};
    view_.dtype = elements.dtype;
    view_.offset = (view_.offset + part.first) * elements.count;
    view_.rank = 2;
    view_.sizes = sizes_.data();
    view_.strides = strides_.data();
  }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  const torchacc_view& view() const { return view_; }
  int64_t size() const { return sizes_[1]; }

 private:
  const at::Tensor tensor_;
  torchacc_view view_;
  std::array<int64_t, 2> sizes_, strides_;
};

constexpr int64_t kMostParts = 4;

// Least bytes of a part, which is for the program to say; 0 if there are to be none. Parts move
// more slowly than the whole: they gain where links are slow, and the ranks' cores have nothing to
// do with what moves their bytes.
int64_t least_part() {
  static const int64_t asked = []() -> int64_t {
    const char* text = std::getenv("TORCHACC_SPLIT");
    if (text == nullptr) return 0;
    char* end = nullptr;
    const int64_t bytes = std::strtoll(text, &end, 10);
    TORCH_CHECK(end != text && *end == '\0' && bytes >= 0, "TORCHACC_SPLIT is \"", text,
                "\": it is to be the least bytes of a part of a collective, as 4194304, or 0");
    return bytes;
  }();
  return asked;
}

// The parts of a large collective on tensors of these sizes, of which `bytes` move, along the first
// dimension that can be divided: so what makes a part, or needs it, runs beside the other parts
// (src/passes/collective_matmul). All ranks have the same sizes, so they have the same parts.
// Buckets of parameters, which have one dimension, are gathered and reduced ahead instead.
std::vector<Part> parts_of(at::IntArrayRef sizes, size_t bytes) {
  const auto divided = std::find_if(sizes.begin(), sizes.end(), [](int64_t n) { return n > 1; });
  const int64_t numel = c10::multiply_integers(sizes);
  const int64_t least = least_part();
  if (divided == sizes.end() || *divided == numel || least <= 0) return {{0, numel}};
  const int64_t most = static_cast<int64_t>(bytes) / least;
  const int64_t count = std::max<int64_t>(std::min({kMostParts, *divided, most}), 1);
  std::vector<Part> parts;
  // All but the last are equal: a length that varies makes one more number that varies, not
  // several.
  const int64_t each = numel / *divided * (*divided / count);
  for (int64_t n = 0; n < count; ++n) {
    parts.push_back({n * each, n + 1 < count ? each : numel - n * each});
  }
  return parts;
}

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
  const auto parts = parts_of(tensor.sizes(), tensor.nbytes());
  if (parts.size() == 1) {
    const Row row(tensor);
    return submit(op, {view_argument(row.view()), text_argument(reduction), name()}, {row.view()});
  }
  // In place, each part would be one of what the part before it left.
  const at::Tensor result = at::empty(tensor.sizes(), tensor.options());
  for (const Part part : parts) {
    const Row from(tensor, 1, part), to(result, 1, part);
    submit(op, {view_argument(from.view()), text_argument(reduction), name()}, {to.view()});
  }
  tensor.copy_(result);
}

void Communicator::reduce(const at::Tensor& tensor, std::string_view reduction, int64_t root) {
  static const torchacc_op op = operator_number("torchacc::reduce");
  const Row row(tensor);
  submit(op, {view_argument(row.view()), text_argument(reduction), int_argument(root), name()},
         {row.view()});
}

void Communicator::all_gather(const at::Tensor& output, const at::Tensor& input) {
  static const torchacc_op op = operator_number("torchacc::all_gather");
  static const torchacc_op of_parameters = operator_number("torchacc::all_gather_parameters");
  const at::Tensor dense = input.contiguous();
  const auto parts = parts_of(input.sizes(), output.nbytes());
  if (parts.size() == 1) {
    const Row from(dense), to(output);
    const Gathered what = what_is_gathered();
    if (what == Gathered::kAnything) {
      return submit(op, {view_argument(from.view()), name()}, {to.view()});
    }
    const auto again = integer_argument(TORCHACC_ARG_BOOL, what == Gathered::kParametersAgain);
    return submit(of_parameters, {view_argument(from.view()), again, name()}, {to.view()});
  }
  for (const Part part : parts) {
    const Row from(dense, 1, part), to(output, output.numel() / input.numel(), part);
    submit(op, {view_argument(from.view()), name()}, {to.view()});
  }
}

void Communicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                                  std::string_view reduction) {
  static const torchacc_op op = operator_number("torchacc::reduce_scatter");
  const at::Tensor dense = input.contiguous();
  const auto parts = parts_of(output.sizes(), input.nbytes());
  if (parts.size() == 1) {
    const Row from(dense), to(output);
    return submit(op, {view_argument(from.view()), text_argument(reduction), name()}, {to.view()});
  }
  for (const Part part : parts) {
    const Row from(dense, input.numel() / output.numel(), part), to(output, 1, part);
    submit(op, {view_argument(from.view()), text_argument(reduction), name()}, {to.view()});
  }
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
