/* Programs of other systems: a module of StableHLO, with a constant that is an array of its own,
 * and what it is printed as. */
#include "check.h"

static void expect(const torchacc_tensor* tensor, const float* wanted, size_t count) {
  float got[24];
  EXPECT(torchacc_tensor_nbytes(tensor) == count * sizeof *wanted && count <= 24);
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  for (size_t i = 0; i < count; ++i) EXPECT(got[i] == wanted[i]);
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
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
