// One function for each pointwise primitive, `op_` and its name, for every type on which it is
// defined. Functions of CUDA's library on floats are generated from the table of primitives.
// Integers wrap.

#define EACH_FLOAT(F) F(f32) F(f64)
#define EACH_INT(F) F(i8) F(i16) F(i32) F(i64) F(u8)

// ---- floats
DEVICE f32 op_sigmoid(f32 x) { return 1.0f / (1.0f + expf(-x)); }
DEVICE f64 op_sigmoid(f64 x) { return 1.0 / (1.0 + exp(-x)); }

// Each primitive rounds: no compiler fuses a product and a following sum.
#ifdef __CUDA_ARCH__
DEVICE f32 op_mul(f32 x, f32 y) { return __fmul_rn(x, y); }
DEVICE f64 op_mul(f64 x, f64 y) { return __dmul_rn(x, y); }
#else
DEVICE f32 op_mul(f32 x, f32 y) { return x * y; }
DEVICE f64 op_mul(f64 x, f64 y) { return x * y; }
#endif

#define FLOAT_OPS(T)                                             \
  DEVICE T op_neg(T x) { return -x; }                            \
  DEVICE T op_sign(T x) { return (T)((x > 0) - (x < 0)); }       \
  DEVICE T op_add(T x, T y) { return x + y; }                    \
  DEVICE T op_sub(T x, T y) { return x - y; }                    \
  DEVICE T op_div(T x, T y) { return x / y; }                    \
  DEVICE T op_max(T x, T y) { return x >= y || x != x ? x : y; } \
  DEVICE T op_min(T x, T y) { return x <= y || x != x ? x : y; }
EACH_FLOAT(FLOAT_OPS)

// ---- integers
DEVICE i64 integer_power(i64 base, i64 exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  u64 result = 1, square = (u64)base;
  for (u64 rest = (u64)exponent; rest > 0; rest >>= 1, square *= square)
    if (rest & 1) result *= square;
  return (i64)result;
}

// Division by 0 is reported before (see the emitter) and gives 0 here; the smallest number divided
// by -1 wraps.
#define INT_OPS(T)                                                                               \
  DEVICE T op_neg(T x) { return (T)(0 - (u64)x); }                                               \
  DEVICE T op_abs(T x) { return x < 0 ? (T)(0 - (u64)x) : x; }                                   \
  DEVICE T op_sign(T x) { return (T)((x > 0) - (x < 0)); }                                       \
  DEVICE T op_add(T x, T y) { return (T)((u64)x + (u64)y); }                                     \
  DEVICE T op_sub(T x, T y) { return (T)((u64)x - (u64)y); }                                     \
  DEVICE T op_mul(T x, T y) { return (T)((u64)x * (u64)y); }                                     \
  DEVICE T op_div(T x, T y) {                                                                    \
    return y == 0 ? 0 : y == (T) - 1 && (T) - 1 < 0 ? (T)(0 - (u64)x) : (T)(x / y);              \
  }                                                                                              \
  DEVICE T op_rem(T x, T y) { return y == 0 || (y == (T) - 1 && (T) - 1 < 0) ? 0 : (T)(x % y); } \
  DEVICE T op_pow(T x, T y) { return (T)integer_power((i64)x, (i64)y); }                         \
  DEVICE T op_max(T x, T y) { return x > y ? x : y; }                                            \
  DEVICE T op_min(T x, T y) { return x < y ? x : y; }                                            \
  DEVICE T op_not(T x) { return (T)~x; }                                                         \
  DEVICE T op_and(T x, T y) { return (T)(x & y); }                                               \
  DEVICE T op_or(T x, T y) { return (T)(x | y); }                                                \
  DEVICE T op_xor(T x, T y) { return (T)(x ^ y); }
EACH_INT(INT_OPS)

// ---- bool
DEVICE bool op_not(bool x) { return !x; }
DEVICE bool op_and(bool x, bool y) { return x && y; }
DEVICE bool op_or(bool x, bool y) { return x || y; }
DEVICE bool op_xor(bool x, bool y) { return x != y; }
DEVICE bool op_max(bool x, bool y) { return x || y; }
DEVICE bool op_min(bool x, bool y) { return x && y; }

