/* Programs of other systems: a module of StableHLO, with a constant that is an array of its own,
 * and what it is printed as. */
#include "check.h"

static void expect(const torchacc_tensor* tensor, const float* wanted, size_t count) {
  float got[24];
  EXPECT(torchacc_tensor_nbytes(tensor) == count * sizeof *wanted && count <= 24);
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  for (size_t i = 0; i < count; ++i) EXPECT(got[i] == wanted[i]);
}

static torchacc_tensor* apply(torchacc_context* context, const char* name, torchacc_tensor* a,
                              torchacc_tensor* b) {
  uint32_t op;
  OK(torchacc_op_find(str(name), &op));
  const torchacc_arg args[2] = {tensor_arg(a), tensor_arg(b)};
  torchacc_tensor* out;
  OK(torchacc_apply(context, op, args, 2, &out, 1));
  return out;
}

/* What was recorded, as a module: x, y -> x * y + c, x; then what is no function of its inputs. */
static void captures(torchacc_context* context) {
  const float data[6] = {1, 2, 3, 4, 5, 6}, more[6] = {6, 5, 4, 3, 2, 1};
  const float result[6] = {7, 12, 15, 16, 15, 12};
  torchacc_tensor *x = floats(context, data, 2, 3), *y = floats(context, more, 2, 3);
  torchacc_tensor* c = floats(context, data, 2, 3);
  uint64_t number;
  OK(torchacc_capture_begin(context, &number));
  torchacc_tensor* product = apply(context, "mul", x, y);
  torchacc_tensor* sum = apply(context, "add", product, c);
  const torchacc_arg in[2] = {tensor_arg(x), tensor_arg(y)};
  const torchacc_arg out[2] = {tensor_arg(sum), tensor_arg(x)};
  torchacc_graph *graph, *again;
  OK(torchacc_graph_capture(context, number, in, 2, out, 2, &graph));
  const torchacc_arg same[2] = {in[0], in[0]}, made[1] = {tensor_arg(sum)};
  const torchacc_arg no_tensor[1] = {{.kind = TORCHACC_ARG_SCALAR_INT}};
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_capture(context, number, same, 2, out, 1, &again));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_capture(context, number, made, 1, out, 1, &again));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_capture(context, number, no_tensor, 1, out, 1, &again));
  expect(sum, result, 6);
  /* The read has ended the trace. */
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_graph_capture(context, number, in, 2, out, 2, &again));
  torchacc_string* printed;
  OK(torchacc_graph_stablehlo(graph, &printed));
  OK(torchacc_graph_parse(torchacc_string_view(printed), &again));
  const torchacc_arg swapped[2] = {tensor_arg(sum), tensor_arg(y)};
  torchacc_tensor* results[2];
  OK(torchacc_graph_apply(context, again, in, 2, results, 2));
  expect(results[0], result, 6);
  expect(results[1], data, 6);
  torchacc_tensor_release(results[0]);
  torchacc_tensor_release(results[1]);
  OK(torchacc_graph_apply(context, graph, swapped, 2, results, 2));
  const float of_swapped[6] = {43, 62, 63, 52, 35, 18};
  expect(results[0], of_swapped, 6);
  torchacc_tensor_release(results[0]);
  torchacc_tensor_release(results[1]);
  /* x, y -> x * y + c, x: into y and a new tensor, then both into one, and into what is no tensor.
   */
  torchacc_arg into[2] = {in[1], {.kind = TORCHACC_ARG_NONE}};
  OK(torchacc_graph_apply_into(context, graph, in, 2, into, results, 2));
  EXPECT(!results[0]);
  expect(y, result, 6);
  expect(results[1], data, 6);
  torchacc_tensor_release(results[1]);
  into[1] = in[1];
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_apply_into(context, graph, in, 2, into, results, 2));
  into[1] = no_tensor[0];
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_apply_into(context, graph, in, 2, into, results, 2));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_apply_into(context, graph, in, 2, into, results, 1));
  expect(y, result, 6);
  torchacc_string_free(printed);
  torchacc_graph_free(graph);
  torchacc_graph_free(again);
  torchacc_tensor_release(product);
  torchacc_tensor_release(sum);
  torchacc_tensor_release(x);
  torchacc_tensor_release(y);
  torchacc_tensor_release(c);
}

