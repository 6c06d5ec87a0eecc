"""StableHLO: programs of other systems as functions of tensors on acc.

`jax.jit(f).lower(*arguments).as_text()`, torch_xla and TensorFlow print modules of it.
"""

import os
from pathlib import Path

import torch

# What MLIR's bytecode begins with: https://mlir.llvm.org/docs/BytecodeFormat/
_BYTECODE = b"ML\xefR"


class Module:
    """A module of StableHLO: its function `main`, or its only public one.

    Calling it records its operations like any others: they fuse with what is around them, and are
    compiled once. `source` is text in either of StableHLO's forms. Calls are inlined and loops
    unrolled, whose number of rounds has to be known.

    Raises ValueError for what is no module, or has something that is not supported, with line and
    column.
    """

    def __init__(self, source: str):
        try:
            self._graph = torch.classes.acc.Graph(source)
        except RuntimeError as error:
            raise ValueError(f"StableHLO: {error}") from None

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The module's results for its inputs, on acc, of the types and sizes that it says. There
        are no gradients but those that the module computes.

        Raises RuntimeError for inputs of another number, device, type or size.
        """
        return tuple(self._graph.call([one.detach() for one in inputs]))

    def text(self) -> str:
        """The module as it is understood, as StableHLO in its generic form: one function, in which
        calls are inlined and loops unrolled."""
        return self._graph.stablehlo()


def load(path: str | os.PathLike) -> Module:
    """The module in a file of StableHLO text.

    Raises OSError for a file that cannot be read; ValueError as `Module`, and for bytecode.
    """
    data = Path(path).read_bytes()
    if data.startswith(_BYTECODE):
        raise ValueError(
            f"{os.fspath(path)} is MLIR bytecode, and text is read: "
            "stablehlo-translate --deserialize makes it of a portable artifact"
        )
    try:
        return Module(data.decode())
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
