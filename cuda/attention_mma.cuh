#ifndef ATTENTION_MMA_CUH
#define ATTENTION_MMA_CUH
// Attention and its gradient in f16 and bf16 by tensor cores, for heads of at most W columns. A
// block of four warps has a tile of 64 M rows; each warp has 16 M of them, and keeps their scores
// in registers. Exponentials are powers of two: scores are multiplied by log2(e).

enum { MMA_THREADS = 128 };
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

DEVICE f32 power_of_two(f32 x) {
#ifdef __CUDA_ARCH__
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// Reductions over the four threads of a row.
DEVICE f32 top_of_quad(f32 x) {
  x = op_max(x, __shfl_xor_sync(~0u, x, 1));
  return op_max(x, __shfl_xor_sync(~0u, x, 2));
}
DEVICE f32 sum_of_quad(f32 x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Replaces the products of one of two rows by its scores for 8 N keys, as exponents of two. The
// query sees the keys before the `limit`-th.
template <class B, int N>
DEVICE void scores_of(f32 (&sums)[N][4], int half, f32 scale, const Bias<f32, B>& bias, i64 first,
                      int limit) {
  const int t = threadIdx.x % 4 * 2;
  UNROLL for (int n = 0; n < 2 * N; n++) {
    f32& x = sums[n / 2][2 * half + n % 2];
    const int j = n / 2 * 8 + t + n % 2;
    x *= scale;
    if (!Same<B, void>::value) {
      const f32 b = j < limit ? bias.get(first + j) : lowest<f32>();
      x = b == lowest<f32>() ? b : x + b * LOG2E;
    }
  }
  if (limit >= 8 * N) return;
  UNROLL for (int n = 0; n < 2 * N; n++) {
    if (n / 2 * 8 + t + n % 2 >= limit) sums[n / 2][2 * half + n % 2] = lowest<f32>();
  }
}

// Stores one of two rows of sums, scaled and rounded.
template <class T, int C>
DEVICE void store_half(T* to, const f32 (&sums)[C][4], int half, f32 scale, int width) {
  UNROLL for (int c = 0; c < C; c++) {
    const u32 both = packed<T>(sums[c][2 * half] * scale, sums[c][2 * half + 1] * scale);
    if (c * 8 < width) ((u32*)to)[c * 4 + threadIdx.x % 4] = both;
  }
}

template <class T, class B, bool CAUSAL, bool DROPOUT, int W, int M, int K>
DEVICE void attention_mma(const u64* w) {
  enum { ROWS = 64 * M, KEYS = 8 * K, C = W / 8 };
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, warp = threadIdx.x / 32 * 16 * M;
  const Problem<f32> p(w);
  const Heads<T> q(w + OPERANDS), k(w + OPERANDS + 4), v(w + OPERANDS + 8);
  const Place<ROWS> at(p.queries, p.heads);
  const i64 group = at.h / (p.heads / p.groups);
  DYNAMIC_SHARED(T, shared);
  const Tile<T, W> queries = {shared}, keys = {shared + ROWS * W};
  const Tile<T, W> values = {keys.at + KEYS * W};
  const auto fetch = [&](const Tile<T, W>& to, const Heads<T>& x, i64 first, int width) {
    copy_tile<KEYS, MMA_THREADS>(to, x.rows(at.b, group, first), x.row, p.keys - first, width);
    commit_copies();
  };
  const i64 end = visible<CAUSAL>(p, at.first + ROWS);
  copy_tile<ROWS, MMA_THREADS>(queries, q.rows(at.b, at.h, at.first), q.row, p.queries - at.first,
                               p.d);
  if (end > 0) fetch(keys, k, 0, p.d);
  const int query = (int)at.first + warp + g, last = (int)p.keys;
  const f32 scale = p.scale * LOG2E;
  f32 top[M][2], sum[M][2] = {}, out[M][C][4] = {};
  UNROLL for (int m = 0; m < 2 * M; m++) top[m / 2][m % 2] = lowest<f32>();
  for (i64 first = 0; first < end; first += KEYS) {
    wait_for_copies<0>();
    __syncthreads();
    fetch(values, v, first, p.e);
    f32 scores[M][K][4] = {};
    multiply_rows<M, K>(scores, queries, warp, keys);
    UNROLL for (int m = 0; m < M; m++) {
      UNROLL for (int half = 0; half < 2; half++) {
        const int i = query + 16 * m + 8 * half;
        const Bias<f32, B> bias(w + BIAS_WORDS, at.b, at.h, i);
        const int seen = (CAUSAL && i < last ? i + 1 : last) - (int)first;
        scores_of(scores[m], half, scale, bias, first, i < (int)p.queries ? seen : 0);
        f32 higher = top[m][half];
        UNROLL for (int n = 0; n < K; n++) {
          UNROLL for (int e = 0; e < 2; e++) higher = op_max(higher, scores[m][n][2 * half + e]);
        }
        higher = top_of_quad(higher);
        // If nothing was seen yet, all powers are 0 with any finite base.
        const f32 base = higher == lowest<f32>() ? 0 : higher;
        const f32 less = power_of_two(top[m][half] - base);
        f32 more = 0;
        UNROLL for (int n = 0; n < K; n++) {
          Dropout<f32, DROPOUT> dropout;
          UNROLL for (int e = 0; e < 2; e++) {
            f32& x = scores[m][n][2 * half + e];
            x = power_of_two(x - base);
            more += x;
            if (DROPOUT) x *= dropout.factor(p, p.row(at.b, at.h, i), first + 8 * n + 2 * t + e);
          }
        }
        sum[m][half] = sum[m][half] * less + more;
        top[m][half] = higher;
        UNROLL for (int c = 0; c < C; c++) {
          UNROLL for (int e = 0; e < 2; e++) out[m][c][2 * half + e] *= less;
        }
      }
    }
    wait_for_copies<0>();
    __syncthreads();
    if (first + KEYS < end) fetch(keys, k, first + KEYS, p.d);
    multiply_sums<M, K, C>(out, scores, values);
  }
  const u64* const results = w + OPERANDS + 12;
  UNROLL for (int m = 0; m < M; m++) {
    UNROLL for (int half = 0; half < 2; half++) {
      const i64 i = at.first + warp + 16 * m + 8 * half + g, row = p.row(at.b, at.h, i);
      const f32 total = sum_of_quad(sum[m][half]), scale = total == 0 ? 0 : 1 / total;
      if (i >= p.queries) continue;
      store_half((T*)results[0] + row * p.e, out[m], half, scale, p.e);
      const f32 lse = total == 0 ? lowest<f32>() : top[m][half] * LN2 + op_log(total);
      if (t == 0) ((f32*)results[1])[row] = lse;
    }
  }
  wait_for_copies<0>();
}

// ---- backward

// Replaces products of queries and keys by `weights`, and those of gradients and values by the
// gradients of scores without the scale. A row of the fragments is one query (or, ACROSS, one key)
// and a column one key (query), so `half` and n index them; this is one element.
template <bool DROPOUT>
DEVICE void slope_of(f32& x, f32& d, const Problem<f32>& p, f32 lse, f32 delta, i64 row, i64 j) {
  const f32 weight = x == lowest<f32>() ? 0 : power_of_two(x - lse);
  f32 factor = 1;
  if (DROPOUT) factor = Dropout<f32, true>().factor(p, row, j);
  x = weight * factor;
  d = weight * (d * factor - delta);
}

// dq of 64 queries, from K · 8 keys at a time.
template <class T, class B, bool CAUSAL, bool DROPOUT, int W, int K>
DEVICE void attention_dq_mma(const u64* w) {
  enum { ROWS = 64, KEYS = 8 * K, C = W / 8 };
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, warp = threadIdx.x / 32 * 16;
  const Problem<f32> p(w);
  const Backward<T> x(w + OPERANDS);
  const Place<ROWS> at(p.queries, p.heads);
  const i64 group = at.h / (p.heads / p.groups), rows = p.queries - at.first;
  DYNAMIC_SHARED(T, shared);
  const Tile<T, W> queries = {shared}, douts = {shared + ROWS * W};
  const Tile<T, W> keys = {douts.at + ROWS * W}, values = {keys.at + KEYS * W};
  copy_tile<ROWS, MMA_THREADS>(queries, x.q.rows(at.b, at.h, at.first), x.q.row, rows, p.d);
  copy_tile<ROWS, MMA_THREADS>(douts, x.dout.rows(at.b, at.h, at.first), x.dout.row, rows, p.e);
  const f32 scale = p.scale * LOG2E;
  const int last = (int)p.keys;
  f32 dq[1][C][4] = {};
  for (i64 first = 0; first < visible<CAUSAL>(p, at.first + ROWS); first += KEYS) {
    __syncthreads();
    const i64 left = p.keys - first;
    copy_tile<KEYS, MMA_THREADS>(keys, x.k.rows(at.b, group, first), x.k.row, left, p.d);
    copy_tile<KEYS, MMA_THREADS>(values, x.v.rows(at.b, group, first), x.v.row, left, p.e);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    f32 scores[1][K][4] = {}, slopes[1][K][4] = {};
    multiply_rows(scores, queries, warp, keys);
    multiply_rows(slopes, douts, warp, values);
    UNROLL for (int half = 0; half < 2; half++) {
      const int i = (int)at.first + warp + 8 * half + g;
      const Bias<f32, B> bias(w + BIAS_WORDS, at.b, at.h, i);
      const int seen = (CAUSAL && i < last ? i + 1 : last) - (int)first;
      const bool there = i < (int)p.queries;
      scores_of(scores[0], half, scale, bias, first, there ? seen : 0);
      const i64 row = p.row(at.b, at.h, there ? i : 0);
      const f32 lse = x.lse[row] * LOG2E, delta = x.delta[row];
      UNROLL for (int n = 0; n < 2 * K; n++) {
        const int e = 2 * half + n % 2;
        const i64 j = first + n / 2 * 8 + 2 * t + n % 2;
        slope_of<DROPOUT>(scores[0][n / 2][e], slopes[0][n / 2][e], p, lse, delta, row, j);
      }
    }
    // Fragments need the whole warp at once, whose rows may have diverged.
    __syncwarp();
    multiply_sums(dq, slopes, keys);
  }
  UNROLL for (int half = 0; half < 2; half++) {
    const i64 i = at.first + warp + 8 * half + g;
    if (i < p.queries) store_half(x.dq + p.row(at.b, at.h, i) * p.d, dq[0], half, p.scale, p.d);
  }
  wait_for_copies<0>();
}

// Scores of one key and several queries, from query `first` on.
template <class B, bool CAUSAL, int N>
DEVICE void scores_across(f32 (&sums)[N][4], int half, f32 scale, const u64* w, i64 b, i64 h,
                          int first, int queries, int j, int keys) {
  UNROLL for (int n = 0; n < 2 * N; n++) {
    f32& x = sums[n / 2][2 * half + n % 2];
    const int i = first + n / 2 * 8 + threadIdx.x % 4 * 2 + n % 2;
    const bool seen = i < queries && j < keys && (!CAUSAL || j <= i);
    x *= scale;
    if (!Same<B, void>::value && seen) {
      const f32 added = Bias<f32, B>(w + BIAS_WORDS, b, h, i).get(j);
      x = added == lowest<f32>() ? added : x + added * LOG2E;
    }
    if (!seen) x = lowest<f32>();
  }
}

// dk and dv of 64 keys, from K · 8 queries at a time of all heads of a group.
template <class T, class B, bool CAUSAL, bool DROPOUT, int W, int K>
DEVICE void attention_dkdv_mma(const u64* w) {
  enum { ROWS = 64, QUERIES = 8 * K, C = W / 8 };
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, warp = threadIdx.x / 32 * 16;
  const Problem<f32> p(w);
  const Backward<T> x(w + OPERANDS);
  const Place<ROWS> at(p.keys, p.groups);
  const i64 share = p.heads / p.groups, rows = p.keys - at.first;
  DYNAMIC_SHARED(T, shared);
  const Tile<T, W> keys = {shared}, values = {shared + ROWS * W};
  const Tile<T, W> queries = {values.at + ROWS * W}, douts = {queries.at + QUERIES * W};
  copy_tile<ROWS, MMA_THREADS>(keys, x.k.rows(at.b, at.h, at.first), x.k.row, rows, p.d);
  copy_tile<ROWS, MMA_THREADS>(values, x.v.rows(at.b, at.h, at.first), x.v.row, rows, p.e);
  const f32 scale = p.scale * LOG2E;
  f32 dk[1][C][4] = {}, dv[1][C][4] = {};
  for (i64 h = at.h * share; h < (at.h + 1) * share; h++) {
    for (i64 first = CAUSAL ? at.first : 0; first < p.queries; first += QUERIES) {
      __syncthreads();
      const i64 left = p.queries - first;
      copy_tile<QUERIES, MMA_THREADS>(queries, x.q.rows(at.b, h, first), x.q.row, left, p.d);
      copy_tile<QUERIES, MMA_THREADS>(douts, x.dout.rows(at.b, h, first), x.dout.row, left, p.e);
      commit_copies();
      wait_for_copies<0>();
      __syncthreads();
      f32 scores[1][K][4] = {}, slopes[1][K][4] = {};
      multiply_rows(scores, keys, warp, queries);
      multiply_rows(slopes, values, warp, douts);
      UNROLL for (int half = 0; half < 2; half++) {
        const int j = (int)at.first + warp + 8 * half + g;
        scores_across<B, CAUSAL>(scores[0], half, scale, w, at.b, h, (int)first, (int)p.queries, j,
                                 (int)p.keys);
      }
      UNROLL for (int n = 0; n < 2 * K; n++) {
        const i64 i = first + n / 2 * 8 + 2 * t + n % 2;
        const i64 row = p.row(at.b, h, i < p.queries ? i : 0);
        const f32 lse = x.lse[row] * LOG2E, delta = x.delta[row];
        UNROLL for (int half = 0; half < 2; half++) {
          const int e = 2 * half + n % 2;
          const i64 j = at.first + warp + 8 * half + g;
          slope_of<DROPOUT>(scores[0][n / 2][e], slopes[0][n / 2][e], p, lse, delta, row, j);
        }
      }
      __syncwarp();
      multiply_sums(dv, scores, douts);
      multiply_sums(dk, slopes, queries);
    }
  }
  UNROLL for (int half = 0; half < 2; half++) {
    const i64 j = at.first + warp + 8 * half + g, row = (at.b * p.groups + at.h) * p.keys + j;
    if (j >= p.keys) continue;
    store_half(x.dk + row * p.d, dk[0], half, p.scale, p.d);
    store_half(x.dv + row * p.e, dv[0], half, 1.0f, p.e);
  }
  wait_for_copies<0>();
}
#endif
