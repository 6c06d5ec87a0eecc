"""A stage of a pipeline: the model's own forward pass, with some of its layers.

It runs from the model's beginning, with the arguments of the batch that the program passes on every
rank. Layers of earlier stages return NaN; the first one that is here gets the activations that were
received instead of those it is called with; where the first one of the next stage is called, what
it is called with is sent, and this stage is done. So what models compute beside activations (masks,
angles of positions, what the loss takes) and between their layers is there on every stage, for any
length. For parameters that are elsewhere NaN stand, too: so a model that uses these nevertheless,
or more of its layers' results than goes to the next one, is found out: its loss is NaN.

What goes to the next stage is the first tensor that its first layer is called with, and those of
the other arguments that layers have computed: the results of an encoder that each layer of a
decoder takes, for one. Which these are is seen where sizes are asked for, by what their gradients
depend on.
"""

import copy
import dis
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
from torch.utils._pytree import tree_map_only

from torchacc.parallel.division import Division
from torchacc.parallel.modules import first_tensor, unchanged, with_first

# The name by which a part of the target goes to the last stage.
TARGET = "pipeline_target"


class _Done(Exception):  # noqa: N818
    """A stage has what it sends."""


class _Result(torch.Tensor):
    """A tensor, or the several ones that a layer returns, each of which is it."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __getitem__(self, at: Any) -> torch.Tensor:
        plain = self.as_subclass(torch.Tensor)
        return plain if isinstance(at, int) else plain[at]

    def __iter__(self):
        caller = sys._getframe(1)
        count = _unpacked(caller.f_code, caller.f_lasti)
        # Each value has a counterpart of its own.
        return iter([self.as_subclass(torch.Tensor) for _ in range(count)])


@functools.cache
def _unpacked(code: types.CodeType, at: int) -> int:
    """How many values a line takes results apart into. Raises NotImplementedError where it does
    not say."""
    for one in dis.get_instructions(code):
        if one.offset == at and one.opname == "UNPACK_SEQUENCE":
            return one.argval
    raise NotImplementedError(
        f"accelerate: dist.pp: {code.co_name} in {code.co_filename} goes through a layer's "
        "results, and a stage that has not the layer does not know how many there are: let it "
        "take them apart, as x, y = layer(x)"
    )


class _Received(torch.autograd.Function):
    """What was received, as it is. The stage before waits for gradients of all of it: of what
    nobody uses they are zeros."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return grads


class _Elsewhere(nn.Module):
    """A layer of another stage: of an earlier one, or else of a later one, which is called with
    what this stage sends."""

    def __init__(self, name: str, layer: nn.Module, is_earlier: bool):
        super().__init__()
        self._name, self._is_earlier = name, is_earlier
        self._kind = type(layer)
        plain = (bool, int, float, str, type(None))
        for name, value in vars(layer).items():
            if not name.startswith("_") and name not in vars(self) and isinstance(value, plain):
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Attributes that a model may ask of its layers before it calls them.
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_kind"], name)

    def forward(self, *args, **kwargs) -> torch.Tensor:
        stage = self.stage[0]
        if self._is_earlier and stage.is_begun:
            raise stage.twice()
        if not (self._is_earlier or stage.is_begun):
            raise NotImplementedError(
                f"accelerate: dist.pp: the model calls {self._name} before {stage.layers[0]}, "
                "which is registered first: a pipeline goes through layers in this order"
            )
        if stage.is_begun:
            sent = stage.computed("sent", args, kwargs)
            stage.sent = tuple(getattr(one, "stands_for", one).contiguous() for one in sent)
            raise _Done
        # Results have the shape of activations, which the layers of a list have in common.
        like = first_tensor(args, kwargs)[1]
        if _list_of(self._name) == _list_of(stage.layers[0]):
            like = stage.received[0]
        return stage.marked(like.new_full((), torch.nan).expand(like.shape)).as_subclass(_Result)


def _list_of(layer: str) -> str:
    return layer.rpartition(".")[0]


def _tensors(args: tuple, kwargs: dict) -> dict[int | str, torch.Tensor]:
    """By where they stand."""
    values = {**dict(enumerate(args)), **kwargs}
    return {place: one for place, one in values.items() if isinstance(one, torch.Tensor)}


