/* A forked process is told that it cannot use what its parent used; the library can be closed while
 * it works, and loaded again. Nothing is ever printed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static torchacc_tensor* doubled(torchacc_context* context, torchacc_tensor* x) {
  torchacc_tensor* y;
  torchacc_arg args[2] = {tensor_arg(x), tensor_arg(x)};
  OK(torchacc_apply(context, op("add"), args, 2, &y, 1));
  return y;
}

static void unread(void* user, const torchacc_error* error, const void* data, size_t len) {
  (void)user, (void)error, (void)data, (void)len;
}

static void forked(void) {
  torchacc_context* context;
  OK(torchacc_context_new(NULL, &context));
  const float data[2] = {1, 2};
  float got[2];
  torchacc_tensor *x = floats(context, data, 1, 2), *y = doubled(context, x);
  OK(torchacc_sync(context));
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    /* What is there can be read; what must be computed cannot. */
    OK(torchacc_tensor_read(y, got, sizeof got));
    EXPECT(got[1] == 4);
    torchacc_tensor* z = doubled(context, y);
    FAILS(TORCHACC_UNSUPPORTED, torchacc_tensor_read(z, got, sizeof got));
    FAILS(TORCHACC_UNSUPPORTED, torchacc_sync(context));
    torchacc_tensor_release(z);
    /* A context of its own can. */
    torchacc_context* own;
    OK(torchacc_context_new(NULL, &own));
    torchacc_tensor *a = floats(own, data, 1, 2), *b = doubled(own, a);
    OK(torchacc_tensor_read(b, got, sizeof got));
    EXPECT(got[0] == 2);
    torchacc_tensor_release(a);
    torchacc_tensor_release(b);
    torchacc_context_release(own);
    torchacc_tensor_release(x);
    torchacc_tensor_release(y);
    torchacc_context_release(context);
    _exit(0);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  torchacc_tensor_release(x);
  torchacc_tensor_release(y);
  torchacc_context_release(context);
}

/* Forks while work is queued, at some moment or other: the child is told, whatever it asks. */
static void forked_at_work(int turn) {
  enum { SIDE = 400 };
  torchacc_context* context;
  torchacc_options options = {.struct_size = sizeof options, .num_threads = 2};
  options.cache_folder = str("off");
  OK(torchacc_context_new(&options, &context));
  const int64_t sizes[2] = {SIDE, SIDE};
  static float got[SIDE * SIDE];
  torchacc_tensor *x, *y = NULL, *traced;
  OK(torchacc_tensor_zeros(context, TORCHACC_F32, sizes, 2, &x));
  for (int i = 0; i < 4; ++i) {
    torchacc_arg args[2] = {tensor_arg(x), tensor_arg(x)};
    torchacc_tensor_release(y);
    OK(torchacc_apply(context, op("matmul"), args, 2, &y, 1));
    OK(torchacc_cut(context));
  }
  traced = doubled(context, x);
  usleep(200 * (unsigned)turn);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    alarm(60);
    torchacc_view view;
    OK(torchacc_tensor_view(y, &view));
    torchacc_error* calls[7] = {
        torchacc_tensor_read(y, got, sizeof got),
        torchacc_buffer_read_after_cut(view.buffer, 0, got, sizeof got),
        torchacc_tensor_read_async(y, unread, NULL, NULL),
        torchacc_tensor_read(traced, got, sizeof got),
        torchacc_buffer_request(view.buffer),
        torchacc_cut(context),
        torchacc_sync(context),
    };
    for (int i = 0; i < 7; ++i) {
      /* What had been computed is there; nothing can be queued. */
      const int may_work = i < 3 || i == 4, works = calls[i] == NULL;
      EXPECT(works ? may_work : torchacc_error_code(calls[i]) == TORCHACC_UNSUPPORTED);
      torchacc_error_free(calls[i]);
    }
    torchacc_tensor_release(traced);
    torchacc_tensor_release(x);
    torchacc_tensor_release(y);
    torchacc_context_release(context);
    _exit(0);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) printf("turn %d: %x\n", turn, status);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  torchacc_tensor_release(traced);
  torchacc_tensor_release(x);
  torchacc_tensor_release(y);
  torchacc_context_release(context);
}

typedef torchacc_error* (*New)(const torchacc_options*, torchacc_context**);
typedef torchacc_error* (*Zeros)(torchacc_context*, torchacc_dtype, const int64_t*, uint32_t,
                                 torchacc_tensor**);
typedef torchacc_error* (*Find)(torchacc_str, torchacc_op*);
typedef torchacc_error* (*Apply)(torchacc_context*, torchacc_op, const torchacc_arg*, size_t,
                                 torchacc_tensor**, size_t);
typedef torchacc_error* (*Read)(const torchacc_tensor*, void*, size_t);
typedef torchacc_error* (*Cut)(torchacc_context*);
typedef void (*Release)(void*);

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  EXPECT(found != NULL);
  return found;
}

/* In a namespace of its own, so that it is not the library that this program is linked to. */
static void unloaded(const char* path) {
  for (int turn = 0; turn < 3; ++turn) {
    void* library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
    if (!library) printf("%s\n", dlerror());
    EXPECT(library != NULL);
    New new_context;
    Zeros zeros;
    Find find;
    Apply apply;
    Read read_tensor;
    Cut cut;
    Release release, release_context;
    *(void**)&new_context = symbol(library, "torchacc_context_new");
    *(void**)&zeros = symbol(library, "torchacc_tensor_zeros");
    *(void**)&find = symbol(library, "torchacc_op_find");
    *(void**)&apply = symbol(library, "torchacc_apply");
    *(void**)&read_tensor = symbol(library, "torchacc_tensor_read");
    *(void**)&cut = symbol(library, "torchacc_cut");
    *(void**)&release = symbol(library, "torchacc_tensor_release");
    *(void**)&release_context = symbol(library, "torchacc_context_release");
    torchacc_context* context;
    torchacc_tensor *x, *y;
    torchacc_op cosine;
    const int64_t sizes[2] = {300, 300};
    float* got = malloc(300 * 300 * sizeof *got);
    OK(new_context(NULL, &context));
    OK(zeros(context, TORCHACC_F32, sizes, 2, &x));
    OK(find(str("cos"), &cosine));
    torchacc_arg arg = tensor_arg(x);
    OK(apply(context, cosine, &arg, 1, &y, 1));
    if (turn == 2) {
      /* What is queued is computed by threads of the library, which so must stay. */
      OK(cut(context));
      EXPECT(dlclose(library) == 0);
      usleep(100000);
      free(got);
      continue;
    }
    OK(read_tensor(y, got, 300 * 300 * sizeof *got));
    EXPECT(got[0] == 1 && got[300 * 300 - 1] == 1);
    free(got);
    release(x);
    release(y);
    release_context(context);
    EXPECT(dlclose(library) == 0);
  }
}

int main(int count, char** arguments) {
  EXPECT(count > 0);
  char path[4096];
  const char* name = strrchr(arguments[0], '/');
  EXPECT(name != NULL);
  snprintf(path, sizeof path, "%.*s/libtorchacc.so.%d", (int)(name - arguments[0]), arguments[0],
           TORCHACC_ABI);
  for (int turn = 0; turn < 40; ++turn) forked_at_work(turn);
  forked();
  unloaded(path);
  puts("ok");
  return 0;
}
