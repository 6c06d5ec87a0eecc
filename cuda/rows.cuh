#ifndef ROWS_CUH
#define ROWS_CUH
// Kernels over the rows of dense matrices. A row is shared by a *group* of G threads: a warp, of
// which a block has several, or the whole block. Its columns are dealt to the group in packs of V
// neighbours. A short row is read once and kept in registers as it is stored, N packs per thread; a
// long one (N = 0) is read again in every pass, in packs aligned to V.

enum { ROW_THREADS = 256 };

// ---- results of a group for its row: parts that are joined. The same bits for the same row.

template <class A, int K>
struct Sums {
  A at[K];
  DEVICE Sums join(Sums y) const {
    Sums sums;
    UNROLL for (int k = 0; k < K; k++) sums.at[k] = at[k] + y.at[k];
    return sums;
  }
  DEVICE Sums of_lane(int mask) const {
    Sums there;
    UNROLL for (int k = 0; k < K; k++) there.at[k] = __shfl_xor_sync(~0u, at[k], mask);
    return there;
  }
};

// Sums of a thread's elements. Of a long row it adds thousands of numbers, whose rounding errors
// are kept and taken back (Kahan's sum).
template <class A, int K, bool LONG>
struct Adding {
  Sums<A, K> sums = {};
  A excess[K] = {};
  DEVICE void add(int k, A x) {
    if (!LONG) {
      sums.at[k] += x;
      return;
    }
    const A term = x - excess[k], sum = sums.at[k] + term;
    const A rounding = (sum - sums.at[k]) - term;
    // Infinities have no rounding error.
    excess[k] = rounding == rounding ? rounding : 0;
    sums.at[k] = sum;
  }
};

// `total` is the sum of exp(x - top) over the elements seen that are not -inf.
template <class A>
struct Exponentials {
  A top, total;
  static DEVICE Exponentials none() { return Exponentials{lowest<A>(), 0}; }
  static DEVICE A term(A x, A top) { return x == lowest<A>() ? 0 : op_exp(x - top); }
  DEVICE A seen_from(A higher) const { return total == 0 ? 0 : total * op_exp(top - higher); }
  DEVICE Exponentials join(Exponentials y) const {
    const A higher = op_max(top, y.top);
    return Exponentials{higher, seen_from(higher) + y.seen_from(higher)};
  }
  DEVICE Exponentials of_lane(int mask) const {
    return Exponentials{__shfl_xor_sync(~0u, top, mask), __shfl_xor_sync(~0u, total, mask)};
  }
  // For a whole row: -inf everywhere gives NaN, as in the formula.
  DEVICE A sum() const { return top == lowest<A>() ? top - top : total; }
};

