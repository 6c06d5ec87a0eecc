/* Every operator with random arguments of the kinds that its signature names, most of them wrong in
 * their numbers, sizes or lengths: each call works or is an error that says what is wrong with it,
 * and neither the library nor what it computes later is at a loss. The same for gradients of what
 * works. `program SECONDS SEED`; a failure prints the operator and the seed of its call. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <time.h>

#include "check.h"
#include "random.h"

enum { ARGS = 24, ITEMS = 4, OUTS = 8 };

static torchacc_context* context;
static torchacc_op operation;
static uint64_t seed;

static int64_t whole_number(void) {
  static const int64_t usual[] = {0, 1, 2, 3, -1, -2, 4, 5, 7},
                       rare[] = {64,         65,        2147483647,  2147483648,
                                 4294967296, INT64_MAX, INT64_MIN,   -2147483648,
                                 1000000,    1ll << 62, 3037000500ll};
  return draw(5) ? usual[draw(9)] : rare[draw(11)];
}

static double real_number(void) {
  static const double some[] = {0, 1, -1, .5, 2, 1e308, 5e-324, 1e30, -0.};
  const uint32_t n = draw(12);
  return n == 9 ? NAN : n == 10 ? INFINITY : n == 11 ? -INFINITY : some[n];
}

/* What a call holds on to. */
typedef struct {
  torchacc_arg args[ARGS];
  size_t n_args;
  torchacc_tensor* tensors[ARGS][ITEMS];
  union {
    int64_t i[ITEMS];
    double f[ITEMS];
    uint8_t b[ITEMS];
  } lists[ARGS];
} Call;

/* `shape`: a number below 14, or one more for any. */
static torchacc_tensor* tensor(uint32_t shape) {
  static const int64_t shapes[14][6] = {
      {0},       {1, 1},    {1, 3},    {2, 2, 3},         {3, 2, 3, 4},
      {1, 0},    {2, 0, 3}, {2, 1, 1}, {4, 2, 2, 3, 3},   {4, 1, 2, 5, 5},
      {2, 4, 4}, {2, 3, 2}, {2, 2, 2}, {5, 2, 3, 4, 5, 1}};
  static const torchacc_dtype types[] = {TORCHACC_F32, TORCHACC_F64, TORCHACC_I64, TORCHACC_BOOL,
                                         TORCHACC_F16, TORCHACC_U8,  TORCHACC_C64};
  const int64_t* sizes = shapes[shape < 14 ? shape : draw(14)];
  const torchacc_dtype type = draw(2) ? TORCHACC_F32 : types[draw(7)];
  torchacc_tensor *made, *view;
  OK(torchacc_tensor_zeros(context, type, sizes + 1, (uint32_t)sizes[0], &made));
  if (type == TORCHACC_F32) {
    float data[256];
    const size_t nbytes = torchacc_tensor_nbytes(made);
    EXPECT(nbytes <= sizeof data);
    for (size_t i = 0; i < nbytes / sizeof *data; ++i) data[i] = (float)draw(9) / 2 - 2;
    OK(torchacc_tensor_write(made, data, nbytes));
  }
  if (draw(6) || sizes[0] != 2) return made;
  const int64_t order[2] = {1, 0};
  OK(torchacc_tensor_permute(made, order, 2, &view));
  torchacc_tensor_release(made);
  return view;
}

static torchacc_arg number(int is_float) {
  torchacc_arg arg = {is_float ? TORCHACC_ARG_SCALAR_FLOAT : TORCHACC_ARG_SCALAR_INT, 0, {0}};
  if (is_float) {
    arg.v.f = real_number();
  } else {
    arg.v.i = whole_number();
  }
  /* Compiled in. */
  if (draw(3) == 0) arg.kind = is_float ? TORCHACC_ARG_FLOAT : TORCHACC_ARG_INT;
  return arg;
}

