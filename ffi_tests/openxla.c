/* A program on OpenXLA: -x by the plugin whose file is the argument, then by that of the
 * environment. */
#include "check.h"

static void expect_negated(const torchacc_tensor* tensor) {
  const float wanted[6] = {-1, 2, -3, -4, 5, -6};
  float got[6];
  EXPECT(torchacc_tensor_nbytes(tensor) == sizeof got);
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  EXPECT(memcmp(got, wanted, sizeof got) == 0);
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  torchacc_context* context;
  torchacc_options options = {.struct_size = sizeof options};
  options.cache_folder = str("off");
  OK(torchacc_context_new(&options, &context));
  const float data[6] = {1, -2, 3, 4, -5, 6};
  torchacc_tensor* x = floats(context, data, 2, 3);
  torchacc_arg args[2] = {tensor_arg(x), scalar_arg(1)};
  torchacc_graph* graph;
  OK(torchacc_graph_parse(str("module { func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {"
                              "  %y = stablehlo.negate %x : tensor<2x3xf32>"
                              "  return %y : tensor<2x3xf32> } }"),
                          &graph));
  torchacc_tensor *y, *untouched = y = x;
  const torchacc_str none = {NULL, 0}, plugin = str(arguments[1]);
  FAILS_SAYING(
      TORCHACC_NOT_FOUND, "no such file",
      torchacc_graph_run_on_openxla(context, graph, str("/nowhere/plugin.so"), args, 1, &y, 1));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_run_on_openxla(context, graph, plugin, args, 0, &y, 1));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_run_on_openxla(context, graph, plugin, args, 1, &y, 2));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_run_on_openxla(context, graph, plugin, args, 1, NULL, 1));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_run_on_openxla(context, NULL, plugin, args, 1, &y, 1));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_graph_run_on_openxla(NULL, graph, plugin, args, 1, &y, 1));
  EXPECT(y == untouched);
  for (int i = 0; i < 2; ++i) {
    OK(torchacc_graph_run_on_openxla(context, graph, i ? plugin : none, args, 1, &y, 1));
    expect_negated(y);
    torchacc_tensor_release(y);
  }
  torchacc_graph_free(graph);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
