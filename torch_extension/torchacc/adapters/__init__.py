"""Adapters: what makes libraries that ask for devices by name find "acc".

Most code finds the device by PyTorch's own questions (`torch.accelerator`, `torch.acc`). Some
libraries have lists of names instead ("cuda", "xpu", "npu", …). For each of these there is one file
here. It is loaded when the library is imported, not before, and replaces single functions of it by
ones that also know acc. Where a version of the library has no such function there is a warning, and
the library stays as it is. Some are of PyTorch's own: its benchmarks, compiler (`torchacc.dynamo`),
process groups (`torchacc.distributed`), distributed tensors, sharded parameters and pipelines.

An adapter chooses acc wherever acc is loaded and available, before a GPU that PyTorch has besides:
in such a process PyTorch differentiates nothing on that GPU (its issue 161129).
"""

import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from torchacc_autoload import warn

from torchacc import device

# Libraries, by the name of their package or of the adapted part of it, with the module that adapts
# it, which is loaded with it, not before.
LIBRARIES = {
    "accelerate": "torchacc.adapters.accelerate",
    "lightning": "torchacc.adapters.lightning",
    "lightning_fabric": "torchacc.adapters.lightning",
    "peft": "torchacc.adapters.peft",
    "pytorch_lightning": "torchacc.adapters.lightning",
    "safetensors": "torchacc.adapters.safetensors",
    "torch._dynamo": "torchacc.dynamo",
    "torch._inductor": "torchacc.dynamo",
    "torch.distributed.distributed_c10d": "torchacc.distributed",
    "torch.distributed.fsdp": "torchacc.adapters.fsdp",
    "torch.distributed.pipelining": "torchacc.adapters.pipelining",
    "torch.distributed.tensor": "torchacc.adapters.dtensor",
    "torch.multiprocessing.reductions": "torchacc.adapters.multiprocessing",
    "torch.nested._internal.sdpa": "torchacc.adapters.nested",
    "torch.nn.attention.flex_attention": "torchacc.dynamo",
    "torch.nn.modules.transformer": "torchacc.adapters.encoder",
    "torch.nn.parallel.data_parallel": "torchacc.adapters.data_parallel",
    "torch.utils.benchmark": "torchacc.adapters.benchmark",
    "torchaudio": "torchacc.adapters.torchaudio",
    "transformers": "torchacc.adapters.transformers",
}

_missing: set[str] = set()
# By module being adapted and `id` of the original: the original and its replacement.
_replaced: dict[str, dict[int, tuple[Any, Any]]] = {}


def mend(module: ModuleType, name: str, make: Callable, why: str) -> None:
    """Replaces `module.name` by `make` of it, also where the library has imported it by name.

    The latter at the end of the function of `MENDS` that says so. `name` may be that of a class's
    attribute, "Class.method". Where it is missing, and where `make` raises LookupError or
    AttributeError because something that it needs is, nothing is replaced and there is a warning,
    in which `why` says what follows from that.
    """
    owner, _, last = name.rpartition(".")
    holder = vars(module).get(owner) if owner else module
    # The stored attribute: a property, not its value.
    original = getattr(holder, "__dict__", {}).get(last)
    try:
        if original is None:
            raise LookupError(name)
        replacement = make(original)
    except (AttributeError, LookupError):
        _warn_missing(f"{module.__name__}.{name}", why)
        return
    setattr(holder, last, replacement)
    if not owner:
        _replaced.setdefault(module.__name__, {})[id(original)] = original, replacement


def _replace_copies(module: ModuleType) -> None:
    """What was replaced in the module is so in all of its library, which is gone over once."""
    replaced = _replaced.pop(module.__name__, {})
    library = module.__name__.partition(".")[0]
    for name, other in list(sys.modules.items()) if replaced else ():
        # Runs no Python code for each of many values.
        if name.partition(".")[0] == library and not replaced.keys().isdisjoint(
            map(id, vars(other).values())
        ):
            for key, value in list(vars(other).items()):
                if id(value) in replaced:
                    setattr(other, key, replaced[id(value)][1])


