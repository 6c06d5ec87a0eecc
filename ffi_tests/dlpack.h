/* dlpack.h, version 1, said once more: what another library would have compiled in. */
#ifndef DLPACK_H
#define DLPACK_H

#include <stdint.h>

typedef struct {
  uint32_t major, minor;
} Version;
typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Array;
struct DLManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  Array array;
};

#endif
