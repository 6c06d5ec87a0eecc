/* Trains a byte-level language model on a text file: a transformer block between an embedding and a
 * projection, cross entropy, AdamW. Plain C11 against include/torchacc.h; `make example-c
 * TEXT=some.txt` builds and runs it.
 *
 *     language_model FILE [steps] [width]
 *
 * A step records the forward pass, its gradients and the update, and cuts: the first two are
 * compiled, the others compared with them and run.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "torchacc.h"

enum { BATCH = 8, TIME = 32, TOKENS = BATCH * TIME, HEADS = 4, BYTES = 256, MOST_TEMPORARIES = 64 };

/* The parameters, in the order of `shapes`. */
enum {
  EMBED,
  PLACE,
  NORM1,
  SHIFT1,
  QUERY,
  KEY,
  VALUE,
  OUT,
  NORM2,
  SHIFT2,
  UP,
  UP_BIAS,
  DOWN,
  DOWN_BIAS,
  HEAD,
  PARAMS
};

typedef struct {
  torchacc_context* context;
  int64_t width;
  torchacc_tensor *params[PARAMS], *means[PARAMS], *squares[PARAMS];
  /* Results of a step: released at its end. */
  torchacc_tensor* temporaries[MOST_TEMPORARIES];
  int count;
} model;

static void ok(torchacc_error* error) {
  if (!error) return;
  torchacc_str text = torchacc_error_message(error);
  fprintf(stderr, "%.*s\n", (int)text.len, text.data);
  exit(1);
}

/* ---- arguments */

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

static torchacc_arg ints(const int64_t* values, uint32_t n) {
  torchacc_arg arg = {TORCHACC_ARG_INTS, n, {0}};
  arg.v.p = values;
  return arg;
}

static torchacc_arg integer(int64_t value) {
  torchacc_arg arg = {TORCHACC_ARG_INT, 0, {0}};
  arg.v.i = value;
  return arg;
}

static torchacc_arg number(double value) {
  torchacc_arg arg = {TORCHACC_ARG_FLOAT, 0, {0}};
  arg.v.f = value;
  return arg;
}

static torchacc_arg boolean(bool value) {
  torchacc_arg arg = {TORCHACC_ARG_BOOL, 0, {0}};
  arg.v.i = value;
  return arg;
}

/* A number that may be another one at the next step. */
static torchacc_arg scalar(double value) {
  torchacc_arg arg = {TORCHACC_ARG_SCALAR_FLOAT, 0, {0}};
  arg.v.f = value;
  return arg;
}

static torchacc_arg none(void) {
  torchacc_arg arg = {TORCHACC_ARG_NONE, 0, {0}};
  return arg;
}

/* ---- operations */

static torchacc_op find(const char* name) {
  torchacc_str text = {name, strlen(name)};
  torchacc_op op;
  ok(torchacc_op_find(text, &op));
  return op;
}

static torchacc_tensor* keep(model* m, torchacc_tensor* value) {
  if (m->count == MOST_TEMPORARIES) abort();
  return m->temporaries[m->count++] = value;
}

/* The first of `outs` results. */
static torchacc_tensor* apply(model* m, const char* name, const torchacc_arg* args, size_t n,
                              size_t outs) {
  torchacc_tensor* results[3];
  ok(torchacc_apply(m->context, find(name), args, n, results, outs));
  for (size_t i = 0; i < outs; ++i) keep(m, results[i]);
  return results[0];
}

static torchacc_tensor* add(model* m, torchacc_tensor* a, torchacc_tensor* b) {
  torchacc_arg args[] = {tensor(a), tensor(b)};
  return apply(m, "add", args, 2, 1);
}

static torchacc_tensor* matmul(model* m, torchacc_tensor* x, int weight) {
  torchacc_arg args[] = {tensor(x), tensor(m->params[weight])};
  return apply(m, "matmul", args, 2, 1);
}

static torchacc_tensor* linear(model* m, torchacc_tensor* x, int weight, int bias) {
  torchacc_arg args[] = {tensor(m->params[bias]), tensor(x), tensor(m->params[weight])};
  return apply(m, "aten::addmm", args, 3, 1);
}

static torchacc_tensor* norm(model* m, torchacc_tensor* x, int weight, int bias) {
  torchacc_arg args[] = {tensor(x), ints(&m->width, 1), tensor(m->params[weight]),
                         tensor(m->params[bias]), number(1e-5)};
  return apply(m, "aten::native_layer_norm", args, 5, 3);
}

/* The elements of a dense tensor, seen with other sizes and strides: no copy, nothing recorded. */
static torchacc_tensor* seen_as(model* m, torchacc_tensor* x, const int64_t* sizes,
                                const int64_t* strides, uint32_t rank) {
  torchacc_view view;
  ok(torchacc_tensor_view(x, &view));
  view.sizes = sizes;
  view.strides = strides;
  view.rank = rank;
  torchacc_tensor* seen;
  ok(torchacc_tensor_from_view(&view, &seen));
  return keep(m, seen);
}

