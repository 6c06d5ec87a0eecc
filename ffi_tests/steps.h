/* What the fuzz does beside arithmetic on its slots. Each step is right in its values, or an error
 * that the comment above it names. */
#ifndef STEPS_H
#define STEPS_H

#include "slots.h"

static torchacc_op add, mul, sum, detach, uniform, negate;
static char path[4096];
static uint64_t gradients;

/* Two slots of one context and size whose sum is exact; 0 if the draw gave others. */
static int two(Slot* a, Slot* b, float* sums) {
  const Slot *first = any(1), *second = any(1);
  if (!first || !second || first->context != second->context || first->count != second->count)
    return 0;
  *a = *first;
  *b = *second;
  for (int64_t i = 0; i < a->count; ++i) {
    sums[i] = *at(a, i) + *at(b, i);
    if (sums[i] > 1e6f || sums[i] < -1e6f) return 0;
  }
  return 1;
}

static void free_twice(torchacc_string* string) {
  torchacc_string_free(string);
  if (draw(2)) torchacc_string_free(string);
}

/* A handle that was released, wherever one is taken: INVALID_ARGUMENT, and nobody else's business.
 */
static void stale(void) {
  torchacc_tensor *gone = dead[draw(SLOTS)], *out = gone;
  if (!gone) return;
  torchacc_context* context = contexts[draw(CONTEXTS)];
  const int64_t one[1] = {1};
  torchacc_arg arg = tensor_arg(gone);
  torchacc_view view;
  float got[LARGEST] = {0};
  torchacc_error* error = NULL;
  switch (draw(10)) {
    case 0:
      torchacc_tensor_release(gone);
      error = torchacc_tensor_read(gone, got, sizeof got);
      break;
    case 1:
      EXPECT(!torchacc_tensor_retain(gone) && torchacc_tensor_nbytes(gone) == 0);
      error = torchacc_tensor_view(gone, &view);
      break;
    case 2:
      error = torchacc_apply(context, sum, &arg, 1, &out, 1);
      break;
    case 3:
      error = torchacc_tensor_slice(gone, 0, 0, 0, 1, &out);
      break;
    case 4:
      error = torchacc_grad(context, gone, &gone, 1, &out);
      break;
    case 5:
      error = torchacc_tensor_reshape(gone, one, 1, &out);
      break;
    case 6:
      error = torchacc_tensor_set_name(gone, str("gone"));
      break;
    case 7:
      error = torchacc_save(str(path), (const torchacc_tensor* const*)&gone, NULL, 1, NULL, 0);
      break;
    case 8:
      error = torchacc_tensor_write(gone, got, 0);
      break;
    case 9:
      error = torchacc_tensor_to_dlpack(gone, draw(2), NULL);
  }
  EXPECT(torchacc_error_code(error) == TORCHACC_INVALID_ARGUMENT && out == gone);
  torchacc_error_free(error);
  if (draw(4) == 0) torchacc_error_free(error);
}

/* Of the sum of a·b with respect to a, which is b. INVALID_ARGUMENT when the trace was cut
 * meanwhile, or before b, which depends on a. */
static void gradient(void) {
  Slot a, b;
  float sums[LARGEST], wanted[LARGEST];
  /* One element shown several times has the sum of their derivatives. */
  if (!two(&a, &b, sums) || a.shadow == b.shadow || a.step == 0) return;
  known(&b, wanted);
  torchacc_context* context = contexts[a.context];
  torchacc_tensor *constant, *product, *loss, *grad;
  torchacc_arg args[2] = {tensor_arg(b.tensor)};
  OK(torchacc_apply(context, detach, args, 1, &constant, 1));
  args[0] = tensor_arg(a.tensor);
  args[1] = tensor_arg(constant);
  OK(torchacc_apply(context, mul, args, 2, &product, 1));
  args[0] = tensor_arg(product);
  OK(torchacc_apply(context, sum, args, 1, &loss, 1));
  torchacc_error* error = torchacc_grad(context, loss, &a.tensor, 1, &grad);
  if (error) {
    EXPECT(torchacc_error_code(error) == TORCHACC_INVALID_ARGUMENT);
    torchacc_error_free(error);
  } else {
    ++gradients;
    fill(room(), grad, a.context, a.count, wanted);
  }
  torchacc_tensor_release(constant);
  torchacc_tensor_release(product);
  torchacc_tensor_release(loss);
}

