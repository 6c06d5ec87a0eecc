// torchacc.hpp: libtorchacc for C++17. Header-only, over torchacc.h; no other dependency.
//
// Handles are values: copying one shares what it stands for. Whatever fails throws torchacc::Error.
// Operations are recorded and run when a result is read, or at cut() and sync(); the header
// torchacc.h says which functions wait.
//
//   torchacc::Context context;
//   auto x = torchacc::tensor<float>(context, {1, 2, 3, 4}, {2, 2});
//   auto y = relu(matmul(x, x) - 3.0);
//   std::vector<float> values = y.read<float>();
//
// Every operator can be called by name, with its arguments in the order of torchacc_op_signature:
//
//   auto z = torchacc::call("aten::native_layer_norm", {x, torchacc::Ints{2}, {}, {}, 1e-5}, 3)[0];
#ifndef TORCHACC_HPP
#define TORCHACC_HPP

#include <array>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torchacc.h"

namespace torchacc {

using Ints = std::vector<std::int64_t>;

/// Type of an element; the numbers of torchacc.h.
enum class DType : torchacc_dtype {
  Bool = TORCHACC_BOOL,
  U8 = TORCHACC_U8,
  I8 = TORCHACC_I8,
  I16 = TORCHACC_I16,
  I32 = TORCHACC_I32,
  I64 = TORCHACC_I64,
  F16 = TORCHACC_F16,
  BF16 = TORCHACC_BF16,
  F32 = TORCHACC_F32,
  F64 = TORCHACC_F64,
  C64 = TORCHACC_C64,
  C128 = TORCHACC_C128,
  U16 = TORCHACC_U16,
  U32 = TORCHACC_U32,
  U64 = TORCHACC_U64,
};

/// The dtype of a C++ type.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return DType::Bool;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::U8;
  if constexpr (std::is_same_v<T, std::int8_t>) return DType::I8;
  if constexpr (std::is_same_v<T, std::int16_t>) return DType::I16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::I32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::I64;
  if constexpr (std::is_same_v<T, std::uint16_t>) return DType::U16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return DType::U32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return DType::U64;
  if constexpr (std::is_same_v<T, float>) return DType::F32;
  if constexpr (std::is_same_v<T, double>) return DType::F64;
}

/// What a call failed with.
class Error : public std::runtime_error {
 public:
  Error(torchacc_code code, const std::string& message, std::uint64_t site = 0)
      : std::runtime_error(message), code_(code), site_(site) {}
  /// One of the codes of torchacc.h.
  torchacc_code code() const noexcept { return code_; }
  /// The place that recorded the operation that failed, as the locator named it; 0 when unknown.
  std::uint64_t site() const noexcept { return site_; }

 private:
  torchacc_code code_;
  std::uint64_t site_;
};

inline std::string to_string(torchacc_str text) { return std::string(text.data, text.len); }

inline torchacc_str to_str(std::string_view text) { return {text.data(), text.size()}; }

/// Throws what a function of torchacc.h returned.
inline void check(torchacc_error* error) {
  if (error == nullptr) return;
  const std::unique_ptr<torchacc_error, void (*)(torchacc_error*)> owned(error,
                                                                         torchacc_error_free);
  throw Error(torchacc_error_code(error), to_string(torchacc_error_message(error)),
              torchacc_error_site(error));
}

/// An owned text as a std::string.
inline std::string take(torchacc_string* text) {
  const std::unique_ptr<torchacc_string, void (*)(torchacc_string*)> owned(text,
                                                                           torchacc_string_free);
  return to_string(torchacc_string_view(text));
}

