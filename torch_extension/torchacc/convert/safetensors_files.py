"""Hugging Face's safetensors files: one, or several with an index."""

import json
import struct
from pathlib import Path
from typing import Any

import torch

from torchacc.checkpoint.files import write
from torchacc.convert.model import MANIFEST, Model, some
from torchacc.convert.model import Writer as Base
from torchacc.convert.stored import ConversionError, Kind, Readable, Stored, check_ends, make_file
from torchacc.convert.stored import put as put_tensor

INDEX = "model.safetensors.index.json"
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}


def is_here(path: Path) -> bool:
    return path.suffix == ".safetensors" or any(path.glob("*.safetensors"))


def open_model(path: Path) -> Model:
    """Raises ConversionError for files that are missing, truncated or none of safetensors."""
    folder = path if path.is_dir() else path.parent
    listed: dict[str, str] = {}
    if path.is_dir() and (path / INDEX).exists():
        listed = json.loads((path / INDEX).read_bytes())["weight_map"]
    files = sorted({folder / name for name in listed.values()}) or (
        [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    )
    if missing := [str(one) for one in files if not one.is_file()]:
        raise ConversionError(f"{path}: the index lists {some(missing)}, which is missing")
    tensors: dict[str, Readable] = {}
    for file in files:
        for name, one in header(file).items():
            if name in tensors:
                raise ConversionError(f"{path}: two files have {name}, and no index says which")
            if not listed or folder / listed.get(name, "") == file:
                tensors[name] = one
    if missing := sorted(listed.keys() - tensors.keys()):
        raise ConversionError(f"{path}: the index lists {some(missing)}, which its file has not")
    made = Model(tensors, folder)
    if path.is_dir():
        made.check(folder / MANIFEST)
    return made


def header(path: Path) -> dict[str, Stored]:
    """What a file has, by name. Raises ConversionError for one that is damaged."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))
        if 8 + length > size:
            raise ConversionError(f"{path} is truncated, or no safetensors file: {size} bytes")
        said = file.read(length)
    found = {}
    try:
        for name, one in json.loads(said).items():
            if name != "__metadata__":
                kind = Kind(DTYPES[one["dtype"]], tuple(one["shape"]))
                begin, end = one["data_offsets"]
                if end - begin != kind.nbytes:
                    raise ValueError(f"{name} has {end - begin} bytes")
                found[name] = Stored(path, 8 + length + begin, kind)
    except (ValueError, KeyError, TypeError) as error:
        raise ConversionError(f"{path}: its header is damaged: {error}") from error
    check_ends(found.values())
    return found


class Writer(Base):
    """Fills files in the order of the model's tensors, each of at most `shard_size` bytes unless
    one tensor is larger."""

    def __init__(self, model: Model, options: Any):
        files: list[dict[str, Kind]] = [{}]
        room = options.shard_size
        for name, one in model.tensors.items():
            if one.kind.dtype not in CODES:
                raise ConversionError(f"safetensors has no type for {name}: {one.kind}")
            if files[-1] and one.kind.nbytes > room:
                files, room = [*files, {}], options.shard_size
            files[-1][name] = one.kind
            room -= one.kind.nbytes
        count = len(files)
        called = [f"model-{at:05d}-of-{count:05d}.safetensors" for at in range(1, count + 1)]
        self._files = dict(zip(called if count > 1 else ["model.safetensors"], files, strict=True))
        self.nbytes = sum(one.nbytes for file in files for one in file.values())
        self.order = [[name] for name in model.tensors]
        self._places: dict[str, tuple[Path, int]] = {}
        model.leave_out_the_rest()

    def begin(self, folder: Path) -> None:
        self.folder = folder
        for file, tensors in self._files.items():
            said, at = {"__metadata__": {"format": "pt"}}, 0
            # Larger elements first, so that all are aligned.
            for name in sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize):
                kind, end = tensors[name], at + tensors[name].nbytes
                code, shape = CODES[kind.dtype], [*kind.shape]
                said[name] = {"dtype": code, "shape": shape, "data_offsets": [at, end]}
                self._places[name], at = (folder / file, at), end
            text = json.dumps(said, separators=(",", ":")).encode()
            text += b" " * (-len(text) % 8)
            made = struct.pack("<Q", len(text)) + text
            make_file(folder / file, len(made) + at, [(0, made)])
            for name in tensors:
                self._places[name] = folder / file, len(made) + self._places[name][1]
        if len(self._files) > 1:
            listed = {name: file for file, tensors in self._files.items() for name in tensors}
            index = {"metadata": {"total_size": self.nbytes}, "weight_map": listed}
            write(folder / INDEX, json.dumps(index, indent=2).encode())

    def put(self, names: list[str], tensors: list[torch.Tensor]) -> None:
        for name, tensor in zip(names, tensors, strict=True):
            put_tensor(*self._places[name], tensor)
