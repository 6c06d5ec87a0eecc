"""A lazily traced, compiled device "acc" for PyTorch.

`import torch` alone makes the device: `torch.randn(2, 3, device="acc")`. Operations are recorded,
and run as one compiled program at a cut: after an optimizer step, when the host reads a value, or
where the program says so. This module has what PyTorch has no name for: cuts and what they cost.
`torch.acc` has the rest (devices, seeds, streams, memory), in the manner of `torch.cuda`.

Importing or installing this package starts no thread, reads no setting and changes no behaviour of
other devices; the runtime starts when "acc" is first used. Libraries that choose a device find it
as they find a GPU (`torchacc.adapters`).
"""

import importlib
from typing import TYPE_CHECKING, Any

import torch  # first: it may be what imports this package

import torchacc._built  # noqa: F401  (before anything that another PyTorch may not have)
from torchacc import adapters
from torchacc._explain import explain, explanation, set_recompile_limit, set_strict
from torchacc._metrics import host_calls, last_program, metrics, reset_metrics
from torchacc._progress import set_progress
from torchacc._register import load
from torchacc.adapters import accelerate_hf_trainer
from torchacc.backend import set_backend
from torchacc.dlpack import from_dlpack
from torchacc.dynamic import mark_dynamic
from torchacc.memory_limit import set_memory_limit
from torchacc.step import cut, mark_step, sync

if TYPE_CHECKING:
    from torchacc import fp8, optim
    from torchacc._accelerate import accelerate
    from torchacc._future import Future, future
    from torchacc._profile import profile
    from torchacc._report import report
    from torchacc.config import Config
    from torchacc.elastic import ElasticSampler
    from torchacc.loader import AsyncLoader
    from torchacc.offload import save_on_host
    from torchacc.weights import load_safetensors

load()
adapters.install()

# Names that many programs do not need and that take long to import, with their modules. These
# modules are attributes as well, whether they have been imported or not.
_LATER = {
    "AsyncLoader": "loader",
    "Config": "config",
    "ElasticSampler": "elastic",
    "Future": "_future",
    "accelerate": "_accelerate",
    "future": "_future",
    "load_safetensors": "weights",
    "profile": "_profile",
    "report": "_report",
    "save_on_host": "offload",
}
_LATER_MODULES = {
    *("auto", "checkpoint", "convert", "dynamo", "fp8", "health", "optim", "stablehlo"),
    *(module for module in _LATER.values() if not module.startswith("_")),
}


def __getattr__(name: str) -> Any:
    if name in _LATER_MODULES:
        return importlib.import_module(f"torchacc.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'torchacc' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"torchacc.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_LATER_MODULES})


__version__ = torch.ops.acc.version()

__all__ = [
    "AsyncLoader",
    "Config",
    "ElasticSampler",
    "Future",
    "accelerate",
    "accelerate_hf_trainer",
    "checkpoint",
    "cut",
    "explain",
    "explanation",
    "fp8",
    "from_dlpack",
    "future",
    "health",
    "host_calls",
    "last_program",
    "load_safetensors",
    "mark_dynamic",
    "mark_step",
    "metrics",
    "optim",
    "profile",
    "report",
    "reset_metrics",
    "save_on_host",
    "set_backend",
    "set_memory_limit",
    "set_progress",
    "set_recompile_limit",
    "set_strict",
    "stablehlo",
    "sync",
]
