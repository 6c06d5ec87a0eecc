/* torchacc.h: the C ABI of libtorchacc.so. Generated from src/capi: do not edit.
 *
 * Example: 3 times 2, from a context to a value and back
 *
 *   torchacc_context *context;
 *   torchacc_op mul;
 *   torchacc_tensor *x, *y;
 *   float value = 3;
 *   torchacc_error *error = torchacc_context_new(NULL, &context);              // NULL: the defaults
 *   if (error == NULL) error = torchacc_op_find(TORCHACC_STR("aten::mul.Scalar"), &mul);
 *   if (error == NULL)
 *     error = torchacc_tensor_from_host(context, TORCHACC_F32, NULL, 0, &value, sizeof value, &x);
 *   if (error == NULL) {
 *     torchacc_arg args[] = {{TORCHACC_ARG_TENSOR, 0, {.p = x}}, {TORCHACC_ARG_SCALAR_FLOAT, 0, {.f = 2}}};
 *     error = torchacc_apply(context, mul, args, 2, &y, 1);                    // recorded, not computed
 *   }
 *   if (error == NULL) error = torchacc_tensor_read(y, &value, sizeof value);  // compiled, run and read
 *   if (error != NULL) {
 *     torchacc_str said = torchacc_error_message(error);
 *     fprintf(stderr, "%.*s\n", (int)said.len, said.data);
 *     exit(1);                                                                 // or torchacc_error_free(error), and go on
 *   }
 *   torchacc_tensor_release(x);
 *   torchacc_tensor_release(y);
 *   torchacc_context_release(context);
 *
 * A training step is the same with more operators: torchacc_grad, torchacc_apply_into for the new weights, torchacc_cut.
 *
 * Rules
 *  - A function that can fail returns an owned torchacc_error*, NULL for success. Outputs come last and are written only on
 *    success; nothing is half done. Nothing is ever printed, and the process is never ended, but for the last rule.
 *  - Shared handles (context, buffer, tensor) have _retain and _release, owned ones (error, string,
 *    archive, graph) _free. Both accept NULL,
 *    in any order: a child keeps its parent. A handle that was released, or is of another kind, is the error
 *    INVALID_ARGUMENT where a function can fail, is taken for NULL elsewhere, and is not released again. But the last owner
 *    must not release a handle while another thread's call uses it.
 *  - Every function may be called from any thread. "Blocks" says which ones wait; the others do not.
 *  - After a fork the child may use contexts of its own. Of one that its parent used it can read values that were there, and
 *    release everything; what would wait for the parent's threads, or queue work for them, returns UNSUPPORTED. CUDA does not
 *    survive a fork: the child of a process that opened a GPU, or looked for one, can neither open one nor read from it.
 *    dlclose does not unload the library, whose threads may run.
 *  - Texts are UTF-8 with a length and no terminating NUL. TORCHACC_STR("…") makes one of a literal.
 *  - A struct passed in that may grow begins with struct_size: set it to sizeof, and the rest to zero for defaults.
 *  - Compare torchacc_abi_version() with TORCHACC_ABI once at start. All that is declared here is there since version 0.1,
 *    unless its comment says "Since"; a library of a later version serves programs built against this header.
 *  - Calls may come at the same time, on the same handles too. Threads that record on one context take turns, operation by
 *    operation: each one's operations stay in its order, and all of them are in one trace. Random numbers, and what is
 *    written to shared buffers, then depend on the turns: give each thread a context of its own where that matters.
 *  - INVALID_ARGUMENT is the error of every function for NULL where nothing is said of it, for handles of another kind or of
 *    another context, for numbers that are no dtype, kind or operator, and for text that is not UTF-8. INTERNAL and PANIC may
 *    come from any of them. "Errors" says what else there is.
 *  - Callbacks come with a user pointer and an optional drop function for it; they may run on any thread, must not unwind, and
 *    must not call this library unless their comment says so.
 *  - Memory for tensors that the system does not give is the error OUT_OF_MEMORY, from the call or from the read or sync of
 *    what was to be computed. Buffers keep what they held, but for one that a kernel was writing to in place when it got no
 *    memory to work in: reading that one is the error. Without the small pieces (far below 1 MiB) that its own lists and
 *    texts are made of, the library cannot go on: it ends the process by abort().
 */

#ifndef TORCHACC_H
#define TORCHACC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Literals ---- */

/* A literal as a text: TORCHACC_STR("aten::add.Tensor"). */
#ifdef __cplusplus
#define TORCHACC_STR(literal) (torchacc_str{"" literal, sizeof(literal) - 1})
#else
#define TORCHACC_STR(literal) ((torchacc_str){"" literal, sizeof(literal) - 1})
#endif

/* ---- Handles ---- */

/* A trace, a cache of programs, a launch thread and a backend. Shared. */
typedef struct torchacc_context torchacc_context;
/* Bytes with an identity, which hold a value that operations replace: what a tensor's storage is. Shared. */
typedef struct torchacc_buffer torchacc_buffer;
/* A strided view of a buffer, immutable. Shared. */
typedef struct torchacc_tensor torchacc_tensor;
/* Tensors with names, read from a file. Owned. */
typedef struct torchacc_archive torchacc_archive;
/* A program in the IR, to run on tensors. Owned. */
typedef struct torchacc_graph torchacc_graph;
/* An array of another library; see dlpack.h, version 1. */
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;
/* Why a call failed. Owned. */
typedef struct torchacc_error torchacc_error;
/* A text. Owned. */
typedef struct torchacc_string torchacc_string;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/* ---- Versions and texts ---- */

/* Version of the ABI: raised when a program built against an older header could go wrong. */
#define TORCHACC_ABI 1

/* Version of the library that this header belongs to; `torchacc_version` gives that of the loaded library. */
#define TORCHACC_VERSION_MAJOR 0
#define TORCHACC_VERSION_MINOR 1
#define TORCHACC_VERSION_PATCH 0

/* A piece of UTF-8 text that somebody else owns. Not terminated by NUL. */
typedef struct torchacc_str {
  const char *data;
  /* In bytes. */
  size_t len;
} torchacc_str;

/* Version of the ABI that this library implements. Compare it with `TORCHACC_ABI` once, at start. */
uint32_t torchacc_abi_version(void);

/* Version of the library, like "0.1.0". Valid for ever. */
struct torchacc_str torchacc_version(void);

/* The text; valid as long as the string. */
struct torchacc_str torchacc_string_view(const torchacc_string *string);

/* Frees a string; NULL is fine. */
void torchacc_string_free(torchacc_string *string);

/* Called when the user pointer that it came with is no longer needed. */
typedef void (*torchacc_drop_fn)(void *user);

/* ---- Errors ---- */

/* Kind of an error. */
typedef uint32_t torchacc_code;
/* The call was invalid and had no effect; the message says why. */
#define TORCHACC_INVALID_ARGUMENT 1
/* There is no such operator, file, communicator or program. */
#define TORCHACC_NOT_FOUND 2
/*
 The system has no memory left: release something, or compute in smaller pieces. For a program, the message says how much
 memory it wants, where its peak is, and which values take it; lines are named by their sites, as `<site 12>`.
 */
#define TORCHACC_OUT_OF_MEMORY 3
/* An index in a tensor of indices is out of range; found when the operator runs. */
#define TORCHACC_INDEX_ERROR 4
/* A kernel or a host operator failed, or the system refused a file. */
#define TORCHACC_OPERATOR_ERROR 5
/* This library contradicts itself. The call failed, and all else is unchanged; please report it. */
#define TORCHACC_INTERNAL 6
/*
 A panic in this library was caught. As INTERNAL, but the state that the call was changing may be half changed: save the
 values that can still be read, and start again with a new context.
 */
#define TORCHACC_PANIC 7
/*
 The call is valid, but nothing here implements it: for these dtypes, on this backend or this machine, or in a process forked
 since. The message says what is missing.
 */
#define TORCHACC_UNSUPPORTED 8
/*
 For bindings, to report that `torchacc_abi_version` is not the version they were built for: install the library and the
 header of one version.
 */
#define TORCHACC_ABI_MISMATCH 9
/* Strict mode forbids this (`torchacc_set_strict`). It has run all the same. */
#define TORCHACC_STRICT 10
/* A host operator refused a value. */
#define TORCHACC_VALUE_ERROR 11
/* A host operator refused a type. */
#define TORCHACC_TYPE_ERROR 12
/* A host operator of linear algebra cannot process this matrix: it is singular, or has no factors. */
#define TORCHACC_LINALG_ERROR 13

/* The number of an error's kind (`TORCHACC_INVALID_ARGUMENT`, …); 0 for NULL. */
torchacc_code torchacc_error_code(const torchacc_error *error);

/* The message, with the cause and a remedy. Valid as long as the error. */
struct torchacc_str torchacc_error_message(const torchacc_error *error);

/*
 The call site that recorded the failed operation, as the locator named it; 0 when unknown. If the same operation was recorded
 before, this is the site of the first time, and the message says so.
 */
uint64_t torchacc_error_site(const torchacc_error *error);

/*
 A new error, for a host operator to return. An unknown code becomes OPERATOR_ERROR; bytes that are not UTF-8 are replaced.
 */
torchacc_error *torchacc_error_new(torchacc_code code,
                                   struct torchacc_str message);

/* Frees an error; NULL is fine. */
void torchacc_error_free(torchacc_error *error);

/* ---- Contexts ---- */

/* Severity of a message. */
typedef uint32_t torchacc_log_level;
#define TORCHACC_LOG_WARNING 1
/* A recompile, and its reason. */
#define TORCHACC_LOG_INFO 2

/*
 Receives a message: `level` is one of `TORCHACC_LOG_*`, `site` the call site that it is about (0 for none). The text is valid
 during the call. Called without a lock within cuts, reads and syncs, by the thread that asked for them; must not unwind.
 */
typedef void (*torchacc_log_fn)(void *user, torchacc_log_level level, struct torchacc_str message, uint64_t site);

