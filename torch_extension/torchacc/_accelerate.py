"""`accelerate`: a model as a `Config` wants it trained, by PyTorch's own engines.

Nothing is replaced but what the engines replace: tensor parallelism is `parallelize_module`,
pipelines are `torch.distributed.pipelining`, data parallelism is `DistributedDataParallel`,
sharding `fully_shard`. `parallel` has a file for each. They are put on from the layers outwards:
attention of divided sequences, what is computed again, what is split, what is sharded or copied.
"""

import copy
import functools
import itertools
import os
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils._pytree import tree_map_only

from torchacc import fp8
from torchacc.config import AXES, Config, PPConfig
from torchacc.elastic import ElasticSampler
from torchacc.loader import AsyncLoader
from torchacc.parallel import deferred, modules, offload, pipeline, recompute, sharded, tensor
from torchacc.parallel.clip import clip_grad_norm_
from torchacc.parallel.division import division
from torchacc.parallel.modules import wrap
from torchacc.parallel.sequence import Region

# Meshes by their sizes, with the group of all processes to which they belong: each mesh has groups
# with threads of their own, and PyTorch's distributed tensors treat equal meshes as the same.
_MESHES: dict[tuple, tuple[dist.ProcessGroup, Any]] = {}


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
    its own: those that share the work on one (tensor, sequence, pipeline parallel) have the same.

    `config` is not changed, `model` is: parameters are split and moved in place, so make optimizers
    after this, or pass them. Weights that are tied stay tied. Results of models that compute in
    halves are f32. A model on the device meta is made here, each process's part of it alone, and
    its modules write their weights (`reset_parameters`).

    With `strategy.mode` "auto" or "semi" what `config` leaves open is what `torchacc.auto` finds
    for these processes (`model.plan`). The loader's batches are then those of all processes
    together, arguments of the model by their names or the first one, and each process has its part.

    The model has `clip_grad_norm_(max_norm)`, of all its gradients, wherever they are. One of
    several pipeline stages has steps instead of calls: `forward_backward`, see `Pipeline`.

    Raises ValueError for a `config` that does not fit the world or the model (a class that it has
    not, a layer that cannot be split), and for an optimizer that has made a step.
    """
    config = copy.deepcopy(config) if config is not None else Config()
    config.validate()
    device = _device(config)
    world = _start(device)
    found, takes_any = None, False
    if config.strategy.mode != "manual":
        if isinstance(getattr(dataloader, "batch_sampler", None), ElasticSampler):
            raise ValueError(
                "accelerate: strategy.mode wants batches of all processes together, and an "
                "ElasticSampler has each process's own: take torchacc.auto.plan, and what it finds"
            )
        first, dataloader = _first_batch(dataloader)
        # A number of micro-batches set by the program holds for all batches.
        says = config.dist.pp.num_micro_batches != PPConfig().num_micro_batches
        takes_any = config.strategy.mode == "auto" or not says
        from torchacc import auto  # as in the package: only where it is used

        found = auto.choose(model, first, config, device, world)
        config = found.config
    mesh = _mesh(config, device, world)
    ties = modules.ties(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if optimizer is not None and optimizer.state:
        raise ValueError("accelerate: the optimizer has made a step: its state is of other tensors")

    sizes = {axis: mesh[axis].size() for axis in AXES} if mesh is not None else {}
    # Anything that does not fit is reported before anything is changed.
    engines = _Engines(model, config, device, mesh, sizes, ties)
    if optimizer is not None:
        _check_parameters(optimizer, names)

    if config.compute.fp8:
        fp8.convert(model)
    if engines.division is None:
        made_model = engines.put_on(model, model)
        made_model.clip_grad_norm_ = functools.partial(_clip, made_model)
    else:
        stages = pipeline.parts(model, engines.division, mesh["pp"])
        roots = [engines.put_on(stage, stage.model) for stage in stages]
        made_model = pipeline.Pipeline(
            roots, engines.division, mesh["pp"], config.dist.pp, engines.copies, takes_any
        )
    if found is not None:
        made_model.plan = found
    for axis in ("sp", "tp"):
        if sizes.get(axis, 1) > 1:
            modules.same_random_numbers(mesh[axis], device)
    if optimizer is not None:
        _follow(optimizer, names, dict(_module(made_model).named_parameters()))

    made: list[Any] = [made_model]
    if dataloader is not None:
        options = config.dataloader.to_dict()
        if found is not None and mesh is not None:
            options["part"] = part_of_data(config)
            # Copies of a pipeline go through the same number of micro-batches.
            options["is_even"] = engines.division is not None
        made.append(AsyncLoader(dataloader, device, **options))
    if optimizer is not None:
        made.append(optimizer)
    return made[0] if len(made) == 1 else tuple(made)


class _Engines:
    """What is put on a model, or on each stage of it: modules by their names. Raises ValueError for
    a configuration that does not fit the model."""

    def __init__(self, model, config: Config, device, mesh, sizes: dict[str, int], ties):
        self.config, self.device, self.mesh, self.sizes = config, device, mesh, sizes
        dist_config = config.dist
        names = {id(module): name for name, module in model.named_modules()}
        size = sizes.get

        def named(blocks) -> list[str]:
            return [names[id(block)] for block in blocks]

        self.is_sharded = (
            size("fsdp", 1) > 1 or size("tp", 1) > 1 and (size("dp", 1) > 1 or size("sp", 1) > 1)
        )
        self.again = named(recompute.layers(model, config.memory))
        self.offloaded = named(offload.layers(model, config.memory))
        self.styles = tensor.styles(model, size("tp", 1), dist_config.tp.plan, ties)
        field = "dist.fsdp.wrap_layer_cls"
        self.shards = named(modules.of_classes(model, dist_config.fsdp.wrap_layer_cls, field))
        self.division = division(model, dist_config.pp) if size("pp", 1) > 1 else None
        # Gradients of weights that a pipeline computes separately bypass autograd's hooks, by which
        # PyTorch's data parallelism sees them.
        is_apart = self.division is not None and dist_config.pp.schedule == "zero-bubble"
        if is_apart and self.is_sharded:
            raise ValueError(
                "config: dist.pp.schedule is 'zero-bubble': PyTorch does not reduce its gradients "
                "of parameters that are sharded (fsdp, or dp with tp): use '1f1b' or 'interleaved'"
            )
        self.copies = None
        if is_apart and size("dp", 1) * size("sp", 1) > 1:
            self.copies = sharded.copies(mesh).get_group()
        self.layers: list[str] = []
        if size("sp", 1) > 1:
            self.layers = named(modules.repeated(model))
            if len({name.rpartition(".")[0] for name in self.layers}) != 1:
                raise ValueError(
                    f"config: dist.sp.size is {size('sp')}: sequences are divided in the layers of "
                    "one list, and the model has none, or several"
                )

    def put_on(self, root: nn.Module, model: nn.Module) -> nn.Module:
        """`model` is all of it, or what a stage has, which is then `root`."""
        config, device, mesh = self.config, self.device, self.mesh
        is_meta = any(one.is_meta for one in (*model.parameters(), *model.buffers()))
        stage = root if root is not model else None
        own = dict(model.named_modules())
        if stage is not None:
            here = [f"{name}." for name in stage.layers]
            away = [f"{name}." for name in sum(self.division.layers, []) if f"{name}." not in here]
            own = {n: m for n, m in own.items() if not f"{n}.".startswith(tuple(away))}
        # The ties of a stage, which has several names for a shared parameter.
        ties = modules.ties(model)

        layers = {name: own[name] for name in self.layers if name in own}
        region = Region(mesh["sp"], config.dist.sp) if layers else None
        if region is not None:
            region.put_on(layers.values())
        again = [own[name] for name in self.again if name in own]
        parts = 1 if self.division is None else self.division.parts_at_once(config.dist.pp)
        budget = recompute.put_on(again, config.memory, device, mesh, parts)
        offload.put_on([own[name] for name in self.offloaded if name in own])
        if region is not None:
            region.divide(layers)
        if not is_meta:
            model.to(device)
        styles = {n: how for n, how in self.styles.items() if _has_weight(own.get(n))}
        if styles:
            tensor.split(model, mesh["tp"], styles)
            modules.tie(model, ties)
        if region is not None:
            region.check(root)
        if budget is not None:
            budget.measure(root)
        dtype = _half(config)
        if dtype is not None and not self.is_sharded:
            _autocast(root, device.type, dtype)
        if self.is_sharded:
            blocks = [own[name] for name in self.shards if name in own]
            sharded.shard(root, blocks, mesh, config, dtype)
        if is_meta:
            deferred.make(model, device)
            modules.tie(model, ties)
            deferred.begin(model, device, stage.incomplete() if stage is not None else ())
            if config.dist.fsdp.cpu_offload:
                sharded.to_host(model)
                modules.tie(model, ties)
        # Otherwise DistributedDataParallel makes the parameters of data parallel ranks alike.
        is_own = self.is_sharded or self.copies is not None
        axes = ("tp", "dp", "sp") if self.copies is not None else ("tp", "dp")
        for axis in axes if is_own else ("tp",):
            if self.sizes.get(axis, 1) > 1:
                modules.same(model, mesh[axis], axis)
        if stage is not None:
            stage.begin(device)
        modules.check_ties(model, ties)
        copies = self.sizes.get("dp", 1) * self.sizes.get("sp", 1)
        if is_own or copies == 1 or not any(one.requires_grad for one in root.parameters()):
            return root
        copied = nn.parallel.DistributedDataParallel(
            root,
            process_group=sharded.copies(mesh).get_group(),
            # A parameter of two stages may be used on one of them only.
            find_unused_parameters=stage is not None and stage.has_shared,
        )
        # A pipeline says which of its backward passes is the last. PyTorch 2.15 asks a stage for
        # sizes with gradients enabled, after which the first pass would be taken for the last.
        copied.require_backward_grad_sync = stage is None
        return copied


def _has_weight(module: nn.Module | None) -> bool:
    return isinstance(getattr(module, "weight", None), nn.Parameter)


def _module(model: nn.Module) -> nn.Module:
    is_copy = isinstance(model, nn.parallel.DistributedDataParallel)
    return model.module if is_copy else model


def _clip(model: nn.Module, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
    return clip_grad_norm_(model.parameters(), max_norm, norm_type)


def _device(config: Config) -> torch.device:
    if config.is_lazy_backend():
        return torch.device("acc")
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda", torch.cuda.current_device())


def _start(device: torch.device) -> int:
    """How many processes there are; of several the process group is made if there is none."""
    _, world = _place()
    if world > 1 and not dist.is_initialized():
        names = {"acc": None, "cpu": "gloo", "cuda": "nccl"}
        dist.init_process_group(names[device.type])
    return world


def _place() -> tuple[int, int]:
    """This process's rank, and how many there are: before there is a group, as torchrun says."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _mesh(config: Config, device: torch.device, world: int):
    """The processes by what they share, in the order of `AXES`; None for one process."""
    sizes = config.mesh(world)
    if world == 1:
        return None
    key = (device.type, *sizes.items())
    group, mesh = _MESHES.get(key, (None, None))
    if group is not dist.group.WORLD:
        ranks = torch.arange(world).view(*sizes.values())
        ranks = ranks.permute(*([*sizes].index(axis) for axis in AXES))
        mesh = dist.DeviceMesh(device.type, ranks.contiguous(), mesh_dim_names=AXES)
        _MESHES[key] = dist.group.WORLD, mesh
    return mesh