/* Columns of [tokens, width] as [batch, heads, time, width of a head]. */
static torchacc_tensor* heads(model* m, torchacc_tensor* x) {
  int64_t w = m->width, d = w / HEADS;
  int64_t sizes[] = {BATCH, HEADS, TIME, d}, strides[] = {TIME * w, d, w, 1};
  return seen_as(m, x, sizes, strides, 4);
}

static torchacc_tensor* attention(model* m, torchacc_tensor* x) {
  int64_t w = m->width;
  torchacc_tensor* q = heads(m, matmul(m, x, QUERY));
  torchacc_tensor* k = heads(m, matmul(m, x, KEY));
  torchacc_tensor* v = heads(m, matmul(m, x, VALUE));
  /* Without a mask or dropout, causal, scaled; the last two are the seed of the dropout that there
   * is not. */
  torchacc_arg args[] = {tensor(q),
                         tensor(k),
                         tensor(v),
                         none(),
                         number(0.0),
                         boolean(true),
                         number(1.0 / sqrt((double)w / HEADS)),
                         integer(0),
                         integer(0)};
  torchacc_tensor* y = apply(m, "torchacc::attention", args, 9, 2);
  int64_t order[] = {0, 2, 1, 3}, sizes[] = {TOKENS, w}, strides[] = {w, 1};
  torchacc_arg turn[] = {tensor(y), ints(order, 4)};
  y = apply(m, "transpose", turn, 2, 1);
  return matmul(m, seen_as(m, y, sizes, strides, 2), OUT);
}

static torchacc_tensor* feed_forward(model* m, torchacc_tensor* x) {
  torchacc_arg up[] = {tensor(linear(m, x, UP, UP_BIAS))};
  return linear(m, apply(m, "aten::gelu", up, 1, 1), DOWN, DOWN_BIAS);
}

/* Mean cross entropy of the next bytes; `bytes`, `places` and `next` are i64 [tokens]. */
static torchacc_tensor* loss_of(model* m, torchacc_tensor* bytes, torchacc_tensor* places,
                                torchacc_tensor* next) {
  torchacc_arg embed[] = {tensor(m->params[EMBED]), tensor(bytes)};
  torchacc_arg place[] = {tensor(m->params[PLACE]), tensor(places)};
  torchacc_tensor* x =
      add(m, apply(m, "aten::embedding", embed, 2, 1), apply(m, "aten::embedding", place, 2, 1));
  x = add(m, x, attention(m, norm(m, x, NORM1, SHIFT1)));
  x = add(m, x, feed_forward(m, norm(m, x, NORM2, SHIFT2)));
  torchacc_arg scores[] = {tensor(matmul(m, x, HEAD)), integer(1), boolean(false)};
  torchacc_tensor* logs = apply(m, "aten::_log_softmax", scores, 3, 1);
  torchacc_arg args[] = {tensor(logs), tensor(next), none(), integer(1), integer(-100)};
  return apply(m, "aten::nll_loss_forward", args, 5, 2);
}

static void update(model* m, torchacc_tensor* const* grads, int step, double lr) {
  torchacc_arg args[] = {
      tensors(m->params, PARAMS),  tensors(grads, PARAMS), tensors(m->means, PARAMS),
      tensors(m->squares, PARAMS), scalar(step),           scalar(lr)};
  torchacc_view outs[3 * PARAMS];
  for (int i = 0; i < PARAMS; ++i) {
    ok(torchacc_tensor_view(m->params[i], &outs[i]));
    ok(torchacc_tensor_view(m->means[i], &outs[PARAMS + i]));
    ok(torchacc_tensor_view(m->squares[i], &outs[2 * PARAMS + i]));
  }
  ok(torchacc_record(m->context, find("torchacc::adamw"), args, 6, outs, 3 * PARAMS));
}

/* ---- model and data */

static uint64_t state = 1;

static uint64_t bits(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

/* About normal, with this deviation. */
static float noise(double deviation) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += (double)bits() / 2147483648.0;
  return (float)((sum - 6) * deviation);
}

static torchacc_tensor* zeros(model* m, const int64_t* sizes, uint32_t rank) {
  torchacc_tensor* made;
  ok(torchacc_tensor_zeros(m->context, TORCHACC_F32, sizes, rank, &made));
  return made;
}

/* A parameter of noise, or of ones where `deviation` is 0. */
static torchacc_tensor* parameter(model* m, const int64_t* sizes, uint32_t rank, double deviation) {
  size_t n = 1;
  for (uint32_t d = 0; d < rank; ++d) n *= (size_t)sizes[d];
  float* data = malloc(n * sizeof *data);
  if (!data) abort();
  for (size_t i = 0; i < n; ++i) data[i] = deviation > 0 ? noise(deviation) : 1;
  torchacc_tensor* made;
  ok(torchacc_tensor_from_host(m->context, TORCHACC_F32, sizes, rank, data, n * sizeof *data,
                               &made));
  free(data);
  return made;
}

