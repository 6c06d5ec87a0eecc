"""Imported first: raises ImportError where the libraries are not there, or are of another PyTorch.

PyTorch's C++ interface changes from one minor version to the next, and a library that was built for
another one would be missing a symbol, or find one that means something else.
"""

import torch
from torchacc_autoload import LIBRARY

# The __version__ of the PyTorch that the library was built for; the build writes it.
_FOR = LIBRARY.with_name("torch_version")


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _check() -> None:
    for file in (LIBRARY, _FOR):
        if not file.exists():
            raise ImportError(f"{file} is missing: build it with `make build`")
    built, there = _minor(_FOR.read_text()), _minor(torch.__version__)
    if built != there:
        raise ImportError(
            f"torchacc at {LIBRARY.parents[1]} was built for PyTorch {built}, and this is PyTorch "
            f"{torch.__version__}: install torch=={built}.*, or a torchacc-runtime for PyTorch "
            f"{there} (from its sources: `pip install --no-build-isolation .`, or `make build`)"
        )


_check()
