"""Pipeline parallel: each rank has some of the layers, by `torch.distributed.pipelining`.

`division` says which rank has what, `stage` is what it runs; here they are one model.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import DeviceMesh
from torch.utils._pytree import tree_leaves, tree_map

from torchacc.amp import GradScaler
from torchacc.config import PPConfig
from torchacc.parallel.clip import clip_grad_norm_
from torchacc.parallel.division import Division, shared_groups
from torchacc.parallel.stage import TARGET, Stage
from torchacc.step import cut

SCHEDULES = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "zero-bubble": "ScheduleInterleavedZeroBubble",
}
# Number of batch sizes kept ready, each with memory for received tensors.
_SCHEDULES = 4
# Schedules with one stage per rank.
SINGLE = ("gpipe", "1f1b")


def _cut_before_step(module: nn.Module, stage: Stage) -> None:
    """Once `module`, which has `stage`, was asked for sizes: what that left is no part of the first
    step's program, which is then that of later steps, too. Other stages begin with what they
    receive, which is a cut."""

    def cut_after_asking(*_):
        if not stage.is_new:
            handle.remove()
            cut()

    # Runs before FSDP gathers parameters.
    handle = module.register_forward_pre_hook(cut_after_asking, prepend=True)


def parts(model: nn.Module, divided: Division, mesh: DeviceMesh) -> list["Stage"]:
    """The stages of this rank, of the model's own tensors."""
    rank, ranks = mesh.get_local_rank(), mesh.size()
    return [Stage(model, divided, stage) for stage in range(rank, divided.count, ranks)]


