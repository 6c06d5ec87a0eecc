"""Copies of snapshots on other machines, for when one is gone."""

import json
import secrets
from pathlib import Path

import torch
import torch.distributed as dist

from torchacc.checkpoint.group import Group
from torchacc.checkpoint.memory import Slot

HEADER, CHUNK = 4096, 64 << 20  # bytes of the header of a part, and of a message


class Replicas:
    """Each rank's part goes to ranks of the next `count` machines, and those of others come."""

    def __init__(self, folder: Path, count: int, group: Group):
        """Raises ValueError if there are not as many other machines."""
        hosts = group.hosts(folder)
        names = list(dict.fromkeys(hosts))
        if not 0 < count < len(names):
            raise ValueError(
                f"Checkpointer: replicas is {count}: there are {len(names) - 1} other machines to "
                "have copies"
            )
        ranks = {name: [at for at, one in enumerate(hosts) if one == name] for name in names}

        def peers(rank: int) -> list[int]:
            host = hosts[rank]
            at, place = names.index(host), ranks[host].index(rank)
            others = [ranks[names[(at + k + 1) % len(names)]] for k in range(count)]
            return [some[place % len(some)] for some in others]

        self.targets = peers(group.rank)
        self.sources = [rank for rank in range(group.size) if group.rank in peers(rank)]
        self._folder, self._turn = folder, 0
        # A separate gloo, since it is used from another thread than the program's own collectives.
        name = group.broadcast(secrets.token_hex(8))
        store = dist.PrefixStore(f"torchacc.checkpoint/{name}", _store())
        self._gloo = dist.ProcessGroupGloo(store, group.rank, group.size, dist.default_pg_timeout)
        self._slots = {
            source: [Slot(folder / f"{source}.{turn}", source) for turn in range(2)]
            for source in self.sources
        }

    def keep(self, paths: set[Path]) -> None:
        """The next snapshots do not overwrite these."""
        for slots in self._slots.values():
            slots.sort(key=lambda slot: slot.path in paths)
        self._turn = 0

    def exchange(self, slot: Slot, fields: dict) -> None:
        """Sends this rank's snapshot, and takes those of the sources."""
        header = torch.zeros(HEADER, dtype=torch.uint8)
        text = json.dumps(fields).encode()
        header[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        messages = [header, *slot.bytes.split(CHUNK)]
        sends = [
            self._gloo.send([message], target, tag)
            for target in self.targets
            for tag, message in enumerate(messages)
        ]
        for source, slots in self._slots.items():
            self._take(source, slots[self._turn])
        for work in sends:
            work.wait()
        self._turn = 1 - self._turn

    def _take(self, source: int, slot: Slot) -> None:
        header = torch.empty(HEADER, dtype=torch.uint8)
        self._gloo.recv([header], source, 0).wait()
        fields = json.loads(bytes(header.tolist()).rstrip(b"\0"))
        memory = slot.open(fields["size"] + fields["metadata_size"])
        for tag, message in enumerate(memory.split(CHUNK)):
            self._gloo.recv([message], source, tag + 1).wait()
        slot.commit(**fields)

    def close(self) -> None:
        for slots in self._slots.values():
            for slot in slots:
                slot.close()


def _store():
    return dist.distributed_c10d._get_default_store()
