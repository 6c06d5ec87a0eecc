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
    "float to integer": Known("a float that an integer type does not hold becomes another number"),
    "mask of several dimensions": Known("x[mask] = …, and the gradient of x[mask], are refused"),
    "out of another shape": Known("out= of the right count, but another shape, is resized"),
    "expanded writes": Known(
        "writes through expanded views are not refused, or where PyTorch does not",
        failures="more than one element of the written-to tensor",
    ),
    "minimum of nothing": Known(
        "min and max of no bf16 numbers raise late",
        failures="Expected reduction dim . to have non-",
    ),
    "memory format": Known("sort, logical operators and others forget the order of dimensions"),
    "value errors": Known("errors that depend on values vanish where nobody reads the result"),
    "integer lerp": Known("lerp of integers casts a float weight of no dimensions", r"lerp"),
    "condition of bytes": Known("where() refuses a uint8 condition", failures="expected predicate"),
    "norm of one number": Known(
        "vector_norm over a dimension of size 1 gives no dimension up",
        r"vector_norm",
    ),
    "bools with alpha": Known("add of bools with alpha=-1 subtracts", r"alpha=-1"),
    "operand resized": Known(
        "out= that is also an operand is resized", failures="doesn't match the broadcast shape"
    ),
    "pool of infinities": Known("adaptive pools multiply what is outside by 0", r"adaptive_avg"),
    "sum into another type": Known("sum(out=) is cast after it, not before", r"(sum|mean)\(.*out="),
    "products of no bools": Known(
        "products of bools are refused late; PyTorch takes empty ones",
        failures="matmul: not implemented for 'bool'",
    ),
    "pool that is a view": Known(
        "max_pool1d is a view of what it computed, as on CUDA", failures="Can't detach views"
    ),
    "huber of two types": Known("huber_loss promotes, PyTorch's CPU does not", r"huber_loss"),
    "one class": Known("1-d input and 1-d target are refused", failures="size mismatch .got input"),
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
