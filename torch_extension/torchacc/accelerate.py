"""`accelerate`: a model as a `Config` wants it trained, by PyTorch's own engines.

Nothing is replaced but what the engines replace: tensor parallelism is `parallelize_module`, data
parallelism `DistributedDataParallel`, sharding `fully_shard`. They are put on from the layers
outwards: what is computed again, what is split, what is sharded or copied.
"""

import copy
import fnmatch
import functools
import os
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
    halves are f32.

    Raises ValueError for a `config` that does not fit the world or the model (a class that it has
    not, a layer that cannot be split), and for an optimizer that has made a step.
    """
    config = copy.deepcopy(config) if config is not None else Config()
    config.validate()
    _check_there(config, model)
    device = _device(config)
    mesh = _mesh(config, device)
    ties = _ties(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if optimizer is not None and optimizer.state:
        raise ValueError("accelerate: the optimizer has made a step: its state is of other tensors")

    if config.compute.fp8:
        fp8.convert(model)
    if config.memory.gc:
        _compute_again(model, config)
    model.to(device)
    sizes = {axis: mesh[axis].size() for axis in AXES} if mesh is not None else {}
    if sizes.get("tp", 1) > 1:
        _split(model, mesh["tp"], config.dist.tp.plan, ties)
    is_sharded = sizes.get("fsdp", 1) > 1 or sizes.get("dp", 1) > 1 and sizes["tp"] > 1
    dtype = _half(config)
    if dtype is not None and not is_sharded:
        _autocast(model, device.type, dtype)
    if is_sharded:
        _shard(model, mesh, config, dtype)
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


def _check_there(config: Config, model: nn.Module) -> None:
    wanted = {
        "dist.pp.size": config.dist.pp.size > 1,
        "dist.sp.size": config.dist.sp.size > 1,
        "memory.auto": config.memory.auto,
        "memory.offload": config.memory.offload,
        "strategy.mode": config.strategy.mode != "manual",
    }
    for name, is_wanted in wanted.items():
        if is_wanted:
            raise NotImplementedError(f"accelerate: {name} is not there yet: PyTorch's own is")
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        raise NotImplementedError(
            "accelerate: a model on the device meta has no weights; make it on the CPU"
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
    forward = model.forward

    @functools.wraps(forward)
    def in_halves(*args, **kwargs):
        with torch.autocast(device_type, dtype):
            result = forward(*args, **kwargs)
        return tree_map_only(torch.Tensor, _as_f32, result)

    model.forward = in_halves


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
            yield from child
        else:
            yield from _repeated(child)


# ---- activations that are computed again


def _compute_again(model: nn.Module, config: Config) -> None:
    blocks = list(_of_classes(model, config.memory.gc_cls, "memory.gc_cls"))
    if not blocks:
        raise ValueError("config: memory.gc: the model has no list of layers: name some in gc_cls")
    for block in blocks[: config.memory.gc_cnt]:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)


# ---- tensor parallel


def _split(model: nn.Module, mesh, plan: dict[str, str] | None, ties: list[list[str]]) -> None:
    """By the patterns of `plan`, or of the model's own."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    # By their names in Hugging Face's plans; the dimension of the weight that is split.
    styles = {
        "colwise": (ColwiseParallel(), 0),
        "rowwise": (RowwiseParallel(), 1),
        "colwise_rep": (ColwiseParallel(output_layouts=Replicate()), 0),
        "colwise_gather_output": (ColwiseParallel(output_layouts=Replicate()), 0),
    }
    tied = {name.rpartition(".")[0] for tie in ties for name in tie}
    is_own = plan is None
    if is_own:
        plan = getattr(model, "tp_plan", None) or getattr(model, "_tp_plan", None)
    if not plan:
        raise ValueError(
            "config: dist.tp.plan is None, and the model has none: say which layers are split, as "
            "{'layers.*.up': 'colwise', 'layers.*.down': 'rowwise'}"
        )
    modules = dict(model.named_modules())
    for pattern, style in plan.items():
        if style not in styles:
            raise ValueError(
                f"config: dist.tp.plan: {pattern} is {style!r}: there are {', '.join(styles)}"
            )
        matches = fnmatch.filter(modules, pattern)
        if not matches and not is_own:
            raise ValueError(f"config: dist.tp.plan: the model has no {pattern}")
        for name in matches:
            if name in tied:
                if is_own:
                    continue  # an embedding, which stays whole on every rank
                raise ValueError(
                    f"config: dist.tp.plan: {name} is split, whose weight others have, too"
                )
            made, dim = styles[style]
            size = modules[name].weight.shape[dim]
            if size % mesh.size() != 0:
                raise ValueError(
                    f"config: dist.tp.plan: {name} has {size} "
                    f"{('rows', 'columns')[dim]}, which {mesh.size()} ranks cannot share evenly"
                )
            # Its own instance: they keep what they were put on.
            parallelize_module(modules[name], mesh, copy.copy(made))


# ---- data parallel, sharded


def _shard(model: nn.Module, mesh, config: Config, dtype: torch.dtype | None) -> None:
    """Every parameter among the ranks of fsdp, with copies among those of dp."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    fsdp = config.dist.fsdp
    if fsdp.sync_module_states:
        for tensor in (*model.parameters(), *model.buffers()):
            if not isinstance(tensor, dist.tensor.DTensor):
                dist.broadcast(tensor.detach(), 0)
    both = mesh["dp"].size() > 1
    options: dict[str, Any] = {
        "mesh": mesh["dp", "fsdp"] if both else mesh["fsdp"],
        "reshard_after_forward": fsdp.reshard_after_forward,
    }
    if fsdp.cpu_offload:
        options["offload_policy"] = CPUOffloadPolicy()
    reduced = None if dtype is None else torch.float32
    policy = functools.partial(MixedPrecisionPolicy, param_dtype=dtype, reduce_dtype=reduced)
    for block in _of_classes(model, fsdp.wrap_layer_cls, "dist.fsdp.wrap_layer_cls"):
        fully_shard(block, mp_policy=policy(), **options)
    fully_shard(model, mp_policy=policy(output_dtype=reduced), **options)


# ---- parameters that are several, or an optimizer's


def _ties(model: nn.Module) -> list[list[str]]:
    """The names of each parameter that has several."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [several for several in names.values() if len(several) > 1]


def _check_ties(model: nn.Module, ties: list[list[str]]) -> None:
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for tie in ties:
        if len({id(parameters[name]) for name in tie}) > 1:
            raise ValueError(
                f"accelerate: {' and '.join(tie)} are one parameter, which this configuration "
                "would make two: let one of the classes that are sharded have both, or none"
            )


def _follow(
    optimizer: torch.optim.Optimizer, names: dict[int, str], parameters: dict[str, nn.Parameter]
) -> None:
    """Makes the optimizer one of these parameters, which have the names that its own had."""
    for group in optimizer.param_groups:
        if any(id(parameter) not in names for parameter in group["params"]):
            raise ValueError("accelerate: the optimizer has a parameter that the model has not")
        group["params"] = [parameters[names[id(parameter)]] for parameter in group["params"]]
        # PyTorch's steps for lists take no others beside distributed ones.
        meshes = {getattr(parameter, "device_mesh", None) for parameter in group["params"]}
        if len(meshes) > 1 and group.get("foreach", False) is None:
            group["foreach"] = False