/* Options of a context. Zero everything but `struct_size` for the defaults. May grow at the end. */
typedef struct torchacc_options {
  /* `sizeof(torchacc_options)` of the caller. */
  size_t struct_size;
  /*
   "cpu"; "cuda" (an NVIDIA GPU: of several processes on a machine each uses that of its `LOCAL_RANK`; "cuda:1" is the
   second that the driver shows); "openxla" (the CPU, and an OpenXLA plugin for everything that it can compute); "auto" (the
   CPU, and for programs that run often the faster of the two); "reference"; or "null". Empty for the environment's
   `TORCHACC_BACKEND`, else a GPU that can be used, else "cpu": a GPU that then does not open is a warning (to `log`, or
   `torchacc_context_set_observer`). A backend that was named and cannot be used is an error.
   */
  struct torchacc_str backend;
  /* Threads to compute with, at most 4096; 0 for `TORCHACC_NUM_THREADS`, else all cores. */
  uint32_t num_threads;
  /* Number of operations after which a trace is cut automatically; 0 for `TORCHACC_TRACE_LIMIT`, else 20000. */
  uint64_t trace_limit;
  /*
   Folders to search for vendors' libraries, separated by ':'; empty for none. For oneDNN (`libdnnl.so.3`),
   `TORCHACC_ONEDNN` (a file or "off") takes precedence over them, and they over this library's own folder and the system's.
   For CUDA (NVRTC, cuBLASLt), `TORCHACC_CUDA` (folders separated by ':') comes before them, and the toolkit's folder
   (`CUDA_HOME`, else /usr/local/cuda) and the system's after them.
   */
  struct torchacc_str library_path;
  /*
   Folder to keep compiled programs in for other processes, or "off"; empty for `TORCHACC_CACHE_DIR`, else the folder
   torchacc in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache`).
   */
  struct torchacc_str cache_folder;
  /*
   Bytes that the programs there may take; the kernels of the backend cuda, the modules compiled by OpenXLA, and the
   measurements of matrix products may each take as many again. The least recently used are removed. 0 for
   `TORCHACC_CACHE_LIMIT`, else 1 GiB.
   */
  uint64_t cache_limit;
  /*
   Bytes of dropped and replaced inputs that a trace may keep before it is cut automatically; 0 for `TORCHACC_TRACE_BYTES`,
   else 1 GiB.
   */
  uint64_t trace_bytes;
  /*
   Receives messages; NULL for none. `log_user` belongs to the library from the call on, on an error too (except for a bad
   `struct_size`).
   */
  torchacc_log_fn log;
  void *log_user;
  torchacc_drop_fn log_drop;
  /*
   How to pad sizes that vary, so that one program serves them: "exact" (no padding), "multiple:64", "geometric:1.25:64"
   (each bucket is that ratio times the one before, rounded up to a multiple), "list:128,256,512" or "learned:8" (that many
   buckets, for the sizes seen). Empty for `TORCHACC_BUCKETS`, else "exact". Results are those of the exact sizes except for
   the order of sums. A trace that cannot be padded is compiled for its own sizes; the metric padding_refused counts these.
   */
  struct torchacc_str bucket_policy;
  /*
   1: the way in which results are computed depends on no measurement, so their bits are the same in every process on equal
   machines. 0: `TORCHACC_DETERMINISTIC`, else matrix products (on the CPU those of f32) are computed by the implementation
   that was fastest when the first one like them was run (which is kept in the cache folder; on the CPU nothing is measured
   without one), and on the backend cuda gradients of attention in half types, which cuDNN then computes, differ in their
   last bits from run to run. Except for these, within a context, and on "cpu" for any number of threads, equal steps give
   equal bits either way.
   */
  uint32_t deterministic;
  /*
   As `torchacc_context_set_memory_limit`; 0 for `TORCHACC_MEMORY_LIMIT` (with a suffix K, M or G for binary units), else
   none.
   */
  uint64_t memory_limit;
} torchacc_options;

/*
 Makes a context. Starts no thread and takes no memory before the first operation runs; the backend cuda, and the search for a
 GPU where none is named, start the driver. With `TORCHACC_WATCHDOG=60`, whenever nothing of a program has ended for 60
 seconds, a thread reports on the error stream and to `log` what runs and where all threads are, and everything goes on; with
 `60,abort` the process then ends.
 Errors: INVALID_ARGUMENT for an unknown backend or a bad option, UNSUPPORTED for a GPU that cannot be used (the message says
 why, and how to proceed).
 */
torchacc_error *torchacc_context_new(const struct torchacc_options *options,
                                     torchacc_context **out);

/*
 The devices that contexts can compute on, as a JSON list of objects. Each has `backend`, its name in
 `torchacc_options.backend`; "cpu" also has the vector `instructions` that it uses ("avx512"); each NVIDIA GPU that the driver
 shows its `name` and compute `capability` ("9.0"); without a driver one object with the backend "cuda" says why it is
 `missing`. `library_path` as in the options. Starts NVIDIA's driver, but no context of its own.
 Errors: INVALID_ARGUMENT for an environment variable with an invalid value.
 */
torchacc_error *torchacc_devices(struct torchacc_str library_path,
                                 torchacc_string **out);

/* Adds an owner. */
torchacc_context *torchacc_context_retain(torchacc_context *context);

/* Removes an owner. Buffers keep their context alive. The last one blocks until everything that was cut has run. */
void torchacc_context_release(torchacc_context *context);

/* ---- Tensors ---- */

/*
 Type of an element: one of the `TORCHACC_*` dtypes. Those from C64 on are only stored, moved and passed to host operators,
 except for C64 and C128, which many operators of PyTorch compute with (a complex number is given as two FLOATS), and the F8
 ones up to F8E5M2FNUZ, which are cast and multiplied.
 */
typedef uint32_t torchacc_dtype;
/* A byte, 0 or 1. Any other value given counts as 1. */
#define TORCHACC_BOOL 0
#define TORCHACC_U8 1
#define TORCHACC_I8 2
#define TORCHACC_I16 3
#define TORCHACC_I32 4
#define TORCHACC_I64 5
#define TORCHACC_F16 6
#define TORCHACC_BF16 7
#define TORCHACC_F32 8
#define TORCHACC_F64 9
#define TORCHACC_C64 10
#define TORCHACC_C128 11
#define TORCHACC_U16 12
#define TORCHACC_U32 13
#define TORCHACC_U64 14
#define TORCHACC_C32 15
#define TORCHACC_F8E4M3FN 16
#define TORCHACC_F8E5M2 17
#define TORCHACC_F8E4M3FNUZ 18
#define TORCHACC_F8E5M2FNUZ 19
#define TORCHACC_F8E8M0FNU 20

/* More dimensions than any tensor library supports. */
#define TORCHACC_MAX_RANK 64

/*
 Makes a new tensor with a copy of `len` bytes: elements in row-major order. `len` must match the sizes.
 Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
torchacc_error *torchacc_tensor_from_host(torchacc_context *context,
                                          torchacc_dtype dtype,
                                          const int64_t *sizes,
                                          uint32_t rank,
                                          const void *data,
                                          size_t len,
                                          torchacc_tensor **out);

/*
 A new dense tensor of zeros. Takes no memory before something is written. Errors: INVALID_ARGUMENT for sizes that are
 negative or beyond any memory.
 */
torchacc_error *torchacc_tensor_zeros(torchacc_context *context,
                                      torchacc_dtype dtype,
                                      const int64_t *sizes,
                                      uint32_t rank,
                                      torchacc_tensor **out);

/*
 A strided view of a buffer. Sizes, strides and offset count elements of `dtype`. A NULL buffer stands for "no tensor".
 */
typedef struct torchacc_view {
  torchacc_buffer *buffer;
  const int64_t *sizes;
  const int64_t *strides;
  int64_t offset;
  uint32_t rank;
  torchacc_dtype dtype;
} torchacc_view;

/* A tensor that shares the buffer of `view`. Errors: INVALID_ARGUMENT when the view leaves the buffer. */
torchacc_error *torchacc_tensor_from_view(const struct torchacc_view *view, torchacc_tensor **out);

/* The tensor's view of its buffer. The pointers are valid, and the buffer is kept, as long as the tensor. */
torchacc_error *torchacc_tensor_view(const torchacc_tensor *tensor, struct torchacc_view *out);

/* Bytes that `torchacc_tensor_read` copies; 0 for NULL. */
size_t torchacc_tensor_nbytes(const torchacc_tensor *tensor);

/*
 Copies the elements in row-major order; `len` must be at least `torchacc_tensor_nbytes`. Blocks,
 and fails, as `torchacc_buffer_read`.
 */
torchacc_error *torchacc_tensor_read(const torchacc_tensor *tensor, void *data, size_t len);

/*
 Replaces the elements by a copy of `len` bytes: elements in row-major order. `len` must be `torchacc_tensor_nbytes`.
 Other views of the same buffer see it. Does not wait. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
torchacc_error *torchacc_tensor_write(torchacc_tensor *tensor, const void *data, size_t len);

/*
 Declares that dimension `dim` of the tensor (and those of that size in other tensors of its buffer) will have between `least`
 and `most` elements in later programs, which then are planned for these sizes at once. Only advice: without it, programs are
 planned for other sizes when a second size occurs; and sizes outside of the range still work.
 Errors: INVALID_ARGUMENT for a dimension that the tensor does not have, or when its size is not between the two.
 */
torchacc_error *torchacc_tensor_mark_dynamic(torchacc_tensor *tensor,
                                             uint32_t dim,
                                             int64_t least,
                                             int64_t most);

/* Adds an owner. */
torchacc_tensor *torchacc_tensor_retain(torchacc_tensor *tensor);

/* Removes an owner. */
void torchacc_tensor_release(torchacc_tensor *tensor);

/* Type of the elements; for NULL `UINT32_MAX`, which is no dtype. */
torchacc_dtype torchacc_tensor_dtype(const torchacc_tensor *tensor);

/* Number of dimensions; 0 for NULL. */
uint32_t torchacc_tensor_rank(const torchacc_tensor *tensor);

/* Sizes of the dimensions, as many as the rank; valid as long as the tensor. NULL for NULL. */
const int64_t *torchacc_tensor_sizes(const torchacc_tensor *tensor);

/* Number of elements; 0 for NULL. */
int64_t torchacc_tensor_numel(const torchacc_tensor *tensor);

/* Whether a read would not wait; false for NULL. */
bool torchacc_tensor_is_ready(const torchacc_tensor *tensor);

/*
 Gives the tensor a name, which `torchacc_save` writes and `torchacc_load` gives. A tensor is named once.
 Errors: INVALID_ARGUMENT for text that is not UTF-8, and when it has another name.
 */
torchacc_error *torchacc_tensor_set_name(torchacc_tensor *tensor, struct torchacc_str name);

/* The tensor's name, empty without one; valid as long as the tensor. */
struct torchacc_str torchacc_tensor_name(const torchacc_tensor *tensor);

/*
 The tensor with its dimensions in another order: dimension i of the view is dimension `order[i]`. `order` has as
 many elements as the tensor has dimensions, each one once, counted from 0. The view shares the tensor's buffer:
 writes to one are seen in the other. Errors: INVALID_ARGUMENT.
 */
torchacc_error *torchacc_tensor_permute(const torchacc_tensor *tensor,
                                        const int64_t *order,
                                        uint32_t rank,
                                        torchacc_tensor **out);

/*
 `count` elements of dimension `dim`, from `start` on, every `step`-th. A view like that of `torchacc_tensor_permute`. All are
 counted from 0 and within the dimension; `step` is at least 1. Errors: INVALID_ARGUMENT.
 */
