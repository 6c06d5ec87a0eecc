"""The c10d backend "acc", which makes `torch.distributed` work on the device.

`init_process_group()` finds it by itself. A collective is recorded like any operation, and runs
between the others, over gloo. Only calls that are the host's (`barrier`, objects, a receive from
anybody) cut and wait.
"""

import atexit

import torch
import torch.distributed as dist


def register() -> None:
    """Makes "acc" a backend of this process, and that of the device. Starts nothing."""
    if dist.is_available() and "ACC" not in dist.Backend._plugins:
        dist.Backend.register_backend("acc", _create, extended_api=True, devices=["acc", "cpu"])


def _create(options, backend_options=None):
    if not dist.is_gloo_available():
        raise RuntimeError(
            "the acc backend sends by gloo, which this PyTorch was built without: install one with"
        )
    # Its own gloo: one that the program uses meanwhile, from another thread, would take messages.
    store = dist.PrefixStore("acc/", options.store)
    rank, size = options.group_rank, options.group_size
    gloo = dist.ProcessGroupGloo(store, rank, size, timeout=options.timeout)
    gloo.options.global_ranks_in_group = options.global_ranks_in_group
    gloo.options.group_name = options.group_id
    transport, group = (dist.ProcessGroup(store, rank, size) for _ in range(2))
    cpu = torch.device("cpu")
    transport._register_backend(cpu, dist.ProcessGroup.BackendType.GLOO, gloo)
    torch.ops.acc.attach_backend(group.boxed(), transport.boxed(), options.group_id)
    atexit.register(_finish)
    return group._get_backend(torch.device("acc"))


def _finish() -> None:
    """Runs what was recorded: other ranks may wait for it. Once, however often it is registered."""
    atexit.unregister(_finish)
    torch.ops.acc.sync()