/* A program as text, whole, or with a letter changed: INVALID_ARGUMENT then, if it is none. */
static void program(void) {
  Slot a, b;
  float sums[LARGEST];
  if (!two(&a, &b, sums)) return;
  char text[512];
  const int n = (int)a.count;
  int length = snprintf(text, sizeof text,
                        "%%0: f32[%d] = input() {index=0, type=(f32[%d])}\n"
                        "%%1: f32[%d] = input() {index=1, type=(f32[%d])}\n"
                        "%%2: f32[%d] = add(%%0, %%1)\nreturn %%2\n",
                        n, n, n, n, n);
  const int changed = (int)draw(2);
  if (changed) text[draw((uint32_t)length)] = (char)(32 + draw(96));
  torchacc_graph* graph;
  torchacc_error* error = torchacc_graph_parse(str(text), &graph);
  torchacc_tensor* out[1];
  const torchacc_arg args[2] = {tensor_arg(a.tensor), tensor_arg(b.tensor)};
  const int parsed = error == NULL;
  if (parsed) error = torchacc_graph_apply(contexts[a.context], graph, args, 2, out, 1);
  if (error) {
    EXPECT(changed && torchacc_error_code(error) == TORCHACC_INVALID_ARGUMENT);
    torchacc_error_free(error);
  } else if (changed) {
    torchacc_tensor_release(out[0]);
  } else {
    fill(room(), out[0], a.context, a.count, sums);
  }
  if (parsed) torchacc_graph_free(graph);
  if (parsed && draw(4) == 0) torchacc_graph_free(graph);
}

/* Into a file and back. */
static void stored(void) {
  const Slot* slot = any(1);
  if (!slot) return;
  float wanted[LARGEST];
  const int64_t count = slot->count;
  known(slot, wanted);
  const torchacc_tensor* all[1] = {slot->tensor};
  const torchacc_str name = str("x"), texts[2] = {str("key"), str("text")};
  OK(torchacc_save(str(path), all, &name, 1, texts, 1));
  torchacc_archive* archive;
  const int context = (int)draw(CONTEXTS);
  OK(torchacc_load(contexts[context], str(path), &archive));
  EXPECT(torchacc_archive_count(archive) == 1 && !torchacc_archive_tensor(archive, 1));
  EXPECT(torchacc_archive_text(archive, str("key")).len == 4);
  torchacc_tensor* found = torchacc_archive_find(archive, name);
  EXPECT(found && torchacc_tensor_name(found).len == 1);
  torchacc_archive_free(archive);
  if (draw(4) == 0) torchacc_archive_free(archive);
  fill(room(), found, context, count, wanted);
}

/* One element many times; the same elements in a row of a matrix. */
static void seen_otherwise(void) {
  const Slot* of = any(1);
  if (!of) return;
  const Slot base = *of;
  torchacc_tensor* made;
  if (base.count == 1) {
    const int64_t count = draw(LARGEST + 1);
    OK(torchacc_tensor_expand(base.tensor, &count, 1, &made));
    ++base.shadow->users;
    *room() = (Slot){made, base.shadow, base.context, base.start, count, 0};
    return;
  }
  float wanted[LARGEST];
  known(&base, wanted);
  const int64_t row[2] = {1, base.count}, order[2] = {1, 0};
  torchacc_tensor* column;
  OK(torchacc_tensor_reshape(base.tensor, row, 2, &made));
  OK(torchacc_tensor_permute(made, order, 2, &column));
  EXPECT(torchacc_tensor_rank(column) == 2 && torchacc_tensor_sizes(column)[0] == base.count);
  expect(column, wanted, base.count);
  torchacc_tensor_release(made);
  torchacc_tensor_release(column);
}

