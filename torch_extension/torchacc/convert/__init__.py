"""Checkpoints from one format to another, a tensor at a time: Hugging Face's safetensors, PyTorch's
distributed checkpoint (DCP), those of `torchacc.checkpoint`, Megatron's, and TorchAcc's shards."""

from torchacc.convert.conversion import consolidate, convert
from torchacc.convert.stored import ConversionError

__all__ = ["ConversionError", "consolidate", "convert"]
