#include "record/arguments.h"

#include <ATen/ops/empty_strided.h>
#include <c10/util/flat_hash_map.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "aten/copy.h"
#include "record/torch_versions.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

// Tags of key words, in the low byte.
enum Tag : uint64_t {
  kAbsent = 1,
  kDevice,
  kTensor,
  kList,
  kNumber,  // a CPU tensor of one element in place of a device tensor
  kScalar,
  kAttribute,
  kOffset,
};

constexpr uint64_t tag(Tag kind, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) {
  return static_cast<uint64_t>(kind) | a << 8 | b << 16 | c << 32;
}

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Distinguishes numbers as far as an operator's checks may: by sign; 0, 1, 2, NaN and infinity; by
// the types that hold them; and as whole or not. A learning rate or a step number that changes
// stays of one kind.
uint64_t kind_of(double number) {
  static constexpr std::array<double, 12> kBounds{1,
                                                  2,
                                                  127,
                                                  128,
                                                  255,
                                                  32767,
                                                  32768,
                                                  65504,
                                                  2147483647,
                                                  2147483648,
                                                  9223372036854775808.0,
                                                  std::numeric_limits<float>::max()};
  if (std::isnan(number)) return 1;
  const double size = std::abs(number);
  if (size == 0) return 2;
  uint64_t kind = 4;
  if (std::isinf(number)) {
    kind = 3;
  } else {
    for (const double bound : kBounds) {
      if (size < bound) break;
      kind += size == bound ? 1 : 2;
    }
  }
  return kind << 2 | uint64_t{number < 0} << 1 | uint64_t{size >= 1 && size != std::trunc(size)};
}

uint64_t class_of_size(int64_t size) { return static_cast<uint64_t>(std::min<int64_t>(size, 2)); }

// Whether each dimension steps over the whole span of those with smaller strides, as in a slice, or
// repeats them, as in an expanded tensor.
bool lies_apart(at::IntArrayRef sizes, at::IntArrayRef strides) {
  c10::SmallVector<std::pair<int64_t, int64_t>, 6> dims;
  for (size_t index = 0; index < sizes.size(); ++index)
    dims.emplace_back(strides[index], sizes[index]);
  std::sort(dims.begin(), dims.end());
  int64_t span = 1;
  for (const auto& [stride, size] : dims) {
    if (stride == 0) continue;
    if (stride < span) return false;
    span = stride * std::max<int64_t>(size, 1);
  }
  return true;
}

// An argument whose payload is a run of key words; the pointer is set once the key has stopped
// growing.
torchacc_arg words_at(uint32_t kind, size_t length, size_t position) {
  torchacc_arg argument{kind, static_cast<uint32_t>(length), {}};
  argument.v.i = static_cast<int64_t>(position);
  return argument;
}

bool points_to_words(uint32_t kind) {
  return kind == TORCHACC_ARG_INTS || kind == TORCHACC_ARG_FLOATS || kind == TORCHACC_ARG_BOOLS ||
         kind == TORCHACC_ARG_STR;
}

}  // namespace

uint64_t hash_of(const KeyWords& words) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  uint64_t hash = words.size();
  for (const uint64_t word : words) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * kMultiplier;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    hash += word;
  }
  return hash;
}

