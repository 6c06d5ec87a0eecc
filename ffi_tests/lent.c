/* Memory that crosses without a copy, both ways, and values that come by callback. */
#define _GNU_SOURCE
#include <unistd.h>

#include "check.h"
#include "dlpack.h"

static int drops = 0;

static void dropped(void* user) { __atomic_add_fetch((int*)user, 1, __ATOMIC_ACQ_REL); }

/* What a program has read goes soon after, on another thread. */
static void expect_drops(int wanted) {
  for (int i = 0; i < 60000; ++i) {
    if (__atomic_load_n(&drops, __ATOMIC_ACQUIRE) == wanted) return;
    usleep(1000);
  }
  EXPECT(!"memory that nothing uses was given back");
}

static void deleted(DLManagedTensorVersioned* self) {
  ++drops;
  if (self->manager_ctx) *(int*)self->manager_ctx = 1;
}

static torchacc_tensor* doubled(torchacc_context* context, torchacc_tensor* x) {
  torchacc_tensor* y;
  torchacc_arg args[2] = {tensor_arg(x), tensor_arg(x)};
  OK(torchacc_apply(context, op("add"), args, 2, &y, 1));
  return y;
}

static void borrowed(torchacc_context* context) {
  _Alignas(64) float data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const int64_t sizes[2] = {2, 3}, strides[2] = {1, 4}, three[2] = {3, 3};
  float got[6];
  torchacc_tensor* x;
  drops = 0;
  OK(torchacc_tensor_borrow(context, TORCHACC_F32, sizes, strides, 2, data, sizeof data, &drops,
                            dropped, &x));
  torchacc_tensor* y = doubled(context, x);
  OK(torchacc_tensor_read(y, got, sizeof got));
  const float wanted[6] = {2, 10, 18, 4, 12, 20};
  EXPECT(memcmp(got, wanted, sizeof got) == 0 && drops == 0);
  /* In place, twice, with full cuts: never into the caller's memory. */
  for (int turn = 0; turn < 3; ++turn) {
    torchacc_arg args[2] = {tensor_arg(x), tensor_arg(x)};
    OK(torchacc_apply_into(context, op("add"), args, 2, &x, 1));
    OK(torchacc_cut(context));
  }
  OK(torchacc_tensor_read(x, got, sizeof got));
  EXPECT(got[0] == 8 && got[5] == 80);
  expect_drops(1);
  for (int i = 0; i < 12; ++i) EXPECT(data[i] == (float)(i + 1));
  torchacc_tensor_release(x);
  torchacc_tensor_release(y);
  EXPECT(drops == 1);

  /* Where the alignment does not serve, a copy, and the memory back at once. On an error too. */
  OK(torchacc_tensor_borrow(context, TORCHACC_F32, sizes, NULL, 2, data + 1, 24, &drops, dropped,
                            &x));
  EXPECT(drops == 2);
  data[1] = 100;
  OK(torchacc_tensor_read(x, got, sizeof got));
  EXPECT(got[0] == 2 && got[5] == 7);
  torchacc_tensor_release(x);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_borrow(context, TORCHACC_F32, three, NULL, 2,
                                                          data, 32, &drops, dropped, &x));
  EXPECT(drops == 3);
}

static torchacc_context* shared;

static void dropped_after_sync(void* user) {
  OK(torchacc_sync(shared));
  dropped(user);
}

/* The last one to use the memory is a program, and who gets it back waits for all programs. */
static void patient(torchacc_context* context) {
  _Alignas(64) float data[4] = {1, 2, 3, 4};
  const int64_t sizes[1] = {4};
  float got[4];
  torchacc_tensor* x;
  drops = 0;
  shared = context;
  for (int turn = 1; turn <= 3; ++turn) {
    OK(torchacc_tensor_borrow(context, TORCHACC_F32, sizes, NULL, 1, data, sizeof data, &drops,
                              dropped_after_sync, &x));
    torchacc_tensor* y = doubled(context, x);
    torchacc_tensor_release(x);
    OK(torchacc_cut(context));
    expect_drops(turn);
    OK(torchacc_tensor_read(y, got, sizeof got));
    EXPECT(got[0] == 2 && got[3] == 8);
    torchacc_tensor_release(y);
  }
}

