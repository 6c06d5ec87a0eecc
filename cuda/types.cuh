// Element types as stored in memory, and as held during computations: half types in f32, `bool_` as
// bool. Compiled by NVRTC, which has no system headers, and by a C++ compiler where kernels run on
// the host for tests.

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

struct bool_ {
  u8 byte;
};
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
// An element of 16 bytes that is only moved.
struct alignas(16) pair {
  u64 low, high;
};

// The arguments of a kernel.
template <int N>
struct Words {
  u64 at[N];
};

// The item of a table to which a block belongs: the last one whose first block is not after it.
// Rows have `row` words, the first of which is the number of the item's first block.
DEVICE const u64* item_of(const u64* table, u64 items, u64 row, u32 block) {
  u64 low = 0, high = items;
  while (high - low > 1) {
    const u64 middle = (low + high) / 2;
    if (table[middle * row] <= block)
      low = middle;
    else
      high = middle;
  }
  return table + low * row;
}

// A dense row-major tensor, as passed to an operator of the program's own.
template <class T>
struct Tensor {
  T* data;
  const i64* sizes;
  int rank;
  i64 count;
};

template <class To, class From>
DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

DEVICE f32 f32_of(f16 x) {
#ifdef __CUDA_ARCH__
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return (f32)bits_as<_Float16>(x.bits);
#endif
}

DEVICE f16 f16_of(f32 x) {
  f16 y;
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
  y.bits = bits_as<u16>((_Float16)x);
#endif
  return y;
}

DEVICE f32 f32_of(bf16 x) { return bits_as<f32>((u32)x.bits << 16); }

// To nearest, ties to even.
DEVICE bf16 bf16_of(f32 x) {
  bf16 y;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
  u32 bits = bits_as<u32>(x);
  bool nan = (bits & 0x7fffffff) > 0x7f800000;
  y.bits = nan ? 0x7fff : (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
  return y;
}

// 8-bit floats, held as codes: see `src/dtype/float8.rs`, which has the same numbers, for their
// meaning.
template <u32 MANTISSA, u32 BIAS, u32 END, u32 BEYOND, u32 NAN_CODE>
struct float8 {
  u8 code;
};
typedef float8<3, 7, 0x7f, 0x7f, 0x7f> f8e4m3fn;
typedef float8<2, 15, 0x7c, 0x7c, 0x7f> f8e5m2;
typedef float8<3, 8, 0x80, 0x80, 0x80> f8e4m3fnuz;
typedef float8<2, 16, 0x80, 0x80, 0x80> f8e5m2fnuz;

template <u32 MANTISSA, u32 BIAS, u32 END, u32 BEYOND, u32 NAN_CODE>
DEVICE f32 f32_of(float8<MANTISSA, BIAS, END, BEYOND, NAN_CODE> x) {
  u32 magnitude = x.code & 0x7f;
  // As an f32 with the exponent of the format; the multiplication also corrects denormals.
  f32 finite = bits_as<f32>(magnitude << (23 - MANTISSA)) * bits_as<f32>((254 - BIAS) << 23);
  u32 special = magnitude == BEYOND && BEYOND != NAN_CODE ? 0x7f800000 : 0x7fc00000;
  u32 bits = magnitude >= END || x.code == END ? special : bits_as<u32>(finite);
  return bits_as<f32>(bits | (u32)(x.code & 0x80) << 24);
}

// To nearest, ties to even. A number that rounds to more than the largest one does not become that
// one, unlike with the device's own instruction.
template <u32 MANTISSA, u32 BIAS, u32 END, u32 BEYOND, u32 NAN_CODE>
DEVICE void encode(float8<MANTISSA, BIAS, END, BEYOND, NAN_CODE>& y, f32 x) {
  const u32 shift = 23 - MANTISSA, lift = (127 - BIAS) << 23;
  u32 magnitude = bits_as<u32>(x) & 0x7fffffff;
  u32 odd = magnitude >> shift & 1;
  u32 code = (magnitude - lift + ((1u << (shift - 1)) - 1) + odd) >> shift;
  // The addition aligns and rounds the bits as a denormal needs them.
  const u32 aligner = (127 + 24 - BIAS - MANTISSA) << 23;
  if (magnitude < lift + (1u << 23))
    code = bits_as<u32>(bits_as<f32>(magnitude) + bits_as<f32>(aligner)) - aligner;
  if (magnitude >= (END << shift) + lift) code = magnitude > 0x7f800000 ? NAN_CODE : BEYOND;
  // A format whose codes without a sign are all numbers has a single zero.
  bool is_unsigned = END == 0x80 && (code & 0x7f) == 0;
  y.code = (u8)(code | (is_unsigned ? 0 : bits_as<u32>(x) >> 24 & 0x80));
}

// `held`: the type that T is computed in.
template <class T>
struct Element {
  typedef T held;
  static DEVICE T get(T x) { return x; }
  static DEVICE T put(T x) { return x; }
};
template <>
struct Element<bool_> {
  typedef bool held;
  static DEVICE bool get(bool_ x) { return x.byte != 0; }
  static DEVICE bool_ put(bool x) { return bool_{(u8)x}; }
};
template <>
struct Element<f16> {
  typedef f32 held;
  static DEVICE f32 get(f16 x) { return f32_of(x); }
  static DEVICE f16 put(f32 x) { return f16_of(x); }
};
template <>
struct Element<bf16> {
  typedef f32 held;
  static DEVICE f32 get(bf16 x) { return f32_of(x); }
  static DEVICE bf16 put(f32 x) { return bf16_of(x); }
};
template <class T>
using Held = typename Element<T>::held;

template <class T>
DEVICE Held<T> get(const T* from) {
  return Element<T>::get(*from);
}
template <class T>
DEVICE void put(T* to, Held<T> x) {
  *to = Element<T>::put(x);
}

// N neighbours in one access of at most 16 bytes each; `from` is aligned to that.
template <int N, class T>
DEVICE void get_all(Held<T> (&to)[N], const T* from) {
  struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) Pack {
    T at[N];
  };
  const Pack pack = *(const Pack*)from;
  UNROLL for (int e = 0; e < N; e++) to[e] = Element<T>::get(pack.at[e]);
}
template <int N, class T>
DEVICE void put_all(T* to, const Held<T> (&from)[N]) {
  struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) Pack {
    T at[N];
  } pack;
  UNROLL for (int e = 0; e < N; e++) pack.at[e] = Element<T>::put(from[e]);
  *(Pack*)to = pack;
}

