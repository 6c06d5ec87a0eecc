/* What the C tests share: stop with the line and the message when a call fails. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torchacc.h"

#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) {                                                \
      printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                         \
    }                                                                  \
  } while (0)

#define OK(call)                                                               \
  do {                                                                         \
    torchacc_error* error_ = (call);                                           \
    if (error_) {                                                              \
      torchacc_str text_ = torchacc_error_message(error_);                     \
      printf("%s:%d: %.*s\n", __FILE__, __LINE__, (int)text_.len, text_.data); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

/* Whether the message of an error has this text in it. */
static inline int says(const torchacc_error* error, const char* text) {
  torchacc_str message = torchacc_error_message(error);
  size_t len = strlen(text);
  for (size_t at = 0; at + len <= message.len; ++at)
    if (memcmp(message.data + at, text, len) == 0) return 1;
  return 0;
}

/* The call must fail with this code, and say something: this. */
#define FAILS(wanted, call) FAILS_SAYING(wanted, "", call)
#define FAILS_SAYING(wanted, text, call)                                                           \
  do {                                                                                             \
    torchacc_error* error_ = (call);                                                               \
    if (!error_ || torchacc_error_code(error_) != (wanted) ||                                      \
        torchacc_error_message(error_).len == 0 || !says(error_, text)) {                          \
      torchacc_str text_ = torchacc_error_message(error_);                                         \
      printf("%s:%d: code %u, wanted %u: %.*s\n", __FILE__, __LINE__, torchacc_error_code(error_), \
             (unsigned)(wanted), (int)text_.len, text_.data);                                      \
      exit(1);                                                                                     \
    }                                                                                              \
    torchacc_error_free(error_);                                                                   \
  } while (0)

static inline torchacc_str str(const char* text) {
  torchacc_str s = {text, strlen(text)};
  return s;
}

static inline torchacc_arg tensor_arg(const torchacc_tensor* tensor) {
  torchacc_arg arg = {TORCHACC_ARG_TENSOR, 0, {0}};
  arg.v.p = tensor;
  return arg;
}

static inline torchacc_arg scalar_arg(double value) {
  torchacc_arg arg = {TORCHACC_ARG_SCALAR_FLOAT, 0, {0}};
  arg.v.f = value;
  return arg;
}

static inline torchacc_arg text_arg(torchacc_arg_kind kind, const char* text) {
  torchacc_arg arg = {kind, (uint32_t)strlen(text), {0}};
  arg.v.p = text;
  return arg;
}

/* What a host operator of the tests does: its first argument times its second. */
static inline torchacc_error* times(const torchacc_arg* args, const torchacc_host_tensor* outs) {
  const torchacc_host_tensor* x = (const torchacc_host_tensor*)args[0].v.p;
  if (args[1].v.f < 0) return torchacc_error_new(TORCHACC_OPERATOR_ERROR, str("a negative factor"));
  int64_t count = 1;
  for (uint32_t d = 0; d < x->rank; ++d) count *= x->sizes[d];
  for (int64_t i = 0; i < count; ++i)
    ((float*)outs[0].data)[i] = ((const float*)x->data)[i] * (float)args[1].v.f;
  return NULL;
}

static inline torchacc_op op(const char* name) {
  torchacc_op found;
  OK(torchacc_op_find(str(name), &found));
  return found;
}

static inline torchacc_tensor* floats(torchacc_context* context, const float* data, int64_t rows,
                                      int64_t columns) {
  int64_t sizes[2] = {rows, columns};
  torchacc_tensor* tensor;
  OK(torchacc_tensor_from_host(context, TORCHACC_F32, sizes, 2, data,
                               (size_t)(rows * columns) * sizeof(float), &tensor));
  return tensor;
}

/* A number of torchacc_metrics; the name in quotes. */
static inline int64_t metric(torchacc_context* context, const char* name) {
  torchacc_string* json;
  OK(torchacc_metrics(context, &json));
  torchacc_str text = torchacc_string_view(json);
  char copy[4096];
  EXPECT(text.len < sizeof copy);
  memcpy(copy, text.data, text.len);
  copy[text.len] = 0;
  const char* found = strstr(copy, name);
  EXPECT(found != NULL);
  int64_t value = strtoll(strchr(found, ':') + 1, NULL, 10);
  torchacc_string_free(json);
  return value;
}

#endif
