// A driver without a GPU, for tests: device memory is the host's, and the kernel `add_one` (words:
// an address of u64s, their number) adds one to each. What is on a stream is done as late as can
// be: when somebody waits for it, or for what comes after it, so that work that should have been
// waited for and was not is found undone. NVIDIA's header checks the types of all functions.
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// How this one is: -DVERSION=13000 and so on.
#ifndef VERSION
#define VERSION 13000
#endif
#ifndef CAPABILITY
#define CAPABILITY 90
#endif
// The stream that is not late.
#ifndef EAGER
#define EAGER STREAMS
#endif
#ifndef GPUS
#define GPUS 1
#endif
#ifndef INIT
#define INIT CUDA_SUCCESS
#endif
#ifndef RETAIN
#define RETAIN CUDA_SUCCESS
#endif
#ifndef STREAM
#define STREAM CUDA_SUCCESS
#endif

typedef unsigned long long word;
enum { MOST = 64, STREAMS = 16, QUEUED = 1 << 12 };
static _Thread_local CUcontext current;
static _Thread_local CUstreamCaptureMode mode;
static CUstream capturing;
static int disturbed, lost, live, kernels, captured_count, shared_limit = 48 << 10;
static word captured[MOST][2];
static char context_, module_, function_;

// A stream: what was put on it, of which the first `done` are done.
struct work {
  enum { COPY, KERNEL, WAIT } kind;
  word at[3];
};
static struct stream {
  struct work work[QUEUED];
  word count, done;
} streams[STREAMS];
static int stream_count;
// What an event waits for: that so much of a stream is done.
struct event {
  struct stream* stream;
  word count;
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void run(const word* words) {
  for (word i = 0; i < words[1]; ++i) ++((word*)words[0])[i];
  ++kernels;
}
static void advance(struct stream* stream, word count) {
  while (stream->done < count) {
    const struct work* work = &stream->work[stream->done++ % QUEUED];
    switch (work->kind) {
      case COPY:
        memcpy((void*)work->at[0], (const void*)work->at[1], work->at[2]);
        break;
      case KERNEL:
        run(work->at);
        break;
      case WAIT:
        advance((struct stream*)work->at[0], work->at[1]);
        break;
    }
  }
}
static void put(CUstream stream_, int kind, word a, word b, word c) {
  struct stream* stream = (struct stream*)stream_;
  pthread_mutex_lock(&mutex);
  if (stream->count - stream->done == QUEUED) advance(stream, stream->count);
  stream->work[stream->count++ % QUEUED] = (struct work){kind, {a, b, c}};
  if (stream - streams == EAGER) advance(stream, stream->count);
  pthread_mutex_unlock(&mutex);
}
static void advance_all(void) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < stream_count; ++i) advance(&streams[i], streams[i].count);
  pthread_mutex_unlock(&mutex);
}

static CUresult state(void) { return lost ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS; }
// As if somebody always captured in a mode that hinders threads.
static CUresult inside(void) {
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return current == (CUcontext)&context_ ? state() : CUDA_ERROR_INVALID_CONTEXT;
}

// For the tests: addresses that are allocated, kernels done, and whether the thread's context or
// mode are not what they were.
int fake_live(void) { return live; }
int fake_kernels(void) { return kernels; }
// Puts a kernel on a stream.
void fake_add(word stream, word address) { put((CUstream)stream, KERNEL, address, 2, 0); }
int fake_inside(void) { return current != 0 || mode != CU_STREAM_CAPTURE_MODE_GLOBAL; }
// What another thread does to a capture when it waits for the device.
int fake_disturb(void) { return disturbed = 1; }

