/* Many threads on one context: each follows its own tensors in plain arithmetic, all of them add to
 * a tensor that they share, and others look on. `program ROUNDS`. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <time.h>

#include "check.h"

enum { WORKERS = 6, WIDTH = 24, SLOTS = 5 };

static torchacc_context* context;
static torchacc_tensor *total, *shared;
static torchacc_op add, mul;
static int rounds, running = WORKERS;
static long added, answered, asked;

static uint32_t draw(uint64_t* state, uint32_t below) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % below;
}

static torchacc_tensor* row(const float* data) {
  const int64_t sizes[1] = {WIDTH};
  torchacc_tensor* tensor;
  OK(torchacc_tensor_from_host(context, TORCHACC_F32, sizes, 1, data, WIDTH * sizeof *data,
                               &tensor));
  return tensor;
}

static void check_row(const torchacc_tensor* tensor, const float* wanted) {
  float got[WIDTH];
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  EXPECT(memcmp(got, wanted, sizeof got) == 0);
}

static void told(void* user, const torchacc_error* error, const void* data, size_t len) {
  EXPECT(!error && len == WIDTH * sizeof(float) && memcmp(data, user, len) == 0);
}

static void forgotten(void* user) {
  free(user);
  __atomic_add_fetch(&answered, 1, __ATOMIC_ACQ_REL);
}

static void ask(const torchacc_tensor* tensor, const float* wanted) {
  float* copy = malloc(2 * WIDTH * sizeof *copy);
  memcpy(copy, wanted, WIDTH * sizeof *copy);
  __atomic_add_fetch(&asked, 1, __ATOMIC_ACQ_REL);
#ifdef TORCHACC_VERSION_MAJOR /* Not yet in the first header. */
  if (wanted[0] > 0) {
    OK(torchacc_tensor_copy_async(tensor, copy + WIDTH, WIDTH * sizeof *copy, told, copy,
                                  forgotten));
    return;
  }
#endif
  OK(torchacc_tensor_read_async(tensor, told, copy, forgotten));
}

/* Sums and products of small whole numbers, which are begun again before they are inexact. */
static void* work(void* seed) {
  uint64_t state = (uint64_t)(uintptr_t)seed;
  torchacc_tensor* tensors[SLOTS];
  float values[SLOTS][WIDTH], ones[WIDTH];
  for (int i = 0; i < WIDTH; ++i) ones[i] = 1;
  torchacc_tensor* one = row(ones);
  for (int slot = 0; slot < SLOTS; ++slot) {
    for (int i = 0; i < WIDTH; ++i) values[slot][i] = (float)draw(&state, 5) - 2;
    tensors[slot] = row(values[slot]);
  }
  for (int round = 0; round < rounds; ++round) {
    const uint32_t to = draw(&state, SLOTS), from = draw(&state, SLOTS);
    torchacc_arg args[2] = {tensor_arg(tensors[to]), tensor_arg(tensors[from])};
    switch (draw(&state, 8)) {
      case 0:
      case 1: {
        torchacc_tensor* made;
        const uint32_t times = draw(&state, 2);
        OK(torchacc_apply(context, times ? mul : add, args, 2, &made, 1));
        torchacc_tensor_release(tensors[to]);
        tensors[to] = made;
        for (int i = 0; i < WIDTH; ++i)
          values[to][i] = times ? values[to][i] * values[from][i] : values[to][i] + values[from][i];
      } break;
      case 2:
        OK(torchacc_apply_into(context, add, args, 2, &tensors[to], 1));
        for (int i = 0; i < WIDTH; ++i) values[to][i] += values[from][i];
        break;
      case 3:
        args[1] = tensor_arg(shared);
        OK(torchacc_apply_into(context, add, args, 2, &tensors[to], 1));
        for (int i = 0; i < WIDTH; ++i) values[to][i] += (float)i;
        break;
      case 4:
        args[0] = tensor_arg(total);
        args[1] = tensor_arg(one);
        OK(torchacc_apply_into(context, add, args, 2, &total, 1));
        __atomic_add_fetch(&added, 1, __ATOMIC_ACQ_REL);
        break;
      case 5:
        check_row(tensors[to], values[to]);
        break;
      case 6:
        ask(tensors[to], values[to]);
        break;
      case 7:
        if (draw(&state, 4) == 0) OK(torchacc_cut(context));
    }
    for (int i = 0; i < WIDTH; ++i) {
      if (values[to][i] > -1e5f && values[to][i] < 1e5f) continue;
      for (int k = 0; k < WIDTH; ++k) values[to][k] = (float)k;
      OK(torchacc_tensor_write(tensors[to], values[to], sizeof values[to]));
      break;
    }
  }
  for (int slot = 0; slot < SLOTS; ++slot) {
    check_row(tensors[slot], values[slot]);
    torchacc_tensor_release(tensors[slot]);
  }
  torchacc_tensor_release(one);
  __atomic_sub_fetch(&running, 1, __ATOMIC_ACQ_REL);
  return NULL;
}

/* Reports, timelines, errors, other contexts, and handles that come and go. */
static void* look_on(void* unused) {
  (void)unused;
  while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
    torchacc_string* text;
    torchacc_cache_stats stats = {.struct_size = sizeof stats};
    OK(torchacc_profile_start(context));
    OK(torchacc_explain(context, &text));
    torchacc_string_free(text);
    OK(torchacc_metrics(context, &text));
    torchacc_string_free(text);
    OK(torchacc_context_cache_stats(context, &stats));
    FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_cut((torchacc_context*)shared));
    torchacc_tensor_release(torchacc_tensor_retain(shared));
    torchacc_context_release(torchacc_context_retain(context));
    torchacc_context* other;
    OK(torchacc_context_new(NULL, &other));
    torchacc_context_release(other);
    float sum[WIDTH];
    OK(torchacc_tensor_read(total, sum, sizeof sum));
    for (int i = 1; i < WIDTH; ++i) EXPECT(sum[i] == sum[0]);
    OK(torchacc_sync(context));
    OK(torchacc_profile_stop(context, &text));
    torchacc_string_free(text);
  }
  return NULL;
}

int main(int count, char** arguments) {
  rounds = count > 1 ? atoi(arguments[1]) : 300;
  OK(torchacc_context_new(NULL, &context));
  add = op("add");
  mul = op("mul");
  float data[WIDTH];
  for (int i = 0; i < WIDTH; ++i) data[i] = (float)i;
  shared = row(data);
  memset(data, 0, sizeof data);
  total = row(data);
  pthread_t threads[WORKERS + 1];
  for (int i = 0; i < WORKERS; ++i)
    EXPECT(pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)(i + 1)) == 0);
  EXPECT(pthread_create(&threads[WORKERS], NULL, look_on, NULL) == 0);
  for (int i = 0; i <= WORKERS; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < WIDTH; ++i) data[i] = (float)added;
  check_row(total, data);
  torchacc_tensor_release(shared);
  torchacc_tensor_release(total);
  torchacc_context_release(context);
  const struct timespec moment = {.tv_nsec = 1000000};
  for (int i = 0; i < 60000 && __atomic_load_n(&answered, __ATOMIC_ACQUIRE) < asked; ++i)
    nanosleep(&moment, NULL);
  EXPECT(added > 0 && __atomic_load_n(&answered, __ATOMIC_ACQUIRE) == asked);
  puts("ok");
  return 0;
}
