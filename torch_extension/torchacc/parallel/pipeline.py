"""Pipeline parallel: each rank has some of the layers, by `torch.distributed.pipelining`.

Each stage runs the model's own forward pass, from its beginning, with the arguments of the batch
that the program passes on every rank. Layers of earlier stages return NaN; the first one that is
here gets the activations that were received instead of those it is called with; where the first one
of the next stage is called, what it is called with is sent, and this stage is done. So what models
compute beside activations (masks, angles of positions, what the loss takes) and between their
layers is there on every stage, for any length.

Which stage wants the parameters outside the layers cannot be known before the model runs. Those of
embeddings are on the first stage, those of other modules that are registered after the layers on
the last one; the rest, and those that are tied, are on both, which sum their gradients. Elsewhere
NaN stand for them, so that a model that uses them there nevertheless is found out.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils._pytree import tree_leaves, tree_map

from torchacc.config import PPConfig
from torchacc.parallel.clip import clip_grad_norm_
from torchacc.parallel.modules import first_tensor, repeated, unchanged, with_first

SCHEDULES = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "zero-bubble": "ScheduleInterleavedZeroBubble",
}
# How many sizes of batches are kept ready: each with memory for what it receives.
_SCHEDULES = 4
# Of which a rank has one stage only.
SINGLE = ("gpipe", "1f1b")


@dataclass(frozen=True)
class Division:
    """Which stage has what, of `count` stages; stage `i` is on rank `i % ranks`."""

    layers: list[list[str]]
    # By the names of parameters.
    stages: dict[str, set[int]]
    # By the names of buffers outside the layers.
    buffers: dict[str, int]

    @property
    def count(self) -> int:
        return len(self.layers)

    def parts_at_once(self, config: PPConfig) -> int:
        """How many parts of a batch a stage has at most gone through forwards and not backwards."""
        parts = config.num_micro_batches
        return parts if config.schedule == "gpipe" else min(parts, self.count)


def division(model: nn.Module, config: PPConfig) -> Division:
    """Raises ValueError for a model whose layers cannot be divided as `config` says."""
    names = {id(module): name for name, module in model.named_modules()}
    layers = [names[id(layer)] for layer in repeated(model)]
    lists = {name.rpartition(".")[0] for name in layers}
    if len(lists) != 1:
        raise ValueError(
            f"config: dist.pp.size is {config.size}: the model has "
            f"{'no list of layers' if not lists else ', '.join(sorted(lists))}: a pipeline is made "
            "of the layers of one list, which follow each other"
        )
    if config.split_points:
        if missing := set(config.split_points) - {*layers[1:]}:
            raise ValueError(
                f"config: dist.pp.split_points: {', '.join(sorted(missing))} is no layer that a "
                f"stage can begin with: there are {', '.join(layers[1:])}"
            )
        starts = [0, *sorted(layers.index(name) for name in config.split_points)]
    else:
        count = config.size * (2 if config.schedule == "interleaved" else 1)
        if len(layers) < count:
            raise ValueError(
                f"config: dist.pp.size is {config.size}: {count} stages want as many layers, and "
                f"the model has {len(layers)}"
            )
        starts = [stage * len(layers) // count for stage in range(count)]
    parts = [layers[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return Division(parts, _stages(model, layers, parts), _buffers(model, layers, len(parts) - 1))


def _stages(model: nn.Module, layers: list[str], parts: list[list[str]]) -> dict[str, set[int]]:
    last = len(parts) - 1
    of_layer = {name: stage for stage, part in enumerate(parts) for name in part}
    order = [name for name, _ in model.named_modules(remove_duplicate=False)]
    begin = order.index(layers[0])
    stages: dict[int, set[int]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = name.rpartition(".")[0]
        inside = [layer for layer in of_layer if f"{owner}.".startswith(f"{layer}.")]
        if inside:
            places = {of_layer[inside[0]]}
        elif isinstance(model.get_submodule(owner), nn.Embedding | nn.EmbeddingBag):
            places = {0}
        else:
            places = {last} if order.index(owner) > begin else {0, last}
        stages.setdefault(id(parameter), set()).update(places)
    return {
        name: stages[id(parameter)]
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }


def _buffers(model: nn.Module, layers: list[str], last: int) -> dict[str, int]:
    order = [name for name, _ in model.named_modules(remove_duplicate=False)]
    begin = order.index(layers[0])
    made = {}
    for name, _ in model.named_buffers(remove_duplicate=False):
        owner = name.rpartition(".")[0]
        if not any(f"{owner}.".startswith(f"{layer}.") for layer in layers):
            made[name] = 0 if order.index(owner) < begin else last
    return made


def parts(model: nn.Module, divided: Division, mesh) -> list["Stage"]:
    """The stages of this rank, of the model's own tensors."""
    rank, ranks = mesh.get_local_rank(), mesh.size()
    return [Stage(model, divided, stage) for stage in range(rank, divided.count, ranks)]