def _library(name: str) -> str | None:
    """The one of `LIBRARIES` that the module `name` is part of."""
    return next((one for one in LIBRARIES if f"{name}.".startswith(f"{one}.")), None)


def _warn_missing(place: str, why: str) -> None:
    library = place.partition(".")[0]
    _missing.add(place)
    try:
        version = importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        version = "version unknown"
    warn(
        f"torchacc does not know this {library} ({version}): {place} is missing or different, so "
        f"{why}. {LIBRARIES[_library(place)]} says which versions work"
    )


class _Watched(ModuleSpec):
    """The spec of a module that is mended as soon as it has been executed.

    The import system sets `_initializing` to False then, also when this package is loaded by the
    `import torch` of a module that is being executed.
    """

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "_initializing" and not value:
            self.__class__ = ModuleSpec
            # A module whose execution failed has been removed.
            if self.name in sys.modules:
                _mend_module(sys.modules[self.name])


class _Finder:
    """Finds no module itself, but watches those that there is something to mend in."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        library = _library(name)
        if library is None or name not in _mends(library):
            return None
        for finder in sys.meta_path:
            find = None if finder is cls else getattr(finder, "find_spec", None)
            if find and (spec := find(name, path, target)):
                _watch(spec)
                return spec
        return None


def _watch(spec: ModuleSpec) -> None:
    if type(spec) is ModuleSpec:
        spec.__class__ = _Watched
    elif type(spec) is not _Watched:
        warn(f"torchacc cannot adapt {spec.name} to acc: another import hook has found it")


@functools.cache
def _mends(library: str) -> dict[str, Callable[[ModuleType], None]]:
    """By module, the functions that mend `library`."""
    mends = importlib.import_module(LIBRARIES[library]).MENDS
    return {name: function for name, function in mends.items() if _library(name) == library}


def _mend_module(module: ModuleType) -> None:
    # The library's import has succeeded, and must stay so.
    try:
        _mends(_library(module.__name__))[module.__name__](module)
    except Exception as error:  # noqa: BLE001
        warn(f"torchacc could not adapt {module.__name__} to acc: {error!r}")
    _replace_copies(module)


def install() -> None:
    """Adapts the libraries that are imported from now on, and those that have been.

    Calling it again does nothing.
    """
    if _Finder in sys.meta_path:
        return
    sys.meta_path.insert(0, _Finder)
    for library in LIBRARIES.keys() & sys.modules.keys():
        for name in _mends(library):
            if module := sys.modules.get(name):
                if getattr(module.__spec__, "_initializing", False):
                    _watch(module.__spec__)
                else:
                    _mend_module(module)


def accelerate_hf_trainer() -> str:
    """Makes Hugging Face's `Trainer`, and what else asks accelerate for a device, use acc.

    They do so without this call: it says so, or fails where they would not. To be called before
    `TrainingArguments` or `Accelerator` are made; `use_cpu=True` still means the CPU. Returns, and
    prints to stderr, a sentence that says what was done.

    Raises ImportError without transformers and accelerate, and RuntimeError for a version of them
    that cannot be adapted or when accelerate has chosen another device already.
    """
    for library in ("transformers", "accelerate"):
        if importlib.util.find_spec(library) is None:
            raise ImportError(f"accelerate_hf_trainer needs {library}: pip install {library}")
    import accelerate
    import transformers
    import transformers.trainer  # noqa: F401  (mends it)

    if _missing:
        raise RuntimeError(
            f"transformers {transformers.__version__} with accelerate {accelerate.__version__} "
            f"cannot use acc: {', '.join(sorted(_missing))} are missing or different"
        )
    state = accelerate.PartialState._shared_state
    if state and state["device"].type != "acc":
        raise RuntimeError(
            f"accelerate has chosen {state['device']} already: call accelerate_hf_trainer before "
            "TrainingArguments or Accelerator are made"
        )
    message = (
        f"torchacc: Trainer of transformers {transformers.__version__} and accelerate "
        f"{accelerate.__version__} use acc ({device.get_device_name()})"
    )
    print(message, file=sys.stderr)
    return message