static model model_new(int64_t width) {
  model m = {.width = width};
  ok(torchacc_context_new(NULL, &m.context));
  int64_t w = width,
          shapes[PARAMS][2] = {[EMBED] = {BYTES, w}, [PLACE] = {TIME, w}, [NORM1] = {w, 0},
                               [SHIFT1] = {w, 0},    [QUERY] = {w, w},    [KEY] = {w, w},
                               [VALUE] = {w, w},     [OUT] = {w, w},      [NORM2] = {w, 0},
                               [SHIFT2] = {w, 0},    [UP] = {w, 4 * w},   [UP_BIAS] = {4 * w},
                               [DOWN] = {4 * w, w},  [DOWN_BIAS] = {w},   [HEAD] = {w, BYTES}};
  for (int i = 0; i < PARAMS; ++i) {
    uint32_t rank = shapes[i][1] ? 2 : 1;
    bool is_norm = i == NORM1 || i == NORM2, is_shift = rank == 1 && !is_norm;
    double deviation = is_norm ? 0 : 0.5 / sqrt((double)shapes[i][0]);
    m.params[i] = is_shift ? zeros(&m, shapes[i], rank) : parameter(&m, shapes[i], rank, deviation);
    m.means[i] = zeros(&m, shapes[i], rank);
    m.squares[i] = zeros(&m, shapes[i], rank);
  }
  return m;
}

static void model_free(model* m) {
  for (int i = 0; i < PARAMS; ++i) {
    torchacc_tensor_release(m->params[i]);
    torchacc_tensor_release(m->means[i]);
    torchacc_tensor_release(m->squares[i]);
  }
  torchacc_context_release(m->context);
}

static unsigned char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) {
    perror(path);
    exit(1);
  }
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char* data = malloc(*size + 1);
  if (!data || fread(data, 1, *size, file) != *size) {
    fprintf(stderr, "%s cannot be read\n", path);
    exit(1);
  }
  fclose(file);
  return data;
}

static torchacc_tensor* numbers(model* m, const int64_t* data) {
  int64_t size = TOKENS;
  torchacc_tensor* made;
  ok(torchacc_tensor_from_host(m->context, TORCHACC_I64, &size, 1, data, TOKENS * sizeof *data,
                               &made));
  return keep(m, made);
}

/* Records and runs a step on random windows of the text. Returns the loss, which the caller
 * releases. */
static torchacc_tensor* train(model* m, const unsigned char* text, size_t size, int step) {
  int64_t bytes[TOKENS], places[TOKENS], next[TOKENS];
  for (int i = 0; i < TOKENS; ++i) {
    static size_t start;
    if (i % TIME == 0) start = bits() % (size - TIME);
    bytes[i] = text[start + (size_t)(i % TIME)];
    next[i] = text[start + (size_t)(i % TIME) + 1];
    places[i] = i % TIME;
  }
  torchacc_tensor* loss = loss_of(m, numbers(m, bytes), numbers(m, places), numbers(m, next));
  torchacc_tensor* grads[PARAMS];
  ok(torchacc_grad(m->context, loss, m->params, PARAMS, grads));
  update(m, grads, step, 3e-3);
  for (int i = 0; i < PARAMS; ++i) torchacc_tensor_release(grads[i]);
  torchacc_tensor_retain(loss);
  while (m->count > 0) torchacc_tensor_release(m->temporaries[--m->count]);
  ok(torchacc_cut(m->context));
  return loss;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  int steps = argc > 2 ? atoi(argv[2]) : 300;
  int64_t width = argc > 3 ? atoll(argv[3]) : 64;
  if (argc < 2 || steps < 1 || width < HEADS || width % HEADS) {
    fprintf(stderr, "usage: %s FILE [steps] [width, a multiple of %d]\n", argv[0], HEADS);
    return 2;
  }
  size_t size;
  unsigned char* text = read_file(argv[1], &size);
  if (size < TIME + 2) {
    fprintf(stderr, "%s has less than %d bytes\n", argv[1], TIME + 2);
    return 2;
  }
  model m = model_new(width);
  double start = 0;
  int every = steps < 10 ? 1 : steps / 10, warm = steps > 20 ? 10 : 0;
  for (int step = 1; step <= steps; ++step) {
    torchacc_tensor* loss = train(&m, text, size, step);
    if (step == 1 || step % every == 0) {
      float value;
      ok(torchacc_tensor_read(loss, &value, sizeof value));
      printf("step %d loss %.4f\n", step, (double)value);
    }
    torchacc_tensor_release(loss);
    if (step == warm) {
      ok(torchacc_sync(m.context));
      start = seconds();
    }
  }
  ok(torchacc_sync(m.context));
  if (warm) printf("%.3f ms per step\n", 1e3 * (seconds() - start) / (steps - warm));
  model_free(&m);
  free(text);
  return 0;
}
