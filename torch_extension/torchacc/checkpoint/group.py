"""The ranks that save together, or this process alone."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


class Group:
    """A process group of its own, for the host's memory. `handle` is None for one rank."""

    def __init__(self, process_group: dist.ProcessGroup | None = None):
        self.handle, self.rank, self.size = None, 0, 1
        if not (dist.is_available() and dist.is_initialized()):
            return
        ranks = dist.get_process_group_ranks(process_group or dist.group.WORLD)
        self.rank, self.size = ranks.index(dist.get_rank()), len(ranks)
        if self.size > 1:
            # Not gloo's, which looks for lost ranks after torchrun has started others.
            is_part = process_group is not None and self.size < dist.get_world_size()
            self.handle = dist.new_group(ranks, backend="acc", use_local_synchronization=is_part)

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank."""
        if self.handle is None:
            return [value]
        made: list[Any] = [None] * self.size
        dist.all_gather_object(made, value, group=self.handle)
        return made

    def most(self, number: int) -> int:
        """The largest of the ranks' numbers."""
        if self.handle is None:
            return number
        made = torch.tensor(number)
        dist.all_reduce(made, dist.ReduceOp.MAX, group=self.handle)
        return made.item()

    def broadcast(self, value: Any, rank: int = 0) -> Any:
        if self.handle is None:
            return value
        made = [value]
        dist.broadcast_object_list(made, group=self.handle, group_src=rank)
        return made[0]

    def first(self, function: Callable[[], Any]) -> Any:
        """What `function` returns on the first rank, or raises there, on every rank."""
        made, error = None, None
        if self.rank == 0:
            try:
                made = function()
            except Exception as one:
                error = one
        made, error = self.broadcast((made, error))
        if error is not None:
            raise error
        return made

    def agree(self, error: Exception | None) -> None:
        """Raises `error`, or that another rank has one: so none goes on without the others."""
        said = self.gather(None if error is None else f"{type(error).__name__}: {error}")
        if error is not None:
            raise error
        for rank, text in enumerate(said):
            if text is not None:
                raise RuntimeError(f"rank {rank}: {text}")

    def together(self, function: Callable[[], Any]) -> Any:
        """What `function` returns on this rank, once it has returned on all."""
        made, error = None, None
        try:
            made = function()
        except Exception as one:
            error = one
        self.agree(error)
        return made

    def hosts(self, folder: Path | None) -> list[str]:
        """Each rank's machine, by name: ranks with one name see one `folder`."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return self.gather(f"{socket.gethostname()} {boot} {os.fspath(folder or '')}")
