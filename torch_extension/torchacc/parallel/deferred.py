"""Models on the device meta, of which each process makes its part alone."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
import torch.nn as nn


def make(model: nn.Module, device: torch.device) -> None:
    """Gives every tensor memory, and numbers by which it is known that nobody has written it."""

    def made(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_meta:
            return tensor.to(device)
        if tensor.dtype == torch.bool:
            raise ValueError(
                "accelerate: a bool tensor of the model is on the device meta: make it on the CPU"
            )
        return torch.full_like(tensor, _unwritten(tensor.dtype), device=device)

    with torch.no_grad():
        model._apply(made)


def _unwritten(dtype: torch.dtype) -> float | int:
    return torch.nan if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype).min


@torch.no_grad()
def begin(model: nn.Module, device: torch.device, incomplete: Iterable[nn.Module] = ()) -> None:
    """Lets each module write its weights: by its `reset_parameters`, and then as models of Hugging
    Face write those of their modules; `incomplete` ones are left alone, since their weights are
    other ranks'. Raises ValueError for what nobody writes."""
    left_alone = {id(module) for module in incomplete}

    def write(module: nn.Module, by) -> None:
        by = getattr(module, "_init_weights", by)
        # If modules share a weight, the first one writes last.
        for child in reversed([*module.children()]):
            write(child, by)
        if id(module) in left_alone:
            return
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
        if callable(by):
            by(module)
        index, weight = getattr(module, "padding_idx", None), getattr(module, "weight", None)
        if index is not None and hasattr(weight, "device_mesh"):
            # The module writes it by an index, which on a distributed tensor gives a copy.
            rows = torch.ones(len(weight), 1, device=device)
            rows[index] = 0
            whole = [Replicate()] * weight.device_mesh.ndim
            weight.mul_(distribute_tensor(rows, weight.device_mesh, whole))

    from torch.distributed.tensor import Replicate, distribute_tensor

    with torch.random.fork_rng(enabled=device.type == "cpu", device_type="cpu", devices=[]):
        if device.type == "cpu" and dist.is_initialized():
            # There, PyTorch gives the parts of one tensor the same numbers on ranks of one seed.
            torch.manual_seed(torch.initial_seed() + dist.get_rank())
        write(model, None)
    missing = []
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        here = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        is_float = here.is_floating_point() or here.is_complex()
        strange = here.isnan() if is_float else here == _unwritten(here.dtype)
        if here.dtype != torch.bool and strange.any():
            missing.append(name)
    if missing:
        raise ValueError(
            f"accelerate: nobody writes {', '.join(missing)}, which the device meta has no numbers "
            "of: give their modules a method reset_parameters, or make them on the CPU"
        )
