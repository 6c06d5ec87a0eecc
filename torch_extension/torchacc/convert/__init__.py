"""Checkpoints from one format to another: Hugging Face's safetensors, PyTorch's distributed
checkpoint (DCP), those of `torchacc.checkpoint`, and Megatron's, a tensor at a time."""

from torchacc.convert.conversion import convert
from torchacc.convert.stored import ConversionError

__all__ = ["ConversionError", "convert"]