namespace detail {

/// A shared handle.
template <class T, T* (*retain)(T*), void (*release)(T*)>
class Shared {
 public:
  Shared() = default;
  /// Takes over the caller's reference.
  explicit Shared(T* owned) noexcept : handle_(owned) {}
  Shared(const Shared& other) noexcept : handle_(retain(other.handle_)) {}
  Shared(Shared&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Shared() { release(handle_); }
  T* get() const noexcept { return handle_; }

 private:
  T* handle_ = nullptr;
};

template <class F>
void drop(void* user) {
  delete static_cast<F*>(user);
}

}  // namespace detail

/// A trace, a cache of programs, a launch thread and a backend. Copies share it.
class Context {
 public:
  Context() : Context(torchacc_options{}) {}
  /// `struct_size` is filled in here.
  explicit Context(torchacc_options options) {
    if (torchacc_abi_version() != TORCHACC_ABI)
      throw Error(TORCHACC_ABI_MISMATCH, "libtorchacc serves another ABI than torchacc.h");
    options.struct_size = sizeof options;
    torchacc_context* made = nullptr;
    check(torchacc_context_new(&options, &made));
    handle_ = Handle(made);
  }
  explicit Context(std::string_view backend) : Context(named(backend)) {}

  torchacc_context* get() const noexcept { return handle_.get(); }
  void cut() const { check(torchacc_cut(get())); }
  void sync() const { check(torchacc_sync(get())); }
  void seed(std::uint64_t seed) const { check(torchacc_seed(get(), seed)); }
  /// Counters and times as JSON.
  std::string metrics() const { return text(torchacc_metrics); }
  /// What the caches of programs hold and did.
  torchacc_cache_stats cache_stats() const {
    torchacc_cache_stats stats{};
    stats.struct_size = sizeof stats;
    check(torchacc_context_cache_stats(get(), &stats));
    return stats;
  }
  /// Compiles, host calls and cuts with their reasons, as JSON.
  std::string explain() const { return text(torchacc_explain); }
  std::string last_program() const { return text(torchacc_last_program); }

 private:
  using Handle =
      detail::Shared<torchacc_context, torchacc_context_retain, torchacc_context_release>;
  static torchacc_options named(std::string_view backend) {
    torchacc_options options{};
    options.backend = to_str(backend);
    return options;
  }
  std::string text(torchacc_error* (*function)(torchacc_context*, torchacc_string**)) const {
    torchacc_string* text = nullptr;
    check(function(get(), &text));
    return take(text);
  }
  Handle handle_;
};

/// A strided view of a buffer. Copies share it; operations make new ones.
class Tensor {
 public:
  Tensor() = default;
  /// Takes over the caller's reference.
  Tensor(Context context, torchacc_tensor* owned)
      : context_(Maybe(std::move(context))), handle_(owned) {}

  torchacc_tensor* get() const noexcept { return handle_.get(); }
  const Context& context() const { return context_.value(); }
  explicit operator bool() const noexcept { return get() != nullptr; }

  DType dtype() const { return static_cast<DType>(torchacc_tensor_dtype(get())); }
  std::size_t rank() const { return torchacc_tensor_rank(get()); }
  Ints sizes() const {
    const std::int64_t* sizes = torchacc_tensor_sizes(get());
    return Ints(sizes, sizes + rank());
  }
  /// Counted from the end when negative.
  std::int64_t size(std::int64_t dim) const { return torchacc_tensor_sizes(get())[wrapped(dim)]; }
  std::int64_t numel() const { return torchacc_tensor_numel(get()); }
  std::size_t nbytes() const { return torchacc_tensor_nbytes(get()); }
  bool is_ready() const { return torchacc_tensor_is_ready(get()); }
  std::string name() const { return to_string(torchacc_tensor_name(get())); }
  Tensor& set_name(std::string_view name) {
    check(torchacc_tensor_set_name(get(), to_str(name)));
    return *this;
  }
  void mark_dynamic(std::int64_t dim, std::int64_t least, std::int64_t most) const {
    check(torchacc_tensor_mark_dynamic(get(), wrapped(dim), least, most));
  }

