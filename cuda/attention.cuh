#ifndef ATTENTION_CUH
#define ATTENTION_CUH
// Attention and its gradient for all element types, masks and widths of heads, without tensor
// cores. A block has a tile of R queries (for dk and dv: of R keys) and goes through the tiles of
// the other operand; only one tile by one of the matrix of scores exists at a time. Eight threads
// share each of the R rows: a thread has R / 8 neighbouring scores of a tile, and every eighth
// column of sums.

// The first argument words of all kernels.
template <class A>
struct Problem {
  i64 heads, groups, queries, keys;
  int d, e;
  A scale, kept;
  u32 threshold;
  u64 seed, offset;
  DEVICE Problem(const u64* w)
      : heads(w[0]),
        groups(w[1]),
        queries(w[2]),
        keys(w[3]),
        d((int)w[4]),
        e((int)w[5]),
        scale((A)bits_as<f64>(w[6])),
        kept((A)bits_as<f64>(w[7])),
        threshold((u32)w[8]),
        seed(*(const u64*)w[9]),
        offset(*(const u64*)w[10]) {}
  // The index of a query among those of all heads.
  DEVICE i64 row(i64 b, i64 h, i64 i) const { return (b * heads + h) * queries + i; }
};
enum { BIAS_WORDS = 11, OPERANDS = 16 };

// An operand [b, h, rows, width] with dense rows: four words.
template <class T>
struct Heads {
  const T* at;
  i64 batch, head, row;
  DEVICE Heads(const u64* w) : at((const T*)w[0]), batch(w[1]), head(w[2]), row(w[3]) {}
  DEVICE const T* rows(i64 b, i64 h, i64 i) const { return at + b * batch + h * head + i * row; }
};

// The addends of one query's scores: numbers, or -inf where a bool is false.
template <class A, class B>
struct Bias {
  const B* row;
  i64 stride;
  DEVICE Bias(const u64* w, i64 b, i64 h, i64 i)
      : row((const B*)w[0] + b * (i64)w[1] + h * (i64)w[2] + i * (i64)w[3]), stride(w[4]) {}
  static DEVICE A number(bool x) { return x ? 0 : lowest<A>(); }
  template <class X>
  static DEVICE A number(X x) {
    return (A)x;
  }
  DEVICE A get(i64 j) const { return number(::get(row + j * stride)); }
};
// The number of keys that are seen.
template <class A>
struct Bias<A, i32> {
  i64 end;
  DEVICE Bias(const u64* w, i64 b, i64, i64) : end(((const i32*)w[0])[b * (i64)w[1]]) {}
  DEVICE A get(i64 j) const { return j < end ? 0 : lowest<A>(); }
};
template <class A>
struct Bias<A, void> {
  DEVICE Bias(const u64*, i64, i64, i64) {}
  DEVICE A get(i64) const { return 0; }
};

// The score of a query and key from their product; -inf if the query does not see the key.
template <bool CAUSAL, class A, class Added>
DEVICE A score(const Problem<A>& p, A product, const Added& bias, i64 i, i64 j) {
  if (i >= p.queries || j >= p.keys || (CAUSAL && j > i)) return lowest<A>();
  const A b = bias.get(j);
  return b == lowest<A>() ? b : p.scale * product + b;
}

// A probability before it is divided by the sum of its row.
template <class A>
DEVICE A weight_of(A score, A top) {
  return score == lowest<A>() ? 0 : op_exp(score - top);
}

// Dropout's factors of probabilities, number by number; four come from the same random words.
template <class A, bool DROPOUT>
struct Dropout {
  u64 block;
  Random4 words;
  DEVICE Dropout() : block(~0ull) {}
  DEVICE A factor(const Problem<A>& p, i64 row, i64 j) {
    if (!DROPOUT) return 1;
    const u64 index = (u64)(row * p.keys + j);
    if (index / 4 != block) {
      block = index / 4;
      words = philox(p.seed, p.offset + block);
    }
    const u32 low = index & 1 ? words.at[1] : words.at[0];
    const u32 high = index & 1 ? words.at[3] : words.at[2];
    return (index & 2 ? high : low) >> 8 >= p.threshold ? p.kept : 0;
  }
};

