"""nn.DataParallel and data_parallel, for PyTorch 2.11: the module runs where it is.

PyTorch moves the module to the device that it finds, and copies it to the others by what only CUDA
has. Devices of acc share what computes, so there is nothing to divide: `device_ids` is the module's
device alone. A module on the CPU stays there, and `device_ids` is empty, as if acc were not
installed.
"""

import functools
from itertools import chain

import torch
from torch.utils._pytree import tree_map_only

from torchacc.adapters import mend

_WHY = "nn.DataParallel on acc fails"


def _device(module):
    """The device of acc that the module is on, or None."""
    first = next(chain(module.parameters(), module.buffers()), None)
    return first.device if first is not None and first.device.type == "acc" else None


def _run(module, inputs, named, output_device):
    """What the module gives for its inputs, moved to acc if it is there."""

    def moved(values, device):
        return tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), values)

    device = _device(module)
    if device is not None:
        inputs, named = moved((inputs, named), device)
    made = module(*inputs, **named)
    # PyTorch's number for the CPU.
    return moved(made, "cpu") if output_device == -1 else made


def _data_parallel(parallel):
    def is_acc():
        return parallel._get_available_device_type() == "acc"

    def _init(original):
        @functools.wraps(original)
        def init(self, module, device_ids=None, output_device=None, dim=0):
            if not is_acc():
                return original(self, module, device_ids, output_device, dim)
            torch.nn.Module.__init__(self)
            device = _device(module)
            self.module, self.dim = module, dim
            self.device_ids = [] if device is None else [device.index]
            if output_device is None and device is not None:
                output_device = device.index
            self.output_device = output_device

        return init

    def _forward(original):
        @functools.wraps(original)
        def forward(self, *inputs, **kwargs):
            if not is_acc():
                return original(self, *inputs, **kwargs)
            # If PyTorch finds only the CPU it sets no output device, and so loads none.
            return _run(self.module, inputs, kwargs, getattr(self, "output_device", None))

        return forward

    def _function(original):
        @functools.wraps(original)
        def data_parallel(
            module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None
        ):
            if not is_acc():
                return original(module, inputs, device_ids, output_device, dim, module_kwargs)
            if not isinstance(inputs, tuple):
                inputs = () if inputs is None else (inputs,)
            return _run(module, inputs, module_kwargs or {}, output_device)

        return data_parallel

    mend(parallel, "DataParallel.__init__", _init, _WHY)
    mend(parallel, "DataParallel.forward", _forward, _WHY)
    mend(parallel, "data_parallel", _function, _WHY)


MENDS = {"torch.nn.parallel.data_parallel": _data_parallel}
