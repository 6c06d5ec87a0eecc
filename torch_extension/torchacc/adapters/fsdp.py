"""Which all-gathers are of sharded parameters. Of PyTorch 2.11.

Those before a forward pass and within its backward pass give the same, which the library cannot
see: other ranks may give something else. Within a memory limit it need not keep the first for long.
"""

import functools

import torch

from torchacc import adapters


def _of_parameters(original):
    @functools.wraps(original)
    def gather(*args, **kwargs):
        before = torch.ops.acc.gathers_parameters(True)
        try:
            return original(*args, **kwargs)
        finally:
            torch.ops.acc.gathers_parameters(before)

    return gather


def _mend(name):
    why = "within a memory limit gathered parameters are kept until the backward pass"
    return lambda module: adapters.mend(module, name, _of_parameters, why)


MENDS = {
    "torch.distributed.fsdp._flat_param": _mend("FlatParamHandle._all_gather_flat_param"),
    "torch.distributed.fsdp._fully_shard._fsdp_collectives": _mend("foreach_all_gather"),
}
