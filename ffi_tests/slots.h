/* What the fuzz holds: a handful of slots with tensors, views of dense arrays, whose elements are
 * followed here as well. */
#ifndef SLOTS_H
#define SLOTS_H

#include <math.h>

#include "check.h"
#include "random.h"

enum { SLOTS = 12, LARGEST = 12, CONTEXTS = 2 };

/* What a buffer holds, by our own count. */
typedef struct {
  float values[LARGEST];
  int users;
} Shadow;

typedef struct {
  torchacc_tensor* tensor;
  Shadow* shadow;
  int context;
  int64_t start, count, step;
} Slot;

static torchacc_context* contexts[CONTEXTS];
static Slot slots[SLOTS];
/* Objects of ours that the library has yet to give back. */
static uint64_t lent;

static void given_back(void* user) {
  free(user);
  __atomic_sub_fetch(&lent, 1, __ATOMIC_ACQ_REL);
}

static float* at(const Slot* slot, int64_t index) {
  return &slot->shadow->values[slot->start + index * slot->step];
}

/* What was released, to be tried again. */
static torchacc_tensor* dead[SLOTS];

static void clear(Slot* slot) {
  torchacc_tensor_release(slot->tensor);
  if (slot->tensor) dead[draw(SLOTS)] = slot->tensor;
  if (slot->shadow && --slot->shadow->users == 0) free(slot->shadow);
  memset(slot, 0, sizeof *slot);
}

static Slot* any(int filled) {
  for (int tries = 0; tries < 4 * SLOTS; ++tries) {
    Slot* slot = &slots[draw(SLOTS)];
    if ((slot->tensor != NULL) == filled) return slot;
  }
  return NULL;
}

/* A slot for something new: an empty one, or one that is given up. */
static Slot* room(void) {
  Slot* slot = any(0);
  if (!slot) clear(slot = &slots[draw(SLOTS)]);
  return slot;
}

/* Small whole numbers: sums and products of a few are exact. Now and then none at all. */
static float number(void) { return draw(40) ? (float)draw(7) - 3 : draw(2) ? NAN : INFINITY; }

static int same(float x, float y) { return x == y || (isnan(x) && isnan(y)); }

static void fill(Slot* slot, torchacc_tensor* tensor, int context, int64_t count,
                 const float* data) {
  Slot made = {tensor, calloc(1, sizeof(Shadow)), context, 0, count, 1};
  EXPECT(made.shadow && torchacc_tensor_numel(tensor) == count);
  made.shadow->users = 1;
  memcpy(made.shadow->values, data, (size_t)count * sizeof *data);
  *slot = made;
}

/* That a tensor holds `count` numbers. */
static void expect(const torchacc_tensor* tensor, const float* wanted, int64_t count) {
  float got[LARGEST];
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  for (int64_t i = 0; i < count; ++i) EXPECT(same(got[i], wanted[i]));
}

/* The elements as we know them. */
static void known(const Slot* slot, float* to) {
  for (int64_t i = 0; i < slot->count; ++i) to[i] = *at(slot, i);
}

static void check_values(const Slot* slot) {
  float wanted[LARGEST];
  known(slot, wanted);
  expect(slot->tensor, wanted, slot->count);
}

#endif
