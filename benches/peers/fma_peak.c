/* What the processor's multipliers can do in f32: `fma_peak THREADS` prints operations a second (a
   multiply-add is two), all threads together, in a loop of multiply-adds of vectors that stay in
   registers. To be compiled with -O2 -march=native -pthread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* As many independent chains as hide the latency, and fit into the registers. */
#ifdef __AVX512F__
enum { BYTES = 64, CHAINS = 24 };
#elif defined(__AVX__)
enum { BYTES = 32, CHAINS = 12 };
#else
enum { BYTES = 16, CHAINS = 16 };
#endif
enum { LANES = BYTES / 4, TIMES = 2000000, ROUNDS = 5 };

typedef float vector __attribute__((vector_size(BYTES)));

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static float multiply_adds(float factor) {
  vector chains[CHAINS], x = factor - (vector){0}, y = 1e-3f - (vector){0};
  /* Others for each chain, or the compiler has only one of them computed. */
  for (int chain = 0; chain < CHAINS; ++chain) chains[chain] = factor * (float)chain - (vector){0};
  for (int time = 0; time < TIMES; ++time) {
#pragma GCC unroll 24
    for (int chain = 0; chain < CHAINS; ++chain) chains[chain] = chains[chain] * x + y;
  }
  float sum = 0;
  for (int chain = 0; chain < CHAINS; ++chain) sum += chains[chain][0];
  return sum;
}

static pthread_barrier_t barrier;
static volatile float factor = 0.999f, result;

static void* work(void* best) {
  for (int round = 0; round < ROUNDS; ++round) {
    pthread_barrier_wait(&barrier);
    const double start = seconds();
    result = multiply_adds(factor);
    const double took = seconds() - start;
    if (round == 0 || took < *(double*)best) *(double*)best = took;
  }
  return NULL;
}

int main(int count, char** arguments) {
  const int threads = count > 1 ? atoi(arguments[1]) : 1;
  pthread_t* started = malloc(sizeof(pthread_t) * (size_t)threads);
  double *best = calloc((size_t)threads, sizeof(double)), speed = 0;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (int thread = 0; thread < threads; ++thread) {
    if (pthread_create(&started[thread], NULL, work, &best[thread])) return 1;
  }
  for (int thread = 0; thread < threads; ++thread) {
    pthread_join(started[thread], NULL);
    speed += 2.0 * TIMES * CHAINS * LANES / best[thread];
  }
  printf("%.6g\n", speed);
  return 0;
}
