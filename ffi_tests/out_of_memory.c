/* Memory for tensors that the system does not give: every call returns OUT_OF_MEMORY or works, what
 * was there before is there afterwards, whole, and the next try works. `program FILE`. */
#define _GNU_SOURCE
#include "check.h"
#include "failing_memory.h"

enum { SIDE = 768, COUNT = SIDE * SIDE, BYTES = COUNT * 4 };

/* What a try finds: x holds `x_now` everywhere, p what was added to it. */
static torchacc_context* context;
static torchacc_tensor *x, *p;
static float x_now;
static const char *path, *backend;
static float* host;

static torchacc_tensor* filled(float value) {
  for (int i = 0; i < COUNT; ++i) host[i] = value;
  return floats(context, host, SIDE, SIDE);
}

static void expect(const torchacc_tensor* tensor, float value) {
  OK(torchacc_tensor_read(tensor, host, BYTES));
  for (int i = 0; i < COUNT; ++i) EXPECT(host[i] == value);
}

/* Reads what must be `wanted` everywhere if it can be read; releases it. */
static torchacc_error* read_and_release(torchacc_tensor* tensor, float wanted) {
  torchacc_error* error = torchacc_tensor_read(tensor, host, BYTES);
  for (int i = 0; !error && i < COUNT; ++i) EXPECT(host[i] == wanted);
  torchacc_tensor_release(tensor);
  return error;
}

static torchacc_error* apply(const char* name, const torchacc_tensor* a, const torchacc_tensor* b,
                             torchacc_tensor** out) {
  torchacc_arg args[2] = {tensor_arg(a), tensor_arg(b)};
  return torchacc_apply(context, op(name), args, 2, out, 1);
}

static torchacc_error* data_in(void) {
  torchacc_tensor* made;
  for (int i = 0; i < COUNT; ++i) host[i] = 7;
  const int64_t sizes[2] = {SIDE, SIDE};
  torchacc_error* error =
      torchacc_tensor_from_host(context, TORCHACC_F32, sizes, 2, host, BYTES, &made);
  return error ? error : read_and_release(made, 7);
}

/* Products between sums: outputs, intermediates and the kernels' own memory. */
static torchacc_error* compute(void) {
  torchacc_tensor *sum, *product, *all;
  torchacc_error* error = apply("add", x, x, &sum);
  if (error) return error;
  error = apply("matmul", sum, x, &product);
  if (!error) {
    error = apply("add", product, product, &all);
    torchacc_tensor_release(product);
  }
  torchacc_tensor_release(sum);
  return error ? error : read_and_release(all, 4 * x_now * x_now * SIDE);
}

/* p += x in new memory, because it is read in the middle of a step; then again in place. */
static torchacc_error* update(void) {
  torchacc_error* error = NULL;
  for (int turn = 0; turn < 2 && !error; ++turn) {
    torchacc_arg args[2] = {tensor_arg(p), tensor_arg(x)};
    error = torchacc_apply_into(context, op("add"), args, 2, &p, 1);
    if (error) break;
    error = turn ? torchacc_sync(context) : torchacc_tensor_read(p, host, BYTES);
  }
  return error;
}

static torchacc_error* overwrite(void) {
  for (int i = 0; i < COUNT; ++i) host[i] = x_now + 1;
  torchacc_error* error = torchacc_tensor_write(x, host, BYTES);
  if (!error) ++x_now;
  return error;
}

/* Through a view: a part of x, written with what it holds. */
static torchacc_error* overwrite_part(void) {
  torchacc_tensor* half;
  OK(torchacc_tensor_slice(x, 1, 0, SIDE / 2, 2, &half));
  for (int i = 0; i < COUNT / 2; ++i) host[i] = x_now;
  torchacc_error* error = torchacc_tensor_write(half, host, BYTES / 2);
  torchacc_tensor_release(half);
  return error ? error : torchacc_sync(context);
}

static void no_drop(void* user) { ++*(int*)user; }

