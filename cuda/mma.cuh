#ifndef MMA_CUH
#define MMA_CUH
// Products of f16 and bf16 matrices by tensor cores, a warp at a time, with sums in f32. Names and
// fragments are those of PTX (ISA 9.7.14, mma.m16n8k16): of a thread's lane, `g` = lane / 4 is a
// row of A and of the sums (and the one eight below), `t` = lane % 4 stands for columns 2t and
// 2t + 1. Without such instructions (sm_70, the host) shuffles replace them.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define HAS_MMA 1
#else
#define HAS_MMA 0
#endif

template <class X, class Y>
struct Same {
  enum { value = 0 };
};
template <class X>
struct Same<X, X> {
  enum { value = 1 };
};

// 16 rows of 16 columns.
struct FragmentA {
  u32 at[4];
};

template <class T>
DEVICE u32 packed(f32 low, f32 high) {
  return (u32)Element<T>::put(low).bits | (u32)Element<T>::put(high).bits << 16;
}
#if HAS_MMA
template <>
DEVICE u32 packed<bf16>(f32 low, f32 high) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
DEVICE u32 packed<f16>(f32 low, f32 high) {
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
#endif

template <class T>
DEVICE f32 half_of(u32 both, int which) {
  T x;
  x.bits = (u16)(which ? both >> 16 : both);
  return Element<T>::get(x);
}

// sums += A · B, where B (16 rows of 8 columns) has pairs of rows 2t, 2t + 1 and eight below them.
template <class T>
DEVICE void mma(f32 (&sums)[4], const FragmentA& a, u32 b0, u32 b1) {
#if HAS_MMA
#define MMA(TYPE)                                                                     \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])           \
               : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1))
  if constexpr (Same<T, bf16>::value)
    MMA("bf16");
  else
    MMA("f16");
#undef MMA
#else
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  // Never unrolled: kernels have hundreds of these.
  _Pragma("unroll 1") for (int k = 0; k < 8; k++) {
    // Columns 2k and 2k + 1 of A, rows 2k and 2k + 1 of B.
    const int low = k < 4, from = k % 4;
    const u32 top = __shfl_sync(~0u, low ? a.at[0] : a.at[2], g * 4 + from);
    const u32 bottom = __shfl_sync(~0u, low ? a.at[1] : a.at[3], g * 4 + from);
    const u32 left = __shfl_sync(~0u, low ? b0 : b1, 2 * t * 4 + from);
    const u32 right = __shfl_sync(~0u, low ? b0 : b1, (2 * t + 1) * 4 + from);
    for (int which = 0; which < 2; which++) {
      const f32 x = half_of<T>(top, which), y = half_of<T>(bottom, which);
      const f32 l = half_of<T>(left, which), r = half_of<T>(right, which);
      sums[0] += x * l, sums[1] += x * r, sums[2] += y * l, sums[3] += y * r;
    }
  }
#endif
}

// ---- tiles in shared memory: rows of W elements, whose 16-byte pieces are permuted so that
// neither rows nor columns of pieces share a bank

template <class T, int W>
struct Tile {
  T* at;
  DEVICE T* piece(int row, int piece) const { return at + row * W + (piece ^ (row & 7)) * 8; }
};

#if HAS_MMA
DEVICE u32 shared_address(const void* at) {
  u32 address;
  asm("{ .reg .u64 x; cvta.to.shared.u64 x, %1; cvt.u32.u64 %0, x; }" : "=r"(address) : "l"(at));
  return address;
}
#endif

// Loads four 8 by 8 matrices, whose rows are at the addresses of lanes 0 to 31: row g, columns 2t
// and 2t + 1 of each; with ACROSS, rows 2t and 2t + 1 of column g.
template <bool ACROSS, class T>
DEVICE void load_matrices(u32 (&to)[4], const T* row) {
#if HAS_MMA
  const u32 from = shared_address(row);
  if (ACROSS)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
#else
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (int n = 0; n < 4; n++) {
    const u64 first = __shfl_sync(~0u, (u64)row, n * 8 + (ACROSS ? 2 * t : g));
    const u64 second = __shfl_sync(~0u, (u64)row, n * 8 + (ACROSS ? 2 * t + 1 : g));
    const T low = ((const T*)first)[ACROSS ? g : 2 * t];
    const T high = ((const T*)second)[ACROSS ? g : 2 * t + 1];
    to[n] = (u32)low.bits | (u32)high.bits << 16;
  }
#endif
}