/* One argument: `text` is its object in the signature. */
static void argument(Call* call, const char* text, const char* end, uint32_t shape) {
  const size_t n = call->n_args;
  EXPECT(n < ARGS);
  char copy[256] = {0};
  const size_t length = (size_t)(end - text);
  memcpy(copy, text, length < 255 ? length : 255);
  const char* type = strstr(copy, "\"type\": \"");
  EXPECT(type);
  type += strlen("\"type\": \"");
  const int is_list = strstr(copy, "\"list\"") != NULL,
            may_lack = strstr(copy, "\"optional\"") || strstr(copy, "\"default\"");
#define IS(name) (strncmp(type, name "\"", sizeof name) == 0)
  torchacc_arg arg = {TORCHACC_ARG_NONE, 0, {0}};
  const uint32_t count = draw(ITEMS + 1);
  if (draw(may_lack ? 3 : 50) == 0) {
    /* Left out. */
  } else if (IS("tensor")) {
    const uint32_t items = is_list ? count : 1;
    const uint32_t like = draw(3) ? shape : 14;
    for (uint32_t i = 0; i < items; ++i) call->tensors[n][i] = tensor(like);
    arg.kind = is_list ? TORCHACC_ARG_TENSORS : TORCHACC_ARG_TENSOR;
    arg.len = items;
    arg.v.p = is_list ? (void*)call->tensors[n] : (void*)call->tensors[n][0];
  } else if (is_list) {
    const int kind = IS("bool") ? 2 : IS("int") ? 0 : 1;
    for (uint32_t i = 0; i < count; ++i) {
      if (kind == 0) call->lists[n].i[i] = whole_number();
      if (kind == 1) call->lists[n].f[i] = real_number();
      if (kind == 2) call->lists[n].b[i] = (uint8_t)draw(2);
    }
    const torchacc_arg_kind kinds[3] = {TORCHACC_ARG_INTS, TORCHACC_ARG_FLOATS, TORCHACC_ARG_BOOLS};
    arg.kind = kinds[kind];
    arg.len = count;
    arg.v.p = &call->lists[n];
  } else if (IS("scalar") || IS("float")) {
    arg = number((int)draw(2));
  } else if (IS("int")) {
    arg.kind = TORCHACC_ARG_INT;
    arg.v.i = whole_number();
  } else if (IS("bool")) {
    arg.kind = TORCHACC_ARG_BOOL;
    arg.v.i = draw(2);
  } else if (IS("dtype")) {
    arg.kind = TORCHACC_ARG_DTYPE;
    arg.v.i = draw(23);
  } else if (IS("text")) {
    static const char* texts[] = {"none", "mean", "sum", "tanh", "floor", "trunc", "", "avg"};
    arg.kind = TORCHACC_ARG_STR;
    arg.v.p = texts[draw(8)];
    arg.len = (uint32_t)strlen(arg.v.p);
  } else if (IS("generator")) {
    arg.kind = TORCHACC_ARG_RANDOM;
  } else if (IS("communicator")) {
    arg.kind = TORCHACC_ARG_COMMUNICATOR;
    arg.v.p = "nobody";
    arg.len = 6;
  }
  if (draw(40) == 0) arg = number((int)draw(2));
  if (draw(80) == 0) arg.kind = 18 + draw(100);
  call->args[call->n_args++] = arg;
}

/* The arguments of one of the operator's forms. */
static void arguments(Call* call) {
  torchacc_string* string;
  OK(torchacc_op_signature(operation, &string));
  const torchacc_str text = torchacc_string_view(string);
  char* copy = calloc(text.len + 1, 1);
  EXPECT(copy);
  memcpy(copy, text.data, text.len);
  const char* form = strstr(copy, "\"arguments\": [");
  for (const char* next = form; next && draw(2); next = strstr(next + 1, "\"arguments\": ["))
    form = next;
  const char* end = strstr(form, "\"results\"");
  const uint32_t shape = draw(14);
  for (const char* at = strstr(form, "{\"name\""); at && at < end;) {
    const char* next = strstr(at + 1, "{\"name\"");
    argument(call, at, next && next < end ? next : end, shape);
    at = next;
  }
  free(copy);
  torchacc_string_free(string);
}

