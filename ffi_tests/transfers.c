/* Three ranks in one process, each a thread with a context of its own, that send one another what
 * they have, in parts of several sizes, and take their communicator back. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"

enum { RANKS = 3, COUNT = 4, STEPS = 10 };

typedef struct Message {
  struct Message* next;
  int64_t from, to, tag;
  size_t nbytes;
  char bytes[];
} Message;

typedef struct {
  int rank, drops;
  torchacc_context* context;
} Rank;

/* All messages that nobody has received yet, in the order in which they were sent. */
static Message* sent;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static size_t nbytes_of(const torchacc_host_tensor* tensor) {
  size_t nbytes = sizeof(float);
  for (uint32_t d = 0; d < tensor->rank; ++d) nbytes *= (size_t)tensor->sizes[d];
  return nbytes;
}

static void post(int64_t from, int64_t to, int64_t tag, const void* data, size_t nbytes) {
  Message* message = malloc(sizeof *message + nbytes);
  *message = (Message){NULL, from, to, tag, nbytes};
  memcpy(message->bytes, data, nbytes);
  pthread_mutex_lock(&lock);
  Message** end = &sent;
  while (*end) end = &(*end)->next;
  *end = message;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static void take(int64_t from, int64_t to, int64_t tag, void* data, size_t nbytes) {
  pthread_mutex_lock(&lock);
  for (;;) {
    Message** at = &sent;
    while (*at && ((*at)->from != from || (*at)->to != to || (*at)->tag != tag)) at = &(*at)->next;
    if (*at) {
      Message* found = *at;
      *at = found->next;
      EXPECT(found->nbytes == nbytes);
      memcpy(data, found->bytes, nbytes);
      free(found);
      break;
    }
    pthread_cond_wait(&changed, &lock);
  }
  pthread_mutex_unlock(&lock);
}

static torchacc_error* send_to(void* user, const int64_t* numbers, size_t n_numbers,
                               const torchacc_host_tensor* in, const torchacc_host_tensor* out) {
  EXPECT(n_numbers == 2 && out->data == NULL);
  post(((Rank*)user)->rank, numbers[0], numbers[1], in->data, nbytes_of(in));
  return NULL;
}

static torchacc_error* receive(void* user, const int64_t* numbers, size_t n_numbers,
                               const torchacc_host_tensor* in, const torchacc_host_tensor* out) {
  EXPECT(n_numbers == 2 && in->data == NULL);
  take(numbers[0], ((Rank*)user)->rank, numbers[1], out->data, nbytes_of(out));
  return NULL;
}

static torchacc_error* reduce(void* user, const int64_t* numbers, size_t n_numbers,
                              const torchacc_host_tensor* in, const torchacc_host_tensor* out) {
  const Rank* rank = user;
  EXPECT(n_numbers == 2 && numbers[0] == TORCHACC_REDUCE_SUM);
  memcpy(out->data, in->data, nbytes_of(in));
  if (rank->rank != numbers[1]) {
    post(rank->rank, numbers[1], -1, in->data, nbytes_of(in));
    return NULL;
  }
  float other[COUNT];
  for (int from = 0; from < RANKS; ++from) {
    if (from == rank->rank) continue;
    take(from, rank->rank, -1, other, nbytes_of(in));
    for (int i = 0; i < COUNT; ++i) ((float*)out->data)[i] += other[i];
  }
  return NULL;
}

static torchacc_error* exchange(void* user, const int64_t* numbers, size_t n_numbers,
                                const torchacc_host_tensor* in, const torchacc_host_tensor* out) {
  const Rank* rank = user;
  EXPECT(n_numbers == 2 * RANKS);
  const float* from = in->data;
  float* to = out->data;
  for (int other = 0; other < RANKS; from += numbers[other++])
    post(rank->rank, other, -2, from, (size_t)numbers[other] * sizeof(float));
  for (int other = 0; other < RANKS; to += numbers[RANKS + other++])
    take(other, rank->rank, -2, to, (size_t)numbers[RANKS + other] * sizeof(float));
  return NULL;
}

static void dropped(void* user) { ++((Rank*)user)->drops; }

static torchacc_arg world(void) { return text_arg(TORCHACC_ARG_COMMUNICATOR, "world"); }

static torchacc_arg number(int64_t i) { return (torchacc_arg){TORCHACC_ARG_INT, 0, {.i = i}}; }

static torchacc_arg list(const int64_t* values, uint32_t count) {
  return (torchacc_arg){TORCHACC_ARG_INTS, count, {.p = values}};
}

static void expect(torchacc_tensor* tensor, int count, const float* wanted) {
  float got[RANKS * COUNT];
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  for (int i = 0; i < count; ++i) EXPECT(got[i] == wanted[i]);
  torchacc_tensor_release(tensor);
}

/* Every rank receives from the one before it, and then sends to the one after it: so a send comes
 * first, and must not wait. */
static void one_step(Rank* rank, int step) {
  torchacc_context* context = rank->context;
  const int right = (rank->rank + 1) % RANKS, left = (rank->rank + RANKS - 1) % RANKS;
  float data[COUNT], wanted[RANKS * COUNT];
  for (int i = 0; i < COUNT; ++i) data[i] = (float)(100 * rank->rank + 10 * step + i);
  torchacc_tensor *x = floats(context, data, COUNT, 1), *came, *all, *parts;
  torchacc_arg sends[4] = {tensor_arg(x), number(right), number(5), world()};
  OK(torchacc_apply(context, op("torchacc::send"), sends, 4, &came, 0));
  const int64_t sizes[2] = {2, COUNT / 2};
  const torchacc_arg type = {TORCHACC_ARG_DTYPE, 0, {.i = TORCHACC_F32}};
  torchacc_arg receives[5] = {list(sizes, 2), type, number(left), number(5), world()};
  OK(torchacc_apply(context, op("torchacc::receive"), receives, 5, &came, 1));
  const torchacc_arg none = {TORCHACC_ARG_NONE, 0, {0}};
  torchacc_arg reduces[4] = {tensor_arg(x), none, number(1), world()};
  OK(torchacc_apply(context, op("torchacc::reduce"), reduces, 4, &all, 1));
  /* Rank r has r, one and the rest for the others, of its four rows. */
  int64_t there[RANKS] = {rank->rank, 1, COUNT - 1 - rank->rank}, back[RANKS];
  int total = 0;
  for (int r = 0; r < RANKS; ++r) {
    const int64_t counts[RANKS] = {r, 1, COUNT - 1 - r}, starts[RANKS] = {0, r, r + 1};
    back[r] = counts[rank->rank];
    for (int i = 0; i < back[r]; ++i)
      wanted[total++] = (float)(100 * r + 10 * step + starts[rank->rank] + i);
  }
  torchacc_arg exchanges[4] = {tensor_arg(x), list(there, RANKS), list(back, RANKS), world()};
  OK(torchacc_apply(context, op("torchacc::all_to_all_v"), exchanges, 4, &parts, 1));
  torchacc_tensor_release(x);
  expect(parts, total, wanted);
  for (int i = 0; i < COUNT; ++i) wanted[i] = (float)(100 * left + 10 * step + i);
  expect(came, COUNT, wanted);
  for (int i = 0; i < COUNT; ++i)
    wanted[i] = rank->rank == 1 ? (float)(300 + 3 * (10 * step + i)) : data[i];
  expect(all, COUNT, wanted);
}

static void mistakes(torchacc_context* context) {
  const float data[COUNT] = {0};
  const int64_t rows[RANKS] = {1, 1, 1};
  torchacc_tensor *x = floats(context, data, COUNT, 1), *out;
  torchacc_arg args[4] = {tensor_arg(x), number(RANKS), number(0), world()};
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, op("torchacc::send"), args, 4, &out, 0));
  args[1] = list(rows, RANKS);
  args[2] = list(rows, RANKS);
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_apply(context, op("torchacc::all_to_all_v"), args, 4, &out, 1));
  torchacc_tensor_release(x);
}

