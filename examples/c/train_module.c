/* Trains what another system wrote down: a step as a module of StableHLO and its inputs as a file
 * of safetensors, named 0, 1, 2, … Plain C11 against include/torchacc.h; no Python, no JAX, no
 * TensorFlow. `make example-module` exports a GPT of JAX and runs this, `make example-tensorflow`
 * a network of TensorFlow.
 *
 *     train_module STEP.mlir INPUTS.safetensors [steps] [TRAINED.safetensors]
 *
 * The first result of a step is its loss; the others are what the first inputs are at the next
 * step.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "torchacc.h"

static void ok(torchacc_error* error) {
  if (!error) return;
  torchacc_str text = torchacc_error_message(error);
  fprintf(stderr, "%.*s\n", (int)text.len, text.data);
  exit(1);
}

static void fail(const char* what, const char* name) {
  fprintf(stderr, "%s: %s\n", name, what);
  exit(1);
}

static torchacc_str str(const char* text) {
  torchacc_str made = {text, strlen(text)};
  return made;
}

static void* allocate(size_t count, size_t size) {
  void* memory = calloc(count ? count : 1, size);
  if (!memory) fail("no memory", "train_module");
  return memory;
}

static torchacc_graph* load_module(const char* name) {
  FILE* file = fopen(name, "rb");
  if (!file) fail("cannot be opened", name);
  fseek(file, 0, SEEK_END);
  long length = ftell(file);
  rewind(file);
  if (length < 0) fail("cannot be read", name);
  char* text = allocate((size_t)length, 1);
  if (fread(text, 1, (size_t)length, file) != (size_t)length) fail("cannot be read", name);
  fclose(file);
  torchacc_str all = {text, (size_t)length};
  torchacc_graph* module;
  ok(torchacc_graph_parse(all, &module));
  free(text);
  return module;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc < 3) fail("STEP.mlir INPUTS.safetensors [steps] [TRAINED.safetensors]", argv[0]);
  int steps = argc > 3 ? atoi(argv[3]) : 100;
  torchacc_context* context;
  ok(torchacc_context_new(NULL, &context));
  torchacc_graph* step = load_module(argv[1]);

  torchacc_archive* archive;
  ok(torchacc_load(context, str(argv[2]), &archive));
  size_t n_inputs = torchacc_archive_count(archive);
  size_t n_results = torchacc_graph_outputs(step);
  if (n_results < 1 || n_results - 1 > n_inputs) fail("is no step with these inputs", argv[1]);
  torchacc_tensor** inputs = allocate(n_inputs, sizeof *inputs);
  torchacc_tensor** results = allocate(n_results, sizeof *results);
  torchacc_arg* args = allocate(n_inputs, sizeof *args);
  torchacc_arg* into = allocate(n_results, sizeof *into);
  for (size_t i = 0; i < n_inputs; ++i) {
    char name[24];
    snprintf(name, sizeof name, "%zu", i);
    inputs[i] = torchacc_archive_find(archive, str(name));
    if (!inputs[i]) fail("inputs are not named 0, 1, 2, …", argv[2]);
  }
  torchacc_archive_free(archive);
  for (size_t i = 0; i < n_inputs; ++i) {
    args[i] = (torchacc_arg){TORCHACC_ARG_TENSOR, 0, {.p = inputs[i]}};
  }
  /* A new tensor for the loss; the state stays where it is. */
  into[0] = (torchacc_arg){TORCHACC_ARG_NONE, 0, {0}};
  for (size_t i = 1; i < n_results; ++i) into[i] = args[i - 1];

  double begun = seconds();
  for (int n = 1; n <= steps; ++n) {
    ok(torchacc_graph_apply_into(context, step, args, n_inputs, into, results, n_results));
    ok(torchacc_cut(context));
    if (n <= 10 || n % 10 == 0) {
      float loss;
      ok(torchacc_tensor_read(results[0], &loss, sizeof loss));
      printf("step %d loss %.7g\n", n, (double)loss);
      if (n == 1) begun = seconds();
    }
    torchacc_tensor_release(results[0]);
  }
  ok(torchacc_sync(context));
  if (steps > 1) fprintf(stderr, "%.2f ms a step\n", 1e3 * (seconds() - begun) / (steps - 1));

  if (argc > 4) {
    char* texts = allocate(n_inputs, 24);
    torchacc_str* names = allocate(n_inputs, sizeof *names);
    for (size_t i = 0; i < n_inputs; ++i) {
      snprintf(texts + 24 * i, 24, "%zu", i);
      names[i] = str(texts + 24 * i);
    }
    ok(torchacc_save(str(argv[4]), (const torchacc_tensor* const*)inputs, names, n_inputs, NULL,
                     0));
    free(names);
    free(texts);
  }
  for (size_t i = 0; i < n_inputs; ++i) torchacc_tensor_release(inputs[i]);
  free(into);
  free(args);
  free(results);
  free(inputs);
  torchacc_graph_free(step);
  torchacc_context_release(context);
  return 0;
}
