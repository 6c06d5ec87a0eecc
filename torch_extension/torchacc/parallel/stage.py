"""A stage of a pipeline: the model's own forward pass, with some of its layers.

It runs from the model's beginning, with the arguments of the batch that the program passes on every
rank. Layers of earlier stages return NaN; the first one that is here gets the activations that were
received instead of those it is called with; where the first one of the next stage is called, what
it is called with is sent, and this stage is done. So what models compute beside activations (masks,
angles of positions, what the loss takes) and between their layers is there on every stage, for any
length. For parameters that are elsewhere NaN stand, too: so a model that uses these nevertheless,
or more of its layers' results than goes to the next one, is found out: its loss is NaN.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn

from torchacc.parallel.division import Division
from torchacc.parallel.modules import first_tensor, unchanged, with_first

# By which a part of the target goes to the last stage.
TARGET = "pipeline_target"


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
        first = self.own_layers()[0]
        first.register_forward_pre_hook(self._begin, prepend=True, with_kwargs=True)

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
