// What the recorder needs to know of an operator, worked out once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torchacc.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torchacc {

// How a schema argument crosses the C ABI.
enum class Role : uint8_t {
  Tensor,        // VIEW, NONE, or SCALAR_* for a number that stands in for a tensor
  TensorList,    // VIEWS
  OptionalList,  // VIEWS with absent elements
  Scalar,        // SCALAR_*: a value that may change from call to call
  Int,           // attributes from here on: part of every key
  Bool,
  String,
  Dtype,
  IntList,
  FloatList,
  BoolList,
  Dropped,      // NONE: devices, pinning, generators; the recorder has dealt with them
  Unsupported,  // no ABI form: the operator runs at once
};

struct Parameter {
  Role role;
  bool written;   // mutated in place: an argument (its old value) and an output
  bool out;       // out=: only an output
  bool is_float;  // schema type `float`: a Scalar that arrives and is rebuilt as a double
  bool is_size;   // numbers that are sizes of an operand or a result
};

// Operators that cannot be recorded because PyTorch cannot say what they return before they have
// run.
enum class Immediate : uint8_t {
  Never,
  WithMask,  // only with a boolean index, whose number of true elements is a size
  Always,
};

struct OperatorInfo {
  c10::OperatorHandle handle;
  std::string name;  // "aten::add.Tensor"
  uint64_t id;  // never reused, unlike addresses of operators that Python removes and defines again
  std::vector<Parameter> parameters = {};
  int generator = -1;           // index of the generator parameter
  bool seeded = false;          // takes numbers from the generator
  bool lists_from_cpu = false;  // its index lists may lie on the CPU
  bool users = false;           // not one of PyTorch's own
  bool by_cpu = false;          // by the CPU's kernel wherever its operands lie
  bool clamps = false;          // between numbers
  bool dry_runnable = false;    // its CPU kernel says as much of small tensors as of large ones
  Immediate immediate = Immediate::Never;
  std::optional<torchacc_op> native = std::nullopt;
  torchacc_facts facts = 0;  // what the schema does not say

  bool has(torchacc_facts fact) const { return (facts & fact) != 0; }
};

std::shared_ptr<const OperatorInfo> operator_info(const c10::OperatorHandle& handle);

// Has the operator of a library, "torchaudio::lfilter", recorded as its kernel for the CPU, which
// has to be compiled, where a device would else get a composition of PyTorch's operators. Its
// schema must say all that it writes.
void record_whole(const std::string& name);

// Throws PyTorch's error for tensors of different devices; `index` is that of the parameter in
// question, or past the last.
[[noreturn]] void fail_devices(const OperatorInfo& info, size_t index, c10::Device expected,
                               c10::Device found);

// The library's operator of that name, or nothing.
std::optional<torchacc_op> find_native(std::string_view name);

}  // namespace torchacc