torchacc_error *torchacc_tensor_slice(const torchacc_tensor *tensor,
                                      uint32_t dim,
                                      int64_t start,
                                      int64_t count,
                                      int64_t step,
                                      torchacc_tensor **out);

/*
 The same elements in row-major order under other sizes. A view like that of `torchacc_tensor_permute`. Errors:
 INVALID_ARGUMENT for another number of elements, and when the elements would have to move ("aten::reshape" copies).
 */
torchacc_error *torchacc_tensor_reshape(const torchacc_tensor *tensor,
                                        const int64_t *sizes,
                                        uint32_t rank,
                                        torchacc_tensor **out);

/*
 The tensor repeated to `sizes`: they are aligned at the end, and only dimensions of size 1 (and new ones in front) repeat. A
 view like that of `torchacc_tensor_permute`, to read from. Errors: INVALID_ARGUMENT.
 */
torchacc_error *torchacc_tensor_expand(const torchacc_tensor *tensor,
                                       const int64_t *sizes,
                                       uint32_t rank,
                                       torchacc_tensor **out);

/* ---- Operators by name ---- */

/* The number of an operator in this process, from `torchacc_op_find` or `torchacc_op_register_host`. */
typedef uint32_t torchacc_op;

/*
 Finds a native operator: "aten::add.Tensor" (the in-place and out= forms find the same one), "torchacc::attention", or a
 plain name: a primitive's ("add", "matmul": exact types, no defaults), else PyTorch's without namespace ("gelu", "cat").
 Numbers hold for this process and library only. Errors: NOT_FOUND.
 */
torchacc_error *torchacc_op_find(struct torchacc_str name,
                                 torchacc_op *out);

/* Number of native operators, which are numbered from 0. */
size_t torchacc_op_count(void);

/* Name of a native operator; empty for other numbers. Valid for ever. */
struct torchacc_str torchacc_op_name(torchacc_op op);

/*
 Describes the arguments and results of a native operator, for programs that make bindings: a JSON object of

 - `name`, `number`, and `doc` where there is more to say;
 - `forms`, one or more, each with `overload`, `arguments` and `results`. An argument has a `name`, a `type`, and where it
   applies `list` (several), `gaps` (elements may be absent), `optional` (NONE for absent) and `default` (NONE stands
   for it; arguments at the end may be left out). A result has a `type`, and `list` for a list of tensors.

 The types and the kinds of argument that they take: tensor (VIEW, TENSOR), scalar and float (SCALAR_*, or INT, FLOAT and
 BOOL to have it compiled in), int (INT), bool (BOOL), dtype (DTYPE), text (STR), generator (RANDOM), communicator
 (COMMUNICATOR), unused (NONE). A list
 takes the kind in the plural. A tensor may be a number instead where the operator is elementwise.
 Errors: NOT_FOUND for a number that is no native operator's.
 */
torchacc_error *torchacc_op_signature(torchacc_op op,
                                      torchacc_string **out);

/* ---- Recording ---- */

/* Kind of an argument. */
typedef uint32_t torchacc_arg_kind;
#define TORCHACC_ARG_NONE 0
/* `v.p` points at a `torchacc_view`. */
#define TORCHACC_ARG_VIEW 1
/* `v.p` points at `len` `torchacc_view`s, a list of tensors; a NULL buffer is an absent element. */
#define TORCHACC_ARG_VIEWS 2
/* `v.p` is a `torchacc_tensor*`. */
#define TORCHACC_ARG_TENSOR 3
/* `v.p` points at `len` `torchacc_tensor*`. */
#define TORCHACC_ARG_TENSORS 4
/* An attribute `v.i`: compiled into the program. */
#define TORCHACC_ARG_INT 5
/* An attribute `v.f`. */
#define TORCHACC_ARG_FLOAT 6
/* An attribute: `v.i` is 0 or not. */
#define TORCHACC_ARG_BOOL 7
/*
 A number `v.i` that may change from call to call without a recompile. Where a native operator must know its value (a
 dimension, a size, a flag: `int` or `bool` in its signature), it is an attribute.
 */
#define TORCHACC_ARG_SCALAR_INT 8
/* Likewise `v.f`. */
#define TORCHACC_ARG_SCALAR_FLOAT 9
/* Likewise `v.i`, 0 or not. */
#define TORCHACC_ARG_SCALAR_BOOL 10
/* `v.p` points at `len` int64_t. */
#define TORCHACC_ARG_INTS 11
/* `v.p` points at `len` double. */
#define TORCHACC_ARG_FLOATS 12
/* `v.p` points at `len` bytes, 0 or not. */
#define TORCHACC_ARG_BOOLS 13
/* `v.i` is a `torchacc_dtype`. */
#define TORCHACC_ARG_DTYPE 14
/* `v.p` points at `len` bytes of UTF-8. */
#define TORCHACC_ARG_STR 15
/*
 The context's generator (`torchacc_seed`): for an argument of type "generator", or after the last argument of any other
 operator that draws random numbers. Every call gets numbers of its own.
 */
#define TORCHACC_ARG_RANDOM 16
/*
 `v.p` points at `len` bytes of UTF-8: the name of a communicator (`torchacc_communicator_register`). The last argument of a
 collective.
 */
#define TORCHACC_ARG_COMMUNICATOR 17

/* Element type and sizes of a dense tensor. */
typedef struct torchacc_type {
  torchacc_dtype dtype;
  uint32_t rank;
  /* Only the first `rank` are used. */
  int64_t sizes[TORCHACC_MAX_RANK];
} torchacc_type;

/* Value of an argument; the kind says which member is set. */
typedef union torchacc_value {
  int64_t i;
  double f;
  const void *p;
} torchacc_value;

/* One argument, in the order of the operator's schema without its `out=` arguments. */
typedef struct torchacc_arg {
  torchacc_arg_kind kind;
  /* Number of elements at `v.p`, for kinds that take several. */
  uint32_t len;
  union torchacc_value v;
} torchacc_arg;

/*
 Records an operator. Its results are written to `outs`: first its fresh results in order (views that cover a new buffer),
 then the arguments it changes, in schema order (in-place self, `out=`, elements of changed lists one by one). Bytes that a
 write does not cover are kept. Does not wait.
 Errors, with nothing recorded: INVALID_ARGUMENT; UNSUPPORTED when a native operator has no form for these dtypes.
 */
torchacc_error *torchacc_record(torchacc_context *context,
                                torchacc_op op,
                                const struct torchacc_arg *args,
                                size_t n_args,
                                const struct torchacc_view *outs,
                                size_t n_outs);

/*
 Records a native operator on tensors, and gives its results as new dense tensors, whose shapes it infers. `n_outs` must
 be the number of results. Does not wait. Errors as `torchacc_record`, and those of the operator's shape rule.
 */
torchacc_error *torchacc_apply(torchacc_context *context,
                               torchacc_op op,
                               const struct torchacc_arg *args,
                               size_t n_args,
                               torchacc_tensor **outs,
                               size_t n_outs);

/*
 As `torchacc_record`, with tensors for the results, which are written through them: `outs` may be arguments of the
 same call (x = x + y in place), and views. A result is cast to its tensor's dtype. Does not wait.
 Errors as `torchacc_apply`.
 */
torchacc_error *torchacc_apply_into(torchacc_context *context,
                                    torchacc_op op,
                                    const struct torchacc_arg *args,
                                    size_t n_args,
                                    torchacc_tensor *const *outs,
                                    size_t n_outs);

/*
 Whether an integer of the operation that is recorded next (the start of a slice, a shift) changes from run to run of this
 program: `changes` is true from the second run on that brought a new one. An operation whose integer changes is better
 recorded with indices that are computed from a SCALAR_INT, since as an INT every integer makes a program of its own; one that
 stays is faster as it is. A program is the operations recorded since the last cut, up to the first such question since.
 `kind` distinguishes integers: a hash of the operator and of all else that decides which are alike. Records nothing. Errors:
 INVALID_ARGUMENT.
 */
torchacc_error *torchacc_integer_changes(torchacc_context *context,
                                         uint64_t kind,
                                         int64_t integer,
                                         bool *changes);

/*
 Number of tensors, from the first one on, that `torchacc_concatenate` can concatenate of a list that the operation recorded
 next reads (`cat`), if the list changes from run to run of this program, in the sense of `torchacc_integer_changes` but from
 the third new one on: in its length, or in which tensors share memory with each other or with tensors that the program has
 read. 0 for a list that stays, and where memory is not the host's. Records nothing. Errors: INVALID_ARGUMENT.
 */
torchacc_error *torchacc_list_changes(torchacc_context *context,
                                      uint64_t kind,
                                      const struct torchacc_view *list,
                                      size_t len,
                                      size_t *stored);

/*
 Makes the elements of `parts`, one after another, the content of the whole buffer of `out`. Records nothing: the values of
 tensors in memory, or promised by programs that were cut, are copied as bytes, and the list is not part of a program. Waits
 only while many programs are queued.
 Errors: INVALID_ARGUMENT for parts that are not dense or whose values are still in the trace, and for an `out` of another
 size.
 */
torchacc_error *torchacc_concatenate(torchacc_context *context,
                                     const struct torchacc_view *parts,
                                     size_t n_parts,
                                     const struct torchacc_view *out);

/*
 Gives the types of an operator's results by its shape rule, for arguments as for `torchacc_record` (strides do not count).
 `n_outs` must be the number of results. Records nothing. Errors: INVALID_ARGUMENT when the operator does not take such
 arguments, UNSUPPORTED when it has no form for these dtypes.
 */
torchacc_error *torchacc_infer(torchacc_context *context,
                               torchacc_op op,
                               const struct torchacc_arg *args,
                               size_t n_args,
                               struct torchacc_type *outs,
                               size_t n_outs);

/*
 Seeds the generator that `TORCHACC_ARG_RANDOM` draws from: the same seed, operations and sizes give the same numbers, on
 any number of threads. A new context begins with seed 0.
 */
torchacc_error *torchacc_seed(torchacc_context *context,
                              uint64_t seed);

/* ---- Gradients ---- */