/* Only what says that the caller is wrong, that there is no memory, or what a kernel found. */
static int failed(torchacc_error* error, const char* where) {
  const torchacc_code code = torchacc_error_code(error);
  if (code == TORCHACC_INTERNAL || code == TORCHACC_PANIC) {
    const torchacc_str name = torchacc_op_name(operation), text = torchacc_error_message(error);
    printf("seed %llu: %.*s, %s: code %u: %.*s\n", (unsigned long long)seed, (int)name.len,
           name.data, where, code, (int)text.len, text.data);
    exit(1);
  }
  EXPECT(!error || torchacc_error_message(error).len > 0);
  torchacc_error_free(error);
  return error != NULL;
}

static void read_it(torchacc_tensor* tensor, const char* where) {
  static char room[1 << 20];
  if (torchacc_tensor_nbytes(tensor) <= sizeof room)
    failed(torchacc_tensor_read(tensor, room, sizeof room), where);
}

static void differentiate(const Call* call, torchacc_tensor* result) {
  torchacc_tensor *loss, *wrt[ITEMS], *grads[ITEMS];
  size_t count = 0;
  for (size_t i = 0; i < call->n_args && count < ITEMS; ++i)
    if (torchacc_tensor_dtype(call->tensors[i][0]) == TORCHACC_F32)
      wrt[count++] = call->tensors[i][0];
  const torchacc_arg arg = tensor_arg(result);
  if (failed(torchacc_apply(context, op("aten::sum"), &arg, 1, &loss, 1), "sum")) return;
  if (!failed(torchacc_grad(context, loss, wrt, count, grads), "gradient")) {
    for (size_t i = 0; i < count; ++i) {
      read_it(grads[i], "a gradient's value");
      torchacc_tensor_release(grads[i]);
    }
  }
  torchacc_tensor_release(loss);
}

/* Results that are larger than what a machine has for tests are not computed. */
static int has_room(const torchacc_type* types, size_t count) {
  double elements = 0;
  for (size_t i = 0; i < count; ++i) {
    double product = 1;
    for (uint32_t d = 0; d < types[i].rank; ++d) product *= (double)types[i].sizes[d];
    elements += product;
  }
  return elements < 1e9;
}

static void one_call(void) {
  state = seed * 0x9E3779B97F4A7C15u;
  operation = draw((uint32_t)torchacc_op_count());
  Call call;
  memset(&call, 0, sizeof call);
  arguments(&call);
  torchacc_tensor* outs[OUTS] = {NULL};
  static torchacc_type types[OUTS];
  const size_t n_outs = draw(3) ? 1 : draw(OUTS + 1);
  const int is_typed =
      !failed(torchacc_infer(context, operation, call.args, call.n_args, types, n_outs), "types");
  const int works =
      (!is_typed || has_room(types, n_outs)) &&
      !failed(torchacc_apply(context, operation, call.args, call.n_args, outs, n_outs), "call");
  for (size_t i = 0; works && i < n_outs; ++i) {
    if (i == 0 && draw(2) && torchacc_tensor_dtype(outs[i]) == TORCHACC_F32 &&
        torchacc_tensor_numel(outs[i]) < 10000)
      differentiate(&call, outs[i]);
    read_it(outs[i], "value");
    torchacc_tensor_release(outs[i]);
  }
  failed(torchacc_sync(context), "sync");
  for (size_t i = 0; i < call.n_args; ++i)
    for (int k = 0; k < ITEMS; ++k) torchacc_tensor_release(call.tensors[i][k]);
}

int main(int count, char** arguments) {
  const int seconds = count > 1 ? atoi(arguments[1]) : 1;
  seed = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
  torchacc_options options = {.struct_size = sizeof options, .num_threads = 2};
  options.cache_folder = str("off");
  OK(torchacc_context_new(&options, &context));
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const time_t end = now.tv_sec + seconds;
  do {
    for (int turn = 0; turn < 500; ++turn, ++seed) one_call();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec < end);
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