// A slot of the argument block as a T: f64 for floats, i64 for integers and bool.
template <class T>
struct Slot {
  static DEVICE T get(u64 bits) { return (T)(i64)bits; }
};
template <>
struct Slot<f32> {
  static DEVICE f32 get(u64 bits) { return (f32)bits_as<f64>(bits); }
};
template <>
struct Slot<f64> {
  static DEVICE f64 get(u64 bits) { return bits_as<f64>(bits); }
};
template <>
struct Slot<bool> {
  static DEVICE bool get(u64 bits) { return bits != 0; }
};
template <class T>
DEVICE Held<T> slot(u64 address) {
  return Slot<Held<T>>::get(*(const u64*)address);
}

// i / d for i < 2^31 without a division: `word` is the multiplier and above it the shift (Granlund
// and Montgomery, "Division by invariant integers using multiplication", 1994).
DEVICE u32 divided(u32 i, u64 word) { return (__umulhi(i, (u32)word) + i) >> (u32)(word >> 32); }

// ---- the status of a run: {0 or (kind << 32 | step + 1), two numbers about it}
enum { STATUS_INDEX = 1, STATUS_DIVISION = 2, STATUS_EXPECTATION = 3 };

// Whether an earlier kernel has stopped the run: one that is already running may as well go on. So
// the first-level cache may hold the status, which all warps of a multiprocessor read.
DEVICE bool stopped(const u64* status) { return *status != 0; }

DEVICE void stop(u64* status, u64 kind, u64 step, i64 value, i64 size) {
  if (atomicCAS(status, 0ull, kind << 32 | (step + 1)) == 0) {
    status[1] = (u64)value;
    status[2] = (u64)size;
  }
}