/* To another library and back into some context, shared or copied. */
static void exchanged(void) {
  const Slot* slot = any(1);
  if (!slot || slot->step == 0) return;
  float wanted[LARGEST];
  const int64_t count = slot->count;
  known(slot, wanted);
  struct DLManagedTensorVersioned* managed;
  OK(torchacc_tensor_to_dlpack(slot->tensor, draw(2), &managed));
  const int context = (int)draw(CONTEXTS);
  torchacc_tensor* made;
  OK(torchacc_tensor_from_dlpack(contexts[context], managed, &made));
  fill(room(), made, context, count, wanted);
}

/* Types asked for, and results written to a view. */
static void recorded(void) {
  Slot a, b;
  float sums[LARGEST];
  if (!two(&a, &b, sums)) return;
  torchacc_context* context = contexts[a.context];
  torchacc_view views[3];
  OK(torchacc_tensor_view(a.tensor, &views[0]));
  OK(torchacc_tensor_view(b.tensor, &views[1]));
  torchacc_arg args[2] = {{TORCHACC_ARG_VIEW, 0, {0}}, {TORCHACC_ARG_VIEW, 0, {0}}};
  for (int i = 0; i < 2; ++i) args[i].v.p = &views[i];
  torchacc_type type;
  OK(torchacc_infer(context, add, args, 2, &type, 1));
  EXPECT(type.dtype == TORCHACC_F32 && type.rank == 1 && type.sizes[0] == a.count);
  torchacc_tensor* made;
  OK(torchacc_tensor_zeros(context, TORCHACC_F32, type.sizes, 1, &made));
  OK(torchacc_tensor_view(made, &views[2]));
  OK(torchacc_record(context, add, args, 2, &views[2], 1));
  fill(room(), made, a.context, a.count, sums);
}

static torchacc_error* negates(void* user, const torchacc_arg* args, size_t n_args,
                               const torchacc_host_tensor* outs, size_t n_outs) {
  (void)user, (void)n_args, (void)n_outs;
  const torchacc_host_tensor* in = args[0].v.p;
  for (int64_t i = 0; i < in->sizes[0]; ++i)
    ((float*)outs[0].data)[i] = -((const float*)in->data)[i];
  torchacc_error* refused = torchacc_sync(NULL);
  if (!refused) return torchacc_error_new(TORCHACC_INTERNAL, str("it worked"));
  torchacc_error_free(refused);
  return NULL;
}

static torchacc_error* like_the_first(void* user, const torchacc_arg* args, size_t n_args,
                                      torchacc_type* outs, size_t n_outs) {
  (void)user, (void)n_args, (void)n_outs;
  const torchacc_host_tensor* in = args[0].v.p;
  outs[0].dtype = in->dtype;
  outs[0].rank = 1;
  outs[0].sizes[0] = in->sizes[0];
  return NULL;
}

static void of_the_host(void) {
  const Slot* slot = any(1);
  if (!slot) return;
  float wanted[LARGEST];
  const Slot base = *slot;
  known(slot, wanted);
  for (int64_t i = 0; i < base.count; ++i) wanted[i] = -wanted[i];
  const torchacc_arg arg = tensor_arg(base.tensor);
  torchacc_tensor* made;
  OK(torchacc_apply(contexts[base.context], negate, &arg, 1, &made, 1));
  fill(room(), made, base.context, base.count, wanted);
}

/* The same seed, the same numbers. */
static void drawn(void) {
  const Slot* slot = any(1);
  if (!slot) return;
  torchacc_context* context = contexts[slot->context];
  torchacc_arg args[4] = {tensor_arg(slot->tensor), scalar_arg(2), scalar_arg(3)};
  args[3].kind = TORCHACC_ARG_RANDOM;
  torchacc_tensor* made[2];
  const uint64_t seed = draw(1000);
  float got[2][LARGEST];
  const int64_t count = slot->count;
  for (int i = 0; i < 2; ++i) {
    OK(torchacc_seed(context, seed));
    OK(torchacc_apply(context, uniform, args, 4, &made[i], 1));
    if (draw(2)) OK(torchacc_cut(context));
  }
  for (int i = 0; i < 2; ++i) {
    OK(torchacc_tensor_read(made[i], got[i], sizeof got[i]));
    torchacc_tensor_release(made[i]);
  }
  for (int64_t i = 0; i < count; ++i)
    EXPECT(got[0][i] == got[1][i] && got[0][i] >= 2 && got[0][i] <= 3);
}