/*
 Records the derivatives of `loss`, one float, with respect to `count` float tensors, and gives them as new dense tensors
 of the tensors' types. One record; does not wait. Gradients are operations like others: they may be differentiated again.

 A derivative is taken with respect to the value that a tensor holds at the call, as the tensor shows it: a view has the
 gradient of its elements. It is zero for a tensor that the loss does not depend on. It flows through floats: through native
 operators, views, in-place writes; not through comparisons, rounding, integers, the primitive "detach", or the steps of
 optimizers: "torchacc::adamw" (lists params, grads, means, squares; then step, counted from 1, lr, beta1, beta2,
 weight_decay, eps → the new params, means, squares) and "torchacc::sgd" (lists params, grads, momentum_buffers or an empty
 one; then lr, momentum, weight_decay, and the attribute nesterov → the new params, momentum_buffers), which `torchacc_record`
 writes over the old ones. Their numbers, given as SCALAR_*, cause no recompile.

 The loss must have been recorded since the last cut, and everything between the tensors and the loss too: values computed
 before that have lost their history. So record the whole step, forward, gradients and update, before any part of it is read,
 synced or cut. A step longer than the options `trace_limit` or `trace_bytes` is cut automatically: raise them.

 Errors, with nothing recorded: INVALID_ARGUMENT for a loss that is not one float or no longer in the trace, and for a tensor
 that is not a float, that was written since the loss was computed from it, or that the loss depends on through values
 computed before the last cut; UNSUPPORTED if the loss depends on a tensor through an operator without a gradient, which the
 message names; host operators have none. An invalid earlier record of the trace is reported here too.
 */
torchacc_error *torchacc_grad(torchacc_context *context,
                              const torchacc_tensor *loss,
                              torchacc_tensor *const *params,
                              size_t count,
                              torchacc_tensor **grads);

/* ---- Running and waiting ---- */

/*
 Closes the trace and hands it to the launch thread. Blocks only while several programs are queued there.
 Errors: STRICT; those of the operations come with a read or sync.
 */
torchacc_error *torchacc_cut(torchacc_context *context);

/*
 Cuts, waits for everything, and returns every failure that no read and no sync has returned yet, including those of results
 that were released unread: as one error, the first, which is the cause as far as is known, with a message that contains them
 all. Blocks. Errors: those of all operations; STRICT.
 */
torchacc_error *torchacc_sync(torchacc_context *context);

/* Marks the present moment: gives a number for `torchacc_is_done`. Records nothing, cuts nothing. */
torchacc_error *torchacc_mark(torchacc_context *context, uint64_t *out);

/*
 Whether everything that was recorded before a mark has run, whether or not it failed. Never blocks: cuts if some of it is
 still in the trace, so that repeated calls eventually give true. Errors: UNSUPPORTED in a process forked after the context
 was used.
 */
torchacc_error *torchacc_is_done(torchacc_context *context,
                                 uint64_t mark,
                                 bool *out);

/* ---- Reading without waiting ---- */

/*
 Receives a value: `len` bytes, elements in row-major order; or the error that prevented it (then `data` is NULL). Both belong
 to the library and are valid during the call. May call this library, except for functions that block, and must not unwind.
 */
typedef void (*torchacc_read_fn)(void *user, const torchacc_error *error, const void *data, size_t len);

/*
 Reads a tensor without waiting: `done` is called once, on a thread of the library's own, with the present value of the
 tensor, whatever is written to it later. Calls come in the order of a context's reads. Releasing the last handle of the
 context does not wait for them, so its caller may hold a lock that `done` wants; they come all the same. Cuts the trace if it
 still computes the value: after `torchacc_cut` that costs nothing. `user` belongs to the library from the call on, on an
 error too. Errors: INVALID_ARGUMENT; those of the operations that compute the value go to `done` (and to the next sync).
 */
torchacc_error *torchacc_tensor_read_async(const torchacc_tensor *tensor,
                                           torchacc_read_fn done,
                                           void *user,
                                           torchacc_drop_fn drop);

/*
 Copies a tensor to `destination` without waiting: its elements in row-major order, `len` bytes. Nobody else touches these
 before `done` is called, as by `torchacc_tensor_read_async`, with `data` the destination. Copies the present value of the
 tensor. A program that overwrites the tensor meanwhile runs up to the step that does so, which waits for the copy, never for
 a call of `done`. So a snapshot of a model overlaps the next step's forward and backward pass, and takes no memory but the
 destination. `user` as there. Errors: INVALID_ARGUMENT, also for a `len` that is not the tensor's.
 */
torchacc_error *torchacc_tensor_copy_async(const torchacc_tensor *tensor,
                                           void *destination,
                                           size_t len,
                                           torchacc_read_fn done,
                                           void *user,
                                           torchacc_drop_fn drop);

/* ---- Buffers: what tensors are views of ---- */

/*
 Makes a new buffer, whose content reads as zeros. Takes no memory before something is written.
 Errors: INVALID_ARGUMENT for more bytes than an address space has.
 */
torchacc_error *torchacc_buffer_new(torchacc_context *context, size_t nbytes, torchacc_buffer **out);

/* Adds an owner. */
torchacc_buffer *torchacc_buffer_retain(torchacc_buffer *buffer);

/* Removes an owner. Operations recorded on the buffer are not affected. */
void torchacc_buffer_release(torchacc_buffer *buffer);

/* Size in bytes; 0 for NULL. */
size_t torchacc_buffer_nbytes(const torchacc_buffer *buffer);

/*
 Changes the size. The common prefix keeps its bytes, new bytes are zero. Blocks when there is a value to keep.
 Errors: as `torchacc_buffer_read`; OUT_OF_MEMORY.
 */
torchacc_error *torchacc_buffer_resize(torchacc_buffer *buffer, size_t nbytes);

/*
 Replaces the content by a copy of `len` bytes, which are elements of `dtype`. `len` must be the size of the buffer.
 Does not wait. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
torchacc_error *torchacc_buffer_write(torchacc_buffer *buffer, torchacc_dtype dtype, const void *data, size_t len);

/*
 Copies bytes `[offset, offset + len)` to `data`. Blocks: cuts the trace if it still computes the value, and waits. After an
 error the contents of `data` are unspecified.
 Errors: that of the operation that failed to produce the value; that of one that failed to update it, or a value that it was
 computed from, which is reported once; that of a host operator without results, which no other read could report;
 INVALID_ARGUMENT.
 */
torchacc_error *torchacc_buffer_read(torchacc_buffer *buffer,
                                     size_t offset,
                                     void *data,
                                     size_t len);

/*
 As `torchacc_buffer_read`, but cuts nothing: blocks until the trace that computes the value has been cut, for instance by
 `torchacc_buffer_request`, and the value is ready. To be called on a thread of its own.
 Errors: that of the operation that failed to produce the value, which the next sync returns as well; INVALID_ARGUMENT.
 */
torchacc_error *torchacc_buffer_read_after_cut(torchacc_buffer *buffer,
                                               size_t offset,
                                               void *data,
                                               size_t len);

/*
 Ensures that the value gets computed: cuts the trace if that still computes it, as a read does. Does not wait for the value.
 Errors of the operations that compute it come with the read.
 */
torchacc_error *torchacc_buffer_request(torchacc_buffer *buffer);

/* Whether a read would not wait; false for NULL. */
bool torchacc_buffer_is_ready(const torchacc_buffer *buffer);

/* ---- Memory, and the caches of programs ---- */

/* Bytes of memory on the context's device. May grow at the end. */
typedef struct torchacc_memory_stats {
  /* `sizeof(torchacc_memory_stats)` of the caller. */
  size_t struct_size;
  /* In use: by values, by the intermediates of programs, and by packed weights. */
  uint64_t allocated_bytes;
  uint64_t peak_allocated_bytes;
  /* The same, with free memory that is kept for reuse. With an allocator of the program's own nothing is kept. */
  uint64_t reserved_bytes;
  uint64_t peak_reserved_bytes;
} torchacc_memory_stats;

/*
 Fills in `out` up to its `struct_size`, which the caller sets; fields that an older library does not know are 0. Waits for
 nothing: sync first to include recorded operations. Errors: INVALID_ARGUMENT.
 */
torchacc_error *torchacc_context_memory_stats(torchacc_context *context,
                                              struct torchacc_memory_stats *out);

/* Resets both peaks to the present values. */
void torchacc_context_reset_peak_memory(torchacc_context *context);

/*
 Limits the bytes that each program cut from now on takes besides its inputs: its intermediates, and results that are not
 given the memory of an input. Values that do not fit are recomputed where they are read, or wait in the host's memory if they are a
 GPU's, which takes time and changes no bit. A program for which that is not enough fails with OUT_OF_MEMORY, with a message that says how much it wants and at which
 step, and the buffers that it was to update keep their values. 0 for no limit. Blocks until everything that was cut has run;
 cuts nothing. Errors: UNSUPPORTED in a process that was forked after the context was used.
 */
torchacc_error *torchacc_context_set_memory_limit(torchacc_context *context,
                                                  uint64_t nbytes);

/*
 Gives memory that is kept for reuse back to the system, or to the device: free blocks, the memory that programs have for
 intermediates, and packed weights. It is allocated again when it is needed, so this costs time, and helps only other users of
 the memory. Blocks until everything that was cut has run; cuts nothing. Errors: UNSUPPORTED in a process that was forked
 after the context was used.
 */
torchacc_error *torchacc_context_trim(torchacc_context *context);

/*
 What the caches of programs did since the last `torchacc_metrics_reset`, and what they hold now. May grow at the end.
 */
typedef struct torchacc_cache_stats {
  /* `sizeof(torchacc_cache_stats)` of the caller. */
  size_t struct_size;
  /* Runs of programs that were in memory. */
  uint64_t hits;
  /* Runs of others: compiled, carried over, read from disk, padded to one that was there, or failed. */
  uint64_t misses;
  /* Programs compiled. */
  uint64_t compiles;
  /* Programs made of a plan for other sizes, without compiling. */
  uint64_t carried_over;
  /* Programs dropped from memory for others: the least recently used ones. */
  uint64_t evictions;
  /* Traces that are expected to come again. */
  uint64_t known_traces;
  /* Programs in memory now. */
  uint64_t programs;
  /* About how many bytes they and their keys take. */
  uint64_t program_bytes;
  /* Programs read from the folder that another context or process had compiled. */
  uint64_t disk_hits;
  /* Programs that this context removed there, to stay within `cache_limit`. */
  uint64_t disk_evictions;
  /* Files that it removed there because they were no whole programs of this version. */
  uint64_t disk_removed;
  /* Programs that could not be stored. */
  uint64_t disk_errors;
  /* Programs in the folder now, whoever stored them; 0 without a folder. */
  uint64_t disk_programs;
  /* Their bytes. */
  uint64_t disk_bytes;
} torchacc_cache_stats;

/*
 Fills in `out` up to its `struct_size`, which the caller sets; fields that an older library does not know are 0. Looks at the
 files of the cache folder, and waits for no operation. A trace counts once it has been launched: sync first for complete
 numbers.
 Errors: INVALID_ARGUMENT.
 */
torchacc_error *torchacc_context_cache_stats(torchacc_context *context,
                                             struct torchacc_cache_stats *out);

/* ---- What happened, and where ---- */

/* Returns the call site in the program that is recording: any number but 0. Must not call this library. */
typedef uint64_t (*torchacc_locate_fn)(void *user);

/*
 Sets the function that is asked for the call site of a recorded operation: on the recording thread, without a lock, and only
 at call sites not seen before. A second call replaces the function, and drops the first one's `user`. Errors carry its result
 (`torchacc_error_site`).
 */
