"""What the runtime did, in numbers."""

import functools
import json

import torch


@functools.cache
def _names() -> list[str]:
    return [about["name"] for about in json.loads(torch.ops.acc.metric_docs())]


def metrics() -> dict[str, int]:
    """The runtime's counters since the start or `reset_metrics`, as a flat dict of integers.

    `docs/metrics.md` says what each is; before the first use all are 0. A program with little
    wall_device_ns and much wall_python_ns is bound by Python. Does not wait, starts nothing.
    """
    return dict.fromkeys(_names(), 0) | json.loads(torch.ops.acc.metrics())


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
