"""Loads a checkpoint from files, on disk or in memory, by PyTorch's planner: into any layout."""

import io
import mmap
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan
from torch.distributed.checkpoint.utils import _create_file_view
from torch.futures import Future

from torchacc.checkpoint.layout import OWN, PLAIN, envelope


class Reader(StorageReader):
    """`files`: where the parts are, by the names in the metadata. `fetch` is called by all ranks
    with the names that this one needs besides, and returns where they are then."""

    def __init__(self, metadata: bytes, files: Mapping[str, str], fetch: Callable | None = None):
        self.metadata: Metadata = pickle.loads(metadata)
        self._files, self._fetch = dict(files), fetch
        self._open: dict[str, tuple[io.FileIO, memoryview]] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        pass

    def read_metadata(self) -> Metadata:
        return self.metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True

    def read_data(self, plan: LoadPlan, planner: Any) -> Future[None]:
        places = self.metadata.storage_data
        needed = {places[item.storage_index].relative_path for item in plan.items}
        if self._fetch is not None:
            self._files |= self._fetch(sorted(needed - self._files.keys()))
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self._slice(item.storage_index)))
                continue
            source = narrow_tensor_by_index(
                self._tensor(item.storage_index), item.storage_offsets, item.lengths
            )
            target = planner.resolve_tensor(item).detach()
            target.copy_(source)
            planner.commit_tensor(item, target)
        self._open.clear()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def own_values(self, world: int, is_mine: Callable[[int], bool]) -> dict[int, dict[str, Any]]:
        """The values of those of the `world` ranks that saved that `is_mine` says."""
        made = {}
        for rank in filter(is_mine, range(world)):
            memory = self._slice(MetadataIndex(OWN.format(rank)))
            values = torch.load(io.BytesIO(memory), weights_only=False)
            made[rank] = pickle.loads(values.pop(PLAIN)) | values
        return made

    def _slice(self, index: MetadataIndex) -> memoryview:
        place = self.metadata.storage_data[index]
        _, memory = self._opened(place.relative_path)
        return memory[place.offset : place.offset + place.length]

    def _tensor(self, index: MetadataIndex) -> torch.Tensor:
        """A view of the file."""
        known = self.metadata.state_dict_metadata[index.fqn]
        sizes = next(one.sizes for one in known.chunks if one.offsets == index.offset)
        dtype, memory = known.properties.dtype, self._slice(index)
        if sizes.numel() == 0:
            return torch.empty(sizes, dtype=dtype)
        made = envelope(dtype, tuple(sizes))
        begin, nbytes = made.begin, sizes.numel() * dtype.itemsize
        if any(memory[at : at + len(piece)] != piece for at, piece in made.pieces):
            # By another version of PyTorch.
            place = self.metadata.storage_data[index]
            file = _create_file_view(
                self._opened(place.relative_path)[0], place.offset, place.length
            )
            begin = torch._C.PyTorchFileReader(file).get_record_offset("data/0")
        elements = torch.frombuffer(memory[begin : begin + nbytes], dtype=torch.uint8)
        return elements.view(dtype).view(sizes)

    def _opened(self, name: str) -> tuple[io.FileIO, memoryview]:
        if name not in self._open:
            file = io.FileIO(self._files[name])
            # Copied when written to, which nobody does: PyTorch wants memory that could be.
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._open[name] = file, memoryview(memory)
        return self._open[name]