/* What the library says about itself. */
static void reports(void) {
  torchacc_context* context = contexts[draw(CONTEXTS)];
  torchacc_string* text = NULL;
  torchacc_graph* graph;
  torchacc_error* error;
  torchacc_cache_stats stats = {.struct_size = sizeof stats};
  switch (draw(10)) {
    case 0:
      OK(torchacc_metrics(context, &text));
      break;
    case 1:
      OK(torchacc_explain(context, &text));
      break;
    case 2:
      OK(torchacc_last_program(context, &text));
      break;
    case 3:
      OK(torchacc_host_call_report(context, &text));
      break;
    case 4:
      OK(torchacc_profile_start(context));
      break;
    case 5:
      OK(torchacc_profile_stop(context, &text));
      break;
    case 6:
      OK(torchacc_op_signature(draw((uint32_t)torchacc_op_count()), &text));
      break;
    case 7:
      OK(torchacc_context_cache_stats(context, &stats));
      torchacc_metrics_reset(context);
      break;
    case 8:
      OK(torchacc_set_strict(context, 0));
      OK(torchacc_set_recompile_limit(context, 1 + draw(100)));
      break;
    case 9:
      error = torchacc_graph_last(context, &graph);
      EXPECT(!error || torchacc_error_code(error) == TORCHACC_NOT_FOUND);
      torchacc_error_free(error);
      if (error) return;
      OK(torchacc_graph_text(graph, &text));
      torchacc_graph_free(graph);
      OK(torchacc_graph_parse(torchacc_string_view(text), &graph));
      torchacc_graph_free(graph);
  }
  if (text) free_twice(text);
}

/* Another way to wait for a value; names and owners. */
static void handled(void) {
  const Slot* slot = any(1);
  if (!slot) return;
  torchacc_view view;
  OK(torchacc_tensor_view(slot->tensor, &view));
  EXPECT(torchacc_tensor_retain(slot->tensor) == slot->tensor);
  torchacc_tensor_release(slot->tensor);
  EXPECT(torchacc_buffer_retain(view.buffer) == view.buffer);
  OK(torchacc_buffer_request(view.buffer));
  float got[LARGEST];
  const size_t length = slot->count ? 4 : 0;
  OK(torchacc_buffer_read_after_cut(view.buffer, 4 * (size_t)view.offset * (length > 0), got,
                                    length));
  EXPECT(!length || (same(got[0], *at(slot, 0)) && torchacc_buffer_is_ready(view.buffer)));
  torchacc_buffer_release(view.buffer);
  if (slot->count > 1)
    OK(torchacc_tensor_mark_dynamic(slot->tensor, 0, 1, slot->count + draw(100)));
  const torchacc_str name = torchacc_tensor_name(slot->tensor);
  if (name.len == 0) OK(torchacc_tensor_set_name(slot->tensor, str("named")));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_tensor_set_name(slot->tensor, str("otherwise")));
}

static void prepare(const char* program_path) {
  snprintf(path, sizeof path, "%s.safetensors", program_path);
  add = op("aten::add.Tensor");
  mul = op("aten::mul.Tensor");
  sum = op("aten::sum");
  detach = op("detach");
  uniform = op("aten::uniform");
  const torchacc_host_op definition = {.struct_size = sizeof definition,
                                       .name = str("mine::negate"),
                                       .key = str("mine::negate/1"),
                                       .function = negates,
                                       .shape = like_the_first};
  OK(torchacc_op_register_host(&definition, &negate));
}

#endif
