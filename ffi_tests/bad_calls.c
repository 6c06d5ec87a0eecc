/* Every mistake is an error object: never a crash, and outputs keep what they held. */
#include "check.h"

int main(void) {
  torchacc_context* context;
  OK(torchacc_context_new(NULL, &context));

  /* NULL, where something is wanted and where nothing is. */
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_new(NULL, NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_cut(NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_sync(NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_metrics(context, NULL));
  torchacc_context_release(NULL);
  torchacc_buffer_release(NULL);
  torchacc_tensor_release(NULL);
  torchacc_error_free(NULL);
  torchacc_string_free(NULL);
  EXPECT(torchacc_error_code(NULL) == 0 && torchacc_error_message(NULL).len == 0);
  EXPECT(torchacc_buffer_nbytes(NULL) == 0 && !torchacc_buffer_is_ready(NULL));
  EXPECT(torchacc_tensor_retain(NULL) == NULL);

  /* Options: an unknown backend, an absurd size, a field from the future, an old caller. */
  torchacc_options options = {.struct_size = sizeof options};
  torchacc_context *kept = (torchacc_context*)&options, *other = kept;
  options.backend = str("gpu-from-the-future");
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_new(&options, &other));
  options.backend = str("cpu");
  options.struct_size = 3;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_new(&options, &other));
  struct {
    torchacc_options known;
    uint64_t unknown[32]; /* Further on than what this version knows may be for an old caller. */
  } newer = {{.struct_size = sizeof newer}, {[31] = 7}};
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_new(&newer.known, &other));
  EXPECT(other == kept);
  newer.unknown[31] = 0;
  OK(torchacc_context_new(&newer.known, &other));
  torchacc_context_release(other);
  options.struct_size = sizeof options;
  options.num_threads = 4000000000u;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_new(&options, &other));
  options.num_threads = 0;
  options.struct_size = sizeof(size_t);
  OK(torchacc_context_new(&options, &other));

  /* Handles of the wrong kind, and of another context. */
  torchacc_buffer* buffer;
  OK(torchacc_buffer_new(context, 24, &buffer));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_cut((torchacc_context*)buffer));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_buffer_resize((torchacc_buffer*)context, 8));
  EXPECT(torchacc_buffer_retain((torchacc_buffer*)context) == NULL);
  const float data[6] = {1, 2, 3, 4, 5, 6};
  torchacc_tensor *a = floats(context, data, 2, 3), *foreign = floats(other, data, 2, 3);
  torchacc_tensor *untouched = a, *out = untouched;
  torchacc_op add = op("aten::add.Tensor"), mm = op("aten::mm");
  torchacc_arg args[3] = {tensor_arg(a), tensor_arg(foreign), scalar_arg(1)};
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, add, args, 3, &out, 1));

  /* Operators: unknown names and numbers, wrong arguments, wrong number of results, shapes that do
   * not fit. */
  torchacc_op nothing = 77;
  FAILS(TORCHACC_NOT_FOUND, torchacc_op_find(str("aten::no_such_operator"), &nothing));
  EXPECT(nothing == 77);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, 123456, args, 3, &out, 1));
  args[1] = tensor_arg(a);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, mm, args, 2, &out, 1));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, add, args, 3, &out, 2));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, add, NULL, 3, &out, 1));
  args[1].kind = 99;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, add, args, 3, &out, 1));
  args[1] = tensor_arg((torchacc_tensor*)buffer);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_apply(context, add, args, 3, &out, 1));
  EXPECT(out == untouched);

  /* Sizes: too few bytes, too many, negative, overflowing; views that leave their buffer. */
  int64_t huge[2] = {INT64_MAX, INT64_MAX}, negative[1] = {-1}, three[1] = {3}, one[1] = {1};
  FAILS(TORCHACC_INVALID_ARGUMENT,
        torchacc_tensor_from_host(context, TORCHACC_F32, three, 1, data, 4, &out));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_zeros(context, TORCHACC_F32, huge, 2, &out));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_zeros(context, TORCHACC_F32, negative, 1, &out));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_zeros(context, TORCHACC_F32, three, 99, &out));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_zeros(context, 999, three, 1, &out));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_buffer_write(buffer, TORCHACC_F32, data, 20));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_buffer_write(buffer, TORCHACC_F32, NULL, 24));
  torchacc_view view = {buffer, three, one, 4, 1, TORCHACC_F32};
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_from_view(&view, &out));
  view.offset = -1;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_from_view(&view, &out));
  EXPECT(out == untouched);
  char small[8] = "kept";
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_read(a, small, sizeof small));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_buffer_read(buffer, 20, small, 8));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_buffer_read(buffer, SIZE_MAX, small, 8));
  EXPECT(strcmp(small, "kept") == 0);

  /* Programs as text: inputs far beyond those that are given. */
  const char* numbers[3] = {"1", "65536", "4294967295"};
  for (int i = 0; i < 3; ++i) {
    char text[128];
    torchacc_graph* graph;
    snprintf(text, sizeof text, "%%0: f32[2,3] = input() {index=%s, type=(f32[2,3])}\nreturn %%0\n",
             numbers[i]);
    OK(torchacc_graph_parse(str(text), &graph));
    FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_graph_apply(context, graph, args, 1, &out, 1));
    torchacc_graph_free(graph);
  }
  EXPECT(out == untouched);

  /* After all that the context still computes. */
  args[1] = tensor_arg(a);
  args[2] = scalar_arg(1);
  OK(torchacc_apply(context, add, args, 3, &out, 1));
  float doubled[6];
  OK(torchacc_tensor_read(out, doubled, sizeof doubled));
  for (int i = 0; i < 6; ++i) EXPECT(doubled[i] == 2 * data[i]);

  /* Any order of release: children keep their parents. */
  torchacc_context_release(context);
  torchacc_context_release(other);
  torchacc_tensor_release(out);
  torchacc_tensor_release(foreign);
  torchacc_tensor_release(a);
  torchacc_buffer_release(buffer);
  puts("ok");
  return 0;
}
