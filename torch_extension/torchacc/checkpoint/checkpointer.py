"""`Checkpointer`: saves a training's state in memory and on disk, and restores it."""

import atexit
import os
import secrets
import shutil
import threading
import uuid
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.utils import find_state_dict_object
from torch.distributed.tensor import DTensor

from torchacc.checkpoint import files, finding, layout, memory
from torchacc.checkpoint import state as states
from torchacc.checkpoint.client import SaverClient
from torchacc.checkpoint.group import Group
from torchacc.checkpoint.replicas import Replicas
from torchacc.event_log import span, steps
from torchacc.memory import mem_get_info, native_device
from torchacc.step import cut

LEAVE_SECONDS = 30  # for a copy to finish


class CheckpointError(RuntimeError):
    """A save did not reach the disk. The checkpoints before it are whole."""


class Checkpointer:
    """Saves and restores the state of a training, which all ranks of `process_group` do together.

        with Checkpointer("runs/7", keep_last=3) as checkpointer:
            state = {"model": model, "optimizer": optimizer, "loader": loader}
            for step in range(checkpointer.restore(state) or 0, steps):
                ...
                if (step + 1) % 100 == 0:
                    checkpointer.save(state, step + 1)

    A save copies the state to memory that outlives the process (unless `in_memory` is False) while
    the next step runs; a process of its own writes it to `folder`, which all ranks must see. A rank
    that starts again restores from that memory, from one of `replicas` copies on as many other
    machines, or from disk. The `keep_last` checkpoints saved last are kept, all if it is None, and
    those whose step is a multiple of `keep_every`.

    At the end of a `with` that no error leaves, and with `close`, that memory is released.

    Raises ValueError for numbers below 1, and for more replicas than there are other machines.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        in_memory: bool = True,
        replicas: int = 0,
        process_group: dist.ProcessGroup | None = None,
    ):
        for name, number in (("keep_last", keep_last), ("keep_every", keep_every)):
            if number is not None and number < 1:
                raise ValueError(f"Checkpointer: {name} is {number}: at least 1, or None for all")
        if replicas and not in_memory:
            raise ValueError("Checkpointer: replicas are copies of snapshots: in_memory is False")
        self.folder = Path(folder).absolute()
        self._group = Group(process_group)
        job, self._life, self._order = self._group.first(lambda: _begin(self.folder))
        self._memory, rank = None, self._group.rank
        self._slots = [memory.Slot(None, rank)]
        self._replicas: Replicas | None = None
        if in_memory:
            self._memory = self._group.together(lambda: memory.folder_for(self.folder, job))
            self._slots = [memory.Slot(self._memory / f"{rank}.{at}", rank) for at in range(2)]
            orders = [one.order for one in memory.snapshots(self._memory)]
            self._order = self._group.most(max([self._order, *orders]))
        if replicas:
            self._replicas = Replicas(self._memory, replicas, self._group)
        self._saver = SaverClient(self.folder, keep_last, keep_every)
        self._turn, self._saves = 0, 0
        self._layout: layout.Layout | None = None
        self._signature: Any = None
        self._copying: threading.Thread | None = None
        self._error: BaseException | None = None
        self._failed: dict[str, str] = {}  # reasons of failures that were warned of, by identifier
        # A thread that returns from C++ while the interpreter exits would end it badly.
        atexit.register(self._leave)

    def __enter__(self) -> "Checkpointer":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._leave()

    @torch.no_grad()
    def save(self, state: dict[str, Any], step: int, persist: bool = True) -> None:
        """Saves `state` as that of `step`; in memory alone unless it is to `persist`.

        Values of `state` are modules, optimizers, what else has `state_dict` and `load_state_dict`,
        tensors, and dicts, lists and other values that can be pickled. Tensors of one name are the
        same on all ranks, or parts of one (DTensor). What is no tensor is each rank's own, and so
        is all of what can be iterated over and has a state, as loaders, and the random states of
        Python, NumPy, PyTorch and the devices, which are always saved.

        Waits for the copy of the save before, and until one of the two snapshots in memory is not
        being written. Warns of what could not be written since the last call.

        Raises ValueError for a state that cannot be saved, and what computing it raised.
        """
        for identifier, reason in self._saver.failures().items():
            self._failed[identifier] = reason
            warnings.warn(f"checkpoint {identifier} was not written: {reason}", stacklevel=3)
        with span("torchacc.save", step=step, persist=int(persist)), steps.unseen():
            self._save(state, step, persist)

    def _save(self, state: dict[str, Any], step: int, persist: bool) -> None:
        collected, own = self._collect(state)
        self._order += 1
        self._saves += 1
        if self._saves == 2:  # the first one is whole on all ranks, so older ones may be removed
            self._forget_others()
        slot = self._open(self._layout.size + len(self._layout.metadata))
        fields = {
            "id": f"{self._order:010d}-{self._life}",
            "order": self._order,
            "step": step,
            "world": self._group.size,
            "part": self._group.rank,
            "size": self._layout.size,
            "metadata_size": len(self._layout.metadata),
        }
        self._layout.write_rest(slot, own)
        pairs = [
            (item.elements(slot.bytes), find_state_dict_object(collected.tensors, item.write.index))
            for item in self._layout.tensors()
        ]
        on_acc = [(into, one) for into, one in pairs if one.device.type == "acc"]
        pairs = [(into, one) for into, one in pairs if one.device.type != "acc"]
        copies = _copies(on_acc) if on_acc else None
        _copy(pairs)
        if copies is None and self._replicas is None:
            self._finish(copies, slot, fields, persist)
            return
        arguments = (copies, slot, fields, persist)
        self._copying = threading.Thread(target=self._try_to_finish, args=arguments, daemon=True)
        self._copying.start()

    @torch.no_grad()
    def restore(self, state: dict[str, Any], step: int | None = None) -> int | None:
        """Makes `state` what was saved last, or at `step`, and returns its step; None, with the
        state as it was, if nothing was saved.

        What has `load_state_dict` is changed in place, other values are replaced in the dict.
        There may be more or fewer ranks than those that saved, and other layouts of DTensors. A
        rank has the values that the rank of its number had; those beyond have rank 0's, and keep
        their random states. A checkpoint whose files are not what was written is left out, with a
        warning.

        Raises ValueError, with the state as it was, where the checkpoint has not what the state
        has, or the other way round; LookupError if there is no whole checkpoint of `step`.
        """
        with span("torchacc.load", what=str(self.folder)) as about, steps.unseen():
            about["step"] = found = self._restore(state, step)
        return found

    def _restore(self, state: dict[str, Any], step: int | None) -> int | None:
        self._group.together(self._join)
        for candidate in finding.found(self.folder, self._memory, self._group, step):
            self._load(state, candidate)
            self._go_on_from(candidate)
            return candidate.saved.step
        if step is not None:
            raise LookupError(f"restore: {self.folder} has no whole checkpoint of step {step}")
        return None

    def wait(self) -> None:
        """Until all that was saved is on disk.

        Raises CheckpointError for what could not be written, unless a save has warned of it.
        """
        self._group.together(self._join)
        self._saver.wait_parts()
        failed, known = {}, {}
        for one, other in self._group.gather((self._saver.failures(), self._failed)):
            failed |= one
            known |= other
        # Their remaining parts will not come.
        self._saver.give_up({*failed, *known})
        self._failed = {}
        self._saver.wait_whole()
        for some in self._group.gather(self._saver.failures()):
            failed |= some
        if failed:
            reasons = "; ".join(f"{one}: {reason}" for one, reason in failed.items())
            raise CheckpointError(f"not all checkpoints were written: {reasons}")

    def close(self) -> None:
        """Waits, and releases the memory of the snapshots: the job is done. Raises as `wait`, and
        then leaves them there."""
        self.wait()
        atexit.unregister(self._leave)
        self._saver.close()
        for slot in self._slots:
            slot.close()
        if self._replicas is not None:
            self._replicas.close()
        if self._memory is not None:
            self._group.gather(None)
            shutil.rmtree(self._memory, ignore_errors=True)

    def _leave(self) -> None:
        """Without the other ranks: what is in memory stays for those that start again."""
        atexit.unregister(self._leave)
        if self._copying is not None:
            # It may be waiting for a lost rank.
            self._copying.join(LEAVE_SECONDS)
        self._saver.close(is_well=False)

    def _join(self) -> None:
        if self._copying is not None:
            self._copying.join()
            self._copying = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _collect(self, state) -> tuple[states.Collected, bytes]:
        """The state, and this rank's values as bytes; the layout is then that of this state."""
        error = collected = own = signature = None
        try:
            self._join()
            cut()
            collected = states.collect(state)
            own = layout.pack_own(collected.own)
            signature = (len(own), [_kind(name, one) for name, one in collected.tensors.items()])
        except Exception as one:
            error = one
        # All ranks make their layouts together.
        change = 2 if error is not None else int(signature != self._signature)
        change = self._group.most(change)
        if change == 2:
            self._group.agree(error)
        if change:
            self._layout = layout.plan(collected, self._group.rank, len(own), self._group.handle)
            self._signature = signature
        return collected, own

    def _open(self, size: int) -> memory.Slot:
        """The slot whose turn it is."""
        slot = self._slots[self._turn]
        self._saver.wait_written(slot.id)
        try:
            slot.open(size)
        except OSError as error:
            if slot.path is None:
                raise
            warnings.warn(
                f"{slot.path.parent} has no room for two snapshots of {size} bytes ({error}): "
                "they go to disk alone, so that ranks that start again restore from there. Make "
                "/dev/shm larger (docker run --shm-size), or name another folder in "
                "TORCHACC_SNAPSHOTS; in_memory=False says that this is meant",
                stacklevel=4,
            )
            self._saver.wait_parts()
            for one in self._slots:
                one.close()
            self._slots, self._turn = [memory.Slot(None, slot.part)], 0
            slot = self._slots[0]
            slot.open(size)
        self._turn = (self._turn + 1) % len(self._slots)
        return slot

    def _finish(self, copies: Any, slot: memory.Slot, fields: dict, persist: bool) -> None:
        if copies is not None:
            copies.wait()
        slot.commit(**fields)
        request = {**fields, **slot.place}
        self._saver.save(request) if persist else self._saver.tell(request)
        if self._replicas is not None:
            self._replicas.exchange(slot, fields)

    def _try_to_finish(self, *arguments) -> None:
        try:
            self._finish(*arguments)
        except BaseException as error:
            self._error = error

    def _load(self, state: dict[str, Any], candidate) -> None:
        reader, group = candidate.reader(self._group), self._group
        own = reader.own_values(candidate.saved.world, lambda part: candidate.is_mine(part, group))
        all_own: dict[int, dict] = {}
        for some in group.gather(own):
            all_own |= some
        own = _values_of(all_own, group.rank)
        there, error, collected = reader.metadata.state_dict_metadata, None, None
        unused: set[str] = set()
        try:
            collected = states.targets(state, own, there)
            mine = tuple(f"{key}." for key in collected.fields)
            unused = {name for name in there if name.startswith(mine)} - collected.tensors.keys()
        except Exception as one:
            error = one
        group.agree(error)
        # Names unused here may be used on other ranks, such as stages of a pipeline.
        if strange := sorted(set.intersection(*group.gather(unused))):
            more = f" and {len(strange) - 8} more" if len(strange) > 8 else ""
            raise ValueError(f"restore: the state has no {', '.join(strange[:8])}{more}")
        reader.load(collected.tensors, group.together)
        states.put_back(state, own, collected)

    def _go_on_from(self, candidate) -> None:
        """What other snapshots there are, is older or incomplete. The next one does not overwrite
        that of `candidate`, which is written to disk if it is not there."""
        if self._memory is None:
            return
        for snapshot in memory.snapshots(self._memory):
            if snapshot.id != candidate.saved.id:
                (snapshot.path / memory.HEADER).unlink(missing_ok=True)
        if isinstance(candidate, finding.OnDisk):
            return
        if self._replicas is not None:
            self._replicas.keep({snapshot.path for snapshot in candidate.here.values()})
        on_disk = self._group.first(lambda: [one.id for one in files.whole(self.folder)])
        for part, snapshot in candidate.here.items():
            for at, slot in enumerate(self._slots):
                if slot.path == snapshot.path:
                    slot.id, self._turn = snapshot.id, 1 - at
            is_asked = snapshot.id.endswith(self._life) or snapshot.id in on_disk
            if candidate.is_mine(part, self._group) and not is_asked:
                self._saver.save(snapshot.request())

    def _forget_others(self) -> None:
        """Parts that ranks had when there were more of them, or others on this machine."""
        if self._memory is None:
            return
        hosts = self._group.hosts(self._memory)
        parts = {rank for rank, host in enumerate(hosts) if host == hosts[self._group.rank]}
        if self._replicas is not None:
            sources = self._group.gather(self._replicas.sources)
            parts |= {source for rank in [*parts] for source in sources[rank]}
        for path in self._memory.glob("*.[01]"):
            if int(path.stem) not in parts:
                shutil.rmtree(path, ignore_errors=True)


