"""How many bytes collectives of PyTorch's own backends take from a rank."""

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

# By operator, where what it takes from this rank stands.
TAKES = {
    "c10d::allreduce_": 0,
    "c10d::broadcast_": 0,
    "c10d::_allgather_base_": 1,
    "c10d::allgather_": 1,
    "c10d::allgather_into_tensor_coalesced_": 1,
    "c10d::_reduce_scatter_base_": 1,
    "c10d::reduce_scatter_": 1,
    "c10d::reduce_scatter_tensor_coalesced_": 1,
    "c10d::alltoall_base_": 1,
    "c10d::send": 0,
    "_c10d_functional::all_reduce": 0,
    "_c10d_functional::all_reduce_": 0,
    "_c10d_functional::broadcast": 0,
    "_c10d_functional::all_gather_into_tensor": 0,
    "_c10d_functional::all_gather_into_tensor_coalesced": 0,
    "_c10d_functional::reduce_scatter_tensor": 0,
    "_c10d_functional::all_to_all_single": 0,
}
# Others that take nothing.
FREE = {
    "c10d::recv_",
    "c10d::barrier",
    "_c10d_functional::wait_tensor",
    "_c10d_functional::_wrap_tensor_autograd",
}


class CollectiveBytes(TorchDispatchMode):
    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented  # what it does then, collectives among it, comes here again
        name = func._schema.name
        if name in TAKES:
            taken = args[TAKES[name]]
            tensors = taken if isinstance(taken, list | tuple) else [taken]
            self.bytes += sum(tensor.nbytes for tensor in flat(tensors))
        elif "c10d" in name and name not in FREE:
            raise NotImplementedError(f"{name}: how many bytes does it take?")
        return func(*args, **(kwargs or {}))


def flat(tensors):
    for one in tensors:
        yield from [one] if isinstance(one, torch.Tensor) else flat(one)