CUresult cuInit(unsigned int flags) { return flags == 0 ? INIT : CUDA_ERROR_INVALID_VALUE; }
CUresult cuDriverGetVersion(int* version) {
  *version = VERSION;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text =
      error == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "an error";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = GPUS;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return 0 <= ordinal && ordinal < GPUS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int len, CUdevice device) {
  (void)device;
  strncpy(name, "Fake GPU", len);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  (void)device;
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = CAPABILITY / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = CAPABILITY % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 227 << 10;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  (void)device;
  *context = (CUcontext)&context_;
  return RETAIN;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  *context = current;
  current = 0;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* given) {
  const CUstreamCaptureMode before = mode;
  mode = *given;
  *given = before;
  return state();
}
CUresult cuCtxSynchronize(void) {
  advance_all();
  return inside();
}
CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  if (stream_count == STREAMS) return CUDA_ERROR_OUT_OF_MEMORY;
  if (STREAM != CUDA_SUCCESS) return STREAM;
  *stream = (CUstream)&streams[stream_count++];
  return flags == CU_STREAM_NON_BLOCKING ? inside() : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuStreamDestroy(CUstream stream) {
  return stream != 0 ? inside() : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event_, unsigned int flags) {
  const struct event* event = (const struct event*)event_;
  if (capturing != 0 && stream == capturing) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  if (event->stream != 0) put(stream, WAIT, (word)event->stream, event->count, 0);
  return flags == 0 ? inside() : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  if (capturing != 0 || mode != CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  capturing = stream;
  captured_count = 0;
  return inside();
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  if (capturing != stream) return CUDA_ERROR_ILLEGAL_STATE;
  capturing = 0;
  *graph = 0;
  if (disturbed) return disturbed = 0, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  word* copy = malloc(sizeof captured + sizeof *copy);
  copy[0] = captured_count;
  memcpy(copy + 1, captured, sizeof captured);
  *graph = (CUgraph)copy;
  return inside();
}
// The graph itself is what is launched.
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph,
                                     unsigned long long flags) {
  word* copy = malloc(sizeof captured + sizeof *copy);
  memcpy(copy, graph, sizeof captured + sizeof *copy);
  *executable = (CUgraphExec)copy;
  return flags == 0 ? inside() : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphDestroy(CUgraph graph) {
  free(graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  free(executable);
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  const word* copy = (const word*)executable;
  for (word i = 0; i < copy[0]; ++i) put(stream, KERNEL, copy[1 + 2 * i], copy[2 + 2 * i], 0);
  return inside();
}
CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  (void)flags;
  *event = calloc(1, sizeof(struct event));
  return inside();
}
CUresult cuEventDestroy(CUevent event) {
  free(event);
  return inside();
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  *(struct event*)event = (struct event){(struct stream*)stream, ((struct stream*)stream)->count};
  return inside();
}
CUresult cuEventQuery(CUevent event_) {
  const struct event* event = (const struct event*)event_;
  const int done = event->stream == 0 || event->stream->done >= event->count;
  return done ? inside() : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent event_) {
  const struct event* event = (const struct event*)event_;
  if (capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  pthread_mutex_lock(&mutex);
  if (event->stream != 0) advance(event->stream, event->count);
  pthread_mutex_unlock(&mutex);
  return inside();
}
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  (void)start, (void)end;
  *milliseconds = 1;
  return inside();
}
CUresult cuMemGetInfo(size_t* free, size_t* total) {
  *free = 5;
  *total = 7;
  return inside();
}
CUresult cuMemAlloc(CUdeviceptr* address, size_t nbytes) {
  if (nbytes > (size_t)1 << 30) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = (CUdeviceptr)aligned_alloc(256, (nbytes + 255) / 256 * 256);
  ++live;
  return inside();
}
CUresult cuMemFree(CUdeviceptr address) {
  advance_all();
  free((void*)address);
  --live;
  return inside();
}
CUresult cuMemHostAlloc(void** address, size_t nbytes, unsigned int flags) {
  *address = malloc(nbytes);
  return flags == 0 ? inside() : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemFreeHost(void* address) {
  advance_all();
  free(address);
  return inside();
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t nbytes, CUstream stream) {
  put(stream, COPY, to, (word)from, nbytes);
  return inside();
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t nbytes, CUstream stream) {
  put(stream, COPY, (word)to, from, nbytes);
  return inside();
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  *module = (CUmodule)&module_;
  ++live;
  return memcmp(image,
                "\x7f"
                "ELF",
                4) == 0
             ? inside()
             : CUDA_ERROR_INVALID_IMAGE;
}
CUresult cuModuleUnload(CUmodule module) {
  --live;
  return module == (CUmodule)&module_ ? inside() : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  (void)module;
  *function = (CUfunction)&function_;
  return strcmp(name, "add_one") == 0 ? inside() : CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction function) {
  (void)function;
  *value = which == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 1024 : shared_limit - 1024;
  return inside();
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  (void)function;
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  shared_limit = value + 1024;
  return inside();
}
CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                        CUstream stream, void** parameters, void** extra) {
  if (function != (CUfunction)&function_ || stream == 0 || extra != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (gx != 4 || gy != 3 || gz != 2 || bx != 128 || by != 1 || bz != 1)
    return CUDA_ERROR_INVALID_VALUE;
  if ((int)shared > shared_limit - 1024) return CUDA_ERROR_INVALID_VALUE;
  const word* words = parameters[0];
  if (words[0] == 0) lost = 1;
  if (lost) return state();
  if (stream == capturing && disturbed) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream == capturing)
    memcpy(captured[captured_count++], words, sizeof captured[0]);
  else
    put(stream, KERNEL, words[0], words[1], 0);
  return inside();
}
