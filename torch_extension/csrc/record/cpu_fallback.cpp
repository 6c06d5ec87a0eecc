#include "record/cpu_fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/List.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>

#include "record/dispatch.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

// A CPU tensor of one element that stood in for a device tensor.
struct Number {
  c10::ScalarType type;
  bool wrapped;
};

// The data of a call besides its arguments.
struct CpuFallback {
  std::shared_ptr<const OperatorInfo> info;
  std::vector<std::optional<Number>> numbers;  // per parameter
  std::vector<size_t> out_counts;              // per parameter: tensors in an out= list
  std::vector<ReturnShape> returns;
  std::vector<OutputShape::Kind> outputs;
  size_t fresh;
  bool by_columns;  // matrices are handed over column by column
};

bool is_absent(const torchacc_host_tensor& tensor) {
  return tensor.data == nullptr && tensor.rank == 0;
}

at::Scalar scalar_of(const torchacc_arg& argument) {
  switch (argument.kind) {
    case TORCHACC_ARG_SCALAR_INT:
      return argument.v.i;
    case TORCHACC_ARG_SCALAR_BOOL:
      return argument.v.i != 0;
    case TORCHACC_ARG_SCALAR_FLOAT:
      return argument.v.f;
    default: {  // a complex constant
      const auto* parts = static_cast<const double*>(argument.v.p);
      return c10::complex<double>(parts[0], parts[1]);
    }
  }
}

// One run: rebuilds the operator's stack over the memory it was given.
class Run {
 public:
  Run(const CpuFallback& host, c10::Device device, const torchacc_arg* args,
      const torchacc_host_tensor* outs)
      : host_(host), device_(device), args_(args), written_(outs + host.fresh), outs_(outs) {}

  void operator()(size_t n_args) {
    const CleanDispatch guard;
    const OperatorInfo& info = *host_.info;
    // OpenMP keeps a number of threads for each thread that starts some: use the number that
    // torch.set_num_threads was last given on any thread.
    at::init_num_threads();
    if (info.seeded) {
      const auto seed = static_cast<uint64_t>(args_[n_args - 2].v.i);
      const auto offset = static_cast<uint64_t>(args_[n_args - 1].v.i);
      generator_ =
          at::make_generator<at::CPUGeneratorImpl>(mix(seed) ^ mix(offset + 0x9E3779B97F4A7C15ull));
    }
    for (const Parameter& parameter : info.parameters) add(parameter);
    torch::jit::Stack stack =
        kept_;  // kernels return references to their arguments: keep them alive
    if (info.has(TORCHACC_FACT_DROPOUT)) {
      dropout(stack);
    } else {
      info.handle.callBoxed(&stack);
    }
    store(stack);
  }

 private:
  at::Tensor wrap(const torchacc_host_tensor& tensor) const {
    const at::IntArrayRef sizes(tensor.sizes, tensor.rank);
    const auto options = at::TensorOptions().dtype(to_scalar_type(tensor.dtype)).device(device_);
    if (tensor.data == nullptr) return at::empty(sizes, options);
    return at::for_blob(tensor.data, sizes).options(options).target_device(device_).make_tensor();
  }

