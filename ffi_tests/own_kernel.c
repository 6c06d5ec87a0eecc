/* An operator with a form for a GPU, held to the same one in C. Where the library is a debug build
 * the kernels run on the host. */
#include "check.h"

static int calls = 0;

static torchacc_error* scale(void* user, const torchacc_arg* args, size_t n_args,
                             const torchacc_host_tensor* outs, size_t n_outs) {
  (void)user;
  EXPECT(n_args == 2 && n_outs == 1);
  ++calls;
  const torchacc_host_tensor* x = args[0].v.p;
  int64_t count = 1;
  for (uint32_t d = 0; d < x->rank; ++d) count *= x->sizes[d];
  for (int64_t i = 0; i < count; ++i)
    ((float*)outs[0].data)[i] =
        ((const float*)x->data)[i] * (float)args[1].v.f + (float)x->sizes[0];
  return NULL;
}

static torchacc_error* same_shape(void* user, const torchacc_arg* args, size_t n_args,
                                  torchacc_type* outs, size_t n_outs) {
  (void)user;
  EXPECT(n_args == 2 && n_outs == 1);
  const torchacc_host_tensor* x = args[0].v.p;
  outs[0].dtype = x->dtype;
  outs[0].rank = x->rank;
  memcpy(outs[0].sizes, x->sizes, x->rank * sizeof *x->sizes);
  return NULL;
}

static const char* const SCALE =
    "__device__ void scale(Tensor<const float> x, double factor, Tensor<float> y) {\n"
    "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < y.count) y.data[i] = x.data[i] * (float)factor + (float)x.sizes[0];\n"
    "}\n";

static torchacc_host_op definition(const char* name) {
  return (torchacc_host_op){.struct_size = sizeof(torchacc_host_op),
                            .name = str(name),
                            .key = str(name),
                            .shape = same_shape,
                            .cuda_source = str(SCALE),
                            .cuda_entry = str("scale"),
                            .cuda_block = 64};
}

static torchacc_op registered(const torchacc_host_op* given) {
  torchacc_op made;
  OK(torchacc_op_register_host(given, &made));
  return made;
}

static torchacc_tensor* applied(torchacc_context* context, torchacc_op op, const torchacc_tensor* x,
                                double factor) {
  torchacc_arg args[2] = {tensor_arg(x), scalar_arg(factor)};
  torchacc_tensor* y;
  OK(torchacc_apply(context, op, args, 2, &y, 1));
  return y;
}

/* `y` = x^T · factor + columns of x, of a matrix of so many rows. */
static void computed(torchacc_context* context, torchacc_op op, int64_t rows, int64_t columns,
                     double factor, float* y) {
  enum { MOST = 2000 };
  static float data[MOST];
  EXPECT(rows * columns <= MOST);
  for (int64_t i = 0; i < rows * columns; ++i) data[i] = (float)(i % 37) - 11;
  torchacc_tensor *x = floats(context, data, rows, columns), *turned;
  const int64_t swapped[2] = {1, 0};
  OK(torchacc_tensor_permute(x, swapped, 2, &turned));
  torchacc_tensor* made = applied(context, op, turned, factor);
  OK(torchacc_tensor_read(made, y, (size_t)(rows * columns) * sizeof *y));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      EXPECT(y[c * rows + r] == data[r * columns + c] * (float)factor + (float)columns);
  torchacc_tensor_release(x);
  torchacc_tensor_release(turned);
  torchacc_tensor_release(made);
}

/* The error of reading a result contains these words. */
static void fails(torchacc_context* context, torchacc_op op, torchacc_code code, const char* first,
                  const char* second) {
  const float data[2] = {1, 2};
  float got[2];
  torchacc_tensor* x = floats(context, data, 1, 2);
  torchacc_tensor* y = applied(context, op, x, 2);
  torchacc_error* error = torchacc_tensor_read(y, got, sizeof got);
  EXPECT(error != NULL && torchacc_error_code(error) == code);
  torchacc_str text = torchacc_error_message(error);
  char copy[4096] = {0};
  memcpy(copy, text.data, text.len < 4095 ? text.len : 4095);
  EXPECT(strstr(copy, first) && strstr(copy, second));
  torchacc_error_free(error);
  torchacc_tensor_release(x);
  torchacc_tensor_release(y);
  OK(torchacc_sync(context));
}