torchacc_error *torchacc_context_set_locator(torchacc_context *context,
                                             torchacc_locate_fn locate,
                                             void *user,
                                             torchacc_drop_fn drop);

/* Events that are errors in strict mode: a sum of flags. */
typedef uint32_t torchacc_strict;
/* Recompiles of one line beyond the limit. */
#define TORCHACC_STRICT_RECOMPILES 1
/* CPU fallbacks. */
#define TORCHACC_STRICT_HOST_CALLS 2

/*
 Describes the metrics of `torchacc_metrics`: a JSON list of objects with name, unit ("bytes", "ns", or "" for a plain number)
 and doc; also in docs/metrics.md. Valid for ever.
 */
struct torchacc_str torchacc_metric_docs(void);

/*
 Counters and times since the last reset, and present amounts, as a flat JSON object of integers: see `torchacc_metric_docs`.
 */
torchacc_error *torchacc_metrics(torchacc_context *context,
                                 torchacc_string **out);

/* Sets the counters to 0 and the peak to the memory that is live. */
void torchacc_metrics_reset(torchacc_context *context);

/* Graph and plan of the last program that was compiled, as text for people; empty before the first. */
torchacc_error *torchacc_last_program(torchacc_context *context, torchacc_string **out);

/*
 Memory of the program that takes most of it, of those that ran since the last reset. A JSON object, empty before the first:
 `steps`, their number; `input_bytes`, `result_bytes` and `arena_bytes`, the sizes of its inputs, of the results that are not
 given the memory of inputs, and of all intermediates (except those that lie where results are written later); `live`, at most
 256 points (`step`, `bytes` of the intermediates needed then, `operator`, `site`), of several steps the one that needs most;
 and at most 16 of the largest tensors `between` at the peak (from step `first` to `last`), of the `results` and of the
 `inputs`: `type` ("f32[2,3]" or "scratch memory"), `bytes`, and `operator` and `site` of the step that makes it, where there
 is one.
 */
torchacc_error *torchacc_memory_report(torchacc_context *context,
                                       torchacc_string **out);

/*
 The program that is being compiled at the moment. A JSON object, empty if there is none: `operations`, `site` (of the first),
 `stage` ("graph", "plan", "code", "search" or "other sizes"), `elapsed_ns`, `expected_ns` (of the whole compile, estimated; 0
 while it is not known), `kernels` and `kernels_done` of them, where the backend compiles some. Waits for nothing.
 */
torchacc_error *torchacc_progress(torchacc_context *context,
                                  torchacc_string **out);

/*
 Host operators that ran since the last reset: a JSON list of objects with name, count,
 time_ns and site.
 */
torchacc_error *torchacc_host_call_report(torchacc_context *context, torchacc_string **out);

/*
 Compiles, CPU fallbacks and cuts since the last reset, each with its reason and call site. A JSON object:

 - `compiles`, oldest first, at most 64: `number`, `at_ns` (since the library was first used), `took_ns`, `operations`, `site`
   (of the first operation), `why`: "first"; "new" (no known trace begins with its operator); "again" (its program was dropped
   from the cache); or "changed", with `change`, the first difference from the nearest known trace: `operation` (its index),
   `operator`, `aspect` (operator, shape, dtype, layout, alias, scalar, attribute, arguments, results, format, length, outputs
   or donation), `argument` (and `element`) or `result` (their index), `old`, `new`, `site`, `old_site`, `text`, which states
   all of this, and `advice` for a change that keeps recurring. `earlier_compiles` counts the others. If values are
   recomputed or wait on the host because of the memory limit, `recomputed`: the `limit`, `bytes_without` it and `bytes`, the
   estimated `time` (1 without), the number of `steps` that run again, and the `largest` of them by `operator`: `count`, `bytes`
   and `site`; the number of `offloads`, values that wait on the host, `offloaded_bytes`, and `largest_offloads`, alike.
 - `host_calls`: as `torchacc_host_call_report`.
 - `cuts`: `cause` ("asked", "sync", "read", "limit" or "overwrite"), `count`, `site`; for a read also `value`, which
   describes the value read, and `value_site`, where it was computed.
 - `collectives`, of each communicator the last 16, oldest first, whatever was reset: `communicator`, its name; `number`, from
   0 on; `name`, as an operator's; `tensor`, type and sizes of the tensor from this rank; `bytes`; `state` ("running", "done"
   or "failed"); `at_ns` (as for compiles), `took_ns` (until now if it runs), `site`; `exposed_ns`, the part of that time in
   which nothing else ran, and `hidden_by`, the number of steps of its program between its start and the point where it is
   waited for, of which the first and the last one come from `first_site` and `last_site`.
 - `engines`, at most 64: programs for which the backend "auto" chose an `engine` ("cpu" or "openxla"): `operations`, `site`
   (of the first), and where they were measured `first_ns` and `second_ns`, median times of a run on each.
 - `products`: blocks of matrix products of f32 that occurred, where the fastest implementation is found by measuring:
   `blocks` (rows x terms x columns, and the layouts of the operands), and `by`, the implementation ("torchacc", "oneDNN" or
   "matrixmultiply").
 */
torchacc_error *torchacc_explain(torchacc_context *context,
                                 torchacc_string **out);

/*
 The call site of the step that this thread runs, as the locator gave it when the step was first recorded: for functions
 that the library calls for a step (host operators, collectives). 0 elsewhere, and without a locator.
 */
uint64_t torchacc_running_site(void);

/*
 Maps a site that the locator gave to its line: the same number for all sites on one line, itself a site on that line.
 */
typedef uint64_t (*torchacc_line_fn)(void *user, uint64_t site);

/* Receives a warning about the line `site`. The text is valid during the call. */
typedef void (*torchacc_warn_fn)(void *user, struct torchacc_str message, uint64_t site);

/*
 Sets the function that maps sites to lines, by which reports merge sites and recompiles are counted, and the one that
 receives warnings. Both are called without a lock, within cuts, reads, syncs and reports, by the thread that asked for them.
 Without an observer every site is a line of its own and nobody is warned; `options.log` receives the same warnings, as
 messages of the level WARNING, with or without it. A second call replaces both. Neither may be NULL.
 */
torchacc_error *torchacc_context_set_observer(torchacc_context *context,
                                              torchacc_line_fn line,
                                              torchacc_warn_fn warn,
                                              void *user,
                                              torchacc_drop_fn drop);

/*
 Sets how many recompiles one line may cause before a warning, or an error in strict mode. Initially 8, or
 `TORCHACC_RECOMPILE_LIMIT`.
 */
torchacc_error *torchacc_set_recompile_limit(torchacc_context *context, uint64_t limit);

/*
 Sets which of the `TORCHACC_STRICT_*`, added up, are errors: code STRICT, from the next cut, read or sync after they
 happened. The operation that the error is about has run; a value that a failed call did not give can be read again. Initially
 those of `TORCHACC_STRICT`, else none.
 */
torchacc_error *torchacc_set_strict(torchacc_context *context,
                                    torchacc_strict what);

/* ---- Timelines ---- */

/* An interval of a timeline. May grow at the end. Texts are valid during the call that passes it. */
typedef struct torchacc_span {
  /* `sizeof(torchacc_span)` of the library. */
  size_t struct_size;
  /* For a kernel or CPU fallback: the operator. */
  struct torchacc_str name;
  /* "trace", "phase", "compile", "kernel" or "CPU fallback". */
  struct torchacc_str category;
  /* Nanoseconds since `torchacc_profile_start`. */
  uint64_t begin_ns;
  uint64_t end_ns;
  /* Number of the thread, in the order in which threads were first seen. */
  uint64_t thread;
  /* 0 for none. */
  uint64_t site;
  /*
   A JSON object. For a kernel or CPU fallback: `kernel`, `step`, `bytes_read`, `bytes_written`, and lists of types
   ("f32[2,3]") `reads` and `writes`.
   */
  struct torchacc_str details;
} torchacc_span;

/* Receives a span. */
typedef void (*torchacc_span_fn)(void *user, const struct torchacc_span *span);

/*
 Begins a timeline of the context's work: recording, compiles, runs with their kernels, CPU fallbacks, memory. Until it is
 stopped every kernel is timed, at some cost.
 */
torchacc_error *torchacc_profile_start(torchacc_context *context);

/*
 Ends the timeline and gives it in Chrome's trace format, which Perfetto reads too: a JSON object with `traceEvents`.
 Work that is still running is missing: sync first. Sites are in `args.site`. The last 262144 events are kept;
 `otherData.lost_events` counts those before. Without `torchacc_profile_start` before it the list is empty.
 */
torchacc_error *torchacc_profile_stop(torchacc_context *context, torchacc_string **out);

/*
 Ends the timeline as `torchacc_profile_stop` does, and passes its spans to `visit`, in the order in which they ended: for
 another profiler, which has a clock and a format of its own. `lost`, which may be NULL, becomes the number of events that
 there was no room for. No lock is held meanwhile.
 */
torchacc_error *torchacc_profile_visit(torchacc_context *context,
                                       torchacc_span_fn visit,
                                       void *user,
                                       uint64_t *lost);

/*
 Nanoseconds in which programs ran since the context was made; nothing resets it. The time between two events on a device is
 the difference: sync before each, so that earlier operations have run.
 */
torchacc_error *torchacc_busy_ns(torchacc_context *context,
                                 uint64_t *out);

/* ---- Programs as text, and on other engines ---- */

/*
 Reads a graph from text, one primitive a line, like

 - `%0: f32[2,3] = input() {index=0, type=(f32[2,3])}`
 - `%1: f32[3,2] = transpose(%0) {perm=[1,0]}`
 - `%2: f64[] = scalar() {slot=0, dtype=f64}`
 - `return %1`

 Values are numbered 0, 1, 2, … in order, and say their types. Inputs have an index, scalars (f64, i64 or bool) a slot, from
 0. Primitives are the operators without a namespace (`torchacc_op_name`), whose signatures name their attributes. Attributes
 are written `3`, `3.0`, `1e-5`, `inf`, `nan`, `true`, `[1,2]`, `f32`, or types in parentheses: `(f32[2], i64[])`.

 Also reads a module of StableHLO in either of its forms, as JAX, torch_xla and TensorFlow print it: its function `main`, or
 its only public one, whose arguments are the inputs. Calls are inlined, and short loops unrolled; the body of any other loop
 is compiled once.
 Errors: INVALID_ARGUMENT, with line and column; unsupported features are named.
 */
torchacc_error *torchacc_graph_parse(struct torchacc_str text,
                                     torchacc_graph **out);

/*
 The graph of the program that was compiled last, after all passes. Errors: NOT_FOUND before the first, and when the last one
 came from disk or from a plan for other sizes, which have none.
 */