class Stage(nn.Module):
    """Some layers of `model`, with what else their stage has. Called with what the stage before
    sends, if there is one, and the arguments of a part of the batch by name: what the next one
    receives, activations alone or a tuple of them and others, or the loss, f32 []."""

    def __init__(self, model: nn.Module, divided: Division, index: int):
        super().__init__()
        self.index, self.is_last = index, index == divided.count - 1
        own = divided.layers[index]
        # Neither tensors nor the layers of other stages are copied.
        memo: dict[int, Any] = {
            id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())
        }
        away = {}
        for at, names in enumerate(divided.layers):
            for name in names if at != index else ():
                layer = model.get_submodule(name)
                away[name] = memo[id(layer)] = _Elsewhere(name, layer, at < index)
        self.model = copy.deepcopy(model, memo)
        for one in away.values():
            one.stage = [self]  # in a list, so that it does not become a submodule
        self.layers = own
        self.left_out = [name for name, at in divided.stages.items() if index not in at]
        self.has_shared = any(index in at and len(at) > 1 for at in divided.stages.values())
        self._forget()
        # The arguments that all parts of a batch share, and the function that makes the results a
        # loss.
        self.common: dict[str, Any] = {}
        self.output_fn: Callable | None = None
        self.outputs: list[Any] | None = None
        # Whether the next call only asks for sizes.
        self.is_new = False
        # Positions of arguments that layers have computed, among the first layer's and the next
        # stage's.
        self.places: dict[str, list[int | str]] = {}
        # In a call that asks for sizes: the tensor on which the layers' results depend.
        self._mark: torch.Tensor | None = None
        # In a call: the tensors from the previous stage and for the next; whether a layer has run.
        self.received: tuple[torch.Tensor, ...] = ()
        self.sent: tuple[torch.Tensor, ...] = ()
        self.is_begun = False
        # Buffers outside the layers that other stages write: their values may be unknown here.
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
                continue  # belongs to a layer of another stage
            if own in module._parameters:
                parameter = module._parameters.pop(own)
                self._placeholders.append((module, own, parameter.shape, parameter.dtype))

    def begin(self, device: torch.device) -> None:
        """After the model's tensors have been put where they are to be."""
        self.device = device
        for module, name, shape, dtype in self._placeholders:
            # A single number, neither a parameter nor a buffer.
            vars(module)[name] = torch.full((), torch.nan, dtype=dtype, device=device).expand(shape)
        layers = self.own_layers()
        for layer in layers:
            layer.register_forward_pre_hook(self._replace, prepend=True, with_kwargs=True)
            layer.register_forward_hook(self._mark_results)
        layers[0].register_forward_pre_hook(self._begin, prepend=True, with_kwargs=True)

    def _begin(self, layer, args, kwargs) -> None:
        is_again = torch._C._current_graph_task_id() >= 0  # recomputed in the backward pass
        if not is_again:
            if self.is_begun:
                raise self.twice()
            self.is_begun = True
            if self.index > 0:
                self._stand_for(args, kwargs)
        elif self.index > 0 and not hasattr(first_tensor(args, kwargs)[1], "stands_for"):
            raise NotImplementedError(
                "accelerate: dist.pp: a layer is computed again from a copy of its activations: "
                "use memory.gc, or torch.utils.checkpoint with use_reentrant=False"
            )

    def _replace(self, layer, args, kwargs):
        for place, one in _tensors(args, kwargs).items():
            args, kwargs = with_first(args, kwargs, place, getattr(one, "stands_for", one))
        return args, kwargs

    def _stand_for(self, args: tuple, kwargs: dict) -> None:
        """What the first layer is called with stands for what was received."""
        called_with = self.computed("received", args, kwargs)
        if len(called_with) != len(self.received):
            raise NotImplementedError(
                f"accelerate: dist.pp: {self.layers[0]} is called with {len(called_with)} tensors "
                f"of layers before it, and the stage before has sent {len(self.received)}: what "
                "layers have computed must go to others as arguments, the same ones on every stage"
            )
        for one, received in zip(called_with, self.received, strict=True):
            one.stands_for = received

    def computed(self, what: str, args: tuple, kwargs: dict) -> list[torch.Tensor]:
        """Of a layer's arguments the first tensor, and those that layers have computed: `what` is
        "received" by this stage's first layer, or "sent" to the next one's."""
        first, _ = first_tensor(args, kwargs)
        tensors = _tensors(args, kwargs)
        if self._mark is not None:
            self.places[what] = [
                place for place, one in tensors.items() if place == first or self._is_marked(one)
            ]
        return [tensors[place] for place in self.places.get(what, [first])]

    def marked(self, tensor: torch.Tensor) -> torch.Tensor:
        """What a layer has computed."""
        is_found = self._mark is not None and tensor.is_floating_point()
        return tensor + self._mark if is_found else tensor

    def _mark_results(self, layer, args, results):
        return tree_map_only(torch.Tensor, self.marked, results)

    def _is_marked(self, tensor: torch.Tensor) -> bool:
        nodes, seen = [tensor.grad_fn], set()
        while nodes:
            node = nodes.pop()
            if node is not None and node not in seen:
                seen.add(node)
                if getattr(node, "variable", None) is self._mark:
                    return True
                nodes += [one for one, _ in node.next_functions]
        return False

    def twice(self) -> NotImplementedError:
        return NotImplementedError(
            f"accelerate: dist.pp: the model goes through its layers twice ({self.layers[0]}): a "
            "pipeline does once"
        )

    def forward(self, *received: Any, **batch: Any) -> torch.Tensor | tuple[torch.Tensor, ...]:
        if not self.is_new:
            return self._forward(received, batch)
        self.is_new = False
        self._mark = torch.zeros((), device=self.device, requires_grad=True)
        try:
            with unchanged(self.model, self.device), torch.enable_grad():
                made = self._forward(received, batch)
        finally:
            self._mark = None
        # PyTorch 2.15 also asks for sizes of gradients: with gradients enabled, for tensors that
        # have one.
        wants = torch.is_grad_enabled()
        return tree_map_only(
            torch.Tensor,
            lambda one: one.detach().requires_grad_(wants and one.is_floating_point()),
            made,
        )

    def _forward(self, received: tuple, batch: dict[str, Any]) -> Any:
        several = _Received.apply(*received) if len(received) > 1 else received
        self.received = tuple(map(self.marked, several))
        self.is_begun = False
        target = batch.pop(TARGET, None)
        try:
            made = self.model(**batch, **self.common)
        except _Done:
            sent, self.sent = self.sent, ()
            return sent if len(sent) > 1 else sent[0]
        finally:
            self.received = ()
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
