/* What the caches of programs hold and did, in memory and in a folder: `program FOLDER`. */
#include "check.h"

static torchacc_context* context_in(const char* folder, uint64_t limit) {
  torchacc_options options = {.struct_size = sizeof options, .cache_folder = str(folder)};
  options.cache_limit = limit;
  torchacc_context* context;
  OK(torchacc_context_new(&options, &context));
  return context;
}

/* Negates 2^rank ones. */
static void run(torchacc_context* context, uint32_t rank) {
  const int64_t sizes[] = {2, 2, 2, 2, 2, 2};
  float data[64], got[64];
  for (int i = 0; i < 64; ++i) data[i] = 1;
  torchacc_tensor *x, *y;
  const size_t nbytes = ((size_t)1 << rank) * sizeof(float);
  OK(torchacc_tensor_from_host(context, TORCHACC_F32, sizes, rank, data, nbytes, &x));
  torchacc_arg arg = tensor_arg(x);
  OK(torchacc_apply(context, op("aten::neg"), &arg, 1, &y, 1));
  OK(torchacc_tensor_read(y, got, nbytes));
  EXPECT(got[0] == -1);
  OK(torchacc_sync(context));
  torchacc_tensor_release(x);
  torchacc_tensor_release(y);
}

static torchacc_cache_stats stats_of(torchacc_context* context) {
  torchacc_cache_stats stats;
  memset(&stats, 0xff, sizeof stats);
  stats.struct_size = sizeof stats;
  OK(torchacc_context_cache_stats(context, &stats));
  EXPECT(stats.struct_size == sizeof stats);
  return stats;
}

static void counts(const char* folder) {
  torchacc_context *first = context_in(folder, 0), *second = context_in(folder, 0);
  torchacc_cache_stats stats = stats_of(first);
  EXPECT(stats.hits + stats.misses + stats.programs + stats.disk_programs + stats.disk_bytes == 0);
  run(first, 1);
  run(first, 1);
  run(first, 2);
  stats = stats_of(first);
  EXPECT(stats.hits == 1 && stats.misses == 2 && stats.compiles == 2 && stats.carried_over == 0);
  EXPECT(stats.programs == 2 && stats.program_bytes > 0 && stats.known_traces == 2);
  EXPECT(stats.evictions == 0 && stats.disk_evictions == 0 && stats.disk_errors == 0);
  EXPECT(stats.disk_programs == 2 && stats.disk_bytes > 0 && stats.disk_hits == 0);

  run(second, 2);
  torchacc_cache_stats others = stats_of(second);
  EXPECT(others.misses == 1 && others.compiles == 0 && others.disk_hits == 1);
  EXPECT(others.programs == 1 && others.disk_bytes == stats.disk_bytes);

  /* A reset forgets what happened, not what is there. */
  torchacc_metrics_reset(first);
  stats = stats_of(first);
  EXPECT(stats.hits == 0 && stats.misses == 0 && stats.programs == 2 && stats.disk_programs == 2);
  torchacc_context_release(second);

  /* A folder that has room for two: each program that comes takes the place of the oldest. */
  torchacc_context* bounded = context_in(folder, stats.disk_bytes + stats.disk_bytes / 4);
  for (uint32_t rank = 3; rank < 7; ++rank) run(bounded, rank);
  others = stats_of(bounded);
  EXPECT(others.compiles == 4 && others.disk_evictions >= 3 && others.disk_errors == 0);
  EXPECT(others.disk_programs + others.disk_evictions == 6);
  EXPECT(others.disk_bytes <= stats.disk_bytes + stats.disk_bytes / 4);
  torchacc_context_release(bounded);
  torchacc_context_release(first);
}

static void ages(void) {
  torchacc_context* context = context_in("off", 0);
  run(context, 1);
  /* An old caller's struct ends early; one from the future has fields that nobody fills in. */
  struct {
    torchacc_cache_stats stats;
    uint64_t later[4];
  } any;
  memset(&any, 0xff, sizeof any);
  any.stats.struct_size = offsetof(torchacc_cache_stats, compiles);
  OK(torchacc_context_cache_stats(context, &any.stats));
  EXPECT(any.stats.misses == 1 && any.stats.compiles == UINT64_MAX);
  any.stats.struct_size = sizeof any;
  OK(torchacc_context_cache_stats(context, &any.stats));
  EXPECT(any.stats.compiles == 1 && any.later[0] == 0 && any.later[3] == 0);
  EXPECT(any.stats.disk_programs == 0 && any.stats.disk_bytes == 0);
  any.stats.struct_size = 3;
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_cache_stats(context, &any.stats));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_cache_stats(context, NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_context_cache_stats(NULL, &any.stats));
  EXPECT(any.stats.compiles == 1);
  torchacc_context_release(context);
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  counts(arguments[1]);
  ages();
  puts("ok");
  return 0;
}
