"""`accelerate`: a model as a `Config` wants it trained, by PyTorch's own engines.

Nothing is replaced but what the engines replace: tensor parallelism is `parallelize_module`, data
parallelism `DistributedDataParallel`, sharding `fully_shard`. They are put on from the layers
outwards: what is computed again, what is split, what is sharded or copied.
"""

import copy
import fnmatch
import functools
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from torchacc import fp8
from torchacc.config import AXES, Config
from torchacc.loader import AsyncLoader


def accelerate(
    model: nn.Module,
    dataloader: Iterable | None = None,
    config: Config | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Any:
    """`model`, ready to be trained as `config` says (`Config()`, if not given), on its device.

    With a `dataloader` also an `AsyncLoader` of it, with an `optimizer` that one, of the model's
    new parameters: a tuple in the order of the arguments. Of several processes, which `torchrun`
    starts, each calls this; the process group is made if there is none. Each rank's batches are
    its own: of those of one group that shares the work on a batch (tensor parallel), the same.

    `config` is not changed, `model` is: parameters are split and moved in place, so make optimizers
    after this, or pass them. Weights that are tied stay tied. Results of models that compute in
    halves are f32. A model on the device meta is made here, each process's part of it alone, and
    its modules write their weights (`reset_parameters`).

    Raises ValueError for a `config` that does not fit the world or the model (a class that it has
    not, a layer that cannot be split), and for an optimizer that has made a step.
    """
    config = copy.deepcopy(config) if config is not None else Config()
    config.validate()
    _check_there(config)
    device = _device(config)
    mesh = _mesh(config, device)
    ties = _ties(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if optimizer is not None and optimizer.state:
        raise ValueError("accelerate: the optimizer has made a step: its state is of other tensors")

    is_meta = any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    if is_meta and config.dist.fsdp.cpu_offload:
        raise NotImplementedError(
            "accelerate: dist.fsdp.cpu_offload of a model on the device meta is not there yet: "
            "make it on the CPU"
        )
    sizes = {axis: mesh[axis].size() for axis in AXES} if mesh is not None else {}
    is_sharded = sizes.get("fsdp", 1) > 1 or sizes.get("dp", 1) > 1 and sizes["tp"] > 1
    # What does not fit is said before anything is changed.
    again = _computed_again(model, config)
    styles = _styles(model, sizes.get("tp", 1), config.dist.tp.plan, ties)
    shards = [*_of_classes(model, config.dist.fsdp.wrap_layer_cls, "dist.fsdp.wrap_layer_cls")]
    if optimizer is not None:
        _check_parameters(optimizer, names)

    if config.compute.fp8:
        fp8.convert(model)
    for block in again:
        _wrap(block, functools.partial(_again, block.forward))
    if not is_meta:
        model.to(device)
    if styles:
        _split(model, mesh["tp"], styles)
        _tie(model, ties)
    dtype = _half(config)
    if dtype is not None and not is_sharded:
        _autocast(model, device.type, dtype)
    if is_sharded:
        _shard(model, shards, mesh, config, dtype)
    if is_meta:
        _make(model, device)
        _tie(model, ties)
        _begin(model, device)
    # Those of data parallel ranks are otherwise DistributedDataParallel's to make alike.
    for axis in ("tp", "dp") if is_sharded else ("tp",):
        if sizes.get(axis, 1) > 1:
            _same(model, mesh[axis], axis)
    _check_ties(model, ties)
    if optimizer is not None:
        _follow(optimizer, names, dict(model.named_parameters()))
    if not is_sharded and sizes.get("dp", 1) > 1:
        model = nn.parallel.DistributedDataParallel(model, process_group=mesh["dp"].get_group())

    made: list[Any] = [model]
    if dataloader is not None:
        options = config.dataloader.to_dict()
        made.append(AsyncLoader(dataloader, device, **options))
    if optimizer is not None:
        made.append(optimizer)
    return made[0] if len(made) == 1 else tuple(made)


def _check_there(config: Config) -> None:
    wanted = {
        "dist.pp.size": config.dist.pp.size > 1,
        "dist.sp.size": config.dist.sp.size > 1,
        "memory.auto": config.memory.auto,
        "memory.offload": config.memory.offload,
        "strategy.mode": config.strategy.mode != "manual",
    }
    for name, is_wanted in wanted.items():
        if is_wanted:
            raise NotImplementedError(
                f"accelerate: {name} is not there yet: leave it as it is by default"
            )


def _device(config: Config) -> torch.device:
    if config.is_lazy_backend():
        return torch.device("acc")
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda", torch.cuda.current_device())


def _mesh(config: Config, device: torch.device):
    """The processes by what they share, in the order of `AXES`; None for one process."""
    is_started = dist.is_available() and dist.is_initialized()
    world = dist.get_world_size() if is_started else int(os.environ.get("WORLD_SIZE", "1"))
    sizes = config.mesh(world)
    if world == 1:
        return None
    if not is_started:
        names = {"acc": None, "cpu": "gloo", "cuda": "nccl"}
        dist.init_process_group(names[device.type])
    ranks = torch.arange(world).view(*sizes.values())
    ranks = ranks.permute(*([*sizes].index(axis) for axis in AXES))
    return dist.DeviceMesh(device.type, ranks.contiguous(), mesh_dim_names=AXES)


def _half(config: Config) -> torch.dtype | None:
    if config.compute.bf16:
        return torch.bfloat16
    return torch.float16 if config.compute.fp16 else None


def _autocast(model: nn.Module, device_type: str, dtype: torch.dtype) -> None:
    _wrap(model, functools.partial(_in_halves, model.forward, device_type, dtype))


def _in_halves(forward, device_type: str, dtype: torch.dtype, /, *args, **kwargs) -> Any:
    with torch.autocast(device_type, dtype):
        result = forward(*args, **kwargs)
    return tree_map_only(torch.Tensor, _as_f32, result)


def _wrap(module: nn.Module, forward: functools.partial) -> None:
    """Makes it the module's. A copy of the module has one of its own: a partial is copied with what
    it holds, a closure would go on calling this module's."""
    module.forward = functools.update_wrapper(forward, module.forward)


def _as_f32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


# ---- which modules


def _of_classes(model: nn.Module, names: set[str] | None, field: str) -> Iterator[nn.Module]:
    """The modules of the classes of these names, without those inside of others; the model's
    repeated blocks, if None. Raises ValueError for a name of no class of the model."""
    if names is None:
        yield from _repeated(model)
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


def _repeated(model: nn.Module) -> Iterator[nn.Module]:
    """What a list of the model has several of, of one class: its layers."""
    for child in model.children():
        kinds = {type(one) for one in child.children()}
        is_list = isinstance(child, nn.ModuleList | nn.Sequential) and len(child) > 1
        if is_list and len(kinds) == 1 and any(True for _ in child[0].children()):
            yield from dict.fromkeys(child)  # one that is there several times is one
        else:
            yield from _repeated(child)


# ---- activations that are computed again


def _computed_again(model: nn.Module, config: Config) -> list[nn.Module]:
    if not config.memory.gc:
        return []
    blocks = list(_of_classes(model, config.memory.gc_cls, "memory.gc_cls"))
    if not blocks:
        raise ValueError("config: memory.gc: the model has no list of layers: name some in gc_cls")
    return blocks[: config.memory.gc_cnt]


def _again(forward, /, *args, **kwargs) -> Any:
    # PyTorch looks for the device whose random numbers it keeps among what is passed by position.
    def call(*values):
        return forward(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

    return checkpoint(call, *args, *kwargs.values(), use_reentrant=False)


# ---- tensor parallel

# What plans call it, in Hugging Face's words: the style of PyTorch and its layouts, the dimension
# of the weight that is split, and whether that must be even, since each rank goes on with its part.
_STYLES = {
    "colwise": ("ColwiseParallel", {}, 0, True),
    "rowwise": ("RowwiseParallel", {}, 1, True),
    "colwise_rep": ("ColwiseParallel", {"output_layouts": "whole"}, 0, False),
    "colwise_gather_output": ("ColwiseParallel", {"output_layouts": "whole"}, 0, False),
    "rowwise_split_input": ("RowwiseParallel", {"input_layouts": "whole"}, 1, False),
    "embedding_rowwise": ("RowwiseParallel", {"input_layouts": "whole"}, 0, False),
}


def _styles(
    model: nn.Module, ranks: int, plan: dict[str, str] | None, ties: list[list[str]]
) -> dict[str, str]:
    """The style of each module that is split, by the patterns of `plan`, or of the model's own."""
    if ranks == 1:
        return {}
    styles = _planned(model, plan) if plan is not None else _models_own(model)
    styles = _tied_alike(styles, ties, plan is not None)
    for name, style in styles.items():
        _, _, dim, is_even = _STYLES[style]
        size = model.get_submodule(name).weight.shape[dim]
        if is_even and size % ranks != 0:
            raise ValueError(
                f"config: dist.tp.plan: {name} has {size} {('rows', 'columns')[dim]}, which "
                f"{ranks} ranks cannot share evenly"
            )
    return styles


def _split(model: nn.Module, mesh, styles: dict[str, str]) -> None:
    from torch.distributed.tensor import Replicate, parallel

    for name, style in styles.items():
        kind, layouts, _, _ = _STYLES[style]
        layouts = dict.fromkeys(layouts, Replicate())
        module = model.get_submodule(name)
        parallel.parallelize_module(module, mesh, getattr(parallel, kind)(**layouts))


def _same(model: nn.Module, mesh, axis: str) -> None:
    """Makes what the ranks of an axis have alike what it is on the first of them."""
    for tensor in (*model.parameters(), *model.buffers()):
        here = tensor.detach()
        if hasattr(here, "to_local"):
            names, placements = here.device_mesh.mesh_dim_names, here.placements
            if any(n == axis and p.is_shard() for n, p in zip(names, placements, strict=True)):
                continue
            here = here.to_local()
        moved = here.to(mesh.device_type)  # from the host's memory, where parameters may wait
        dist.broadcast(moved, group=mesh.get_group(), group_src=0)
        if moved is not here:
            here.copy_(moved)


def _planned(model: nn.Module, plan: dict[str, str]) -> dict[str, str]:
    """The style of each module that the program's plan names. Raises ValueError for a pattern of no
    module, and for a style that there is not."""
    modules, styles = dict(model.named_modules()), {}
    for pattern, style in plan.items():
        if style not in _STYLES:
            raise ValueError(
                f"config: dist.tp.plan: {pattern} is {style!r}: there are {', '.join(_STYLES)}"
            )
        matches = fnmatch.filter(modules, pattern)
        if not matches:
            raise ValueError(f"config: dist.tp.plan: the model has no {pattern}")
        styles |= dict.fromkeys(matches, style)
    return styles


def _models_own(model: nn.Module) -> dict[str, str]:
    """Likewise, by the model's plan, as those of Hugging Face have one. Modules that the plan
    splits in a way that there is not here stay whole, with those beside them, which may count on
    it."""
    plan = getattr(model, "tp_plan", None) or getattr(model, "_tp_plan", None)
    if not plan:
        raise ValueError(
            "config: dist.tp.plan is None, and the model has none: say which layers are split, as "
            "{'layers.*.up': 'colwise', 'layers.*.down': 'rowwise'}"
        )
    strange = {pattern for pattern, style in plan.items() if style not in _STYLES}
    whole = {pattern.rpartition(".")[0] for pattern in strange}
    if whole:
        warnings.warn(
            f"torchacc.accelerate: {', '.join(sorted(whole))} stay whole on every rank: the "
            f"model's plan splits some of them as {', '.join(sorted({plan[p] for p in strange}))}",
            stacklevel=4,
        )
    modules, styles = dict(model.named_modules()), {}
    for pattern, style in plan.items():
        if not any(pattern.startswith(f"{parent}.") for parent in whole):
            styles |= dict.fromkeys(fnmatch.filter(modules, pattern), style)
    if not styles:
        raise ValueError(
            f"config: dist.tp.plan is None, and the model has nothing of its own plan that could "
            f"be split ({', '.join(plan)}): say which layers are"
        )
    return styles


def _tied_alike(styles: dict[str, str], ties: list[list[str]], is_programs: bool) -> dict[str, str]:
    """Without modules whose weight others have that are not split alike. If they are the program's
    wish, that is a ValueError."""
    made = dict(styles)
    for tie in ties:
        owners = [name.rpartition(".")[0] for name in tie]
        split = [owner for owner in owners if owner in styles]
        dims = {_STYLES[styles[owner]][2] if owner in styles else None for owner in owners}
        if not split or len(dims) == 1:
            continue
        if is_programs:
            raise ValueError(
                f"config: dist.tp.plan: {split[0]} is split, and its weight is that of "
                f"{' and '.join(owner for owner in owners if owner != split[0])}, too"
            )
        for owner in split:
            del made[owner]
    return made


# ---- data parallel, sharded


def _shard(
    model: nn.Module, blocks: list[nn.Module], mesh, config: Config, dtype: torch.dtype | None
) -> None:
    """Every parameter among the ranks of fsdp, with copies among those of dp."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    fsdp = config.dist.fsdp
    if fsdp.sync_module_states and not any(p.is_meta for p in model.parameters()):
        _same(model, mesh["fsdp"], "fsdp")
    both = mesh["dp"].size() > 1
    options: dict[str, Any] = {
        "mesh": mesh["dp", "fsdp"] if both else mesh["fsdp"],
        "reshard_after_forward": fsdp.reshard_after_forward,
    }
    if fsdp.cpu_offload:
        options["offload_policy"] = CPUOffloadPolicy()
    reduced = None if dtype is None else torch.float32
    policy = functools.partial(MixedPrecisionPolicy, param_dtype=dtype, reduce_dtype=reduced)
    for block in blocks:
        fully_shard(block, mp_policy=policy(), **options)
    fully_shard(model, mp_policy=policy(output_dtype=reduced), **options)


# ---- models on the device meta, of which each process makes its part alone


def _make(model: nn.Module, device: torch.device) -> None:
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
def _begin(model: nn.Module, device: torch.device) -> None:
    """Lets each module write its weights: by its `reset_parameters`, and then as models of Hugging
    Face write those of their modules. Raises ValueError for what nobody writes."""

    def begin(module: nn.Module, by) -> None:
        by = getattr(module, "_init_weights", by)
        # Of modules that share a weight the first one has the last word.
        for child in reversed([*module.children()]):
            begin(child, by)
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
        if callable(by):
            by(module)
        index, weight = getattr(module, "padding_idx", None), getattr(module, "weight", None)
        if index is not None and hasattr(weight, "device_mesh"):
            # Written by an index, which of a distributed tensor gives a copy.
            rows = torch.ones(len(weight), 1, device=device)
            rows[index] = 0
            whole = [Replicate()] * weight.device_mesh.ndim
            weight.mul_(distribute_tensor(rows, weight.device_mesh, whole))

    from torch.distributed.tensor import Replicate, distribute_tensor

    with torch.random.fork_rng(enabled=device.type == "cpu", device_type="cpu", devices=[]):
        if device.type == "cpu" and dist.is_initialized():
            # There PyTorch gives parts of one tensor on ranks of one seed the same numbers.
            torch.manual_seed(torch.initial_seed() + dist.get_rank())
        begin(model, None)
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


# ---- parameters that are several, or an optimizer's


def _ties(model: nn.Module) -> list[list[str]]:
    """The names of each parameter that has several."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [several for several in names.values() if len(several) > 1]


def _tie(model: nn.Module, ties: list[list[str]]) -> None:
    """Makes each of them one parameter again."""
    for first, *others in ties:
        shared = model.get_parameter(first)
        for name in others:
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, shared)


def _check_ties(model: nn.Module, ties: list[list[str]]) -> None:
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for tie in ties:
        if len({id(parameters[name]) for name in tie}) > 1:
            raise ValueError(
                f"accelerate: {' and '.join(tie)} are one parameter, which this configuration "
                "would make two: let one of the classes that are sharded have both, or none"
            )


def _check_parameters(optimizer: torch.optim.Optimizer, names: dict[int, str]) -> None:
    for group in optimizer.param_groups:
        if any(id(parameter) not in names for parameter in group["params"]):
            raise ValueError("accelerate: the optimizer has a parameter that the model has not")


def _follow(
    optimizer: torch.optim.Optimizer, names: dict[int, str], parameters: dict[str, nn.Parameter]
) -> None:
    """Makes the optimizer one of these parameters, which have the names that its own had."""
    for group in optimizer.param_groups:
        group["params"] = [parameters[names[id(parameter)]] for parameter in group["params"]]
        # PyTorch's steps for lists take no others beside distributed ones.
        meshes = {getattr(parameter, "device_mesh", None) for parameter in group["params"]}
        if len(meshes) > 1 and group.get("foreach", False) is None:
            group["foreach"] = False
