"""PyTorch's distributed checkpoints (DCP), and those of `torchacc.checkpoint`, which are DCP with
a manifest and the values of each rank."""

import io
import pickle
import secrets
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import CURRENT_DCP_VERSION, _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from torchacc.checkpoint import files, latest
from torchacc.checkpoint.layout import ALIGNMENT, OWN, envelope, pack_own
from torchacc.checkpoint.reader import Reader
from torchacc.convert.model import MANIFEST, Model, some
from torchacc.convert.model import Writer as Base
from torchacc.convert.stored import (
    ConversionError,
    Kind,
    Made,
    Readable,
    Stored,
    check_ends,
    make_file,
)
from torchacc.convert.stored import put as put_tensor


def is_here(path: Path) -> bool:
    return (path / files.METADATA).is_file() or (path.is_dir() and bool(files.whole(path)))


@dataclass(frozen=True)
class _Loaded:
    reader: Reader
    name: str
    kind: Kind

    def read(self) -> torch.Tensor:
        state = {self.name: torch.empty(self.kind.shape, dtype=self.kind.dtype)}
        try:
            self.reader.load(state)
        except Exception as error:  # anything that damaged bytes make pickle raise
            raise ConversionError(f"{self.name}: its file is damaged: {error}") from error
        return state[self.name]


def open_model(path: Path, key: str | None) -> Model:
    """A folder of DCP's files, or the latest checkpoint of a `Checkpointer`'s folder.

    Raises ConversionError for what is damaged, and where it is not clear which tensors are the
    model's.
    """
    if not (path / files.METADATA).is_file():
        path = latest(path)
    saved = files.read_manifest(path)
    if saved is not None and (wrong := files.problems(saved)):
        raise ConversionError(some(wrong))
    said = (path / files.METADATA).read_bytes()
    try:
        metadata: Metadata = pickle.loads(said)
        there = metadata.state_dict_metadata
    except Exception as error:  # anything that damaged bytes make pickle raise
        raise ConversionError(f"{path / files.METADATA} is damaged: {error}") from error
    places = {}
    for index, place in metadata.storage_data.items():
        if getattr(place, "transform_descriptors", None):
            raise ConversionError(f"{path}: {index.fqn} is compressed: save it without extensions")
        kind = Kind(torch.uint8, (place.length,))
        places[index] = Stored(path / place.relative_path, place.offset, kind)
    check_ends(places.values())
    reader = Reader(
        said,
        {
            one.relative_path: str(path / one.relative_path)
            for one in metadata.storage_data.values()
        },
    )
    found: dict[str, Readable] = {}
    values: dict[str, Readable] = {}
    for name, one in there.items():
        if isinstance(one, BytesStorageMetadata):
            values[name] = places[MetadataIndex(name)]
        else:
            found[name] = _Loaded(reader, name, Kind(one.properties.dtype, tuple(one.size)))
    paths = {name: (metadata.planner_data or {}).get(name, (name,)) for name in there}
    key = _key(path, found, paths) if key is None else key
    tensors, others, firsts, tied = {}, {}, {}, {}
    for name, one in found.items():
        is_model = (paths[name][0] == key and len(paths[name]) > 1) if key else len(paths[name]) < 2
        indices = _chunks(name, there)
        if not is_model:
            others[name] = one
            continue
        short = name.removeprefix(f"{key}.") if key else name
        # Two names for the same bytes are one tensor.
        place = (one.kind, *((places[at].path, places[at].begin) for at in indices))
        if one.kind.nbytes and place in firsts:
            tied[short] = firsts[place]
        else:
            firsts[place] = short
            tensors[short] = one
    if not tensors:
        raise ConversionError(f"{path} has no tensors under the key {key!r}")
    made = Model(tensors, path, tied, others, values, paths=paths, key=key)
    if saved is not None:
        made.step, made.world, made.is_training = saved.step, saved.world, True
    made.check(path / MANIFEST, by_full_name=True)
    return made


def _chunks(name: str, there) -> list[MetadataIndex]:
    """The parts of a tensor. Raises ConversionError where some are missing."""
    chunks = there[name].chunks
    count = sum(prod(one.sizes) for one in chunks)
    if count < prod(there[name].size):
        raise ConversionError(f"of {name} there are {count} of {prod(there[name].size)} elements")
    return [MetadataIndex(name, one.offsets) for one in chunks]


def _key(path: Path, found, paths) -> str:
    """The part of the state that is a model: the key "model", no key, or the only one."""
    keys = {paths[name][0] for name in found if len(paths[name]) > 1}
    if "model" in keys:
        return "model"
    if any(len(paths[name]) == 1 for name in found):
        return ""
    if len(keys) == 1:
        return keys.pop()
    raise ConversionError(
        f"{path}: which part is the model? It has {some(sorted(keys))}: name one as key"
    )


def _saved(value: Any) -> bytes:
    """As DCP saves what is no tensor."""
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


@dataclass
class _Chunk:
    file: int
    begin: int  # bytes, of its elements
    rows: slice


