/* Handles released twice, used afterwards, and taken for others: each is an error object or nothing
 * happens, and other objects, which live where the dead ones lived, are not touched. */
#define _GNU_SOURCE
#include <pthread.h>

#include "check.h"

static torchacc_context* context;

static torchacc_tensor* pair(float first) {
  const float data[2] = {first, 2};
  return floats(context, data, 1, 2);
}

static void expect(const torchacc_tensor* tensor, float first) {
  float got[2];
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  EXPECT(got[0] == first && got[1] == 2);
}

/* The message names the kind and says what happened to it. */
static void refused(torchacc_error* error, const char* kind, const char* what) {
  EXPECT(torchacc_error_code(error) == TORCHACC_INVALID_ARGUMENT);
  torchacc_str text = torchacc_error_message(error);
  char copy[256] = {0};
  memcpy(copy, text.data, text.len < 255 ? text.len : 255);
  if (!strstr(copy, kind) || !strstr(copy, what)) printf("%s\n", copy);
  EXPECT(strstr(copy, kind) && strstr(copy, what));
  torchacc_error_free(error);
}

static void tensors(void) {
  enum { COUNT = 200 };
  torchacc_tensor *dead = pair(-1), *made[COUNT], *sum = NULL;
  EXPECT(torchacc_tensor_retain(dead) == dead);
  torchacc_tensor_release(dead);
  expect(dead, -1); /* One owner is left. */
  torchacc_tensor_release(dead);
  for (int i = 0; i < COUNT; ++i) {
    /* Each time somebody else lives where it lived. */
    made[i] = pair((float)i);
    EXPECT(made[i] != dead);
    torchacc_tensor_release(dead);
    expect(made[i], (float)i);
    if (i % 2) torchacc_tensor_release(made[i]);
  }
  float got[2] = {7, 7};
  refused(torchacc_tensor_read(dead, got, sizeof got), "torchacc_tensor", "released");
  EXPECT(got[0] == 7);
  refused(torchacc_tensor_write(dead, got, sizeof got), "torchacc_tensor", "released");
  refused(torchacc_tensor_set_name(dead, str("x")), "torchacc_tensor", "released");
  torchacc_arg args[2] = {tensor_arg(made[0]), tensor_arg(dead)};
  refused(torchacc_apply(context, op("add"), args, 2, &sum, 1), "torchacc_tensor", "released");
  refused(torchacc_apply_into(context, op("add"), args, 1, &dead, 1), "torchacc_tensor",
          "released");
  refused(torchacc_grad(context, dead, &made[0], 1, &sum), "torchacc_tensor", "released");
  EXPECT(sum == NULL && torchacc_tensor_retain(dead) == NULL);
  EXPECT(torchacc_tensor_numel(dead) == 0 && torchacc_tensor_sizes(dead) == NULL);
  for (int i = 0; i < COUNT; i += 2) {
    expect(made[i], (float)i);
    torchacc_tensor_release(made[i]);
  }
}

static void buffers(void) {
  torchacc_tensor* tensor = pair(3);
  torchacc_view view;
  OK(torchacc_tensor_view(tensor, &view));
  torchacc_buffer* buffer = torchacc_buffer_retain(view.buffer);
  torchacc_tensor_release(tensor);
  EXPECT(torchacc_buffer_nbytes(buffer) == 8);
  torchacc_buffer_release(buffer);
  torchacc_buffer_release(buffer);
  EXPECT(torchacc_buffer_nbytes(buffer) == 0 && torchacc_buffer_retain(buffer) == NULL);
  char byte;
  refused(torchacc_buffer_read(buffer, 0, &byte, 1), "torchacc_buffer", "released");
  const int64_t one[1] = {1};
  view = (torchacc_view){buffer, one, one, 0, 1, TORCHACC_U8};
  refused(torchacc_tensor_from_view(&view, &tensor), "torchacc_buffer", "released");
}

static void owned(void) {
  for (int turn = 0; turn < 3; ++turn) {
    torchacc_error* error = torchacc_cut(NULL);
    torchacc_error_free(error);
    torchacc_error* other = torchacc_sync(NULL);
    torchacc_error_free(error);
    EXPECT(torchacc_error_code(error) == 0 && torchacc_error_message(error).len == 0);
    EXPECT(torchacc_error_code(other) == TORCHACC_INVALID_ARGUMENT);
    torchacc_error_free(other);

    torchacc_string *string, *second;
    OK(torchacc_metrics(context, &string));
    torchacc_string_free(string);
    OK(torchacc_metrics(context, &second));
    torchacc_string_free(string);
    EXPECT(torchacc_string_view(string).len == 0 && torchacc_string_view(second).len > 0);
    torchacc_string_free(second);

    torchacc_graph* graph;
    const char* text = "%0: f32[2] = input() {index=0, type=(f32[2])}\nreturn %0\n";
    OK(torchacc_graph_parse(str(text), &graph));
    torchacc_graph_free(graph);
    torchacc_graph_free(graph);
    EXPECT(torchacc_graph_outputs(graph) == 0);
    refused(torchacc_graph_text(graph, &string), "torchacc_graph", "released");
  }
  torchacc_tensor* tensor = pair(1);
  refused(torchacc_tensor_read((torchacc_tensor*)context, NULL, 0), "torchacc_tensor",
          "another kind");
  torchacc_buffer_release((torchacc_buffer*)tensor);
  expect(tensor, 1);
  torchacc_tensor_release(tensor);
}

static void contexts(void) {
  torchacc_context *dead, *next;
  OK(torchacc_context_new(NULL, &dead));
  torchacc_context_release(dead);
  OK(torchacc_context_new(NULL, &next));
  torchacc_context_release(dead);
  refused(torchacc_sync(dead), "torchacc_context", "released");
  OK(torchacc_sync(next));
  torchacc_context_release(next);
}

/* Of many threads that release the last owner's handle, one does. */
static torchacc_tensor* contended;
static pthread_barrier_t start;

static void* releases(void* unused) {
  for (int round = 0; round < 2000; ++round) {
    pthread_barrier_wait(&start);
    torchacc_tensor_release(contended);
    torchacc_tensor* mine = pair(5);
    torchacc_tensor_release(contended);
    expect(mine, 5);
    torchacc_tensor_release(mine);
    pthread_barrier_wait(&start);
  }
  return unused;
}

static void threads(void) {
  pthread_t thread;
  pthread_barrier_init(&start, NULL, 2);
  EXPECT(pthread_create(&thread, NULL, releases, NULL) == 0);
  for (int round = 0; round < 2000; ++round) {
    contended = pair(6);
    pthread_barrier_wait(&start);
    torchacc_tensor_release(contended);
    pthread_barrier_wait(&start);
  }
  pthread_join(thread, NULL);
}

int main(void) {
  OK(torchacc_context_new(NULL, &context));
  tensors();
  buffers();
  owned();
  contexts();
  threads();
  OK(torchacc_sync(context));
  EXPECT(metric(context, "\"live_buffers\"") == 0);
  torchacc_context_release(context);
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
