"""PyTorch's jagged nested tensors, for 2.11: attention between them.

PyTorch chooses between kernels by asking what a GPU of NVIDIA can do, and for other devices makes
strided nested tensors, which acc has not. Here acc has the operator of one of the kernels.
"""

import functools

import torch
from torch.nn.attention import SDPBackend

from torchacc.adapters import mend


def _check(query, key, value) -> None:
    """Raises for what PyTorch would hand to the operator as if it were something else.

    ValueError, as PyTorch does: of NotImplementedError it would say something else.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 4 or tensor._ragged_idx != 2:
            raise ValueError(
                "scaled_dot_product_attention on acc needs jagged tensors of the form "
                f"[batch, heads, length, width] with ragged lengths, but {name} is of size "
                f"{tuple(tensor.shape)}. Unflatten the heads, and transpose(1, 2)"
            )
        if tensor.lengths() is not None:
            raise ValueError(
                "scaled_dot_product_attention on acc needs jagged tensors without holes, but "
                f"{name} has some: make it by torch.nested.as_nested_tensor of its parts"
            )
    if key.offsets() is not value.offsets() and not torch.equal(key.offsets(), value.offsets()):
        raise ValueError(
            "scaled_dot_product_attention: key and value must have the same lengths, but these are "
            f"{key.offsets().diff().tolist()} and {value.offsets().diff().tolist()}"
        )


def _sdpa(module):
    def select(original):
        @functools.wraps(original)
        def select_backend(query, key, value, *others):
            if query.device.type != "acc":
                return original(query, key, value, *others)
            _check(query, key, value)
            return SDPBackend.EFFICIENT_ATTENTION

        return select_backend

    mend(module, "_select_sdp_backend", select, "attention of jagged tensors refuses acc")


MENDS = {"torch.nested._internal.sdpa": _sdpa}
