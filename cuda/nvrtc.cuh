// Compiled with --diag-suppress 177,186: unused coordinates, and u8 among the signed integers.
// Names that the sources use, in NVRTC's terms.
#define DEVICE __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define DYNAMIC_SHARED(T, name) extern __shared__ __align__(16) T name[]
