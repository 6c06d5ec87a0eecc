/* Random calls in random order: every value is right or the call is an error, nothing crashes and
 * nothing is kept.
 *
 * A handful of slots hold tensors: views of dense arrays, whose elements are followed here as well,
 * in plain loops. About one call in eight is wrong on purpose. `program SECONDS SEED`; a failure
 * prints the seed of its round. One round at least. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "slots.h"
#include "steps.h"

static void make(void) {
  const int context = (int)draw(CONTEXTS);
  const int64_t count = draw(LARGEST + 1);
  float data[LARGEST];
  for (int64_t i = 0; i < count; ++i) data[i] = number();
  torchacc_tensor* tensor;
  const size_t nbytes = (size_t)count * sizeof *data;
  if (draw(3)) {
    OK(torchacc_tensor_from_host(contexts[context], TORCHACC_F32, &count, 1, data, nbytes,
                                 &tensor));
  } else {
    float* copy = malloc(nbytes + 8);
    memcpy(copy, data, nbytes);
    __atomic_add_fetch(&lent, 1, __ATOMIC_ACQ_REL);
    OK(torchacc_tensor_borrow(contexts[context], TORCHACC_F32, &count, NULL, 1, copy, nbytes, copy,
                              given_back, &tensor));
  }
  fill(room(), tensor, context, count, data);
}

static void view(void) {
  const Slot* of = any(1);
  if (!of) return;
  const Slot base = *of;
  const int64_t start = draw((uint32_t)base.count + 1), step = 1 + draw(3);
  const int64_t most = (base.count - start + step - 1) / step;
  const int64_t count = draw((uint32_t)most + 1);
  torchacc_tensor* tensor;
  OK(torchacc_tensor_slice(base.tensor, 0, start, count, step, &tensor));
  ++base.shadow->users;
  *room() = (Slot){tensor, base.shadow,     base.context, base.start + start * base.step,
                   count,  base.step * step};
}

/* Elements that are several at once cannot be written to. */
static int repeats(const Slot* slot) { return slot->step == 0 && slot->count > 1; }

/* Of two tensors into a new one or into the first; an error exactly if contexts or sizes do not
 * fit. */
static void compute(void) {
  const Slot *first = any(1), *second = any(1);
  if (!first || !second) return;
  const Slot a = *first, b = *second;
  const int multiply = (int)draw(2), in_place = (int)draw(2);
  torchacc_arg args[2] = {tensor_arg(a.tensor), tensor_arg(b.tensor)};
  const int fits =
      a.context == b.context && (a.count == b.count || b.count == 1) && !(in_place && repeats(&a));
  float data[LARGEST];
  for (int64_t i = 0; fits && i < a.count; ++i) {
    const float y = *at(&b, b.count == 1 ? 0 : i);
    data[i] = multiply ? *at(&a, i) * y : *at(&a, i) + y;
    if (data[i] > 1e6f || data[i] < -1e6f) return; /* Not exact for ever. */
  }
  torchacc_tensor *out = in_place ? a.tensor : NULL, *before = out;
  torchacc_op op = multiply ? mul : add;
  torchacc_error* error = in_place ? torchacc_apply_into(contexts[a.context], op, args, 2, &out, 1)
                                   : torchacc_apply(contexts[a.context], op, args, 2, &out, 1);
  if (error && !fits) {
    EXPECT(torchacc_error_code(error) == TORCHACC_INVALID_ARGUMENT && out == before);
    torchacc_error_free(error);
    return;
  }
  OK(error);
  if (in_place) {
    for (int64_t i = 0; i < a.count; ++i) *at(&a, i) = data[i];
  } else if (fits) {
    fill(room(), out, a.context, a.count, data);
  } else {
    torchacc_tensor_release(out); /* One element beside several: broadcast the other way. */
  }
}

static void overwrite(void) {
  const Slot* slot = any(1);
  if (!slot) return;
  float data[LARGEST] = {0};
  if (repeats(slot)) {
    FAILS(TORCHACC_INVALID_ARGUMENT,
          torchacc_tensor_write(slot->tensor, data, (size_t)slot->count * sizeof *data));
    return;
  }
  for (int64_t i = 0; i < slot->count; ++i) *at(slot, i) = data[i] = number();
  OK(torchacc_tensor_write(slot->tensor, data, (size_t)slot->count * sizeof *data));
}

static void told(void* user, const torchacc_error* error, const void* data, size_t len) {
  const float *wanted = user, *got = data;
  EXPECT(!error);
  for (size_t i = 0; i < len / sizeof *got; ++i) EXPECT(same(got[i], wanted[i]));
}

static void read_later(void) {
  const Slot* slot = any(1);
  if (!slot) return;
  float* wanted = malloc(2 * LARGEST * sizeof *wanted);
  __atomic_add_fetch(&lent, 1, __ATOMIC_ACQ_REL);
  for (int64_t i = 0; i < slot->count; ++i) wanted[i] = *at(slot, i);
  if (draw(2))
    OK(torchacc_tensor_copy_async(slot->tensor, wanted + LARGEST,
                                  (size_t)slot->count * sizeof *wanted, told, wanted, given_back));
  else
    OK(torchacc_tensor_read_async(slot->tensor, told, wanted, given_back));
}

enum { CALLS = 1000 };

