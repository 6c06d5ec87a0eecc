/* How much memory a context has, and giving back what it keeps. */
#include "check.h"

enum { SIDE = 512, BYTES = SIDE * SIDE * 4 };

static torchacc_memory_stats stats_of(torchacc_context* context) {
  torchacc_memory_stats stats = {.struct_size = sizeof stats};
  OK(torchacc_context_memory_stats(context, &stats));
  EXPECT(stats.reserved_bytes >= stats.allocated_bytes);
  EXPECT(stats.peak_allocated_bytes >= stats.allocated_bytes);
  EXPECT(stats.peak_reserved_bytes >= stats.reserved_bytes);
  return stats;
}

/* x x x: what is between the products is memory of the program's. */
static float step(torchacc_context* context, torchacc_tensor* x) {
  static float got[SIDE * SIDE];
  torchacc_tensor *once, *twice;
  torchacc_arg args[2] = {tensor_arg(x), tensor_arg(x)};
  OK(torchacc_apply(context, op("matmul"), args, 2, &once, 1));
  args[0] = tensor_arg(once);
  OK(torchacc_apply(context, op("matmul"), args, 2, &twice, 1));
  torchacc_tensor_release(once);
  OK(torchacc_tensor_read(twice, got, sizeof got));
  torchacc_tensor_release(twice);
  return got[0];
}

int main(void) {
  torchacc_context* context;
  static float ones[SIDE * SIDE];
  for (int i = 0; i < SIDE * SIDE; ++i) ones[i] = 1;
  OK(torchacc_context_new(NULL, &context));
  torchacc_memory_stats none = stats_of(context);
  EXPECT(none.allocated_bytes == 0 && none.peak_reserved_bytes == 0);
  OK(torchacc_context_trim(context));

  torchacc_tensor* x = floats(context, ones, SIDE, SIDE);
  EXPECT(stats_of(context).allocated_bytes == BYTES);
  const float wanted = (float)SIDE * SIDE;
  EXPECT(step(context, x) == wanted);
  OK(torchacc_sync(context));
  const torchacc_memory_stats used = stats_of(context);
  /* x, and the program's own; the result's is kept. */
  EXPECT(used.allocated_bytes >= 2 * BYTES);
  EXPECT(used.reserved_bytes >= used.allocated_bytes + BYTES);

  OK(torchacc_context_trim(context));
  const torchacc_memory_stats trimmed = stats_of(context);
  EXPECT(trimmed.allocated_bytes == BYTES && trimmed.reserved_bytes == BYTES);
  EXPECT(trimmed.peak_allocated_bytes == used.peak_allocated_bytes);
  torchacc_context_reset_peak_memory(context);
  EXPECT(stats_of(context).peak_reserved_bytes == BYTES);
  EXPECT(step(context, x) == wanted);

  torchacc_tensor_release(x);
  OK(torchacc_context_trim(context));
  EXPECT(stats_of(context).reserved_bytes == 0);
  torchacc_context_reset_peak_memory(NULL);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_trim(NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_memory_stats(context, NULL));
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
