// A driver without a GPU, for tests: device memory is the host's, what is queued is done at once,
// and the kernel `add_one` (words: an address of u64s, their number) adds one to each. NVIDIA's
// header checks the types of all functions.
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

// How this one is: -DVERSION=13000 and so on.
#ifndef VERSION
#define VERSION 13000
#endif
#ifndef CAPABILITY
#define CAPABILITY 90
#endif
#ifndef INIT
#define INIT CUDA_SUCCESS
#endif

enum { MOST = 64 };
static _Thread_local CUcontext current;
static int capturing, lost, live, captured_count, shared_limit = 48 << 10;
static unsigned long long captured[MOST][2];
static char context_, stream_, event_, module_, function_;

static CUresult state(void) { return lost ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS; }
static CUresult inside(void) {
  return current == (CUcontext)&context_ ? state() : CUDA_ERROR_INVALID_CONTEXT;
}

// For the tests: addresses that are allocated, and whether a context is current.
int fake_live(void) { return live; }
int fake_inside(void) { return current != 0; }

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
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
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
  return CUDA_SUCCESS;
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
CUresult cuCtxSynchronize(void) { return inside(); }
CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  *stream = (CUstream)&stream_;
  return flags == CU_STREAM_NON_BLOCKING ? inside() : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuStreamDestroy(CUstream stream) {
  return stream == (CUstream)&stream_ ? inside() : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  if (capturing || stream != (CUstream)&stream_ || mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  capturing = 1;
  captured_count = 0;
  return inside();
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  (void)stream;
  if (!capturing) return CUDA_ERROR_ILLEGAL_STATE;
  capturing = 0;
  unsigned long long* copy = malloc(sizeof captured + sizeof *copy);
  copy[0] = captured_count;
  memcpy(copy + 1, captured, sizeof captured);
  *graph = (CUgraph)copy;
  return inside();
}
// The graph itself is what is launched.
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph,
                                     unsigned long long flags) {
  unsigned long long* copy = malloc(sizeof captured + sizeof *copy);
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
static void run(const unsigned long long* words) {
  for (unsigned long long i = 0; i < words[1]; ++i) ++((unsigned long long*)words[0])[i];
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  (void)stream;
  const unsigned long long* copy = (const unsigned long long*)executable;
  for (unsigned long long i = 0; i < copy[0]; ++i) run(copy + 1 + 2 * i);
  return inside();
}
CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  (void)flags;
  *event = (CUevent)&event_;
  return inside();
}
CUresult cuEventDestroy(CUevent event) {
  (void)event;
  return inside();
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  (void)event;
  return stream == (CUstream)&stream_ ? inside() : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventQuery(CUevent event) {
  (void)event;
  return inside();
}
CUresult cuEventSynchronize(CUevent event) {
  (void)event;
  return capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : inside();
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
  free((void*)address);
  --live;
  return inside();
}
CUresult cuMemHostAlloc(void** address, size_t nbytes, unsigned int flags) {
  *address = malloc(nbytes);
  return flags == 0 ? inside() : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemFreeHost(void* address) {
  free(address);
  return inside();
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t nbytes, CUstream stream) {
  (void)stream;
  memcpy((void*)to, from, nbytes);
  return inside();
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t nbytes, CUstream stream) {
  (void)stream;
  memcpy(to, (const void*)from, nbytes);
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
  if (function != (CUfunction)&function_ || stream != (CUstream)&stream_ || extra != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (gx != 4 || gy != 3 || gz != 2 || bx != 128 || by != 1 || bz != 1)
    return CUDA_ERROR_INVALID_VALUE;
  if ((int)shared > shared_limit - 1024) return CUDA_ERROR_INVALID_VALUE;
  const unsigned long long* words = parameters[0];
  if (words[0] == 0) lost = 1;
  if (lost) return state();
  if (capturing)
    memcpy(captured[captured_count++], words, sizeof captured[0]);
  else
    run(words);
  return inside();
}
