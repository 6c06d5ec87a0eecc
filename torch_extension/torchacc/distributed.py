"""The c10d backend "acc", which makes `torch.distributed` work on the device.

`init_process_group()` finds it by itself. A collective is recorded like any operation, and runs
between the others, over gloo. Only calls that are the host's (`barrier`, objects, a receive from
anybody) cut and wait.
"""

import atexit
import functools

import torch
import torch.distributed as dist

from torchacc import adapters


def register() -> None:
    """Makes "acc" a backend of this process, and that of the device. Starts nothing."""
    if not dist.is_available() or "ACC" in dist.Backend._plugins:
        return
    dist.Backend.register_backend("acc", _create, extended_api=True, devices=["acc", "cpu"])


def _chosen(original):
    """With the backend of acc where none is named: PyTorch finds it by itself, but believes that
    the group's backend is gloo. It serves tensors of the CPU, too, so that programs without the
    device are as they were."""

    @functools.wraps(original)
    def init_process_group(backend=None, *args, **kwargs):
        if backend is None and torch._C._get_accelerator().type == "acc":
            backend = "acc"
        return original(backend, *args, **kwargs)

    return init_process_group


def _mend(module) -> None:
    why = 'init_process_group() does not know its backend: say init_process_group("acc")'
    adapters.mend(module, "init_process_group", _chosen, why)


MENDS = {"torch.distributed.distributed_c10d": _mend}


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
