"""safetensors loads to acc: `load_file(name, device="acc")`. Tested with safetensors 0.8.0."""

import functools

import torch

from torchacc._index import device_index
from torchacc.adapters import mend


def _safetensors(module):
    def safe_open(original):
        @functools.wraps(original)
        def open_file(filename, framework, device="cpu", *arguments, **named):
            # It lists names, but takes numbers: devices of PyTorch's accelerator, which is acc.
            if isinstance(device, str | torch.device) and str(device).partition(":")[0] == "acc":
                device = device_index(device)
            return original(filename, framework, device, *arguments, **named)

        return open_file

    mend(module, "safe_open", safe_open, 'files are not loaded to device="acc"')


MENDS = {"safetensors": _safetensors}
