"""Which checkpoint to restore: the last one of which every part is whole, in memory or on disk."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist

from torchacc.checkpoint import files, memory
from torchacc.checkpoint.group import Group
from torchacc.checkpoint.reader import Reader

CHUNK = 64 << 20  # bytes of a message


@dataclass
class OnDisk:
    saved: files.Saved

    def reader(self, group: Group) -> Reader:
        path = self.saved.path
        names = {name: str(path / name) for name in self.saved.files if name != files.METADATA}
        return Reader(group.first((path / files.METADATA).read_bytes), names)

    def is_mine(self, part: int, group: Group) -> bool:
        """Whether it is this rank that reads the values of the rank that saved `part`."""
        return part % group.size == group.rank

    def problems(self, group: Group) -> list[str]:
        """The ranks share the files."""
        mine = [*self.saved.files][group.rank :: group.size]
        return sum(group.gather(files.problems(self.saved, mine)), [])


@dataclass
class InMemory:
    saved: memory.Snapshot  # any part of it
    sizes: dict[int, int]  # bytes, of the parts
    holders: dict[int, int]  # for each part, a rank that has it
    here: dict[int, memory.Snapshot]  # on this machine, by part
    is_everywhere: bool  # on each rank's machine, every part
    received: list[memory.Slot] = field(default_factory=list)  # while it is read

    def reader(self, group: Group) -> Reader:
        own = self.here[0].read()[1] if group.rank == self.holders[0] else None
        names = {files.part_name(part): str(one.source) for part, one in self.here.items()}
        metadata = group.broadcast(own, self.holders[0])
        fetch = None if self.is_everywhere else lambda missing: self._fetch(missing, group)
        return Reader(metadata, names, fetch)

    def is_mine(self, part: int, group: Group) -> bool:
        return self.holders[part] == group.rank

    def problems(self, group: Group) -> list[str]:
        return []

    def _fetch(self, names: list[str], group: Group) -> dict[str, str]:
        """Parts that this rank needs and other machines have; where they are then."""
        all_needed, received = group.gather(names), {}
        for part, holder in sorted(self.holders.items()):
            name = files.part_name(part)
            for rank in (rank for rank, needed in enumerate(all_needed) if name in needed):
                if group.rank == holder:
                    data = torch.frombuffer(self.here[part].read()[0], dtype=torch.uint8)
                    for piece in data.split(CHUNK):
                        dist.send(piece, group=group.handle, group_dst=rank)
                if group.rank == rank:
                    received[name] = self._receive(part, holder, group)
        return received

    def _receive(self, part: int, holder: int, group: Group) -> str:
        slot = memory.Slot(None, part)
        self.received.append(slot)
        for piece in slot.open(self.sizes[part]).split(CHUNK):
            dist.recv(piece, group=group.handle, group_src=holder)
        return slot.place["source"]


def found(folder: Path, place: Path | None, group: Group, step: int | None) -> Iterator:
    """Whole checkpoints, of that step if there is one, the best first: `OnDisk` or `InMemory`. All
    ranks get the same ones."""
    here = memory.snapshots(place) if place is not None else []
    all_snapshots = group.gather(here)
    candidates = [OnDisk(saved) for saved in group.first(lambda: files.settle(folder))]
    candidates += _whole(all_snapshots, here)
    # Of equal ones, that in memory is first.
    candidates.sort(key=lambda one: (one.saved.order, isinstance(one, InMemory)), reverse=True)
    for candidate in candidates:
        if step is not None and candidate.saved.step != step:
            continue
        wrong = candidate.problems(group)
        if not wrong:
            yield candidate
        elif group.rank == 0:
            warnings.warn(
                f"restore: step {candidate.saved.step} is left out, the one before it is tried: "
                f"{'; '.join(wrong[:4])}",
                stacklevel=3,
            )


def _whole(all_snapshots: list[list[memory.Snapshot]], here) -> list[InMemory]:
    """Those of which every part is somewhere."""
    parts: dict[str, dict[int, tuple[int, memory.Snapshot]]] = {}
    for rank, snapshots in enumerate(all_snapshots):
        for one in snapshots:
            known = parts.setdefault(one.id, {})
            if one.part not in known or rank == one.part:
                known[one.part] = rank, one
    made = []
    for identifier, known in parts.items():
        _, one = next(iter(known.values()))
        if known.keys() == set(range(one.world)):
            sizes = {part: snapshot.size for part, (_, snapshot) in known.items()}
            holders = {part: rank for part, (rank, _) in known.items()}
            mine = {snapshot.part: snapshot for snapshot in here if snapshot.id == identifier}
            counts = [
                len({one.part for one in some if one.id == identifier}) for some in all_snapshots
            ]
            is_everywhere = all(count == one.world for count in counts)
            made.append(InMemory(one, sizes, holders, mine, is_everywhere))
    return made
