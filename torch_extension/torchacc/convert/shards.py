"""The shards that PyTorch/XLA's FSDP leaves, and TorchAcc with it: a file of `torch.save` for each
rank, `rank-3-of-8-model.pth` and `rank-3-of-8-optimizer.pth`. A layer's parameters are one flat
tensor, padded so that each rank has as many of its elements.

The layout is that of torch_xla/distributed/fsdp/state_dict_utils.py.
"""

import re
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from torchacc.convert import archive
from torchacc.convert.model import Model, some
from torchacc.convert.stored import Cast, ConversionError, Kind, Readable, Stored, check_ends

MODEL, OPTIMIZER = "rank-*-of-*-model.pth", "rank-*-of-*-optimizer.pth"


@dataclass(frozen=True)
class _Pieces:
    """A tensor of which several files have elements, one after the other."""

    kind: Kind
    pieces: list[Stored]

    def read(self) -> torch.Tensor:
        return torch.cat([piece.read() for piece in self.pieces]).view(self.kind.shape)


@dataclass(frozen=True)
class _Flat:
    """The parameters in a flat one: names and shapes, in their order."""

    names: list[str]
    shapes: list[tuple[int, ...]]

    def split(self, shards: list[Stored]) -> dict[str, Readable]:
        made, begin = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            end = begin + prod(shape)
            kind = Kind(shards[0].kind.dtype, tuple(shape))
            made[name] = _Pieces(kind, _between(shards, begin, end))
            begin = end
        return made


def open_model(folder: Path, pattern: str = MODEL, optimizer: str | None = OPTIMIZER) -> Model:
    """The model under the key "model", and the state of its optimizer, by the parameters' names, if
    it has files.

    Raises ConversionError for ranks that are missing and for what is none of these files.
    """
    ranks = _ranks(folder, pattern, "model")
    said = ranks[0]["shard_metadata"]
    made = Model({}, folder, key="model")
    # Wrapped models have their names below "model.", which the metadata lacks.
    is_wrapped = not any(_split(name)[0] in said["shard_info"] for name in ranks[0]["model"])
    flats = []
    for called, one in ranks[0]["model"].items():
        shards = [_stored(rank["model"].get(called), called) for rank in ranks]
        name = re.sub(r"^(model\.)+", "", called) if is_wrapped else called
        flat = _flat(name, said)
        if flat is not None:
            flats.append(flat)
            made.tensors |= flat.split(shards)
            continue
        dtype = said.get("buffer_info", {}).get(called, {}).get("_orig_dtype", one.kind.dtype)
        made.tensors[_clean(name)] = one if dtype == one.kind.dtype else Cast(one, dtype)
    if optimizer is not None and any(folder.glob(optimizer)):
        _add_optimizer(made, _ranks(folder, optimizer, "optimizer"), flats)
    for name in (*made.tensors, *made.others):
        made.paths[made.full_name(name)] = ("model", name)
    made.paths |= {name: tuple(name.split(".", 1)) for name in (*made.others, *made.own)}
    everything = made.everything().values()
    check_ends(p for one in everything for p in (one.pieces if isinstance(one, _Pieces) else []))
    return made


def _ranks(folder: Path, pattern: str, key: str) -> list[dict[str, Any]]:
    """What the files have, by rank."""
    found = {}
    for path in sorted(folder.glob(pattern)):
        read = archive.read(path)
        if not isinstance(read, dict) or not {key, "shard_metadata"} <= read.keys():
            raise ConversionError(f"{path} has no {key} with shard_metadata")
        found[read["shard_metadata"]["rank"]] = read
    if not found:
        raise ConversionError(f"{folder} has no {pattern}")
    world = next(iter(found.values()))["shard_metadata"]["world_size"]
    if found.keys() != set(range(world)):
        missing = sorted(map(str, set(range(world)) - found.keys()))
        raise ConversionError(
            f"{folder}: of {world} ranks' {pattern}, those of {some(missing)} miss"
        )
    return [found[rank] for rank in range(world)]


def _split(name: str) -> tuple[str, str | None]:
    """The module and the name in it; None for what is not sharded."""
    pieces = name.split(".")
    at = next((at for at, piece in enumerate(pieces) if piece.startswith("_fsdp_shard")), None)
    return (name, None) if at is None else (".".join(pieces[:at]), ".".join(pieces[at:]))


def _flat(name: str, said: dict) -> _Flat | None:
    """None for a buffer, of which each rank has all."""
    module, parameter = _split(name)
    if parameter is None:
        return None
    try:
        known = said["shard_info"][module][parameter]
    except KeyError as error:
        raise ConversionError(f"shard_metadata says nothing of {name}") from error
    full = f"{module}.{known['_orig_name']}" if module else known["_orig_name"]
    if full not in said["flatten_info"]:
        return _Flat([_clean(full)], [tuple(known["_orig_size"])])
    names, shapes, _ = said["flatten_info"][full]
    below = full.rpartition(".")[0]
    return _Flat(
        [_clean(f"{below}.{n}" if below else n) for n in names], [tuple(s) for s in shapes]
    )


def _clean(name: str) -> str:
    return name.replace("_fsdp_wrapped_module.", "").replace("_fpw_module.", "")


def _stored(one: Any, name: str) -> Stored:
    if not isinstance(one, Stored):
        raise ConversionError(f"{name} is no tensor on the CPU on all ranks: save it by xm.save")
    return one


def _between(shards: list[Stored], begin: int, end: int) -> list[Stored]:
    """Elements of a flat tensor that shards have one after the other."""
    found, at = [], 0
    for shard in shards:
        size = prod(shard.kind.shape)
        first, last = max(begin, at) - at, min(end, at + size) - at
        if first < last:
            itemsize = shard.kind.dtype.itemsize
            kind = Kind(shard.kind.dtype, (last - first,))
            found.append(Stored(shard.path, shard.begin + first * itemsize, kind))
        at += size
    if at < end:
        raise ConversionError(f"{shards[0].path.parent}: shards of {at} elements instead of {end}")
    return found


def _add_optimizer(model: Model, ranks: list[dict], flats: list[_Flat]) -> None:
    first = ranks[0]["optimizer"]
    for index, fields in first["state"].items():
        flat = flats[index]
        for field, one in fields.items():
            if not isinstance(one, Stored):
                model.own |= {f"optimizer.state.{name}.{field}": one for name in flat.names}
            elif one.kind.shape == ():
                model.others |= {f"optimizer.state.{name}.{field}": one for name in flat.names}
            else:
                called = f"{field} of parameter {index}"
                shards = [
                    _stored(rank["optimizer"]["state"][index][field], called) for rank in ranks
                ]
                parts = flat.split(shards)
                model.others |= {f"optimizer.state.{name}.{field}": p for name, p in parts.items()}
    for group in first["param_groups"]:
        for name in (name for index in group["params"] for name in flats[index].names):
            for field, value in group.items():
                if field != "params":
                    model.own[f"optimizer.param_groups.{name}.{field}"] = value