torchacc_error *torchacc_graph_last(torchacc_context *context,
                                    torchacc_graph **out);

/* Begins a capture, which `torchacc_graph_capture` ends: cuts, and gives the number of the trace that begins. */
torchacc_error *torchacc_capture_begin(torchacc_context *context, uint64_t *number);

/*
 Captures the operations recorded since `torchacc_capture_begin` gave `number` as a graph: a function from the values that the
 tensors `inputs` held then to those that the tensors `outputs` hold now (VIEW, TENSOR; both dense in the graph, whatever
 their strides). All else that was read, numbers included, is constant. Nothing is computed and nothing changes; the trace
 goes on.
 Errors: INVALID_ARGUMENT if the trace has been cut meanwhile, for instance by a read, for an input that is not the whole of
 its buffer, was never written, or is given twice, and when memory was changed that is neither an input's nor an output's;
 UNSUPPORTED for an input that is used as another dtype; those of operators that cannot be compiled.
 */
torchacc_error *torchacc_graph_capture(torchacc_context *context,
                                       uint64_t number,
                                       const struct torchacc_arg *inputs,
                                       size_t n_inputs,
                                       const struct torchacc_arg *outputs,
                                       size_t n_outputs,
                                       torchacc_graph **out);

/*
 Random numbers that a generator gave during a capture: those of `seed` from offset `begin` up to `end`. For the context's own
 generator, `begin` is 0 after `torchacc_seed`, and each call with `TORCHACC_ARG_RANDOM` takes 2^32.
 */
typedef struct torchacc_draws {
  uint64_t seed;
  uint64_t begin;
  uint64_t end;
} torchacc_draws;

/*
 As `torchacc_graph_capture`, for a program that draws random numbers, new ones whenever the graph runs: the states of the
 generators that gave `draws` are its last inputs, and its last results. A state is i64[2], seed and offset. Generators must
 have different seeds; numbers of other seeds are the same in each run. Errors: as `torchacc_graph_capture`, and
 INVALID_ARGUMENT for two generators with the same seed.
 */
torchacc_error *torchacc_graph_capture_random(torchacc_context *context,
                                              uint64_t number,
                                              const struct torchacc_arg *inputs,
                                              size_t n_inputs,
                                              const struct torchacc_arg *outputs,
                                              size_t n_outputs,
                                              const struct torchacc_draws *draws,
                                              size_t n_draws,
                                              torchacc_graph **out);

/*
 The graph as text, which `torchacc_graph_parse` reads. Errors: UNSUPPORTED for a module with constants of many elements,
 which this text cannot express.
 */
torchacc_error *torchacc_graph_text(const torchacc_graph *graph,
                                    torchacc_string **out);

/*
 The graph as a module of StableHLO, which `torchacc_graph_parse` reads, too. Its inputs, then its scalars, are the arguments
 of `main`. A primitive without a StableHLO operation is a composite `torchacc.<primitive>` with a function that defines it,
 or else a custom call of that name, which other systems do not know. Errors: INVALID_ARGUMENT for a graph with a host
 operator.
 */
torchacc_error *torchacc_graph_stablehlo(const torchacc_graph *graph,
                                         torchacc_string **out);

/* Number of results of the graph; 0 for NULL. */
size_t torchacc_graph_outputs(const torchacc_graph *graph);

/*
 Records the operations of the graph: `args` are its inputs (VIEW, TENSOR), in order, and its scalars (SCALAR_*), in the order
 of their slots; `outs` are new dense tensors, one for each result. Does not wait.
 Errors: INVALID_ARGUMENT for types, kinds or counts other than the graph's.
 */
torchacc_error *torchacc_graph_apply(torchacc_context *context,
                                     const torchacc_graph *graph,
                                     const struct torchacc_arg *args,
                                     size_t n_args,
                                     torchacc_tensor **outs,
                                     size_t n_outs);

/*
 As `torchacc_graph_apply`, with results written into existing tensors: result `k` into `into[k]` (VIEW, TENSOR), or else
 (NONE) into a new tensor. `outs` gets the new ones, and NULL for the others. Inputs may be among the targets, as the state of
 a training step is: their memory is overwritten where the program permits it, so that each step's state needs no memory of
 its own.
 Errors, with nothing recorded: as `torchacc_graph_apply`, and INVALID_ARGUMENT for two results in the same memory.
 */
torchacc_error *torchacc_graph_apply_into(torchacc_context *context,
                                          const torchacc_graph *graph,
                                          const struct torchacc_arg *args,
                                          size_t n_args,
                                          const struct torchacc_arg *into,
                                          torchacc_tensor **outs,
                                          size_t n_outs);

/*
 Runs the graph on OpenXLA, now: by the plugin of the PJRT C API in the file `plugin` (UTF-8), or if that is empty by that of
 `TORCHACC_OPENXLA`. `args` and `outs` are as for `torchacc_graph_apply`. The first call for a plugin compiles. Results are
 those of `torchacc_graph_apply`, except for rounding; subnormal numbers may be zero. Blocks: reads its inputs, as
 `torchacc_tensor_read`. Errors: NOT_FOUND when no plugin is named, or there is no such file; INVALID_ARGUMENT for a file that
 is not a plugin, and as `torchacc_graph_apply`; ABI_MISMATCH for a plugin of another API; UNSUPPORTED for operations that
 StableHLO cannot express; those of the graph's operations, of reading, and of the plugin.
 */
torchacc_error *torchacc_graph_run_on_openxla(torchacc_context *context,
                                              const torchacc_graph *graph,
                                              struct torchacc_str plugin,
                                              const struct torchacc_arg *args,
                                              size_t n_args,
                                              torchacc_tensor **outs,
                                              size_t n_outs);

/* Frees a graph; NULL is fine. */
void torchacc_graph_free(torchacc_graph *graph);

/* ---- Files of tensors ---- */

/*
 Writes tensors to a file of the safetensors format, which appears whole or not at all and replaces any file at `path`
 (UTF-8). `names`: one for each tensor, no two equal; NULL for the tensors' own names (`torchacc_tensor_set_name`). `texts`:
 `n_texts` pairs of a key and a text, which are kept beside the tensors. Blocks: reads the tensors one by one, as
 `torchacc_tensor_read` does. Errors: INVALID_ARGUMENT; UNSUPPORTED for dtypes that the format lacks (C32, C128); NOT_FOUND
 for a missing folder; OPERATOR_ERROR when the system refuses; those of reading.
 */
torchacc_error *torchacc_save(struct torchacc_str path,
                              const torchacc_tensor *const *tensors,
                              const struct torchacc_str *names,
                              size_t n_tensors,
                              const struct torchacc_str *texts,
                              size_t n_texts);

/*
 Reads a file of the safetensors format into new tensors, which get its names. Reads the file, but waits for no operation.
 Errors: NOT_FOUND; INVALID_ARGUMENT when it is not a complete file of the format; UNSUPPORTED for unknown dtypes;
 OUT_OF_MEMORY; OPERATOR_ERROR when the system refuses.
 */
torchacc_error *torchacc_load(torchacc_context *context,
                              struct torchacc_str path,
                              torchacc_archive **out);

/* Number of tensors; 0 for NULL. */
size_t torchacc_archive_count(const torchacc_archive *archive);

/* The `index`-th tensor, in the order of the names, for the caller to release; NULL if `index` is too large. */
torchacc_tensor *torchacc_archive_tensor(const torchacc_archive *archive, size_t index);

/* The tensor called `name`, for the caller to release; NULL when there is none. */
torchacc_tensor *torchacc_archive_find(const torchacc_archive *archive, struct torchacc_str name);

/* The text kept under `key`, valid as long as the archive; data NULL when there is none. */
struct torchacc_str torchacc_archive_text(const torchacc_archive *archive, struct torchacc_str key);

/* Frees the archive; NULL is fine. Tensors taken from it live on. */
void torchacc_archive_free(torchacc_archive *archive);

/* ---- Memory of other libraries ---- */

/*
 Makes a tensor on the caller's memory, without a copy: `len` bytes at `data`, in which `sizes` and `strides` (in elements,
 not negative; NULL for row-major) locate the elements. The memory must stay as it is until `drop` is called, which happens on
 any thread once neither a tensor nor a program uses it. The library never writes there: writes to the tensor go to memory of
 its own. Memory that is not aligned to 16 bytes is copied, as is any for a GPU, and bools that are bytes other than 0 and 1;
 `drop` is then called before this returns, as on an error. Does not wait. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
torchacc_error *torchacc_tensor_borrow(torchacc_context *context,
                                       torchacc_dtype dtype,
                                       const int64_t *sizes,
                                       const int64_t *strides,
                                       uint32_t rank,
                                       const void *data,
                                       size_t len,
                                       void *user,
                                       torchacc_drop_fn drop,
                                       torchacc_tensor **out);

/*
 Makes a tensor on another library's array, without a copy where it is in the memory of the context's device
 (`torchacc_context_device`), on the host if it is aligned to 16 bytes. The array must stay as it is while it is lent, as for
 `torchacc_tensor_borrow`; on a GPU its producer has ensured that it is ready for all work queued on the device's `stream`
 from now on. `managed` belongs to this library from the call on: its deleter is called, on any thread, once nothing uses the
 array, on an error too.
 Errors: UNSUPPORTED for a major version other than 1, memory of another device, and unknown dtypes; INVALID_ARGUMENT for
 negative sizes or strides.
 */
torchacc_error *torchacc_tensor_from_dlpack(torchacc_context *context,
                                            DLManagedTensorVersioned *managed,
                                            torchacc_tensor **out);

/*
 Exports the tensor as an array for another library, which calls its deleter in the end, on any thread, whether or not the
 context is still alive. Without `copy` the array shares the memory of the context's device (`torchacc_context_device`) and
 must not be written to (its flag READ_ONLY is set); with it, the array is the consumer's own, dense, on the host (IS_COPIED).
 Blocks: cuts the trace if it still computes the value, and waits, on a GPU until every stream may read it. There the deleter
 waits, too, for all queued work. Errors: as `torchacc_tensor_read`.
 */
torchacc_error *torchacc_tensor_to_dlpack(const torchacc_tensor *tensor,
                                          bool copy,
                                          DLManagedTensorVersioned **out);

/* ---- Devices and their memory ---- */

/* The device whose memory a context uses, in the terms of other libraries. May grow at the end. */
typedef struct torchacc_device {
  /* `sizeof(torchacc_device)` of the side that fills it in. */
  size_t struct_size;
  /* DLPack's `DLDeviceType`: 1 for host memory, 2 for an NVIDIA GPU's. */
  int32_t device_type;
  /* Index among the GPUs that the driver shows. */
  int32_t device_id;
  /* On a GPU the `cudaStream_t` on which the context queues its programs; NULL where work is done at once. */
  void *stream;
  /* 1 where programs run on the host: every function can access their memory in place. */
  uint32_t is_host;
} torchacc_device;