static DLManagedTensorVersioned array_of(float* data, int64_t* shape, int64_t* strides) {
  DLManagedTensorVersioned managed = {.version = {1, 1},
                                      .deleter = deleted,
                                      .array = {.data = data,
                                                .device_type = 1,
                                                .ndim = 2,
                                                .code = 2,
                                                .bits = 32,
                                                .lanes = 1,
                                                .shape = shape,
                                                .strides = strides,
                                                .byte_offset = 16}};
  return managed;
}

static void dlpack_in(torchacc_context* context) {
  _Alignas(64) float data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  int64_t shape[2] = {2, 2}, strides[2] = {4, 1};
  float got[4];
  torchacc_tensor* x;
  drops = 0;
  DLManagedTensorVersioned managed = array_of(data, shape, strides);
  OK(torchacc_tensor_from_dlpack(context, &managed, &x));
  OK(torchacc_tensor_read(x, got, sizeof got));
  EXPECT(got[0] == 5 && got[1] == 6 && got[2] == 9 && got[3] == 10 && drops == 0);
  torchacc_tensor_release(x);
  EXPECT(drops == 1);

  /* What is not understood is refused, and given back. */
  managed = array_of(data, shape, strides);
  managed.version.major = 2;
  FAILS(TORCHACC_UNSUPPORTED, torchacc_tensor_from_dlpack(context, &managed, &x));
  managed = array_of(data, shape, strides);
  managed.array.device_type = 2;
  FAILS(TORCHACC_UNSUPPORTED, torchacc_tensor_from_dlpack(context, &managed, &x));
  managed = array_of(data, shape, strides);
  managed.array.lanes = 4;
  FAILS(TORCHACC_UNSUPPORTED, torchacc_tensor_from_dlpack(context, &managed, &x));
  managed = array_of(data, shape, strides);
  strides[1] = -1;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_from_dlpack(context, &managed, &x));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_from_dlpack(context, NULL, &x));
  EXPECT(drops == 5);
}

static void dlpack_out(torchacc_context* context) {
  const float data[6] = {1, 2, 3, 4, 5, 6};
  const int64_t order[2] = {1, 0};
  torchacc_tensor *x = floats(context, data, 2, 3), *t;
  OK(torchacc_tensor_permute(x, order, 2, &t));
  DLManagedTensorVersioned *shared, *copy;
  OK(torchacc_tensor_to_dlpack(t, false, &shared));
  OK(torchacc_tensor_to_dlpack(t, true, &copy));
  EXPECT(shared->version.major == 1 && shared->flags == 1 && copy->flags == 2);
  EXPECT(shared->array.shape[0] == 3 && shared->array.strides[0] == 1);
  EXPECT(shared->array.code == 2 && shared->array.bits == 32 && shared->array.device_type == 1);
  EXPECT(copy->array.strides[0] == 2 && ((float*)copy->array.data)[1] == 4);
  /* The memory that is seen from outside stays, whatever is done to the tensor. */
  for (int turn = 0; turn < 3; ++turn) {
    torchacc_arg args[2] = {tensor_arg(x), tensor_arg(x)};
    OK(torchacc_apply_into(context, op("add"), args, 2, &x, 1));
    OK(torchacc_cut(context));
  }
  OK(torchacc_sync(context));
  EXPECT(memcmp(shared->array.data, data, sizeof data) == 0);
  /* Back into a tensor of another context, and all handles gone in between. */
  torchacc_context* other;
  torchacc_tensor* y;
  OK(torchacc_context_new(NULL, &other));
  OK(torchacc_tensor_from_dlpack(other, shared, &y));
  torchacc_tensor_release(x);
  torchacc_tensor_release(t);
  torchacc_context_release(context);
  float got[6];
  OK(torchacc_tensor_read(y, got, sizeof got));
  EXPECT(got[0] == 1 && got[1] == 4 && got[5] == 6);
  torchacc_tensor_release(y);
  torchacc_context_release(other);
  copy->deleter(copy);
}