Call::Call(std::shared_ptr<const OperatorInfo> info, torch::jit::Stack& stack)
    : info_(std::move(info)), stack_(stack), first_(stack.size() - info_->parameters.size()) {
  // The default dtype is that of results which depend on numbers only.
  key_.push_back(info_->id << 8 | static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
  for (size_t index = 0; index < info_->parameters.size(); ++index)
    read(index, info_->parameters[index]);
  key_aliased_offsets();
}

c10::DeviceIndex Call::device() const { return device_ >= 0 ? device_ : current_device(); }

void Call::read(size_t index, const Parameter& parameter) {
  c10::IValue& value = stack_[first_ + index];
  if (value.isNone())
    return parameter.out ? void(key_.push_back(tag(kAbsent))) : push_none(tag(kAbsent));
  switch (parameter.role) {
    case Role::Tensor:
      return read_tensor(value, parameter, index);
    case Role::TensorList:
    case Role::OptionalList:
      return read_list(value, parameter);
    case Role::Scalar:
      return read_scalar(value, parameter);
    case Role::Int:
    case Role::Bool: {
      const int64_t number = value.isBool()     ? value.toBool()
                             : value.isSymInt() ? value.toSymInt().guard_int(__FILE__, __LINE__)
                                                : value.toInt();
      key_.push_back(tag(kAttribute));
      if (parameter.is_size) size_words_.push_back(key_.size());
      key_.push_back(static_cast<uint64_t>(number));
      const bool is_bool = parameter.role == Role::Bool;
      return push(integer_argument(is_bool ? TORCHACC_ARG_BOOL : TORCHACC_ARG_INT, number));
    }
    case Role::Dtype: {
      const torchacc_dtype dtype = to_dtype(value.toScalarType());
      key_.push_back(tag(kAttribute, dtype));
      return push(integer_argument(TORCHACC_ARG_DTYPE, dtype));
    }
    case Role::String: {
      const std::string& text = value.toStringRef();
      return push_bytes(TORCHACC_ARG_STR, reinterpret_cast<const uint8_t*>(text.data()),
                        text.size());
    }
    case Role::IntList: {
      c10::SmallVector<uint64_t, 8> numbers;
      if (value.isInt()) {
        numbers.push_back(static_cast<uint64_t>(value.toInt()));
      } else {
        for (const c10::IValue& one : value.toListRef()) {
          numbers.push_back(static_cast<uint64_t>(
              one.isSymInt() ? one.toSymInt().guard_int(__FILE__, __LINE__) : one.toInt()));
        }
      }
      push_words(TORCHACC_ARG_INTS, numbers);
      for (size_t n = numbers.size(); parameter.is_size && n > 0; --n)
        size_words_.push_back(key_.size() - n);
      return;
    }
    case Role::FloatList: {
      c10::SmallVector<uint64_t, 8> numbers;
      for (const c10::IValue& one : value.toListRef()) numbers.push_back(bits_of(one.toDouble()));
      return push_words(TORCHACC_ARG_FLOATS, numbers);
    }
    case Role::BoolList: {
      c10::SmallVector<uint8_t, 8> flags;
      for (const c10::IValue& one : value.toListRef()) flags.push_back(one.toBool());
      return push_bytes(TORCHACC_ARG_BOOLS, flags.data(), flags.size());
    }
    case Role::Dropped:
      if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1 &&
          !has_tensor_device_) {
        device_ = normalize_device(value.toDevice().index());
      }
      if (value.isGenerator()) generator_ = value.toGenerator();
      return push_none(tag(kDevice));
    case Role::Unsupported:
      // Such operators run at once, from the stack: only the tensors of the other arguments matter.
      return push_none(tag(kAbsent));
  }
}

void Call::read_tensor(c10::IValue& value, const Parameter& parameter, size_t index) {
  if (!value.toTensor().defined()) {
    return parameter.out ? void(key_.push_back(tag(kAbsent))) : push_none(tag(kAbsent));
  }
  if (decides_type(value.toTensor(), parameter)) value = upload(value.toTensor(), device());
  if (!is_acc(value.toTensor())) return read_number(value.toTensor(), parameter, index);
  const bool written = parameter.written || parameter.out;
  if (!written && !is_plain(value.toTensor())) value = plain(value.toTensor());
  if (!parameter.out) {
    // The tensor's index in the call, until arguments() knows the address of its view.
    push(integer_argument(TORCHACC_ARG_VIEW, static_cast<int64_t>(tensors_.size())));
  }
  add_tensor(value.toTensor(), parameter);
}