/* Gives the device of the context's memory. The caller sets `out->struct_size`. */
torchacc_error *torchacc_context_device(const torchacc_context *context, struct torchacc_device *out);

/*
 Returns `nbytes` (not 0) bytes of `device`'s memory, contents undefined, aligned to 64 bytes, on a GPU to 256; NULL when
 there are none, which is the error OUT_OF_MEMORY of the operation that wanted them. On a GPU the memory is used in the order
 of `device->stream`, even if it is freed before the work queued there is done.
 */
typedef void *(*torchacc_allocate_fn)(void *user, const struct torchacc_device *device, size_t nbytes);

/* Takes back memory that a `torchacc_allocate_fn` gave for `nbytes` bytes. */
typedef void (*torchacc_deallocate_fn)(void *user, const struct torchacc_device *device, void *memory, size_t nbytes);

/* An allocator of device memory. May grow at the end. */
typedef struct torchacc_allocator {
  /* `sizeof(torchacc_allocator)` of the caller. */
  size_t struct_size;
  torchacc_allocate_fn allocate;
  torchacc_deallocate_fn free;
  /* Passed to both. */
  void *user;
  torchacc_drop_fn drop;
} torchacc_allocator;

/*
 Makes the program's allocator the source of all memory for values and programs of the context, so that the program's own
 tensors and the context's share it. The library then keeps no free memory: the allocator should, since each step asks for the
 same sizes again. Its functions are called on any thread, for as long as anything of the context's lives.

 `user` belongs to the library from the call on: it is dropped when it is no longer needed, on an error too (except for a bad
 `struct_size`). Errors: INVALID_ARGUMENT for a function that is NULL, after memory was taken, or a second time.
 */
torchacc_error *torchacc_context_set_allocator(torchacc_context *context,
                                               const struct torchacc_allocator *allocator);

/*
 The program's own work on `nbytes` bytes of `device`'s memory. On a GPU it is queued on `device->stream`, or on other streams
 that this one waits for and that have waited for it; elsewhere it is done when this returns. Returns NULL, or an error from
 `torchacc_error_new`; must not call this library otherwise, and must not unwind.
 */
typedef torchacc_error *(*torchacc_memory_fn)(void *user,
                                              const struct torchacc_device *device,
                                              void *memory,
                                              size_t nbytes);

/*
 Replaces the content: `fill` writes to all of `memory`, so that data can come from elsewhere in the device's memory without
 passing through the host's. Calls it before this returns; does not wait. Errors: OUT_OF_MEMORY, those of `fill`: the content
 stays as it was.
 */
torchacc_error *torchacc_buffer_fill(torchacc_buffer *buffer,
                                     torchacc_memory_fn fill,
                                     void *user);

/*
 Lets `look` read the content in place; it must neither write nor keep the address. `memory` is NULL if the content is all
 zeros. Blocks: cuts the trace if it still computes the value, and waits until the computation is queued. Errors: as
 `torchacc_buffer_read`, those of `look`.
 */
torchacc_error *torchacc_buffer_look(torchacc_buffer *buffer,
                                     torchacc_memory_fn look,
                                     void *user);

/* ---- Operators of the program's own ---- */

/*
 A dense row-major array that a host operator reads or fills, in host memory (a device's for a `torchacc_device_fn`). An
 absent optional tensor has `data` NULL and `rank` 0.
 */
typedef struct torchacc_host_tensor {
  void *data;
  const int64_t *sizes;
  uint32_t rank;
  torchacc_dtype dtype;
} torchacc_host_tensor;

/*
 A host operator. `args` are as recorded, but VIEW and VIEWS point at `torchacc_host_tensor`s (to read only) and SCALAR_*
 carry the values of this call. Fills every array of `outs`. Returns NULL, or an error from `torchacc_error_new`. Runs on the
 launch thread; must not call this library otherwise (functions that can fail return INVALID_ARGUMENT there), and must not
 unwind.
 */
typedef torchacc_error *(*torchacc_host_fn)(void *user,
                                            const struct torchacc_arg *args,
                                            size_t n_args,
                                            const struct torchacc_host_tensor *outs,
                                            size_t n_outs);

/*
 A host operator on a device: as a `torchacc_host_fn`, with arrays in the memory of the context's `device`. Its work is queued
 on `device->stream`, in whose order the arrays are used before and after; on the host (`stream` NULL) it is done when this
 returns. The error UNSUPPORTED means that it cannot do this: `function` is called then, and from then on for this call of the
 program; an operator without one has failed.
 */
typedef torchacc_error *(*torchacc_device_fn)(void *user,
                                              const struct torchacc_device *device,
                                              const struct torchacc_arg *args,
                                              size_t n_args,
                                              const struct torchacc_host_tensor *outs,
                                              size_t n_outs);

/*
 The shape rule of a host operator: writes the types of its `n_outs` results. `args` are as for `torchacc_host_fn`, but the
 memory of tensors must not be read. Returns NULL, or an error from `torchacc_error_new`. Runs within `torchacc_apply`,
 `torchacc_apply_into` and `torchacc_infer`, on the thread that calls them; must not call this library otherwise, as a
 `torchacc_host_fn`, and must not unwind.
 */
typedef torchacc_error *(*torchacc_shape_fn)(void *user,
                                             const struct torchacc_arg *args,
                                             size_t n_args,
                                             struct torchacc_type *outs,
                                             size_t n_outs);

/* A host operator to register. May grow at the end. */
typedef struct torchacc_host_op {
  /* `sizeof(torchacc_host_op)` of the caller. */
  size_t struct_size;
  /* For messages. */
  struct torchacc_str name;
  /*
   Any bytes that identify the operator: operators with equal keys must behave equally, in every process. The fields
   `cuda_*` are part of it implicitly.
   */
  struct torchacc_str key;
  /*
   NULL only if there is a `cuda_source` or a `device_function`: contexts that cannot use these fail, with UNSUPPORTED, when
   the operator runs.
   */
  torchacc_host_fn function;
  /* The shape rule; NULL for none: then only `torchacc_record`, which is passed the results, takes the operator. */
  torchacc_shape_fn shape;
  /* Passed to all functions. */
  void *user;
  torchacc_drop_fn drop;
  /*
   The operator for the backend cuda, as CUDA C++; empty for none: then a function is called there too. Compiled by NVRTC
   when a program with it is compiled, without headers; the compiler's message becomes the program's error, OPERATOR_ERROR.
   The text is placed in a namespace of its own, which has

   - `template <class T> struct Tensor { T* data; const long long* sizes; int rank; long long count; };`, dense and
     row-major, of `count` elements;
   - `struct f16 { unsigned short bits; };`, `float f32_of(f16);`, `f16 f16_of(float);`, and the same of `bf16`.
   */
  struct torchacc_str cuda_source;
  /*
   The `__device__` function in it, with its namespaces if any, which all threads of a one-dimensional grid call at once,
   and which may be a template or overloaded. It takes the arguments as recorded, a list's elements one by one, without NONE
   and STR: VIEW as a `Tensor<const T>`, an absent one in a list as a `Tensor<const unsigned char>` of NULL; SCALAR_* (with
   the values of this call), INT, FLOAT, BOOL and DTYPE as `long long`, `double` or `bool`. The results follow, as
   `Tensor<T>`, in which every element must be written. `T` is `bool`, `float`, `double`, `f16`, `bf16`, a signed type or
   `unsigned char`; elements without arithmetic come as unsigned numbers of their size. It cannot fail. Not called where all
   results are empty.
   */
  struct torchacc_str cuda_entry;
  /* Threads of a block, at most 1024; 0 for 256. */
  uint32_t cuda_block;
  /* Elements of the first result for each thread, which determines the size of the grid; 0 for 1. */
  uint32_t cuda_elements;
  /* Blocks of the grid, at most 2^31 - 1, whatever the result; 0: as many as follow from `cuda_elements`. */
  uint64_t cuda_blocks;
  /*
   The operator for contexts whose memory is a device's (`torchacc_context_device`) and that have no other form of it: called
   instead of `function`, which would get copies. NULL for none.
   */
  torchacc_device_fn device_function;
} torchacc_host_op;

/*
 Registers a host operator for the rest of the process; registering a key again gives the existing operator. `user` belongs to
 the library from the call on: it is dropped when it is no longer needed, on an error too (except for a bad `struct_size`).
 Texts are copied. Errors: INVALID_ARGUMENT.
 */
torchacc_error *torchacc_op_register_host(const struct torchacc_host_op *op,
                                          torchacc_op *out);

/* ---- Several ranks ---- */

/* Reduction of the elements of all ranks: `how` of `torchacc_collective_fn`. */
#define TORCHACC_REDUCE_SUM 0
#define TORCHACC_REDUCE_PRODUCT 1
#define TORCHACC_REDUCE_MIN 2
#define TORCHACC_REDUCE_MAX 3

/* The sum, divided by the number of ranks. */
#define TORCHACC_REDUCE_AVG 4

/* Bitwise. */
#define TORCHACC_REDUCE_BAND 5
#define TORCHACC_REDUCE_BOR 6
#define TORCHACC_REDUCE_BXOR 7

/* Kinds of collectives, of a `torchacc_pending_collective`. */
#define TORCHACC_COLLECTIVE_ALL_REDUCE 0
#define TORCHACC_COLLECTIVE_ALL_GATHER 1
#define TORCHACC_COLLECTIVE_REDUCE_SCATTER 2
#define TORCHACC_COLLECTIVE_BROADCAST 3
#define TORCHACC_COLLECTIVE_ALL_TO_ALL 4
#define TORCHACC_COLLECTIVE_REDUCE 5
#define TORCHACC_COLLECTIVE_ALL_TO_ALL_V 6
#define TORCHACC_COLLECTIVE_SEND 7
#define TORCHACC_COLLECTIVE_RECEIVE 8

/*
 Does one collective: fills `output` from `input`, whose types agree on all ranks. `how` is one of `TORCHACC_REDUCE_*` for
 all_reduce and reduce_scatter, the root for broadcast, for all_gather 1 if it is of parameters and 2 if it is of the same
 parameters again ("torchacc::all_gather_parameters"), of which a function need not take note, else 0. Called on the launch
 thread, or, if the communicator is `concurrent`, on one of its own; one at a time, in the order in which its collectives were
 recorded. May wait for the other ranks, but should not do so for ever. Returns NULL, or an error from `torchacc_error_new`;
 must not call this library otherwise (except for `torchacc_running_site`), as a `torchacc_host_fn`, and must not unwind.
 */
typedef torchacc_error *(*torchacc_collective_fn)(void *user,
                                                  int64_t how,
                                                  const struct torchacc_host_tensor *input,
                                                  const struct torchacc_host_tensor *output);