class Pipeline(nn.Module):
    """The stages of this rank, as one model.

    `forward_backward` is a step forwards and backwards; a call is one forwards, whose results the
    ranks of the last stage have. Parameters and their names are those that this rank has of the
    model.
    """

    def __init__(
        self,
        stages: list[nn.Module],
        divided: Division,
        mesh: DeviceMesh,
        config: PPConfig,
        copies: dist.ProcessGroup | None = None,
        takes_any: bool = False,
    ):
        """`copies`: the group of ranks that have the same stages, if nothing else takes the mean of
        their gradients. `takes_any`: also batches that `num_micro_batches` do not divide."""
        super().__init__()
        self._takes_any, self._count = takes_any, config.num_micro_batches
        self._copies = copies
        self.stages = nn.ModuleList(stages)
        self._divided, self._mesh, self._config = divided, mesh, config
        self._schedules: dict[tuple, Any] = {}
        self._arguments = inspect.signature(self.own_stages()[0].model.forward)
        self._is_checked = False
        self._scale: torch.Tensor | None = None  # scale of gradients, during a step
        self._is_used: dict[nn.Parameter, bool] = {}
        rank, ranks = mesh.get_local_rank(), mesh.size()
        # One name of each parameter.
        self._shared = shared_groups(divided, mesh, {name for name, _ in self.named_parameters()})
        for name, group in self._shared:
            here = self._parameter(name).detach()
            dist.broadcast(
                here.to_local() if hasattr(here, "to_local") else here, group=group, group_src=0
            )
        self._last_rank = (divided.count - 1) % ranks
        first = {name: min(at) % ranks for name, at in divided.stages.items()}
        self._counted = {name for name, at in first.items() if at == rank}

    def own_stages(self) -> list[Stage]:
        return [getattr(stage, "module", stage) for stage in self.stages]

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        seen = set()
        for stage in self.own_stages():
            for name, parameter in stage.model.named_parameters(prefix, recurse, remove_duplicate):
                if not (remove_duplicate and id(parameter) in seen):
                    seen.add(id(parameter))
                    yield name, parameter

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What this rank has of the model's."""
        made: dict[str, Any] = {}
        for stage in self.own_stages():
            state = stage.model.state_dict(*args, **kwargs)
            made |= {name: one for name, one in state.items() if name not in stage.foreign}
        return made

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """What this rank has, of the model's or of a rank's."""
        missing: list[str] = []
        for stage in self.own_stages():
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
        self,
        *args: Any,
        output_fn: Callable | None = None,
        target: Any = None,
        scaler: GradScaler | None = None,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """The loss, f32 [], of the batch that `args` and `kwargs` are as for the model, and
        gradients of the parameters: the mean over its parts, as `num_micro_batches` says.

        `output_fn(result)`, or `output_fn(result, target)` where a `target` [batch, ...] is given,
        makes a loss of what the model returns, which is else one itself or has one as `.loss`.
        Every rank of the pipeline passes the same batch, and gets the loss
        (without `broadcast_loss`: those of the last stage, others None).

        With a `scaler` gradients are those of the scaled loss, for its `unscale_` or `step`, and
        all ranks skip the same steps; the loss that is returned is not scaled.
        """
        if target is not None and output_fn is None:
            raise ValueError("forward_backward: a target wants an output_fn(result, target)")
        if not isinstance(scaler, GradScaler | None):
            raise TypeError(
                f"forward_backward: scaler is a {type(scaler).__module__}.{type(scaler).__name__}: "
                "overflows of other stages are seen by torchacc.amp.GradScaler"
            )
        device, self._scale = self.own_stages()[0].device, None
        if scaler is not None:
            scaler.group = self._mesh.get_group()
            # Ranks without a loss also have a scale, by which they divide.
            self._scale = scaler.scale(torch.ones((), device=device))
        for stage in self.own_stages():
            stage.output_fn, stage.outputs = output_fn, None
        # Existing gradients are those of all ranks already.
        shared = {self._parameter(name): group for name, group in self._shared}
        own = list(shared) if self._copies is None else list(self.parameters())
        before = [parameter.grad for parameter in own]
        for parameter in own:
            parameter.grad = None
        losses: list[torch.Tensor] = []
        try:
            self._run(args, kwargs, target, losses)
        except BaseException:
            for parameter, earlier in zip(own, before, strict=True):
                parameter.grad = earlier
            raise
        self._ask(own, shared)
        for parameter, earlier in zip(own, before, strict=True):
            if parameter.requires_grad and self._is_used[parameter]:
                self._reduce(parameter, shared.get(parameter), earlier)
            elif parameter.requires_grad and parameter.grad is not None:
                raise self._used_late(parameter)
            else:
                parameter.grad = earlier
        loss = torch.stack(losses).sum().detach() if losses else torch.zeros((), device=device)
        if self._config.broadcast_loss or not self._is_checked:
            dist.broadcast(loss, group=self._mesh.get_group(), group_src=self._last_rank)
        if not self._is_checked:
            self._is_checked = True
            self._check(loss)
        is_there = losses or self._config.broadcast_loss
        return loss if is_there else None

    def _ask(self, own: list[nn.Parameter], shared: dict) -> None:
        """Whether any of the ranks that have a parameter has a gradient of it, in the first step
        that may have one: of what nobody uses there is none, as in one process, and not zeros."""
        new = [one for one in own if one.requires_grad and one not in self._is_used]
        if not new:
            return
        flags = [float(one.grad is not None) for one in new]
        found = torch.tensor(flags, device=self.own_stages()[0].device)
        if self._copies is not None:
            dist.all_reduce(found, dist.ReduceOp.MAX, self._copies)
        for group in dict.fromkeys(shared[one] for one in new if one in shared):
            at = [number for number, one in enumerate(new) if shared.get(one) is group]
            some = found[at]
            dist.all_reduce(some, dist.ReduceOp.MAX, group)
            found[at] = some
        self._is_used |= zip(new, map(bool, found.tolist()), strict=True)

    def _used_late(self, parameter: nn.Parameter) -> ValueError:
        name = next(name for name, one in self.named_parameters() if one is parameter)
        return ValueError(
            f"forward_backward: {name} has a gradient, and had none on any rank in the first step, "
            "after which ranks that have it, too, leave it alone: let the first step use it, or "
            "let it require no gradient until one does"
        )

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

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns, on the ranks of the last stage, without gradients; None on
        others. Tensors of the parts of the batch are one again, losses their mean."""
        for stage in self.own_stages():
            stage.outputs = []
        with torch.no_grad():
            self._run(args, kwargs, None, None)
        outputs = self.own_stages()[-1].outputs if self.own_stages()[-1].is_last else None
        for stage in self.own_stages():
            stage.outputs = None
        if outputs is None:
            return None

        def whole(*parts):
            if not isinstance(parts[0], torch.Tensor):
                return parts[0]
            return torch.cat(parts) if parts[0].dim() > 0 else torch.stack(parts).mean()

        # Leaves out the outputs of an earlier run that only asked for shapes.
        return tree_map(whole, *outputs[-self._count :])

    def _parameter(self, name: str) -> nn.Parameter:
        for stage in self.own_stages():
            if stage.index in self._divided.stages[name]:
                return stage.model.get_parameter(name)
        raise KeyError(name)

    def _check(self, loss: torch.Tensor) -> None:
        if not loss.isnan().item():
            return
        owners = {name.rpartition(".")[0] for stage in self.own_stages() for name in stage.left_out}
        outside = sorted(
            owner
            for owner in owners
            if not any(f"{owner}.".startswith(f"{n}.") for n in sum(self._divided.layers, []))
        )
        raise ValueError(
            "accelerate: dist.pp: the loss of the first step is NaN. If it is not without a "
            "pipeline: a stage uses what it has not. The model may use more of its layers than "
            "goes to the next one (a sum beside them, their losses), or a weight of an embedding "
            "that is not tied; what runs before the layers must be registered before them. Not on "
            "this rank: "
            f"{', '.join(outside)}"
        )

    def _run(self, args: tuple, kwargs: dict, target: Any, losses: list | None) -> None:
        batch = self._bound(args, kwargs)
        names = self._parts_of(batch)
        device = self.own_stages()[0].device
        batch = {
            n: one.to(device) if isinstance(one, torch.Tensor) else one for n, one in batch.items()
        }
        parts = {name: batch.pop(name) for name in names}
        if target is not None:
            parts[TARGET] = self._divisible("target", target).to(device)
        # Received activations need gradients in a step only.
        key = (losses is None, *((name, one.shape, one.dtype) for name, one in parts.items()))
        schedule, places = self._schedules.pop(key, (None, [{} for _ in self.stages]))
        for stage, own in zip(self.own_stages(), places, strict=True):
            stage.common, stage.is_new, stage.places = batch, schedule is None, own
        if schedule is None:
            # Stages agree once on the tensors that they send, and their sizes.
            schedule = self._new_schedule()
        self._schedules[key] = schedule, places
        if len(self._schedules) > _SCHEDULES:
            del self._schedules[next(iter(self._schedules))]
        step = schedule.step if losses is not None else schedule.eval
        try:
            step(target=torch.arange(self._count), losses=losses, return_outputs=False, **parts)
        finally:
            for stage in self.own_stages():
                stage.common, stage.output_fn = {}, None

    def _divisible(self, name: str, tensor: Any) -> torch.Tensor:
        count = self._count
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
        self._count = self._count_of(tensors[names[0]].shape[0]) if names else self._count
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

    def _count_of(self, rows: int) -> int:
        """Into how many parts a batch is cut."""
        wanted = self._config.num_micro_batches
        if not self._takes_any or rows % wanted == 0:
            return wanted
        # A smaller batch has parts that are no larger, for which there is memory.
        counts = (count for count in range(wanted, rows) if rows % count == 0)
        return next((count for count in counts if self._takes(count)), rows)

    def _takes(self, count: int) -> bool:
        """Whether PyTorch has the schedule for so many parts."""
        if self._config.schedule in SINGLE:
            return self._config.schedule == "gpipe" or count >= self._divided.count
        return count % max(1, count // self._mesh.size()) == 0

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
            for module, stage in zip(self.stages, self.own_stages(), strict=True)
        ]
        if stages[0].is_first and stages[0].device.type == "acc":
            _cut_before_step(stages[0].submod, self.own_stages()[0])
        is_single = self._config.schedule in SINGLE
        name, what = SCHEDULES[self._config.schedule], stages[0] if is_single else stages
        is_asked = self._count == self._config.num_micro_batches
        if not is_asked and not self._takes(self._count):
            name = "ScheduleGPipe" if is_single else "ScheduleLoopedBFS"  # for any number of parts
        kind = getattr(schedules, name)
        # Scaled for a mean here, so that existing gradients stay as they are.
        count = self._count
        return kind(
            what, count, loss_fn=functools.partial(self._part_of_loss, count), scale_grads=False
        )

    def _part_of_loss(self, count: int, loss: torch.Tensor, _) -> torch.Tensor:
        loss = loss / count
        if self._scale is not None and loss.requires_grad:
            loss.register_hook(self._scale.mul)
        return loss