// Joins the parts of all threads of the group; each of them gets the result.
template <int G, class Part>
DEVICE Part of_team(Part mine) {
  UNROLL for (int mask = 16; mask > 0; mask /= 2) mine = mine.join(mine.of_lane(mask));
  if (G == 32) return mine;
  __shared__ Part warps[ROW_THREADS / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = warps[0];
  UNROLL for (int w = 1; w < ROW_THREADS / 32; w++) mine = mine.join(warps[w]);
  return mine;
}

// ---- columns

template <int V>
struct Width {
  enum { value = V };
};
template <class A, int V>
struct Lanes {
  A at[V];
};
template <class T, int V>
struct alignas(V * sizeof(T)) Pack {
  T at[V];
};

// The columns of row `row` that the thread has.
template <int G, int V, int N>
struct Span {
  i64 row, n;
  DEVICE Span(i64 row, i64 n) : row(row), n(n) {}

  // Calls `f(width, p, c)` for its packs: the p-th has `width` columns from c on.
  template <class F>
  DEVICE void each(F f) const {
    const int lane = threadIdx.x % G;
    if constexpr (N > 0) {
      UNROLL for (int p = 0; p < N; p++) {
        const int c = (p * G + lane) * V;
        if (c < n) f(Width<V>(), p, c);
      }
    } else {
      // If V does not divide the length, rows begin between two aligned positions.
      const i64 odd = -(row * n) & (V - 1), head = odd < n ? odd : n;
      const i64 end = head + (n - head) / V * V;
      if (lane < head) f(Width<1>(), 0, (i64)lane);
      for (i64 c = head + (i64)lane * V; c < end; c += G * V) f(Width<V>(), 0, c);
      if (end + lane < n) f(Width<1>(), 0, end + lane);
    }
  }

  // Calls `f` with the operands' elements in each column.
  template <class F, class... Operands>
  DEVICE void visit(F f, const Operands&... operands) const {
    each([&](auto width, int p, i64 c) {
      const auto all = [&](auto... x) {
        UNROLL for (int e = 0; e < width.value; e++) f(x.at[e]...);
      };
      all(operands.get(width, p, c)...);
    });
  }

  // Passes to `to` the results of `f` on the operands' elements, and their position in the matrix.
  template <class To, class F, class... Operands>
  DEVICE void write(const To& to, F f, const Operands&... operands) const {
    each([&](auto width, int p, i64 c) {
      constexpr int W = decltype(width)::value;
      const auto all = [&](auto... x) {
        decltype(f(x.at[0]...)) y[W];
        UNROLL for (int e = 0; e < W; e++) y[e] = f(x.at[e]...);
        to(row * n + c, y);
      };
      all(operands.get(width, p, c)...);
    });
  }
};

// The elements of a row that each thread has.
template <class T, int G, int V, int N>
struct Row {
  Pack<T, V> packs[N];
  DEVICE Row(const Span<G, V, N>& span, const T* from) {
    span.each(
        [&](auto, int p, i64 c) { packs[p] = *(const Pack<T, V>*)(from + span.row * span.n + c); });
  }
  DEVICE Lanes<Held<T>, V> get(Width<V>, int p, i64) const {
    Lanes<Held<T>, V> x;
    UNROLL for (int e = 0; e < V; e++) x.at[e] = Element<T>::get(packs[p].at[e]);
    return x;
  }
};
template <class T, int G, int V>
struct Row<T, G, V, 0> {
  const T* from;
  DEVICE Row(const Span<G, V, 0>& span, const T* from) : from(from + span.row * span.n) {}
  template <int W>
  DEVICE Lanes<Held<T>, W> get(Width<W>, int, i64 c) const {
    Lanes<Held<T>, W> x;
    get_all<W>(x.at, from + c);
    return x;
  }
};

// One number for every column; packs of V are aligned to V.
template <class A, class T>
struct Column {
  const T* from;
  DEVICE Column(u64 from) : from((const T*)from) {}
  template <int W>
  DEVICE Lanes<A, W> get(Width<W>, int, i64 c) const {
    Held<T> stored[W];
    get_all<W>(stored, from + c);
    Lanes<A, W> x;
    UNROLL for (int e = 0; e < W; e++) x.at[e] = (A)stored[e];
    return x;
  }
};
// The same number for all columns.
template <class A, int NUMBER>
struct Every {
  DEVICE Every(u64) {}
  template <int W>
  DEVICE Lanes<A, W> get(Width<W>, int, i64) const {
    Lanes<A, W> x;
    UNROLL for (int e = 0; e < W; e++) x.at[e] = NUMBER;
    return x;
  }
};

// A number of a result as if read from memory: rounded, and not fused with later operations.
template <class T>
DEVICE Held<T> as_stored(Held<T> x) {
  return Element<T>::get(Element<T>::put(x));
}
#ifdef __CUDA_ARCH__
template <>
DEVICE f32 as_stored<f32>(f32 x) {
  asm("" : "+f"(x));
  return x;
}
template <>
DEVICE f64 as_stored<f64>(f64 x) {
  asm("" : "+d"(x));
  return x;
}
#endif

// The destination of a result without further operations: memory.
template <class T>
struct Stored {
  T* to;
  DEVICE Stored(u64 to) : to((T*)to) {}
  template <int W>
  DEVICE void operator()(i64 at, const Held<T> (&y)[W]) const {
    put_all<W>(to + at, y);
  }
};

template <int G>
DEVICE i64 first_row() {
  return (i64)blockIdx.x * (ROW_THREADS / G) + threadIdx.x / G;
}

// ---- softmax and its kin

// A kept row is passed over twice, so that each exponential is computed once; a long one is read
// once.
template <class T, int G, int V, int N>
DEVICE Exponentials<Held<T>> exponentials(const Span<G, V, N>& span, const Row<T, G, V, N>& x) {
  typedef Held<T> A;
  Exponentials<A> mine = Exponentials<A>::none();
  span.each([&](auto width, int p, i64 c) {
    const auto lanes = x.get(width, p, c);
    A top = mine.top;
    UNROLL for (int e = 0; e < width.value; e++) top = op_max(top, lanes.at[e]);
    if (N == 0) {
      mine.total = mine.seen_from(top);
      UNROLL for (int e = 0; e < width.value; e++) {
        mine.total += Exponentials<A>::term(lanes.at[e], top);
      }
    }
    mine.top = top;
  });
  if (N == 0) return of_team<G>(mine);
  const A top = of_team<G>(mine).top;
  Sums<A, 1> sum = {};
  span.visit([&](A x) { sum.at[0] += Exponentials<A>::term(x, top); }, x);
  return Exponentials<A>{top, of_team<G>(sum).at[0]};
}

template <class T, int G, int V, int N, class To>
DEVICE void softmax(const To& to, u64 from, i64 rows, i64 n) {
  typedef Held<T> A;
  const Span<G, V, N> span(first_row<G>(), n);
  if (span.row >= rows) return;
  const Row<T, G, V, N> x(span, (const T*)from);
  const Exponentials<A> all = exponentials(span, x);
  const A scale = 1 / all.sum();
  span.write(to, [=](A x) { return op_exp(x - all.top) * scale; }, x);
}

template <class T, int G, int V, int N, class To>
DEVICE void log_softmax(const To& to, u64 from, i64 rows, i64 n) {
  typedef Held<T> A;
  const Span<G, V, N> span(first_row<G>(), n);
  if (span.row >= rows) return;
  const Row<T, G, V, N> x(span, (const T*)from);
  const Exponentials<A> all = exponentials(span, x);
  const A log = op_log(all.sum());
  span.write(to, [=](A x) { return (x - all.top) - log; }, x);
}

template <class T, int G, int V, int N>
DEVICE void log_sum_exp(u64 from, u64 tops, u64 logs, i64 rows, i64 n) {
  typedef Held<T> A;
  const Span<G, V, N> span(first_row<G>(), n);
  if (span.row >= rows) return;
  const Row<T, G, V, N> x(span, (const T*)from);
  const Exponentials<A> all = exponentials(span, x);
  if (threadIdx.x % G != 0) return;
  ((A*)tops)[span.row] = all.top;
  ((A*)logs)[span.row] = op_log(all.sum());
}

template <class DY, class Y, int G, int V, int N, class To>
DEVICE void softmax_grad(const To& to, u64 from_dy, u64 from_y, i64 rows, i64 n) {
  typedef Held<DY> A;
  const Span<G, V, N> span(first_row<G>(), n);
  if (span.row >= rows) return;
  const Row<DY, G, V, N> dy(span, (const DY*)from_dy);
  const Row<Y, G, V, N> y(span, (const Y*)from_y);
  Adding<A, 1, N == 0> mine;
  span.visit([&](A dy, A y) { mine.add(0, dy * y); }, dy, y);
  const A dot = of_team<G>(mine.sums).at[0];
  span.write(to, [=](A dy, A y) { return (dy - dot) * y; }, dy, y);
}

template <class DY, class Y, int G, int V, int N, class To>
DEVICE void log_softmax_grad(const To& to, u64 from_dy, u64 from_y, i64 rows, i64 n) {
  typedef Held<DY> A;
  const Span<G, V, N> span(first_row<G>(), n);
  if (span.row >= rows) return;
  const Row<DY, G, V, N> dy(span, (const DY*)from_dy);
  const Row<Y, G, V, N> y(span, (const Y*)from_y);
  Adding<A, 1, N == 0> mine;
  span.visit([&](A dy) { mine.add(0, dy); }, dy);
  const A sum = of_team<G>(mine.sums).at[0];
  span.write(to, [=](A dy, A y) { return dy - op_exp(y) * sum; }, dy, y);
}

// ---- normalisation: of layers, and by the root of the mean square, which has no MEAN

template <class T, class Weight, class Bias, bool MEAN, int G, int V, int N, class To>
DEVICE void norm(const To& to, u64 from, u64 weight, u64 bias, u64 means, u64 rstds, i64 rows,
                 i64 n, u64 eps) {
  typedef Held<T> A;
  const Span<G, V, N> span(first_row<G>(), n);
  if (span.row >= rows) return;
  const Row<T, G, V, N> x(span, (const T*)from);
  // The mean, as far as sums of large numbers tell, and its error.
  A near = 0, off = 0;
  if (MEAN) {
    Adding<A, 1, N == 0> sum;
    span.visit([&](A x) { sum.add(0, x); }, x);
    near = of_team<G>(sum.sums).at[0] / (A)n;
  }
  Adding<A, MEAN ? 2 : 1, N == 0> mine;
  span.visit(
      [&](A x) {
        mine.add(0, (x - near) * (x - near));
        if (MEAN) mine.add(MEAN, x - near);
      },
      x);
  const auto sums = of_team<G>(mine.sums);
  if (MEAN) off = sums.at[MEAN] / (A)n;
  const A variance = op_max(sums.at[0] / (A)n - off * off, (A)0);
  const A rstd = 1 / op_sqrt(variance + (A)bits_as<f64>(eps));
  span.write(
      to, [=](A x, A w, A b) { return ((x - near) - off) * rstd * w + b; }, x, Weight(weight),
      Bias(bias));
  if (threadIdx.x % G != 0) return;
  // A number infinitely far from all others is their mean.
  if (MEAN) ((A*)means)[span.row] = off == off ? near + off : near;
  ((A*)rstds)[span.row] = rstd;
}

// The statistics of a row, and the means of its gradient and of that times the normalized row.
template <class A>
struct Slope {
  A mean, rstd, average, along;
  DEVICE A normed(A x) const { return (x - mean) * rstd; }
  DEVICE A dx(A dy, A x, A w) const { return rstd * (dy * w - average - normed(x) * along); }
};

template <bool MEAN, class DY, class X, class Weight, int G, int V, int N>
DEVICE Slope<Held<X>> slope(const Span<G, V, N>& span, const Row<DY, G, V, N>& dy,
                            const Row<X, G, V, N>& x, const Weight& weight, u64 means, u64 rstds) {
  typedef Held<X> A;
  Slope<A> s = {MEAN ? ((const A*)means)[span.row] : 0, ((const A*)rstds)[span.row], 0, 0};
  Adding<A, MEAN ? 2 : 1, N == 0> mine;
  span.visit(
      [&](A dy, A x, A w) {
        mine.add(0, dy * w * s.normed(x));
        if (MEAN) mine.add(MEAN, dy * w);
      },
      dy, x, weight);
  const auto sums = of_team<G>(mine.sums);
  s.along = sums.at[0] / (A)span.n;
  if (MEAN) s.average = sums.at[MEAN] / (A)span.n;
  return s;
}

// dx of long rows.
template <class DY, class X, class Weight, bool MEAN, int G, int V, class To>
DEVICE void norm_dx(const To& to, u64 from_dy, u64 from_x, u64 means, u64 rstds, u64 weights,
                    i64 rows, i64 n) {
  typedef Held<X> A;
  const Span<G, V, 0> span(first_row<G>(), n);
  if (span.row >= rows) return;
  const Row<DY, G, V, 0> dy(span, (const DY*)from_dy);
  const Row<X, G, V, 0> x(span, (const X*)from_x);
  const Weight weight(weights);
  const Slope<A> s = slope<MEAN>(span, dy, x, weight, means, rstds);
  span.write(to, [=](A dy, A x, A w) { return s.dx(dy, x, w); }, dy, x, weight);
}

// Sums over the rows of a block: of dweight and, with a MEAN, of dbias after it.
template <class A, bool MEAN, int V, int N>
struct Slopes {
  A weight[N][V], bias[N][V];

  // Adds the sums of the block's groups in order, and leaves them in `part`.
  template <int G>
  DEVICE void leave(A* part, i64 n) const {
    __shared__ A sums[G == 32 ? 2 : 1][G == 32 ? 32 * V * N : 1];
    const Span<G, V, N> span(0, n);
    const int teams = ROW_THREADS / G;
    for (int team = 0; team < teams; team++) {
      if (team > 0) __syncthreads();
      if ((int)threadIdx.x / G == team)
        span.each([&](auto, int p, i64 c) {
          UNROLL for (int e = 0; e < V; e++) {
            A w = weight[p][e], b = MEAN ? bias[p][e] : 0;
            if (team > 0) w = sums[0][c + e] + w, b = MEAN ? sums[G == 32][c + e] + b : b;
            if (team < teams - 1) {
              sums[0][c + e] = w;
              if (MEAN) sums[1][c + e] = b;
            } else {
              part[c + e] = w;
              if (MEAN) part[n + c + e] = b;
            }
          }
        });
    }
  }
};

// dx of kept rows, and every block's sums over its rows.
template <class DY, class X, class Weight, bool MEAN, int G, int V, int N, class To>
DEVICE void norm_grad(const To& to, u64 from_dy, u64 from_x, u64 means, u64 rstds, u64 weights,
                      u64 parts, i64 rows, i64 n) {
  typedef Held<X> A;
  Slopes<A, MEAN, V, N> slopes = {};
  const Weight weight(weights);
  for (i64 row = first_row<G>(); row < rows; row += (i64)gridDim.x * (ROW_THREADS / G)) {
    const Span<G, V, N> span(row, n);
    const Row<DY, G, V, N> dy(span, (const DY*)from_dy);
    const Row<X, G, V, N> x(span, (const X*)from_x);
    const Slope<A> s = slope<MEAN>(span, dy, x, weight, means, rstds);
    span.write(to, [=](A dy, A x, A w) { return s.dx(dy, x, w); }, dy, x, weight);
    span.each([&](auto width, int p, i64 c) {
      const auto dys = dy.get(width, p, c), xs = x.get(width, p, c);
      UNROLL for (int e = 0; e < V; e++) {
        slopes.weight[p][e] += dys.at[e] * s.normed(xs.at[e]);
        if (MEAN) slopes.bias[p][e] += dys.at[e];
      }
    });
  }
  slopes.template leave<G>((A*)parts + (i64)blockIdx.x * n * (MEAN ? 2 : 1), n);
}

// A block's threads as 32 neighbouring (packs of) columns by 8.
enum { DEEP = ROW_THREADS / 32 };

// Sums over one of `splits` shares of long rows, for 32 packs of columns.
template <class DY, class X, bool MEAN, int V>
DEVICE void norm_columns(u64 from_dy, u64 from_x, u64 means, u64 rstds, u64 parts, i64 rows, i64 n,
                         i64 splits) {
  typedef Held<X> A;
  __shared__ A sums[2][DEEP][32 * V];
  const int lane = threadIdx.x % 32, deep = threadIdx.x / 32;
  const i64 split = blockIdx.x % splits, first = (i64)(blockIdx.x / splits) * 32 * V;
  const i64 c = first + lane * V;
  A weight[V] = {}, bias[V] = {};
  for (i64 row = split * DEEP + deep; c < n && row < rows; row += splits * DEEP) {
    const Slope<A> s = {MEAN ? ((const A*)means)[row] : 0, ((const A*)rstds)[row], 0, 0};
    A dy[V], x[V];
    get_all<V>(dy, (const DY*)from_dy + row * n + c);
    get_all<V>(x, (const X*)from_x + row * n + c);
    UNROLL for (int e = 0; e < V; e++) weight[e] += dy[e] * s.normed(x[e]), bias[e] += dy[e];
  }
  UNROLL for (int e = 0; e < V; e++) {
    sums[0][deep][lane * V + e] = weight[e];
    sums[1][deep][lane * V + e] = bias[e];
  }
  __syncthreads();
  A* const part = (A*)parts + split * n * (MEAN ? 2 : 1);
  for (int k = threadIdx.x; k < 32 * V && first + k < n; k += ROW_THREADS) {
    A w = 0, b = 0;
    UNROLL for (int d = 0; d < DEEP; d++) w += sums[0][d][k], b += sums[1][d][k];
    part[first + k] = w;
    if (MEAN) part[n + first + k] = b;
  }
}

// Joins the parts of `columns` columns in order: the first n are dweight, the others dbias.
template <class A, class D>
DEVICE void join_columns(u64 from, u64 dweight, u64 dbias, i64 parts, i64 n, i64 columns) {
  __shared__ A sums[DEEP][32];
  const int lane = threadIdx.x % 32, deep = threadIdx.x / 32;
  const i64 c = (i64)blockIdx.x * 32 + lane;
  A sum = 0;
  for (i64 part = deep; c < columns && part < parts; part += DEEP) {
    sum += ((const A*)from)[part * columns + c];
  }
  sums[deep][lane] = sum;
  __syncthreads();
  if (deep > 0 || c >= columns) return;
  for (int d = 1; d < DEEP; d++) sum += sums[d][lane];
  put(c < n ? (D*)dweight + c : (D*)dbias + (c - n), (Held<D>)sum);
}
#endif
