/* Memory of the program's own allocator, functions that take a device's memory, and what others
 * call it. Run with the backends to try, of which "emulated" is a device. */
#define _GNU_SOURCE
#include <unistd.h>

#include "check.h"
#include "dlpack.h"

enum { SIDE = 256, COUNT = SIDE * SIDE };

typedef struct {
  torchacc_device device;
  size_t live, peak, limit;
  int calls, drops;
} Arena;

static void* allocate(void* user, const torchacc_device* device, size_t nbytes) {
  Arena* arena = user;
  EXPECT(nbytes > 0 && device->struct_size == sizeof *device);
  EXPECT(device->device_type == arena->device.device_type &&
         device->stream == arena->device.stream && device->is_host == arena->device.is_host);
  ++arena->calls;
  if (arena->live + nbytes > arena->limit) return NULL;
  arena->live += nbytes;
  if (arena->live > arena->peak) arena->peak = arena->live;
  return aligned_alloc(64, (nbytes + 63) / 64 * 64);
}

static void deallocate(void* user, const torchacc_device* device, void* memory, size_t nbytes) {
  (void)device;
  ((Arena*)user)->live -= nbytes;
  free(memory);
}

static void dropped(void* user) { ++((Arena*)user)->drops; }

/* What is not allocated is not aligned. */
static void* crooked(void* user, const torchacc_device* device, size_t nbytes) {
  char* memory = allocate(user, device, nbytes + 8);
  return memory ? memory + 8 : NULL;
}

static void straight(void* user, const torchacc_device* device, void* memory, size_t nbytes) {
  deallocate(user, device, (char*)memory - 8, nbytes + 8);
}

static torchacc_context* opened(const char* backend) {
  torchacc_context* context;
  torchacc_options options = {.struct_size = sizeof options, .backend = str(backend)};
  OK(torchacc_context_new(&options, &context));
  return context;
}

static torchacc_device device_of(torchacc_context* context) {
  torchacc_device device = {.struct_size = sizeof device};
  OK(torchacc_context_device(context, &device));
  return device;
}

static torchacc_tensor* applied(torchacc_context* context, const char* name, torchacc_tensor* a,
                                torchacc_tensor* b) {
  torchacc_tensor* made;
  torchacc_arg args[2] = {tensor_arg(a), tensor_arg(b)};
  OK(torchacc_apply(context, op(name), args, 2, &made, 1));
  return made;
}

static void allocates(const char* backend) {
  static float data[COUNT];
  for (int i = 0; i < COUNT; ++i) data[i] = (float)(i % 7);
  torchacc_context* context = opened(backend);
  Arena arena = {.device = device_of(context), .limit = SIZE_MAX};
  torchacc_allocator allocator = {
      .struct_size = sizeof allocator, .allocate = allocate, .user = &arena, .drop = dropped};
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_set_allocator(context, &allocator));
  EXPECT(arena.drops == 1);
  allocator.free = deallocate;
  OK(torchacc_context_set_allocator(context, &allocator));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_set_allocator(context, &allocator));
  EXPECT(arena.drops == 2 && arena.calls == 0);

  torchacc_tensor* x = floats(context, data, SIDE, SIDE);
  EXPECT(arena.live >= sizeof data && arena.live < sizeof data + 4096);
  torchacc_tensor* twice = applied(context, "add", x, x);
  float got[SIDE];
  torchacc_tensor* row;
  OK(torchacc_tensor_slice(twice, 0, 1, 1, 1, &row));
  OK(torchacc_tensor_read(row, got, sizeof got));
  for (int i = 0; i < SIDE; ++i) EXPECT(got[i] == 2 * data[SIDE + i]);
  EXPECT(arena.live >= 2 * sizeof data);
  torchacc_tensor_release(row);
  torchacc_tensor_release(twice);
  OK(torchacc_sync(context));

  /* Nothing is left: the OOM report of every time, in whose words; then all goes on. */
  arena.limit = arena.live;
  twice = applied(context, "add", x, x);
  torchacc_error* error = torchacc_tensor_read(twice, data, sizeof data);
  EXPECT(error && torchacc_error_code(error) == TORCHACC_OUT_OF_MEMORY);
  char text[4096] = {0};
  torchacc_str message = torchacc_error_message(error);
  memcpy(text, message.data, message.len < 4095 ? message.len : 4095);
  torchacc_error_free(error);
  EXPECT(strstr(text, "the program's allocator has no more") && strstr(text, "In use are"));
  torchacc_tensor_release(twice);
  FAILS(TORCHACC_OUT_OF_MEMORY, torchacc_tensor_write(x, data, sizeof data));
  arena.limit = SIZE_MAX;
  OK(torchacc_sync(context));
  twice = applied(context, "add", x, x);
  OK(torchacc_tensor_read(twice, data, sizeof data));
  EXPECT(data[8] == 2);
  torchacc_tensor_release(twice);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
  EXPECT(arena.live == 0 && arena.drops == 3);

  context = opened(backend);
  x = floats(context, data, SIDE, SIDE);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_set_allocator(context, &allocator));
  EXPECT(arena.drops == 4);
  torchacc_tensor_release(x);
  torchacc_context_release(context);

  context = opened(backend);
  allocator.allocate = crooked;
  allocator.free = straight;
  OK(torchacc_context_set_allocator(context, &allocator));
  int64_t sizes[1] = {COUNT};
  FAILS(TORCHACC_OUT_OF_MEMORY,
        torchacc_tensor_from_host(context, TORCHACC_F32, sizes, 1, data, sizeof data, &x));
  torchacc_context_release(context);
  EXPECT(arena.live == 0 && arena.drops == 5);
}

