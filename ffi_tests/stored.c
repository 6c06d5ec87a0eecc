/* Tensors in files, and programs as text. */
#include "check.h"

static void expect(const torchacc_tensor* tensor, const float* wanted, size_t count) {
  float got[16];
  EXPECT(torchacc_tensor_nbytes(tensor) == count * sizeof *wanted);
  OK(torchacc_tensor_read(tensor, got, sizeof got));
  EXPECT(memcmp(got, wanted, count * sizeof *wanted) == 0);
}

static void files(torchacc_context* context, const char* path) {
  const float data[6] = {1, 2, 3, 4, 5, 6};
  const int64_t order[2] = {1, 0}, empty[2] = {0, 3};
  torchacc_tensor *w = floats(context, data, 2, 3), *t, *none, *wide;
  OK(torchacc_tensor_permute(w, order, 2, &t));
  OK(torchacc_tensor_zeros(context, TORCHACC_BF16, empty, 2, &none));
  OK(torchacc_tensor_zeros(context, TORCHACC_C128, empty, 2, &wide));
  const torchacc_tensor* all[3] = {w, t, none};
  torchacc_str names[3] = {str("w"), str("t"), str("none")};
  const torchacc_str texts[2] = {str("step"), str("12")};
  OK(torchacc_save(str(path), all, names, 3, texts, 1));
  torchacc_archive *archive, *other = NULL;
  OK(torchacc_load(context, str(path), &archive));
  EXPECT(torchacc_archive_count(archive) == 3);
  torchacc_tensor *first = torchacc_archive_tensor(archive, 0),
                  *found = torchacc_archive_find(archive, str("t"));
  EXPECT(torchacc_tensor_dtype(first) == TORCHACC_BF16 && torchacc_tensor_sizes(first)[1] == 3);
  EXPECT(torchacc_tensor_name(found).len == 1 && torchacc_archive_tensor(archive, 3) == NULL);
  EXPECT(torchacc_archive_find(archive, str("x")) == NULL);
  torchacc_str step = torchacc_archive_text(archive, str("step"));
  EXPECT(step.len == 2 && memcmp(step.data, "12", 2) == 0);
  EXPECT(torchacc_archive_text(archive, str("x")).data == NULL);
  torchacc_archive_free(archive);
  expect(found, (const float[]){1, 4, 2, 5, 3, 6}, 6);

  /* What cannot be written leaves the file as it is. */
  names[1] = names[0];
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_save(str(path), all, names, 3, NULL, 0));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_save(str(path), all, NULL, 3, NULL, 0));
  all[0] = wide;
  FAILS(TORCHACC_UNSUPPORTED, torchacc_save(str(path), all, names, 1, NULL, 0));
  OK(torchacc_load(context, str(path), &other));
  EXPECT(torchacc_archive_count(other) == 3);
  torchacc_archive_free(other);
  FILE* file = fopen(path, "r+b");
  EXPECT(file && fputc('?', file) == '?' && fclose(file) == 0);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_load(context, str(path), &other));
  EXPECT(remove(path) == 0);
  FAILS(TORCHACC_NOT_FOUND, torchacc_load(context, str(path), &other));
  torchacc_archive_free(NULL);
  torchacc_tensor* used[] = {w, t, none, wide, first, found};
  for (int i = 0; i < 6; ++i) torchacc_tensor_release(used[i]);
}

static void programs(torchacc_context* context) {
  const char* text =
      "%0: f32[2,3] = input() {index=0, type=(f32[2,3])}\n"
      "%1: f32[3,2] = transpose(%0) {perm=[1,0]}\n"
      "%2: f32[3,2] = add(%1, %1)\n"
      "return %2, %2\n";
  torchacc_graph* graph;
  torchacc_string* printed;
  OK(torchacc_graph_parse(str(text), &graph));
  OK(torchacc_graph_text(graph, &printed));
  torchacc_str view = torchacc_string_view(printed);
  EXPECT(view.len == strlen(text) && memcmp(view.data, text, view.len) == 0);
  torchacc_string_free(printed);
  EXPECT(torchacc_graph_outputs(graph) == 2 && torchacc_graph_outputs(NULL) == 0);
  const float data[6] = {1, 2, 3, 4, 5, 6}, wanted[6] = {2, 8, 4, 10, 6, 12};
  torchacc_tensor *x = floats(context, data, 2, 3), *wrong = floats(context, data, 3, 2);
  torchacc_tensor *outs[2], *again[2];
  torchacc_arg arg = tensor_arg(x), bad = tensor_arg(wrong);
  OK(torchacc_graph_apply(context, graph, &arg, 1, outs, 2));
  expect(outs[0], wanted, 6);
  expect(outs[1], wanted, 6);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_graph_apply(context, graph, &bad, 1, again, 2));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_graph_apply(context, graph, &arg, 1, again, 1));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_graph_apply(context, graph, NULL, 0, again, 2));
  torchacc_graph_free(graph);
  torchacc_graph_free(NULL);

  /* What was compiled last, as text, runs on other tensors. */
  torchacc_graph* last;
  OK(torchacc_graph_last(context, &last));
  OK(torchacc_graph_apply(context, last, &arg, 1, again, torchacc_graph_outputs(last)));
  expect(again[0], wanted, 6);
  torchacc_graph_free(last);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_graph_parse(str("%0 = what?"), &last));
  torchacc_tensor* used[] = {x, wrong, outs[0], outs[1], again[0], again[1]};
  for (int i = 0; i < 6; ++i) torchacc_tensor_release(used[i]);
}

int main(int count, char** arguments) {
  EXPECT(count > 0);
  char path[4096];
  EXPECT(snprintf(path, sizeof path, "%s.safetensors", arguments[0]) < (int)sizeof path);
  torchacc_context* context;
  torchacc_options options = {.struct_size = sizeof options};
  options.cache_folder = str("off");
  OK(torchacc_context_new(&options, &context));
  files(context, path);
  programs(context);
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
