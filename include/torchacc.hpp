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
//
// Functions given to the library may be called on any thread. Where an error can be passed on, they
// may throw (operators, collectives); the others may not (log, locator, observer, read_async), or
// the process ends.
//
// Sections: elements and errors; contexts; buffers; tensors; arguments; operators by name;
// operators of the program's own; operators, as PyTorch's; gradients; several ranks; programs as
// text; files.
#ifndef TORCHACC_HPP
#define TORCHACC_HPP

#include <algorithm>
#include <complex>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torchacc.h"

namespace torchacc {

// ---- elements and errors

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
  C32 = TORCHACC_C32,
  F8E4M3FN = TORCHACC_F8E4M3FN,
  F8E5M2 = TORCHACC_F8E5M2,
  F8E4M3FNUZ = TORCHACC_F8E4M3FNUZ,
  F8E5M2FNUZ = TORCHACC_F8E5M2FNUZ,
  F8E8M0FNU = TORCHACC_F8E8M0FNU,
};

/// As messages call it: "f32".
inline const char* to_string(DType dtype) {
  constexpr const char* names[] = {
      "bool", "u8",  "i8",       "i16",    "i32",        "i64",        "f16",
      "bf16", "f32", "f64",      "c64",    "c128",       "u16",        "u32",
      "u64",  "c32", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu"};
  const auto number = static_cast<std::size_t>(dtype);
  return number < sizeof names / sizeof *names ? names[number] : "no dtype";
}

/// The dtype of a C++ type. The others' elements go in and out as bytes.
template <class T>
constexpr DType dtype_of() {
  constexpr bool has_sign = std::is_signed_v<T>;
  if constexpr (std::is_same_v<T, bool>) {
    return DType::Bool;
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 1) {
    return has_sign ? DType::I8 : DType::U8;
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 2) {
    return has_sign ? DType::I16 : DType::U16;
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) {
    return has_sign ? DType::I32 : DType::U32;
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    return has_sign ? DType::I64 : DType::U64;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::F32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::F64;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return DType::C64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return DType::C128;
  } else {
    static_assert(sizeof(T) == 0, "this C++ type is no dtype's: give bytes and a torchacc::DType");
  }
}

/// Element type and sizes of a dense tensor.
struct Type {
  DType dtype = DType::F32;
  Ints sizes;
};

inline std::string to_string(torchacc_str text) { return std::string(text.data, text.len); }

inline torchacc_str to_str(std::string_view text) { return {text.data(), text.size()}; }

/// What a call failed with.
class Error : public std::runtime_error {
 public:
  Error(torchacc_code code, const std::string& message, std::uint64_t site = 0)
      : std::runtime_error(message), code_(code), site_(site) {}
  /// What the library said, which stays the caller's.
  explicit Error(const torchacc_error* error)
      : Error(torchacc_error_code(error), to_string(torchacc_error_message(error)),
              torchacc_error_site(error)) {}
  /// One of the codes of torchacc.h.
  torchacc_code code() const noexcept { return code_; }
  /// The call site that recorded the operation that failed, as the locator named it; 0 when
  /// unknown.
  std::uint64_t site() const noexcept { return site_; }

 private:
  torchacc_code code_;
  std::uint64_t site_;
};

/// Throws what a function of torchacc.h returned.
inline void check(torchacc_error* error) {
  if (error == nullptr) return;
  const std::unique_ptr<torchacc_error, void (*)(torchacc_error*)> owned(error,
                                                                         torchacc_error_free);
  throw Error(error);
}

/// An owned text as a std::string.
inline std::string take(torchacc_string* text) {
  const std::unique_ptr<torchacc_string, void (*)(torchacc_string*)> owned(text,
                                                                           torchacc_string_free);
  return to_string(torchacc_string_view(text));
}

namespace detail {

/// Where T is a number to compute with.
template <class T>
using IfNumber = std::enable_if_t<std::is_arithmetic_v<T>>;

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

/// Frees what a function of the library was given as its user pointer.
template <class F>
void drop(void* user) {
  delete static_cast<F*>(user);
}

/// What `call` throws, as an error for the library.
template <class F>
torchacc_error* caught(F&& call) noexcept {
  try {
    call();
    return nullptr;
  } catch (const Error& error) {
    return torchacc_error_new(error.code(), to_str(error.what()));
  } catch (const std::exception& error) {
    return torchacc_error_new(TORCHACC_OPERATOR_ERROR, to_str(error.what()));
  } catch (...) {
    return torchacc_error_new(TORCHACC_OPERATOR_ERROR, to_str("something was thrown"));
  }
}

inline std::uint32_t rank_of(const Ints& list) { return static_cast<std::uint32_t>(list.size()); }

/// That elements are not what the program takes them for.
inline std::string other_type(const char* what, DType is, DType wanted) {
  return std::string("the ") + what + "'s elements are " + to_string(is) + ", not " +
         to_string(wanted);
}

}  // namespace detail

// ---- contexts

/// Version of the library, like "0.1.0".
inline std::string version() { return to_string(torchacc_version()); }

/// Where contexts can compute, as JSON: see torchacc_devices.
inline std::string devices(std::string_view library_path = {}) {
  torchacc_string* list = nullptr;
  check(torchacc_devices(to_str(library_path), &list));
  return take(list);
}

/// A trace, a cache of programs, a launch thread and a backend. Copies share it.
class Context {
 public:
  using Log =
      std::function<void(torchacc_log_level level, std::string_view message, std::uint64_t site)>;
  using Locate = std::function<std::uint64_t()>;
  using Line = std::function<std::uint64_t(std::uint64_t site)>;
  using Warn = std::function<void(std::string_view message, std::uint64_t site)>;

  Context() : Context(torchacc_options{}) {}
  /// `struct_size` is filled in here, and where there is a `log`, its three fields.
  explicit Context(torchacc_options options, Log log = nullptr) {
    if (torchacc_abi_version() != TORCHACC_ABI)
      throw Error(TORCHACC_ABI_MISMATCH, "libtorchacc serves another ABI than torchacc.h");
    options.struct_size = sizeof options;
    if (log) {
      options.log = [](void* user, torchacc_log_level level, torchacc_str message,
                       std::uint64_t site) noexcept {
        (*static_cast<Log*>(user))(level, {message.data, message.len}, site);
      };
      options.log_user = new Log(std::move(log));
      options.log_drop = detail::drop<Log>;
    }
    torchacc_context* made = nullptr;
    check(torchacc_context_new(&options, &made));
    handle_ = Handle(made);
  }
  explicit Context(std::string_view backend) : Context(named(backend)) {}
  /// Takes over the caller's reference; NULL for none.
  explicit Context(torchacc_context* owned) noexcept : handle_(owned) {}

  torchacc_context* get() const noexcept { return handle_.get(); }
  void cut() const { check(torchacc_cut(get())); }
  void sync() const { check(torchacc_sync(get())); }
  // This moment of recording, and whether the device has come so far; waits for nothing.
  std::uint64_t mark() const {
    std::uint64_t mark = 0;
    check(torchacc_mark(get(), &mark));
    return mark;
  }
  bool is_done(std::uint64_t mark) const {
    bool done = false;
    check(torchacc_is_done(get(), mark, &done));
    return done;
  }
  // Whether an integer of the operation that is recorded next changes from run to run.
  bool integer_changes(std::uint64_t kind, std::int64_t integer) const {
    bool changes = false;
    check(torchacc_integer_changes(get(), kind, integer, &changes));
    return changes;
  }
  torchacc_memory_stats memory_stats() const {
    torchacc_memory_stats stats{};
    stats.struct_size = sizeof stats;
    check(torchacc_context_memory_stats(get(), &stats));
    return stats;
  }
  void reset_peak_memory() const { torchacc_context_reset_peak_memory(get()); }
  void trim() const { check(torchacc_context_trim(get())); }
  void set_memory_limit(std::uint64_t nbytes) const {
    check(torchacc_context_set_memory_limit(get(), nbytes));
  }
  void seed(std::uint64_t seed) const { check(torchacc_seed(get(), seed)); }

  /// For functions that the library calls for a step: its call site. Else 0.
  static std::uint64_t running_site() { return torchacc_running_site(); }

  /// What metrics() gives, as JSON.
  static std::string metric_docs() { return to_string(torchacc_metric_docs()); }
  /// Counters and times as JSON.
  std::string metrics() const { return text(torchacc_metrics); }
  void reset_metrics() const { torchacc_metrics_reset(get()); }
  /// What the caches of programs hold and did.
  torchacc_cache_stats cache_stats() const {
    torchacc_cache_stats stats{};
    stats.struct_size = sizeof stats;
    check(torchacc_context_cache_stats(get(), &stats));
    return stats;
  }
  /// Compiles, CPU fallbacks and cuts with their reasons, as JSON.
  std::string explain() const { return text(torchacc_explain); }
  /// Host operators that ran, as JSON.
  std::string host_calls() const { return text(torchacc_host_call_report); }
  std::string last_program() const { return text(torchacc_last_program); }
  /// Memory of the program that takes most of it, as JSON.
  std::string memory_report() const { return text(torchacc_memory_report); }
  /// The program that is being compiled just now, as JSON.
  std::string progress() const { return text(torchacc_progress); }
  void start_profile() const { check(torchacc_profile_start(get())); }
  /// The timeline since then in Chrome's trace format.
  std::string stop_profile() const { return text(torchacc_profile_stop); }
  /// Likewise, span by span, to `visit(const torchacc_span&)`. Returns how many events were lost.
  template <class Visit>
  std::uint64_t visit_profile(Visit visit) const {
    std::uint64_t lost = 0;
    const torchacc_span_fn call = [](void* user, const torchacc_span* span) noexcept {
      (*static_cast<Visit*>(user))(*span);
    };
    check(torchacc_profile_visit(get(), call, &visit, &lost));
    return lost;
  }
  /// Nanoseconds in which programs ran, since the context was made.
  std::uint64_t busy_ns() const {
    std::uint64_t time = 0;
    check(torchacc_busy_ns(get(), &time));
    return time;
  }

  /// Who says where an operation is recorded: torchacc_context_set_locator.
  void set_locator(Locate locate) const {
    torchacc_locate_fn call = nullptr;
    if (locate) call = [](void* user) noexcept { return (*static_cast<Locate*>(user))(); };
    check(torchacc_context_set_locator(get(), call, new Locate(std::move(locate)),
                                       detail::drop<Locate>));
  }
  /// Who says which sites are one line, and who takes warnings: torchacc_context_set_observer.
  void set_observer(Line line, Warn warn) const {
    using Both = std::pair<Line, Warn>;
    torchacc_line_fn ask = nullptr;
    torchacc_warn_fn tell = nullptr;
    if (line)
      ask = [](void* user, std::uint64_t site) noexcept {
        return static_cast<Both*>(user)->first(site);
      };
    if (warn)
      tell = [](void* user, torchacc_str message, std::uint64_t site) noexcept {
        static_cast<Both*>(user)->second({message.data, message.len}, site);
      };
    check(torchacc_context_set_observer(
        get(), ask, tell, new Both(std::move(line), std::move(warn)), detail::drop<Both>));
  }
  /// Where the context's memory is.
  torchacc_device device() const {
    torchacc_device device{};
    device.struct_size = sizeof device;
    check(torchacc_context_device(get(), &device));
    return device;
  }
  using Allocate = std::function<void*(const torchacc_device& device, std::size_t nbytes)>;
  using Free = std::function<void(const torchacc_device& device, void* memory, std::size_t nbytes)>;
  /// Where its memory comes from from now on: torchacc_context_set_allocator. Neither may throw.
  void set_allocator(Allocate allocate, Free free) const {
    using Both = std::pair<Allocate, Free>;
    torchacc_allocator given{};
    given.struct_size = sizeof given;
    if (allocate)
      given.allocate = [](void* user, const torchacc_device* device, std::size_t nbytes) noexcept {
        return static_cast<Both*>(user)->first(*device, nbytes);
      };
    if (free)
      given.free = [](void* user, const torchacc_device* device, void* memory,
                      std::size_t nbytes) noexcept {
        static_cast<Both*>(user)->second(*device, memory, nbytes);
      };
    given.user = new Both(std::move(allocate), std::move(free));
    given.drop = detail::drop<Both>;
    check(torchacc_context_set_allocator(get(), &given));
  }
  void set_recompile_limit(std::uint64_t limit) const {
    check(torchacc_set_recompile_limit(get(), limit));
  }
  /// A sum of TORCHACC_STRICT_*.
  void set_strict(torchacc_strict what) const { check(torchacc_set_strict(get(), what)); }

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

// ---- buffers

/// Bytes with an identity, which hold a value that operations replace. Copies share it.
class Buffer {
 public:
  Buffer() = default;
  /// Takes over the caller's reference.
  Buffer(Context context, torchacc_buffer* owned) noexcept
      : context_(std::move(context)), handle_(owned) {}

  torchacc_buffer* get() const noexcept { return handle_.get(); }
  const Context& context() const noexcept { return context_; }
  explicit operator bool() const noexcept { return get() != nullptr; }

  std::size_t nbytes() const { return torchacc_buffer_nbytes(get()); }
  bool is_ready() const { return torchacc_buffer_is_ready(get()); }
  /// Blocks when there are bytes to keep.
  void resize(std::size_t nbytes) const { check(torchacc_buffer_resize(get(), nbytes)); }
  /// Sees to it that the value gets computed.
  void request() const { check(torchacc_buffer_request(get())); }
  /// Replaces the content by a copy of `len` bytes, all there are.
  void write(DType dtype, const void* data, std::size_t len) const {
    check(torchacc_buffer_write(get(), static_cast<torchacc_dtype>(dtype), data, len));
  }
  template <class T>
  void write(const std::vector<T>& values) const {
    write(dtype_of<T>(), values.data(), values.size() * sizeof(T));
  }
  /// Copies bytes [offset, offset + len). Blocks.
  void read(std::size_t offset, void* data, std::size_t len) const {
    check(torchacc_buffer_read(get(), offset, data, len));
  }
  /// The same without a cut: somebody else sees to that.
  void read_after_cut(std::size_t offset, void* data, std::size_t len) const {
    check(torchacc_buffer_read_after_cut(get(), offset, data, len));
  }
  using Work = std::function<void(const torchacc_device& device, void* memory, std::size_t nbytes)>;
  /// Replaces the content by what `work` writes to the device's memory: torchacc_buffer_fill.
  void fill(Work work) const { check(torchacc_buffer_fill(get(), call_work, &work)); }
  /// Lets `work` read it there; memory is NULL where all is zeros. Blocks: torchacc_buffer_look.
  void look(Work work) const { check(torchacc_buffer_look(get(), call_work, &work)); }
  /// All of it. Blocks.
  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(nbytes() / sizeof(T));
    read(0, values.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  static torchacc_error* call_work(void* user, const torchacc_device* device, void* memory,
                                   std::size_t nbytes) noexcept {
    return detail::caught([&] { (*static_cast<Work*>(user))(*device, memory, nbytes); });
  }
  using Handle = detail::Shared<torchacc_buffer, torchacc_buffer_retain, torchacc_buffer_release>;
  Context context_{nullptr};
  Handle handle_;
};

/// A new buffer, of zeros.
inline Buffer buffer(const Context& context, std::size_t nbytes) {
  torchacc_buffer* out = nullptr;
  check(torchacc_buffer_new(context.get(), nbytes, &out));
  return Buffer(context, out);
}

/// Where elements lie in a buffer, all counted in elements; without a buffer, no tensor.
struct View {
  Buffer buffer;
  DType dtype = DType::F32;
  Ints sizes;
  Ints strides;
  std::int64_t offset = 0;

  /// As torchacc.h wants it; valid as long as this view is as it is.
  torchacc_view get() const {
    if (sizes.size() != strides.size())
      throw Error(TORCHACC_INVALID_ARGUMENT, "a view has as many strides as sizes, not " +
                                                 std::to_string(strides.size()) + " for " +
                                                 std::to_string(sizes.size()));
    return {buffer.get(), sizes.data(),           strides.data(),
            offset,       detail::rank_of(sizes), static_cast<torchacc_dtype>(dtype)};
  }
};

// ---- tensors

/// A strided view of a buffer. Copies share it; operations make new ones.
class Tensor {
 public:
  Tensor() = default;
  /// Takes over the caller's reference.
  Tensor(Context context, torchacc_tensor* owned) : context_(std::move(context)), handle_(owned) {}
  /// Shares the view's buffer.
  explicit Tensor(const View& view) : context_(view.buffer.context()) {
    const torchacc_view given = view.get();
    torchacc_tensor* out = nullptr;
    check(torchacc_tensor_from_view(&given, &out));
    handle_ = Handle(out);
  }

  torchacc_tensor* get() const noexcept { return handle_.get(); }
  const Context& context() const {
    if (!*this) throw Error(TORCHACC_INVALID_ARGUMENT, "this torchacc::Tensor is none");
    return context_;
  }
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
  /// How it views its buffer.
  View view() const {
    torchacc_view view{};
    check(torchacc_tensor_view(get(), &view));
    return {Buffer(context_, torchacc_buffer_retain(view.buffer)),
            static_cast<DType>(view.dtype),
            {view.sizes, view.sizes + view.rank},
            {view.strides, view.strides + view.rank},
            view.offset};
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
  /// The same as bytes, `len` at most. Blocks.
  void read(void* data, std::size_t len) const { check(torchacc_tensor_read(get(), data, len)); }
  /// The only element. Blocks.
  template <class T>
  T item() const {
    expect<T>();
    T value{};
    if (numel() != 1)
      throw Error(TORCHACC_INVALID_ARGUMENT,
                  "item() of a tensor of " + std::to_string(numel()) + " elements");
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
                         std::size_t len) noexcept {
      auto& both = *static_cast<Both*>(user);
      if (error != nullptr) {
        both.second(Error(error));
        return;
      }
      std::vector<T> values(len / sizeof(T));
      if (len > 0) std::memcpy(values.data(), data, len);
      both.first(std::move(values));
    };
    check(torchacc_tensor_read_async(get(), tell, both.release(), detail::drop<Both>));
  }
  /// Copies the elements, `len` bytes, to `data`, which nobody touches until `done()` or
  /// `failed(Error)` is called, on a thread of the library's own. Neither may throw.
  template <class Done, class Failed>
  void copy_async(void* data, std::size_t len, Done done, Failed failed) const {
    using Both = std::pair<Done, Failed>;
    auto both = std::make_unique<Both>(std::move(done), std::move(failed));
    const auto tell = [](void* user, const torchacc_error* error, const void*,
                         std::size_t) noexcept {
      auto& both = *static_cast<Both*>(user);
      if (error != nullptr)
        both.second(Error(error));
      else
        both.first();
    };
    check(torchacc_tensor_copy_async(get(), data, len, tell, both.release(), detail::drop<Both>));
  }
  /// Replaces the elements.
  template <class T>
  void write(const std::vector<T>& values) const {
    expect<T>();
    write(values.data(), values.size() * sizeof(T));
  }
  /// The same, as bytes.
  void write(const void* data, std::size_t len) const {
    check(torchacc_tensor_write(get(), data, len));
  }
  /// An array for another library, which calls its deleter in the end: torchacc_tensor_to_dlpack.
  /// Blocks.
  DLManagedTensorVersioned* to_dlpack(bool copy = false) const {
    DLManagedTensorVersioned* out = nullptr;
    check(torchacc_tensor_to_dlpack(get(), copy, &out));
    return out;
  }

  // Views: they share the elements.

  Tensor permute(const Ints& order) const {
    return made([&](torchacc_tensor** out) {
      return torchacc_tensor_permute(get(), order.data(), detail::rank_of(order), out);
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
      return torchacc_tensor_reshape(get(), sizes.data(), detail::rank_of(sizes), out);
    });
  }
  Tensor expand(const Ints& sizes) const {
    return made([&](torchacc_tensor** out) {
      return torchacc_tensor_expand(get(), sizes.data(), detail::rank_of(sizes), out);
    });
  }

  // In place.

  inline Tensor& operator+=(const Tensor& other);
  inline Tensor& operator-=(const Tensor& other);
  inline Tensor& operator*=(const Tensor& other);
  inline Tensor& operator/=(const Tensor& other);
  template <class N, class = detail::IfNumber<N>>
  Tensor& operator+=(N other);
  template <class N, class = detail::IfNumber<N>>
  Tensor& operator-=(N other);
  template <class N, class = detail::IfNumber<N>>
  Tensor& operator*=(N other);
  template <class N, class = detail::IfNumber<N>>
  Tensor& operator/=(N other);

 private:
  using Handle = detail::Shared<torchacc_tensor, torchacc_tensor_retain, torchacc_tensor_release>;

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
      throw Error(TORCHACC_INVALID_ARGUMENT, detail::other_type("tensor", dtype(), dtype_of<T>()));
  }
  template <class F>
  Tensor made(F&& make) const {
    torchacc_tensor* out = nullptr;
    check(make(&out));
    return Tensor(context_, out);
  }

  Context context_{nullptr};
  Handle handle_;
};

/// A tensor with a copy of `len` bytes: elements in row-major order.
inline Tensor tensor(const Context& context, DType dtype, const void* data, std::size_t len,
                     const Ints& sizes) {
  torchacc_tensor* out = nullptr;
  check(torchacc_tensor_from_host(context.get(), static_cast<torchacc_dtype>(dtype), sizes.data(),
                                  detail::rank_of(sizes), data, len, &out));
  return Tensor(context, out);
}

/// A tensor with a copy of `values`, in row-major order.
template <class T>
Tensor tensor(const Context& context, const std::vector<T>& values, const Ints& sizes) {
  return tensor(context, dtype_of<T>(), values.data(), values.size() * sizeof(T), sizes);
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

/// A tensor on `len` bytes at `data`, without a copy where they are aligned to 16 bytes. They must
/// stay as they are until `owner` is destroyed, which happens on any thread. Without strides:
/// row-major.
template <class Owner>
Tensor borrow(const Context& context, DType dtype, const Ints& sizes, const Ints& strides,
              const void* data, std::size_t len, Owner owner) {
  if (!strides.empty() && strides.size() != sizes.size())
    throw Error(TORCHACC_INVALID_ARGUMENT, "a tensor has as many strides as sizes");
  torchacc_tensor* out = nullptr;
  check(torchacc_tensor_borrow(context.get(), static_cast<torchacc_dtype>(dtype), sizes.data(),
                               strides.empty() ? nullptr : strides.data(), detail::rank_of(sizes),
                               data, len, new Owner(std::move(owner)), detail::drop<Owner>, &out));
  return Tensor(context, out);
}

/// A tensor on the elements of `values`, which it keeps.
template <class T>
Tensor lend(const Context& context, std::vector<T> values, const Ints& sizes) {
  const void* data = values.data();
  const std::size_t len = values.size() * sizeof(T);
  return borrow(context, dtype_of<T>(), sizes, {}, data, len, std::move(values));
}

/// A tensor on another library's array, which belongs to this one from the call on, on an error
/// too: torchacc_tensor_from_dlpack.
inline Tensor from_dlpack(const Context& context, DLManagedTensorVersioned* managed) {
  torchacc_tensor* out = nullptr;
  check(torchacc_tensor_from_dlpack(context.get(), managed, &out));
  return Tensor(context, out);
}

inline Tensor zeros(const Context& context, const Ints& sizes, DType dtype = DType::F32) {
  torchacc_tensor* out = nullptr;
  check(torchacc_tensor_zeros(context.get(), static_cast<torchacc_dtype>(dtype), sizes.data(),
                              detail::rank_of(sizes), &out));
  return Tensor(context, out);
}

namespace detail {
/// Views as the C functions take them, and what they point into.
struct TensorViews {
  explicit TensorViews(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) kept.push_back(tensor.view());
    for (const View& view : kept) all.push_back(view.get());
  }
  std::vector<View> kept;
  std::vector<torchacc_view> all;
};
}  // namespace detail

/// How many tensors of a list, from its first on, `concatenate` can put together, if the list of
/// the operation that is recorded next changes from run to run.
inline std::size_t list_changes(const Context& context, std::uint64_t kind,
                                const std::vector<Tensor>& list) {
  const detail::TensorViews views(list);
  std::size_t stored = 0;
  check(torchacc_list_changes(context.get(), kind, views.all.data(), views.all.size(), &stored));
  return stored;
}
/// A tensor of the elements of dense tensors, one after another; nothing is recorded.
inline Tensor concatenate(const Context& context, const std::vector<Tensor>& parts,
                          const Ints& sizes, DType dtype = DType::F32) {
  const detail::TensorViews views(parts);
  Tensor made = zeros(context, sizes, dtype);
  const View out = made.view();
  const torchacc_view whole = out.get();
  check(torchacc_concatenate(context.get(), views.all.data(), views.all.size(), &whole));
  return made;
}

// ---- arguments

/// Numbers from the context's generator, for an operator that draws some.
struct Random {};

/// A whole number that may change from call to call without compiling again, as any int or double
/// may that is an argument. Dimensions, sizes and flags, which an operator has to know, may not.
struct Number {
  std::int64_t value;
};

/// Likewise a truth. (A bool is part of what is compiled.)
struct Flag {
  bool value;
};

/// A number to compute with that is part of what is compiled.
struct Constant {
  double value;
};

/// A communicator that was registered, by its name.
struct Communicator {
  std::string name;
};

namespace detail {

/// Views, and the same as torchacc.h wants them.
struct Views {
  explicit Views(std::vector<View> list) : views(std::move(list)) {
    plain.reserve(views.size());
    for (const View& view : views) plain.push_back(view.get());
  }
  Views(const Views&) = delete;
  std::vector<View> views;
  std::vector<torchacc_view> plain;
};

}  // namespace detail

/// One argument of a call. It keeps what it points at.
class Arg {
 public:
  /// Absent, or the default.
  Arg() = default;
  Arg(std::nullptr_t) {}
  Arg(const Tensor& tensor) : tensors_{tensor} {
    kind_ = tensor ? TORCHACC_ARG_TENSOR : TORCHACC_ARG_NONE;
  }
  /// A tensor that is none stands for an absent element.
  Arg(const std::vector<Tensor>& tensors) : kind_(TORCHACC_ARG_TENSORS), tensors_(tensors) {
    for (const Tensor& tensor : tensors_) handles_.push_back(tensor.get());
    if (std::find(handles_.begin(), handles_.end(), nullptr) == handles_.end()) return;
    std::vector<View> views;
    for (const Tensor& tensor : tensors_) views.push_back(tensor ? tensor.view() : View{});
    kind_ = TORCHACC_ARG_VIEWS;
    views_ = std::make_shared<detail::Views>(std::move(views));
  }
  Arg(const View& view)
      : kind_(TORCHACC_ARG_VIEW), views_(std::make_shared<detail::Views>(std::vector{view})) {}
  Arg(const std::vector<View>& views)
      : kind_(TORCHACC_ARG_VIEWS), views_(std::make_shared<detail::Views>(views)) {}
  Arg(bool value) : kind_(TORCHACC_ARG_BOOL) { value_.i = value ? 1 : 0; }
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Arg(T value) : Arg(Number{static_cast<std::int64_t>(value)}) {}
  Arg(double value) : kind_(TORCHACC_ARG_SCALAR_FLOAT) { value_.f = value; }
  Arg(Number number) : kind_(TORCHACC_ARG_SCALAR_INT) { value_.i = number.value; }
  Arg(Flag flag) : kind_(TORCHACC_ARG_SCALAR_BOOL) { value_.i = flag.value ? 1 : 0; }
  Arg(Constant number) : kind_(TORCHACC_ARG_FLOAT) { value_.f = number.value; }
  Arg(Random) : kind_(TORCHACC_ARG_RANDOM) {}
  Arg(DType dtype) : kind_(TORCHACC_ARG_DTYPE) { value_.i = static_cast<std::int64_t>(dtype); }
  Arg(const Ints& ints) : kind_(TORCHACC_ARG_INTS), ints_(ints) {}
  Arg(const std::vector<double>& floats) : kind_(TORCHACC_ARG_FLOATS), floats_(floats) {}
  Arg(const std::vector<bool>& bools)
      : kind_(TORCHACC_ARG_BOOLS), text_(bools.begin(), bools.end()) {}
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
    if (kind_ == TORCHACC_ARG_VIEW) arg.v.p = views_->plain.data();
    if (kind_ == TORCHACC_ARG_VIEWS) points_at(views_->plain.data(), views_->plain.size());
    if (kind_ == TORCHACC_ARG_BOOLS || kind_ == TORCHACC_ARG_STR ||
        kind_ == TORCHACC_ARG_COMMUNICATOR)
      points_at(text_.data(), text_.size());
    return arg;
  }

  /// The context of its first tensor, if it has one.
  const Context* context() const {
    for (const Tensor& tensor : tensors_)
      if (tensor) return &tensor.context();
    if (!views_) return nullptr;
    for (const View& view : views_->views)
      if (view.buffer) return &view.buffer.context();
    return nullptr;
  }

 private:
  torchacc_arg_kind kind_ = TORCHACC_ARG_NONE;
  torchacc_value value_{};
  std::vector<Tensor> tensors_;
  std::vector<torchacc_tensor*> handles_;
  std::shared_ptr<const detail::Views> views_;
  Ints ints_;
  std::vector<double> floats_;
  /// Or bytes, 0 or not.
  std::string text_;
};

using Args = std::vector<Arg>;

// ---- operators by name

/// An operator by name, looked up once.
class Op {
 public:
  explicit Op(std::string_view name) { check(torchacc_op_find(to_str(name), &number_)); }
  /// One that is known by its number. The native ones count from 0 to count().
  explicit Op(torchacc_op number) : number_(number) {}
  static torchacc_op count() { return static_cast<torchacc_op>(torchacc_op_count()); }

  /// The TORCHACC_FACT_* of one of PyTorch's operators, native here or not.
  static torchacc_facts facts(std::string_view name) { return torchacc_op_facts(to_str(name)); }

  torchacc_op number() const noexcept { return number_; }
  /// Of a native operator; empty for others.
  std::string name() const { return to_string(torchacc_op_name(number_)); }
  /// What a native operator takes and gives, as JSON: see torchacc_op_signature.
  std::string signature() const {
    torchacc_string* text = nullptr;
    check(torchacc_op_signature(number_, &text));
    return take(text);
  }

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
  /// Writes the results through views: see torchacc_record.
  void record(const Context& context, const Args& args, const std::vector<View>& outs) const {
    const std::vector<torchacc_arg> given = plain(args);
    const detail::Views views(outs);
    check(torchacc_record(context.get(), number_, given.data(), given.size(), views.plain.data(),
                          views.plain.size()));
  }
  /// What its `count` results would be; records nothing.
  std::vector<Type> infer(const Context& context, const Args& args, std::size_t count) const {
    const std::vector<torchacc_arg> given = plain(args);
    std::vector<torchacc_type> outs(count);
    check(torchacc_infer(context.get(), number_, given.data(), given.size(), outs.data(), count));
    std::vector<Type> types;
    for (const torchacc_type& out : outs)
      types.push_back({static_cast<DType>(out.dtype), {out.sizes, out.sizes + out.rank}});
    return types;
  }

  static std::vector<torchacc_arg> plain(const Args& args) {
    std::vector<torchacc_arg> given;
    given.reserve(args.size());
    for (const Arg& arg : args) given.push_back(arg.get());
    return given;
  }
  static const Context& context_of(const Args& args) {
    for (const Arg& arg : args)
      if (const Context* context = arg.context()) return *context;
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

// ---- operators of the program's own

/// An array that a function given to the library reads or fills: dense, row-major, valid during
/// the call.
class Array {
 public:
  explicit Array(const torchacc_host_tensor& array) : array_(array) {}
  /// False for an absent one.
  explicit operator bool() const noexcept { return array_.data != nullptr || array_.rank != 0; }
  DType dtype() const { return static_cast<DType>(array_.dtype); }
  Ints sizes() const { return Ints(array_.sizes, array_.sizes + array_.rank); }
  std::int64_t numel() const {
    std::int64_t count = 1;
    for (std::uint32_t dim = 0; dim < array_.rank; ++dim) count *= array_.sizes[dim];
    return count;
  }
  template <class T>
  T* data() const {
    if (dtype() != dtype_of<T>())
      throw Error(TORCHACC_INVALID_ARGUMENT, detail::other_type("array", dtype(), dtype_of<T>()));
    return static_cast<T*>(array_.data);
  }
  /// As it was given, for elements without a C++ type.
  const torchacc_host_tensor& get() const noexcept { return array_; }

 private:
  torchacc_host_tensor array_;
};

/// The arguments that an operator of the program's own is called with: see torchacc_host_fn. What
/// is asked for and is not there, or of another kind, throws.
class Given {
 public:
  Given(const torchacc_arg* args, std::size_t count) : args_(args), count_(count) {}
  std::size_t size() const noexcept { return count_; }
  const torchacc_arg& operator[](std::size_t index) const {
    if (index >= count_)
      throw Error(TORCHACC_INVALID_ARGUMENT, "there is no argument " + std::to_string(index));
    return args_[index];
  }
  bool is_none(std::size_t index) const { return (*this)[index].kind == TORCHACC_ARG_NONE; }
  Array array(std::size_t index) const {
    return Array(*static_cast<const torchacc_host_tensor*>(of(index, {TORCHACC_ARG_VIEW}).v.p));
  }
  std::vector<Array> arrays(std::size_t index) const {
    const torchacc_arg& arg = of(index, {TORCHACC_ARG_VIEWS});
    const auto* first = static_cast<const torchacc_host_tensor*>(arg.v.p);
    std::vector<Array> list;
    for (std::uint32_t i = 0; i < arg.len; ++i) list.emplace_back(first[i]);
    return list;
  }
  double number(std::size_t index) const {
    const torchacc_arg& arg = (*this)[index];
    if (arg.kind == TORCHACC_ARG_FLOAT || arg.kind == TORCHACC_ARG_SCALAR_FLOAT) return arg.v.f;
    return static_cast<double>(integer(index));
  }
  /// Or a truth.
  std::int64_t integer(std::size_t index) const {
    return of(index, {TORCHACC_ARG_INT, TORCHACC_ARG_SCALAR_INT, TORCHACC_ARG_BOOL,
                      TORCHACC_ARG_SCALAR_BOOL})
        .v.i;
  }
  Ints ints(std::size_t index) const {
    const torchacc_arg& arg = of(index, {TORCHACC_ARG_INTS});
    const auto* first = static_cast<const std::int64_t*>(arg.v.p);
    return Ints(first, first + arg.len);
  }
  std::string_view text(std::size_t index) const {
    const torchacc_arg& arg = of(index, {TORCHACC_ARG_STR});
    return {static_cast<const char*>(arg.v.p), arg.len};
  }

 private:
  const torchacc_arg& of(std::size_t index, std::initializer_list<torchacc_arg_kind> kinds) const {
    const torchacc_arg& arg = (*this)[index];
    if (std::find(kinds.begin(), kinds.end(), arg.kind) == kinds.end())
      throw Error(TORCHACC_INVALID_ARGUMENT,
                  "argument " + std::to_string(index) + " is of kind " + std::to_string(arg.kind) +
                      ", not " + std::to_string(*kinds.begin()) + " (TORCHACC_ARG_*)");
    return arg;
  }
  const torchacc_arg* args_;
  std::size_t count_;
};

/// An operator of the program's own, for the host, as CUDA C++, or both: torchacc_host_op says what
/// the fields are.
struct HostOp {
  std::string name, key;
  /// Fills every array of `outs`.
  std::function<void(const Given& args, const std::vector<Array>& outs)> function;
  /// The types of its results.
  std::function<std::vector<Type>(const Given& args)> shape;
  std::string cuda_source, cuda_entry;
  std::uint32_t cuda_block = 0, cuda_elements = 0;
  std::uint64_t cuda_blocks = 0;
  /// As `function`, with arrays in the device's memory: torchacc_device_fn.
  std::function<void(const torchacc_device& device, const Given& args,
                     const std::vector<Array>& outs)>
      device_function;
};

namespace detail {

inline torchacc_error* call_host(void* user, const torchacc_arg* args, std::size_t n_args,
                                 const torchacc_host_tensor* outs, std::size_t n_outs) noexcept {
  return caught([&] {
    std::vector<Array> arrays;
    for (std::size_t i = 0; i < n_outs; ++i) arrays.emplace_back(outs[i]);
    static_cast<HostOp*>(user)->function(Given(args, n_args), arrays);
  });
}

inline torchacc_error* call_device(void* user, const torchacc_device* device,
                                   const torchacc_arg* args, std::size_t n_args,
                                   const torchacc_host_tensor* outs, std::size_t n_outs) noexcept {
  return caught([&] {
    std::vector<Array> arrays;
    for (std::size_t i = 0; i < n_outs; ++i) arrays.emplace_back(outs[i]);
    static_cast<HostOp*>(user)->device_function(*device, Given(args, n_args), arrays);
  });
}

inline torchacc_error* call_shape(void* user, const torchacc_arg* args, std::size_t n_args,
                                  torchacc_type* outs, std::size_t n_outs) noexcept {
  return caught([&] {
    const std::vector<Type> types = static_cast<HostOp*>(user)->shape(Given(args, n_args));
    if (types.size() != n_outs)
      throw Error(TORCHACC_INVALID_ARGUMENT, "the shape rule gives " +
                                                 std::to_string(types.size()) + " results, not " +
                                                 std::to_string(n_outs));
    for (std::size_t i = 0; i < n_outs; ++i) {
      if (types[i].sizes.size() > TORCHACC_MAX_RANK)
        throw Error(TORCHACC_INVALID_ARGUMENT, "the shape rule gives too many dimensions");
      outs[i].dtype = static_cast<torchacc_dtype>(types[i].dtype);
      outs[i].rank = rank_of(types[i].sizes);
      std::copy(types[i].sizes.begin(), types[i].sizes.end(), outs[i].sizes);
    }
  });
}

}  // namespace detail

/// Registers an operator for the rest of the process; a key again gives the operator that is there.
inline Op register_op(HostOp op) {
  auto* kept = new HostOp(std::move(op));
  torchacc_host_op given{};
  given.struct_size = sizeof given;
  given.name = to_str(kept->name);
  given.key = to_str(kept->key);
  if (kept->function) given.function = detail::call_host;
  if (kept->shape) given.shape = detail::call_shape;
  given.user = kept;
  given.drop = detail::drop<HostOp>;
  given.cuda_source = to_str(kept->cuda_source);
  given.cuda_entry = to_str(kept->cuda_entry);
  given.cuda_block = kept->cuda_block;
  given.cuda_elements = kept->cuda_elements;
  given.cuda_blocks = kept->cuda_blocks;
  if (kept->device_function) given.device_function = detail::call_device;
  torchacc_op number = 0;
  check(torchacc_op_register_host(&given, &number));
  return Op(number);
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
// With a number, which may change without compiling again. A whole one leaves integers integers.

template <class N, class = detail::IfNumber<N>>
Tensor operator+(const Tensor& a, N b) {
  return call("aten::add.Scalar", {a, b});
}
template <class N, class = detail::IfNumber<N>>
Tensor operator-(const Tensor& a, N b) {
  return call("aten::sub.Scalar", {a, b});
}
template <class N, class = detail::IfNumber<N>>
Tensor operator*(const Tensor& a, N b) {
  return call("aten::mul.Scalar", {a, b});
}
template <class N, class = detail::IfNumber<N>>
Tensor operator/(const Tensor& a, N b) {
  return call("aten::div.Scalar", {a, b});
}
template <class N, class = detail::IfNumber<N>>
Tensor operator+(N a, const Tensor& b) {
  return b + a;
}
template <class N, class = detail::IfNumber<N>>
Tensor operator-(N a, const Tensor& b) {
  return call("aten::rsub.Scalar", {b, a});
}
template <class N, class = detail::IfNumber<N>>
Tensor operator*(N a, const Tensor& b) {
  return b * a;
}
template <class N, class = detail::IfNumber<N>>
Tensor operator/(N a, const Tensor& b) {
  return call("aten::reciprocal", {b}) * a;
}

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
template <class N, class>
Tensor& Tensor::operator+=(N other) {
  op("aten::add.Scalar").into({*this, other}, {*this});
  return *this;
}
template <class N, class>
Tensor& Tensor::operator-=(N other) {
  op("aten::sub.Scalar").into({*this, other}, {*this});
  return *this;
}
template <class N, class>
Tensor& Tensor::operator*=(N other) {
  op("aten::mul.Scalar").into({*this, other}, {*this});
  return *this;
}
template <class N, class>
Tensor& Tensor::operator/=(N other) {
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
template <class N, class = detail::IfNumber<N>>
Tensor pow(const Tensor& x, N exponent) {
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
  using Function = std::function<void(std::int64_t how, const Array& in, const Array& out)>;
  /// `numbers`: see torchacc_transfer_fn. What a kind has not is without elements.
  using Transfer = std::function<void(const Ints& numbers, const Array& in, const Array& out)>;
  Function all_reduce, all_gather, reduce_scatter, broadcast, all_to_all;
  Transfer reduce, all_to_all_v, send, receive;
};

namespace detail {

template <Collectives::Function Collectives::* function>
torchacc_error* collective(void* user, std::int64_t how, const torchacc_host_tensor* in,
                           const torchacc_host_tensor* out) noexcept {
  return caught(
      [&] { (static_cast<Collectives*>(user)->*function)(how, Array(*in), Array(*out)); });
}

template <Collectives::Transfer Collectives::* function>
torchacc_error* transfer(void* user, const std::int64_t* numbers, std::size_t count,
                         const torchacc_host_tensor* in, const torchacc_host_tensor* out) noexcept {
  return caught([&] {
    (static_cast<Collectives*>(user)->*function)(Ints(numbers, numbers + count), Array(*in),
                                                 Array(*out));
  });
}

}  // namespace detail

/// Registers a communicator, until it is unregistered: see torchacc_communicator_register.
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
  if (does.reduce) given.reduce = detail::transfer<&Collectives::reduce>;
  if (does.all_to_all_v) given.all_to_all_v = detail::transfer<&Collectives::all_to_all_v>;
  if (does.send) given.send = detail::transfer<&Collectives::send>;
  if (does.receive) given.receive = detail::transfer<&Collectives::receive>;
  given.user = new Collectives(std::move(does));
  given.drop = detail::drop<Collectives>;
  check(torchacc_communicator_register(context.get(), &given));
  return Communicator{std::move(name)};
}

/// No collective of it may follow; those that were recorded are to have run.
inline void unregister_communicator(const Context& context, const Communicator& ranks) {
  check(torchacc_communicator_unregister(context.get(), to_str(ranks.name)));
}

/// `how`: "sum", "product", "min", "max", "avg", "band", "bor" or "bxor".
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
/// On rank `root`; elsewhere `x`.
inline Tensor reduce(const Tensor& x, std::int64_t root, const Communicator& ranks,
                     const char* how = "sum") {
  return call("torchacc::reduce", {x, how, root, ranks});
}
/// Rows for each rank, and from each.
inline Tensor all_to_all_v(const Tensor& x, const Ints& there, const Ints& back,
                           const Communicator& ranks) {
  return call("torchacc::all_to_all_v", {x, there, back, ranks});
}
inline void send(const Tensor& x, std::int64_t rank, std::int64_t tag, const Communicator& ranks) {
  call("torchacc::send", {x, rank, tag, ranks}, 0);
}
inline Tensor receive(const Context& context, const Ints& sizes, DType dtype, std::int64_t rank,
                      std::int64_t tag, const Communicator& ranks) {
  return call(context, "torchacc::receive", {sizes, dtype, rank, tag, ranks});
}
/// Waits until all ranks have come here. Blocks.
inline void barrier(const Context& context, const Communicator& ranks) {
  check(torchacc_barrier(context.get(), to_str(ranks.name)));
}

// ---- programs as text

/// A program in the IR.
class Graph {
 public:
  explicit Graph(std::string_view text) {
    torchacc_graph* graph = nullptr;
    check(torchacc_graph_parse(to_str(text), &graph));
    graph_.reset(graph, torchacc_graph_free);
  }
  /// Of the program that was compiled last.
  static Graph last(const Context& context) {
    torchacc_graph* graph = nullptr;
    check(torchacc_graph_last(context.get(), &graph));
    return Graph(graph);
  }
  /// Cuts; the number of the trace that begins, for `capture`.
  static std::uint64_t capture_begin(const Context& context) {
    std::uint64_t number = 0;
    check(torchacc_capture_begin(context.get(), &number));
    return number;
  }
  /// What that trace has recorded, from what `inputs` held before to what `outputs` hold now.
  static Graph capture(const Context& context, std::uint64_t number, const Args& inputs,
                       const Args& outputs) {
    const std::vector<torchacc_arg> from = Op::plain(inputs), to = Op::plain(outputs);
    torchacc_graph* graph = nullptr;
    check(torchacc_graph_capture(context.get(), number, from.data(), from.size(), to.data(),
                                 to.size(), &graph));
    return Graph(graph);
  }
  /// The same, and from what the generators that gave `draws` were to what they are.
  static Graph capture_random(const Context& context, std::uint64_t number, const Args& inputs,
                              const Args& outputs, const std::vector<torchacc_draws>& draws) {
    const std::vector<torchacc_arg> from = Op::plain(inputs), to = Op::plain(outputs);
    torchacc_graph* graph = nullptr;
    check(torchacc_graph_capture_random(context.get(), number, from.data(), from.size(), to.data(),
                                        to.size(), draws.data(), draws.size(), &graph));
    return Graph(graph);
  }
  std::string text() const {
    torchacc_string* text = nullptr;
    check(torchacc_graph_text(graph_.get(), &text));
    return take(text);
  }
  /// As a module of StableHLO, which the constructor reads, too.
  std::string stablehlo() const {
    torchacc_string* text = nullptr;
    check(torchacc_graph_stablehlo(graph_.get(), &text));
    return take(text);
  }
  /// Records it on its inputs and scalars, in order; its results.
  std::vector<Tensor> operator()(const Context& context, const Args& args) const {
    const std::vector<torchacc_arg> given = Op::plain(args);
    std::vector<torchacc_tensor*> outs(torchacc_graph_outputs(graph_.get()), nullptr);
    check(torchacc_graph_apply(context.get(), graph_.get(), given.data(), given.size(), outs.data(),
                               outs.size()));
    return tensors(context, outs);
  }
  /// The same with results that are written into the tensors `into`; new ones where these are none.
  std::vector<Tensor> apply_into(const Context& context, const Args& args, const Args& into) const {
    const std::vector<torchacc_arg> given = Op::plain(args), to = Op::plain(into);
    std::vector<torchacc_tensor*> outs(to.size(), nullptr);
    check(torchacc_graph_apply_into(context.get(), graph_.get(), given.data(), given.size(),
                                    to.data(), outs.data(), outs.size()));
    outs.erase(std::remove(outs.begin(), outs.end(), nullptr), outs.end());
    return tensors(context, outs);
  }
  /// Runs it on OpenXLA now, by the plugin in this file, or by that of TORCHACC_OPENXLA. Blocks.
  std::vector<Tensor> run_on_openxla(const Context& context, const Args& args,
                                     std::string_view plugin = {}) const {
    const std::vector<torchacc_arg> given = Op::plain(args);
    std::vector<torchacc_tensor*> outs(torchacc_graph_outputs(graph_.get()), nullptr);
    check(torchacc_graph_run_on_openxla(context.get(), graph_.get(), to_str(plugin), given.data(),
                                        given.size(), outs.data(), outs.size()));
    return tensors(context, outs);
  }

 private:
  static std::vector<Tensor> tensors(const Context& context,
                                     const std::vector<torchacc_tensor*>& outs) {
    std::vector<Tensor> tensors;
    for (torchacc_tensor* out : outs) tensors.emplace_back(context, out);
    return tensors;
  }
  explicit Graph(torchacc_graph* owned) : graph_(owned, torchacc_graph_free) {}
  std::shared_ptr<torchacc_graph> graph_;
};

// ---- files

/// Keys with their texts.
using Texts = std::vector<std::pair<std::string, std::string>>;

/// Writes tensors to a file of the safetensors format, under `names`, one for each, or their own
/// where none are given. Blocks.
inline void save(const std::string& path, const std::vector<Tensor>& tensors,
                 const Texts& texts = {}, const std::vector<std::string>& names = {}) {
  if (!names.empty() && names.size() != tensors.size())
    throw Error(TORCHACC_INVALID_ARGUMENT, "there are not as many names as tensors");
  std::vector<const torchacc_tensor*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.get());
  std::vector<torchacc_str> plain_names, plain_texts;
  for (const std::string& name : names) plain_names.push_back(to_str(name));
  for (const auto& [key, text] : texts) {
    plain_texts.push_back(to_str(key));
    plain_texts.push_back(to_str(text));
  }
  check(torchacc_save(to_str(path), handles.data(), names.empty() ? nullptr : plain_names.data(),
                      handles.size(), plain_texts.data(), texts.size()));
}

/// What such a file holds. Copies share it.
class Archive {
 public:
  Archive(Context context, const std::string& path) : context_(std::move(context)) {
    torchacc_archive* archive = nullptr;
    check(torchacc_load(context_.get(), to_str(path), &archive));
    archive_.reset(archive, torchacc_archive_free);
  }
  std::size_t size() const { return torchacc_archive_count(archive_.get()); }
  /// In the order of the names; none beyond the last.
  Tensor operator[](std::size_t index) const {
    return Tensor(context_, torchacc_archive_tensor(archive_.get(), index));
  }
  /// None when there is none of this name.
  Tensor find(std::string_view name) const {
    return Tensor(context_, torchacc_archive_find(archive_.get(), to_str(name)));
  }
  /// The text kept under `key`.
  std::optional<std::string> text(std::string_view key) const {
    const torchacc_str text = torchacc_archive_text(archive_.get(), to_str(key));
    if (text.data == nullptr) return std::nullopt;
    return to_string(text);
  }

 private:
  Context context_;
  std::shared_ptr<torchacc_archive> archive_;
};

/// The tensors of such a file, by name.
inline std::unordered_map<std::string, Tensor> load(const Context& context,
                                                    const std::string& path) {
  const Archive archive(context, path);
  std::unordered_map<std::string, Tensor> tensors;
  for (std::size_t i = 0; i < archive.size(); ++i) {
    const Tensor tensor = archive[i];
    tensors.emplace(tensor.name(), tensor);
  }
  return tensors;
}

}  // namespace torchacc

#endif  // TORCHACC_HPP