// Whether a CPU tensor without dimensions takes part in type promotion, unlike a number: beside
// tensors that have no dimensions either, and as a float beside integers only.
bool Call::decides_type(const at::Tensor& tensor, const Parameter& parameter) const {
  if (!tensor.is_cpu() || tensor.dim() != 0 || parameter.written || parameter.out ||
      tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return false;
  }
  const bool is_other_float =
      tensor.is_floating_point() && tensor.dtype() != c10::get_default_dtype();
  bool differs = false;
  for (const c10::IValue& value : inputs()) {
    if (!value.isTensor() || !value.toTensor().defined() || !is_acc(value.toTensor())) continue;
    const at::Tensor& other = value.toTensor();
    const bool is_integer = c10::isIntegralType(other.scalar_type(), /*includeBool=*/true);
    if (other.dim() != 0 && !(is_other_float && is_integer)) return false;
    differs |= other.scalar_type() != tensor.scalar_type();
  }
  return differs;
}

// PyTorch lets a one-element CPU tensor without dimensions stand in for a device tensor. Its value
// is read now, as a number that may differ from call to call.
void Call::read_number(const at::Tensor& number, const Parameter& parameter, size_t index) {
  if (!number.is_cpu() || number.dim() != 0 || parameter.written || parameter.out)
    fail_device(number, index);
  const c10::ScalarType type = number.scalar_type();
  const bool wrapped = number.unsafeGetTensorImpl()->is_wrapped_number();
  key_.push_back(tag(kNumber, static_cast<uint64_t>(type), wrapped));
  const at::Scalar scalar = number.item();
  if (scalar.isComplex()) return push_complex(scalar.toComplexDouble());
  if (scalar.isFloatingPoint()) {
    push_scalar(float_argument(TORCHACC_ARG_SCALAR_FLOAT, scalar.toDouble()));
  } else if (scalar.isBoolean()) {
    push_scalar(integer_argument(TORCHACC_ARG_SCALAR_BOOL, scalar.toBool()));
  } else {
    has_large_number_ |= scalar.type() == at::kUInt64 && (scalar.toUInt64() >> 63) != 0;
    const auto number = has_large_number_ ? 0 : scalar.toLong();
    push_scalar(integer_argument(TORCHACC_ARG_SCALAR_INT, number));
  }
}

void Call::read_scalar(const c10::IValue& value, const Parameter& parameter) {
  if (value.isComplexDouble()) return push_complex(value.toComplexDouble());
  torchacc_arg argument;
  if (value.isBool()) {
    argument = integer_argument(TORCHACC_ARG_SCALAR_BOOL, value.toBool());
  } else if (value.isInt() && !parameter.is_float) {
    argument = integer_argument(TORCHACC_ARG_SCALAR_INT, value.toInt());
  } else if (value.isUnsigned() && !value.isInt()) {
    has_large_number_ = true;
    argument = integer_argument(TORCHACC_ARG_SCALAR_INT, 0);
  } else {
    const double number = value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble();
    argument = float_argument(TORCHACC_ARG_SCALAR_FLOAT, number);
  }
  push_scalar(argument);
}

// The type of a number determines the result's. Its value has no influence on shapes, but the
// operator may refuse it, or one of two in the wrong order.
void Call::push_scalar(torchacc_arg argument) {
  const bool is_float = argument.kind == TORCHACC_ARG_SCALAR_FLOAT;
  has_float_number_ |= is_float;
  const double number = is_float ? argument.v.f : static_cast<double>(argument.v.i);
  const uint64_t order = number < last_number_ ? 1 : number == last_number_ ? 2 : 3;
  last_number_ = number;
  key_.push_back(tag(kScalar, argument.kind, order, kind_of(number)));
  push(argument);
}

// A complex number is a constant: its two parts.
void Call::push_complex(c10::complex<double> number) {
  has_complex_number_ = true;
  const c10::SmallVector<uint64_t, 2> parts{bits_of(number.real()), bits_of(number.imag())};
  push_words(TORCHACC_ARG_FLOATS, parts);
}