  /// The elements in row-major order. Blocks.
  template <class T>
  std::vector<T> read() const {
    static_assert(!std::is_same_v<T, bool>, "read bools as std::uint8_t");
    expect<T>();
    std::vector<T> values(static_cast<std::size_t>(numel()));
    check(torchacc_tensor_read(get(), values.data(), values.size() * sizeof(T)));
    return values;
  }
  /// The only element. Blocks.
  template <class T>
  T item() const {
    expect<T>();
    T value{};
    if (numel() != 1)
      throw Error(TORCHACC_INVALID_ARGUMENT, "item() of a tensor of several elements");
    check(torchacc_tensor_read(get(), &value, sizeof value));
    return value;
  }
  /// Calls `done(values)` on a thread of the library's own, or `failed(Error)`. Neither may throw.
  template <class T, class Done, class Failed>
  void read_async(Done done, Failed failed) const {
    expect<T>();
    using Both = std::pair<Done, Failed>;
    auto both = std::make_unique<Both>(std::move(done), std::move(failed));
    const auto tell = [](void* user, const torchacc_error* error, const void* data,
                         std::size_t len) {
      auto& both = *static_cast<Both*>(user);
      if (error != nullptr) {
        both.second(Error(torchacc_error_code(error), to_string(torchacc_error_message(error)),
                          torchacc_error_site(error)));
        return;
      }
      std::vector<T> values(len / sizeof(T));
      if (len > 0) std::memcpy(values.data(), data, len);
      both.first(std::move(values));
    };
    check(torchacc_tensor_read_async(get(), tell, both.release(), detail::drop<Both>));
  }
  /// Replaces the elements.
  template <class T>
  void write(const std::vector<T>& values) const {
    expect<T>();
    check(torchacc_tensor_write(get(), values.data(), values.size() * sizeof(T)));
  }

  // Views: they share the elements.

  Tensor permute(const Ints& order) const {
    return made([&](torchacc_tensor** out) {
      return torchacc_tensor_permute(get(), order.data(), rank_of(order), out);
    });
  }
  Tensor transpose(std::int64_t a, std::int64_t b) const {
    Ints order(rank());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    std::swap(order[wrapped(a)], order[wrapped(b)]);
    return permute(order);
  }
  /// The last two dimensions exchanged.
  Tensor t() const { return transpose(-2, -1); }
  Tensor slice(std::int64_t dim, std::int64_t start, std::int64_t count,
               std::int64_t step = 1) const {
    return made([&](torchacc_tensor** out) {
      return torchacc_tensor_slice(get(), wrapped(dim), start, count, step, out);
    });
  }
  Tensor reshape(const Ints& sizes) const {
    return made([&](torchacc_tensor** out) {
      return torchacc_tensor_reshape(get(), sizes.data(), rank_of(sizes), out);
    });
  }
  Tensor expand(const Ints& sizes) const {
    return made([&](torchacc_tensor** out) {
      return torchacc_tensor_expand(get(), sizes.data(), rank_of(sizes), out);
    });
  }

  // In place.

  inline Tensor& operator+=(const Tensor& other);
  inline Tensor& operator-=(const Tensor& other);
  inline Tensor& operator*=(const Tensor& other);
  inline Tensor& operator/=(const Tensor& other);
  inline Tensor& operator+=(double other);
  inline Tensor& operator-=(double other);
  inline Tensor& operator*=(double other);
  inline Tensor& operator/=(double other);

 private:
  using Handle = detail::Shared<torchacc_tensor, torchacc_tensor_retain, torchacc_tensor_release>;

  /// A context, or none for a tensor that is none.
  class Maybe {
   public:
    Maybe() = default;
    explicit Maybe(Context context) : context_(std::make_shared<Context>(std::move(context))) {}
    const Context& value() const {
      if (!context_) throw Error(TORCHACC_INVALID_ARGUMENT, "this torchacc::Tensor is none");
      return *context_;
    }

   private:
    std::shared_ptr<const Context> context_;
  };

