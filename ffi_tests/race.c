/* A race on purpose, which the thread sanitizer must find: two threads read into the same memory.
 */
#include <pthread.h>

#include "check.h"

static torchacc_tensor* x;
static float got[4];

static void* work(void* unused) {
  (void)unused;
  for (int i = 0; i < 50; ++i) OK(torchacc_tensor_read(x, got, sizeof got));
  return NULL;
}

int main(void) {
  torchacc_context* context;
  OK(torchacc_context_new(NULL, &context));
  const float data[4] = {1, 2, 3, 4};
  x = floats(context, data, 2, 2);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&threads[i], NULL, work, NULL) == 0);
  for (int i = 0; i < 2; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
  torchacc_tensor_release(x);
  torchacc_context_release(context);
  puts("ok");
  return 0;
}