typedef struct {
  int on_host, on_device;
  bool refuses;
} Calls;

static torchacc_error* on_host(void* user, const torchacc_arg* args, size_t n_args,
                               const torchacc_host_tensor* outs, size_t n_outs) {
  EXPECT(n_args == 2 && n_outs == 1);
  ++((Calls*)user)->on_host;
  return times(args, outs);
}

static torchacc_error* on_device(void* user, const torchacc_device* device,
                                 const torchacc_arg* args, size_t n_args,
                                 const torchacc_host_tensor* outs, size_t n_outs) {
  EXPECT(n_args == 2 && n_outs == 1 && !device->is_host);
  Calls* calls = user;
  ++calls->on_device;
  if (calls->refuses) {
    memset(outs[0].data, 0x7f, 4);
    return torchacc_error_new(TORCHACC_UNSUPPORTED, str("not here"));
  }
  return times(args, outs);
}

static void calls(const char* backend, const char* key) {
  Calls calls = {0};
  torchacc_context* context = opened(backend);
  const bool is_host = device_of(context).is_host;
  torchacc_host_op definition = {.struct_size = sizeof definition,
                                 .name = str("mine::scale"),
                                 .key = str(key),
                                 .function = on_host,
                                 .user = &calls,
                                 .device_function = on_device};
  torchacc_op op_scale;
  OK(torchacc_op_register_host(&definition, &op_scale));
  const float data[6] = {1, 2, 3, 4, 5, 6};
  torchacc_tensor* x = floats(context, data, 2, 3);
  torchacc_tensor* y = applied(context, "add", x, x);
  torchacc_view whole;
  OK(torchacc_tensor_view(y, &whole));
  /* A transposed view in, a column of the result out: dense arrays all the same. */
  int64_t sizes[2] = {3, 2}, strides[2] = {1, 3}, wide[2] = {4, 2};
  torchacc_view transposed = {whole.buffer, sizes, strides, 0, 2, TORCHACC_F32};
  torchacc_buffer* result;
  OK(torchacc_buffer_new(context, 48, &result));
  torchacc_view target = {result, sizes, wide, 1, 2, TORCHACC_F32};
  torchacc_arg args[2] = {{TORCHACC_ARG_VIEW, 0, {0}}, scalar_arg(0.5)};
  args[0].v.p = &transposed;
  float got[12];
  for (int turn = 1; turn <= 4; ++turn) {
    calls.refuses = turn > 2;
    OK(torchacc_record(context, op_scale, args, 2, &target, 1));
    OK(torchacc_cut(context));
    OK(torchacc_buffer_read(result, 0, got, sizeof got));
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 2; ++j) EXPECT(got[1 + 4 * i + 2 * j] == data[j * 3 + i]);
    }
    EXPECT(got[0] == 0 && got[2] == 0);
    EXPECT(metric(context, "\"host_calls\"") == turn);
    /* Said once that it cannot, a program asks no more. */
    const int device_calls = turn < 3 ? turn : 3, host_calls = turn < 3 ? 0 : turn - 2;
    if (is_host) EXPECT(calls.on_device == 0 && calls.on_host == turn);
    if (!is_host) EXPECT(calls.on_device <= device_calls + 1 && calls.on_host == host_calls);
    EXPECT(metric(context, "\"host_copies\"") == (is_host ? 0 : host_calls));
  }
  /* What it was to write keeps what it held; the context goes on. */
  calls.refuses = false;
  float before[12];
  memcpy(before, got, sizeof got);
  args[1] = scalar_arg(-1);
  OK(torchacc_record(context, op_scale, args, 2, &target, 1));
  FAILS(TORCHACC_OPERATOR_ERROR, torchacc_sync(context));
  OK(torchacc_buffer_read(result, 0, got, sizeof got));
  EXPECT(memcmp(got, before, sizeof got) == 0);
  OK(torchacc_sync(context));
  torchacc_buffer_release(result);
  torchacc_tensor_release(y);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
}