static void wrong(void) {
  torchacc_context* context = contexts[draw(CONTEXTS)];
  const Slot* slot = any(1);
  torchacc_tensor *tensor = slot ? slot->tensor : NULL, *out = tensor;
  const int64_t huge[3] = {INT64_MAX, (int64_t)draw(5) + 1, INT64_MAX},
                minus[1] = {-1 - (int64_t)draw(9)};
  const int64_t many[1] = {(int64_t)1 << (33 + draw(29))};
  char small[1];
  torchacc_arg args[3] = {tensor_arg(tensor), tensor_arg((torchacc_tensor*)context), scalar_arg(0)};
  torchacc_error* error = NULL;
  switch (draw(12)) {
    case 0:
      error = torchacc_tensor_zeros(context, TORCHACC_F64, huge, 3, &out);
      break;
    case 1:
      error = torchacc_tensor_zeros(context, TORCHACC_F32, minus, 1, &out);
      break;
    case 2:
      error = torchacc_tensor_zeros(context, 21 + draw(UINT32_MAX - 21), many, 1, &out);
      break;
    case 3:
      error = torchacc_tensor_zeros(context, TORCHACC_F32, many, 65 + draw(1000), &out);
      break;
    case 4:
      error = torchacc_apply(context, add, args, 2, &out, 1);
      break;
    case 5:
      error = torchacc_apply(context, add + 100000, args, 1, &out, 1);
      break;
    case 6:
      error = torchacc_cut((torchacc_context*)tensor);
      break;
    case 7:
      error = torchacc_tensor_slice(tensor, draw(3), minus[0], many[0], huge[1], &out);
      break;
    case 8:
      error = torchacc_tensor_reshape(tensor, huge, 3, &out);
      break;
    case 9:
      error = torchacc_tensor_from_host(context, TORCHACC_F32, many, 1, small, 1, &out);
      break;
    case 10:
      error = torchacc_tensor_write(tensor, small, 1);
      break;
    case 11:
      args[0].kind = 17 + draw(1000);
      error = torchacc_apply(context, add, args, 2, &out, 1);
  }
  EXPECT(torchacc_error_code(error) < TORCHACC_INTERNAL);
  EXPECT(error && out == tensor && torchacc_error_message(error).len > 0);
  torchacc_error_free(error);
}

static void step(void) {
  static void (*const others[])(void) = {stale,   gradient,  program,  stored,      seen_otherwise,
                                         drawn,   exchanged, recorded, of_the_host, reports,
                                         handled, stale,     gradient, stale};
  const uint32_t kind = draw(16 + sizeof others / sizeof *others);
  if (kind >= 16) {
    others[kind - 16]();
    return;
  }
  switch (kind) {
    case 0:
    case 1:
    case 2:
      make();
      break;
    case 3:
    case 4:
      view();
      break;
    case 5:
    case 6:
    case 7:
    case 8:
      compute();
      break;
    case 9:
      overwrite();
      break;
    case 10: {
      const Slot* slot = any(1);
      if (slot) check_values(slot);
    } break;
    case 11:
      read_later();
      break;
    case 12: {
      torchacc_context* context = contexts[draw(CONTEXTS)];
      OK(draw(3) ? torchacc_cut(context) : torchacc_sync(context));
    } break;
    case 13:
      clear(&slots[draw(SLOTS)]);
      break;
    default:
      wrong();
  }
}

/* The end of its user tells that the context ended. */
static void no_log(void* user, torchacc_log_level level, torchacc_str message, uint64_t site) {
  (void)user, (void)level, (void)message, (void)site;
}

/* One round: every handle is released in the end, contexts first or last. */
static void round_of(uint64_t seed) {
  state = seed;
  memset(dead, 0, sizeof dead);
  for (int i = 0; i < CONTEXTS; ++i) {
    torchacc_options options = {.struct_size = sizeof options, .num_threads = 1 + draw(2)};
    options.backend = str(draw(4) ? "cpu" : "reference");
    options.cache_folder = str("off");
    if (draw(4) == 0) options.trace_limit = 1 + draw(40);
    options.log = no_log;
    options.log_user = malloc(1);
    options.log_drop = given_back;
    __atomic_add_fetch(&lent, 1, __ATOMIC_ACQ_REL);
    OK(torchacc_context_new(&options, &contexts[i]));
  }
  for (int call = 0; call < CALLS; ++call) step();
  for (int i = 0; i < SLOTS; ++i)
    if (slots[i].tensor) check_values(&slots[i]);
  const int first = (int)draw(2);
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == first) {
      for (int i = 0; i < CONTEXTS; ++i) {
        if (turn == 1) EXPECT(metric(contexts[i], "\"live_buffers\"") == 0);
        torchacc_context_release(contexts[i]);
        torchacc_context_release(contexts[i]);
        FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_sync(contexts[i]));
      }
    } else {
      for (int i = 0; i < SLOTS; ++i) clear(&slots[i]);
    }
  }
  // What a thread of the library had last is released by another one, soon.
  const struct timespec moment = {.tv_nsec = 1000000};
  for (int i = 0; i < 60000 && __atomic_load_n(&lent, __ATOMIC_ACQUIRE) != 0; ++i) {
    nanosleep(&moment, NULL);
  }
  EXPECT(__atomic_load_n(&lent, __ATOMIC_ACQUIRE) == 0);
}

int main(int count, char** arguments) {
  const int seconds = count > 1 ? atoi(arguments[1]) : 1;
  uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const time_t end = now.tv_sec + seconds;
  prepare(arguments[0]);
  do {
    fprintf(stderr, "%llu\n", (unsigned long long)seed);
    round_of(seed++);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec < end);
  EXPECT(gradients > 0);
  puts("ok");
  return 0;
}
