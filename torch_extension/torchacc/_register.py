"""Registers the device "acc" with PyTorch, once per process."""

import sys

import torch
from torchacc_autoload import LIBRARY

from torchacc import _compiler, _printing, device, distributed, dlpack

_loaded = False


def load() -> None:
    """Makes "acc" a device of this process. Calling it again does nothing.

    The order is PyTorch's: the name before the library, whose kernels are registered under it; the
    library before the module, whose functions call its operators; the module before the generated
    methods (`Tensor.acc()`, `Module.acc()`, `is_acc`), which look it up.

    Raises ImportError when the library cannot be loaded, and when another package's device is
    there.
    """
    global _loaded
    if _loaded:
        return
    try:
        torch.utils.rename_privateuse1_backend("acc")
    except RuntimeError as error:
        raise ImportError(
            "another package has registered its device with PyTorch, which has room for one: "
            "uninstall it, or keep it from being loaded with TORCH_DEVICE_BACKEND_AUTOLOAD=0 and "
            f"import torchacc first ({error})"
        ) from error
    try:
        torch.ops.load_library(LIBRARY)
    except OSError as error:
        raise ImportError(
            f"{LIBRARY} cannot be loaded into PyTorch {torch.__version__}: build or install it "
            f"again ({error})"
        ) from error
    torch._register_device_module("acc", device)
    for module in (device.amp, device.memory, device.random, device.streams):
        sys.modules[f"torch.acc.{module.__name__.rpartition('.')[2]}"] = module
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    dlpack.install()
    _printing.install()
    distributed.register()
    _compiler.import_late()
    _loaded = True
