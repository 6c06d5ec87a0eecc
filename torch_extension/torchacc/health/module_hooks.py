"""The tensors of a step in the order in which they are computed: the model's inputs, what its
modules return, and the gradients of these, each with a name and a line."""

import os
import sys
import weakref
from collections.abc import Callable

import torch
import torch.nn as nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves

_LIBRARIES = tuple(
    os.path.dirname(os.path.abspath(sys.modules[name].__file__)) + os.sep
    for name in ("torch", "torchacc")
)


class ModuleHooks:
    """Calls `see(name, site, tensor)` for floating point tensors while gradients are recorded.

    `name` is "input of the model", "output of layers.0.mlp" or "gradient of the output of ...";
    `site` the line, "file:line", that called the module. What several modules return one after the
    other it sees once, of distributed tensors this rank's part, of what `torch.compile` has
    compiled the whole.
    """

    def __init__(self, model: nn.Module, see: Callable[[str, str, torch.Tensor], None]):
        self._see = see
        self._last: weakref.ref | None = None
        self._handles = [model.register_forward_pre_hook(self._input, with_kwargs=True)]
        for name, module in model.named_modules():
            label = f"output of {name or 'the model'}"
            self._handles.append(module.register_forward_hook(self._hook(label)))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _input(self, model, args, kwargs):
        if torch.is_grad_enabled():
            for tensor in tree_leaves((args, kwargs)):
                self._look("input of the model", _site, tensor)

    def _hook(self, label):
        def hook(module, args, output):
            if torch.is_grad_enabled():
                site = _site()
                for tensor in tree_leaves(output):
                    self._look(label, site, tensor)

        return hook

    def _look(self, label, site, tensor):
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            return
        # A module often returns the result of its last part.
        if self._last is not None and self._last() is tensor:
            return
        self._last = weakref.ref(tensor)
        site = site() if callable(site) else site
        with torch.no_grad():
            self._see(label, site, _local(tensor.detach()))
        # GradScaler looks for overflow in the gradients of halves, and skips the step.
        if tensor.requires_grad and tensor.dtype != torch.float16:
            tensor.register_hook(lambda gradient: self._gradient(label, site, gradient))

    def _gradient(self, label, site, gradient):
        with torch.no_grad():
            self._see(f"gradient of the {label}", site, _local(gradient.detach()))


def _local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _site() -> str:
    """The line of the program that called this module: the innermost that is no library's."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARIES) and not file.startswith("<frozen"):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
