/* Two tensors, added and multiplied, many times over: values, compile counts, and other backends.
 */
#include <math.h>

#include "check.h"

static void on(const char* backend) {
  torchacc_options options = {.struct_size = sizeof options};
  options.backend = str(backend);
  torchacc_context* context;
  OK(torchacc_context_new(&options, &context));
  const float left[6] = {1, 2, 3, 4, 5, 6};
  const float right[6] = {0.5f, -1, 2, 3, -2, 1};
  torchacc_op add = op("aten::add.Tensor"), mm = op("aten::mm");
  for (int step = 0; step < 3; ++step) {
    torchacc_tensor *a = floats(context, left, 2, 3), *b = floats(context, right, 2, 3);
    torchacc_tensor* w = floats(context, right, 3, 2);
    torchacc_tensor *sum, *product;
    /* alpha differs at every step, and nothing is compiled again. */
    torchacc_arg add_args[3] = {tensor_arg(a), tensor_arg(b), scalar_arg(step + 0.25)};
    OK(torchacc_apply(context, add, add_args, 3, &sum, 1));
    torchacc_arg mm_args[2] = {tensor_arg(sum), tensor_arg(w)};
    OK(torchacc_apply(context, mm, mm_args, 2, &product, 1));
    OK(torchacc_cut(context));
    float got[6], got_product[4];
    OK(torchacc_tensor_read(sum, got, sizeof got));
    OK(torchacc_tensor_read(product, got_product, sizeof got_product));
    for (int i = 0; i < 6; ++i) {
      EXPECT(fabsf(got[i] - (left[i] + (step + 0.25f) * right[i])) < 1e-5f);
    }
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        float expected = 0;
        for (int k = 0; k < 3; ++k) expected += got[i * 3 + k] * right[k * 2 + j];
        EXPECT(fabsf(got_product[i * 2 + j] - expected) < 1e-4f);
      }
    }
    torchacc_tensor_release(a);
    torchacc_tensor_release(b);
    torchacc_tensor_release(w);
    torchacc_tensor_release(sum);
    torchacc_tensor_release(product);
  }
  EXPECT(metric(context, "\"compiles\"") == 1);
  EXPECT(metric(context, "\"cache_hits\"") == 2);
  EXPECT(metric(context, "\"replayed_ops\"") == 4);
  /* Begins like the known step, with another shape. */
  torchacc_tensor *a = floats(context, left, 3, 1), *b = floats(context, right, 3, 1), *sum;
  torchacc_arg add_args[3] = {tensor_arg(a), tensor_arg(b), scalar_arg(0.5)};
  OK(torchacc_apply(context, add, add_args, 3, &sum, 1));
  float got[3];
  OK(torchacc_tensor_read(sum, got, sizeof got));
  for (int i = 0; i < 3; ++i) EXPECT(fabsf(got[i] - (left[i] + 0.5f * right[i])) < 1e-5f);
  EXPECT(metric(context, "\"replayed_ops\"") == 4);
  torchacc_tensor_release(a);
  torchacc_tensor_release(b);
  torchacc_tensor_release(sum);
  EXPECT(metric(context, "\"live_buffers\"") == 0);
  torchacc_context_release(context);
}

int main(void) {
  EXPECT(torchacc_abi_version() == TORCHACC_ABI);
  on("cpu");
  on("reference");
  puts("ok");
  return 0;
}