def _first_batch(dataloader: Iterable | None) -> tuple[Any, Iterable]:
    """With a loader that still has it."""
    if dataloader is None:
        raise ValueError(
            "accelerate: strategy.mode wants a dataloader, whose first batch says how large the "
            "model's activations are; or take torchacc.auto.plan, and what it finds"
        )
    batches = iter(dataloader)
    first = next(batches, None)
    if first is None:
        raise ValueError(
            "accelerate: strategy.mode wants a first batch, and the dataloader has none"
        )
    return first, itertools.chain([first], batches) if batches is dataloader else dataloader


def part_of_data(config: Config) -> tuple[int, int]:
    """Which part of a batch of all processes this one has, and how many there are."""
    rank, world = _place()
    sizes = config.mesh(world)
    at = torch.unravel_index(torch.tensor(rank), tuple(sizes.values()))
    place = {axis: index.item() for axis, index in zip(sizes, at, strict=True)}
    return place["dp"] * sizes["fsdp"] + place["fsdp"], sizes["dp"] * sizes["fsdp"]


def _half(config: Config) -> torch.dtype | None:
    if config.compute.bf16:
        return torch.bfloat16
    return torch.float16 if config.compute.fp16 else None


def _autocast(model: nn.Module, device_type: str, dtype: torch.dtype) -> None:
    wrap(model, functools.partial(_in_halves, model.forward, device_type, dtype))


