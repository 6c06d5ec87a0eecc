/* What a tensor is, views of it, writes through them, results in place, names, random numbers. */
#include "check.h"

static torchacc_arg random_arg(void) {
  torchacc_arg arg = {TORCHACC_ARG_RANDOM, 0, {0}};
  return arg;
}

static void expect(const torchacc_tensor* tensor, const float* wanted, int64_t count) {
  float got[64];
  EXPECT(torchacc_tensor_numel(tensor) == count);
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  for (int64_t i = 0; i < count; ++i) EXPECT(got[i] == wanted[i]);
}

static void views(torchacc_context* context) {
  const float data[6] = {1, 2, 3, 4, 5, 6};
  torchacc_tensor *x = floats(context, data, 2, 3), *t, *odd, *flat, *wide, *none = NULL;
  EXPECT(torchacc_tensor_dtype(x) == TORCHACC_F32 && torchacc_tensor_rank(x) == 2);
  EXPECT(torchacc_tensor_sizes(x)[0] == 2 && torchacc_tensor_sizes(x)[1] == 3);
  EXPECT(torchacc_tensor_is_ready(x) && torchacc_tensor_dtype(NULL) == UINT32_MAX);
  const int64_t order[2] = {1, 0}, twice[2] = {0, 0}, six[1] = {6}, five[1] = {5};
  const int64_t four_rows[3] = {2, 2, 3}, other[2] = {2, 4};
  OK(torchacc_tensor_permute(x, order, 2, &t));
  expect(t, (const float[]){1, 4, 2, 5, 3, 6}, 6);
  OK(torchacc_tensor_slice(t, 0, 0, 2, 2, &odd));
  expect(odd, (const float[]){1, 4, 3, 6}, 4);
  OK(torchacc_tensor_reshape(x, six, 1, &flat));
  OK(torchacc_tensor_expand(x, four_rows, 3, &wide));
  expect(wide, (const float[]){1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, 12);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_permute(x, twice, 2, &none));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_permute(x, order, 1, &none));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_slice(x, 1, 1, 3, 1, &none));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_slice(x, 2, 0, 1, 1, &none));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_reshape(x, five, 1, &none));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_reshape(t, six, 1, &none));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_expand(x, other, 2, &none));

  /* A write to a view is seen through the others; to repeated elements there is none. */
  OK(torchacc_tensor_write(odd, (const float[]){10, 40, 30, 60}, 16));
  expect(flat, (const float[]){10, 2, 30, 40, 5, 60}, 6);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_write(odd, data, 12));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_write(wide, data, 48));

  /* Results in place: into a column, and into an argument. */
  torchacc_tensor* column;
  OK(torchacc_tensor_slice(x, 1, 1, 1, 1, &column));
  torchacc_arg args[3] = {tensor_arg(column), tensor_arg(column), scalar_arg(1)};
  OK(torchacc_apply_into(context, op("aten::add.Tensor"), args, 3, &column, 1));
  expect(flat, (const float[]){10, 4, 30, 40, 10, 60}, 6);
  args[0] = args[1] = tensor_arg(flat);
  OK(torchacc_apply_into(context, op("aten::mul.Tensor"), args, 2, &flat, 1));
  expect(x, (const float[]){100, 16, 900, 1600, 100, 3600}, 6);
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_apply_into(context, op("aten::mul.Tensor"), args, 2, &column, 1));
  torchacc_tensor* two[2] = {flat, flat};
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_apply_into(context, op("aten::mul.Tensor"), args, 2, two, 2));
  EXPECT(none == NULL);

  OK(torchacc_tensor_set_name(x, str("weights")));
  OK(torchacc_tensor_set_name(x, str("weights")));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_set_name(x, str("bias")));
  torchacc_str name = torchacc_tensor_name(x);
  EXPECT(name.len == 7 && memcmp(name.data, "weights", 7) == 0 && !torchacc_tensor_name(t).len);
  torchacc_tensor* all[] = {x, t, odd, flat, wide, column};
  for (int i = 0; i < 6; ++i) torchacc_tensor_release(all[i]);
}

static void draw(torchacc_context* context, const char* name, int at_end, float* out) {
  float ones[48];
  for (int i = 0; i < 48; ++i) ones[i] = 1;
  torchacc_tensor *x = floats(context, ones, 6, 8), *y[2] = {NULL, NULL};
  torchacc_arg args[4] = {tensor_arg(x), scalar_arg(at_end ? 0.5 : 0.0), scalar_arg(1),
                          random_arg()};
  if (at_end) args[2] = (torchacc_arg){TORCHACC_ARG_BOOL, 0, {.i = 1}};
  OK(torchacc_apply(context, op(name), args, 4, y, at_end ? 2 : 1));
  OK(torchacc_tensor_read(y[0], out, 48 * sizeof *out));
  torchacc_tensor_release(x);
  torchacc_tensor_release(y[0]);
  torchacc_tensor_release(y[1]);
}

static void random_numbers(torchacc_context* context) {
  float first[48], second[48], again[48], dropped[48];
  OK(torchacc_seed(context, 7));
  draw(context, "aten::uniform", 0, first);
  draw(context, "aten::uniform", 0, second);
  OK(torchacc_seed(context, 7));
  draw(context, "aten::uniform", 0, again);
  EXPECT(memcmp(first, again, sizeof first) == 0 && memcmp(first, second, sizeof first) != 0);
  double sum = 0;
  for (int i = 0; i < 48; ++i) {
    EXPECT(first[i] >= 0 && first[i] < 1);
    sum += first[i] + second[i];
  }
  EXPECT(sum > 30 && sum < 66); /* The mean of 96, five deviations around. */
  draw(context, "native_dropout", 1, dropped);
  int kept = 0;
  for (int i = 0; i < 48; ++i) {
    EXPECT(dropped[i] == 0 || dropped[i] == 2);
    kept += dropped[i] == 2;
  }
  EXPECT(kept > 6 && kept < 42);
}

static void signatures(void) {
  torchacc_string* text;
  OK(torchacc_op_signature(op("aten::add.Tensor"), &text));
  torchacc_str view = torchacc_string_view(text);
  char* copy = calloc(view.len + 1, 1);
  memcpy(copy, view.data, view.len);
  EXPECT(strstr(copy, "{\"name\": \"alpha\", \"type\": \"scalar\", \"default\": 1}"));
  free(copy);
  torchacc_string_free(text);
  for (torchacc_op number = 0; number < torchacc_op_count(); ++number) {
    OK(torchacc_op_signature(number, &text));
    EXPECT(torchacc_string_view(text).len > 50);
    torchacc_string_free(text);
  }
  FAILS(TORCHACC_NOT_FOUND, torchacc_op_signature((torchacc_op)torchacc_op_count(), &text));
  EXPECT(op("gelu") == op("aten::gelu"));
}

int main(void) {
  torchacc_context* context;
  OK(torchacc_context_new(NULL, &context));
  views(context);
  random_numbers(context);
  signatures();
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
