"""PEFT knows acc. Tested with PEFT 0.21.2."""

import functools

from torchacc import device as acc
from torchacc.adapters import mend


def _other(module):
    def infer_device(original):
        @functools.wraps(original)
        def infer():
            return "acc" if acc.is_available() else original()

        return infer

    mend(module, "infer_device", infer_device, "adapters are loaded to the CPU")


MENDS = {"peft.utils.other": _other}
