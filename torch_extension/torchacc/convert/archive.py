"""Files of `torch.save`, without their tensors in memory: read as what lies where, and written
before the elements are there."""

import io
import pickle
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from torchacc.checkpoint.layout import Envelope
from torchacc.convert.stored import ConversionError, Kind, Stored, make_file


@dataclass(frozen=True)
class _Storage:
    dtype: torch.dtype
    key: str


class Unknown:
    """An object of a class that is not looked for: it could be anything, and do anything."""

    def __init__(self, *arguments: Any, **named: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _Unpickler(pickle.Unpickler):
    """Calls nothing but what makes plain values; tensors are `Stored`."""

    def __init__(self, data: bytes, path: Path, place):
        super().__init__(io.BytesIO(data))
        self._path, self._place = path, place

    def persistent_load(self, saved):
        _, storage_type, key, *_ = saved
        return _Storage(storage_type, key)

    def find_class(self, module: str, name: str):
        found = {
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            ("torch._utils", "_rebuild_tensor_v3"): self._tensor,
            ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
            ("torch._utils", "_rebuild_parameter_with_state"): lambda data, *_: data,
            ("collections", "OrderedDict"): OrderedDict,
            ("argparse", "Namespace"): Namespace,
            ("torch", "Size"): torch.Size,
        }.get((module, name))
        if found is not None:
            return found
        value = getattr(torch, name, None) if module.startswith("torch") else None
        if isinstance(value, torch.dtype):
            return value
        if module in ("torch", "torch.storage") and name.endswith("Storage"):
            is_untyped = name == "UntypedStorage"
            return torch.uint8 if is_untyped else torch.serialization.StorageType(name).dtype
        return Unknown

    def _tensor(self, storage: _Storage, offset, size, stride, *rest) -> Stored:
        dtype = next((one for one in rest if isinstance(one, torch.dtype)), storage.dtype)
        kind = Kind(dtype, tuple(size))
        begin = self._place(storage.key) + offset * dtype.itemsize
        is_dense = torch.empty(kind.shape, device="meta").stride() == tuple(stride)
        return Stored(self._path, begin, kind, None if is_dense else tuple(stride))


def read(path: Path) -> Any:
    """What was saved, with `Stored` for tensors, and `Unknown` for objects of other classes than
    Python's plain ones.

    Raises ConversionError for what is no whole archive.
    """
    try:
        file = torch._C.PyTorchFileReader(str(path))
        unpickler = _Unpickler(
            file.get_record("data.pkl"), path, lambda key: file.get_record_offset(f"data/{key}")
        )
        return unpickler.load()
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise ConversionError(
            f"{path} is truncated, or no file of torch.save: {str(error).splitlines()[0]}"
        ) from error


def make(path: Path, tensors: dict[str, Kind], whole: Callable[[dict], Any]) -> dict[str, int]:
    """Makes the file that `torch.save(whole(tensors), path)` makes, but for the elements of the
    tensors; returns where those begin, by name."""
    with FakeTensorMode():
        empty = {name: torch.empty(one.shape, dtype=one.dtype) for name, one in tensors.items()}
    value = whole(empty)
    made = Envelope(value)
    make_file(path, made.size, made.pieces)
    # Elements are stored in the order in which the tensors are found.
    called = {id(one): name for name, one in empty.items() if tensors[name].nbytes}
    met = dict.fromkeys(called[id(one)] for one in tree_leaves(value) if id(one) in called)
    return dict(zip(met, (begin for begin, _ in made.holes), strict=True))