class _Done(Exception):  # noqa: N818
    """A stage has what it sends."""


class _Elsewhere(nn.Module):
    """A layer of another stage: of an earlier one if `stage` has received anything yet, else of a
    later one, whose first tensor is what this stage sends."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self._kind = type(layer)
        plain = (bool, int, float, str, type(None))
        for name, value in vars(layer).items():
            if not name.startswith("_") and name not in vars(self) and isinstance(value, plain):
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # What a model may ask its layers before it calls them.
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_kind"], name)

    def forward(self, *args, **kwargs) -> torch.Tensor:
        stage = self.stage[0]
        if stage.is_begun:
            if stage.is_last:
                raise stage.twice()
            stage.sent = first_tensor(args, kwargs)[1]
            raise _Done
        received = stage.received
        return received.new_full((), torch.nan).expand(received.shape)


class Stage(nn.Module):
    """Some layers of `model`, with what else their stage has. Called with the activations of the
    stage before, if there is one, and the arguments of a part of the batch by name: activations
    for the next one, or the loss, f32 []."""

    def __init__(self, model: nn.Module, divided: Division, index: int):
        super().__init__()
        self.index, self.is_last = index, index == divided.count - 1
        own = divided.layers[index]
        # Tensors are not copied, nor are layers that are not this stage's.
        memo: dict[int, Any] = {
            id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())
        }
        away = {}
        for name in sum(divided.layers, []):
            if name not in own:
                layer = model.get_submodule(name)
                away[name] = memo[id(layer)] = _Elsewhere(layer)
        self.model = copy.deepcopy(model, memo)
        for one in away.values():
            one.stage = [self]  # in a list, so that it is no part of the layer
        self.layers = own
        self.left_out = [name for name, at in divided.stages.items() if index not in at]
        self.has_shared = any(index in at and len(at) > 1 for at in divided.stages.values())
        self._forget()
        # What is the same for all parts of a batch, and what makes the results a loss.
        self.common: dict[str, Any] = {}
        self.output_fn: Callable | None = None
        self.outputs: list[Any] | None = None
        # Whether the next call only asks for sizes.
        self.is_new = False
        # Of a call: activations of the stage before and for the next one, whether a layer has run.
        self.received: torch.Tensor | None = None
        self.sent: torch.Tensor | None = None
        self.is_begun = False
        # Of buffers outside the layers other stages may not know the numbers.
        self.foreign = [name for name, at in divided.buffers.items() if at != index]

    def incomplete(self) -> list[nn.Module]:
        """The modules that have no parameters here, or not all of theirs."""
        return [module for module, *_ in self._placeholders]

    def own_layers(self) -> list[nn.Module]:
        return [self.model.get_submodule(name) for name in self.layers]

    def _forget(self) -> None:
        self._placeholders = []
        for name in self.left_out:
            owner, _, own = name.rpartition(".")
            try:
                module = self.model.get_submodule(owner)
            except AttributeError:
                continue  # of a layer that is elsewhere
            if own in module._parameters:
                parameter = module._parameters.pop(own)
                self._placeholders.append((module, own, parameter.shape, parameter.dtype))

    def begin(self, device: torch.device) -> None:
        """After the model's tensors have been put where they are to be."""
        self.device = device
        for module, name, shape, dtype in self._placeholders:
            # One number, which is neither a parameter nor a buffer.
            vars(module)[name] = torch.full((), torch.nan, dtype=dtype, device=device).expand(shape)
        layers = self.own_layers()
        layers[0].register_forward_pre_hook(self._begin, prepend=True, with_kwargs=True)
        if not self.is_last:
            for layer in layers:
                layer.register_forward_hook(_check_one)

    def _begin(self, layer, args, kwargs):
        at, called_with = first_tensor(args, kwargs)
        is_again = torch._C._current_graph_task_id() >= 0  # computed again for the way back
        if not is_again:
            if self.is_begun:
                raise self.twice()
            self.is_begun = True
            if self.index > 0:
                called_with.stands_for = self.received
        elif self.index > 0 and not hasattr(called_with, "stands_for"):
            raise NotImplementedError(
                "accelerate: dist.pp: a layer is computed again from a copy of its activations: "
                "use memory.gc, or torch.utils.checkpoint with use_reentrant=False"
            )
        if self.index == 0:
            return args, kwargs
        return with_first(args, kwargs, at, called_with.stands_for)

    def twice(self) -> NotImplementedError:
        return NotImplementedError(
            f"accelerate: dist.pp: the model goes through its layers twice ({self.layers[0]}): a "
            "pipeline does once"
        )

    def forward(self, *received, **batch) -> torch.Tensor:
        if self.is_new:
            self.is_new = False
            with unchanged(self.model, self.device):
                return self._forward(received, batch)
        return self._forward(received, batch)

    def _forward(self, received: tuple, batch: dict[str, Any]) -> torch.Tensor:
        self.received = received[0] if received else None
        self.is_begun = False
        target = batch.pop(TARGET, None)
        try:
            made = self.model(**batch, **self.common)
        except _Done:
            sent, self.sent = self.sent, None
            return sent
        finally:
            self.received = None
        if not self.is_last:
            raise RuntimeError(
                f"accelerate: dist.pp: the model did not call the layers after {self.layers[-1]}"
            )
        if self.outputs is not None:
            self.outputs.append(made)
            return torch.zeros((), device=self.device)
        if self.output_fn is None:
            return _loss(made).float()
        loss = self.output_fn(made) if target is None else self.output_fn(made, target)
        return loss.float()