class Writer(Base):
    """DCP in `options.files` files, each with its share of the rows of every tensor. With
    `is_whole_training` a `Checkpointer` restores it."""

    def __init__(self, model: Model, options: Any, is_whole_training: bool = False):
        self._model, self._is_whole_training = model, is_whole_training
        self._step = model.step if options.step is None else options.step
        self._sizes = [0] * options.files
        self._pieces: list[list[tuple[int, bytes]]] = [[] for _ in self._sizes]
        self._chunks: dict[str, list[_Chunk]] = {}
        self._metadata = Metadata({}, planner_data={}, storage_data={}, version=CURRENT_DCP_VERSION)
        if is_whole_training and not model.key:
            model.key = "model"
        if is_whole_training:
            model.values.setdefault(OWN.format(0), Made(pack_own(model.own)))
            for rank in range(1, model.world):
                model.values.setdefault(OWN.format(rank), Made(pack_own({})))
        else:
            model.values |= {name: Made(_saved(value)) for name, value in model.own.items()}
        if both := sorted(model.tensors.keys() & {*model.others, *model.values}):
            raise ConversionError(f"two things are called {some(both)}")
        for name, one in model.tensors.items():
            self._add(name, model.full_name(name), one.kind, self._path(name))
        for name, first in model.tied.items():
            self._add_name(model.full_name(name), model.full_name(first), self._path(name))
        for name, one in model.others.items():
            self._add(name, name, one.kind, model.paths[name])
        for name, one in model.values.items():
            self._add_bytes(name, one.kind.nbytes)
        self.nbytes = sum(self._sizes)
        self.order = [[name] for name in model.everything()]

    def _path(self, name: str) -> tuple:
        """The full name of a tensor of the model, in pieces."""
        key = self._model.key
        return self._model.paths.get(self._model.full_name(name), (key, name) if key else (name,))

    def _add(self, name: str, full: str, kind: Kind, path: tuple) -> None:
        if full in self._metadata.state_dict_metadata:
            raise ConversionError(f"two tensors are called {full}")
        self._chunks[name], chunks = [], []
        for file, rows, sizes in self._parts(kind):
            made = envelope(kind.dtype, sizes)
            at = self._sizes[file]
            self._pieces[file] += [(at + begin, piece) for begin, piece in made.pieces]
            self._chunks[name].append(_Chunk(file, at + made.begin, rows))
            offsets = torch.Size([rows.start, *[0] * (len(sizes) - 1)][: len(sizes)])
            chunks.append(ChunkStorageMetadata(offsets, torch.Size(sizes)))
            place = _StorageInfo(files.part_name(file), at, made.size)
            self._metadata.storage_data[MetadataIndex(full, offsets)] = place
            self._sizes[file] += -(-made.size // ALIGNMENT) * ALIGNMENT
        said = TensorStorageMetadata(TensorProperties(kind.dtype), torch.Size(kind.shape), chunks)
        self._metadata.state_dict_metadata[full] = said
        self._metadata.planner_data[full] = path

    def _parts(self, kind: Kind):
        """The file of each part of a tensor, its rows, and its sizes."""
        rows = kind.shape[0] if kind.shape else 0
        count = len(self._sizes)
        if rows < count or count == 1:
            smallest = min(range(count), key=self._sizes.__getitem__)
            yield smallest, slice(0, rows), kind.shape
            return
        share = -(-rows // count)
        for file in range(count):
            part = slice(min(file * share, rows), min((file + 1) * share, rows))
            if part.start < part.stop:
                yield file, part, (part.stop - part.start, *kind.shape[1:])

    def _add_name(self, full: str, first: str, path: tuple) -> None:
        """A name of a tensor that has one."""
        made = self._metadata
        made.state_dict_metadata[full] = made.state_dict_metadata[first]
        made.planner_data[full] = path
        for chunk in made.state_dict_metadata[first].chunks:
            place = made.storage_data[MetadataIndex(first, chunk.offsets)]
            made.storage_data[MetadataIndex(full, chunk.offsets)] = place

    def _add_bytes(self, name: str, size: int) -> int:
        at = self._sizes[0]
        self._metadata.state_dict_metadata[name] = BytesStorageMetadata()
        self._metadata.planner_data[name] = self._model.paths.get(name, (name,))
        place = _StorageInfo(files.part_name(0), at, size)
        self._metadata.storage_data[MetadataIndex(name)] = place
        self._chunks[name] = [_Chunk(0, at, slice(0, size))]
        self._sizes[0] += -(-size // ALIGNMENT) * ALIGNMENT
        return at

    def begin(self, folder: Path) -> None:
        self.folder = folder
        if self._is_whole_training:
            self.folder = folder / f"step_{self._step}"
            self.folder.mkdir()
            (folder / files.LATEST).symlink_to(self.folder.name)
        for file, (size, pieces) in enumerate(zip(self._sizes, self._pieces, strict=True)):
            make_file(self.folder / files.part_name(file), size, pieces)
        files.write(self.folder / files.METADATA, pickle.dumps(self._metadata))

    def stored_name(self, name: str) -> str:
        return self._model.full_name(name) if name in self._model.tensors else name

    def manifest(self) -> dict[str, Any]:
        """What a `Checkpointer` wants in it."""
        if not self._is_whole_training:
            return {}
        made = {}
        for path in sorted(self.folder.iterdir()):
            made[path.name] = {"size": path.stat().st_size, "crc32": files.checksum(path)}
        identifier = f"{1:010d}-{secrets.token_hex(4)}"
        world = self._model.world
        return {"id": identifier, "order": 1, "step": self._step, "world": world, "files": made}

    def put(self, names: list[str], tensors: list[torch.Tensor]) -> None:
        for name, tensor in zip(names, tensors, strict=True):
            for chunk in self._chunks[name]:
                part = tensor[chunk.rows] if tensor.dim() else tensor
                put_tensor(self.folder / files.part_name(chunk.file), chunk.begin, part)
