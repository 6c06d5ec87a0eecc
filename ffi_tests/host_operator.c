/* An operator written in C: it sees dense arrays and this call's numbers, and its errors come back
 * with the call site that recorded it. */
#include "check.h"

static int drops = 0, calls = 0;

static void dropped(void* user) { ++*(int*)user; }

static uint64_t here(void* user) { return *(const uint64_t*)user; }

static torchacc_error* scale(void* user, const torchacc_arg* args, size_t n_args,
                             const torchacc_host_tensor* outs, size_t n_outs) {
  (void)user;
  ++calls;
  if (n_args != 2 || n_outs != 1)
    return torchacc_error_new(TORCHACC_OPERATOR_ERROR, str("arguments"));
  return times(args, outs);
}

static torchacc_error* same_shape(void* user, const torchacc_arg* args, size_t n_args,
                                  torchacc_type* outs, size_t n_outs) {
  (void)user;
  if (n_args != 2 || n_outs != 1 || args[0].kind != TORCHACC_ARG_VIEW)
    return torchacc_error_new(TORCHACC_INVALID_ARGUMENT, str("one array and a factor"));
  const torchacc_host_tensor* x = args[0].v.p;
  outs[0].dtype = x->dtype;
  outs[0].rank = x->rank;
  memcpy(outs[0].sizes, x->sizes, x->rank * sizeof *x->sizes);
  return NULL;
}

/* Calls the library, which it must not: no call waits for the thread that it runs on. */
static torchacc_context* own_context;

static torchacc_error* calls_back(void* user, const torchacc_arg* args, size_t n_args,
                                  const torchacc_host_tensor* outs, size_t n_outs) {
  (void)user, (void)args, (void)n_args, (void)n_outs;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_sync(own_context));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_cut(own_context));
  memset(outs[0].data, 0, 4);
  return torchacc_sync(own_context);
}

static torchacc_error* shape_that_calls_back(void* user, const torchacc_arg* args, size_t n_args,
                                             torchacc_type* outs, size_t n_outs) {
  (void)user, (void)args, (void)n_args, (void)n_outs;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_sync(own_context));
  outs[0].dtype = TORCHACC_F32;
  outs[0].rank = 0;
  return NULL;
}

static void callbacks_that_call_the_library(torchacc_context* context) {
  own_context = context;
  torchacc_host_op definition = {.struct_size = sizeof definition,
                                 .name = str("mine::calls_back"),
                                 .key = str("mine::calls_back"),
                                 .function = calls_back,
                                 .shape = shape_that_calls_back};
  torchacc_op number;
  OK(torchacc_op_register_host(&definition, &number));
  const torchacc_arg nothing = {TORCHACC_ARG_NONE, 0, {0}};
  torchacc_tensor* made;
  OK(torchacc_apply(context, number, &nothing, 1, &made, 1));
  float got;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_read(made, &got, sizeof got));
  torchacc_tensor_release(made);
  OK(torchacc_sync(context));
}

int main(void) {
  torchacc_context* context;
  OK(torchacc_context_new(NULL, &context));
  uint64_t place = 4711;
  OK(torchacc_context_set_locator(context, here, &place, NULL));
  torchacc_op op_scale, again;
  torchacc_host_op definition = {.struct_size = sizeof definition,
                                 .name = str("mine::scale"),
                                 .key = str("mine::scale/1"),
                                 .function = scale,
                                 .shape = same_shape,
                                 .user = &drops,
                                 .drop = dropped};
  OK(torchacc_op_register_host(&definition, &op_scale));
  OK(torchacc_op_register_host(&definition, &again));
  EXPECT(op_scale == again && drops == 1);

  const float data[6] = {1, 2, 3, 4, 5, 6};
  torchacc_tensor* x = floats(context, data, 2, 3);
  torchacc_view whole;
  OK(torchacc_tensor_view(x, &whole));
  /* A transposed view in, a column of the result out: the operator sees dense arrays all the same.
   */
  int64_t sizes[2] = {3, 2}, strides[2] = {1, 3};
  torchacc_view transposed = {whole.buffer, sizes, strides, 0, 2, TORCHACC_F32};
  torchacc_buffer* result;
  OK(torchacc_buffer_new(context, 48, &result));
  int64_t wide[2] = {4, 2};
  torchacc_view target = {result, sizes, wide, 1, 2, TORCHACC_F32};
  torchacc_arg args[2] = {{TORCHACC_ARG_VIEW, 0, {0}}, scalar_arg(2)};
  args[0].v.p = &transposed;
  OK(torchacc_record(context, op_scale, args, 2, &target, 1));
  float got[12];
  OK(torchacc_buffer_read(result, 0, got, sizeof got));
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) EXPECT(got[1 + 4 * i + 2 * j] == 2 * data[j * 3 + i]);
  }
  EXPECT(got[0] == 0 && got[2] == 0 && calls == 1);

  /* By its shape rule it makes tensors, of new sizes too; what the rule refuses is not recorded. */
  torchacc_arg apply_args[2] = {tensor_arg(x), scalar_arg(0.5)};
  torchacc_tensor* halves;
  OK(torchacc_apply(context, op_scale, apply_args, 2, &halves, 1));
  float half[6];
  OK(torchacc_tensor_read(halves, half, sizeof half));
  for (int i = 0; i < 6; ++i) EXPECT(half[i] == data[i] / 2);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, op_scale, apply_args, 1, &halves, 1));
  torchacc_tensor_release(halves);

  /* A failure surfaces at the read, with its call site; what the buffer held stays; the context
   * goes on. */
  args[1] = scalar_arg(-1);
  OK(torchacc_record(context, op_scale, args, 2, &target, 1));
  torchacc_error* error = torchacc_sync(context);
  EXPECT(torchacc_error_code(error) == TORCHACC_OPERATOR_ERROR &&
         torchacc_error_site(error) == place);
  torchacc_str text = torchacc_error_message(error);
  char copy[512] = {0};
  memcpy(copy, text.data, text.len < 511 ? text.len : 511);
  EXPECT(strstr(copy, "mine::scale") && strstr(copy, "a negative factor"));
  torchacc_error_free(error);
  float after[12];
  OK(torchacc_buffer_read(result, 0, after, sizeof after));
  EXPECT(memcmp(after, got, sizeof got) == 0);
  OK(torchacc_sync(context));

  callbacks_that_call_the_library(context);
  torchacc_buffer_release(result);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
