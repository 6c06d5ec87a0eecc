"""Files of `torch.save`: a state dict, and an optimizer's state by the parameters' names, as
`torch.distributed.checkpoint.state_dict` has it."""

import io
import pickle
from pathlib import Path
from typing import Any

import torch

from torchacc.checkpoint.layout import OWN, PLAIN
from torchacc.convert import archive
from torchacc.convert.model import MANIFEST, Model
from torchacc.convert.model import Writer as Base
from torchacc.convert.stored import (
    ConversionError,
    Kind,
    Readable,
    Stored,
    check_ends,
    memory_of,
    put,
)

STATE, GROUPS = "optimizer.state.", "optimizer.param_groups."


def open_model(folder: Path, model: str, optimizer: str) -> Model:
    """What `Writer` wrote there, by the files' names."""
    made = Model({}, folder)
    if (folder / model).is_file():
        made.tensors = dict(archive.read(folder / model))
    if (folder / optimizer).is_file():
        for name, fields in archive.read(folder / optimizer)["state"].items():
            for field, one in fields.items():
                if isinstance(one, Stored):
                    made.others[f"{STATE}{name}.{field}"] = one
    check_ends(one for one in made.everything().values())
    made.check(folder / MANIFEST)
    return made


class Writer(Base):
    """The file `model`, unless it is to have no tensors, and the file `optimizer`, if there is what
    is under that key."""

    def __init__(self, whole: Model, model: str, optimizer: str):
        own = {**_loaded(whole), **whole.own}
        whole.left_out += [name for name in whole.others if not name.startswith(STATE)]
        whole.left_out += [name for name in whole.values if not name.startswith((STATE, GROUPS))]
        whole.others = {n: one for n, one in whole.others.items() if n.startswith(STATE)}
        whole.values = {}
        self._own = {n: one for n, one in own.items() if n.startswith((STATE, GROUPS))}
        self._tied = whole.tied
        self._files: dict[str, dict[str, Kind]] = {}
        for file, tensors in ((model, whole.tensors), (optimizer, whole.others)):
            if tensors:
                self._files[file] = {name: one.kind for name, one in tensors.items()}
        if not self._files:
            raise ConversionError(f"{whole.folder} has nothing of that type")
        self._optimizer = optimizer
        self.nbytes = sum(one.nbytes for file in self._files.values() for one in file.values())
        self.order = [[name] for name in whole.everything()]
        self._places: dict[str, tuple[Path, int]] = {}

    def begin(self, folder: Path) -> None:
        self.folder = folder
        for file, kinds in self._files.items():
            whole = self._optimizer_state if file == self._optimizer else self._state_dict
            for name, place in archive.make(folder / file, kinds, whole).items():
                self._places[name] = folder / file, place

    def _state_dict(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {**tensors, **{name: tensors[first] for name, first in self._tied.items()}}

    def _optimizer_state(self, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
        state: dict[str, dict[str, Any]] = {}
        groups: dict[str, dict[str, Any]] = {}
        for name, value in {**tensors, **self._own}.items():
            into, start = (state, STATE) if name.startswith(STATE) else (groups, GROUPS)
            parameter, _, field = name.removeprefix(start).rpartition(".")
            into.setdefault(parameter, {})[field] = value
        made: list[dict[str, Any]] = []
        for parameter in groups or state:
            fields = groups.get(parameter, {})
            same = (one for one in made if {**one, "params": None} == {**fields, "params": None})
            group = next(same, None)
            if group is None:
                made.append(group := {**fields, "params": []})
            group["params"].append(parameter)
        return {"state": state, "param_groups": made}

    def put(self, names: list[str], tensors: list[torch.Tensor]) -> None:
        for name, tensor in zip(names, tensors, strict=True):
            if tensor.nbytes:
                put(*self._places[name], tensor)


def _loaded(model: Model) -> dict[str, Any]:
    """Values of the optimizer, by full name, as DCP or a `Checkpointer`'s first rank has them."""
    made = {}
    for name, one in model.values.items():
        if name == OWN.format(0):
            values = torch.load(_stream(one), weights_only=False)
            made |= pickle.loads(values.pop(PLAIN)) | values
        elif name.startswith((STATE, GROUPS)):
            made[name] = torch.load(_stream(one))
    return made


def _stream(one: Readable) -> io.BytesIO:
    tensor = one.read()
    return io.BytesIO(memory_of(tensor))
