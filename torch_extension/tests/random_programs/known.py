"""What is known to fail: such programs are not drawn, or their failures are passed over.

An entry goes when its cause is cured; nothing else has to be changed.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """Why something fails; lines that are not drawn, and failures that say nothing new."""

    reason: str
    lines: str = ""
    failures: str = ""


KNOWN = {
    "half overflow": Known("a half value that overflows is finite inside a fused region"),
    "minimum of nothing": Known(
        "min and max of no bf16 numbers raise late",
        failures="Expected reduction dim . to have non-",
    ),
    "memory format": Known("sort, logical operators and others forget the order of dimensions"),
    "value errors": Known("errors that depend on values come late, and with every read of theirs"),
    "half beside the host": Known(
        "a 0-d half tensor and a 0-d CPU tensor of a wider type are multiplied in half", r" \* h\d"
    ),
    "unimplemented late": Known(
        "what has no kernel for a type says so late", failures="not implemented for '"
    ),
    "mask beside an index": Known(
        "x[mask, [0]] = … is refused where one row is",
        failures="indexing result of shape|indexing tensors could not be",
    ),
    "types of halves": Known(
        "index_put_ and out= of types that do not fit a half tensor are not refused",
        failures="Index put requires the source|Expected the dtype for input and out to match",
    ),
    "pool that is a view": Known("max_pool1d is a view here, as on CUDA", r"max_pool1d"),
    "zeros that are none": Known(
        "PyTorch refuses to add to the gradient that sgn gives; here it adds",
        failures="ZeroTensors are immutable",
    ),
    "sizes beyond two": Known(
        "a source of sizes that do not fit is refused late", failures="expected the source to have"
    ),
    "negative powers": Known(
        "powers of integers to negative numbers raise late", failures="negative integer powers"
    ),
    "rounded products": Known(
        "addmm of halves rounds before it scales and adds", r"addb?mm|F.linear"
    ),
    "gradients of two types": Known(
        "a Meta kernel that is wrong about a type is believed", failures="Meta kernel predicted"
    ),
    "huber of two types": Known("huber_loss promotes, PyTorch's CPU does not", r"huber_loss"),
    "number of the host first": Known(
        "logical_…(number on the host, tensor) is refused", failures="at least two devices, acc:0"
    ),
}


def known(name):
    return name in KNOWN


def drawn(line):
    """Whether a line may be drawn."""
    return not any(k.lines and re.search(k.lines, line) for k in KNOWN.values())


def is_known(message):
    """Whether a failure is one of those that are known."""
    return any(k.failures and re.search(k.failures, message) for k in KNOWN.values())