typedef struct {
  const void* memory;
  float values[6];
  int calls;
  bool fails;
} Work;

static torchacc_error* writes(void* user, const torchacc_device* device, void* memory,
                              size_t nbytes) {
  Work* work = user;
  EXPECT(device->struct_size == sizeof *device && nbytes == sizeof work->values);
  ++work->calls;
  if (work->fails) return torchacc_error_new(TORCHACC_OPERATOR_ERROR, str("no data"));
  memcpy(memory, work->values, nbytes);
  return NULL;
}

static torchacc_error* reads(void* user, const torchacc_device* device, void* memory,
                             size_t nbytes) {
  Work* work = user;
  EXPECT(device->struct_size == sizeof *device && nbytes == sizeof work->values);
  ++work->calls;
  work->memory = memory;
  if (work->fails) return torchacc_error_new(TORCHACC_OPERATOR_ERROR, str("no room"));
  if (memory) memcpy(work->values, memory, nbytes);
  return NULL;
}

/* Data comes and goes by the program's own work on the device's memory. */
static void moves(const char* backend) {
  torchacc_context* context = opened(backend);
  torchacc_tensor* x;
  torchacc_view view;
  int64_t sizes[2] = {2, 3};
  OK(torchacc_tensor_zeros(context, TORCHACC_F32, sizes, 2, &x));
  OK(torchacc_tensor_view(x, &view));
  Work work = {.values = {1, 2, 3, 4, 5, 6}};
  OK(torchacc_buffer_look(view.buffer, reads, &work));
  EXPECT(work.memory == NULL && work.calls == 1);
  OK(torchacc_buffer_fill(view.buffer, writes, &work));
  work.fails = true;
  FAILS(TORCHACC_OPERATOR_ERROR, torchacc_buffer_fill(view.buffer, writes, &work));
  FAILS(TORCHACC_OPERATOR_ERROR, torchacc_buffer_look(view.buffer, reads, &work));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_buffer_fill(view.buffer, NULL, &work));
  work.fails = false;
  torchacc_tensor* twice = applied(context, "add", x, x);
  torchacc_view of_twice;
  OK(torchacc_tensor_view(twice, &of_twice));
  OK(torchacc_buffer_look(of_twice.buffer, reads, &work));
  for (int i = 0; i < 6; ++i) EXPECT(work.values[i] == 2 * (float)(i + 1));
  EXPECT(work.memory != NULL);
  torchacc_tensor_release(twice);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
}

static void deleted(DLManagedTensorVersioned* self) {
  __atomic_add_fetch((int*)self->manager_ctx, 1, __ATOMIC_ACQ_REL);
}