  static std::uint32_t rank_of(const Ints& list) { return static_cast<std::uint32_t>(list.size()); }
  std::uint32_t wrapped(std::int64_t dim) const {
    const auto dims = static_cast<std::int64_t>(rank());
    if (dim < -dims || dim >= dims)
      throw Error(TORCHACC_INVALID_ARGUMENT, "dimension " + std::to_string(dim) +
                                                 " of a tensor of " + std::to_string(dims) +
                                                 " dimensions");
    return static_cast<std::uint32_t>(dim < 0 ? dim + dims : dim);
  }
  template <class T>
  void expect() const {
    constexpr bool any_byte = std::is_same_v<T, std::uint8_t>;
    if (dtype() != dtype_of<T>() && !(any_byte && dtype() == DType::Bool))
      throw Error(TORCHACC_INVALID_ARGUMENT, "the tensor's elements are of another type");
  }
  template <class F>
  Tensor made(F&& make) const {
    torchacc_tensor* out = nullptr;
    check(make(&out));
    Tensor tensor;
    tensor.context_ = context_;
    tensor.handle_ = Handle(out);
    return tensor;
  }

  Maybe context_;
  Handle handle_;
};

/// A tensor with a copy of `values`, in row-major order.
template <class T>
Tensor tensor(const Context& context, const std::vector<T>& values, const Ints& sizes) {
  torchacc_tensor* out = nullptr;
  check(torchacc_tensor_from_host(context.get(), static_cast<torchacc_dtype>(dtype_of<T>()),
                                  sizes.data(), static_cast<std::uint32_t>(sizes.size()),
                                  values.data(), values.size() * sizeof(T), &out));
  return Tensor(context, out);
}

template <class T>
Tensor tensor(const Context& context, std::initializer_list<T> values, const Ints& sizes) {
  return tensor<T>(context, std::vector<T>(values), sizes);
}

/// A tensor of one number and no dimension.
template <class T>
Tensor scalar(const Context& context, T value) {
  return tensor<T>(context, std::vector<T>{value}, {});
}

/// A tensor on the elements of `values`, which it keeps: no copy where they are aligned to 16
/// bytes.
template <class T>
Tensor lend(const Context& context, std::vector<T> values, const Ints& sizes) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  const void* data = owner->data();
  const std::size_t len = owner->size() * sizeof(T);
  torchacc_tensor* out = nullptr;
  check(torchacc_tensor_borrow(context.get(), static_cast<torchacc_dtype>(dtype_of<T>()),
                               sizes.data(), nullptr, static_cast<std::uint32_t>(sizes.size()),
                               data, len, owner.release(), detail::drop<std::vector<T>>, &out));
  return Tensor(context, out);
}

inline Tensor zeros(const Context& context, const Ints& sizes, DType dtype = DType::F32) {
  torchacc_tensor* out = nullptr;
  check(torchacc_tensor_zeros(context.get(), static_cast<torchacc_dtype>(dtype), sizes.data(),
                              static_cast<std::uint32_t>(sizes.size()), &out));
  return Tensor(context, out);
}

/// Numbers from the context's generator, for an operator that draws some.
struct Random {};

/// A whole number that may change from call to call without compiling again. (A double always may;
/// an int is part of what is compiled, as dimensions and sizes must be.)
struct Number {
  std::int64_t value;
};

/// A communicator that was registered, by its name.
struct Communicator {
  std::string name;
};

/// One argument of a call. It keeps what it points at.
class Arg {
 public:
  /// Absent, or the default.
  Arg() = default;
  Arg(std::nullptr_t) {}
  Arg(const Tensor& tensor) : tensors_{tensor} {
    kind_ = tensor ? TORCHACC_ARG_TENSOR : TORCHACC_ARG_NONE;
  }
  Arg(const std::vector<Tensor>& tensors) : kind_(TORCHACC_ARG_TENSORS), tensors_(tensors) {
    for (const Tensor& tensor : tensors_) handles_.push_back(tensor.get());
  }
  Arg(bool value) : kind_(TORCHACC_ARG_BOOL) { value_.i = value ? 1 : 0; }
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Arg(T value) : kind_(TORCHACC_ARG_INT) {
    value_.i = static_cast<std::int64_t>(value);
  }
  Arg(double value) : kind_(TORCHACC_ARG_SCALAR_FLOAT) { value_.f = value; }
  Arg(Number number) : kind_(TORCHACC_ARG_SCALAR_INT) { value_.i = number.value; }
  Arg(Random) : kind_(TORCHACC_ARG_RANDOM) {}
  Arg(DType dtype) : kind_(TORCHACC_ARG_DTYPE) { value_.i = static_cast<std::int64_t>(dtype); }
  Arg(const Ints& ints) : kind_(TORCHACC_ARG_INTS), ints_(ints) {}
  Arg(const std::vector<double>& floats) : kind_(TORCHACC_ARG_FLOATS), floats_(floats) {}
  Arg(const Communicator& communicator)
      : kind_(TORCHACC_ARG_COMMUNICATOR), text_(communicator.name) {}
  Arg(const char* text) : kind_(TORCHACC_ARG_STR), text_(text) {}
  Arg(const std::string& text) : kind_(TORCHACC_ARG_STR), text_(text) {}

