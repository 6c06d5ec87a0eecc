"""DLPack: arrays that cross between libraries without a copy.

`numpy.from_dlpack(x)`, `torch.from_dlpack(x)` and others take a tensor on acc as an array in the
memory that the device computes in: the host's, or a GPU's as device type kDLCUDA. It holds what the
tensor held then, and must not be written to, which the capsule says (PyTorch does not listen).
`torchacc.from_dlpack(array)` is the other way round.
"""

import ctypes
from typing import Any

import torch

_VERSIONED = b"dltensor_versioned"
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_CAPSULE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
_new = ctypes.pythonapi.PyCapsule_New
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _CAPSULE]
_new.restype = ctypes.py_object


class _Managed(ctypes.Structure):
    """What `DLManagedTensorVersioned` begins with."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", _DELETER),
    ]


@_CAPSULE
def _unused(capsule):
    """A capsule goes: who took its array has renamed it, else nobody did."""
    if _is_valid(capsule, _VERSIONED):
        managed = _pointer(capsule, _VERSIONED)
        _Managed.from_address(managed).deleter(managed)


def from_dlpack(array: Any) -> torch.Tensor:
    """A tensor on acc that holds what `array`, of any library that has DLPack, holds.

    Where the array is in the memory that the device computes in (host memory aligned to 16 bytes,
    or the GPU's), it is not copied, and must stay as it is for as long as the tensor is used.
    What is written to the tensor goes to memory of its own.
    """
    return torch.ops.acc.borrow(torch.from_dlpack(array).detach())


def _export(tensor, stream, max_version, dl_device, copy):
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set")
    here = torch.ops.acc.dlpack_device()
    is_here = dl_device is None or tuple(map(int, dl_device)) == here
    if is_here and not copy and max_version is not None and max_version[0] >= 1:
        # Any stream may read it: the library has waited.
        return _new(torch.ops.acc.to_dlpack(tensor.resolve_neg()), _VERSIONED, _unused)
    if copy is False:
        raise BufferError(
            "only a capsule of DLPack 1 on the tensor's own device shares its memory: it must say "
            "that it is read-only"
        )
    kind, number = here if is_here else map(int, dl_device)
    if kind == torch.utils.dlpack.DLDeviceType.kDLCPU:
        return tensor.cpu().__dlpack__(max_version=max_version)
    return tensor.to(f"cuda:{number}").__dlpack__(stream=stream, max_version=max_version)


def install() -> None:
    """Has `torch.Tensor` say of tensors on acc where their memory is."""
    others, other_device = torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__

    def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
        if self.device.type == "acc":
            return _export(self, stream, max_version, dl_device, copy)
        return others(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self):
        return torch.ops.acc.dlpack_device() if self.device.type == "acc" else other_device(self)

    torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__ = __dlpack__, __dlpack_device__