def _in_halves(forward, device_type: str, dtype: torch.dtype, /, *args, **kwargs) -> Any:
    with torch.autocast(device_type, dtype):
        result = forward(*args, **kwargs)
    return tree_map_only(torch.Tensor, _as_f32, result)


def _as_f32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _check_parameters(optimizer: torch.optim.Optimizer, names: dict[int, str]) -> None:
    for group in optimizer.param_groups:
        if any(id(parameter) not in names for parameter in group["params"]):
            raise ValueError("accelerate: the optimizer has a parameter that the model has not")


def _follow(
    optimizer: torch.optim.Optimizer, names: dict[int, str], parameters: dict[str, nn.Parameter]
) -> None:
    """Makes the optimizer one of these parameters, which have the names that its own had. Those of
    other stages of a pipeline are theirs."""
    groups = []
    for group in optimizer.param_groups:
        own = [names[id(parameter)] for parameter in group["params"]]
        group["params"] = [parameters[name] for name in own if name in parameters]
        # PyTorch's fused steps do not take distributed tensors together with others.
        of_meshes: dict[Any, list[nn.Parameter]] = {}
        for parameter in group["params"]:
            of_meshes.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
        if len(of_meshes) > 1 and group.get("fused"):
            groups += [{**group, "params": some} for some in of_meshes.values()]
            continue
        if len(of_meshes) > 1 and group.get("foreach", False) is None:
            group["foreach"] = False
        groups.append(group)
    optimizer.param_groups[:] = groups