/* Random numbers, whose generator's state goes in and comes out. */
static void draws(torchacc_context* context) {
  const float data[6] = {0};
  torchacc_tensor *x = floats(context, data, 2, 3), *first, *second, *results[3];
  torchacc_arg args[4] = {tensor_arg(x), {.kind = TORCHACC_ARG_SCALAR_FLOAT}};
  args[2] = args[1];
  const double one = 1;
  memcpy(&args[2].v.i, &one, sizeof one);
  args[3].kind = TORCHACC_ARG_RANDOM;
  uint32_t uniform;
  OK(torchacc_op_find(str("uniform"), &uniform));
  uint64_t number;
  OK(torchacc_seed(context, 5));
  OK(torchacc_capture_begin(context, &number));
  OK(torchacc_apply(context, uniform, args, 4, &first, 1));
  OK(torchacc_apply(context, uniform, args, 4, &second, 1));
  const torchacc_arg out[2] = {tensor_arg(first), tensor_arg(second)};
  const uint64_t each = UINT64_C(1) << 32;
  const torchacc_draws drawn[2] = {{5, 0, 2 * each}, {5, 0, each}};
  torchacc_graph* graph;
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_capture_random(context, number, NULL, 0, out, 2, drawn, 2, &graph));
  OK(torchacc_graph_capture_random(context, number, NULL, 0, out, 2, drawn, 1, &graph));
  float wanted[2][6];
  OK(torchacc_tensor_read(first, wanted[0], sizeof wanted[0]));
  OK(torchacc_tensor_read(second, wanted[1], sizeof wanted[1]));
  EXPECT(wanted[0][0] != wanted[1][0] && torchacc_graph_outputs(graph) == 3);
  int64_t state[2] = {5, 0};
  const int64_t two = 2;
  torchacc_tensor* taken;
  OK(torchacc_tensor_from_host(context, TORCHACC_I64, &two, 1, state, sizeof state, &taken));
  for (int run = 0; run < 2; ++run) {
    const torchacc_arg in = tensor_arg(taken);
    OK(torchacc_graph_apply(context, graph, &in, 1, results, 3));
    if (run == 0) expect(results[0], wanted[0], 6);
    if (run == 0) expect(results[1], wanted[1], 6);
    torchacc_tensor_release(taken);
    torchacc_tensor_release(results[0]);
    torchacc_tensor_release(results[1]);
    taken = results[2];
    OK(torchacc_tensor_read(taken, state, sizeof state));
    EXPECT(state[0] == 5 && (uint64_t)state[1] == (uint64_t)(run + 1) * 2 * each);
  }
  torchacc_graph_free(graph);
  torchacc_tensor_release(taken);
  torchacc_tensor_release(first);
  torchacc_tensor_release(second);
  torchacc_tensor_release(x);
}

int main(void) {
  torchacc_context* context;
  torchacc_options options = {.struct_size = sizeof options};
  options.cache_folder = str("off");
  OK(torchacc_context_new(&options, &context));
  const float data[6] = {1, 2, 3, 4, 5, 6};
  torchacc_tensor* x = floats(context, data, 2, 3);
  torchacc_arg arg = tensor_arg(x);
  torchacc_string* printed;
  const char* module =
      "module @jit_f {\n"
      "  func.func public @main(%arg0: tensor<2x3xf32>) -> (tensor<6x4xf32>) {\n"
      "    %0 = stablehlo.iota dim = 1 : tensor<6x4xf32>\n"
      "    %c = stablehlo.constant "
      "dense<[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1],[1,1,1,1],[2,2,2,2]]> : tensor<6x4xi32>\n"
      "    %1 = stablehlo.convert %c : (tensor<6x4xi32>) -> tensor<6x4xf32>\n"
      "    %2 = stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<6xf32>\n"
      "    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<6xf32>) -> tensor<6x4xf32>\n"
      "    %4 = stablehlo.multiply %1, %3 : tensor<6x4xf32>\n"
      "    %5 = stablehlo.add %4, %0 : tensor<6x4xf32>\n"
      "    return %5 : tensor<6x4xf32>\n"
      "  }\n"
      "}\n";
  const float of_module[24] = {1, 1, 2, 3, 0, 3, 2, 3, 0,  1,  5,  3,
                               0, 1, 2, 7, 5, 6, 7, 8, 12, 13, 14, 15};
  torchacc_graph *read, *reread;
  torchacc_tensor *y, *z;
  OK(torchacc_graph_parse(str(module), &read));
  FAILS(TORCHACC_UNSUPPORTED, torchacc_graph_text(read, &printed));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_graph_apply(context, read, NULL, 0, &y, 1));
  OK(torchacc_graph_apply(context, read, &arg, 1, &y, 1));
  expect(y, of_module, 24);
  OK(torchacc_graph_stablehlo(read, &printed));
  OK(torchacc_graph_parse(torchacc_string_view(printed), &reread));
  OK(torchacc_graph_apply(context, reread, &arg, 1, &z, 1));
  expect(z, of_module, 24);
  torchacc_string_free(printed);
  torchacc_graph_free(read);
  torchacc_graph_free(reread);
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_parse(str("module { func.func @main() { x.y : } }"), &read));
  torchacc_tensor_release(y);
  torchacc_tensor_release(z);
  torchacc_tensor_release(x);
  captures(context);
  draws(context);
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
