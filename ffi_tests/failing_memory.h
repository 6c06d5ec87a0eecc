/* An allocator that fails on demand, for the whole program: the C library's functions, but for
 * large pieces. Such a piece is the memory of a tensor; the small ones are those of the library's
 * own lists and texts. Needs glibc. */
#ifndef FAILING_MEMORY_H
#define FAILING_MEMORY_H

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LARGE = 1 << 20 };

/* Large pieces asked for since `fail_after`, and which of these are refused. */
static long asked_for = 0, first_refused = LONG_MAX, end_refused = LONG_MAX;

static int refuse(size_t size) {
  if (size < LARGE) return 0;
  const long number = __atomic_fetch_add(&asked_for, 1, __ATOMIC_ACQ_REL);
  if (number < __atomic_load_n(&first_refused, __ATOMIC_ACQUIRE) ||
      number >= __atomic_load_n(&end_refused, __ATOMIC_ACQUIRE))
    return 0;
  errno = ENOMEM;
  return 1;
}

/* Gives `count` large pieces, then refuses so many. */
static inline void fail_after(long count, long times) {
  __atomic_store_n(&asked_for, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&end_refused, count + times, __ATOMIC_RELEASE);
  __atomic_store_n(&first_refused, count, __ATOMIC_RELEASE);
}

/* Gives memory again; whether some was refused. */
static inline int stop_failing(void) {
  const long count = __atomic_exchange_n(&first_refused, LONG_MAX, __ATOMIC_ACQ_REL);
  return __atomic_load_n(&asked_for, __ATOMIC_ACQUIRE) > count;
}

/* The C library's own function of that name. */
#define REAL(result, name, ...)                       \
  static result (*real)(__VA_ARGS__);                 \
  if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE)) {    \
    result (*found)(__VA_ARGS__);                     \
    *(void**)&found = dlsym(RTLD_NEXT, name);         \
    __atomic_store_n(&real, found, __ATOMIC_RELEASE); \
  }

void* malloc(size_t size) {
  REAL(void*, "malloc", size_t)
  return refuse(size) ? NULL : real(size);
}

void* calloc(size_t count, size_t size) {
  REAL(void*, "calloc", size_t, size_t)
  return refuse(count * size) ? NULL : real(count, size);
}

void* realloc(void* old, size_t size) {
  REAL(void*, "realloc", void*, size_t)
  return refuse(size) ? NULL : real(old, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  REAL(void*, "aligned_alloc", size_t, size_t)
  return refuse(size) ? NULL : real(alignment, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  REAL(int, "posix_memalign", void**, size_t, size_t)
  return refuse(size) ? ENOMEM : real(out, alignment, size);
}

void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  REAL(void*, "mmap", void*, size_t, int, int, int, off_t)
  return refuse(size) ? MAP_FAILED : real(address, size, protection, flags, file, offset);
}

#endif
