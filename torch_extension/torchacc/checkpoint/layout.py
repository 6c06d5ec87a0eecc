"""Where each tensor of a rank lies in its part of a checkpoint: a file as PyTorch's
`FileSystemWriter` makes it, so that `dcp.load` reads a checkpoint without torchacc.

In such a file each tensor is what `torch.save` writes: its elements in an envelope that only its
type and sizes decide. So the envelopes are written once, and a snapshot copies elements alone.
"""

import dataclasses
import functools
import io
import pickle
import warnings
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import CURRENT_DCP_VERSION, _StorageInfo
from torch.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from torchacc.checkpoint.files import part_name

ALIGNMENT = 64  # bytes: alignment of elements within an envelope, and so within the file
OWN = "torchacc.rank_{}"  # key of a rank's own values
PLAIN = "torchacc.plain"  # key of values that are pickled in one piece
OWN_ROOM = 4096  # bytes: the room of a rank's own values is a multiple of it, so layouts stay


class Envelope(io.RawIOBase):
    """What `torch.save` writes of `value` but the elements of its tensors, which take the `holes`:
    where each begins, and its bytes. Fake tensors are saved as true ones."""

    def __init__(self, value: Any):
        self.pieces: list[tuple[int, bytearray]] = []
        self.holes: list[tuple[int, int]] = []
        self._at, self._is_after_hole = 0, True
        with torch.serialization.skip_data(materialize_fake_tensors=True):
            torch.save(value, self)
        self.size = self._at

    @property
    def begin(self) -> int:
        """Of the elements of a single tensor."""
        return self.holes[0][0] if self.holes else 0

    @property
    def nbytes(self) -> int:
        return sum(nbytes for _, nbytes in self.holes)

    def write(self, data: Any) -> int:
        if self._is_after_hole:
            self.pieces.append((self._at, bytearray()))
            self._is_after_hole = False
        self.pieces[-1][1].extend(data)
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        # Only elements are left out.
        self.holes.append((self._at, offset))
        self._is_after_hole = True
        self._at += offset
        return self._at


@functools.lru_cache(maxsize=8192)
def envelope(dtype: torch.dtype, sizes: tuple[int, ...]) -> Envelope:
    """Of a tensor."""
    return Envelope(torch.empty(sizes, dtype=dtype))


@dataclass(frozen=True)
class Item:
    write: WriteItem
    begin: int  # bytes from the file's begin
    envelope: Envelope | None  # None: the rank's own values

    def elements(self, memory: torch.Tensor) -> torch.Tensor:
        """Those of the tensor, in the file's memory, uint8."""
        chunk, begin = self.write.tensor_data.chunk, self.begin + self.envelope.begin
        part = memory[begin : begin + self.envelope.nbytes]
        return part.view(self.write.tensor_data.properties.dtype).view(chunk.sizes)


@dataclass(frozen=True)
class Layout:
    """The part of this rank, and what all ranks' parts are together, as DCP's `.metadata` file."""

    items: list[Item]
    size: int  # bytes
    metadata: bytes

    def tensors(self) -> list[Item]:
        """Those that have elements."""
        return [item for item in self.items if item.envelope is not None and item.envelope.nbytes]

    def write_rest(self, slot: Any, own: bytes) -> None:
        """All but elements: the rank's `own` values, and what the slot has not of this layout."""
        if slot.layout is not self:
            for item in filter(lambda item: item.envelope is not None, self.items):
                for at, piece in item.envelope.pieces:
                    slot.put(item.begin + at, piece)
            slot.put(self.size, self.metadata)
            slot.layout = self
        for item in self.items:
            if item.envelope is None:
                slot.put(item.begin, own)


class _Planner(dcp.DefaultSavePlanner):
    """Takes tensors by name, with the names in pieces as DCP would have found them."""

    def __init__(self, paths: dict[str, tuple]):
        super().__init__()
        self._paths = paths

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False) -> None:
        super().set_up_planner(state_dict, storage_meta, is_coordinator)
        self.mappings = {name: self._paths.get(name, path) for name, path in self.mappings.items()}


class _Planned(dcp.StorageWriter):
    """A writer that writes nothing, but notes where DCP's plan has each item."""

    def __init__(self, rank: int, own_size: int):
        self.rank, self.own_size = rank, own_size
        self.items: list[Item] = []
        self.size, self.metadata = 0, b""

    def reset(self, checkpoint_id=None) -> None:
        pass

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs) -> None:
        pass

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner) -> Future[list[WriteResult]]:
        results, at = [], 0
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                made, size = None, self.own_size
            else:
                sizes = item.tensor_data.chunk.sizes
                made = envelope(item.tensor_data.properties.dtype, tuple(sizes))
                size = made.size
            self.items.append(Item(item, at, made))
            place = _StorageInfo(part_name(self.rank), at, size)
            results.append(WriteResult(item.index, size, place))
            at += -(-size // ALIGNMENT) * ALIGNMENT
        self.size = at
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata, results) -> None:
        places = {one.index: one.storage_data for some in results for one in some}
        made = dataclasses.replace(metadata, version=CURRENT_DCP_VERSION, storage_data=places)
        self.metadata = pickle.dumps(made)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        return True


def plan(collected: Any, rank: int, own_size: int, group: Any) -> Layout:
    """The layout that DCP's planner makes, which all ranks of the group call together: what several
    ranks have is saved by one of them, as evenly as possible."""
    state: dict[str, Any] = {**collected.tensors, OWN.format(rank): None}
    writer = _Planned(rank, own_size)
    planner = _Planner(collected.paths)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        is_alone = group is None
        dcp.save(
            state, storage_writer=writer, planner=planner, process_group=group, no_dist=is_alone
        )
    metadata = [writer.metadata]
    if not is_alone:
        torch.distributed.broadcast_object_list(metadata, group=group, group_src=0)
    return Layout(writer.items, writer.size, metadata[0])


def pack_own(values: dict[str, Any]) -> bytes:
    """What `Reader.own_values` reads. As `torch.save` wrote before it wrote archives: such bytes
    may be followed by others. Plain values, of which optimizers have many, are one pickle."""
    plain = {name: one for name, one in values.items() if _is_plain(one)}
    others = {name: one for name, one in values.items() if name not in plain}
    stream = io.BytesIO()
    whole = {PLAIN: pickle.dumps(plain), **others}
    torch.save(whole, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue() + b"\0" * (-stream.tell() % OWN_ROOM)


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)