def latest(folder: str | os.PathLike) -> Path | None:
    """The checkpoint in `folder` that was saved last, which `dcp.load` reads; None without one."""
    all_saved = files.whole(folder)
    return all_saved[-1].path if all_saved else None


def verify(folder: str | os.PathLike) -> list[str]:
    """What is wrong with the checkpoints in `folder`, or with one if it is that: sizes and
    checksums of all files, in words, one a file. Raises FileNotFoundError if there is none."""
    one = files.read_manifest(Path(folder))
    all_saved = [one] if one is not None else files.whole(folder)
    if not all_saved:
        raise FileNotFoundError(f"verify: {folder} has no checkpoint")
    return [text for saved in all_saved for text in files.problems(saved)]


def _begin(folder: Path) -> tuple[str, str, int]:
    """The job's name, which stays with the folder, one of this life of it, and the last order."""
    folder.mkdir(parents=True, exist_ok=True)
    orders = [saved.order for saved in files.settle(folder)]
    name = folder / ".job"
    if not name.exists():
        files.write(name, uuid.uuid4().hex.encode())
    return name.read_text(), secrets.token_hex(4), max(orders, default=0)


def _values_of(all_own: dict[int, dict], rank: int) -> dict[str, Any]:
    """Those of a rank, else of rank 0; and those of others that it had not."""
    first = all_own[rank if rank in all_own else 0]
    others = {name: one for _, own in sorted(all_own.items()) for name, one in own.items()}
    made = {**others, **first}
    if rank not in all_own:
        made.pop(states.RANDOM, None)
    return made


