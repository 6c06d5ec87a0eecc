"""What `import torch` calls at its end; see the entry point in pyproject.toml.

It is outside the package because it must be able to decide not to import it: a package that cannot
work must not break `import torch` for programs that do not use it. A library that was never built
is passed over in silence (the build itself imports torch), every other failure is a warning.
`import torchacc` raises in both cases.
"""

import sys
import warnings
from pathlib import Path

LIBRARY = Path(__file__).parent / "torchacc" / "lib" / "libtorchacc_torch.so"


def autoload() -> None:
    """Registers the device "acc" if the library is there."""
    if not LIBRARY.exists():
        return
    try:
        # Does nothing when `import torchacc` is what imports torch: it goes on by itself.
        import torchacc  # noqa: F401
    except Exception as error:  # noqa: BLE001
        warn(f"the device acc is not available; `import torchacc` raises why: {error}")


def warn(message: str) -> None:
    """A warning also where warnings are errors."""
    try:
        warnings.warn(message, stacklevel=3)
    except Warning:
        print(message, file=sys.stderr)