def _check_one(layer: nn.Module, _args, made: Any) -> None:
    tensors = [one for one in tree_leaves(made) if isinstance(one, torch.Tensor)]
    if len(tensors) != 1:
        raise NotImplementedError(
            f"accelerate: dist.pp: {type(layer).__name__} returns {len(tensors)} tensors: a "
            "pipeline sends one from layer to layer"
        )


# By which a part of the target goes to the last stage.
TARGET = "pipeline_target"


def _loss(made: Any) -> torch.Tensor:
    if isinstance(made, dict) and "loss" in made:
        made = made["loss"]
    made = getattr(made, "loss", made)
    if isinstance(made, tuple | list):
        made = made[0]
    if not isinstance(made, torch.Tensor) or made.dim() > 0:
        what = f"a tensor {tuple(made.shape)}" if isinstance(made, torch.Tensor) else f"{made!r}"
        raise ValueError(
            f"forward_backward: the model returns {what}, which is no loss: say by output_fn how "
            "one is made of it"
        )
    return made


class Pipeline(nn.Module):
    """The stages of this rank, as one model.

    `forward_backward` is a step forwards and backwards; a call is one forwards, whose results the
    ranks of the last stage have. Parameters and their names are those that this rank has of the
    model.
    """

    def __init__(
        self, stages: list[nn.Module], divided: Division, mesh, config: PPConfig, copies=None
    ):
        """`copies`: the group of ranks that have the same stages, if nothing else takes the mean of
        their gradients."""
        super().__init__()
        self._copies = copies
        self.stages = nn.ModuleList(stages)
        self._divided, self._mesh, self._config = divided, mesh, config
        self._schedules: dict[tuple, Any] = {}
        self._arguments = inspect.signature(self._own()[0].model.forward)
        self._is_checked = False
        rank, ranks = mesh.get_local_rank(), mesh.size()
        # Of names of one parameter, one.
        self._shared = _shared_groups(divided, mesh, [name for name, _ in self.named_parameters()])
        for name, group in self._shared:
            here = self._parameter(name).detach()
            dist.broadcast(
                here.to_local() if hasattr(here, "to_local") else here, group=group, group_src=0
            )
        self._last_rank = (divided.count - 1) % ranks
        first = {name: min(at) % ranks for name, at in divided.stages.items()}
        self._counted = {name for name, at in first.items() if at == rank}

    def _own(self) -> list[Stage]:
        return [getattr(stage, "module", stage) for stage in self.stages]

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        seen = set()
        for stage in self._own():
            for name, parameter in stage.model.named_parameters(prefix, recurse, remove_duplicate):
                if not (remove_duplicate and id(parameter) in seen):
                    seen.add(id(parameter))
                    yield name, parameter

    def state_dict(self, *args, **kwargs) -> dict[str, Any]:
        """What this rank has of the model's."""
        made: dict[str, Any] = {}
        for stage in self._own():
            state = stage.model.state_dict(*args, **kwargs)
            made |= {name: one for name, one in state.items() if name not in stage.foreign}
        return made

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        """What this rank has, of the model's or of a rank's."""
        missing: list[str] = []
        for stage in self._own():
            own = stage.model.state_dict().keys()
            found = {name: value for name, value in state_dict.items() if name in own}
            made = stage.model.load_state_dict(found, strict=False, assign=assign)
            missing += [name for name in made.missing_keys if name not in stage.foreign]
        if missing and strict:
            raise RuntimeError(f"load_state_dict: there is no {', '.join(missing)}")
        return nn.modules.module._IncompatibleKeys(missing, [])

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """As `torch.nn.utils.clip_grad_norm_` of the whole model's gradients."""
        parameters = dict(self.named_parameters())
        counted = [parameter for name, parameter in parameters.items() if name in self._counted]
        group = self._mesh.get_group()
        return clip_grad_norm_(parameters.values(), max_norm, norm_type, counted, group)

    def forward_backward(
        self, *args, output_fn: Callable | None = None, target: Any = None, **kwargs
    ) -> torch.Tensor | None:
        """The loss, f32 [], of the batch that `args` and `kwargs` are as for the model, and
        gradients of the parameters: the mean over its parts, as `num_micro_batches` says.

        `output_fn(result)`, or `output_fn(result, target)` where a `target` [batch, ...] is given,
        makes a loss of what the model returns, which is else one itself or has one as `.loss`.
        Every rank of the pipeline passes the same batch, and gets the loss
        (without `broadcast_loss`: those of the last stage, others None).
        """
        if target is not None and output_fn is None:
            raise ValueError("forward_backward: a target wants an output_fn(result, target)")
        for stage in self._own():
            stage.output_fn, stage.outputs = output_fn, None
        # Gradients that are there already are those of all ranks.
        shared = {self._parameter(name): group for name, group in self._shared}
        own = list(shared) if self._copies is None else list(self.parameters())
        before = [parameter.grad for parameter in own]
        for parameter in own:
            parameter.grad = None
        losses: list[torch.Tensor] = []
        self._run(args, kwargs, target, losses)
        for parameter, earlier in zip(own, before, strict=True):
            if parameter.requires_grad:
                self._reduce(parameter, shared.get(parameter), earlier)
        device = self._own()[0].device
        loss = torch.stack(losses).sum().detach() if losses else torch.zeros((), device=device)
        if self._config.broadcast_loss or not self._is_checked:
            dist.broadcast(loss, group=self._mesh.get_group(), group_src=self._last_rank)
        if not self._is_checked:
            self._is_checked = True
            self._check(loss)
        is_there = losses or self._config.broadcast_loss
        return loss if is_there else None

    def _reduce(self, parameter: nn.Parameter, shared, earlier: torch.Tensor | None) -> None:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        grad = parameter.grad
        local = grad.to_local() if hasattr(grad, "to_local") else grad
        if self._copies is not None:
            dist.all_reduce(local, dist.ReduceOp.AVG, self._copies)
        if shared is not None:
            dist.all_reduce(local, group=shared)
        if earlier is not None:
            grad += earlier

    def forward(self, *args, **kwargs) -> Any:
        """What the model returns, on the ranks of the last stage, without gradients; None on
        others. Tensors of the parts of the batch are one again, losses their mean."""
        for stage in self._own():
            stage.outputs = []
        with torch.no_grad():
            self._run(args, kwargs, None, None)
        outputs = self._own()[-1].outputs if self._own()[-1].is_last else None
        for stage in self._own():
            stage.outputs = None
        if outputs is None:
            return None

        def whole(*parts):
            if not isinstance(parts[0], torch.Tensor):
                return parts[0]
            return torch.cat(parts) if parts[0].dim() > 0 else torch.stack(parts).mean()

        # Shapes are asked for by a run of their own, before.
        return tree_map(whole, *outputs[-self._config.num_micro_batches :])

    def _parameter(self, name: str) -> nn.Parameter:
        for stage in self._own():
            if stage.index in self._divided.stages[name]:
                return stage.model.get_parameter(name)
        raise KeyError(name)

    def _check(self, loss: torch.Tensor) -> None:
        if not loss.isnan().item():
            return
        owners = {name.rpartition(".")[0] for stage in self._own() for name in stage.left_out}
        outside = sorted(
            owner
            for owner in owners
            if not any(f"{owner}.".startswith(f"{n}.") for n in sum(self._divided.layers, []))
        )
        raise ValueError(
            "accelerate: dist.pp: the loss of the first step is NaN. If it is not without a "
            "pipeline: a stage uses what it has not. A layer may use more than the activations of "
            "the one before, or the results a weight of an embedding that is not tied; a module "
            "that runs before the layers must be registered before them. Not on this rank: "
            f"{', '.join(outside)}"
        )

    def _run(self, args: tuple, kwargs: dict, target: Any, losses: list | None) -> None:
        batch = self._bound(args, kwargs)
        names = self._parts_of(batch)
        device = self._own()[0].device
        batch = {
            n: one.to(device) if isinstance(one, torch.Tensor) else one for n, one in batch.items()
        }
        parts = {name: batch.pop(name) for name in names}
        if target is not None:
            parts[TARGET] = self._divisible("target", target).to(device)
        # Activations that are received want gradients in a step alone.
        key = (losses is None, *((name, one.shape, one.dtype) for name, one in parts.items()))
        schedule = self._schedules.pop(key, None)
        for stage in self._own():
            stage.common, stage.is_new = batch, schedule is None
        if schedule is None:
            # Stages agree about the sizes of what they send once.
            schedule = self._new_schedule()
        self._schedules[key] = schedule
        if len(self._schedules) > _SCHEDULES:
            del self._schedules[next(iter(self._schedules))]
        count = self._config.num_micro_batches
        step = schedule.step if losses is not None else schedule.eval
        step(target=torch.arange(count), losses=losses, return_outputs=False, **parts)
        for stage in self._own():
            stage.common, stage.output_fn = {}, None

    def _divisible(self, name: str, tensor: Any) -> torch.Tensor:
        count = self._config.num_micro_batches
        if not isinstance(tensor, torch.Tensor) or not tensor.dim() or len(tensor) % count != 0:
            shape = (
                tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            )
            raise ValueError(
                f"config: dist.pp.num_micro_batches is {count}: {name} {shape} cannot be cut into "
                "as many equal parts"
            )
        return tensor

    def _bound(self, args: tuple, kwargs: dict) -> dict[str, Any]:
        bound = self._arguments.bind(*args, **kwargs).arguments
        made: dict[str, Any] = {}
        for name, value in bound.items():
            kind = self._arguments.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                raise TypeError("accelerate: dist.pp: pass the model's arguments by name")
            made |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
        return made

    def _parts_of(self, batch: dict[str, Any]) -> list[str]:
        """The arguments that are cut into parts."""
        tensors = {
            name: one
            for name, one in batch.items()
            if isinstance(one, torch.Tensor) and one.dim() > 0
        }
        if not tensors:
            raise ValueError("accelerate: dist.pp: the model was called without a tensor")
        size = next(iter(tensors.values())).shape[0]
        wanted = self._config.input_names
        if wanted is not None:
            if missing := set(wanted) - tensors.keys():
                raise ValueError(
                    f"config: dist.pp.input_names: the batch has no tensor {', '.join(missing)}"
                )
            names = [name for name in tensors if name in wanted]
        else:
            names = [name for name, one in tensors.items() if one.shape[0] == size]
        for name, value in batch.items():
            if name in names:
                self._divisible(name, value)
            elif any(
                isinstance(one, torch.Tensor) for one in tree_leaves(value)
            ) and not isinstance(value, torch.Tensor):
                raise NotImplementedError(
                    f"accelerate: dist.pp: {name} is a {type(value).__name__} of tensors: pass "
                    "tensors as arguments of their own"
                )
        return names

    def _new_schedule(self):
        from torch.distributed import pipelining
        from torch.distributed.pipelining import schedules

        stages = [
            pipelining.PipelineStage(
                module,
                stage.index,
                self._divided.count,
                stage.device,
                group=self._mesh.get_group(),
            )
            for module, stage in zip(self.stages, self._own(), strict=True)
        ]
        kind = getattr(schedules, SCHEDULES[self._config.schedule])
        what = stages[0] if self._config.schedule in SINGLE else stages
        # Of a mean, so that gradients that are there already stay what they are.
        count = self._config.num_micro_batches
        return kind(what, count, loss_fn=lambda loss, _: loss / count, scale_grads=False)


def _shared_groups(divided: Division, mesh, names: list[str]) -> list[tuple[str, Any]]:
    """Those of this rank's parameters that others of the pipeline have, too, with the group of the
    ranks that do."""
    ranks = mesh.size()
    own = dist.get_process_group_ranks(mesh.get_group())
    groups: dict[tuple[int, ...], Any] = {tuple(range(ranks)): mesh.get_group()}
    made = []
    for name in names:
        place = tuple(sorted({stage % ranks for stage in divided.stages[name]}))
        if len(place) > 1:
            if place not in groups:
                some = [own[at] for at in place]
                groups[place] = dist.new_group(some, use_local_synchronization=True)
            made.append((name, groups[place]))
    return made