/* Arrays of the device's own memory, both ways, where they lie. */
static void crosses(const char* backend) {
  torchacc_context* context = opened(backend);
  const torchacc_device device = device_of(context);
  _Alignas(64) float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  int64_t sizes[2] = {2, 3};
  int deletions = 0;
  DLManagedTensorVersioned managed = {
      {1, 0},
      &deletions,
      deleted,
      0,
      {data, device.device_type, device.device_id, 2, 2, 32, 1, sizes, NULL, 4}};
  torchacc_tensor* x;
  OK(torchacc_tensor_from_dlpack(context, &managed, &x));
  /* One that is not aligned to 16 bytes is copied on the host. */
  EXPECT(deletions == (int)device.is_host);
  DLManagedTensorVersioned* shared;
  if (!device.is_host) {
    OK(torchacc_tensor_to_dlpack(x, false, &shared));
    EXPECT((char*)shared->array.data + shared->array.byte_offset == (char*)(data + 1));
    shared->deleter(shared);
  }
  torchacc_tensor* y = applied(context, "add", x, x);
  OK(torchacc_tensor_to_dlpack(y, false, &shared));
  EXPECT(shared->array.device_type == device.device_type && shared->flags == 1);
  const float* values = shared->array.data;
  for (int i = 0; i < 6; ++i) EXPECT(values[i] == 2 * (float)(i + 1));
  /* In place, with full cuts: what was given out stays as it was. */
  for (int turn = 0; turn < 3; ++turn) {
    torchacc_arg args[2] = {tensor_arg(y), tensor_arg(x)};
    OK(torchacc_apply_into(context, op("add"), args, 2, &y, 1));
    args[0] = tensor_arg(x);
    OK(torchacc_apply_into(context, op("add"), args, 2, &x, 1));
    OK(torchacc_sync(context));
    EXPECT(values[0] == 2 && values[5] == 12 && data[1] == 1 && data[6] == 6);
  }
  /* What a program has read last goes soon after, on another thread. */
  for (int i = 0; i < 60000 && __atomic_load_n(&deletions, __ATOMIC_ACQUIRE) == 0; ++i)
    usleep(1000);
  EXPECT(__atomic_load_n(&deletions, __ATOMIC_ACQUIRE) == 1);
  shared->deleter(shared);
  managed.array.device_type = 2;
  FAILS(TORCHACC_UNSUPPORTED, torchacc_tensor_from_dlpack(context, &managed, &x));
  EXPECT(deletions == 2);
  torchacc_tensor_release(y);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
}

static torchacc_error* tripled(const torchacc_host_tensor* input,
                               const torchacc_host_tensor* output) {
  EXPECT(input->rank == 2 && input->sizes[0] == 2 && output->sizes[1] == 3);
  for (int i = 0; i < 6; ++i) ((float*)output->data)[i] = 3 * ((const float*)input->data)[i];
  return NULL;
}

static torchacc_error* reduces_on_host(void* user, int64_t how, const torchacc_host_tensor* input,
                                       const torchacc_host_tensor* output) {
  EXPECT(how == TORCHACC_REDUCE_SUM);
  ++((Calls*)user)->on_host;
  return tripled(input, output);
}

static torchacc_error* reduces_on_device(void* user, const torchacc_device* device, int64_t how,
                                         const torchacc_host_tensor* input,
                                         const torchacc_host_tensor* output) {
  EXPECT(how == TORCHACC_REDUCE_SUM && device->struct_size == sizeof *device && !device->is_host);
  Calls* calls = user;
  ++calls->on_device;
  if (calls->refuses) return torchacc_error_new(TORCHACC_OPERATOR_ERROR, str("a rank is gone"));
  return tripled(input, output);
}

/* Told by numbers: the sum for rank 0, and rows of two for each rank. */
static const int64_t reduction[] = {TORCHACC_REDUCE_SUM, 0}, rows[] = {2, 0, 0, 2, 0, 0};

static torchacc_error* transfers(const int64_t* numbers, size_t n_numbers,
                                 const torchacc_host_tensor* input,
                                 const torchacc_host_tensor* output) {
  const int64_t* expected = n_numbers == 2 ? reduction : rows;
  EXPECT(n_numbers == 2 || n_numbers == 6);
  for (size_t i = 0; i < n_numbers; ++i) EXPECT(numbers[i] == expected[i]);
  return tripled(input, output);
}

static torchacc_error* transfers_on_host(void* user, const int64_t* numbers, size_t n_numbers,
                                         const torchacc_host_tensor* input,
                                         const torchacc_host_tensor* output) {
  ++((Calls*)user)->on_host;
  return transfers(numbers, n_numbers, input, output);
}

static torchacc_error* transfers_on_device(void* user, const torchacc_device* device,
                                           const int64_t* numbers, size_t n_numbers,
                                           const torchacc_host_tensor* input,
                                           const torchacc_host_tensor* output) {
  EXPECT(device->struct_size == sizeof *device && !device->is_host);
  ++((Calls*)user)->on_device;
  return transfers(numbers, n_numbers, input, output);
}

