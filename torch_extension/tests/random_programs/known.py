"""What is known to fail: such programs are not drawn, or their failures are passed over.

An entry goes when its cause is cured; nothing else has to be changed.
"""

import os
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
    "value errors": Known("errors that depend on values come late, and with every read of theirs"),
    "elu of NaN": Known(
        "the gradient is NaN; PyTorch's is in vectors and is not behind the last of them", r"F\.elu"
    ),
    "zeros that are none": Known(
        "PyTorch refuses to write to the gradient that sgn gives; here it is one like others",
        failures="ZeroTensors are immutable",
    ),
    "lists of views": Known(
        "a tensor is copied to be listed, which takes part in gradients, as on CUDA",
        failures=r"is a view and its base or another view of its base has been modified inplace",
    ),
    "pool that is a view": Known("max_pool1d is a view here, as on CUDA", r"max_pool1d"),
}
if os.environ.get("TORCHACC_BACKEND") == "cuda":
    KNOWN["places in rows"] = Known(
        "CUDA's kernel, which finds them, has other strides than the CPU's", r"nonzero|argwhere"
    )


def known(name):
    return name in KNOWN


def drawn(line):
    """Whether a line may be drawn."""
    return not any(k.lines and re.search(k.lines, line) for k in KNOWN.values())


def is_known(message):
    """Whether a failure is one of those that are known."""
    return any(k.failures and re.search(k.failures, message) for k in KNOWN.values())
