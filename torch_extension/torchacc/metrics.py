"""What the runtime did, in numbers."""

import json

import torch

_ALWAYS_THERE = (
    "compiles",
    "cache_hits",
    "disk_hits",
    "host_calls",
    "cuts",
    "recorded_ops",
    "replayed_ops",
    "live_bytes",
    "peak_bytes",
)


def metrics() -> dict[str, int]:
    """The runtime's counters since the start or `reset_metrics`, as a flat dict of integers.

    At least: compiles, cache_hits, disk_hits (programs that another process had compiled),
    host_calls (operators run by PyTorch's own CPU kernels), cuts, recorded_ops, replayed_ops (of
    these: known from an earlier step, so only compared), live_bytes, peak_bytes; all 0 before the
    first use. Does not wait, starts nothing.
    """
    return dict.fromkeys(_ALWAYS_THERE, 0) | json.loads(torch.ops.acc.metrics())


def reset_metrics() -> None:
    """Sets the counters to zero and the peak to what is in use now."""
    torch.ops.acc.metrics_reset()


def host_calls() -> list[dict]:
    """The operators without a native row that ran since `reset_metrics`.

    Each is {"name": operator, "count": calls, "site": "file:line" of its first call}.
    """
    return json.loads(torch.ops.acc.host_call_report())


def last_program() -> str:
    """The intermediate form and the plan of the program compiled last, as text."""
    return torch.ops.acc.last_program()