static void refusals(void) {
  torchacc_op out;
  torchacc_host_op wrong = definition("mine::wrong");
  wrong.cuda_entry = str("scale; int x");
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_op_register_host(&wrong, &out));
  wrong = definition("mine::wrong");
  wrong.cuda_block = 2048;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_op_register_host(&wrong, &out));
  wrong = definition("mine::wrong");
  wrong.cuda_source = str("");
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_op_register_host(&wrong, &out));
}

int main(int count, char** arguments) {
  torchacc_host_op both = definition("mine::scale"), plain = definition("mine::plain");
  both.function = plain.function = scale;
  plain.cuda_source = plain.cuda_entry = str("");
  const torchacc_op op_both = registered(&both), op_plain = registered(&plain);
  torchacc_host_op kernel = definition("mine::kernel");
  const torchacc_op op_kernel = registered(&kernel);
  refusals();

  torchacc_context* cpu;
  OK(torchacc_context_new(NULL, &cpu));
  float y[2000], z[2000];
  computed(cpu, op_both, 3, 5, 0.5, y);
  EXPECT(calls == 1);
  fails(cpu, op_kernel, TORCHACC_UNSUPPORTED, "mine::kernel", "only a form for devices");
  torchacc_context_release(cpu);

  torchacc_options options = {.struct_size = sizeof options, .backend = str("emulated")};
  options.cache_folder = str(count > 1 ? arguments[1] : "off");
  torchacc_context* gpu;
  torchacc_error* error = torchacc_context_new(&options, &gpu);
  if (error != NULL) {
    torchacc_error_free(error);
    puts("ok");
    return 0;
  }
  const int64_t sizes[][2] = {{1, 1}, {3, 5}, {40, 50}, {0, 4}, {4, 0}, {1, 300}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const int64_t rows = sizes[i][0], columns = sizes[i][1];
    computed(gpu, op_kernel, rows, columns, 2, y);
    computed(gpu, op_plain, rows, columns, 2, z);
    EXPECT(memcmp(y, z, (size_t)(rows * columns) * sizeof *y) == 0);
  }
  EXPECT(calls == 7 && metric(gpu, "\"host_calls\"") == 6);
  /* Again, with another number: the same program. */
  const int64_t before = metric(gpu, "\"compiles\"");
  for (int i = 1; i < 6; ++i) computed(gpu, op_both, 3, 5, i, y);
  EXPECT(calls == 7 && metric(gpu, "\"compiles\"") <= before + 1);

  /* Another source under the same key is another operator, in memory and on disk. */
  torchacc_host_op changed = definition("mine::kernel");
  changed.cuda_source =
      str("void scale(Tensor<const float> x, double, Tensor<float> y) {\n"
          "  if (blockIdx.x == 0 && threadIdx.x == 0)\n"
          "    for (long long i = 0; i < y.count; ++i) y.data[i] = x.data[i] * 100;\n"
          "}\n");
  const torchacc_op op_changed = registered(&changed);
  EXPECT(op_changed != op_kernel && registered(&kernel) == op_kernel);
  const float data[2] = {1, 2};
  torchacc_tensor* x = floats(gpu, data, 1, 2);
  for (int i = 0; i < 4; ++i) {
    torchacc_tensor* made = applied(gpu, i % 2 ? op_changed : op_kernel, x, 2);
    OK(torchacc_tensor_read(made, y, 2 * sizeof *y));
    EXPECT(y[0] == (i % 2 ? 100 : 3) && y[1] == (i % 2 ? 200 : 5));
    torchacc_tensor_release(made);
  }
  torchacc_tensor_release(x);

  torchacc_host_op broken = definition("mine::broken");
  broken.cuda_source = str("void scale(Tensor<const float>, double, Tensor<float>) { missing(); }");
  const torchacc_op op_broken = registered(&broken);
  for (int i = 0; i < 2; ++i)
    fails(gpu, op_broken, TORCHACC_OPERATOR_ERROR, "mine::broken", "missing");
  computed(gpu, op_both, 3, 5, 4, y);
  torchacc_context_release(gpu);
  puts("ok");
  return 0;
}
