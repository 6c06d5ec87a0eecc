/* Three ranks in one process, each a thread with a context of its own, which reduce and exchange
 * tensors by callbacks. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"

enum { RANKS = 3, ROWS = 6, COLUMNS = 4, STEPS = 20 };

typedef struct {
  int rank, calls, drops;
  uint64_t place;
  torchacc_context* context;
} Rank;

static pthread_barrier_t meeting;
static const torchacc_host_tensor* inputs[RANKS];

static int64_t count_of(const torchacc_host_tensor* tensor) {
  int64_t count = 1;
  for (uint32_t d = 0; d < tensor->rank; ++d) count *= tensor->sizes[d];
  return count;
}

/* Shows the others what this rank has; they keep it until all have met again. */
static void show(const Rank* rank, const torchacc_host_tensor* in) {
  inputs[rank->rank] = in;
  pthread_barrier_wait(&meeting);
}

static void done(Rank* rank) {
  ++rank->calls;
  pthread_barrier_wait(&meeting);
}

static float of(int rank, int64_t index) { return ((const float*)inputs[rank]->data)[index]; }

static float reduced(int64_t how, int64_t index) {
  float all = of(0, index);
  for (int r = 1; r < RANKS; ++r) {
    const float x = of(r, index);
    if (how == TORCHACC_REDUCE_MAX) {
      all = x > all ? x : all;
    } else {
      all += x;
    }
  }
  return how == TORCHACC_REDUCE_AVG ? all / RANKS : all;
}

static torchacc_error* all_reduce(void* user, int64_t how, const torchacc_host_tensor* in,
                                  const torchacc_host_tensor* out) {
  if (in->dtype != TORCHACC_F32)
    return torchacc_error_new(TORCHACC_OPERATOR_ERROR, str("floats only"));
  show(user, in);
  for (int64_t i = 0; i < count_of(out); ++i) ((float*)out->data)[i] = reduced(how, i);
  done(user);
  return NULL;
}

static torchacc_error* all_gather(void* user, int64_t how, const torchacc_host_tensor* in,
                                  const torchacc_host_tensor* out) {
  EXPECT(how == 0 && out->sizes[0] == RANKS * in->sizes[0]);
  show(user, in);
  const int64_t each = count_of(in);
  for (int64_t i = 0; i < count_of(out); ++i)
    ((float*)out->data)[i] = of((int)(i / each), i % each);
  done(user);
  return NULL;
}

static torchacc_error* reduce_scatter(void* user, int64_t how, const torchacc_host_tensor* in,
                                      const torchacc_host_tensor* out) {
  const Rank* rank = user;
  show(rank, in);
  const int64_t each = count_of(out);
  for (int64_t i = 0; i < each; ++i) ((float*)out->data)[i] = reduced(how, rank->rank * each + i);
  done(user);
  return NULL;
}

static torchacc_error* broadcast(void* user, int64_t root, const torchacc_host_tensor* in,
                                 const torchacc_host_tensor* out) {
  show(user, in);
  for (int64_t i = 0; i < count_of(out); ++i) ((float*)out->data)[i] = of((int)root, i);
  done(user);
  return NULL;
}

static void dropped(void* user) { ++((Rank*)user)->drops; }

static uint64_t here(void* user) { return ((Rank*)user)->place; }

static torchacc_arg world(void) { return text_arg(TORCHACC_ARG_COMMUNICATOR, "world"); }

static torchacc_tensor* collective(const Rank* rank, const char* name, const torchacc_tensor* x,
                                   const torchacc_arg* how) {
  torchacc_arg args[3] = {tensor_arg(x), how ? *how : world(), world()};
  torchacc_tensor* made;
  OK(torchacc_apply(rank->context, op(name), args, how ? 3 : 2, &made, 1));
  return made;
}

/* What rank `r` has in step `step`. */
static float number(int r, int step, int64_t index) {
  return (float)(r + 1) * (float)(index + step);
}

static void expect(torchacc_tensor* tensor, int64_t rows, const float* wanted) {
  float got[RANKS * ROWS * COLUMNS];
  EXPECT(torchacc_tensor_sizes(tensor)[0] == rows);
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  for (int64_t i = 0; i < rows * COLUMNS; ++i) EXPECT(got[i] == wanted[i]);
  torchacc_tensor_release(tensor);
}

static void one_step(Rank* rank, int step) {
  enum { COUNT = ROWS * COLUMNS, PART = COUNT / RANKS };
  float data[COUNT], sums[COUNT], averages[COUNT], all[RANKS * COUNT];
  for (int64_t i = 0; i < COUNT; ++i) {
    data[i] = number(rank->rank, step, i);
    sums[i] = averages[i] = 0;
    for (int r = 0; r < RANKS; ++r) sums[i] += number(r, step, i);
    averages[i] = sums[i] / RANKS;
    for (int r = 0; r < RANKS; ++r) all[r * COUNT + i] = number(r, step, i);
  }
  torchacc_tensor *x = floats(rank->context, data, ROWS, COLUMNS), *doubled;
  const torchacc_arg average = text_arg(TORCHACC_ARG_STR, "avg"),
                     none = {TORCHACC_ARG_NONE, 0, {0}};
  const torchacc_arg root = {TORCHACC_ARG_INT, 0, {.i = 1}};
  torchacc_tensor* summed = collective(rank, "torchacc::all_reduce", x, &none);
  torchacc_arg twice[2] = {tensor_arg(summed), tensor_arg(summed)};
  OK(torchacc_apply(rank->context, op("add"), twice, 2, &doubled, 1));
  torchacc_tensor* averaged = collective(rank, "torchacc::all_reduce", x, &average);
  torchacc_tensor* gathered = collective(rank, "torchacc::all_gather", x, NULL);
  torchacc_tensor* part = collective(rank, "torchacc::reduce_scatter", x, &none);
  torchacc_tensor* sent = collective(rank, "torchacc::broadcast", x, &root);
  torchacc_tensor_release(x);
  /* Of two results only one rank wants to know; it is waited for all the same. */
  if (rank->rank == 0) {
    expect(averaged, ROWS, averages);
    expect(gathered, RANKS * ROWS, all);
  } else {
    torchacc_tensor_release(averaged);
    torchacc_tensor_release(gathered);
  }
  expect(summed, ROWS, sums);
  expect(part, ROWS / RANKS, sums + rank->rank * PART);
  expect(sent, ROWS, all + COUNT);
  for (int i = 0; i < COUNT; ++i) sums[i] *= 2;
  expect(doubled, ROWS, sums);
}