// Keys that the queries before `end` may see.
template <bool CAUSAL, class A>
DEVICE i64 visible(const Problem<A>& p, i64 end) {
  return CAUSAL && end < p.keys ? end : p.keys;
}

// ---- tiles in shared memory: R rows, an odd number of elements apart

template <int R, class T>
DEVICE void load_tile(Held<T>* to, const T* from, i64 stride, i64 rows, int width) {
  for (int r = threadIdx.x / 32; r < R; r += R * 8 / 32) {
    for (int c = threadIdx.x % 32; c < width; c += 32) {
      to[r * (width | 1) + c] = r < rows ? get(from + r * stride + c) : 0;
    }
  }
}

// Products of a row with J neighbouring rows.
template <int J, class A>
DEVICE void products(A (&sums)[J], const A* row, const A* rows, int width) {
  UNROLL for (int n = 0; n < J; n++) sums[n] = 0;
  for (int c = 0; c < width; c++) {
    const A x = row[c];
    UNROLL for (int n = 0; n < J; n++) sums[n] += x * rows[n * (width | 1) + c];
  }
}

// Adds `weights[n] · rows[n]` for all rows of a tile to the columns that the thread has.
template <int R, int C, class A>
DEVICE void accumulate(A (&sums)[C], const A* weights, const A* rows, int width) {
  const int lane = threadIdx.x % 8;
  for (int n = 0; n < R; n++) {
    const A w = weights[n];
    UNROLL for (int c = 0; c < C; c++) {
      if (lane + 8 * c < width) sums[c] += w * rows[n * (width | 1) + lane + 8 * c];
    }
  }
}

template <int C, class T, class A>
DEVICE void store_row(T* to, const A (&sums)[C], A scale, int width) {
  const int lane = threadIdx.x % 8;
  UNROLL for (int c = 0; c < C; c++) {
    if (lane + 8 * c < width) put(to + lane + 8 * c, sums[c] * scale);
  }
}

// Reductions over the eight threads of a row.
template <class A>
DEVICE A top_of_row(A x) {
  UNROLL for (int mask = 4; mask > 0; mask /= 2) x = op_max(x, __shfl_xor_sync(~0u, x, mask));
  return x;
}
template <class A>
DEVICE A sum_of_row(A x) {
  UNROLL for (int mask = 4; mask > 0; mask /= 2) x += __shfl_xor_sync(~0u, x, mask);
  return x;
}

// The head and tile of a block. The last tiles, which see the most, come first.
template <int R>
struct Place {
  i64 b, h, first;
  DEVICE Place(i64 rows, i64 heads) {
    const i64 tiles = (rows + R - 1) / R, n = blockIdx.x / tiles;
    first = (tiles - 1 - blockIdx.x % tiles) * R;
    b = n / heads, h = n % heads;
  }
};

// ---- forward: q, k, v; out, lse

template <class T, class B, bool CAUSAL, bool DROPOUT, int R, int C>
DEVICE void attention(const u64* w) {
  typedef Held<T> A;
  const int J = R / 8, lane = threadIdx.x % 8, r = threadIdx.x / 8;
  const Problem<A> p(w);
  const Heads<T> q(w + OPERANDS), k(w + OPERANDS + 4), v(w + OPERANDS + 8);
  const Place<R> at(p.queries, p.heads);
  const i64 group = at.h / (p.heads / p.groups), i = at.first + r;
  const Bias<A, B> bias(w + BIAS_WORDS, at.b, at.h, i);
  DYNAMIC_SHARED(A, shared);
  A *const queries = shared, *const others = queries + R * (p.d | 1);
  A* const weights = others + R * ((p.d > p.e ? p.d : p.e) | 1);
  load_tile<R>(queries, q.rows(at.b, at.h, at.first), q.row, p.queries - at.first, p.d);
  A top = lowest<A>(), sum = 0, out[C] = {};
  for (i64 first = 0; first < visible<CAUSAL>(p, at.first + R); first += R) {
    __syncthreads();
    load_tile<R>(others, k.rows(at.b, group, first), k.row, p.keys - first, p.d);
    __syncthreads();
    A scores[J], higher = top, more = 0;
    products(scores, queries + r * (p.d | 1), others + lane * J * (p.d | 1), p.d);
    UNROLL for (int n = 0; n < J; n++) {
      scores[n] = score<CAUSAL>(p, scores[n], bias, i, first + lane * J + n);
      higher = op_max(higher, scores[n]);
    }
    higher = top_of_row(higher);
    Dropout<A, DROPOUT> dropout;
    UNROLL for (int n = 0; n < J; n++) {
      const A x = weight_of(scores[n], higher);
      const i64 j = first + lane * J + n;
      more += x;
      weights[r * (R + 1) + lane * J + n] = x * dropout.factor(p, p.row(at.b, at.h, i), j);
    }
    const A less = weight_of(top, higher);
    sum = sum * less + sum_of_row(more);
    top = higher;
    UNROLL for (int c = 0; c < C; c++) out[c] *= less;
    __syncthreads();
    load_tile<R>(others, v.rows(at.b, group, first), v.row, p.keys - first, p.e);
    __syncthreads();
    accumulate<R>(out, weights + r * (R + 1), others, p.e);
  }
  if (i >= p.queries) return;
  const i64 row = p.row(at.b, at.h, i);
  const u64* const results = w + OPERANDS + 12;
  store_row((T*)results[0] + row * p.e, out, sum == 0 ? (A)0 : 1 / sum, p.e);
  if (lane == 0) ((A*)results[1])[row] = sum == 0 ? lowest<A>() : top + op_log(sum);
}

