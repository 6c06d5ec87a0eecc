"""Loads a checkpoint from files, on disk or in memory, by PyTorch's planner: into any layout."""

import io
import mmap
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import DefaultLoadPlanner, LoadPlan
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner_helpers import _create_chunk_from_dtensor
from torch.distributed.tensor import DTensor

from torchacc.checkpoint.layout import OWN, PLAIN, envelope


def _alone(function: Callable[[], Any]) -> Any:
    return function()


class Reader:
    """`files`: where the parts are, by the names in the metadata. `fetch` is called by all ranks
    with the names that this one needs besides, and returns where they are then."""

    def __init__(self, metadata: bytes, files: Mapping[str, str], fetch: Callable | None = None):
        self.metadata: Metadata = pickle.loads(metadata)
        self._files, self._fetch = dict(files), fetch
        self._open: dict[str, memoryview] = {}

    def load(self, tensors: dict[str, torch.Tensor], together: Callable = _alone) -> None:
        """Fills `tensors`, by name. All ranks call it, with `Group.together`. Each plans for
        itself: DCP's plans of loading depend on no other rank's, and sending them would take longer
        than copying what is in memory."""
        planner = DefaultLoadPlanner(flatten_state_dict=False)
        same, plan = together(lambda: self._plan(tensors, planner))
        if self._fetch is not None:
            places = self.metadata.storage_data
            indices = [*same.values(), *(item.storage_index for item in plan.items)]
            needed = {places[index].relative_path for index in indices}
            self._files |= self._fetch(sorted(needed - self._files.keys()))
        together(lambda: self._read(tensors, same, plan, planner))

    def _plan(
        self, tensors: dict[str, torch.Tensor], planner: DefaultLoadPlanner
    ) -> tuple[dict[str, MetadataIndex], LoadPlan]:
        """Of the tensors whose part on this rank was saved in one piece, that piece: most, where
        the layout is as it was. DCP's planner, which takes as long for a tensor as copying it,
        plans for the others."""
        same, rest, chunks = {}, {}, {}
        for name, tensor in tensors.items():
            kind = _layout(tensor)
            if kind not in chunks:
                chunks[kind] = _chunk(tensor)
            saved = self.metadata.state_dict_metadata[name].chunks
            if any((one.offsets, one.sizes) == chunks[kind] for one in saved):
                same[name] = MetadataIndex(name, chunks[kind][0])
            else:
                rest[name] = tensor
        planner.set_up_planner(rest, self.metadata)
        return same, planner.create_local_plan()

    def _read(
        self,
        tensors: dict[str, torch.Tensor],
        same: dict[str, MetadataIndex],
        plan: LoadPlan,
        planner: DefaultLoadPlanner,
    ) -> None:
        for name, index in same.items():
            into = tensors[name].detach()
            (into.to_local() if isinstance(into, DTensor) else into).copy_(self._tensor(index))
        for item in plan.items:
            source = narrow_tensor_by_index(
                self._tensor(item.storage_index), item.storage_offsets, item.lengths
            )
            planner.resolve_tensor(item).detach().copy_(source)
        self._open.clear()

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
        return self._opened(place.relative_path)[place.offset : place.offset + place.length]

    def _tensor(self, index: MetadataIndex) -> torch.Tensor:
        """A view of the file."""
        known = self.metadata.state_dict_metadata[index.fqn]
        sizes = next(one.sizes for one in known.chunks if one.offsets == index.offset)
        dtype, memory = known.properties.dtype, self._slice(index)
        if sizes.numel() == 0:
            return torch.empty(sizes, dtype=dtype)
        made = envelope(dtype, tuple(sizes))
        if any(memory[at : at + len(piece)] != piece for at, piece in made.pieces):
            # Written by another version of PyTorch, or with strides that this package does not
            # save.
            return torch.load(io.BytesIO(memory), weights_only=True, map_location="cpu")
        elements = torch.frombuffer(
            memory[made.begin : made.begin + made.nbytes], dtype=torch.uint8
        )
        return elements.view(dtype).view(sizes)

    def _opened(self, name: str) -> memoryview:
        if name not in self._open:
            with open(self._files[name], "rb") as file:
                # Copy on write, which never happens: PyTorch requires writable memory.
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._open[name] = memoryview(memory)
        return self._open[name]


def _layout(tensor: torch.Tensor) -> tuple:
    """Tensors of one layout have the same part on this rank."""
    if not isinstance(tensor, DTensor):
        return type(tensor), tensor.shape
    spec = tensor._spec
    return tensor.shape, id(spec.mesh), spec.placements


def _chunk(tensor: torch.Tensor) -> tuple[torch.Size, torch.Size] | None:
    """Offsets and sizes of this rank's part; None where only DCP knows, as of a ShardedTensor."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return torch.Size([0] * tensor.dim()), tensor.shape
    if not isinstance(tensor, DTensor):
        return None
    chunk = _create_chunk_from_dtensor(tensor)
    return chunk.offsets, chunk.sizes
