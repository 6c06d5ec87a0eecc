"""Checkpoints of a training that may be killed at any moment: in memory that outlives its
processes, and on disk, as PyTorch's distributed checkpoint (DCP) has them."""

from torchacc.checkpoint.checkpointer import Checkpointer, CheckpointError, latest, verify

__all__ = ["CheckpointError", "Checkpointer", "latest", "verify"]