void Call::read_list(c10::IValue& value, const Parameter& parameter) {
  const bool written = parameter.written || parameter.out;
  // Uploads CPU tensors into a copy of the list: the caller still owns the one on the stack.
  bool replace = false;
  for (const c10::IValue& one : value.toListRef()) {
    if (one.isTensor() && one.toTensor().defined()) {
      const at::Tensor& tensor = one.toTensor();
      replace |= !is_acc(tensor) || (!written && !is_plain(tensor));
    }
  }
  if (replace) {
    auto device_form = [&](const at::Tensor& tensor) {
      if (is_acc(tensor)) return written ? tensor : plain(tensor);
      if (written || !tensor.is_cpu() || (tensor.dim() != 0 && !info_->lists_from_cpu)) {
        fail_device(tensor, static_cast<size_t>(&value - &stack_[first_]));
      }
      return upload(tensor, device());
    };
    if (parameter.role == Role::TensorList) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& one : value.toListRef()) list.push_back(device_form(one.toTensor()));
      value = std::move(list);
    } else {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& one : value.toListRef()) {
        list.push_back(one.isTensor() && one.toTensor().defined()
                           ? std::optional(device_form(one.toTensor()))
                           : std::nullopt);
      }
      value = std::move(list);
    }
  }
  const c10::ArrayRef<c10::IValue> elements = value.toListRef();
  key_.push_back(tag(kList, 0, 0, elements.size()));
  if (!parameter.out) {
    torchacc_arg argument{TORCHACC_ARG_VIEWS, static_cast<uint32_t>(elements.size()), {}};
    argument.v.i = static_cast<int64_t>(tensors_.size());
    push(argument);
  }
  for (const c10::IValue& one : elements) {
    if (one.isTensor() && one.toTensor().defined()) {
      add_tensor(one.toTensor(), parameter);
    } else {
      key_.push_back(tag(kAbsent));
      tensors_.push_back({nullptr, -1, false, false, 0});
    }
  }
}

void Call::add_tensor(const at::Tensor& tensor, const Parameter& parameter) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const c10::DeviceIndex device = impl->device().index();
  if (!has_tensor_device_) {
    device_ = device;
    has_tensor_device_ = true;
  } else if (device != device_) {
    fail_device(tensor, info_->parameters.size());
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      impl->layout() == c10::kStrided && impl->has_storage(), info_->name,
      " got a tensor without strided storage, which the acc device does not support");
  const c10::ScalarType type = c10::typeMetaToScalarType(impl->dtype());
  const bool is_index = parameter.role == Role::OptionalList;
  n_indices_ += is_index;
  has_mask_ |= (is_index || parameter.role == Role::TensorList) &&
               (type == c10::ScalarType::Bool || type == c10::ScalarType::Byte);
  has_names_ |= is_named(*impl);
  const int32_t storage = storage_index(impl->unsafe_storage().unsafeGetStorageImpl());
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  key_.push_back(tag(kTensor, static_cast<uint64_t>(type),
                     sizes.size() << 1 | (impl->is_wrapped_number() ? 1 : 0),
                     static_cast<uint64_t>(storage)));
  tensors_.push_back(
      {impl, storage, parameter.written || parameter.out, parameter.out, key_.size()});
  key_.append(sizes.begin(), sizes.end());
  key_.append(strides.begin(), strides.end());
}

int32_t Call::storage_index(c10::StorageImpl* storage) {
  // Linear for ordinary calls. The storages in the long lists of fused optimizers are almost always
  // distinct, so looking back over a window of recent ones keeps them linear, at worst missing an
  // alias that only matters for overlap checks.
  constexpr size_t kWindow = 64;
  const size_t count = storages_.size();
  const size_t start = count > kWindow ? count - kWindow : 0;
  for (size_t index = start; index < count; ++index) {
    if (storages_[index] == storage) {
      storage_uses_[index] = 2;
      return static_cast<int32_t>(index);
    }
  }
  storages_.push_back(storage);
  storage_uses_.push_back(1);
  return static_cast<int32_t>(count);
}

// Offsets do not influence results, except through PyTorch's overlap checks between tensors that
// share a storage. Leaving the others out makes x[i] one key for all i.
void Call::key_aliased_offsets() {
  for (const TensorUse& use : tensors_) {
    if (use.tensor != nullptr && storage_uses_[use.storage] > 1) {
      key_.push_back(tag(kOffset));
      key_.push_back(static_cast<uint64_t>(use.tensor->storage_offset()));
    }
  }
}