  /// As torchacc.h wants it; valid as long as this argument.
  torchacc_arg get() const {
    torchacc_arg arg{kind_, 0, value_};
    const auto points_at = [&arg](const void* data, std::size_t count) {
      arg.v.p = data;
      arg.len = static_cast<std::uint32_t>(count);
    };
    if (kind_ == TORCHACC_ARG_TENSOR) arg.v.p = tensors_[0].get();
    if (kind_ == TORCHACC_ARG_TENSORS) points_at(handles_.data(), handles_.size());
    if (kind_ == TORCHACC_ARG_INTS) points_at(ints_.data(), ints_.size());
    if (kind_ == TORCHACC_ARG_FLOATS) points_at(floats_.data(), floats_.size());
    if (kind_ == TORCHACC_ARG_STR || kind_ == TORCHACC_ARG_COMMUNICATOR)
      points_at(text_.data(), text_.size());
    return arg;
  }

  /// Its first tensor, if it has one.
  const Tensor* tensor() const { return tensors_.empty() || !tensors_[0] ? nullptr : &tensors_[0]; }

 private:
  torchacc_arg_kind kind_ = TORCHACC_ARG_NONE;
  torchacc_value value_{};
  std::vector<Tensor> tensors_;
  std::vector<torchacc_tensor*> handles_;
  Ints ints_;
  std::vector<double> floats_;
  std::string text_;
};

using Args = std::vector<Arg>;

/// An operator by name, looked up once.
class Op {
 public:
  explicit Op(std::string_view name) { check(torchacc_op_find(to_str(name), &number_)); }

  /// Records it on `context`; gives its `count` results.
  std::vector<Tensor> operator()(const Context& context, const Args& args,
                                 std::size_t count) const {
    const std::vector<torchacc_arg> given = plain(args);
    std::vector<torchacc_tensor*> outs(count, nullptr);
    check(torchacc_apply(context.get(), number_, given.data(), given.size(), outs.data(), count));
    std::vector<Tensor> tensors;
    tensors.reserve(count);
    for (torchacc_tensor* out : outs) tensors.emplace_back(context, out);
    return tensors;
  }
  /// The same, in the context of the first tensor, for operators with one result.
  Tensor operator()(const Args& args) const { return (*this)(context_of(args), args, 1)[0]; }
  /// Writes the results to tensors that are there.
  void into(const Args& args, const std::vector<Tensor>& outs) const {
    const std::vector<torchacc_arg> given = plain(args);
    std::vector<torchacc_tensor*> handles;
    for (const Tensor& out : outs) handles.push_back(out.get());
    const Context& context = outs.empty() ? context_of(args) : outs[0].context();
    check(torchacc_apply_into(context.get(), number_, given.data(), given.size(), handles.data(),
                              handles.size()));
  }
  torchacc_op number() const noexcept { return number_; }

  static std::vector<torchacc_arg> plain(const Args& args) {
    std::vector<torchacc_arg> given;
    given.reserve(args.size());
    for (const Arg& arg : args) given.push_back(arg.get());
    return given;
  }
  static const Context& context_of(const Args& args) {
    for (const Arg& arg : args)
      if (arg.tensor() != nullptr) return arg.tensor()->context();
    throw Error(TORCHACC_INVALID_ARGUMENT, "a call without tensors needs a context");
  }

 private:
  torchacc_op number_ = 0;
};

