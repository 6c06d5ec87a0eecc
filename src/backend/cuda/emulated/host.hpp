// What lets a C++ compiler stand in for NVRTC, and one thread for a grid: blocks run one after the
// other; the threads of a block one after the other too where the first waits for no other, else as
// fibers that take turns at barriers.
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __global__
#define __device__ inline
#define __forceinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
#define DEVICE inline
#define UNROLL
#define DYNAMIC_SHARED(T, name) T* name = (T*)host::dynamic_shared
#ifdef __aarch64__
// GCC has _Float16 there from version 13 on; before that the same format has this name alone.
#define _Float16 __fp16
#endif

struct Index3 {
  unsigned x, y, z;
};
static Index3 threadIdx, blockIdx, blockDim, gridDim;

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline double erfinv(double x) {
  const double size = fabs(x);
  if (!(size < 1)) return size == 1 ? x * INFINITY : NAN;
  if (size < 1e-6) return x * 0.88622692545275801;
  double low = 0, high = 6;
  for (int step = 0; step < 64; ++step) {
    const double y = (low + high) / 2;
    (size < 0.5 ? erf(y) < size : erfc(y) > 1 - size) ? low = y : high = y;
  }
  return copysign(low, x);
}
static inline float erfinvf(float x) { return (float)erfinv(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
template <class T>
static inline T atomicCAS(T* at, T expected, T wanted) {
  T old = *at;
  if (old == expected) *at = wanted;
  return old;
}
template <class T>
static inline T atomicAdd(T* at, T more) {
  T old = *at;
  *at += more;
  return old;
}
template <class T>
static inline T atomicMin(T* at, T other) {
  T old = *at;
  if (other < old) *at = other;
  return old;
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }

namespace host {
alignas(16) static unsigned char dynamic_shared[256 << 10];

enum State { FRESH, READY, AT_BLOCK, AT_WARP, DONE };
struct Fiber {
  ucontext_t start;
  jmp_buf at;
  State state;
  std::vector<char> stack;
};
static std::vector<Fiber> fibers;
static jmp_buf scheduler;
static unsigned current;
static void (*body)(const void*);
static const void* argument;
static unsigned long long lanes[1024];

static void enter() {
  body(argument);
  fibers[current].state = DONE;
  _longjmp(scheduler, 1);
}

static bool alone;
// Every other grid begins with the last thread: what depends on who comes first then shows.
static bool backwards;

static inline void wait(State at) {
  if (alone) {
    fprintf(stderr, "thread %u of a block waits where thread 0 did not\n", threadIdx.x);
    abort();
  }
  fibers[current].state = at;
  if (!_setjmp(fibers[current].at)) _longjmp(scheduler, 1);
}

static void resume(unsigned n) {
  current = n;
  threadIdx = Index3{n, 0, 0};
  Fiber& fiber = fibers[n];
  State before = fiber.state;
  fiber.state = READY;
  if (_setjmp(scheduler)) return;
  if (before == FRESH)
    setcontext(&fiber.start);
  else
    _longjmp(fiber.at, 1);
}

// Whether all threads in [from, to) that are not done wait at `at`; those are let go.
static bool release(unsigned from, unsigned to, State at) {
  bool any = false;
  for (unsigned n = from; n < to; n++) {
    if (fibers[n].state != DONE && fibers[n].state != at) return false;
    any |= fibers[n].state == at;
  }
  for (unsigned n = from; n < to; n++)
    if (fibers[n].state == at) fibers[n].state = READY;
  return any;
}

static void begin(Fiber& fiber) {
  fiber.stack.resize(256 << 10);
  fiber.state = FRESH;
  getcontext(&fiber.start);
  fiber.start.uc_stack.ss_sp = fiber.stack.data();
  fiber.start.uc_stack.ss_size = fiber.stack.size();
  fiber.start.uc_link = nullptr;
  makecontext(&fiber.start, enter, 0);
}

static void run_block(unsigned threads) {
  if (fibers.size() < threads) fibers.resize(threads);
  begin(fibers[0]);
  resume(0);
  if (fibers[0].state == DONE) {
    alone = true;
    for (unsigned n = 1; n < threads; n++) {
      threadIdx = Index3{n, 0, 0};
      body(argument);
    }
    alone = false;
    return;
  }
  for (unsigned n = 1; n < threads; n++) begin(fibers[n]);
  for (;;) {
    bool ran = false, left = false;
    for (unsigned k = 0; k < threads; k++) {
      const unsigned n = backwards ? threads - 1 - k : k;
      if (fibers[n].state == FRESH || fibers[n].state == READY) {
        resume(n);
        ran = true;
      }
    }
    bool released = release(0, threads, AT_BLOCK);
    for (unsigned warp = 0; warp < threads; warp += 32)
      released |= release(warp, warp + 32 < threads ? warp + 32 : threads, AT_WARP);
    for (unsigned n = 0; n < threads; n++) left |= fibers[n].state != DONE;
    if (!left) return;
    if (!ran && !released) {
      fprintf(stderr, "threads of a block wait for each other for ever\n");
      abort();
    }
  }
}

static void run(void (*kernel)(const void*), const void* words, const unsigned* shape) {
  backwards = !backwards;
  body = kernel;
  argument = words;
  gridDim = Index3{shape[0], shape[1], shape[2]};
  blockDim = Index3{shape[3], 1, 1};
  for (unsigned z = 0; z < shape[2]; z++)
    for (unsigned y = 0; y < shape[1]; y++)
      for (unsigned x = 0; x < shape[0]; x++) {
        blockIdx = Index3{x, y, z};
        run_block(shape[3]);
      }
}

// What lane `from(lane)` of the warp holds. Every lane that is not done takes part.
template <class T, class From>
static inline T exchange(T x, From from) {
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  unsigned long long bits = 0;
  memcpy(&bits, &x, sizeof x);
  lanes[threadIdx.x] = bits;
  wait(AT_WARP);
  bits = lanes[warp + from(lane)];
  wait(AT_WARP);
  memcpy(&x, &bits, sizeof x);
  return x;
}
}  // namespace host

static inline void __syncthreads() { host::wait(host::AT_BLOCK); }
static inline int __syncthreads_or(int x) {
  static int any = 0;
  any |= x;
  __syncthreads();
  const int all = any;
  __syncthreads();
  any = 0;
  __syncthreads();
  return all;
}
static inline void __syncwarp(unsigned = ~0u) { host::wait(host::AT_WARP); }
template <class T>
static inline T __shfl_xor_sync(unsigned, T x, int mask) {
  return host::exchange(x, [=](unsigned lane) { return lane ^ mask; });
}
template <class T>
static inline T __shfl_sync(unsigned, T x, int from) {
  return host::exchange(x, [=](unsigned) { return from; });
}
template <class T>
static inline T __shfl_down_sync(unsigned, T x, int by) {
  return host::exchange(x, [=](unsigned lane) { return lane + by < 32 ? lane + by : lane; });
}
