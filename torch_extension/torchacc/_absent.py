"""What `torch.cuda` and `torch.cuda.memory` have and those of acc do not, each with the reason."""

_CUDA = "it is part of NVIDIA's libraries; on a GPU torch.cuda has it"
_TYPES = "tensors and storages are made with dtype= and device="
_GRAPHS = "every step is a compiled program already, and a CUDA graph from its third run on"
_ALLOCATOR = "memory is planned for whole programs, which leaves no single allocation to take over"
_HISTORY = (
    f"{_ALLOCATOR}. torchacc.last_program() shows the last program's memory and what is live in it "
    "at once, memory_summary() what is in use, and torchacc.profile(file) what ran when"
)
_HOST = "pinned memory is not kept when it is released, so there is nothing to count"

ABSENT = {
    **dict.fromkeys(
        [
            f"{name}{kind}"
            for name in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int")
            for kind in ("Storage", "Tensor")
        ]
        + ["LongStorage", "LongTensor", "ShortStorage", "ShortTensor", "sparse"]
        + ["ComplexDoubleStorage", "ComplexFloatStorage"],
        _TYPES,
    ),
    **dict.fromkeys(
        ["CUDAGraph", "graph", "graph_pool_handle", "graphs", "make_graphed_callables"]
        + ["export_dot", "export_graph_data", "graph_annotations"],
        _GRAPHS,
    ),
    **dict.fromkeys(
        [
            "CUDAPluggableAllocator",
            "MemPool",
            "caching_allocator_alloc",
            "caching_allocator_delete",
            "caching_allocator_disabled",
            "caching_allocator_enable",
            "change_current_allocator",
            "get_allocator_backend",
            "use_mem_pool",
        ],
        _ALLOCATOR,
    ),
    **dict.fromkeys(
        [
            "host_memory_stats",
            "host_memory_stats_as_nested_dict",
            "reset_accumulated_host_memory_stats",
            "reset_peak_host_memory_stats",
        ],
        _HOST,
    ),
    **dict.fromkeys(
        [
            "CudaError",
            "DeferredCudaCallError",
            "GreenContext",
            "check_error",
            "cudaStatus",
            "cudart",
            "current_blas_handle",
            "current_solver_handle",
            "gds",
            "green_contexts",
            "has_magma",
            "jiterator",
            "nccl",
            "tunable",
        ],
        _CUDA,
    ),
    **dict.fromkeys(
        ["ExternalStream", "get_stream_from_external"],
        "streams of acc share one order, so that none of another library could be one of them",
    ),
    **dict.fromkeys(
        ["get_arch_list", "get_gencode_flags"],
        "kernels are compiled for the device that there is when they are needed",
    ),
    **dict.fromkeys(
        ["get_sync_debug_mode", "set_sync_debug_mode"],
        "torchacc.explain() lists the reads that cut and waited, with their lines",
    ),
    "nvtx": "torch.profiler.record_function names ranges, and torch.cuda.nvtx those of NVIDIA",
    "profiler": "torch.profiler and torchacc.profile show what the device does",
}

# Private names that PyTorch's documentation mentions.
ABSENT_PRIVATE = dict.fromkeys(
    [
        "_dump_snapshot",
        "_record_memory_history",
        "_save_memory_usage",
        "_save_segment_usage",
        "_snapshot",
    ],
    _HISTORY,
)


def missing(module: str, name: str) -> AttributeError:
    """The error for an attribute that `module` does not have, with the reason if there is one."""
    if reason := ABSENT.get(name) or ABSENT_PRIVATE.get(name):
        return AttributeError(f"{module} has no {name}: {reason}")
    return AttributeError(f"module {module!r} has no attribute {name!r}")