/// An operator by name. Lookups are remembered by thread.
inline const Op& op(const std::string& name) {
  thread_local std::unordered_map<std::string, Op> known;
  const auto found = known.find(name);
  return found != known.end() ? found->second : known.emplace(name, Op(name)).first->second;
}

/// Calls an operator that has one result.
inline Tensor call(const std::string& name, const Args& args) { return op(name)(args); }

/// Calls an operator that has `count` results.
inline std::vector<Tensor> call(const std::string& name, const Args& args, std::size_t count) {
  return op(name)(Op::context_of(args), args, count);
}

/// Calls an operator that takes no tensor.
inline Tensor call(const Context& context, const std::string& name, const Args& args) {
  return op(name)(context, args, 1)[0];
}

// ---- operators, as PyTorch's

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return call("aten::add.Tensor", {a, b});
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return call("aten::sub.Tensor", {a, b});
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return call("aten::mul.Tensor", {a, b});
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return call("aten::div.Tensor", {a, b});
}
inline Tensor operator+(const Tensor& a, double b) { return call("aten::add.Scalar", {a, b}); }
inline Tensor operator-(const Tensor& a, double b) { return call("aten::sub.Scalar", {a, b}); }
inline Tensor operator*(const Tensor& a, double b) { return call("aten::mul.Scalar", {a, b}); }
inline Tensor operator/(const Tensor& a, double b) { return call("aten::div.Scalar", {a, b}); }
inline Tensor operator+(double a, const Tensor& b) { return b + a; }
inline Tensor operator-(double a, const Tensor& b) { return call("aten::rsub.Scalar", {b, a}); }
inline Tensor operator*(double a, const Tensor& b) { return b * a; }
inline Tensor operator/(double a, const Tensor& b) { return call("aten::reciprocal", {b}) * a; }
inline Tensor operator-(const Tensor& a) { return call("aten::neg", {a}); }

inline Tensor& Tensor::operator+=(const Tensor& other) {
  op("aten::add.Tensor").into({*this, other}, {*this});
  return *this;
}
inline Tensor& Tensor::operator-=(const Tensor& other) {
  op("aten::sub.Tensor").into({*this, other}, {*this});
  return *this;
}
inline Tensor& Tensor::operator*=(const Tensor& other) {
  op("aten::mul.Tensor").into({*this, other}, {*this});
  return *this;
}
inline Tensor& Tensor::operator/=(const Tensor& other) {
  op("aten::div.Tensor").into({*this, other}, {*this});
  return *this;
}
inline Tensor& Tensor::operator+=(double other) {
  op("aten::add.Scalar").into({*this, other}, {*this});
  return *this;
}
inline Tensor& Tensor::operator-=(double other) {
  op("aten::sub.Scalar").into({*this, other}, {*this});
  return *this;
}
inline Tensor& Tensor::operator*=(double other) {
  op("aten::mul.Scalar").into({*this, other}, {*this});
  return *this;
}
inline Tensor& Tensor::operator/=(double other) {
  op("aten::div.Scalar").into({*this, other}, {*this});
  return *this;
}