bool Call::writes_twice() const {
  c10::SmallVector<std::pair<int32_t, int64_t>, 8> written;
  for (const TensorUse& use : tensors_) {
    if (use.tensor == nullptr || !use.written || use.out || storage_uses_[use.storage] < 2)
      continue;
    if (use.tensor->numel() != 0) written.emplace_back(use.storage, use.tensor->storage_offset());
  }
  std::sort(written.begin(), written.end());
  return std::adjacent_find(written.begin(), written.end()) != written.end();
}

void Call::fail_device(const at::Tensor& tensor, size_t index) const {
  fail_devices(*info_, index, {c10::DeviceType::PrivateUse1, device()}, tensor.device());
}

void Call::push_none(uint64_t key_tag) {
  key_.push_back(key_tag);
  push({TORCHACC_ARG_NONE, 0, {}});
}

template <class Values>
void Call::push_words(uint32_t kind, const Values& values) {
  key_.push_back(tag(kAttribute, kind, 0, values.size()));
  push(words_at(kind, values.size(), key_.size()));
  key_.append(values.begin(), values.end());
}

void Call::push_bytes(uint32_t kind, const uint8_t* bytes, size_t size) {
  key_.push_back(tag(kAttribute, kind, 0, size));
  push(words_at(kind, size, key_.size()));
  const size_t words = (size + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  key_.resize(key_.size() + words, 0);
  if (size != 0) std::memcpy(key_.end() - words, bytes, size);
}

KeyWords Call::key_with_numbers() const {
  KeyWords words = key_;
  for (const torchacc_arg& argument : arguments_) {
    if (argument.kind == TORCHACC_ARG_SCALAR_FLOAT) {
      words.push_back(bits_of(argument.v.f));
    } else if (argument.kind == TORCHACC_ARG_SCALAR_INT ||
               argument.kind == TORCHACC_ARG_SCALAR_BOOL) {
      words.push_back(static_cast<uint64_t>(argument.v.i));
    }
  }
  return words;
}

c10::ArrayRef<torchacc_arg> Call::arguments(const torchacc_view* views) {
  placed_ = arguments_;
  for (torchacc_arg& argument : placed_) {
    if (argument.kind == TORCHACC_ARG_VIEW || argument.kind == TORCHACC_ARG_VIEWS) {
      argument.v.p = views + argument.v.i;
    } else if (points_to_words(argument.kind)) {
      argument.v.p = key_.data() + argument.v.i;
    }
  }
  return placed_;
}

std::optional<KeyWords> Call::pattern() const {
  KeyWords words = key_;
  for (const size_t word : size_words_)
    words[word] = class_of_size(static_cast<int64_t>(key_[word]));
  size_t offset = words.size();  // the offsets of tensors that share a storage are at the end
  for (const TensorUse& use : tensors_) {
    if (use.tensor == nullptr || use.out) return std::nullopt;
    if (storage_uses_[use.storage] > 1) {
      if (use.written) return std::nullopt;
      words[offset - 1] = 0;
      offset -= 2;
    }
    const auto sizes = use.tensor->sizes();
    const auto strides = use.tensor->strides();
    // Includes dimensions of one element: their strides tell memory formats apart.
    const bool row_major = strides == at::IntArrayRef(c10::contiguous_strides(sizes));
    const bool dense = row_major || use.tensor->is_non_overlapping_and_dense();
    if (!dense && (use.written || !lies_apart(sizes, strides))) return std::nullopt;
    for (size_t index = 0; index < strides.size(); ++index) {
      words[use.words + index] = class_of_size(sizes[index]);
      const auto larger = [&](int64_t other) { return other > strides[index]; };
      const uint64_t order = std::count_if(strides.begin(), strides.end(), larger);
      const uint64_t kind = dense ? 1 : strides[index] == 0 ? 2 : 0;
      words[use.words + strides.size() + index] = row_major ? 0 : 1 + (order << 2 | kind);
    }
  }
  return words;
}

void Call::append_scalar(int64_t value) { push(integer_argument(TORCHACC_ARG_SCALAR_INT, value)); }

}  // namespace torchacc
