"""Which modules of a model are meant, what they are called with, and what several of them have."""

import contextlib
import functools
from collections.abc import Iterator

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import DeviceMesh


def wrap(module: nn.Module, forward: functools.partial) -> None:
    """Makes it the module's. A copy of the module has one of its own: a partial is copied with what
    it holds, a closure would go on calling this module's."""
    module.forward = functools.update_wrapper(forward, module.forward)


def of_classes(model: nn.Module, names: set[str] | None, field: str) -> Iterator[nn.Module]:
    """The modules of the classes of these names, without those inside of others; the model's
    repeated blocks, if None. Raises ValueError for a name of no class of the model."""
    if names is None:
        yield from repeated(model)
        return
    classes = {type(module).__name__ for module in model.modules()}
    if missing := names - classes:
        raise ValueError(
            f"config: {field} is {sorted(names)}: the model has no {', '.join(sorted(missing))}, "
            f"but {', '.join(sorted(classes))}"
        )
    yield from _outermost(model, lambda module: type(module).__name__ in names)


def _outermost(module: nn.Module, is_wanted) -> Iterator[nn.Module]:
    for child in module.children():
        if is_wanted(child):
            yield child
        else:
            yield from _outermost(child, is_wanted)


def repeated(model: nn.Module) -> Iterator[nn.Module]:
    """What a list of the model has several of, of one class: its layers."""
    for child in model.children():
        kinds = {type(one) for one in child.children()}
        is_list = isinstance(child, nn.ModuleList | nn.Sequential) and len(child) > 1
        if is_list and len(kinds) == 1 and any(True for _ in child[0].children()):
            yield from dict.fromkeys(child)  # a module that occurs several times counts once
        else:
            yield from repeated(child)


def ties(model: nn.Module) -> list[list[str]]:
    """The names of each parameter that has several."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [several for several in names.values() if len(several) > 1]


def tie(model: nn.Module, ties: list[list[str]]) -> None:
    """Makes each of them one parameter again."""
    for first, *others in ties:
        shared = model.get_parameter(first)
        for name in others:
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, shared)


def check_ties(model: nn.Module, ties: list[list[str]]) -> None:
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for tie in ties:
        if len({id(parameters[name]) for name in tie}) > 1:
            raise ValueError(
                f"accelerate: {' and '.join(tie)} are one parameter, which this configuration "
                "would make two: let one of the classes that are sharded have both, or none"
            )


def same(model: nn.Module, mesh: DeviceMesh, axis: str) -> None:
    """Makes what the ranks of an axis have alike what it is on the first of them."""
    for tensor in (*model.parameters(), *model.buffers()):
        here = tensor.detach()
        if hasattr(here, "to_local"):
            names, placements = here.device_mesh.mesh_dim_names, here.placements
            if any(
                n == axis and not p.is_replicate() for n, p in zip(names, placements, strict=True)
            ):
                continue
            here = here.to_local()
        moved = here.to(mesh.device_type)  # from the host's memory, where parameters may wait
        dist.broadcast(moved, group=mesh.get_group(), group_src=0)
        if moved is not here:
            here.copy_(moved)


def same_random_numbers(mesh: DeviceMesh, device: torch.device) -> None:
    """What ranks that share the work on a batch drop of what is whole must be the same."""
    module = torch if device.type == "cpu" else torch.get_device_module(device)
    state = module.get_rng_state().to(device)
    dist.broadcast(state, group=mesh.get_group(), group_src=0)
    module.set_rng_state(state.cpu())


def first_tensor(args: tuple, kwargs: dict) -> tuple[int | str, torch.Tensor]:
    """What a layer gets from the one before, and where it stands among its arguments."""
    for at, value in (*enumerate(args), *kwargs.items()):
        if isinstance(value, torch.Tensor):
            return at, value
    raise ValueError("accelerate: a layer was called without a tensor: nothing goes through it")


def with_first(args: tuple, kwargs: dict, at: int | str, value: torch.Tensor) -> tuple[tuple, dict]:
    if isinstance(at, str):
        return args, {**kwargs, at: value}
    return (*args[:at], value, *args[at + 1 :]), kwargs


@contextlib.contextmanager
def unchanged(model: nn.Module, device: torch.device) -> Iterator[None]:
    """A pass forward that nobody wants leaves no trace: buffers and random numbers are what they
    were."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    is_cpu = device.type == "cpu"
    with torch.random.fork_rng([] if is_cpu else [device.index or 0], device_type=device.type):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in before:
                    buffer.copy_(value)