/*
 Does one collective on tensors in the memory of the context's `device`, as a `torchacc_collective_fn`, but queues it on
 `device->stream`, a stream for this communicator or for all, and does not wait, so that the program's computation overlaps
 it. To be given on every rank or on none.
 */
typedef torchacc_error *(*torchacc_device_collective_fn)(void *user,
                                                         const struct torchacc_device *device,
                                                         int64_t how,
                                                         const struct torchacc_host_tensor *input,
                                                         const struct torchacc_host_tensor *output);

/* As `torchacc_transfer_fn`, on tensors in a device's memory, as a `torchacc_device_collective_fn`. */
typedef torchacc_error *(*torchacc_device_transfer_fn)(void *user,
                                                       const struct torchacc_device *device,
                                                       const int64_t *numbers,
                                                       size_t n_numbers,
                                                       const struct torchacc_host_tensor *input,
                                                       const struct torchacc_host_tensor *output);

/*
 As `torchacc_collective_fn`, with several numbers: for reduce one of `TORCHACC_REDUCE_*` and the root; for all_to_all_v the
 number of rows that go to each rank, and then the number that come from each; for send and receive the other rank and the
 tag. The `output` of a send and the `input` of a receive are absent. A send must not wait for the other rank's receive, which
 may come after a receive of its own. A reduce fills the output with the reduced elements on the root, and with the input
 elsewhere.
 */
typedef torchacc_error *(*torchacc_transfer_fn)(void *user,
                                                const int64_t *numbers,
                                                size_t n_numbers,
                                                const struct torchacc_host_tensor *input,
                                                const struct torchacc_host_tensor *output);

/* A pending collective. */
typedef struct torchacc_pending_collective {
  /* One of `TORCHACC_COLLECTIVE_*`. */
  uint32_t kind;
  /* The `how` of a `torchacc_collective_fn`, or the numbers of a `torchacc_transfer_fn`. */
  const int64_t *numbers;
  size_t n_numbers;
  const struct torchacc_host_tensor *input;
  const struct torchacc_host_tensor *output;
  /*
   Number of the collectives before it, from the first on, that must have been done, because it reads a result of one of
   them or writes where one of them reads or writes.
   */
  size_t after;
  /* The call site that recorded it, as `torchacc_running_site` gives it. */
  uint64_t site;
} torchacc_pending_collective;

/*
 Does the first of the pending collectives, and as many of the following ones, in order, as it likes. `n_done`, which is 1 at
 first, becomes their number, on an error too: these have then failed. A number outside of 1 to `n_waiting` is the error
 INTERNAL of all of them. All pointers are valid until the function returns. Which collectives are pending is specific to this
 rank and depends on time: a function that does several as one must ensure that all ranks do equally many. Called on the
 communicator's own thread, as a `torchacc_collective_fn` of one that is `concurrent`; `torchacc_running_site` is that of the
 first.
 */
typedef torchacc_error *(*torchacc_together_fn)(void *user,
                                                const struct torchacc_pending_collective *waiting,
                                                size_t n_waiting,
                                                size_t *n_done);

/*
 The functions of a communicator. If one is NULL, collectives of that kind are the error UNSUPPORTED. May grow at the end.
 */
typedef struct torchacc_communicator {
  /* `sizeof(torchacc_communicator)` of the caller. */
  size_t struct_size;
  /* The name by which operators refer to it. */
  struct torchacc_str name;
  /* This context's rank, from 0. */
  uint32_t rank;
  /* Number of ranks. */
  uint32_t size;
  /* The elements of all ranks, reduced, on every rank. */
  torchacc_collective_fn all_reduce;
  /* The rows of all ranks, in their order, on every rank. */
  torchacc_collective_fn all_gather;
  /* The elements of all ranks, reduced; each rank keeps its part of the rows, in the order of the ranks. */
  torchacc_collective_fn reduce_scatter;
  /* The tensor of rank `how`, on every rank. */
  torchacc_collective_fn broadcast;
  /* The n-th part of the rows goes to rank n; the received parts are in the order of the ranks. */
  torchacc_collective_fn all_to_all;
  /* Passed to all functions. */
  void *user;
  torchacc_drop_fn drop;
  /*
   Called instead of `all_reduce` where the context's memory is a GPU's, and likewise for the others. NULL: there, tensors
   are copied to the host and back.
   */
  torchacc_device_collective_fn device_all_reduce;
  torchacc_device_collective_fn device_all_gather;
  torchacc_device_collective_fn device_reduce_scatter;
  torchacc_device_collective_fn device_broadcast;
  torchacc_device_collective_fn device_all_to_all;
  /* The elements of all ranks, reduced, on one of them. */
  torchacc_transfer_fn reduce;
  /* As all_to_all, with any number of rows for each rank. */
  torchacc_transfer_fn all_to_all_v;
  /* Sends a tensor to one rank, which receives those with one tag in the order in which they were sent. */
  torchacc_transfer_fn send;
  torchacc_transfer_fn receive;
  /* Likewise instead of `reduce` and `all_to_all_v`. */
  torchacc_device_transfer_fn device_reduce;
  torchacc_device_transfer_fn device_all_to_all_v;
  /*
   If not 0, its functions may be called concurrently with those of other communicators and with computation, so that
   collectives overlap computation in host memory; and each communicator has a stream of its own on a device. If one
   communicator of a context has 0 here, all collectives run one after the other, on one stream.
   */
  uint32_t concurrent;
  /*
   If it is `concurrent`: called instead of the functions for host memory for the collectives that are pending while the
   program computes, so that several may go together. NULL: one by one.
   */
  torchacc_together_fn together;
} torchacc_communicator;

/*
 Registers a communicator, until it is unregistered. The operators "torchacc::all_reduce" and "torchacc::reduce_scatter"
 (tensor, STR "sum", "product", "min", "max", "avg", "band", "bor" or "bxor", or NONE for the sum, COMMUNICATOR),
 "torchacc::broadcast" (tensor, INT root, COMMUNICATOR), "torchacc::all_gather" and "torchacc::all_to_all" (tensor,
 COMMUNICATOR), "torchacc::all_gather_parameters" (tensor, BOOL again, COMMUNICATOR), "torchacc::reduce" (tensor, STR or NONE,
 INT root, COMMUNICATOR), "torchacc::all_to_all_v" (tensor, INTS rows for each rank, INTS rows from each, COMMUNICATOR) and
 "torchacc::receive" (INTS sizes, DTYPE, INT rank, INT tag, COMMUNICATOR) are recorded like others, with one result,
 "torchacc::send" (tensor, INT rank, INT tag, COMMUNICATOR) without a result. Rows are those of the first dimension, which must
 be divisible by `size` where it is split.

 Collectives of a communicator run in the order in which they were recorded, even if nobody reads their results; so all ranks
 must record the same ones, and cut. When one fails, the later ones of the same trace are not called, and fail with its error;
 those of later traces are called. A communicator over streams therefore closes its connections at the first error, since
 later data would be taken for the rest of the failed collective's. Collectives run on the host, whatever the backend, unless
 there is a function for a device's memory, and are counted as collectives, not as CPU fallbacks.

 Gradients flow through them, except for reductions other than sums and averages, for reduce, and for point-to-point
 operators. They are those of the sum of the losses of all ranks, and are computed by collectives: so all ranks must call
 `torchacc_grad` alike, whatever each does with the gradients. The backward of all_gather is reduce_scatter and vice versa,
 that of all_reduce and of broadcast is all_reduce, those of all_to_all and all_to_all_v are themselves.

 `user` belongs to the library from the call on: it is dropped when it is no longer needed, on an error too (except for a bad
 `struct_size`). Errors: INVALID_ARGUMENT for a name that is taken, or a rank that is not below `size`; OUT_OF_MEMORY.
 */
torchacc_error *torchacc_communicator_register(torchacc_context *context,
                                               const struct torchacc_communicator *communicator);

/*
 Unregisters a communicator: `user` is dropped when none of its collectives runs any more. Collectives that were recorded and
 have not run fail: call `torchacc_sync` first. Errors: NOT_FOUND for a name that is not registered.
 */
torchacc_error *torchacc_communicator_unregister(torchacc_context *context,
                                                 struct torchacc_str name);

/*
 Waits until every rank has called this, and everything that each of them recorded before is done. Cuts, and reduces one float
 by the communicator's all_reduce. Blocks.
 Errors: NOT_FOUND for a name that is not registered; those of earlier operations, and of the communicator.
 */
torchacc_error *torchacc_barrier(torchacc_context *context,
                                 struct torchacc_str communicator);

/* ---- What PyTorch's schemas do not say ---- */

/* Facts about an operator of PyTorch that its schema does not state: a sum of flags. */
typedef uint32_t torchacc_facts;
/* The sizes of its results are unknown until it has run. */
#define TORCHACC_FACT_SHAPED_BY_VALUES 1
/* Likewise if there is a mask among its indices. */
#define TORCHACC_FACT_SHAPED_BY_MASKS 2
/*
 Its kernels tolerate all values. A GPU kernel that meets a value it cannot tolerate ends the process's use of the GPU.
 */
#define TORCHACC_FACT_BEARS_VALUES 4
/* Its CPU kernel only compares its integers, or checks them before it uses them as indices. */
#define TORCHACC_FACT_CHECKS_INTEGERS 8
/* Its floats must have one type. */
#define TORCHACC_FACT_ONE_FLOAT 16
/* From bools it computes another type, which cannot be stored in place. */
#define TORCHACC_FACT_LEAVES_BOOLS 32
/* Likewise from bools and integers. */
#define TORCHACC_FACT_LEAVES_INTEGERS 64
/* It takes statistics. For halves these are f32 here, as on CUDA, whereas the CPU kernel wants halves. */
#define TORCHACC_FACT_F32_STATISTICS 128
/* It updates its running statistics. */
#define TORCHACC_FACT_UPDATES_STATISTICS 256
/* A dropout without an argument for a generator. */
#define TORCHACC_FACT_DROPOUT 512
/*
 The factors that it returns depend on the matrix's layout in memory, and its gradient reads the matrix that it was given.
 */
#define TORCHACC_FACT_FOLLOWS_LAYOUT 1024
/* A product that checks only when it runs whether the contracted dimensions of its operands agree. */
#define TORCHACC_FACT_COUNTS_TERMS_LATE 2048
/*
 It checks types and sizes even if all results are empty; other operators then compute nothing, whatever their operands.
 */
#define TORCHACC_FACT_REFUSES_OF_NOTHING 4096

/*
 The `TORCHACC_FACT_*` of an operator of PyTorch, such as "aten::nonzero" or "aten::index.Tensor", in any of its forms, native
 here or not: for programs that record PyTorch's calls. 0 for other names.
 */
torchacc_facts torchacc_op_facts(struct torchacc_str name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TORCHACC_H */
