// Reductions as folds: one struct for each primitive, named after it, over the type in which
// elements are held. `join` is associative up to rounding; where ties are possible it does not
// depend on the order.

template <class T>
struct Sum_type {
  typedef i64 type;
};
template <>
struct Sum_type<f32> {
  typedef f32 type;
};
template <>
struct Sum_type<f64> {
  typedef f64 type;
};

template <class T>
DEVICE T lowest() {
  return (T)-1 < 0 ? (T)((u64)1 << (8 * sizeof(T) - 1)) : 0;
}
template <>
DEVICE f32 lowest() {
  return bits_as<f32>(0xff800000u);
}
template <>
DEVICE f64 lowest() {
  return bits_as<f64>(0xfff0000000000000ull);
}
template <>
DEVICE bool lowest() {
  return false;
}
template <class T>
DEVICE T highest() {
  return (T)~lowest<T>();
}
template <>
DEVICE f32 highest() {
  return bits_as<f32>(0x7f800000u);
}
template <>
DEVICE f64 highest() {
  return bits_as<f64>(0x7ff0000000000000ull);
}
template <>
DEVICE bool highest() {
  return true;
}

template <class T>
struct reduce_sum {
  typedef typename Sum_type<T>::type type;
  static DEVICE type neutral() { return 0; }
  static DEVICE type of(T x, i64) { return (type)x; }
  static DEVICE type join(type x, type y) { return op_add(x, y); }
  static DEVICE type value(type x) { return x; }
};
template <class T>
struct reduce_prod {
  typedef typename Sum_type<T>::type type;
  static DEVICE type neutral() { return 1; }
  static DEVICE type of(T x, i64) { return (type)x; }
  static DEVICE type join(type x, type y) { return op_mul(x, y); }
  static DEVICE type value(type x) { return x; }
};
template <class T>
struct reduce_max {
  typedef T type;
  static DEVICE T neutral() { return lowest<T>(); }
  static DEVICE T of(T x, i64) { return x; }
  static DEVICE T join(T x, T y) { return op_max(x, y); }
  static DEVICE T value(T x) { return x; }
};
template <class T>
struct reduce_min {
  typedef T type;
  static DEVICE T neutral() { return highest<T>(); }
  static DEVICE T of(T x, i64) { return x; }
  static DEVICE T join(T x, T y) { return op_min(x, y); }
  static DEVICE T value(T x) { return x; }
};
template <class T>
struct reduce_any {
  typedef bool type;
  static DEVICE bool neutral() { return false; }
  static DEVICE bool of(T x, i64) { return x; }
  static DEVICE bool join(bool x, bool y) { return x || y; }
  static DEVICE bool value(bool x) { return x; }
};
template <class T>
struct reduce_all {
  typedef bool type;
  static DEVICE bool neutral() { return true; }
  static DEVICE bool of(T x, i64) { return x; }
  static DEVICE bool join(bool x, bool y) { return x && y; }
  static DEVICE bool value(bool x) { return x; }
};

// The first NaN wins, else the first of the best elements.
template <class T, bool LARGEST>
struct Best {
  struct type {
    T value;
    i64 index;
  };
  static DEVICE type neutral() { return type{0, -1}; }
  static DEVICE type of(T x, i64 index) { return type{x, index}; }
  static DEVICE type join(type x, type y) {
    if (x.index < 0 || y.index < 0) return x.index < 0 ? y : x;
    const bool nan = x.value != x.value, other = y.value != y.value;
    const bool first = x.index < y.index;
    if (nan || other) return nan && (!other || first) ? x : y;
    if (x.value == y.value) return first ? x : y;
    return (LARGEST ? x.value > y.value : x.value < y.value) ? x : y;
  }
  static DEVICE i64 value(type x) { return x.index; }
};
template <class T>
struct argmax : Best<T, true> {};
template <class T>
struct argmin : Best<T, false> {};
