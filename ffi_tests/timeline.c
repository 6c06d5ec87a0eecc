/* A timeline span by span, and for how long programs ran. */
#include "check.h"

static uint64_t here(void* user) {
  (void)user;
  return 12;
}

static int is(torchacc_str text, const char* wanted) {
  return text.len == strlen(wanted) && memcmp(text.data, wanted, text.len) == 0;
}

static void take(void* user, const torchacc_span* span) {
  EXPECT(span->struct_size >= sizeof *span && span->begin_ns <= span->end_ns && span->thread > 0);
  EXPECT(span->details.len >= 2 && span->details.data[0] == '{');
  if (!is(span->category, "kernel")) return;
  EXPECT(is(span->name, "aten::neg") && span->site == 12);
  ++*(int*)user;
}

static void negate(torchacc_context* context) {
  const int64_t size = 3;
  const float data[] = {1, 2, 3};
  float got[3];
  torchacc_tensor *x, *y;
  OK(torchacc_tensor_from_host(context, TORCHACC_F32, &size, 1, data, sizeof data, &x));
  torchacc_arg arg = tensor_arg(x);
  OK(torchacc_apply(context, op("aten::neg"), &arg, 1, &y, 1));
  OK(torchacc_tensor_read(y, got, sizeof got));
  EXPECT(got[2] == -3);
  torchacc_tensor_release(x);
  torchacc_tensor_release(y);
}

int main(void) {
  torchacc_context* context;
  int kernels = 0;
  uint64_t before, busy, lost = 7;
  OK(torchacc_context_new(NULL, &context));
  OK(torchacc_context_set_locator(context, here, NULL, NULL));
  OK(torchacc_busy_ns(context, &before));
  EXPECT(before == 0);
  OK(torchacc_profile_start(context));
  negate(context);
  OK(torchacc_sync(context));
  OK(torchacc_profile_visit(context, take, &kernels, &lost));
  EXPECT(kernels == 1 && lost == 0);
  OK(torchacc_busy_ns(context, &before));
  EXPECT(before > 0);
  /* Nothing resets it. */
  torchacc_metrics_reset(context);
  OK(torchacc_busy_ns(context, &busy));
  EXPECT(busy == before);
  negate(context);
  OK(torchacc_sync(context));
  OK(torchacc_busy_ns(context, &busy));
  EXPECT(busy > before);

  /* It was stopped. */
  OK(torchacc_profile_visit(context, take, &kernels, NULL));
  EXPECT(kernels == 1);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_profile_visit(context, NULL, NULL, NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_profile_visit(NULL, take, &kernels, NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_busy_ns(context, NULL));
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