// ---- backward: dout, q, k, v, out; lse, dq, dk, dv, delta

template <class T>
struct Backward {
  typedef Held<T> A;
  Heads<T> dout, q, k, v, out;
  const A* lse;
  T *dq, *dk, *dv;
  A* delta;
  DEVICE Backward(const u64* w)
      : dout(w),
        q(w + 4),
        k(w + 8),
        v(w + 12),
        out(w + 16),
        lse((const A*)w[20]),
        dq((T*)w[21]),
        dk((T*)w[22]),
        dv((T*)w[23]),
        delta((A*)w[24]) {}
};

// delta: the product of each query's result and its gradient, one query per warp.
template <class T>
DEVICE void attention_delta(const u64* w) {
  typedef Held<T> A;
  const Problem<A> p(w);
  const Backward<T> x(w + OPERANDS);
  const i64 rows = (i64)w[OPERANDS + 25], row = (i64)blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  const i64 i = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
  const T *dout = x.dout.rows(b, h, i), *out = x.out.rows(b, h, i);
  A sum = 0;
  for (int c = threadIdx.x % 32; c < p.e; c += 32) sum += get(dout + c) * get(out + c);
  UNROLL for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
  if (threadIdx.x % 32 == 0) x.delta[row] = sum;
}

// A probability times its factor, and the gradient of its score, from that of its product with the
// values.
template <class A>
struct ScoreGrad {
  A weight, dscore;
  DEVICE ScoreGrad(const Problem<A>& p, A score, A dproduct, A factor, A lse, A delta) {
    const A x = weight_of(score, lse);
    weight = x * factor;
    dscore = x == 0 ? 0 : x * (dproduct * factor - delta) * p.scale;
  }
};