// 16 rows of a tile from `row` on, columns 16k to 16k + 15, as A.
template <class T, int W>
DEVICE FragmentA rows_of(const Tile<T, W>& tile, int row, int k) {
  const int lane = threadIdx.x % 32;
  FragmentA a;
  load_matrices<false>(a.at, tile.piece(row + lane % 16, 2 * k + lane / 16));
  return a;
}

// Sums of 16 rows and 16 columns (from 16k on) as A, rounded.
template <class T, int N>
DEVICE FragmentA rounded(const f32 (&sums)[N][4], int k) {
  FragmentA a;
  a.at[0] = packed<T>(sums[2 * k][0], sums[2 * k][1]);
  a.at[1] = packed<T>(sums[2 * k][2], sums[2 * k][3]);
  a.at[2] = packed<T>(sums[2 * k + 1][0], sums[2 * k + 1][1]);
  a.at[3] = packed<T>(sums[2 * k + 1][2], sums[2 * k + 1][3]);
  return a;
}

// sums[16 M rows][rows of b] += a · bᵀ, where a is 16 M rows of a tile from `row` on.
template <int M, int N, class T, int W>
DEVICE void multiply_rows(f32 (&sums)[M][N][4], const Tile<T, W>& a, int row, const Tile<T, W>& b) {
  const int lane = threadIdx.x % 32;
  UNROLL for (int k = 0; k < W / 16; k++) {
    FragmentA left[M];
    UNROLL for (int m = 0; m < M; m++) left[m] = rows_of(a, row + 16 * m, k);
    UNROLL for (int n = 0; n < N; n += 2) {
      u32 right[4];
      const int at = n * 8 + lane / 16 * 8 + lane % 8;
      load_matrices<false>(right, b.piece(at, 2 * k + lane / 8 % 2));
      UNROLL for (int m = 0; m < M; m++) {
        mma<T>(sums[m][n], left[m], right[0], right[1]);
        mma<T>(sums[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// sums[16 M rows][columns of b] += a · b, where a is sums over the rows of b, rounded.
template <int M, int K, int N, class T, int W>
DEVICE void multiply_sums(f32 (&sums)[M][N][4], const f32 (&a)[M][K][4], const Tile<T, W>& b) {
  const int lane = threadIdx.x % 32;
  UNROLL for (int k = 0; k < K / 2; k++) {
    FragmentA left[M];
    UNROLL for (int m = 0; m < M; m++) left[m] = rounded<T>(a[m], k);
    UNROLL for (int n = 0; n < N; n += 2) {
      u32 right[4];
      load_matrices<true>(right, b.piece(16 * k + lane % 16, n + lane / 16));
      UNROLL for (int m = 0; m < M; m++) {
        mma<T>(sums[m][n], left[m], right[0], right[1]);
        mma<T>(sums[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// ---- from global to shared memory, without waiting

// Copies 16 bytes, or zeros.
template <class T>
DEVICE void copy_piece(T* to, const T* from, bool there) {
#if HAS_MMA
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
#else
  *(pair*)to = there ? *(const pair*)from : pair{0, 0};
#endif
}

// Ends a group of copies.
DEVICE void commit_copies() {
#if HAS_MMA
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all groups of the thread but the last N.
template <int N>
DEVICE void wait_for_copies() {
#if HAS_MMA
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

// Copies R rows of `width` elements (a multiple of 8) and zeros for the rest of the tile, by
// THREADS threads.
template <int R, int THREADS, class T, int W>
DEVICE void copy_tile(const Tile<T, W>& to, const T* from, i64 stride, i64 rows, int width) {
  UNROLL for (int n = 0; n < R * W / 8; n += THREADS) {
    const int r = (n + threadIdx.x) / (W / 8), c = (n + threadIdx.x) % (W / 8);
    const bool there = r < rows && c * 8 < width;
    copy_piece(to.piece(r, c), there ? from + r * stride + c * 8 : from, there);
  }
}
#endif