// ---- any type
#define COMPARISONS(T)                           \
  DEVICE bool op_eq(T x, T y) { return x == y; } \
  DEVICE bool op_ne(T x, T y) { return x != y; } \
  DEVICE bool op_lt(T x, T y) { return x < y; }  \
  DEVICE bool op_le(T x, T y) { return x <= y; } \
  DEVICE bool op_gt(T x, T y) { return x > y; }  \
  DEVICE bool op_ge(T x, T y) { return x >= y; }
EACH_FLOAT(COMPARISONS)
EACH_INT(COMPARISONS)
COMPARISONS(bool)

template <class T>
DEVICE T op_select(bool condition, T x, T y) {
  return condition ? x : y;
}

// Converting floats to integers truncates towards zero and stops at the limits of i64; NaN is 0.
DEVICE i64 integer_of(f64 x) {
  if (x != x) return 0;
  if (x >= 9223372036854775808.0) return 0x7fffffffffffffffll;
  if (x <= -9223372036854775808.0) return -0x7fffffffffffffffll - 1;
  return (i64)x;
}

// To T, as it is held: half types are rounded.
template <class T, class From>
struct Cast {
  static DEVICE T to(From x) { return (T)x; }
};
#define FROM_FLOAT(T, F)                                 \
  template <>                                            \
  struct Cast<T, F> {                                    \
    static DEVICE T to(F x) { return (T)integer_of(x); } \
  };
#define FROM_FLOATS(T) FROM_FLOAT(T, f32) FROM_FLOAT(T, f64)
EACH_INT(FROM_FLOATS)
template <class From>
struct Cast<bool_, From> {
  static DEVICE bool to(From x) { return x != 0; }
};
template <class From>
struct Cast<f16, From> {
  static DEVICE f32 to(From x) { return f32_of(f16_of((f32)x)); }
};
template <class From>
struct Cast<bf16, From> {
  static DEVICE f32 to(From x) { return f32_of(bf16_of((f32)x)); }
};
template <u32 MANTISSA, u32 BIAS, u32 END, u32 BEYOND, u32 NAN_CODE>
struct Cast<float8<MANTISSA, BIAS, END, BEYOND, NAN_CODE>, f32> {
  typedef float8<MANTISSA, BIAS, END, BEYOND, NAN_CODE> T;
  static DEVICE T to(f32 x) {
    T y;
    encode(y, x);
    return y;
  }
};
template <u32 MANTISSA, u32 BIAS, u32 END, u32 BEYOND, u32 NAN_CODE>
struct Cast<f32, float8<MANTISSA, BIAS, END, BEYOND, NAN_CODE>> {
  static DEVICE f32 to(float8<MANTISSA, BIAS, END, BEYOND, NAN_CODE> x) { return f32_of(x); }
};
template <class T, class From>
DEVICE Held<T> op_cast(From x) {
  return Cast<T, From>::to(x);
}

// ---- random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011)
struct Random4 {
  u32 at[4];
};

// The lower of the counter's upper two words is `above`, the other 0.
DEVICE Random4 philox(u64 key, u64 counter, u32 above = 0) {
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
  u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = above, c3 = 0;
  UNROLL for (int round = 0; round < 10; round++) {
    u32 low0 = 0xD2511F53u * c0, high0 = __umulhi(0xD2511F53u, c0);
    u32 low1 = 0xCD9E8D57u * c2, high1 = __umulhi(0xCD9E8D57u, c2);
    c0 = high1 ^ c1 ^ k0, c1 = low1, c2 = high0 ^ c3 ^ k1, c3 = low0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return Random4{{c0, c1, c2, c3}};
}

// The random word for element `index` of a draw with (seed, offset).
DEVICE u32 random_word(i64 seed, i64 offset, i64 index, u32 above) {
  return philox((u64)seed, (u64)offset + (u64)index / 4, above).at[(u64)index % 4];
}

// Uniform in [0, 1).
DEVICE f32 op_random(i64 seed, i64 offset, i64 index) {
  return (f32)(random_word(seed, offset, index, 0) >> 8) * (1.0f / 16777216.0f);
}

DEVICE i64 op_random_bits(i64 seed, i64 offset, i64 index) {
  const u64 upper = random_word(seed, offset, index, 1);
  return (i64)(upper << 32 | random_word(seed, offset, index, 0));
}
