"""PEFT knows acc. Tested with PEFT 0.21.2."""

import functools

from torchacc.adapters import in_use, mend


def _other(module):
    def infer_device(original):
        @functools.wraps(original)
        def infer():
            return "acc" if in_use() else original()

        return infer

    mend(module, "infer_device", infer_device, "adapters are loaded to the CPU")


MENDS = {"peft.utils.other": _other}