inline Tensor eq(const Tensor& a, const Tensor& b) { return call("aten::eq.Tensor", {a, b}); }
inline Tensor lt(const Tensor& a, const Tensor& b) { return call("aten::lt.Tensor", {a, b}); }
inline Tensor gt(const Tensor& a, const Tensor& b) { return call("aten::gt.Tensor", {a, b}); }
inline Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return call("aten::where.self", {condition, a, b});
}
inline Tensor exp(const Tensor& x) { return call("aten::exp", {x}); }
inline Tensor log(const Tensor& x) { return call("aten::log", {x}); }
inline Tensor sqrt(const Tensor& x) { return call("aten::sqrt", {x}); }
inline Tensor abs(const Tensor& x) { return call("aten::abs", {x}); }
inline Tensor tanh(const Tensor& x) { return call("aten::tanh", {x}); }
inline Tensor sigmoid(const Tensor& x) { return call("aten::sigmoid", {x}); }
inline Tensor relu(const Tensor& x) { return call("aten::relu", {x}); }
inline Tensor gelu(const Tensor& x) { return call("aten::gelu", {x}); }
inline Tensor pow(const Tensor& x, double exponent) {
  return call("aten::pow.Tensor_Scalar", {x, exponent});
}
inline Tensor softmax(const Tensor& x, std::int64_t dim) {
  return call("aten::_softmax", {x, dim, false});
}
inline Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  return call("aten::_log_softmax", {x, dim, false});
}
inline Tensor sum(const Tensor& x) { return call("aten::sum", {x}); }
inline Tensor sum(const Tensor& x, const Ints& dims, bool keep = false) {
  return call("aten::sum.dim_IntList", {x, dims, keep});
}
inline Tensor mean(const Tensor& x) { return call("aten::mean", {x}); }
inline Tensor mean(const Tensor& x, const Ints& dims, bool keep = false) {
  return call("aten::mean.dim", {x, dims, keep});
}
inline Tensor max(const Tensor& x) { return call("aten::max", {x}); }
inline Tensor argmax(const Tensor& x, std::int64_t dim) { return call("aten::argmax", {x, dim}); }
/// Of matrices, or of batches of matrices of equal sizes.
inline Tensor matmul(const Tensor& a, const Tensor& b) { return call("matmul", {a, b}); }
inline Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0) {
  return call("aten::cat", {tensors, dim});
}
inline Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return call("aten::index_select", {x, dim, index});
}
inline Tensor to(const Tensor& x, DType dtype) { return call("aten::_to_copy", {x, dtype}); }
inline Tensor clone(const Tensor& x) { return call("aten::clone", {x}); }
/// Uniform in [low, high), from the context's generator.
inline Tensor uniform(const Context& context, const Ints& sizes, double low = 0, double high = 1) {
  return call("aten::uniform", {zeros(context, sizes), low, high, Random{}});
}
/// Normal, from the context's generator.
inline Tensor normal(const Context& context, const Ints& sizes, double mean = 0,
                     double deviation = 1) {
  return call("aten::normal_", {zeros(context, sizes), mean, deviation, Random{}});
}

// ---- gradients

/// The derivatives of `loss`, one float, with respect to what float tensors hold now: see
/// torchacc_grad.
inline std::vector<Tensor> grad(const Tensor& loss, const std::vector<Tensor>& params) {
  std::vector<torchacc_tensor*> handles, grads(params.size(), nullptr);
  for (const Tensor& param : params) handles.push_back(param.get());
  check(torchacc_grad(loss.context().get(), loss.get(), handles.data(), handles.size(),
                      grads.data()));
  std::vector<Tensor> tensors;
  tensors.reserve(grads.size());
  for (torchacc_tensor* found : grads) tensors.emplace_back(loss.context(), found);
  return tensors;
}

// ---- several ranks

/// What a communicator does: see torchacc_communicator. Each fills `out` from `in`, and throws when
/// it cannot; what is left empty is not supported.
struct Collectives {
  using Function = std::function<void(std::int64_t how, const torchacc_host_tensor& in,
                                      const torchacc_host_tensor& out)>;
  Function all_reduce, all_gather, reduce_scatter, broadcast, all_to_all;
};

namespace detail {

template <Collectives::Function Collectives::* function>
torchacc_error* collective(void* user, std::int64_t how, const torchacc_host_tensor* in,
                           const torchacc_host_tensor* out) {
  try {
    (static_cast<Collectives*>(user)->*function)(how, *in, *out);
    return nullptr;
  } catch (const Error& error) {
    return torchacc_error_new(error.code(), to_str(error.what()));
  } catch (const std::exception& error) {
    return torchacc_error_new(TORCHACC_OPERATOR_ERROR, to_str(error.what()));
  } catch (...) {
    return torchacc_error_new(TORCHACC_OPERATOR_ERROR, to_str("a collective threw"));
  }
}

}  // namespace detail

