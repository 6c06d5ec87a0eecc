"""nn.TransformerEncoder, tested with PyTorch 2.11: zeros at padded places.

In evaluation PyTorch packs what is not padding into a nested tensor and pads the last layer's
output with zeros, on its own devices and under conditions that no name says: that of the mask's
alignment is about its values. There are no nested tensors on acc. The layers run on what is padded,
and zeros are written where PyTorch would pad, in the program: the host reads no mask.
"""

import functools
from types import ModuleType

import torch
import torch.nn.functional as F

# TorchScript reads the source of PyTorch's own `forward`, and looks its names up here.
from torch import Tensor  # noqa: F401
from torch.nn.modules.transformer import _detect_is_causal_mask, _get_seq_len  # noqa: F401
from torch.overrides import has_torch_function

from torchacc import adapters


def _packs(encoder, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> bool:
    """Whether PyTorch would, on a device of its own, if the mask's values let it."""
    first = encoder.layers[0]
    tensors = (src, *first.parameters())
    return (
        torch.backends.mha.get_fastpath_enabled()
        and getattr(encoder, "use_nested_tensor", False)
        and not first.training
        and src.dim() == 3
        and mask is None
        and padding is not None
        and padding.shape == src.shape[:2]
        and not (_checks_mask(encoder) and torch.compiler.is_compiling())
        and not torch.is_autocast_enabled()
        and not has_torch_function(tensors)
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in tensors))
    )


def _checks_mask(encoder) -> bool:
    return getattr(encoder, "mask_check", True)


def _mend_encoder(module: ModuleType) -> None:
    def pads_with_zeros(original):
        @functools.wraps(original)
        def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
            padding = src_key_padding_mask
            if src.device.type != "acc" or not _packs(self, src, mask, padding):
                return original(self, src, mask, padding, is_causal)
            padding = F._canonical_mask(padding, "src_key_padding_mask", None, "mask", src.dtype)
            is_padding = padding.bool()
            lengths = is_padding.logical_not().sum(1, keepdim=True)
            left_out = torch.arange(src.shape[1], device=src.device) >= lengths
            if _checks_mask(self):
                # All rows or none: a mask that is not aligned is for the layers only.
                left_out = left_out & (left_out == is_padding).all()
            else:
                padding = torch.zeros_like(padding)
            padding = padding.masked_fill(left_out, float("-inf"))
            output = src
            for layer in self.layers:
                output = layer(
                    output, src_mask=None, is_causal=bool(is_causal), src_key_padding_mask=padding
                )
            output = output.masked_fill(left_out.unsqueeze(-1), 0.0)
            return output if self.norm is None else self.norm(output)

        return forward

    adapters.mend(
        module,
        "TransformerEncoder.forward",
        pads_with_zeros,
        "encoders in evaluation have other numbers than on the CPU at padded places",
    )


MENDS = {"torch.nn.modules.transformer": _mend_encoder}