  // splitmix64: neighbouring seeds and offsets must not give related streams.
  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
  }

  void add(const Parameter& parameter) {
    const size_t index = kept_.size();
    if (parameter.out) return add_out(parameter, index);
    const torchacc_arg& argument = *args_++;
    switch (argument.kind) {
      case TORCHACC_ARG_NONE:
        if (static_cast<int>(index) == host_.info->generator)
          return kept_.emplace_back(generator_), void();
        return kept_.emplace_back(absent(parameter, index)), void();
      case TORCHACC_ARG_VIEW: {
        const auto& tensor = *static_cast<const torchacc_host_tensor*>(argument.v.p);
        if (parameter.written) return kept_.emplace_back(working_copy(tensor)), void();
        const at::Tensor value = wrap(tensor);
        return kept_.emplace_back(host_.by_columns ? value.mT().contiguous().mT() : value), void();
      }
      case TORCHACC_ARG_VIEWS:
        return add_list(parameter, argument);
      case TORCHACC_ARG_SCALAR_INT:
      case TORCHACC_ARG_SCALAR_FLOAT:
      case TORCHACC_ARG_SCALAR_BOOL:
        return add_scalar(parameter, argument, index);
      case TORCHACC_ARG_INT:
        return kept_.emplace_back(argument.v.i), void();
      case TORCHACC_ARG_BOOL:
        return kept_.emplace_back(argument.v.i != 0), void();
      case TORCHACC_ARG_DTYPE:
        return kept_.emplace_back(to_scalar_type(static_cast<torchacc_dtype>(argument.v.i))),
               void();
      case TORCHACC_ARG_STR:
        return kept_.emplace_back(
                   std::string(static_cast<const char*>(argument.v.p), argument.len)),
               void();
      case TORCHACC_ARG_INTS:
        return add_values<int64_t>(argument);
      case TORCHACC_ARG_FLOATS:
        if (parameter.role != Role::FloatList) return add_scalar(parameter, argument, index);
        return add_values<double>(argument);
      case TORCHACC_ARG_BOOLS: {
        c10::List<bool> list;
        for (size_t i = 0; i < argument.len; ++i)
          list.push_back(static_cast<const uint8_t*>(argument.v.p)[i] != 0);
        return kept_.emplace_back(std::move(list)), void();
      }
      default:
        TORCH_INTERNAL_ASSERT(false, "argument kind ", argument.kind, " in a CPU fallback");
    }
  }

  c10::IValue absent(const Parameter& parameter, size_t index) const {
    const c10::Type& type = *host_.info->handle.schema().arguments()[index].real_type();
    if (type.kind() == c10::TypeKind::TensorType) return at::Tensor();
    const bool is_device = type.isSubtypeOf(*c10::OptionalType::create(c10::DeviceObjType::get()));
    if (parameter.role == Role::Dropped && is_device) return device_;
    return {};
  }

  template <class T>
  void add_values(const torchacc_arg& argument) {
    c10::List<T> list;
    for (size_t i = 0; i < argument.len; ++i)
      list.push_back(static_cast<const T*>(argument.v.p)[i]);
    kept_.emplace_back(std::move(list));
  }

  void add_scalar(const Parameter& parameter, const torchacc_arg& argument, size_t index) {
    const at::Scalar value = scalar_of(argument);
    if (const auto& number = host_.numbers[index]) {
      at::Tensor tensor =
          at::scalar_tensor(value, at::TensorOptions().dtype(number->type).device(at::kCPU));
      if (number->wrapped) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
      kept_.emplace_back(std::move(tensor));
    } else if (parameter.is_float) {
      kept_.emplace_back(value.toDouble());
    } else {
      kept_.emplace_back(value);
    }
  }

  void add_list(const Parameter& parameter, const torchacc_arg& argument) {
    const auto* tensors = static_cast<const torchacc_host_tensor*>(argument.v.p);
    if (parameter.role == Role::OptionalList) {
      c10::List<std::optional<at::Tensor>> list;
      for (size_t i = 0; i < argument.len; ++i) {
        list.push_back(is_absent(tensors[i]) ? std::nullopt : std::optional(wrap(tensors[i])));
      }
      kept_.emplace_back(std::move(list));
    } else {
      c10::List<at::Tensor> list;
      for (size_t i = 0; i < argument.len; ++i) {
        list.push_back(parameter.written ? working_copy(tensors[i]) : wrap(tensors[i]));
      }
      kept_.emplace_back(std::move(list));
    }
  }

  // A mutated argument: the kernel works on the output's memory, which starts as the old value.
  at::Tensor working_copy(const torchacc_host_tensor& old_value) {
    at::Tensor memory = wrap(*written_++);
    memory.copy_(wrap(old_value));
    in_place_.push_back(memory);
    return memory;
  }

  void add_out(const Parameter& parameter, size_t index) {
    if (parameter.role == Role::Tensor) {
      in_place_.push_back(wrap(*written_++));
      kept_.emplace_back(in_place_.back());
      return;
    }
    c10::List<at::Tensor> list;
    for (size_t i = 0; i < host_.out_counts[index]; ++i) {
      in_place_.push_back(wrap(*written_++));
      list.push_back(in_place_.back());
    }
    kept_.emplace_back(std::move(list));
  }

  // The operator has no generator argument: this is the same arithmetic with our generator.
  void dropout(torch::jit::Stack& stack) {
    const at::Tensor input = stack[0].toTensor();
    const double p = stack[1].toDouble();
    const bool train = stack[2].isNone() || stack[2].toBool();
    stack.clear();
    const auto mask_like = at::empty(input.sizes(), input.options().dtype(at::kBool));
    if (!train || p == 0) {
      stack.emplace_back(input.clone());
      stack.emplace_back(at::ones_like(mask_like));
      return;
    }
    const at::Tensor mask = mask_like.bernoulli_(1 - p, generator_);
    const double scale = p == 1 ? 0.0 : 1 / (1 - p);
    stack.emplace_back(at::mul(at::mul(input, mask), scale));
    stack.emplace_back(mask);
  }

  void store(const torch::jit::Stack& results) {
    size_t output = 0;
    size_t fresh = 0;
    for (size_t index = 0; index < host_.returns.size(); ++index) {
      const c10::IValue& value = results[index];
      if (!host_.returns[index].is_list) {
        store_one(value.isNone() ? at::Tensor() : value.toTensor(), output++, fresh);
        continue;
      }
      const auto elements = value.toListRef();
      TORCH_CHECK(elements.size() == host_.returns[index].count, host_.info->name, " returned ",
                  elements.size(), " tensors where ", host_.returns[index].count,
                  " were predicted");
      for (const c10::IValue& one : elements) store_one(one.toTensor(), output++, fresh);
    }
    for (const at::Tensor& tensor : in_place_) {
      TORCH_CHECK(tensor.storage_offset() == 0 && tensor.is_contiguous(), host_.info->name,
                  " changed the layout of an argument that it was not expected to resize");
    }
  }

  // The recorded shapes are what the program was compiled for, so they win over the kernel's.
  void store_one(const at::Tensor& result, size_t output, size_t& fresh) {
    if (host_.outputs[output] != OutputShape::Kind::Fresh) return;
    at::Tensor memory = wrap(outs_[fresh++]);
    // Some CPU kernels leave out unused results (the saved statistics of batch norm in eval mode).
    if (!result.defined() || (result.numel() == 0 && memory.numel() != 0)) {
      memory.zero_();
      return;
    }
    // If a native device's kernel returns something other than the recorded result, this error lets
    // the CPU's kernel take over. Statistics of halves are f32 in the Meta kernels, as on CUDA, and
    // halves in the CPU's.
    const auto is_like = [](c10::ScalarType a, c10::ScalarType b) {
      return a == b || (at::isFloatingType(a) && at::isFloatingType(b));
    };
    TORCH_CHECK_NOT_IMPLEMENTED(
        result.sizes() == memory.sizes() && is_like(result.scalar_type(), memory.scalar_type()),
        host_.info->name, " returned ", result.scalar_type(), result.sizes(),
        " where its Meta kernel predicted ", memory.scalar_type(), memory.sizes());
    memory.copy_(result);
  }

  const CpuFallback& host_;
  const c10::Device device_;
  const torchacc_arg* args_;
  const torchacc_host_tensor* written_;
  const torchacc_host_tensor* outs_;
  at::Generator generator_;
  torch::jit::Stack kept_;
  std::vector<at::Tensor> in_place_;
};