/// Registers a communicator for the rest of the context's life: see torchacc_communicator_register.
inline Communicator register_communicator(const Context& context, std::string name,
                                          std::uint32_t rank, std::uint32_t size,
                                          Collectives does) {
  torchacc_communicator given{};
  given.struct_size = sizeof given;
  given.name = to_str(name);
  given.rank = rank;
  given.size = size;
  if (does.all_reduce) given.all_reduce = detail::collective<&Collectives::all_reduce>;
  if (does.all_gather) given.all_gather = detail::collective<&Collectives::all_gather>;
  if (does.reduce_scatter) given.reduce_scatter = detail::collective<&Collectives::reduce_scatter>;
  if (does.broadcast) given.broadcast = detail::collective<&Collectives::broadcast>;
  if (does.all_to_all) given.all_to_all = detail::collective<&Collectives::all_to_all>;
  given.user = new Collectives(std::move(does));
  given.drop = detail::drop<Collectives>;
  check(torchacc_communicator_register(context.get(), &given));
  return Communicator{std::move(name)};
}

/// `how`: "sum", "product", "min", "max" or "avg".
inline Tensor all_reduce(const Tensor& x, const Communicator& ranks, const char* how = "sum") {
  return call("torchacc::all_reduce", {x, how, ranks});
}
inline Tensor all_gather(const Tensor& x, const Communicator& ranks) {
  return call("torchacc::all_gather", {x, ranks});
}
inline Tensor reduce_scatter(const Tensor& x, const Communicator& ranks, const char* how = "sum") {
  return call("torchacc::reduce_scatter", {x, how, ranks});
}
inline Tensor broadcast(const Tensor& x, std::int64_t root, const Communicator& ranks) {
  return call("torchacc::broadcast", {x, root, ranks});
}
inline Tensor all_to_all(const Tensor& x, const Communicator& ranks) {
  return call("torchacc::all_to_all", {x, ranks});
}
/// Waits until all ranks have come here. Blocks.
inline void barrier(const Context& context, const Communicator& ranks) {
  check(torchacc_barrier(context.get(), to_str(ranks.name)));
}

// ---- programs as text, and files

/// A program in the IR.
class Graph {
 public:
  explicit Graph(std::string_view text) {
    torchacc_graph* graph = nullptr;
    check(torchacc_graph_parse(to_str(text), &graph));
    graph_.reset(graph, torchacc_graph_free);
  }
  std::string text() const {
    torchacc_string* text = nullptr;
    check(torchacc_graph_text(graph_.get(), &text));
    return take(text);
  }
  /// Records it on its inputs and scalars, in order; its results.
  std::vector<Tensor> operator()(const Context& context, const Args& args) const {
    const std::vector<torchacc_arg> given = Op::plain(args);
    std::vector<torchacc_tensor*> outs(torchacc_graph_outputs(graph_.get()), nullptr);
    check(torchacc_graph_apply(context.get(), graph_.get(), given.data(), given.size(), outs.data(),
                               outs.size()));
    std::vector<Tensor> tensors;
    for (torchacc_tensor* out : outs) tensors.emplace_back(context, out);
    return tensors;
  }

 private:
  std::shared_ptr<torchacc_graph> graph_;
};

/// Writes tensors, which have names, to a file of the safetensors format. Blocks.
inline void save(const std::string& path, const std::vector<Tensor>& tensors) {
  std::vector<const torchacc_tensor*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.get());
  check(torchacc_save(to_str(path), handles.data(), nullptr, handles.size(), nullptr, 0));
}

/// The tensors of such a file, by name.
inline std::unordered_map<std::string, Tensor> load(const Context& context,
                                                    const std::string& path) {
  torchacc_archive* archive = nullptr;
  check(torchacc_load(context.get(), to_str(path), &archive));
  const std::unique_ptr<torchacc_archive, void (*)(torchacc_archive*)> owned(archive,
                                                                             torchacc_archive_free);
  std::unordered_map<std::string, Tensor> tensors;
  for (std::size_t i = 0; i < torchacc_archive_count(archive); ++i) {
    Tensor tensor(context, torchacc_archive_tensor(archive, i));
    const std::string name = tensor.name();
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace torchacc

#endif  // TORCHACC_HPP
