/* Trains a small network data-parallel in several processes: every rank has its rows of each batch,
 * and a communicator made of TCP sockets averages their gradients. Plain C11 and POSIX against
 * include/torchacc.h; `make example-ranks` builds and runs it.
 *
 *     train_ranks [ranks] [steps] [rank]
 *
 * The rank named last is killed halfway, to see what becomes of the others. At the end the ranks
 * must agree bit by bit, and have lost what one process loses that trains on the whole batches.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torchacc.h"

enum { MOST_RANKS = 64, TIMEOUT_SECONDS = 30 };
enum { FEATURES = 8, HIDDEN = 32, ROWS = 16, WARM = 5, EVERY = 20, MOST_TEMPORARIES = 32 };

/* The parameters. */
enum { UP, UP_BIAS, DOWN, DOWN_BIAS, PARAMS };

/* All gradients, and the loss. */
enum { COLLECTIVES = PARAMS + 1 };

/* The number of this process, for messages; -1 in the one that starts the others. */
static int this_rank = -1;

static void fail(const char* what) {
  char who[32] = "";
  if (this_rank >= 0) snprintf(who, sizeof who, "rank %d: ", this_rank);
  /* At once, since the ranks share the error stream. */
  fprintf(stderr, "%s%s\n", who, what);
  exit(1);
}

static void ok(torchacc_error* error) {
  if (!error) return;
  char text[1024];
  torchacc_str message = torchacc_error_message(error);
  snprintf(text, sizeof text, "%.*s", (int)message.len, message.data);
  fail(text);
}

/* For calls of the system. */
static int done(int result, const char* what) {
  if (result >= 0) return result;
  char text[256];
  snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
  fail(text);
  return result;
}

static torchacc_str str(const char* text) {
  torchacc_str made = {text, strlen(text)};
  return made;
}

/* ---- the communicator: a ring, in which each rank sends to the right and receives from the left
 */

typedef struct {
  int rank, size;
  /* Sockets. */
  int left, right;
} ring;

static int rank_right(const ring* r) { return (r->rank + 1) % r->size; }

static int rank_left(const ring* r) { return (r->rank + r->size - 1) % r->size; }

