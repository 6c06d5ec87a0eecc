/* A slow network between the processes of one machine, for LD_PRELOAD: what is written to a TCP
 * socket takes as long as a link of SLOW_LINK_MBPS megabytes a second takes for it. All sockets of
 * a process share its link, as they would share a network card. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Nanoseconds: when the link has sent all that was written so far. */
static long long is_free = 0;

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int is_tcp(int fd) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getsockname(fd, (struct sockaddr*)&address, &size) != 0) return 0;
  return address.ss_family == AF_INET || address.ss_family == AF_INET6;
}

static ssize_t sent(int fd, ssize_t bytes) {
  const char* speed = getenv("SLOW_LINK_MBPS");
  if (bytes <= 0 || speed == NULL || !is_tcp(fd)) return bytes;
  pthread_mutex_lock(&lock);
  const long long begins = now() > is_free ? now() : is_free;
  is_free = begins + (long long)(bytes * 1000.0 / atof(speed));
  const long long ends = is_free;
  pthread_mutex_unlock(&lock);
  struct timespec until = {ends / 1000000000LL, ends % 1000000000LL};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
  }
  return bytes;
}

typedef ssize_t (*writev_fn)(int, const struct iovec*, int);
typedef ssize_t (*sendmsg_fn)(int, const struct msghdr*, int);

ssize_t writev(int fd, const struct iovec* parts, int count) {
  static writev_fn real;
  if (real == NULL) real = (writev_fn)dlsym(RTLD_NEXT, "writev");
  return sent(fd, real(fd, parts, count));
}

ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  static sendmsg_fn real;
  if (real == NULL) real = (sendmsg_fn)dlsym(RTLD_NEXT, "sendmsg");
  return sent(fd, real(fd, message, flags));
}
