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


def _is_ours(module, group) -> bool:
    return "acc" in str(module._world.pg_backend_config.get(group, ""))


def _splitting(original):
    """For groups of acc, too: PyTorch asks for the backend of "cuda"."""

    @functools.wraps(original)
    def split_group(
        parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None
    ):
        module = dist.distributed_c10d
        parent = parent_pg or module._get_default_group()
        if not split_ranks or not _is_ours(module, parent):
            return original(parent_pg, split_ranks, timeout, pg_options, group_desc)
        ranks = dist.get_process_group_ranks(parent)
        for part in split_ranks:
            if not part or len(set(part)) != len(part):
                raise ValueError(f"split_group: {part} is not a group: no rank, or one twice")
        mine = next((part for part in split_ranks if parent.rank() in part), None)
        if mine is None:
            return None
        return dist.new_group(
            [ranks[rank] for rank in sorted(mine)],
            timeout,
            str(module._world.pg_backend_config[parent]),
            pg_options,
            use_local_synchronization=True,
            group_desc=group_desc,
        )

    return split_group


def _monitored(original):
    """For groups of acc, too, whose transport has such a barrier."""

    @functools.wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        module = dist.distributed_c10d
        chosen = group or module._get_default_group()
        if module._rank_not_in_group(group) or not _is_ours(module, chosen):
            return original(group, timeout, wait_all_ranks)
        timeout = timeout or module._get_default_timeout("gloo")
        return chosen.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    return monitored_barrier


def _mend(module) -> None:
    why = 'init_process_group() does not know its backend: say init_process_group("acc")'
    adapters.mend(module, "init_process_group", _chosen, why)
    adapters.mend(module, "split_group", _splitting, "split_group is for NCCL: say new_group")
    adapters.mend(module, "monitored_barrier", _monitored, "monitored_barrier is for gloo alone")


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