static void set_options(int socket) {
  int on = 1;
  /* A part of a sum is small, and the next rank waits for it. */
  done(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setsockopt");
  done(fcntl(socket, F_SETFL, O_NONBLOCK), "fcntl");
}

/* A socket that listens at an address of its own, whose port the system chooses. */
static int listener_new(struct sockaddr_in* address) {
  socklen_t length = sizeof *address;
  memset(address, 0, sizeof *address);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int listener = done(socket(AF_INET, SOCK_STREAM, 0), "socket");
  done(bind(listener, (struct sockaddr*)address, sizeof *address), "bind");
  done(listen(listener, 1), "listen");
  done(getsockname(listener, (struct sockaddr*)address, &length), "getsockname");
  return listener;
}

/* All listen already, so nobody has to try again, and accepting may come after connecting. */
static ring* ring_new(int rank, int size, const int* listeners,
                      const struct sockaddr_in* addresses) {
  ring* r = malloc(sizeof *r);
  if (!r) abort();
  r->rank = rank;
  r->size = size;
  for (int other = 0; other < size; ++other)
    if (other != rank) close(listeners[other]);
  const struct sockaddr* address = (const struct sockaddr*)&addresses[rank_right(r)];
  r->right = done(socket(AF_INET, SOCK_STREAM, 0), "socket");
  done(connect(r->right, address, sizeof *addresses), "connect");
  struct pollfd comes = {listeners[rank], POLLIN, 0};
  if (done(poll(&comes, 1, 1000 * TIMEOUT_SECONDS), "poll") == 0) fail("nobody connects");
  r->left = done(accept(listeners[rank], NULL, NULL), "accept");
  close(listeners[rank]);
  set_options(r->left);
  set_options(r->right);
  return r;
}

static void ring_free(void* user) {
  ring* r = user;
  close(r->left);
  close(r->right);
  free(r);
}

/* The error of a connection, by `errno`, where 0 is its end. The rank leaves the ring: so the
 * others have an error at once, and nobody takes what comes later for the rest of this collective.
 */
static torchacc_error* lost(const ring* r, int other) {
  char text[256];
  if (errno == 0 || errno == EPIPE || errno == ECONNRESET) {
    snprintf(text, sizeof text, "rank %d has closed its connection", other);
  } else if (errno == ETIMEDOUT) {
    snprintf(text, sizeof text, "rank %d has not come for %d seconds", other, TIMEOUT_SECONDS);
  } else {
    snprintf(text, sizeof text, "the connection to rank %d: %s", other, strerror(errno));
  }
  shutdown(r->left, SHUT_RDWR);
  shutdown(r->right, SHUT_RDWR);
  return torchacc_error_new(TORCHACC_OPERATOR_ERROR, str(text));
}

/* To be tried again. */
static bool is_interrupted(void) {
  return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
}

/* Sends and receives at the same time: if all ranks sent first, they would wait for one another as
 * soon as the system's buffers are full. */
static torchacc_error* exchange(const ring* r, const void* out, size_t out_bytes, void* in,
                                size_t in_bytes) {
  const char* from = out;
  char* to = in;
  while (out_bytes > 0 || in_bytes > 0) {
    /* Negative ones are not looked at. */
    struct pollfd ready[2] = {{out_bytes > 0 ? r->right : -1, POLLOUT, 0},
                              {in_bytes > 0 ? r->left : -1, POLLIN, 0}};
    int count = poll(ready, 2, 1000 * TIMEOUT_SECONDS);
    if (count < 0 && is_interrupted()) continue;
    if (count == 0) errno = ETIMEDOUT;
    if (count <= 0) return lost(r, in_bytes > 0 ? rank_left(r) : rank_right(r));
    if (ready[0].revents) {
      /* A rank that is gone is an error here, not the signal SIGPIPE. */
      ssize_t sent = send(r->right, from, out_bytes, MSG_NOSIGNAL);
      if (sent < 0 && !is_interrupted()) return lost(r, rank_right(r));
      if (sent > 0) {
        from += sent;
        out_bytes -= (size_t)sent;
      }
    }
    if (ready[1].revents) {
      ssize_t received = recv(r->left, to, in_bytes, 0);
      if (received == 0) errno = 0;
      if (received == 0 || (received < 0 && !is_interrupted())) return lost(r, rank_left(r));
      if (received > 0) {
        to += received;
        in_bytes -= (size_t)received;
      }
    }
  }
  return NULL;
}

/* How many elements there are; UNSUPPORTED for others than floats. */
static torchacc_error* count_of(const torchacc_host_tensor* x, size_t* count) {
  *count = 1;
  for (uint32_t d = 0; d < x->rank; ++d) *count *= (size_t)x->sizes[d];
  if (x->dtype == TORCHACC_F32) return NULL;
  return torchacc_error_new(TORCHACC_UNSUPPORTED, str("the ring is for f32 only"));
}

/* Where one of `size` parts of an array begins; they differ by an element at most. */
static size_t start_of(const ring* r, int part, size_t count) {
  return count * (size_t)part / (size_t)r->size;
}

/* Sends a part of one array, and receives the part before it into another one. */
static torchacc_error* pass(const ring* r, int part, const float* out, float* in, size_t count) {
  int before = (part + r->size - 1) % r->size;
  size_t from = start_of(r, part, count), from_end = start_of(r, part + 1, count);
  size_t to = start_of(r, before, count), to_end = start_of(r, before + 1, count);
  return exchange(r, out + from, (from_end - from) * sizeof *out, in + to,
                  (to_end - to) * sizeof *in);
}

/* An all-gather in place: every rank has its own part of `data`, and gets the others'. */
static torchacc_error* gather_parts(const ring* r, float* data, size_t count) {
  for (int n = 0; n < r->size - 1; ++n) {
    torchacc_error* error = pass(r, (r->rank + r->size - n) % r->size, data, data, count);
    if (error) return error;
  }
  return NULL;
}

/* A reduce-scatter, after which every rank has the sum of its own part, and an all-gather of these.
 * One rank makes each sum, so its bits are the same everywhere. */
static torchacc_error* all_reduce(void* user, int64_t how, const torchacc_host_tensor* input,
                                  const torchacc_host_tensor* output) {
  const ring* r = user;
  const float* in = input->data;
  float* out = output->data;
  size_t count;
  torchacc_error* error = count_of(input, &count);
  if (error) return error;
  if (how != TORCHACC_REDUCE_SUM && how != TORCHACC_REDUCE_AVG)
    return torchacc_error_new(TORCHACC_UNSUPPORTED, str("the ring has sums and averages only"));
  if (r->size == 1) memcpy(out, in, count * sizeof *out);
  for (int n = 1; n < r->size; ++n) {
    int part = (r->rank + r->size - n) % r->size, before = (part + r->size - 1) % r->size;
    error = pass(r, part, n == 1 ? in : out, out, count);
    if (error) return error;
    for (size_t i = start_of(r, before, count); i < start_of(r, before + 1, count); ++i)
      out[i] += in[i];
  }
  if (how == TORCHACC_REDUCE_AVG)
    for (size_t i = start_of(r, r->rank, count); i < start_of(r, r->rank + 1, count); ++i)
      out[i] /= (float)r->size;
  return gather_parts(r, out, count);
}

static torchacc_error* all_gather(void* user, int64_t how, const torchacc_host_tensor* input,
                                  const torchacc_host_tensor* output) {
  (void)how;
  const ring* r = user;
  float* out = output->data;
  size_t count;
  torchacc_error* error = count_of(input, &count);
  if (error) return error;
  memcpy(out + (size_t)r->rank * count, input->data, count * sizeof *out);
  return gather_parts(r, out, count * (size_t)r->size);
}

/* From the root around the ring, up to the rank on its left. */
static torchacc_error* broadcast(void* user, int64_t root, const torchacc_host_tensor* input,
                                 const torchacc_host_tensor* output) {
  const ring* r = user;
  size_t count;
  torchacc_error* error = count_of(input, &count);
  if (error) return error;
  size_t bytes = count * sizeof(float);
  if (r->rank == root) {
    memcpy(output->data, input->data, bytes);
  } else {
    error = exchange(r, NULL, 0, output->data, bytes);
  }
  if (error || rank_right(r) == root) return error;
  return exchange(r, output->data, bytes, NULL, 0);
}

static void ring_register(ring* r, torchacc_context* context, const char* name) {
  torchacc_communicator given = {.struct_size = sizeof given,
                                 .name = str(name),
                                 .rank = (uint32_t)r->rank,
                                 .size = (uint32_t)r->size,
                                 .all_reduce = all_reduce,
                                 .all_gather = all_gather,
                                 .broadcast = broadcast,
                                 .user = r,
                                 .drop = ring_free};
  ok(torchacc_communicator_register(context, &given));
}

/* ---- operations */

typedef struct {
  torchacc_context* context;
  /* The name of the communicator; NULL for a process that trains alone. */
  const char* ranks;
  torchacc_tensor* params[PARAMS];
  /* Results of a step: released at its end. */
  torchacc_tensor* temporaries[MOST_TEMPORARIES];
  int count;
  /* Of the generator of batches, which are the same for all. */
  uint64_t state;
} model;

static torchacc_arg tensor(const torchacc_tensor* value) {
  torchacc_arg arg = {TORCHACC_ARG_TENSOR, 0, {0}};
  arg.v.p = value;
  return arg;
}

static torchacc_arg tensors(torchacc_tensor* const* values, uint32_t n) {
  torchacc_arg arg = {TORCHACC_ARG_TENSORS, n, {0}};
  arg.v.p = values;
  return arg;
}

static torchacc_arg integer(int64_t value) {
  torchacc_arg arg = {TORCHACC_ARG_INT, 0, {0}};
  arg.v.i = value;
  return arg;
}

static torchacc_arg scalar(double value) {
  torchacc_arg arg = {TORCHACC_ARG_SCALAR_FLOAT, 0, {0}};
  arg.v.f = value;
  return arg;
}

static torchacc_arg text(torchacc_arg_kind kind, const char* value) {
  torchacc_arg arg = {kind, (uint32_t)strlen(value), {0}};
  arg.v.p = value;
  return arg;
}

static torchacc_op find(const char* name) {
  torchacc_op op;
  ok(torchacc_op_find(str(name), &op));
  return op;
}

static torchacc_tensor* keep(model* m, torchacc_tensor* value) {
  if (m->count == MOST_TEMPORARIES) abort();
  return m->temporaries[m->count++] = value;
}

static void release_temporaries(model* m) {
  while (m->count > 0) torchacc_tensor_release(m->temporaries[--m->count]);
}

static torchacc_tensor* apply(model* m, const char* name, const torchacc_arg* args, size_t n) {
  torchacc_tensor* result;
  ok(torchacc_apply(m->context, find(name), args, n, &result, 1));
  return keep(m, result);
}

static torchacc_tensor* linear(model* m, torchacc_tensor* x, int weight, int bias) {
  torchacc_arg args[] = {tensor(m->params[bias]), tensor(x), tensor(m->params[weight])};
  return apply(m, "aten::addmm", args, 3);
}

/* The mean square error on this process's rows. */
static torchacc_tensor* loss_of(model* m, torchacc_tensor* x, torchacc_tensor* y) {
  torchacc_arg hidden[] = {tensor(linear(m, x, UP, UP_BIAS))};
  torchacc_tensor* found = linear(m, apply(m, "aten::tanh", hidden, 1), DOWN, DOWN_BIAS);
  torchacc_arg args[] = {tensor(found), tensor(y)};
  return apply(m, "aten::mse_loss", args, 2);
}

static torchacc_tensor* averaged(model* m, torchacc_tensor* x) {
  if (!m->ranks) return x;
  torchacc_arg args[] = {tensor(x), text(TORCHACC_ARG_STR, "avg"),
                         text(TORCHACC_ARG_COMMUNICATOR, m->ranks)};
  return apply(m, "torchacc::all_reduce", args, 3);
}

/* ---- model and data */

/* From -1 to 1. */
static float noise(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(*state >> 40) / 8388608.0f - 1.0f;
}

static torchacc_tensor* floats(model* m, const float* data, int64_t rows, int64_t columns) {
  /* One row is a bias. */
  int64_t sizes[] = {rows, columns};
  int from = rows == 1;
  torchacc_tensor* made;
  ok(torchacc_tensor_from_host(m->context, TORCHACC_F32, sizes + from, 2 - (uint32_t)from, data,
                               (size_t)(rows * columns) * sizeof *data, &made));
  return made;
}

static const int64_t shapes[PARAMS][2] = {
    [UP] = {FEATURES, HIDDEN}, [UP_BIAS] = {1, HIDDEN}, [DOWN] = {HIDDEN, 1}, [DOWN_BIAS] = {1, 1}};

static model model_new(uint64_t seed) {
  model m = {.state = 1};
  /* The ranks share the processors. */
  torchacc_options options = {.struct_size = sizeof options, .num_threads = 1};
  ok(torchacc_context_new(&options, &m.context));
  for (int i = 0; i < PARAMS; ++i) {
    float data[FEATURES * HIDDEN];
    int64_t rows = shapes[i][0], columns = shapes[i][1];
    for (int64_t n = 0; n < rows * columns; ++n)
      data[n] = noise(&seed) / sqrtf((float)(rows == 1 ? columns : rows));
    m.params[i] = floats(&m, data, rows, columns);
  }
  return m;
}

static void model_free(model* m) {
  for (int i = 0; i < PARAMS; ++i) torchacc_tensor_release(m->params[i]);
  torchacc_context_release(m->context);
}

/* What rank 0 began with. */
static void share_params(model* m) {
  for (int i = 0; i < PARAMS; ++i) {
    torchacc_arg args[] = {tensor(m->params[i]), integer(0),
                           text(TORCHACC_ARG_COMMUNICATOR, m->ranks)};
    torchacc_tensor* shared;
    ok(torchacc_apply(m->context, find("torchacc::broadcast"), args, 3, &shared, 1));
    torchacc_tensor_release(m->params[i]);
    m->params[i] = shared;
  }
  ok(torchacc_cut(m->context));
}

/* Records and runs a step on `rows` rows of the next batch, which has `all`. Returns the loss,
 * which the caller releases. */
static torchacc_tensor* train(model* m, int first, int rows, int all) {
  float x[MOST_RANKS * ROWS * FEATURES], y[MOST_RANKS * ROWS];
  for (int row = 0; row < all; ++row) {
    float* features = x + row * FEATURES;
    for (int i = 0; i < FEATURES; ++i) features[i] = noise(&m->state);
    y[row] = sinf(2.0f * features[0]) + features[1] * features[2];
  }
  torchacc_tensor* inputs = keep(m, floats(m, x + first * FEATURES, rows, FEATURES));
  torchacc_tensor* loss = loss_of(m, inputs, keep(m, floats(m, y + first, rows, 1)));
  torchacc_tensor *grads[PARAMS], *means[PARAMS];
  ok(torchacc_grad(m->context, loss, m->params, PARAMS, grads));
  for (int i = 0; i < PARAMS; ++i) means[i] = averaged(m, keep(m, grads[i]));
  loss = averaged(m, loss);
  /* Without momentum. */
  torchacc_arg args[] = {tensors(m->params, PARAMS), tensors(means, PARAMS), tensors(NULL, 0),
                         scalar(0.1)};
  ok(torchacc_apply_into(m->context, find("torchacc::sgd"), args, 4, m->params, PARAMS));
  torchacc_tensor_retain(loss);
  release_temporaries(m);
  ok(torchacc_cut(m->context));
  return loss;
}

static float value_of(const torchacc_tensor* loss) {
  float value;
  ok(torchacc_tensor_read(loss, &value, sizeof value));
  return value;
}

/* ---- what must be true at the end */

/* A number of `torchacc_metrics`, which is flat JSON; the name in quotes. */
static long long metric(torchacc_context* context, const char* name) {
  torchacc_string* json;
  ok(torchacc_metrics(context, &json));
  torchacc_str all = torchacc_string_view(json);
  char copy[8192];
  snprintf(copy, sizeof copy, "%.*s", (int)all.len, all.data);
  const char* found = strstr(copy, name);
  if (!found) fail("a metric is missing");
  long long value = strtoll(found + strlen(name) + 1, NULL, 10);
  torchacc_string_free(json);
  return value;
}

/* Since the counters were reset. */
static void check_counters(const model* m, int steps) {
  long long compiles = metric(m->context, "\"compiles\""), hits, misses, collectives;
  hits = metric(m->context, "\"cache_hits\"");
  misses = metric(m->context, "\"cache_misses\"");
  collectives = metric(m->context, "\"collectives\"");
  if (this_rank == 0)
    printf("%d steps: %lld compiles, %lld cache hits, %lld misses, %lld collectives\n", steps,
           compiles, hits, misses, collectives);
  if (compiles != 0 || misses != 0 || hits != steps || collectives != COLLECTIVES * steps)
    fail("the steps did not run as one program from the cache each");
}

static void check_params(model* m, int size) {
  for (int i = 0; i < PARAMS; ++i) {
    float mine[FEATURES * HIDDEN], all[MOST_RANKS * FEATURES * HIDDEN];
    size_t count = (size_t)(shapes[i][0] * shapes[i][1]);
    torchacc_arg args[] = {tensor(m->params[i]), text(TORCHACC_ARG_COMMUNICATOR, m->ranks)};
    torchacc_tensor* gathered = apply(m, "torchacc::all_gather", args, 2);
    ok(torchacc_tensor_read(gathered, all, sizeof *all * count * (size_t)size));
    ok(torchacc_tensor_read(m->params[i], mine, sizeof *mine * count));
    for (int other = 0; other < size; ++other)
      if (memcmp(mine, all + (size_t)other * count, sizeof *mine * count) != 0)
        fail("the ranks have different parameters");
  }
  release_temporaries(m);
}

/* Trains alone on the whole batches, from the parameters that rank 0 began with. */
static void check_losses(const float* losses, int steps, int all) {
  model alone = model_new(1);
  double furthest = 0;
  bool is_far = false;
  for (int step = 0; step < steps; ++step) {
    torchacc_tensor* loss = train(&alone, 0, all, all);
    double wanted = value_of(loss), off = fabs(losses[step] - wanted) / wanted;
    if (off > furthest) furthest = off;
    /* Also if it is not a number. */
    if (!(off <= 1e-5)) is_far = true;
    torchacc_tensor_release(loss);
  }
  model_free(&alone);
  printf("losses of one process: within %.1e\n", furthest);
  if (is_far) fail("the losses are not those of one process");
  if (!(losses[steps - 1] < 0.5f * losses[0])) fail("the loss did not fall");
}

/* ---- processes */

static void train_rank(ring* r, int steps, int killed) {
  const int rank = r->rank, size = r->size;
  const uint64_t seed = (uint64_t)rank + 1;
  model m = model_new(seed);
  m.ranks = "ring";
  /* The ring is the library's from here on. */
  ring_register(r, m.context, m.ranks);
  share_params(&m);
  float* losses = malloc((size_t)steps * sizeof *losses);
  torchacc_tensor** pending = malloc((size_t)steps * sizeof(torchacc_tensor*));
  if (!losses || !pending) abort();
  for (int step = 0; step < steps; ++step) {
    if (step == WARM) {
      ok(torchacc_sync(m.context));
      torchacc_metrics_reset(m.context);
    }
    if (rank == killed && step == steps / 2) raise(SIGKILL);
    pending[step] = train(&m, rank * ROWS, ROWS, size * ROWS);
    /* Every rank reads, since a read is what says that another one is gone. */
    if (step % EVERY == 0) {
      float loss = value_of(pending[step]);
      if (rank == 0) printf("step %d loss %.4f\n", step, (double)loss);
    }
  }
  ok(torchacc_sync(m.context));
  check_counters(&m, steps - WARM);
  for (int step = 0; step < steps; ++step) {
    losses[step] = value_of(pending[step]);
    torchacc_tensor_release(pending[step]);
  }
  check_params(&m, size);
  model_free(&m);
  if (rank == 0) check_losses(losses, steps, size * ROWS);
  free(pending);
  free(losses);
}

/* Whether the process has ended well; says how it ended otherwise. */
static bool is_well(int rank, pid_t process) {
  int status;
  done(waitpid(process, &status, 0), "waitpid");
  if (WIFSIGNALED(status)) fprintf(stderr, "rank %d: signal %d\n", rank, WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char** argv) {
  int size = argc > 1 ? atoi(argv[1]) : 3, steps = argc > 2 ? atoi(argv[2]) : 200;
  int killed = argc > 3 ? atoi(argv[3]) : -1;
  if (size < 1 || size > MOST_RANKS || steps < 50) {
    fprintf(stderr, "usage: %s [ranks, at most %d] [steps, at least 50] [rank to be killed]\n",
            argv[0], MOST_RANKS);
    return 2;
  }
  int listeners[MOST_RANKS];
  struct sockaddr_in addresses[MOST_RANKS];
  pid_t processes[MOST_RANKS];
  for (int rank = 0; rank < size; ++rank) listeners[rank] = listener_new(&addresses[rank]);
  /* Before the library is used, whose threads are not copied. */
  for (int rank = 0; rank < size; ++rank) {
    processes[rank] = done(fork(), "fork");
    if (processes[rank] == 0) {
      this_rank = rank;
      train_rank(ring_new(rank, size, listeners, addresses), steps, killed);
      return 0;
    }
  }
  for (int rank = 0; rank < size; ++rank) close(listeners[rank]);
  bool all_well = true;
  for (int rank = 0; rank < size; ++rank)
    if (!is_well(rank, processes[rank])) all_well = false;
  return all_well ? 0 : 1;
}