/* Not aligned, so it is copied; its owner is notified in any case. */
static torchacc_error* borrow(void) {
  int drops = 0;
  torchacc_tensor* made;
  const int64_t sizes[2] = {SIDE, SIDE - 1};
  for (int i = 0; i < COUNT; ++i) host[i] = 3;
  torchacc_error* error = torchacc_tensor_borrow(context, TORCHACC_F32, sizes, NULL, 2, host + 1,
                                                 BYTES - SIDE * 4, &drops, no_drop, &made);
  EXPECT(drops == 1);
  if (!error) torchacc_tensor_release(made);
  return error;
}

static torchacc_error* resize(void) {
  torchacc_buffer* buffer;
  OK(torchacc_buffer_new(context, BYTES, &buffer));
  torchacc_error* error = torchacc_buffer_write(buffer, TORCHACC_F32, host, BYTES);
  if (!error) error = torchacc_buffer_resize(buffer, BYTES + BYTES / 2);
  if (!error) EXPECT(torchacc_buffer_nbytes(buffer) == BYTES + BYTES / 2);
  torchacc_buffer_release(buffer);
  return error;
}

static torchacc_error* store(void) {
  const torchacc_tensor* all[1] = {x};
  const torchacc_str name = str("x");
  torchacc_error* error = torchacc_save(str(path), all, &name, 1, NULL, 0);
  if (error) return error;
  torchacc_archive* archive;
  error = torchacc_load(context, str(path), &archive);
  if (error) return error;
  torchacc_tensor* found = torchacc_archive_tensor(archive, 0);
  torchacc_archive_free(archive);
  return read_and_release(found, x_now);
}

static torchacc_error* loss_and_gradient(void) {
  torchacc_tensor *square, *loss = NULL, *grad;
  torchacc_error* error = apply("mul", x, x, &square);
  if (error) return error;
  torchacc_arg arg = tensor_arg(square);
  error = torchacc_apply(context, op("aten::sum"), &arg, 1, &loss, 1);
  if (!error) error = torchacc_grad(context, loss, &x, 1, &grad);
  torchacc_tensor_release(square);
  torchacc_tensor_release(loss);
  return error ? error : read_and_release(grad, 2 * x_now);
}

static torchacc_error* count_up(void* user, const torchacc_arg* args, size_t n_args,
                                const torchacc_host_tensor* outs, size_t n_outs) {
  (void)user, (void)n_args, (void)n_outs;
  const torchacc_host_tensor* in = args[0].v.p;
  for (int i = 0; i < COUNT; ++i) ((float*)outs[0].data)[i] = ((const float*)in->data)[i] + 1;
  return NULL;
}

static torchacc_error* host_operator(void) {
  const torchacc_host_op definition = {.struct_size = sizeof definition,
                                       .name = str("mine::count_up"),
                                       .key = str("mine::count_up/1"),
                                       .function = count_up};
  torchacc_op number;
  OK(torchacc_op_register_host(&definition, &number));
  torchacc_tensor *turned, *sum;
  const int64_t order[2] = {1, 0}, sizes[2] = {SIDE, SIDE};
  OK(torchacc_tensor_permute(x, order, 2, &turned));
  OK(torchacc_tensor_zeros(context, TORCHACC_F32, sizes, 2, &sum));
  torchacc_view view;
  OK(torchacc_tensor_view(sum, &view));
  torchacc_arg arg = tensor_arg(turned);
  torchacc_error* error = torchacc_record(context, number, &arg, 1, &view, 1);
  torchacc_tensor_release(turned);
  if (!error) return read_and_release(sum, x_now + 1);
  torchacc_tensor_release(sum);
  return error;
}

/* Elements one by one: what every backend can do in a moment. */
static torchacc_error* pointwise(void) {
  torchacc_tensor *sum, *cosine;
  torchacc_error* error = apply("add", x, x, &sum);
  if (error) return error;
  torchacc_arg arg = tensor_arg(sum);
  error = torchacc_apply(context, op("cos"), &arg, 1, &cosine, 1);
  torchacc_tensor_release(sum);
  if (error) return error;
  error = torchacc_tensor_read(cosine, host, BYTES);
  torchacc_tensor_release(cosine);
  return error;
}