def _kind(name: str, tensor: torch.Tensor) -> tuple:
    """What decides where a tensor's elements lie."""
    if not isinstance(tensor, DTensor):
        return name, tensor.dtype, tensor.shape
    spec = tensor._spec
    return name, tensor.dtype, tensor.shape, spec.mesh, spec.placements


Pairs = list[tuple[torch.Tensor, torch.Tensor]]  # each second is copied into the first


class _Lent:
    """Copies from a GPU, of values lent to a stream of their own: what is lent stays as it is, so
    the next step, which need not wait then, needs other memory."""

    def __init__(self, pairs: Pairs):
        self._pairs = [(into, _in_place(tensor)) for into, tensor in pairs]

    def wait(self) -> None:
        _copy(self._pairs)
        self._pairs.clear()  # the memory is the device's again


def _copies(pairs: Pairs) -> Any:
    """Copies from acc that are made while the next step runs, and can be waited for. On the host
    the step waits with what it overwrites, which it mostly does at its end."""
    if _has_room_to_lend([tensor for _, tensor in pairs]):
        return _Lent(pairs)
    return torch.classes.acc.HostCopies(
        [tensor.detach() for _, tensor in pairs], [into for into, _ in pairs]
    )


def _has_room_to_lend(tensors: list[torch.Tensor]) -> bool:
    """Whether acc computes on a GPU with room for these once more."""
    if native_device() is None or not torch.cuda.is_available():
        return False
    return mem_get_info()[0] > 1.25 * sum(one.nbytes for one in tensors)


def _in_place(tensor: torch.Tensor) -> torch.Tensor:
    """The value that a tensor on acc has now, in the device's own memory where that can be."""
    try:
        return torch.from_dlpack(tensor.detach())
    except (BufferError, RuntimeError):
        return tensor.cpu()


def _copy(pairs: Pairs) -> None:
    """On the host at once, from a GPU on a stream of its own."""
    if not any(source.is_cuda for _, source in pairs):
        for into, source in pairs:
            into.copy_(source)
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for into, source in pairs:
            into.copy_(source, non_blocking=True)
    stream.synchronize()
