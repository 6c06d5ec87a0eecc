"""The c10d backend "acc", which makes `torch.distributed` work on the device.

`init_process_group()` finds it by itself. A collective is recorded like any operation, and runs
between the others, over gloo, or by NCCL on a GPU that PyTorch can use. Only calls that are the
host's (`barrier`, objects, a receive from anybody) cut and wait.
"""

import atexit
import collections
import datetime
import functools
import time
import uuid
from typing import Any

import torch
import torch.distributed as dist

from torchacc import adapters
from torchacc.event_log import span
from torchacc.memory import native_device


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
    """Whether one of the backends of the group ("cpu:gloo,acc:acc") is that of acc."""
    return ":acc" in str(module._world.pg_backend_config.get(group, ""))


def _prepared(original):
    """With a default backend for "cpu:gloo,acc:acc": PyTorch looks for "ACC" there, and says at the
    end of a group that it has none. Any group of gloo is in the flight recorder before it is used:
    a lane may look there at the same time (csrc/dist/carrier.h)."""

    @functools.wraps(original)
    def _new_process_group_helper(*args, **kwargs):
        made = original(*args, **kwargs)
        module, group = dist.distributed_c10d, made[0]
        if not isinstance(group, dist.ProcessGroup):  # this rank is in none
            return made
        if _is_ours(module, group) and "nccl" not in module._world.pg_backend_config[group]:
            group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        if torch._C._get_accelerator().type == "acc" and _is_gloo(group):
            torch.ops.acc.introduce(group.boxed())
        return made

    return _new_process_group_helper


def _is_gloo(group) -> bool:
    """Whether it is gloo's on the host."""
    if torch.device("cpu") not in group._device_types or not dist.is_gloo_available():
        return False
    return isinstance(group._get_backend(torch.device("cpu")), dist.ProcessGroupGloo)


def _splitting(original):
    """For groups of acc, too: PyTorch asks for the backend of "cuda"."""
    splits = collections.Counter()

    @functools.wraps(original)
    def split_group(
        parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None
    ):
        module = dist.distributed_c10d
        parent = parent_pg or module._get_default_group()
        if not split_ranks or not _is_ours(module, parent):
            return original(parent_pg, split_ranks, timeout, pg_options, group_desc)
        for part in split_ranks:
            if not part or len(set(part)) != len(part):
                raise ValueError(f"split_group: {part} is not a group: no rank, or one twice")
            if not all(0 <= rank < parent.size() for rank in part):
                raise ValueError(
                    f"split_group: {part}: the group has ranks 0 to {parent.size() - 1}"
                )
        # All ranks of the group call this, so their counts agree. PyTorch names a group that not
        # all ranks make by the number of groups a rank is in, which differs.
        name = module._get_process_group_name(parent)
        number = splits[name]
        splits[name] += 1
        at = next((at for at, part in enumerate(split_ranks) if parent.rank() in part), None)
        if at is None:
            return None
        mine, ranks = sorted(split_ranks[at]), dist.get_process_group_ranks(parent)
        default = module._get_default_group()
        backend = dist.Backend(str(module._world.pg_backend_config[parent]))
        group, _ = module._new_process_group_helper(
            len(mine),
            mine.index(parent.rank()),
            [ranks[rank] for rank in mine],
            backend,
            module._world.pg_map[default][1],
            f"{name}:split {number}:{at}",
            backend_options=pg_options,
            timeout=timeout or module._get_default_timeout(backend),
            device_id=default.bound_device_id,
            group_desc=group_desc or f"{parent.group_desc}:split:{number}",
        )
        module._world.pg_group_ranks[group] = {ranks[rank]: at for at, rank in enumerate(mine)}
        return group

    return split_group


def _monitored(original):
    """For groups of acc, too: once all that this rank recorded has run."""

    @functools.wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        module = dist.distributed_c10d
        chosen = group or module._get_default_group()
        if module._rank_not_in_group(group) or not _is_ours(module, chosen):
            return original(group, timeout, wait_all_ranks)
        if timeout is None:
            timeout = module._get_default_timeout("gloo")
        torch.ops.acc.sync()
        return chosen.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    return monitored_barrier


def _mend(module) -> None:
    why = 'init_process_group() does not know its backend: say init_process_group("acc")'
    adapters.mend(module, "init_process_group", _chosen, why)
    why = "the end of a group of several backends warns, and new groups may crash lanes"
    adapters.mend(module, "_new_process_group_helper", _prepared, why)
    adapters.mend(module, "split_group", _splitting, "split_group is for NCCL: say new_group")
    adapters.mend(module, "monitored_barrier", _monitored, "monitored_barrier is for gloo alone")


