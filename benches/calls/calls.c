/* What a call costs through the C ABI when the step is known: `make bench-calls`.
 *
 * A step is a chain of additions on small tensors, which the backend "null" does not compute, so
 * what is measured is the thread that records. Each figure is the median of all steps, in
 * nanoseconds a call, and how many times a call that does nothing. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "torchacc.h"

enum { CALLS = 1000, STEPS = 400, KNOWN = 50 };

static void ok(torchacc_error* error) {
  if (error == NULL) return;
  torchacc_str text = torchacc_error_message(error);
  fprintf(stderr, "%.*s\n", (int)text.len, text.data);
  exit(1);
}

static torchacc_str str(const char* text) { return (torchacc_str){text, strlen(text)}; }

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

typedef struct {
  torchacc_context* context;
  torchacc_op add;
  torchacc_tensor *x, *y;
  torchacc_view views[2];
} state;

static torchacc_tensor* made(torchacc_context* context) {
  const float data[4] = {1, 2, 3, 4};
  const int64_t size = 4;
  torchacc_tensor* tensor;
  ok(torchacc_tensor_from_host(context, TORCHACC_F32, &size, 1, data, sizeof data, &tensor));
  return tensor;
}

static torchacc_arg tensor_arg(const torchacc_tensor* tensor) {
  torchacc_arg arg = {TORCHACC_ARG_TENSOR, 0, {0}};
  arg.v.p = tensor;
  return arg;
}

static void nothing(const state* s) {
  (void)s;
  torchacc_abi_version();
}

static void record(const state* s) {
  torchacc_arg args[2] = {{TORCHACC_ARG_VIEW, 0, {0}}, {TORCHACC_ARG_VIEW, 0, {0}}};
  args[0].v.p = &s->views[0];
  args[1].v.p = &s->views[1];
  ok(torchacc_record(s->context, s->add, args, 2, &s->views[0], 1));
}

static void apply(const state* s) {
  const torchacc_arg args[2] = {tensor_arg(s->x), tensor_arg(s->y)};
  torchacc_tensor* out;
  ok(torchacc_apply(s->context, s->add, args, 2, &out, 1));
  torchacc_tensor_release(out);
}

static void apply_into(const state* s) {
  const torchacc_arg args[2] = {tensor_arg(s->x), tensor_arg(s->y)};
  ok(torchacc_apply_into(s->context, s->add, args, 2, &s->x, 1));
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Nanoseconds a call. */
static double median(const state* s, void (*call)(const state*)) {
  static double steps[STEPS];
  for (int step = -KNOWN; step < STEPS; ++step) {
    const double start = now();
    for (int i = 0; i < CALLS; ++i) call(s);
    if (step >= 0) steps[step] = (now() - start) / CALLS;
    ok(torchacc_sync(s->context));
  }
  qsort(steps, STEPS, sizeof *steps, ascending);
  return steps[STEPS / 2];
}

int main(void) {
  state s;
  torchacc_options options = {.struct_size = sizeof options, .backend = str("null")};
  options.cache_folder = str("off");
  ok(torchacc_context_new(&options, &s.context));
  ok(torchacc_op_find(str("aten::add.Tensor"), &s.add));
  s.x = made(s.context);
  s.y = made(s.context);
  ok(torchacc_tensor_view(s.x, &s.views[0]));
  ok(torchacc_tensor_view(s.y, &s.views[1]));
  static const struct {
    const char* name;
    void (*call)(const state*);
  } cases[] = {{"torchacc_record", record},
               {"torchacc_apply_into", apply_into},
               {"torchacc_apply and _release", apply}};
  const double floor = median(&s, nothing);
  printf("%-28s %7.1f ns\n", "a call that does nothing", floor);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const double each = median(&s, cases[i].call);
    printf("%-28s %7.1f ns, %6.0f times that\n", cases[i].name, each, each / floor);
  }
  torchacc_tensor_release(s.x);
  torchacc_tensor_release(s.y);
  torchacc_context_release(s.context);
  return 0;
}
