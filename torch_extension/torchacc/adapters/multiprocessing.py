"""torch.multiprocessing, for PyTorch 2.11: tensors on acc that are sent to other processes.

PyTorch shares the memory of what it sends, and that of acc cannot be shared. The other process gets
a copy on the same device. It goes as bytes: memory that the host shares would have to be kept until
a process that is being started has it.
"""

import ctypes
import functools
from multiprocessing.reduction import ForkingPickler

import torch

from torchacc.adapters import mend

_WHY = "tensors on acc cannot be sent to other processes"


def _received(data: bytes, device: torch.device) -> torch.UntypedStorage:
    if not data:
        return torch.UntypedStorage(0, device=device)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device).untyped_storage()


def _storage(original):
    @functools.wraps(original)
    def reduce_storage(storage):
        if storage.device.type != "acc":
            return original(storage)
        held = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).cpu()
        return _received, (ctypes.string_at(held.data_ptr(), held.numel()), storage.device)

    return reduce_storage


def _tensor(original):
    @functools.wraps(original)
    def reduce_tensor(tensor):
        reduced = original(tensor)
        if tensor.device.type != "acc" or tensor.layout != torch.strided or tensor.is_nested:
            return reduced
        is_whole = tensor.untyped_storage().nbytes() <= tensor.numel() * tensor.itemsize
        if is_whole and not tensor.is_conj() and not tensor.is_neg():
            return reduced
        # Copies only the part of its storage that the tensor shows, with the bits that the bytes
        # lack.
        rebuild, (kind, _, (_, *_, requires_grad)) = reduced
        copy = tensor.detach().clone().resolve_conj().resolve_neg()
        metadata = 0, copy.size(), copy.stride(), requires_grad
        return rebuild, (kind, copy._typed_storage(), metadata)

    return reduce_tensor


def _reductions(module):
    for name, make in {"reduce_storage": _storage, "reduce_tensor": _tensor}.items():
        original = getattr(module, name, None)
        mend(module, name, make, _WHY)
        # If it was registered before.
        for kind, reducer in list(ForkingPickler._extra_reducers.items()):
            if reducer is original:
                ForkingPickler.register(kind, getattr(module, name))


MENDS = {"torch.multiprocessing.reductions": _reductions}
