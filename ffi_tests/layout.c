/* Sizes and offsets of every struct of the header. */
#include <stddef.h>
#include <stdio.h>

#include "torchacc.h"

#define SIZE(type) printf(#type " %zu\n", sizeof(type))
#define FIELD(type, field) printf(#type "." #field " %zu\n", offsetof(type, field))

int main(void) {
  SIZE(torchacc_str);
  FIELD(torchacc_str, data);
  FIELD(torchacc_str, len);
  SIZE(torchacc_options);
  FIELD(torchacc_options, struct_size);
  FIELD(torchacc_options, backend);
  FIELD(torchacc_options, num_threads);
  FIELD(torchacc_options, trace_limit);
  FIELD(torchacc_options, library_path);
  FIELD(torchacc_options, cache_folder);
  FIELD(torchacc_options, cache_limit);
  FIELD(torchacc_options, trace_bytes);
  FIELD(torchacc_options, log);
  FIELD(torchacc_options, log_user);
  FIELD(torchacc_options, log_drop);
  FIELD(torchacc_options, bucket_policy);
  FIELD(torchacc_options, deterministic);
  SIZE(torchacc_cache_stats);
  FIELD(torchacc_cache_stats, struct_size);
  FIELD(torchacc_cache_stats, hits);
  FIELD(torchacc_cache_stats, misses);
  FIELD(torchacc_cache_stats, compiles);
  FIELD(torchacc_cache_stats, carried_over);
  FIELD(torchacc_cache_stats, evictions);
  FIELD(torchacc_cache_stats, known_traces);
  FIELD(torchacc_cache_stats, programs);
  FIELD(torchacc_cache_stats, program_bytes);
  FIELD(torchacc_cache_stats, disk_hits);
  FIELD(torchacc_cache_stats, disk_evictions);
  FIELD(torchacc_cache_stats, disk_removed);
  FIELD(torchacc_cache_stats, disk_errors);
  FIELD(torchacc_cache_stats, disk_programs);
  FIELD(torchacc_cache_stats, disk_bytes);
  SIZE(torchacc_communicator);
  FIELD(torchacc_communicator, struct_size);
  FIELD(torchacc_communicator, name);
  FIELD(torchacc_communicator, rank);
  FIELD(torchacc_communicator, size);
  FIELD(torchacc_communicator, all_reduce);
  FIELD(torchacc_communicator, all_gather);
  FIELD(torchacc_communicator, reduce_scatter);
  FIELD(torchacc_communicator, broadcast);
  FIELD(torchacc_communicator, all_to_all);
  FIELD(torchacc_communicator, user);
  FIELD(torchacc_communicator, drop);
  FIELD(torchacc_communicator, device_all_reduce);
  FIELD(torchacc_communicator, device_all_gather);
  FIELD(torchacc_communicator, device_reduce_scatter);
  FIELD(torchacc_communicator, device_broadcast);
  FIELD(torchacc_communicator, device_all_to_all);
  SIZE(torchacc_value);
  FIELD(torchacc_value, i);
  FIELD(torchacc_value, f);
  FIELD(torchacc_value, p);
  SIZE(torchacc_arg);
  FIELD(torchacc_arg, kind);
  FIELD(torchacc_arg, len);
  FIELD(torchacc_arg, v);
  SIZE(torchacc_type);
  FIELD(torchacc_type, dtype);
  FIELD(torchacc_type, rank);
  FIELD(torchacc_type, sizes);
  SIZE(torchacc_host_tensor);
  FIELD(torchacc_host_tensor, data);
  FIELD(torchacc_host_tensor, sizes);
  FIELD(torchacc_host_tensor, rank);
  FIELD(torchacc_host_tensor, dtype);
  SIZE(torchacc_host_op);
  FIELD(torchacc_host_op, struct_size);
  FIELD(torchacc_host_op, name);
  FIELD(torchacc_host_op, key);
  FIELD(torchacc_host_op, function);
  FIELD(torchacc_host_op, shape);
  FIELD(torchacc_host_op, user);
  FIELD(torchacc_host_op, drop);
  FIELD(torchacc_host_op, cuda_source);
  FIELD(torchacc_host_op, cuda_entry);
  FIELD(torchacc_host_op, cuda_block);
  FIELD(torchacc_host_op, cuda_elements);
  FIELD(torchacc_host_op, cuda_blocks);
  FIELD(torchacc_host_op, device_function);
  SIZE(torchacc_device);
  FIELD(torchacc_device, struct_size);
  FIELD(torchacc_device, device_type);
  FIELD(torchacc_device, device_id);
  FIELD(torchacc_device, stream);
  FIELD(torchacc_device, is_host);
  SIZE(torchacc_allocator);
  FIELD(torchacc_allocator, struct_size);
  FIELD(torchacc_allocator, allocate);
  FIELD(torchacc_allocator, free);
  FIELD(torchacc_allocator, user);
  FIELD(torchacc_allocator, drop);
  SIZE(torchacc_memory_stats);
  FIELD(torchacc_memory_stats, struct_size);
  FIELD(torchacc_memory_stats, allocated_bytes);
  FIELD(torchacc_memory_stats, peak_allocated_bytes);
  FIELD(torchacc_memory_stats, reserved_bytes);
  FIELD(torchacc_memory_stats, peak_reserved_bytes);
  SIZE(torchacc_view);
  FIELD(torchacc_view, buffer);
  FIELD(torchacc_view, sizes);
  FIELD(torchacc_view, strides);
  FIELD(torchacc_view, offset);
  FIELD(torchacc_view, rank);
  FIELD(torchacc_view, dtype);
  return 0;
}