typedef struct {
  float value;
  int failed;
  int calls;
} Told;

static void told(void* user, const torchacc_error* error, const void* data, size_t len) {
  Told* to = user;
  to->failed = error != NULL;
  EXPECT(error ? data == NULL : len == sizeof(float));
  if (!error) memcpy(&to->value, data, sizeof(float));
  __atomic_add_fetch(&to->calls, 1, __ATOMIC_ACQ_REL);
}

static void later(void) {
  torchacc_context* context;
  OK(torchacc_context_new(NULL, &context));
  const float one = 1;
  torchacc_tensor* x = floats(context, &one, 1, 1);
  Told values[8] = {{0, 0, 0}};
  drops = 0;
  for (int turn = 0; turn < 8; ++turn) {
    torchacc_arg args[2] = {tensor_arg(x), tensor_arg(x)};
    OK(torchacc_apply_into(context, op("add"), args, 2, &x, 1));
    OK(torchacc_cut(context));
    /* Written over by the next turn's program, which may not take this memory. */
    OK(torchacc_tensor_read_async(x, told, &values[turn], NULL));
  }
  OK(torchacc_tensor_read_async(x, told, &values[7], NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_read_async(x, NULL, &drops, dropped));
  EXPECT(drops == 1);
#ifdef TORCHACC_VERSION_MAJOR /* Not yet in the first header. */
  float copy = 0, copies[2];
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_tensor_copy_async(x, copies, sizeof copies, told, &drops, dropped));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_tensor_copy_async(x, NULL, sizeof copy, told, &drops, dropped));
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_tensor_copy_async(x, &copy, sizeof copy, NULL, &drops, dropped));
  EXPECT(drops == 4 && copy == 0);
#endif
  torchacc_tensor_release(x);
  torchacc_context_release(context); /* Waits for none of them. */
  for (int i = 0; i < 60000 && __atomic_load_n(&values[7].calls, __ATOMIC_ACQUIRE) < 2; ++i)
    usleep(1000);
  for (int turn = 0; turn < 8; ++turn) {
    EXPECT(!values[turn].failed && values[turn].value == (float)(2 << turn));
    EXPECT(values[turn].calls == (turn == 7 ? 2 : 1));
  }
}

/* Bytes of bools other than 0 and 1 count as 1, however they come. */
static void bools(torchacc_context* context) {
  _Alignas(64) uint8_t bytes[4] = {2, 3, 255, 0};
  const int64_t four[1] = {4};
  torchacc_tensor* given[3];
  drops = 0;
  OK(torchacc_tensor_from_host(context, TORCHACC_BOOL, four, 1, bytes, 4, &given[0]));
  OK(torchacc_tensor_borrow(context, TORCHACC_BOOL, four, NULL, 1, bytes, 4, &drops, dropped,
                            &given[1]));
  EXPECT(drops == 1);
  OK(torchacc_tensor_zeros(context, TORCHACC_BOOL, four, 1, &given[2]));
  OK(torchacc_tensor_write(given[2], bytes, 4));
  for (int i = 0; i < 3; ++i) {
    uint8_t got[4];
    int64_t total;
    torchacc_tensor* sum;
    torchacc_arg args[1] = {tensor_arg(given[i])};
    OK(torchacc_apply(context, op("aten::sum"), args, 1, &sum, 1));
    OK(torchacc_tensor_read(sum, &total, sizeof total));
    OK(torchacc_tensor_read(given[i], got, sizeof got));
    EXPECT(total == 3 && got[0] == 1 && got[2] == 1 && got[3] == 0);
    torchacc_tensor_release(sum);
    torchacc_tensor_release(given[i]);
  }
}

int main(void) {
  torchacc_context* context;
  OK(torchacc_context_new(NULL, &context));
  borrowed(context);
  patient(context);
  bools(context);
  dlpack_in(context);
  dlpack_out(context);
  later();
  puts("ok");
  return 0;
}