/* Mistakes are found when the operation is recorded, and what a callback says when it is read. */
static void mistakes(Rank* rank) {
  torchacc_context* context = rank->context;
  const float data[10] = {0};
  torchacc_tensor *x = floats(context, data, 5, 2), *out = NULL, *whole;
  torchacc_arg args[3] = {tensor_arg(x), {TORCHACC_ARG_NONE, 0, {0}}, world()};
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_apply(context, op("torchacc::reduce_scatter"), args, 3, &out, 1));
  args[1] = text_arg(TORCHACC_ARG_STR, "median");
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_apply(context, op("torchacc::all_reduce"), args, 3, &out, 1));
  args[1] = (torchacc_arg){TORCHACC_ARG_INT, 0, {.i = RANKS}};
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_apply(context, op("torchacc::broadcast"), args, 3, &out, 1));
  args[1] = text_arg(TORCHACC_ARG_COMMUNICATOR, "moon");
  FAILS(TORCHACC_NOT_FOUND, torchacc_apply(context, op("torchacc::all_gather"), args, 2, &out, 1));
  args[1] = world();
  torchacc_type type;
  OK(torchacc_infer(context, op("torchacc::all_gather"), args, 2, &type, 1));
  EXPECT(type.rank == 2 && type.sizes[0] == 5 * RANKS && type.dtype == TORCHACC_F32);
  EXPECT(out == NULL);

  /* It was registered without this one; and of integers the callback says no. */
  const int64_t sizes[1] = {RANKS};
  OK(torchacc_tensor_zeros(context, TORCHACC_I32, sizes, 1, &whole));
  args[0] = tensor_arg(whole);
  OK(torchacc_apply(context, op("torchacc::all_to_all"), args, 2, &out, 1));
  int32_t got[RANKS];
  FAILS(TORCHACC_UNSUPPORTED, torchacc_tensor_read(out, got, sizeof got));
  torchacc_tensor_release(out);
  args[1] = (torchacc_arg){TORCHACC_ARG_NONE, 0, {0}};
  OK(torchacc_apply(context, op("torchacc::all_reduce"), args, 3, &out, 1));
  torchacc_error* error = torchacc_tensor_read(out, got, sizeof got);
  EXPECT(torchacc_error_code(error) == TORCHACC_OPERATOR_ERROR &&
         torchacc_error_site(error) == rank->place);
  torchacc_error_free(error);
  torchacc_tensor_release(out);
  torchacc_tensor_release(whole);
  torchacc_tensor_release(x);
  OK(torchacc_sync(context));
}

static void* work(void* user) {
  Rank* rank = user;
  torchacc_options options = {.struct_size = sizeof options, .num_threads = 1};
  options.cache_folder = str("off");
  OK(torchacc_context_new(&options, &rank->context));
  OK(torchacc_context_set_locator(rank->context, here, rank, NULL));
  torchacc_communicator given = {.struct_size = sizeof given, .name = str("world")};
  given.rank = given.size = RANKS;
  given.user = rank;
  given.drop = dropped;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_communicator_register(rank->context, &given));
  given.rank = (uint32_t)rank->rank;
  given.all_reduce = all_reduce;
  given.all_gather = all_gather;
  given.reduce_scatter = reduce_scatter;
  given.broadcast = broadcast;
  OK(torchacc_communicator_register(rank->context, &given));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_communicator_register(rank->context, &given));
  EXPECT(rank->drops == 2);
  for (int step = 0; step < STEPS; ++step) one_step(rank, step);
  EXPECT(rank->calls == 5 * STEPS);
  mistakes(rank);
  /* The ranks agree again, and a step that comes again was compiled once, as were its parts. */
  one_step(rank, STEPS);
  EXPECT(metric(rank->context, "\"compiles\"") <= 12);
  torchacc_context_release(rank->context);
  EXPECT(rank->drops == 3);
  return NULL;
}

int main(void) {
  pthread_t threads[RANKS];
  Rank ranks[RANKS];
  EXPECT(pthread_barrier_init(&meeting, NULL, RANKS) == 0);
  for (int r = 0; r < RANKS; ++r) {
    ranks[r] = (Rank){.rank = r, .place = 100 + (uint64_t)r};
    EXPECT(pthread_create(&threads[r], NULL, work, &ranks[r]) == 0);
  }
  for (int r = 0; r < RANKS; ++r) EXPECT(pthread_join(threads[r], NULL) == 0);
  pthread_barrier_destroy(&meeting);
  puts("ok");
  return 0;
}