/* What was recorded when its communicator was unregistered fails, and is no CPU fallback. */
static void left_behind(Rank* rank) {
  torchacc_context* context = rank->context;
  const float data[COUNT] = {0};
  torchacc_tensor *x = floats(context, data, COUNT, 1), *all;
  const torchacc_arg none = {TORCHACC_ARG_NONE, 0, {0}};
  torchacc_arg reduces[4] = {tensor_arg(x), none, number(1), world()};
  OK(torchacc_apply(context, op("torchacc::reduce"), reduces, 4, &all, 1));
  OK(torchacc_communicator_unregister(context, str("world")));
  float got[COUNT];
  FAILS_SAYING(TORCHACC_INVALID_ARGUMENT, "not registered",
               torchacc_tensor_read(all, got, sizeof got));
  EXPECT(metric(context, "\"host_calls\"") == 0);
  torchacc_string* said;
  OK(torchacc_explain(context, &said));
  torchacc_str text = torchacc_string_view(said);
  EXPECT(strstr(text.data, "\"state\": \"failed\"") && !strstr(text.data, "\"running\""));
  torchacc_string_free(said);
  torchacc_tensor_release(all);
  torchacc_tensor_release(x);
}

static void* work(void* user) {
  Rank* rank = user;
  torchacc_options options = {.struct_size = sizeof options, .num_threads = 1};
  options.cache_folder = str("off");
  OK(torchacc_context_new(&options, &rank->context));
  torchacc_communicator given = {.struct_size = sizeof given, .name = str("world")};
  given.rank = (uint32_t)rank->rank;
  given.size = RANKS;
  given.user = rank;
  given.drop = dropped;
  given.send = send_to;
  given.receive = receive;
  given.reduce = reduce;
  given.all_to_all_v = exchange;
  OK(torchacc_communicator_register(rank->context, &given));
  for (int step = 0; step < STEPS; ++step) one_step(rank, step);
  EXPECT(metric(rank->context, "\"collectives\"") == 4 * STEPS);
  EXPECT(metric(rank->context, "\"host_calls\"") == 0);
  mistakes(rank->context);
  OK(torchacc_sync(rank->context));
  left_behind(rank);
  EXPECT(rank->drops == 1);
  FAILS(TORCHACC_NOT_FOUND, torchacc_communicator_unregister(rank->context, str("world")));
  torchacc_context_release(rank->context);
  return NULL;
}

int main(void) {
  pthread_t threads[RANKS];
  Rank ranks[RANKS];
  for (int r = 0; r < RANKS; ++r) {
    ranks[r] = (Rank){.rank = r};
    EXPECT(pthread_create(&threads[r], NULL, work, &ranks[r]) == 0);
  }
  for (int r = 0; r < RANKS; ++r) EXPECT(pthread_join(threads[r], NULL) == 0);
  EXPECT(sent == NULL);
  puts("ok");
  return 0;
}