torchacc_error* run_cpu_fallback(void* user, const torchacc_arg* args, size_t n_args,
                                 const torchacc_host_tensor* outs, size_t) noexcept {
  const auto& host = *static_cast<const CpuFallback*>(user);
  return guarded({}, [&] { Run(host, at::kCPU, args, outs)(n_args); });
}

// Runs the native device's kernel on the context's memory.
torchacc_error* run_device_call(void* user, const torchacc_device* device, const torchacc_arg* args,
                                size_t n_args, const torchacc_host_tensor* outs, size_t) noexcept {
  const auto& host = *static_cast<const CpuFallback*>(user);
  return guarded(
      {}, [&] { on_stream(*device, [&] { Run(host, *native_device(), args, outs)(n_args); }); });
}

void drop_cpu_fallback(void* user) noexcept { delete static_cast<CpuFallback*>(user); }

template <class T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Everything in CpuFallback, so that equal keys mean equal behaviour.
std::string key_of(const CpuFallback& host) {
  std::string key = host.info->name;
  for (const auto& number : host.numbers) {
    key.push_back(number ? static_cast<char>(number->type) : char{-1});
    key.push_back(number && number->wrapped);
  }
  for (const size_t count : host.out_counts) append(key, count);
  for (const ReturnShape& result : host.returns) {
    append(key, result.is_list);
    append(key, result.count);
  }
  for (const OutputShape::Kind kind : host.outputs) append(key, kind);
  append(key, host.by_columns);
  return key;
}

}  // namespace

torchacc_op host_operator(const Call& call, const Shapes& shapes) {
  auto host = std::make_unique<CpuFallback>(
      CpuFallback{call.shared_info(), {}, {}, shapes.returns, {}, shapes.fresh, false});
  const auto inputs = call.inputs();
  // The factors of a row-major copy would differ.
  host->by_columns =
      call.info().has(TORCHACC_FACT_FOLLOWS_LAYOUT) && !call.tensors()[0].tensor->is_contiguous();
  for (size_t index = 0; index < inputs.size(); ++index) {
    const Parameter& parameter = call.info().parameters[index];
    const bool tensor = parameter.role == Role::Tensor && inputs[index].isTensor();
    const bool out_list = parameter.out && parameter.role == Role::TensorList;
    host->out_counts.push_back(out_list ? inputs[index].toListRef().size() : 0);
    const bool number =
        tensor && inputs[index].toTensor().defined() && !is_acc(inputs[index].toTensor());
    host->numbers.push_back(
        number ? std::optional(
                     Number{inputs[index].toTensor().scalar_type(),
                            inputs[index].toTensor().unsafeGetTensorImpl()->is_wrapped_number()})
               : std::nullopt);
  }
  for (const OutputShape& output : shapes.outputs) host->outputs.push_back(output.kind);
  const std::string key = key_of(*host);
  torchacc_op op = 0;
  const std::string& name = call.info().name;
  torchacc_host_op description{};
  description.struct_size = sizeof description;
  description.name = to_str(name);
  description.key = to_str(key);
  description.function = callback(&run_cpu_fallback);
  if (native_device().has_value() && !call.info().by_cpu) {
    description.device_function = callback(&run_device_call);
  }
  description.user = host.get();
  description.drop = callback(&drop_cpu_fallback);
  check(torchacc_op_register_host(&description, &op));
  (void)host
      .release();  // owned by the library now, which drops it at once if it knew the key already
  return op;
}

}  // namespace torchacc