/* Whatever failed is not reported by later calls a second time, and nothing is torn or lost. */
static void settle(const char* name, long after, float p_before) {
  for (torchacc_error* error; (error = torchacc_sync(context)); torchacc_error_free(error))
    EXPECT(torchacc_error_code(error) == TORCHACC_OUT_OF_MEMORY);
  expect(x, x_now);
  OK(torchacc_tensor_read(p, host, BYTES));
  const float steps = (host[0] - p_before) / x_now;
  if (steps != 0 && steps != 1 && steps != 2) {
    printf("%s after %ld: p was %g, is %g\n", name, after, p_before, host[0]);
    exit(1);
  }
  expect(p, host[0]);
}

/* Refuses one piece, or two (the first makes the library give back what it keeps for later), or all
 * after the first so many, for every number of them. */
static void try_with_less(const char* name, torchacc_error* (*call)(void), long pieces) {
  long after = 0, failed = 0;
  for (int enough = 0; !enough; ++after) {
    EXPECT(after < 100);
    torchacc_options options = {.struct_size = sizeof options, .num_threads = 2};
    options.cache_folder = str("off");
    options.backend = str(backend);
    OK(torchacc_context_new(&options, &context));
    x_now = 2;
    x = filled(x_now);
    p = filled(1);
    fail_after(after, pieces);
    torchacc_error* error = call();
    enough = !stop_failing();
    const torchacc_code code = torchacc_error_code(error);
    if (error && (enough || code != TORCHACC_OUT_OF_MEMORY)) {
      torchacc_str text = torchacc_error_message(error);
      printf("%s after %ld: code %u: %.*s\n", name, after, code, (int)text.len, text.data);
      exit(1);
    }
    failed += error != NULL;
    torchacc_error_free(error);
    settle(name, after, 1);
    /* And now there is memory. */
    OK(torchacc_tensor_read(p, host, 4 * COUNT));
    const float before = host[0];
    OK(call());
    settle(name, after, before);
    torchacc_tensor_release(x);
    torchacc_tensor_release(p);
    torchacc_context_release(context);
  }
  if (failed == 0 && pieces > 2) {
    printf("%s never failed\n", name);
    exit(1);
  }
}

/* Straight into the caller's: dense values, buffers, and views with gaps. */
static void read_without_memory(void) {
  torchacc_view view;
  torchacc_tensor* turned;
  const int64_t order[2] = {1, 0};
  OK(torchacc_context_new(NULL, &context));
  x = filled(3);
  OK(torchacc_tensor_permute(x, order, 2, &turned));
  OK(torchacc_tensor_view(x, &view));
  OK(torchacc_sync(context));
  fail_after(0, LONG_MAX / 2);
  OK(torchacc_tensor_read(x, host, BYTES));
  OK(torchacc_buffer_read(view.buffer, 0, host, BYTES));
  EXPECT(host[0] == 3 && host[COUNT - 1] == 3);
  memset(host, 0, BYTES);
  OK(torchacc_tensor_read(turned, host, BYTES));
  EXPECT(!stop_failing() && host[0] == 3 && host[COUNT - 1] == 3);
  torchacc_tensor_release(turned);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  path = arguments[1];
  host = malloc(BYTES);
  EXPECT(host);
#define TRY(call)                \
  try_with_less(#call, call, 1); \
  try_with_less(#call, call, 2); \
  try_with_less(#call, call, 1000000)
  const char* others[2] = {"reference", "null"};
  for (int i = 0; i < 2; ++i) {
    backend = others[i];
    TRY(pointwise);
  }
  backend = "cpu";
  TRY(pointwise);
  TRY(data_in);
  TRY(compute);
  TRY(update);
  TRY(overwrite);
  TRY(overwrite_part);
  TRY(borrow);
  TRY(resize);
  TRY(store);
  TRY(loss_and_gradient);
  TRY(host_operator);
  read_without_memory();
  free(host);
  puts("ok");
  return 0;
}
