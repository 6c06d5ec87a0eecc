/* A slow network between the processes of one machine, for LD_PRELOAD: the kernel paces each TCP
 * connection at SLOW_LINK_MBPS megabytes a second. So no thread of the program waits for the
 * network that would not wait for a real one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>

static int paced(int fd) {
  const char* speed = getenv("SLOW_LINK_MBPS");
  if (fd >= 0 && speed != NULL) {
    const unsigned long bytes = (unsigned long)(atof(speed) * 1e6);
    setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes, sizeof bytes);
  }
  return fd;
}

typedef int (*connect_fn)(int, const struct sockaddr*, socklen_t);
typedef int (*accept_fn)(int, struct sockaddr*, socklen_t*);
typedef int (*accept4_fn)(int, struct sockaddr*, socklen_t*, int);

int connect(int fd, const struct sockaddr* address, socklen_t size) {
  static connect_fn real;
  if (real == NULL) real = (connect_fn)dlsym(RTLD_NEXT, "connect");
  const int is_tcp = address->sa_family == AF_INET || address->sa_family == AF_INET6;
  return real(is_tcp ? paced(fd) : fd, address, size);
}

int accept(int fd, struct sockaddr* address, socklen_t* size) {
  static accept_fn real;
  if (real == NULL) real = (accept_fn)dlsym(RTLD_NEXT, "accept");
  return paced(real(fd, address, size));
}

int accept4(int fd, struct sockaddr* address, socklen_t* size, int flags) {
  static accept4_fn real;
  if (real == NULL) real = (accept4_fn)dlsym(RTLD_NEXT, "accept4");
  return paced(real(fd, address, size, flags));
}