template <class T, class B, bool CAUSAL, bool DROPOUT, int R, int C>
DEVICE void attention_dq(const u64* w) {
  typedef Held<T> A;
  const int J = R / 8, lane = threadIdx.x % 8, r = threadIdx.x / 8;
  const Problem<A> p(w);
  const Backward<T> x(w + OPERANDS);
  const Place<R> at(p.queries, p.heads);
  const i64 group = at.h / (p.heads / p.groups), i = at.first + r;
  const i64 row = p.row(at.b, at.h, i < p.queries ? i : 0);
  const Bias<A, B> bias(w + BIAS_WORDS, at.b, at.h, i);
  const A lse = x.lse[row], delta = x.delta[row];
  DYNAMIC_SHARED(A, shared);
  A *const queries = shared, *const douts = queries + R * (p.d | 1);
  A *const keys = douts + R * (p.e | 1), *const values = keys + R * (p.d | 1);
  A* const dscores = values + R * (p.e | 1);
  const i64 rows = p.queries - at.first;
  load_tile<R>(queries, x.q.rows(at.b, at.h, at.first), x.q.row, rows, p.d);
  load_tile<R>(douts, x.dout.rows(at.b, at.h, at.first), x.dout.row, rows, p.e);
  A dq[C] = {};
  for (i64 first = 0; first < visible<CAUSAL>(p, at.first + R); first += R) {
    __syncthreads();
    load_tile<R>(keys, x.k.rows(at.b, group, first), x.k.row, p.keys - first, p.d);
    load_tile<R>(values, x.v.rows(at.b, group, first), x.v.row, p.keys - first, p.e);
    __syncthreads();
    A scores[J], dproducts[J];
    products(scores, queries + r * (p.d | 1), keys + lane * J * (p.d | 1), p.d);
    products(dproducts, douts + r * (p.e | 1), values + lane * J * (p.e | 1), p.e);
    Dropout<A, DROPOUT> dropout;
    UNROLL for (int n = 0; n < J; n++) {
      const i64 j = first + lane * J + n;
      const A s = score<CAUSAL>(p, scores[n], bias, i, j), f = dropout.factor(p, row, j);
      dscores[r * (R + 1) + lane * J + n] = ScoreGrad<A>(p, s, dproducts[n], f, lse, delta).dscore;
    }
    __syncthreads();
    accumulate<R>(dq, dscores + r * (R + 1), keys, p.d);
  }
  if (i < p.queries) store_row(x.dq + row * p.d, dq, (A)1, p.d);
}

// A block has a tile of keys of one group and goes through the queries of all its heads.
template <class T, class B, bool CAUSAL, bool DROPOUT, int R, int C>
DEVICE void attention_dkdv(const u64* w) {
  typedef Held<T> A;
  const int J = R / 8, lane = threadIdx.x % 8, r = threadIdx.x / 8;
  const Problem<A> p(w);
  const Backward<T> x(w + OPERANDS);
  const Place<R> at(p.keys, p.groups);
  const i64 share = p.heads / p.groups;
  const i64 j = at.first + r;
  DYNAMIC_SHARED(A, shared);
  A *const keys = shared, *const values = keys + R * (p.d | 1);
  A *const queries = values + R * (p.e | 1), *const douts = queries + R * (p.d | 1);
  A *const weights = douts + R * (p.e | 1), *const dscores = weights + R * (R + 1);
  load_tile<R>(keys, x.k.rows(at.b, at.h, at.first), x.k.row, p.keys - at.first, p.d);
  load_tile<R>(values, x.v.rows(at.b, at.h, at.first), x.v.row, p.keys - at.first, p.e);
  A dk[C] = {}, dv[C] = {};
  for (i64 h = at.h * share; h < (at.h + 1) * share; h++) {
    for (i64 first = CAUSAL ? at.first : 0; first < p.queries; first += R) {
      __syncthreads();
      load_tile<R>(queries, x.q.rows(at.b, h, first), x.q.row, p.queries - first, p.d);
      load_tile<R>(douts, x.dout.rows(at.b, h, first), x.dout.row, p.queries - first, p.e);
      __syncthreads();
      A scores[J], dproducts[J];
      products(scores, keys + r * (p.d | 1), queries + lane * J * (p.d | 1), p.d);
      products(dproducts, values + r * (p.e | 1), douts + lane * J * (p.e | 1), p.e);
      UNROLL for (int n = 0; n < J; n++) {
        const i64 i = first + lane * J + n, row = p.row(at.b, h, i < p.queries ? i : 0);
        const Bias<A, B> bias(w + BIAS_WORDS, at.b, h, i);
        const A s = score<CAUSAL>(p, scores[n], bias, i, j);
        const A f = Dropout<A, DROPOUT>().factor(p, row, j);
        const ScoreGrad<A> slope(p, s, dproducts[n], f, x.lse[row], x.delta[row]);
        weights[r * (R + 1) + lane * J + n] = slope.weight;
        dscores[r * (R + 1) + lane * J + n] = slope.dscore;
      }
      __syncthreads();
      accumulate<R>(dv, weights + r * (R + 1), douts, p.e);
      accumulate<R>(dk, dscores + r * (R + 1), queries, p.d);
    }
  }
  if (j >= p.keys) return;
  const i64 row = (at.b * p.groups + at.h) * p.keys + j;
  store_row(x.dk + row * p.d, dk, (A)1, p.d);
  store_row(x.dv + row * p.e, dv, (A)1, p.e);
}
#endif
