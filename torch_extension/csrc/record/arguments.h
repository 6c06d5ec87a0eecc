// One operator call, read off the dispatcher's stack: its tensors, its arguments in the form of the
// C ABI, and the key under which the shapes of its results are remembered.
#pragma once

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>
#include <torchacc.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "record/operator.h"
#include "runtime/allocator.h"

namespace torchacc {

// The words of a key. Payloads of attributes live here too, and arguments point to them.
using KeyWords = c10::SmallVector<uint64_t, 96>;

uint64_t hash_of(const KeyWords& words);

inline torchacc_arg integer_argument(torchacc_arg_kind kind, int64_t value) {
  torchacc_arg argument{kind, 0, {}};
  argument.v.i = value;
  return argument;
}
inline torchacc_arg float_argument(torchacc_arg_kind kind, double value) {
  torchacc_arg argument{kind, 0, {}};
  argument.v.f = value;
  return argument;
}
// The text must outlive the argument.
inline torchacc_arg text_argument(std::string_view text) {
  torchacc_arg argument{TORCHACC_ARG_STR, static_cast<uint32_t>(text.size()), {}};
  argument.v.p = text.data();
  return argument;
}
inline torchacc_arg view_argument(const torchacc_view& view) {
  torchacc_arg argument{TORCHACC_ARG_VIEW, 1, {}};
  argument.v.p = &view;
  return argument;
}

// A device tensor of the call. The stack keeps it alive.
struct TensorUse {
  c10::TensorImpl* tensor;
  int32_t storage;  // index of its storage among the call's distinct storages
  bool written;     // mutated or out=
  bool out;
  size_t words;  // where its sizes begin in the key; strides follow
};

class Call {
 public:
  // Replaces arguments on the stack where the device needs another form: lazily conjugated or
  // negated tensors are materialized, index lists on the CPU are uploaded. Throws PyTorch's error
  // for tensors of different devices.
  Call(std::shared_ptr<const OperatorInfo> info, torch::jit::Stack& stack);

  const OperatorInfo& info() const { return *info_; }
  const std::shared_ptr<const OperatorInfo>& shared_info() const { return info_; }
  c10::ArrayRef<c10::IValue> inputs() const {
    return c10::ArrayRef<c10::IValue>(stack_.data() + first_, info_->parameters.size());
  }
  torch::jit::Stack& stack() const { return stack_; }

  const KeyWords& key() const { return key_; }
  // The key, which has only the kinds of numbers, and the numbers themselves.
  KeyWords key_with_numbers() const;
  c10::ArrayRef<TensorUse> tensors() const { return tensors_; }
  c10::ArrayRef<c10::StorageImpl*> storages() const { return storages_; }
  // Device of the call's tensors, else of its device argument, else the current one.
  c10::DeviceIndex device() const;
  const std::optional<at::Generator>& generator() const { return generator_; }
  // Whether a list of tensors has a mask, and whether that is an index among others.
  bool has_mask() const { return has_mask_; }
  bool has_mask_among_indices() const { return has_mask_ && n_indices_ > 1; }
  bool has_names() const { return has_names_; }
  // Whether a number is complex; the ABI has it as two floats.
  bool has_complex_number() const { return has_complex_number_; }
  // Whether a number is a float, and whether one is an integer beyond int64, which no argument of
  // the ABI can hold.
  bool has_float_number() const { return has_float_number_; }
  bool has_large_number() const { return has_large_number_; }
  // Whether a list that is written to contains a tensor twice, as far as storage_index() looks
  // back.
  bool writes_twice() const;

  // The arguments with their final pointers. `views` has one view per entry of tensors(), in order.
  // Valid while this object and `views` are.
  c10::ArrayRef<torchacc_arg> arguments(const torchacc_view* views);
  // The key with sizes, including those in attributes, distinguished only as 0, 1 and others, and
  // strides by their order or as repeating. Nothing if elements overlap in another way, or if a
  // written tensor is not dense, shares its storage with another operand, or is an out= argument.
  // Scalars count by kind, other attributes by value.
  std::optional<KeyWords> pattern() const;
  void append_scalar(int64_t value);

 private:
  void read(size_t index, const Parameter& parameter);
  void read_tensor(c10::IValue& value, const Parameter& parameter, size_t index);
  void read_list(c10::IValue& value, const Parameter& parameter);
  void read_scalar(const c10::IValue& value, const Parameter& parameter);
  bool decides_type(const at::Tensor& tensor, const Parameter& parameter) const;
  void read_number(const at::Tensor& number, const Parameter& parameter, size_t index);
  void push_scalar(torchacc_arg argument);
  void push_complex(c10::complex<double> number);
  void add_tensor(const at::Tensor& tensor, const Parameter& parameter);
  int32_t storage_index(c10::StorageImpl* storage);
  void key_aliased_offsets();
  [[noreturn]] void fail_device(const at::Tensor& tensor, size_t index) const;

  void push(torchacc_arg argument) { arguments_.push_back(argument); }
  void push_none(uint64_t tag);
  template <class Values>
  void push_words(uint32_t kind, const Values& values);
  void push_bytes(uint32_t kind, const uint8_t* bytes, size_t size);

  std::shared_ptr<const OperatorInfo> info_;
  torch::jit::Stack& stack_;
  size_t first_;
  KeyWords key_;
  c10::SmallVector<TensorUse, 12> tensors_;
  c10::SmallVector<c10::StorageImpl*, 12> storages_;
  c10::SmallVector<uint8_t, 12> storage_uses_;
  c10::SmallVector<size_t, 4> size_words_;  // positions in the key of attributes that are sizes
  c10::SmallVector<torchacc_arg, 16> arguments_;
  c10::SmallVector<torchacc_arg, 16> placed_;  // with their final pointers
  std::optional<at::Generator> generator_;
  c10::DeviceIndex device_ = -1;
  bool has_tensor_device_ = false;
  bool has_mask_ = false;
  int n_indices_ = 0;
  bool has_names_ = false;
  bool has_complex_number_ = false;
  bool has_float_number_ = false;
  bool has_large_number_ = false;
  double last_number_ = 0;
};

}  // namespace torchacc
