/* The log of compiles, warnings and strict mode, and a timeline, from C. */
#include "check.h"

static uint64_t place = 0;
static int warned = 0;

static uint64_t here(void* user) {
  (void)user;
  return ++place; /* A number of its own for every operation; its tens are the line. */
}

static uint64_t line(void* user, uint64_t site) {
  (void)user;
  return site < 10 ? site : site / 10 + 1;
}

static void warn(void* user, torchacc_str message, uint64_t site) {
  (void)user;
  EXPECT(message.len > 0 && site == 3);
  ++warned;
}

static int logged[3];

static void take(void* user, torchacc_log_level level, torchacc_str message, uint64_t site) {
  EXPECT(user == logged && (level == 1 || level == 2) && message.len > 0 && site > 0);
  ++logged[level];
}

static void dropped(void* user) { ++*(int*)user; }

static int contains(torchacc_string* text, const char* part) {
  torchacc_str view = torchacc_string_view(text);
  char* copy = calloc(view.len + 1, 1);
  memcpy(copy, view.data, view.len);
  int found = strstr(copy, part) != NULL;
  free(copy);
  torchacc_string_free(text);
  return found;
}

/* Negates ones of `rank` dimensions, two elements each; the error of reading it. */
static torchacc_error* run(torchacc_context* context, torchacc_op negate, uint32_t rank) {
  const int64_t sizes[] = {2, 2, 2, 2, 2};
  float data[32], got[32];
  for (int i = 0; i < 32; ++i) data[i] = 1;
  torchacc_tensor *x, *y;
  const size_t count = (size_t)1 << rank, nbytes = count * sizeof(float);
  OK(torchacc_tensor_from_host(context, TORCHACC_F32, sizes, rank, data, nbytes, &x));
  torchacc_arg arg = tensor_arg(x);
  OK(torchacc_apply(context, negate, &arg, 1, &y, 1));
  torchacc_error* error = torchacc_tensor_read(y, got, nbytes);
  if (error) OK(torchacc_tensor_read(y, got, nbytes)); /* Nothing is lost. */
  EXPECT(got[count - 1] == -1);
  torchacc_tensor_release(x);
  torchacc_tensor_release(y);
  return error;
}

int main(void) {
  torchacc_context* context;
  torchacc_string* text;
  torchacc_options options = {.struct_size = sizeof options, .log = take, .log_user = logged};
  options.deterministic = 1;
  options.log_drop = dropped;
  OK(torchacc_context_new(&options, &context));
  OK(torchacc_devices((torchacc_str){0}, &text));
  EXPECT(contains(text, "[{\"backend\": \"cpu\", \"instructions\": \""));
  OK(torchacc_context_set_locator(context, here, NULL, NULL));
  OK(torchacc_context_set_observer(context, line, warn, NULL, NULL));
  OK(torchacc_set_recompile_limit(context, 1));
  const torchacc_op neg = op("aten::neg");
  OK(torchacc_profile_start(context));
  for (uint32_t rank = 1; rank < 5; ++rank) {
    place = 20 + rank; /* All of them on line 3. */
    OK(run(context, neg, rank));
  }
  EXPECT(warned == 1 && logged[1] == 1 && logged[2] >= 2 && logged[0] == 0);
  OK(torchacc_explain(context, &text));
  EXPECT(contains(text, "shape of argument 0 of aten::neg was [2, 2], before [2]"));
  OK(torchacc_profile_stop(context, &text));
  EXPECT(contains(text, "\"traceEvents\": [{"));

  OK(torchacc_set_strict(context, TORCHACC_STRICT_RECOMPILES));
  place = 27;
  torchacc_error* error = run(context, neg, 5);
  EXPECT(torchacc_error_code(error) == TORCHACC_STRICT && torchacc_error_site(error) == 3);
  torchacc_error_free(error);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_set_strict(context, 99));
  OK(run(context, neg, 5));
  torchacc_context_release(context);
  EXPECT(logged[0] == 1);
  puts("ok");
  return 0;
}
