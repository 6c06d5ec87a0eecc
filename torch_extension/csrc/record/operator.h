// The recorder's facts about an operator, derived once from its schema.
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

// Operators that cannot be recorded because PyTorch does not know their results before they have
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
  bool seeded = false;          // draws from the generator
  bool lists_from_cpu = false;  // its index lists may lie on the CPU
  bool users = false;           // not one of PyTorch's own
  bool by_cpu = false;          // runs as the CPU's kernel wherever its operands are
  bool clamps = false;          // clamps between numbers
  bool dry_runnable = false;    // a dry run on small tensors tells as much as on large ones
  Immediate immediate = Immediate::Never;
  std::optional<torchacc_op> native = std::nullopt;
  torchacc_facts facts = 0;  // not in the schema

  bool has(torchacc_facts fact) const { return (facts & fact) != 0; }
};

std::shared_ptr<const OperatorInfo> operator_info(const c10::OperatorHandle& handle);

// Records the operator of a library, "torchaudio::lfilter", as its CPU kernel, which must be
// compiled, where a device would otherwise get a composition of PyTorch's operators. Its schema
// must declare everything that it writes.
void record_whole(const std::string& name);

// Throws PyTorch's error for tensors of different devices; `index` is that of the parameter in
// question, or past the last.
[[noreturn]] void fail_devices(const OperatorInfo& info, size_t index, c10::Device expected,
                               c10::Device found);

// The library's operator of this name, or nothing.
std::optional<torchacc_op> find_native(std::string_view name);

}  // namespace torchacc
