"""What `import torch` calls at its end; see the entry point in pyproject.toml.

It is outside the package because it must be able to decide not to import it: a package that cannot
work must not break `import torch` for programs that do not use it. A library that was never built
is passed over in silence (the build itself imports torch), one that does not fit is a warning.
`import torchacc` raises in both cases.
"""

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
    except ImportError as error:
        warnings.warn(f"the device acc is not available: {error}", stacklevel=2)
