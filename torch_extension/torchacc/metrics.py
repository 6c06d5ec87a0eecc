"""What the runtime did, in numbers."""

import json

import torch

_ALWAYS_THERE = (
    "compiles",
    "recompiles",
    "plans",
    "carried_over",
    "cache_hits",
    "disk_hits",
    "padded_programs",
    "padded_runs",
    "padding_refused",
    "host_calls",
    "cuts",
    "recorded_ops",
    "replayed_ops",
    "live_bytes",
    "peak_bytes",
)


def metrics() -> dict[str, int]:
    """The runtime's counters since the start or `reset_metrics`, as a flat dict of integers.

    At least, all 0 before the first use: compiles, recompiles (of these: of a trace that begins
    like a known one; `torchacc.explain` says why), plans, carried_over (programs made
    of a plan for other sizes, without compiling), cache_hits, disk_hits (programs that another
    process had compiled), padded_programs and padded_runs (of programs of buckets, and steps that
    they ran: `TORCHACC_BUCKETS`), padding_refused (programs that were to be padded and were not),
    host_calls (operators run by PyTorch's own CPU kernels), cuts,
    recorded_ops, replayed_ops (of these: known from an earlier step, so only compared), live_bytes,
    peak_bytes.

    After the first use also percentiles, right to an eighth (compile_p50_ns, compile_p90_ns,
    compile_p99_ns; step_p50_ns, … of the time from one full cut to the next), and where the time
    went: wall_ns is the sum of wall_key_ns, wall_compile_ns, wall_launch_ns and wall_device_ns, in
    which the launch thread was busy, and, while it had nothing to do, wall_record_ns (an operation
    was being recorded by the library), wall_python_ns (a trace was open, but control was in Python
    or in PyTorch's dispatcher) and wall_idle_ns (no trace was open). A program with little
    wall_device_ns and much wall_python_ns is bound by Python. Does not wait, starts nothing.
    """
    return dict.fromkeys(_ALWAYS_THERE, 0) | json.loads(torch.ops.acc.metrics())


def reset_metrics() -> None:
    """Sets the counters to zero and the peak to what is in use now."""
    torch.ops.acc.metrics_reset()


def host_calls() -> list[dict]:
    """The operators without a native row that ran since `reset_metrics`.

    Each is {"name": operator, "count": calls, "time_ns": spent in them, "site": "file:line"}.
    """
    return json.loads(torch.ops.acc.host_call_report())


def last_program() -> str:
    """The intermediate form and the plan of the program compiled last, as text."""
    return torch.ops.acc.last_program()
