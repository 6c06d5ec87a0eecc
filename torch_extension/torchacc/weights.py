"""Weights from safetensors files, for models whose parameters are in parts."""

import os

import torch
import torch.nn as nn

from torchacc._progress import task
from torchacc.event_log import span
from torchacc.parallel.pipeline import Pipeline


@torch.no_grad()
def load_safetensors(model: nn.Module, path: str | os.PathLike, strict: bool = True) -> None:
    """Fills the parameters and buffers of `model`, which `accelerate` may have split, sharded or
    divided into stages, from the `*.safetensors` files in the folder `path`, by name: each process
    reads its parts alone. Types are converted. Of tied weights one name is enough. Nothing is
    computed or sent, so that processes need not call it together.

    The files are read by PyTorch's `HuggingFaceStorageReader`, which needs `safetensors`.

    Raises FileNotFoundError for a folder without such files; ValueError, before anything is
    written, for a tensor of another shape, and where names differ on either side, unless `strict`
    is False: then what both have is filled.
    """
    with span("torchacc.load", what=str(path)):
        _load(model, path, strict)


def _load(model: nn.Module, path: str | os.PathLike, strict: bool) -> None:
    import torch.distributed.checkpoint as dcp

    if not any(name.endswith(".safetensors") for name in os.listdir(path)):
        raise FileNotFoundError(f"load_safetensors: {path} has no *.safetensors")
    reader = dcp.HuggingFaceStorageReader(str(path))
    there = reader.read_metadata().state_dict_metadata
    wanted = [_wanted(one, there, foreign) for one, foreign in _modules(model)]
    missing = {name for _, missing in wanted for name in missing}
    # A stage has only some of the model's names.
    known = {name for found, _ in wanted for name in found}
    strange = set() if isinstance(model, Pipeline) else there.keys() - known
    if strict and (missing or strange):
        said = [f"there is no {name}" for name in sorted(missing)]
        said += [f"the model has no {name}" for name in sorted(strange)]
        raise ValueError(f"load_safetensors: {path}: {', '.join(said[:8])}" + _more(said[8:]))
    for found, _ in wanted:
        for name, tensor in found.items():
            if tensor.shape != there[name].size:
                raise ValueError(
                    f"load_safetensors: {path}: {name} is {[*there[name].size]}, in the model "
                    f"{[*tensor.shape]}"
                )
    total = sum(one.nbytes for found, _ in wanted for one in found.values())
    with task("load", f"weights from {path}", total, "bytes") as loading:

        class Planner(dcp.DefaultLoadPlanner):
            def commit_tensor(self, read_item, tensor):
                super().commit_tensor(read_item, tensor)
                loading.done += tensor.nbytes

        for found, _ in wanted:
            if found:
                dcp.load(found, storage_reader=reader, planner=Planner(), no_dist=True)


def _modules(model: nn.Module):
    """What this process has, and names of what is in it but not its own."""
    if isinstance(model, Pipeline):
        return [(stage.model, stage.foreign) for stage in model.own_stages()]
    is_copy = isinstance(model, nn.parallel.DistributedDataParallel)
    return [(model.module if is_copy else model, ())]


def _wanted(module: nn.Module, there, foreign) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The tensors that the files have, and the names of those that they have not by any name."""
    state = {name: one for name, one in module.state_dict().items() if name not in foreign}
    tensors = dict(module.named_parameters(remove_duplicate=False))
    tensors |= dict(module.named_buffers(remove_duplicate=False))
    found = {name: one for name, one in state.items() if name in there}
    filled = {id(tensors[name]) for name in found if name in tensors}
    missing = [
        name
        for name in state
        if name not in found and (name not in tensors or id(tensors[name]) not in filled)
    ]
    return found, missing


def _more(said: list[str]) -> str:
    return f" and {len(said)} more" if said else ""
