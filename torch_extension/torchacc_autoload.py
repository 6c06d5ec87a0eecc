"""What `import torch` calls at its end; see the entry point in pyproject.toml.

It is outside the package because it must be able to decide not to import it: a package that cannot
work must not break `import torch` for programs that do not use it. A library that was never built
is passed over in silence (the build itself imports torch), every other failure is a warning.
`import torchacc` raises in both cases.
"""

import os
import sys
import warnings
from pathlib import Path

LIBRARY = Path(__file__).parent / "torchacc" / "lib" / "libtorchacc_torch.so"


def autoload() -> None:
    """Registers the device "acc" if the library is there, and PyTorch has no GPU of its own.

    PyTorch differentiates nothing on a GPU once another device has a name (its issue 161129), so
    there a program says that it wants acc: by `import torchacc`, or `TORCHACC_BACKEND`.
    """
    if not LIBRARY.exists() or has_own_gpu():
        return
    try:
        # Does nothing when `import torchacc` is what imports torch: it goes on by itself.
        import torchacc  # noqa: F401
    except Exception as error:  # noqa: BLE001
        warn(f"the device acc is not available; `import torchacc` raises why: {error}")


def has_own_gpu() -> bool:
    """Whether programs may compute on a GPU of PyTorch's, and nobody named a backend of acc's."""
    import torch

    return not os.environ.get("TORCHACC_BACKEND") and torch.cuda.device_count() > 0


def warn(message: str) -> None:
    """A warning also where warnings are errors."""
    try:
        warnings.warn(message, stacklevel=3)
    except Warning:
        print(message, file=sys.stderr)