MENDS = {"torch.distributed.distributed_c10d": _mend}


def _create(options, backend_options=None):
    if not dist.is_gloo_available():
        raise RuntimeError(
            "the acc backend sends by gloo, which this PyTorch was built without: install one with"
        )
    with span("torchacc.init", what=f"process group {options.group_id}", size=options.group_size):
        return _connected(options)


def _connected(options):
    # A separate gloo: one that the program uses meanwhile, from another thread, would take
    # messages.
    rank, size = options.group_rank, options.group_size
    life = _life(dist.PrefixStore("acc/", options.store), rank, size, options.timeout)
    store = dist.PrefixStore(f"acc/{life}", options.store)
    transport, group = (dist.ProcessGroup(store, rank, size) for _ in range(2))
    _carry(transport, host_backend(store, rank, size, options))
    gathers = None
    if (gpu := native_device()) and torch.cuda.is_available() and dist.is_nccl_available():
        nccl = _nccl(store, rank, size, options)
        transport._register_backend(gpu, dist.ProcessGroup.BackendType.NCCL, nccl)
    elif size > 1:
        gathers = host_gathers(store, rank, size, options)
    boxed = gathers and gathers.boxed()
    torch.ops.acc.attach_backend(group.boxed(), transport.boxed(), boxed, options.group_id)
    atexit.register(_finish)
    return group._get_backend(torch.device("acc"))


def _carry(group, backend):
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)


def host_backend(store: dist.Store, rank: int, size: int, options: Any) -> dist.ProcessGroupGloo:
    """What carries tensors in the host's memory."""
    gloo = dist.ProcessGroupGloo(store, rank, size, timeout=options.timeout)
    gloo.options.global_ranks_in_group = options.global_ranks_in_group
    gloo.options.group_name = options.group_id
    return gloo


def host_gathers(store: dist.Store, rank: int, size: int, options: Any) -> dist.ProcessGroup | None:
    """What carries large gathers in the host's memory, on a lane of their own. On a GPU they go
    with all others: a second communicator of NCCL takes memory, and shares its links."""
    store = dist.PrefixStore("gathers/", store)
    group = dist.ProcessGroup(store, rank, size)
    _carry(group, host_backend(store, rank, size, options))
    return group


def _nccl(store, rank, size, options):
    """What carries tensors in a GPU's memory, on streams of the device. It takes its communicators
    from NCCL when the first collective runs."""
    chosen = dist.ProcessGroupNCCL.Options()
    chosen._timeout = options.timeout
    chosen.global_ranks_in_group = options.global_ranks_in_group
    chosen.group_name = options.group_id
    return dist.ProcessGroupNCCL(dist.PrefixStore("nccl/", store), rank, size, chosen)


def _life(store, rank: int, size: int, timeout: datetime.timedelta) -> str:
    """A prefix of keys that all ranks of the group have, and no ranks that had its name before.

    torchrun keeps the store when it starts ranks again, and PyTorch their names: by what the last
    ones left there a rank would look for peers that are gone. Rank 0 makes up the prefix, and
    answers each rank with that and with what the rank has just made up itself.
    """
    if size == 1 or not dist.is_torchelastic_launched():
        return ""
    mine, until = uuid.uuid4().hex, time.monotonic() + timeout.total_seconds()
    missing = {*range(1, size)} if rank == 0 else {0}
    while missing:
        if rank == 0:
            missing -= {other for other in missing if _has_met(store, mine, other)}
        elif prefix := _answer(store, mine, rank):
            store.set(f"{prefix}/met/{rank}", "")
            return f"{prefix}/"
        if time.monotonic() > until:
            raise dist.DistStoreError(
                f"init_process_group: rank {rank} of {size} has not met {sorted(missing)} within "
                f"{timeout}: have all ranks been started?"
            )
        time.sleep(0.005)
    return f"{mine}/"


def _has_met(store, prefix: str, other: int) -> bool:
    """Answers a rank, until it says that this is what it asked."""
    if store.check([f"greeting/{other}"]):
        store.set(f"answer/{other}", store.get(f"greeting/{other}").decode() + prefix)
    return store.check([f"{prefix}/met/{other}"])


def _answer(store, mine: str, rank: int) -> str | None:
    store.set(f"greeting/{rank}", mine)
    said = store.get(f"answer/{rank}").decode() if store.check([f"answer/{rank}"]) else ""
    return said.removeprefix(mine) if said.startswith(mine) else None


def _finish() -> None:
    """Runs what was recorded: other ranks may wait for it. Once, however often it is registered."""
    atexit.unregister(_finish)
    torch.ops.acc.sync()