static torchacc_arg ints_arg(const int64_t* values, uint32_t count) {
  torchacc_arg arg = {TORCHACC_ARG_INTS, count, {0}};
  arg.v.p = values;
  return arg;
}

/* Those that are told by several numbers, likewise. */
static void transports(const char* backend, bool both) {
  Calls calls = {0};
  torchacc_context* context = opened(backend);
  const bool on_device = both && !device_of(context).is_host;
  torchacc_communicator communicator = {.struct_size = sizeof communicator,
                                        .name = str("world"),
                                        .size = 3,
                                        .reduce = transfers_on_host,
                                        .all_to_all_v = transfers_on_host,
                                        .user = &calls};
  if (both) communicator.device_reduce = communicator.device_all_to_all_v = transfers_on_device;
  OK(torchacc_communicator_register(context, &communicator));
  const float data[6] = {1, 2, 3, 4, 5, 6};
  const torchacc_arg world = text_arg(TORCHACC_ARG_COMMUNICATOR, "world");
  torchacc_tensor *x = floats(context, data, 2, 3), *sum, *exchanged;
  torchacc_arg reduce[] = {tensor_arg(x), {TORCHACC_ARG_NONE, 0, {0}}, {0}, world};
  reduce[2].kind = TORCHACC_ARG_INT;
  OK(torchacc_apply(context, op("torchacc::reduce"), reduce, 4, &sum, 1));
  torchacc_arg exchange[] = {tensor_arg(sum), ints_arg(rows, 3), ints_arg(rows + 3, 3), world};
  OK(torchacc_apply(context, op("torchacc::all_to_all_v"), exchange, 4, &exchanged, 1));
  float got[6];
  OK(torchacc_tensor_read(exchanged, got, sizeof got));
  for (int i = 0; i < 6; ++i) EXPECT(got[i] == 9 * data[i]);
  EXPECT(calls.on_device == (on_device ? 2 : 0) && calls.on_host == (on_device ? 0 : 2));
  torchacc_tensor_release(exchanged);
  torchacc_tensor_release(sum);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
}

/* A sum of three ranks, two of which are imagined, on the host's memory or the device's. */
static void exchanges(const char* backend, bool both) {
  Calls calls = {0};
  torchacc_context* context = opened(backend);
  const bool on_device = both && !device_of(context).is_host;
  torchacc_communicator communicator = {.struct_size = sizeof communicator,
                                        .name = str("world"),
                                        .size = 3,
                                        .all_reduce = reduces_on_host,
                                        .user = &calls};
  if (both) communicator.device_all_reduce = reduces_on_device;
  OK(torchacc_communicator_register(context, &communicator));
  const float data[6] = {1, 2, 3, 4, 5, 6};
  torchacc_tensor* x = floats(context, data, 2, 3);
  for (int turn = 1; turn <= 4; ++turn) {
    torchacc_tensor *twice = applied(context, "add", x, x), *sum;
    torchacc_arg args[3] = {tensor_arg(twice),
                            {TORCHACC_ARG_NONE, 0, {0}},
                            text_arg(TORCHACC_ARG_COMMUNICATOR, "world")};
    OK(torchacc_apply(context, op("torchacc::all_reduce"), args, 3, &sum, 1));
    torchacc_tensor* y = applied(context, "add", sum, x);
    float got[6];
    calls.refuses = turn == 4;
    if (turn == 4 && on_device) {
      FAILS(TORCHACC_OPERATOR_ERROR, torchacc_tensor_read(y, got, sizeof got));
    } else {
      OK(torchacc_tensor_read(y, got, sizeof got));
      for (int i = 0; i < 6; ++i) EXPECT(got[i] == 7 * data[i]);
    }
    torchacc_tensor_release(y);
    torchacc_tensor_release(sum);
    torchacc_tensor_release(twice);
  }
  EXPECT(calls.on_device == (on_device ? 4 : 0) && calls.on_host == (on_device ? 0 : 4));
  EXPECT(metric(context, "\"collectives\"") == 4 && metric(context, "\"host_calls\"") == 0);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
}

int main(int n_args, char** args) {
  for (int i = 1; i < n_args; ++i) {
    allocates(args[i]);
    calls(args[i], args[i]);
    moves(args[i]);
    crosses(args[i]);
    exchanges(args[i], false);
    exchanges(args[i], true);
    transports(args[i], false);
    transports(args[i], true);
  }
  puts("ok");
  return 0;
}
