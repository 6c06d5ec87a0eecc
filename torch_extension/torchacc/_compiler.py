"""PyTorch's compiler is imported by who compiles, not by the first operation.

It takes seconds to import. Operations on acc would import it for two reasons that have nothing to
do with compiling: PyTorch's shape functions are told not to be traced by it, and it is asked about
the lines of every stack. Tested with PyTorch 2.11; where another version has these functions
elsewhere, the compiler is imported as before.
"""

import sys
from collections.abc import Callable, Iterator
from types import FunctionType

import torch

_MARK = "__dynamo_disable"
# Functions that are called as they are until the compiler is imported.
_marked: list[Callable] = []


def import_late() -> None:
    """Once, when the device is registered."""
    if "torch._dynamo" not in sys.modules:
        for function in _functions_kept_from_tracing():
            if not hasattr(function, _MARK):
                setattr(function, _MARK, function)
                _marked.append(function)
    plain = vars(torch)["__getattr__"]

    def __getattr__(name: str):  # noqa: N807, as PyTorch calls its own
        # Until something else imports it, no frame can be code that it generated.
        if name == "_inductor" and torch.ops.acc.is_symbolizing():
            raise AttributeError("no code has been generated")
        return plain(name)

    vars(torch)["__getattr__"] = __getattr__


def is_imported() -> None:
    """The compiler is there: it keeps its tracing out of these functions itself."""
    for function in _marked:
        if getattr(function, _MARK, None) is function:
            delattr(function, _MARK)
    _marked.clear()


def _functions_kept_from_tracing() -> Iterator[Callable]:
    """Those that `torch._disable_dynamo` wraps in PyTorch's shape functions.

    A wrapper imports the compiler when it is called first, unless the function has what the
    compiler would make of it as an attribute.
    """
    try:
        wrapper = torch._disable_dynamo(is_imported).__code__
    except AttributeError:
        return
    modules = [module for name, module in sys.modules.items() if name.startswith("torch._refs")]
    found = [value for module in modules for value in vars(module).values()]
    seen: set[int] = set()
    while found:
        function = found.pop()
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        found.append(getattr(function, "__wrapped__", None))
        cells = function.__closure__ or ()
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            try:
                inner = cell.cell_contents
            except ValueError:  # not set
                continue
            found.append(inner)
            if function.__code__ is wrapper and name == "fn" and callable(inner):
                yield inner
